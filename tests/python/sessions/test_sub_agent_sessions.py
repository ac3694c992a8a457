"""Sub-agents in sessions: stored in checkpoints, resumed after a cancellation, a kill or a restore."""

import asyncio
import contextlib
import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from support.sub_agent_family import call, calling, chain, echo, kept_places, once, results

from turntree import Session, ToolContext, agent, session
from turntree.execution import loop
from turntree.store import memory
from turntree.upp import UPPError, scripted, tool

# Sessions


def test_checkpoints_contain_the_sub_agent_session(run):
    place, places = kept_places()
    helper = agent(model=calling("place"), tools=[place])
    lead = agent(model=calling("helper", task="look"), tools=[helper.to_tool("helper")])
    sess = session(lead)

    run(sess.run("go"))

    first, last = sess.checkpoints
    (key,) = first.sub_agent_states
    state = first.sub_agent_states[key]
    assert key == first.state.messages[1].tool_calls[0].tool_call_id
    assert last.sub_agent_states.keys() == {key}
    assert state["version"] == "1.0.0"
    assert state["agentId"] == helper.id
    facts = state["metadata"]
    assert (facts["agentId"], facts["toolName"], facts["toolCallId"]) == (helper.id, "helper", key)
    assert facts["parentAgentId"] == lead.id
    assert facts["parentTurnId"] == places[0].parent_turn_id
    assert (facts["turnId"], facts["depth"], facts["status"]) == (places[0].turn_id, 1, "completed")
    assert len(state["checkpoints"]) == 2
    child = Session.from_json(state, helper)
    assert child.tree.history()[0].text == "look"
    assert places[0].session_id == state["id"] != sess.id
    assert Session.from_json(sess.to_json(), lead).to_json() == sess.to_json()
    assert sess.sub_agent_states.keys() == {key}


def test_sub_agent_sessions_nest_and_use_the_same_interval(run):
    leaf = agent(model=scripted(["x"] * 2))
    middle = agent(model=calling("leaf", task="t"), tools=[leaf.to_tool("leaf")])
    lead = agent(model=calling("middle", task="t"), tools=[middle.to_tool("middle")])

    sess = session(lead, checkpoint_interval="turn")
    run(sess.run("go"))

    (outer,) = sess.checkpoints[0].sub_agent_states.values()
    (checkpoint,) = outer["checkpoints"]
    (inner,) = checkpoint["subAgentStates"].values()
    assert (outer["metadata"]["depth"], inner["metadata"]["depth"]) == (1, 2)
    assert inner["metadata"]["parentTurnId"] == outer["metadata"]["turnId"]
    assert len(inner["checkpoints"]) == 1
    assert Session.from_json(sess.to_json(), lead).to_json() == sess.to_json()


def test_deeply_nested_sessions_are_stored_compactly(run):
    lead = chain(17, max_sub_agent_depth=16)
    sess = session(lead)

    run(sess.run("go"))

    text = sess.to_json()
    assert len(text) < 400_000
    assert text.count('"depth":16') == 2
    assert Session.from_json(text, lead).to_json() == text


def test_repeated_call_ids_do_not_hide_a_session(run):
    """Some vendors restart the numbering of call ids in each answer."""

    def reply(request):
        rounds = sum(message.type == "tool_result" for message in request.messages)
        return (
            "done"
            if rounds == 2
            else {"toolName": "helper", "toolCallId": "helper_0", "arguments": {"task": str(rounds)}}
        )

    helper = agent(model=scripted(echo))
    sess = session(agent(model=scripted(reply), tools=[helper.to_tool("helper")]))

    run(sess.run("go"))

    states = sess.checkpoints[-1].sub_agent_states
    assert len(states) == 2
    assert all(state["metadata"]["toolCallId"] == "helper_0" for state in states.values())
    assert {key for key, state in states.items() if key != "helper_0"} == {
        state["id"] for key, state in states.items() if key != "helper_0"
    }


class World:
    """An agent with a sub-agent whose tools record their calls; the gate blocks the second tool."""

    def __init__(self, log):
        self.log = log
        self.gate = None
        self.reached = None

        @tool
        async def first() -> str:
            self.log.append("first")
            return "one"

        @tool
        async def second() -> str:
            if self.gate is not None:
                self.reached.set()
                await self.gate.wait()
            self.log.append("second")
            return "two"

        def inner(request):
            self.log.append("inner model")
            rounds = sum(message.type == "tool_result" for message in request.messages)
            return [call("first"), call("second"), "inner answer"][rounds]

        def outer(request):
            self.log.append("outer model")
            return once(request, "middle") if len(request.messages) > 1 else [call("middle", task="t"), call("first")]

        leaf = agent(model=scripted(inner), tools=[first, second])
        self.middle = agent(model=calling("leaf", task="t"), tools=[leaf.to_tool("leaf")])
        self.lead = agent(model=scripted(outer), tools=[self.middle.to_tool("middle"), first])

    async def interrupted(self, sess):
        """Runs until the second tool of the innermost agent has started, then cancels."""
        self.gate, self.reached = asyncio.Event(), asyncio.Event()
        running = asyncio.create_task(sess.run("go"))
        await self.reached.wait()
        before = sess.to_json()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        return before, sess.to_json()


@pytest.mark.parametrize("saved", ["while it ran", "after it was stopped", "never"])
def test_resume_continues_inside_the_stopped_sub_agent(run, saved):
    log = []
    world = World(log)

    async def main():
        sess = session(world.lead)
        before, after = await world.interrupted(sess)
        if saved == "while it ran":
            assert next(iter(json.loads(before)["metadata"]["turntree"]["unfinished"]["subAgentStates"].values()))
        if saved != "never":
            sess = Session.from_json(before if saved == "while it ran" else after, World(log).lead)
            assert sess.to_json() == (before if saved == "while it ran" else after)
        (state,) = sess.sub_agent_states.values()
        assert state["metadata"]["status"] == ("running" if saved == "while it ran" else "interrupted")
        done = list(log)
        world.gate = None
        assert [call.tool_name for call in sess.in_doubt] == (["second"] if saved == "while it ran" else [])
        for pending in sess.in_doubt:
            sess.resolve(pending, retry=True)
        turn = await sess.resume()
        return sess, turn, done, log[len(done) :]

    sess, turn, done, rest = run(main())

    assert sorted(done) == sorted(["outer model", "first", "inner model", "first", "inner model"])
    assert rest == ["second", "inner model", "outer model"]
    assert results(turn)[0] == "inner answer"
    (state,) = sess.checkpoints[-1].sub_agent_states.values()
    assert state["metadata"]["status"] == "completed"
    assert sess.state is None


def test_finished_sub_agent_does_not_run_again_after_a_restore(run):
    log = []
    world = World(log)

    async def main():
        sess = session(world.lead)
        await sess.run("go")
        del log[:]
        again = Session.from_json(sess.to_json(), World(log).lead)
        await again.restore(again.checkpoints[0].id)
        return await again.resume()

    turn = run(main())
    assert log == ["outer model"]
    assert results(turn)[0] == "inner answer"


def test_sub_agent_stopped_after_its_answer_does_not_run_again(run):
    """The run stops between the end of the sub-agent and the next model call."""
    ran = []

    async def main():
        reached = asyncio.Event()
        hold = True

        async def after(made, params, result):
            if hold:
                reached.set()
                await asyncio.sleep(1000)

        helper = agent(model=scripted(lambda request: ran.append(1) or "the answer"))
        lead = agent(
            model=calling("helper", task="t"),
            tools=[helper.to_tool("helper")],
            tool_strategy={"on_after_call": after},
        )
        sess = session(lead)
        running = asyncio.create_task(sess.run("go"))
        await reached.wait()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        hold = False
        return await Session.from_json(sess.to_json(), lead).resume()

    assert run(main()).response.text == "the answer"
    assert ran == [1]


def test_failed_sub_agent_is_an_error_result_and_its_session_is_stored(run):
    helper = agent(model=scripted([UPPError("down", "PROVIDER_ERROR")]))
    sess = session(agent(model=calling("helper", task="t"), tools=[helper.to_tool("helper")]))

    turn = run(sess.run("go"))

    assert "down" in turn.response.text
    (state,) = sess.checkpoints[0].sub_agent_states.values()
    assert state["metadata"]["status"] == "failed"


def test_metadata_of_a_sub_agent_run_is_restored_on_resume(run):
    seen = []

    async def main():
        reached = asyncio.Event()
        gate = asyncio.Event()

        @tool
        async def note(context: ToolContext) -> str:
            context.metadata["noted"] = 7
            return "x"

        @tool
        async def read(context: ToolContext) -> str:
            reached.set()
            await gate.wait()
            seen.append(dict(context.metadata))
            return "x"

        def inner(request):
            rounds = sum(message.type == "tool_result" for message in request.messages)
            return [call("note"), call("read"), "x"][rounds]

        helper = agent(model=scripted(inner), tools=[note, read])
        lead = agent(model=calling("helper", task="t"), tools=[helper.to_tool("helper")])
        sess = session(lead)
        running = asyncio.create_task(sess.run("go"))
        await reached.wait()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        gate.set()
        await Session.from_json(sess.to_json(), lead).resume()

    run(main())
    assert seen == [{"noted": 7}]


CHILD_PROCESS = """
    import asyncio, os, sys
    sys.path[:0] = sys.argv[2:]
    from test_sub_agent_sessions import World
    from turntree import session

    class Log(list):
        def append(self, line):
            print(line, flush=True)

    async def main():
        world = World(Log())
        world.gate, world.reached = asyncio.Event(), asyncio.Event()
        sess = session(world.lead)
        running = asyncio.create_task(sess.run("go"))
        await world.reached.wait()
        with open(sys.argv[1], "w") as file:
            file.write(sess.to_json())
        os.kill(os.getpid(), 9)

    asyncio.run(main())
"""


def test_killed_process_loses_no_saved_data(run, tmp_path, root):
    saved = tmp_path / "session.json"
    folders = [str(Path(__file__).parent), str(root / "tests" / "python")]
    killed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CHILD_PROCESS), str(saved), *folders],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert killed.returncode == -9, killed.stderr
    assert sorted(killed.stdout.split("\n")[:-1]) == sorted(
        ["outer model", "first", "inner model", "first", "inner model"]
    )

    log = []
    sess = Session.from_json(saved.read_text(), World(log).lead)
    (pending,) = sess.in_doubt
    sess.resolve(pending, retry=True)
    turn = run(sess.resume())

    assert log == ["second", "inner model", "outer model"]
    assert results(turn)[0] == "inner answer"


@pytest.mark.parametrize("change", ["version", "truncated"])
def test_invalid_sub_agent_session_is_rejected_with_the_path_of_the_error(run, change):
    helper = agent(model=scripted(echo))
    lead = agent(model=calling("helper", task="t"), tools=[helper.to_tool("helper")])
    sess = session(lead)
    run(sess.run("go"))
    document = sess.to_dict()
    states = document["checkpoints"][0]["subAgentStates"]
    (key,) = states
    if change == "version":
        states[key]["version"] = "9.0.0"
    else:
        del states[key]["threadTree"]

    with pytest.raises(ValueError, match=f"checkpoints/0/subAgentStates/{key}"):
        Session.from_json(document, lead)


# Stores that save what is new


def nesting(rounds, look):
    """An agent that calls an agent that calls an agent, which calls `look` in `rounds` rounds."""

    def innermost(request):
        done = sum(message.type == "tool_result" for message in request.messages)
        return call("look", n=done) if done < rounds else "seen"

    leaf = agent(model=scripted(innermost), tools=[look], execution=loop(rounds + 1))
    middle = agent(model=calling("leaf", task="t"), tools=[leaf.to_tool("leaf")])
    return agent(model=calling("middle", task="t"), tools=[middle.to_tool("middle")])


async def test_store_has_the_sub_agents_of_a_run_at_any_time():
    store, compared = memory(), []

    @tool
    async def look(n: int) -> str:
        other = await Session.load(store, "s", lead)
        assert [call.arguments for call in other.in_doubt] == [{"n": n}]
        states = other.to_dict()["metadata"]["turntree"]["unfinished"]["subAgentStates"]
        assert states == sess.to_dict()["metadata"]["turntree"]["unfinished"]["subAgentStates"]
        compared.append(n)
        return "seen"

    lead = nesting(4, look)
    sess = await Session.open(store, "s", lead)
    for text in ("one", "two"):
        await sess.run(text)
        assert (await Session.load(store, "s", lead)).to_dict() == sess.to_dict()

    assert compared == [0, 1, 2, 3, 0, 1, 2, 3]


async def test_saved_size_of_a_sub_agent_is_linear_in_its_steps():
    @tool(inline=True)
    def look(n: int) -> str:
        return f"{n} " * 100

    async def size(rounds):
        store = memory()
        await (await Session.open(store, "s", nesting(rounds, look))).run("go")
        return (await store.sessions())[0].bytes

    few, many = await size(10), await size(40)
    assert many < 4.5 * few

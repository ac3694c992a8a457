"""Runs of sub-agents: depth, failures, approval and cancellation."""

import asyncio
import itertools
import threading
import time
import weakref

import pytest
from support.sub_agent_family import call, calling, chain, kept_places, once, results

from turntree import ToolContext, agent, session
from turntree.upp import UPPError, scripted, tool

# Depth


def test_each_run_of_three_nested_agents_names_its_parent(run):
    place, places = kept_places()
    names = ["lead", "first", "second", "third"]
    made = agent(system=names[3], model=scripted(lambda request: once(request, "place")), tools=[place])
    agents = [made]
    for depth in (2, 1, 0):
        inner = made.to_tool(names[depth + 1])
        model = scripted(
            lambda request, inner=inner: (
                "done" if request.messages[-1].type == "tool_result" else [call("place"), call(inner.name, task="down")]
            )
        )
        made = agent(system=names[depth], model=model, tools=[place, inner])
        agents.append(made)
    agents.reverse()

    run(made.run("go"))

    places.sort(key=lambda place: place.depth)
    assert [place.depth for place in places] == [0, 1, 2, 3]
    assert [place.agent_id for place in places] == [each.id for each in agents]
    assert (places[0].parent_agent_id, places[0].parent_turn_id) == (None, None)
    for outer, inner in itertools.pairwise(places):
        assert (inner.parent_agent_id, inner.parent_turn_id) == (outer.agent_id, outer.turn_id)
    assert len({place.turn_id for place in places}) == 4


def circle(limit=None):
    """Two agents that call each other endlessly, and how often each ran."""
    ran = []
    both = {}

    def ask(name):
        @tool(name=f"ask_{name}")
        async def ask_it() -> str:
            return (await both[name].run("again")).response.text

        return ask_it

    def model(name):
        def reply(request):
            last = request.messages[-1]
            if last.type == "tool_result":
                return str(last.results[0].result)
            ran.append(name)
            return call(f"ask_{'b' if name == 'a' else 'a'}")

        return scripted(reply)

    for name, other in ("ab", "ba"):
        both[name] = agent(name=name, model=model(name), tools=[ask(other)], max_sub_agent_depth=limit)
    return both["a"], ran


@pytest.mark.parametrize(("limit", "runs"), [(None, 9), (2, 3), (0, 1), (16, 17)])
def test_agents_that_call_each_other_stop_at_the_depth_limit(run, limit, runs):
    lead, ran = circle(limit)

    turn = run(lead.run("go"))

    assert len(ran) == runs
    assert "look for agents that call each other in a circle" in turn.response.text
    assert f"{runs} agents deep" in turn.response.text


def test_agents_passed_as_tools_stop_at_the_depth_limit(run):
    assert run(chain(9).run("go")).response.text == "bottom"
    assert "9 agents deep, and 8 is the most" in run(chain(10).run("go")).response.text


def test_outermost_agent_may_raise_the_depth_limit(run):
    assert run(chain(17, max_sub_agent_depth=16).run("go")).response.text == "bottom"
    assert chain(17, max_sub_agent_depth=16).run_sync("go").response.text == "bottom"
    assert run(session(chain(17, max_sub_agent_depth=16)).run("go")).response.text == "bottom"


@pytest.mark.parametrize("limit", [-1, 17, 1 << 40])
def test_depth_out_of_range_is_rejected(limit):
    with pytest.raises(ValueError, match="max_sub_agent_depth must be from 0 to 16"):
        agent(max_sub_agent_depth=limit)


@pytest.mark.parametrize("limit", ["8", 8.0, True])
def test_depth_of_the_wrong_type_is_rejected(limit):
    with pytest.raises(TypeError, match="max_sub_agent_depth must be an int"):
        agent(max_sub_agent_depth=limit)


# Runs and failures


def test_calls_of_one_sub_agent_run_concurrently(run):
    running, most = 0, 0
    everyone = asyncio.Event()

    @tool
    async def meet() -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 5:
            everyone.set()
        await asyncio.wait_for(everyone.wait(), 10)
        return "met"

    helper = agent(model=scripted(lambda request: once(request, "meet")), tools=[meet])
    model = scripted(
        lambda request: (
            "all done"
            if request.messages[-1].type == "tool_result"
            else [call("helper", task=str(n)) for n in range(5)]
        )
    )
    lead = agent(model=model, tools=[helper.to_tool("helper")])

    turn = run(lead.run("go"))

    assert most == 5
    assert results(turn) == ["done"] * 5


def test_failed_sub_agent_gives_an_error_result_and_its_usage_is_not_added(run):
    broken = agent(model=scripted([UPPError("it is down", "PROVIDER_ERROR")])).to_tool("broken")
    wordy = agent(model=scripted(["many words " * 100])).to_tool("wordy")

    def reply(request):
        last = request.messages[-1]
        return "done" if last.type == "tool_result" else [call("broken", task="t"), call("wordy", task="t")]

    turn = run(agent(model=scripted(reply), tools=[broken, wordy]).run("go"))
    alone = run(
        agent(model=scripted(reply), tools=[tool(name=n)(lambda task: "x") for n in ("broken", "wordy")]).run("go")
    )

    assert {record.tool_name: record.is_error for record in turn.tool_executions} == {"broken": True, "wordy": False}
    assert "it is down" in results(turn)[0]
    assert turn.usage.cycles is not None
    assert len(turn.usage.cycles) == len(alone.usage.cycles) == 2


def test_exception_from_a_sub_agent_tool_does_not_leave_the_sub_agent(run):
    @tool
    async def bad() -> str:
        raise ValueError("inner trouble")

    helper = agent(
        model=scripted(
            lambda request: str(request.messages[-1].results[0].result) if len(request.messages) > 1 else call("bad")
        ),
        tools=[bad],
    )
    lead = agent(model=calling("helper", task="t"), tools=[helper.to_tool("helper")])

    assert run(lead.run("go")).response.text == "inner trouble"


class Stop(BaseException):
    """A BaseException that is not an Exception."""


def test_base_exception_in_a_sub_agent_ends_all_runs():
    @tool(inline=True)
    def stop() -> str:
        raise Stop

    helper = agent(model=scripted(lambda request: once(request, "stop")), tools=[stop])
    lead = agent(model=calling("helper", task="t"), tools=[helper.to_tool("helper")])

    with pytest.raises(Stop):
        lead.run_sync("go")


@pytest.mark.parametrize(("answer", "text"), [(True, "wiped"), (False, "Tool execution denied by approval handler")])
def test_sub_agent_tools_use_their_own_approval(run, answer, text):
    asked = []

    def approve(arguments):
        asked.append(arguments)
        return answer

    @tool(approval=approve)
    async def wipe(disk: str) -> str:
        return "wiped"

    helper = agent(model=calling("wipe", disk="c"), tools=[wipe])
    lead = agent(model=calling("helper", task="t"), tools=[helper.to_tool("helper")])

    assert run(lead.run("go")).response.text == text
    assert asked == [{"disk": "c"}]


def test_sub_agent_call_may_require_approval(run):
    ran = []
    helper = agent(model=scripted(lambda request: ran.append(1) or "x")).to_tool("helper")
    helper.approval = lambda arguments: arguments["task"] != "harm"
    lead = agent(model=calling("helper", task="harm"), tools=[helper])

    assert "denied" in run(lead.run("go")).response.text
    assert not ran


def sleepy_family(started, stopped):
    """An agent with a sub-agent whose tool never returns."""

    @tool
    async def sleep() -> str:
        started.set()
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            stopped.set()
            raise
        return "woke"

    helper = agent(model=scripted(lambda request: once(request, "sleep")), tools=[sleep])
    return agent(model=calling("helper", task="t"), tools=[helper.to_tool("helper")])


def test_cancelling_a_run_cancels_its_sub_agents(run):
    async def main():
        started, stopped = asyncio.Event(), asyncio.Event()
        running = asyncio.create_task(sleepy_family(started, stopped).run("go"))
        await started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return await asyncio.wait_for(stopped.wait(), 10)

    assert run(main())


def test_aborting_a_stream_stops_its_sub_agents(run):
    async def main():
        started, stopped = asyncio.Event(), asyncio.Event()
        stream = sleepy_family(started, stopped).stream("go")

        async def listen():
            return [event async for event in stream]

        listening = asyncio.create_task(listen())
        await started.wait()
        stream.abort()
        assert await listening
        turn = await stream.turn
        assert turn.response.metadata["uap"]["aborted"] is True
        return await asyncio.wait_for(stopped.wait(), 10)

    assert run(main())


def test_sub_agent_tool_in_a_thread_sees_cancellation(run):
    begun, heard = threading.Event(), threading.Event()

    @tool
    def work(context: ToolContext) -> str:
        begun.set()
        while not context.cancelled:
            time.sleep(0.002)  # the poll interval of the tool
        heard.set()
        return "stopped"

    helper = agent(model=scripted(lambda request: once(request, "work")), tools=[work])
    lead = agent(model=calling("helper", task="t"), tools=[helper.to_tool("helper")])

    async def main():
        running = asyncio.create_task(lead.run("go"))
        await asyncio.to_thread(begun.wait, 10)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    run(main())
    assert heard.wait(10)


def test_sync_run_in_a_tool_thread_stops_with_the_outer_run(run):
    begun, over = threading.Event(), threading.Event()

    @tool
    async def sleep() -> str:
        begun.set()
        await asyncio.sleep(1000)
        return "woke"

    helper = agent(model=scripted(lambda request: once(request, "sleep")), tools=[sleep])

    @tool
    def delegate() -> str:
        turn = helper.run_sync("t")
        assert turn.response.metadata["uap"]["aborted"] is True
        over.set()
        return "x"

    async def main():
        running = asyncio.create_task(agent(model=calling("delegate"), tools=[delegate]).run("go"))
        await asyncio.to_thread(begun.wait, 10)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    run(main())
    assert over.wait(10)


def test_nested_runs_leave_no_objects(run, is_collected):
    class Marker:
        pass

    def family():
        marker = Marker()

        @tool
        async def keep(context: ToolContext) -> str:
            context.metadata["seen"] = 1
            return type(marker).__name__

        helper = agent(model=scripted(lambda request: once(request, "keep")), tools=[keep])
        lead = agent(model=calling("helper", task="t"), tools=[helper.to_tool("helper")])
        run(session(lead).run("go"))
        return weakref.ref(marker)

    assert is_collected(family())

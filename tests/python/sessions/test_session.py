"""Sessions as Python sees them: notebook use, order, cancelling, inside of itself, stores. UAP-1.0 §6, §9, §13."""

import asyncio
import copy
import gc
import json
import pickle
import threading
import time
import uuid
import weakref

import pytest
from pydantic import BaseModel, TypeAdapter

import turntree
from turntree import (
    Checkpoint,
    CorruptDataError,
    ExecutionState,
    PlanStep,
    Session,
    SessionError,
    StoreError,
    ToolContext,
    ValidationError,
    agent,
    ask,
    query,
    session,
)
from turntree.store import memory
from turntree.upp import Thread, UPPError, scripted, tool


def call(name, /, **arguments):
    return {"toolName": name, "arguments": arguments}


def echo(request):
    """A model that says what it was told."""
    return f"you said {request.messages[-1].text}"


def texts(messages):
    return [message.text for message in messages]


def rounds(request):
    """A model that has a tool called as often as the last user message says, then answers."""
    messages = list(request.messages)
    last = max(place for place, message in enumerate(messages) if message.type == "user")
    done = sum(message.type == "tool_result" for message in messages[last:])
    wanted = int("".join(filter(str.isdigit, messages[last].text)) or 0)
    if done < wanted:
        return call("note", n=done)
    if "fail" in messages[last].text and FAILING.is_set():
        raise UPPError("down", "PROVIDER_ERROR")
    return f"after {done}"


FAILING = threading.Event()


@pytest.fixture(autouse=True)
def succeed():
    FAILING.clear()


def noting(**options):
    """An agent whose tool notes its calls."""
    noted = []

    @tool
    def note(n: int) -> int:
        noted.append(n)
        return n

    return agent(model=scripted(rounds), tools=[note], **options), noted


# Runs


async def test_the_usage_of_the_specification():
    helper, _ = noting()
    sess = session(helper, checkpoints=True, checkpoint_interval="step")

    turn1 = await sess.run("1: create a hello world program")
    await sess.run("0: add error handling")
    assert len(sess.checkpoints) == 3
    await sess.restore(sess.checkpoints[1].id)
    turn3 = await sess.run("0: add logging instead")

    assert texts(sess.tree.history()) == texts(turn1.messages) + texts(turn3.messages)
    abandoned = [leaf for leaf in sess.tree.leaves() if leaf.name == "abandoned"]
    assert texts(abandoned[0].thread) == ["0: add error handling", "after 0"]


async def test_a_session_remembers():
    sess = session(agent(model=scripted(echo)), metadata={"task": "x"})

    await sess.run("one")
    turn = await sess.run("two")

    assert texts(turn.messages) == ["two", "you said two"]
    assert texts(sess.tree.history()) == ["one", "you said one", "two", "you said two"]
    assert uuid.UUID(sess.id).version == 4
    assert sess.tree is sess.thread_tree
    assert sess.current_checkpoint == sess.checkpoints[-1]
    assert sess.created_at <= sess.updated_at
    assert sess.created_at.tzinfo is not None
    assert sess.metadata == {"task": "x"}
    assert sess.state is None
    assert repr(sess) == f"Session(id='{sess.id}', messages=4, checkpoints=2)"
    assert "one" in sess._repr_html_()


def test_run_sync_in_a_script_and_in_a_notebook_cell(run):
    sess = session(agent(model=scripted(echo)))
    assert sess.run_sync("one").response.text == "you said one"

    async def cell():
        return sess.run_sync("two").response.text

    assert run(cell()) == "you said two"
    assert len(sess.tree.history()) == 4


async def test_a_stream_is_in_the_tree_when_it_has_ended():
    helper, _ = noting()
    sess = session(helper)

    stream = sess.stream("1")
    told = [event.uap.type async for event in stream if event.uap]

    assert told.count("checkpoint") == 2
    assert (await stream.turn).response.text == "after 1"
    assert len(sess.tree.history()) == 4
    assert [event.uap.type for event in sess.stream_sync("0") if event.uap].count("checkpoint") == 1
    assert len(sess.tree.history()) == 6


async def test_an_aborted_stream_keeps_what_there_is():
    @tool
    async def wait() -> str:
        await asyncio.sleep(30)
        return "never"

    sess = session(agent(model=scripted([call("wait")]), tools=[wait]))
    async with sess.stream("go") as stream:
        async for event in stream:
            if event.uap and event.uap.type == "action":
                stream.abort()
        turn = await stream.turn

    assert texts(sess.tree.history()) == texts(turn.messages)
    assert turn.response.metadata["uap"]["aborted"] is True


async def test_interval_turn_and_no_checkpoints():
    helper, _ = noting()
    turns, none = session(helper, checkpoint_interval="turn"), session(helper, checkpoints=False)

    for sess in (turns, none):
        await sess.run("2")
        await sess.run("1")

    assert [checkpoint.step for checkpoint in turns.checkpoints] == [3, 2]
    assert none.checkpoints == []
    assert none.current_checkpoint is None


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"checkpoint_interval": "day"}, ValueError, 'must be "step" or "turn"'),
        ({"id": "mine"}, ValidationError, "expected a UUIDv4"),
        ({"metadata": {"turntree": 1}}, ValidationError, "reserved for the session"),
        ({"metadata": {"x": object()}}, TypeError, "metadata/x"),
        ({"persistence": object()}, TypeError, "save is missing"),
    ],
)
def test_options_that_do_not_fit(options, error, words):
    with pytest.raises(error, match=words):
        session(agent(model=scripted(echo)), **options)


def test_a_session_needs_an_agent():
    with pytest.raises(TypeError, match="agent must be an Agent, not str"):
        session("helper")


# State that hooks and tools write


async def test_metadata_of_a_run_are_written_by_hooks_and_tools_and_stop_it():
    seen = []

    @tool
    def work(context: ToolContext) -> str:
        context.metadata["tool"] = context.session_id
        return "done"

    def end(step, result):
        result["state"].metadata["taskComplete"] = step == 2

    def stop(state):
        seen.append(dict(state.metadata))
        return state.metadata["taskComplete"]

    strategy = {"onStepEnd": end, "stopCondition": stop}
    sess = session(agent(model=scripted([call("work")] * 9), tools=[work], strategy=strategy))

    turn = await sess.run("go")

    assert turn.cycles == 2
    assert seen == [{"tool": sess.id, "taskComplete": False}, {"tool": sess.id, "taskComplete": True}]
    assert [checkpoint.state.metadata for checkpoint in sess.checkpoints] == seen


async def test_metadata_survive_a_failure_and_a_fresh_run_starts_without():
    seen = []

    def start(step, state):
        seen.append(dict(state.metadata))
        state.metadata[f"step{step}"] = True

    helper, _ = noting(strategy={"onStepStart": start})
    sess = session(helper)
    FAILING.set()
    with pytest.raises(UPPError):
        await sess.run("1 fail")
    FAILING.clear()
    seen.clear()

    again = Session.from_json(sess.to_json(), helper)
    await again.resume()
    await again.run("0")

    assert again.checkpoints[1].state.metadata == {"step1": True, "step2": True}
    # The second step began anew, then a run of its own did.
    assert seen == [{"step1": True}, {}]


# Failing, cancelling, going on


async def test_a_failed_run_adds_nothing_and_goes_on_without_repeating_tools():
    helper, noted = noting()
    sess = session(helper)
    FAILING.set()
    with pytest.raises(UPPError, match="down"):
        await sess.run("2 fail")
    assert sess.tree.history() == []
    assert noted == [0, 1]
    assert (sess.state.step, len(sess.state.messages)) == (2, 5)
    FAILING.clear()

    turn = await sess.resume()

    assert noted == [0, 1]
    assert len(turn.messages) == 6
    assert sess.tree.history() == turn.messages
    with pytest.raises(SessionError, match="no unfinished run"):
        await sess.resume()
    with pytest.raises(SessionError, match="no unfinished run"):
        sess.resume_sync()


def test_cancelling_anywhere_leaves_a_session_that_goes_on(run):
    async def main(wait):
        called = []

        @tool
        async def slow(n: int) -> int:
            called.append(n)
            await asyncio.sleep(0.02)
            return n

        def model(request):
            done = sum(message.type == "tool_result" for message in request.messages)
            return [call("slow", n=done * 2), call("slow", n=done * 2 + 1)] if done < 2 else "end"

        sess = session(agent(model=scripted(model), tools=[slow]))
        task = asyncio.create_task(sess.run("go"))
        await asyncio.sleep(wait)
        task.cancel()
        ended = (await asyncio.gather(task, return_exceptions=True))[0]
        if isinstance(ended, asyncio.CancelledError):
            assert sess.tree.history() == []
            messages = sess.state.messages if sess.state else []
            answered = [r.result for m in messages if m.type == "tool_result" for r in m.results]
            called.clear()
            ended = await (sess.resume() if sess.state else sess.run("go"))
            assert not set(called) & set(answered)
        assert len(ended.messages) == 6
        assert sess.tree.history() == ended.messages

    for wait in (0, 0.005, 0.015, 0.025, 0.035, 0.045):
        run(main(wait))


async def test_a_killed_run_goes_on_in_another_session_object():
    helper, noted = noting()
    sess = session(helper, metadata={"user": "ann"})
    FAILING.set()
    with pytest.raises(UPPError):
        await sess.run("1 fail")
    FAILING.clear()
    text = sess.to_json()

    other = Session.from_json(text, helper)
    assert other.to_json() == text
    await other.resume()

    assert noted == [0]
    assert other.metadata == {"user": "ann"}
    assert len(other.tree.history()) == 4


async def test_restoring_the_middle_shows_what_is_pending():
    helper, _ = noting()
    sess = session(helper)
    await sess.run("2")
    middle = sess.checkpoints[0]

    await sess.restore(middle.id)

    assert sess.tree.history() == []
    assert sess.restored == middle.state.messages
    assert sess.state == middle.state
    assert sess.current_checkpoint == middle
    await sess.run("0")
    assert len(sess.tree.history()) == 5
    assert sess.restored == []


async def test_unknown_ids():
    sess = session(agent(model=scripted(echo)))

    with pytest.raises(SessionError, match='no checkpoint "x"'):
        await sess.restore("x")
    with pytest.raises(KeyError, match="no node"):
        sess.fork("x")


async def test_messages_that_were_taken_away_cannot_be_restored():
    sess = session(agent(model=scripted(echo)))
    await sess.run("one")
    sess.tree.root.thread.clear()

    with pytest.raises(SessionError, match=r"needs 2 message\(s\)"):
        await sess.restore(sess.checkpoints[0].id)


# Order, and inside of itself


async def test_runs_at_once_come_one_after_the_other():
    sess = session(agent(model=scripted(echo)))

    turns = await asyncio.gather(*(sess.run(str(n)) for n in range(50)))

    assert [turn.messages[0].text for turn in turns] == [str(n) for n in range(50)]
    assert texts(sess.tree.history())[::2] == [str(n) for n in range(50)]


async def test_a_cancelled_waiter_leaves_the_line():
    gate = asyncio.Event()

    @tool
    async def wait() -> str:
        await gate.wait()
        return "on"

    def model(request):
        last = request.messages[-1]
        return call("wait") if last.text == "wait" else "ok"

    sess = session(agent(model=scripted(model), tools=[wait]))
    first = asyncio.create_task(sess.run("wait"))
    second = asyncio.create_task(sess.run("b"))
    third = asyncio.create_task(sess.run("c"))
    await asyncio.sleep(0.01)
    second.cancel()
    gate.set()
    await first
    await third

    assert [message.text for message in sess.tree.history() if message.type == "user"] == ["wait", "c"]


@pytest.mark.parametrize("kind", ["run", "run_sync", "stream", "resume", "restore", "thread", "nested"])
async def test_a_run_from_inside_a_tool_of_the_same_session_is_refused(kind):
    @tool
    async def again() -> str:
        if kind == "run":
            await sess.run("x")
        elif kind == "run_sync":
            sess.run_sync("x")
        elif kind == "stream":
            await sess.stream("x")
        elif kind == "resume":
            await sess.resume()
        elif kind == "restore":
            await sess.restore(sess.checkpoints[0].id)
        elif kind == "thread":
            await asyncio.to_thread(sess.run_sync, "x")
        else:
            await other.run("x")
        return "no"

    @tool
    async def back() -> str:
        await sess.run("x")
        return "no"

    other = session(agent(model=scripted([call("back"), "told"]), tools=[back]))
    sess = session(agent(model=scripted(["first", call("again"), "told"]), tools=[again]))
    await sess.run("zero")

    turn = await asyncio.wait_for(sess.run("go"), 10)

    inner = other.tree.history()[2].results[0] if kind == "nested" else turn.tool_executions[0]
    assert inner.is_error
    assert "from inside a run of its own" in inner.result
    assert turn.response.text == "told"


async def test_a_task_that_outlives_the_run_may_use_the_session():
    later = []

    async def follow_up():
        await asyncio.sleep(0.02)
        await sess.run("later")

    @tool
    async def start() -> str:
        later.append(asyncio.create_task(follow_up()))
        return "started"

    sess = session(agent(model=scripted([call("start"), "ok", "later too"]), tools=[start]))
    await sess.run("go")
    await later[0]

    assert texts(sess.tree.history())[-2:] == ["later", "later too"]


async def test_another_session_may_run_inside():
    other = session(agent(model=scripted(echo)))

    @tool
    async def delegate() -> str:
        return (await other.run("sub")).response.text

    sess = session(agent(model=scripted([call("delegate"), "ok"]), tools=[delegate]))

    turn = await sess.run("go")

    assert turn.tool_executions[0].result == "you said sub"


async def test_run_sync_beside_a_run_on_the_same_loop_is_refused_and_not_a_deadlock():
    @tool
    async def wait() -> str:
        await asyncio.sleep(0.05)
        return "on"

    sess = session(agent(model=scripted([call("wait"), "ok"]), tools=[wait]))
    task = asyncio.create_task(sess.run("go"))
    await asyncio.sleep(0.01)

    with pytest.raises(SessionError, match="on the event loop of this thread"):
        sess.run_sync("x")

    await task


def test_threads_take_turns():
    sess = session(agent(model=scripted(echo)))
    threads = [threading.Thread(target=sess.run_sync, args=(str(n),)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    said = texts(sess.tree.history())
    assert sorted(said[::2], key=int) == [str(n) for n in range(20)]
    assert said[1::2] == [f"you said {text}" for text in said[::2]]


async def test_a_thousand_sessions_at_once():
    helper, _ = noting()
    sessions = [session(helper, persistence=memory()) for _ in range(1000)]

    turns = await asyncio.gather(*(sess.run("1") for sess in sessions))

    assert {turn.response.text for turn in turns} == {"after 1"}
    assert all(len(sess.checkpoints) == 2 and len(sess.persistence) == 1 for sess in sessions)


async def test_the_tree_may_change_while_a_run_is_under_way():
    @tool
    async def wander() -> str:
        branch = sess.fork(sess.tree.root.id)
        sess.tree.checkout(branch)
        return branch

    sess = session(agent(model=scripted([call("wander"), "ok"]), tools=[wander]))

    turn = await sess.run("go")

    assert sess.tree.root.thread.messages == turn.messages
    assert sess.tree.current.id == turn.tool_executions[0].result
    assert sess.tree.history() == []


# Keeping


async def test_saving_and_loading():
    store = memory()
    helper, _ = noting()
    sess = session(helper, persistence=store, metadata={"n": 1})
    await sess.run("1")
    sess.metadata["n"] = {"deep": [1.5]}
    await sess.save()

    again = await Session.load(store, sess.id, helper)

    assert again.to_dict() == sess.to_dict()
    assert again.metadata == {"n": {"deep": [1.5]}}
    await again.run("0")
    assert len((await Session.load(store, sess.id, helper)).tree.history()) == 6


async def test_what_load_cannot_give():
    store = memory()
    helper = agent(model=scripted(echo))
    with pytest.raises(SessionError, match="no session is saved"):
        await Session.load(store, "x", helper)
    await store.save("session:x", "{")
    with pytest.raises(CorruptDataError, match='session "x" cannot be read'):
        await Session.load(store, "x", helper)


async def test_without_a_store_nothing_is_saved_until_it_is_asked_for():
    helper = agent(model=scripted(echo))
    sess = session(helper)
    await sess.run("one")
    assert len(sess.persistence) == 0

    await sess.save()

    assert (await Session.load(sess.persistence, sess.id, helper)).to_json() == sess.to_json()


class Shelf:
    """A store with synchronous methods, which may fail or be slow."""

    def __init__(self):
        self.texts = {}
        self.threads = set()
        self.failing = False
        self.nap = 0.0

    def save(self, key, data):
        self.threads.add(threading.get_ident())
        time.sleep(self.nap)
        if self.failing:
            raise OSError("disk full")
        self.texts[key] = data

    def load(self, key):
        return self.texts.get(key)

    def delete(self, key):
        self.texts.pop(key, None)


def test_a_synchronous_store_serves_every_way_to_run(run):
    shelf = Shelf()
    helper = agent(model=scripted(echo))
    sess = session(helper, persistence=shelf)

    async def main():
        await sess.run("one")
        await sess.stream("two")
        assert threading.get_ident() not in shelf.threads
        return await Session.load(shelf, sess.id, helper)

    loaded = run(main())
    assert len(loaded.tree.history()) == 4
    sess.run_sync("three")
    assert json.loads(shelf.texts[f"session:{sess.id}"]) == sess.to_dict()


async def test_a_store_that_fails_loses_no_turn():
    shelf = Shelf()
    sess = session(agent(model=scripted(echo)), persistence=shelf)
    shelf.failing = True

    with pytest.raises(StoreError, match="disk full") as caught:
        await sess.run("one")
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.turn.response.text == "you said one"
    with pytest.raises(StoreError, match="disk full"):
        await sess.stream("two")
    with pytest.raises(OSError, match="disk full"):
        await sess.save()

    shelf.failing = False
    await sess.save()
    assert len(sess.tree.history()) == 4
    assert json.loads(shelf.texts[f"session:{sess.id}"]) == sess.to_dict()


async def test_cancelled_while_it_is_saved_the_turn_is_there():
    shelf = Shelf()
    shelf.nap = 0.05
    sess = session(agent(model=scripted(echo)), persistence=shelf)
    task = asyncio.create_task(sess.run("one"))
    await asyncio.sleep(0.02)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert len(sess.tree.history()) == 2
    await sess.run("two")
    assert len(sess.tree.history()) == 4


async def test_a_failed_run_is_saved_so_that_another_process_goes_on():
    store = memory()
    helper, noted = noting()
    sess = session(helper, persistence=store)
    FAILING.set()
    with pytest.raises(UPPError):
        await sess.run("1 fail")
    FAILING.clear()

    other = await Session.load(store, sess.id, helper)
    await other.resume()

    assert noted == [0]


# Data


async def values():
    helper, _ = noting()
    sess = session(helper)
    await sess.run("1")
    checkpoint = sess.checkpoints[0]
    return [checkpoint, checkpoint.state, PlanStep("1", "Look", depends_on=["0"], status="in_progress")]


async def test_checkpoints_and_states_are_data():
    for value in await values():
        cls = type(value)
        assert cls.model_validate_json(value.model_dump_json()) == value
        assert cls.model_validate(value.model_dump()) == value
        assert pickle.loads(pickle.dumps(value)) == value
        assert copy.deepcopy(value) == value
        assert hash(value) == hash(cls.model_validate(value.to_dict()))
        assert TypeAdapter(cls).validate_python(value.to_dict()) == value
        assert cls.model_json_schema()["properties"]
        assert repr(value).startswith(cls.__name__)

    class Holder(BaseModel):
        model_config = {"arbitrary_types_allowed": False}
        checkpoint: Checkpoint
        state: ExecutionState

    checkpoint, state, _ = await values()
    assert Holder.model_validate_json(Holder(checkpoint=checkpoint, state=state).model_dump_json())


async def test_the_shape_of_a_checkpoint():
    checkpoint, state, step = await values()

    assert set(checkpoint.to_dict()) == {
        "id", "sessionId", "timestamp", "step", "threadId", "state", "subAgentStates", "metadata"
    }  # fmt: skip
    assert set(state.to_dict()) == {"step", "messages", "metadata"}
    assert step.to_dict() == {"id": "1", "description": "Look", "dependsOn": ["0"], "status": "in_progress"}
    assert (step.tool, step.depends_on, step.status) == (None, ["0"], "in_progress")
    assert checkpoint.sub_agent_states == {}
    assert checkpoint.metadata == {}
    assert state.reasoning is None
    assert state.plan is None
    with pytest.raises(ValueError, match="status must be one of"):
        PlanStep("1", "x", status="lost")


def test_flawed_documents_are_refused_with_their_place():
    helper = agent(model=scripted(echo))
    sess = session(helper)
    document = sess.to_dict()

    with pytest.raises(ValidationError, match="/version: the session is of UAP") as caught:
        Session.from_json({**document, "version": "2.0.0"}, helper)
    assert caught.value.errors()[0]["pointer"] == "/version"
    with pytest.raises(ValidationError, match="/threadTree/rootId"):
        Session.from_json({**document, "threadTree": {**document["threadTree"], "rootId": "x"}}, helper)
    with pytest.raises(ValidationError, match="not a UUIDv4"):
        Session.from_json({**document, "id": "x"}, helper, strict=True)
    assert Session.from_json({**document, "id": "x"}, helper).id == "x"


async def test_a_session_that_leads_to_itself_is_collected():
    class Owner:
        def __init__(self):
            self.helper = agent(model=scripted([call("work"), "ok"]), tools=[tool(self.work)])
            self.session = session(self.helper, metadata={})

        def work(self) -> str:
            """Work."""
            return "done"

    owner = Owner()
    await owner.session.run("go")
    found = weakref.ref(owner)
    del owner
    gc.collect()

    assert found() is None


# ask and query


async def test_ask_talks_in_the_thread():
    helper = agent(model=scripted(echo))
    thread = Thread()

    await ask(helper, "one", thread)
    turn = await ask(helper, "two", thread)

    assert turn.messages == thread.messages[2:]
    assert (await ask(helper, "alone")).response.text == "you said alone"
    with pytest.raises(TypeError, match="thread must be a Thread, not list"):
        await ask(helper, "x", [])


async def test_ask_in_a_node_of_a_tree():
    sess = session(agent(model=scripted(echo)))

    await ask(sess.agent, "one", sess.tree.current.thread)

    assert texts(sess.tree.history()) == ["one", "you said one"]


async def test_a_query_inside_a_run_is_kept_with_the_session():
    expert = agent(model=scripted(echo))
    results = []

    @tool
    async def research(topic: str) -> str:
        results.append(await query(expert, topic))
        return results[0].turn.response.text

    helper = agent(model=scripted([call("research", topic="owls"), "ok"]), tools=[research])
    sess = session(helper)
    turn = await sess.run("go")
    more = await results[0].continue_("mice")

    node = next(node for node in sess.tree.nodes.values() if node.metadata.get("kind") == "query")
    assert node.metadata == {"kind": "query", "agentId": expert.id}
    assert node.thread == results[0].thread == more.thread
    assert texts(sess.tree.history(node.id)) == ["owls", "you said owls", "mice", "you said mice"]
    assert sess.tree.history() == turn.messages
    again = Session.from_json(sess.to_json(), helper)
    assert texts(again.tree.history(node.id)) == texts(sess.tree.history(node.id))


def test_the_names_are_there():
    names = {"Checkpoint", "ExecutionState", "PlanStep", "QueryResult", "Session", "ask", "query", "session"}
    assert names <= set(turntree.__all__)
    assert Session.__module__ == Checkpoint.__module__ == "turntree"


# Structured answers


class City(BaseModel):
    name: str


def cities(*answers):
    """An agent that answers by the list and may repair one answer."""
    return agent(model=scripted(list(answers)), structure=City, structure_repair=True)


async def test_structured_answers_have_their_type_and_are_repaired():
    sess = session(cities("{}", '{"name": "Tokyo"}'))

    turn = await sess.run("city?")

    assert (turn.data, turn.cycles, len(sess.checkpoints)) == (City(name="Tokyo"), 2, 2)
    assert list(sess.tree.history()) == list(turn.messages)


async def test_a_structured_stream_of_a_session_shows_the_answer_as_it_comes():
    stream = session(cities('{"name": "Tokyo"}')).stream("city?")

    async for _ in stream:
        pass

    assert stream.partial == {"name": "Tokyo"}
    assert (await stream.turn).data == City(name="Tokyo")


async def test_a_run_restored_before_its_repair_is_repaired_after_a_reload():
    sess = session(cities("{}", '{"name": "Tokyo"}'))
    await sess.run("city?")
    await sess.restore(sess.checkpoints[0].id)

    turn = await Session.from_json(sess.to_json(), agent=cities('{"name": "Kyoto"}')).resume()

    assert (turn.data, turn.cycles) == (City(name="Kyoto"), 2)

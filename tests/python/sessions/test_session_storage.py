"""Saving and loading of sessions, their JSON form, `ask` and `query`, structured answers."""

import asyncio
import contextlib
import copy
import json
import pickle
import threading
import uuid
import weakref

import pytest
from pydantic import BaseModel, TypeAdapter
from session_support import (
    FAILING,
    call,
    echo,
    noting,
    succeed,  # noqa: F401
    texts,
)

import turntree
from turntree import (
    Checkpoint,
    CorruptDataError,
    ExecutionState,
    PlanStep,
    Session,
    SessionError,
    StoreError,
    ValidationError,
    agent,
    ask,
    query,
    session,
)
from turntree.execution import loop
from turntree.store import memory
from turntree.upp import Thread, UPPError, scripted, tool

# Saving and loading


async def test_saved_session_can_be_loaded():
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


async def test_load_rejects_missing_and_corrupt_sessions():
    store = memory()
    helper = agent(model=scripted(echo))
    with pytest.raises(SessionError, match="no session is saved"):
        await Session.load(store, "x", helper)
    store = Shelf()
    store.save("session:x", "{")
    with pytest.raises(CorruptDataError, match='session "x" cannot be read'):
        await Session.load(store, "x", helper)


async def test_without_a_store_only_explicit_save_writes():
    helper = agent(model=scripted(echo))
    sess = session(helper)
    await sess.run("one")
    assert await sess.persistence.sessions() == []

    await sess.save()

    assert (await Session.load(sess.persistence, sess.id, helper)).to_json() == sess.to_json()


class Shelf:
    """A store with synchronous methods that can fail or wait for a gate."""

    def __init__(self):
        self.texts = {}
        self.threads = set()
        self.failing = False
        self.saving, self.gate = threading.Event(), threading.Event()
        self.gate.set()

    def save(self, key, data):
        self.threads.add(threading.get_ident())
        self.saving.set()
        assert self.gate.wait(10)
        if self.failing:
            raise OSError("disk full")
        self.texts[key] = data

    def load(self, key):
        return self.texts.get(key)

    def delete(self, key):
        self.texts.pop(key, None)


def test_synchronous_store_works_with_all_run_methods(run):
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


async def test_store_failure_loses_no_turn():
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


async def test_turn_of_a_run_cancelled_during_its_save_is_not_lost():
    shelf = Shelf()
    shelf.gate.clear()
    sess = session(agent(model=scripted(echo)), persistence=shelf)
    task = asyncio.create_task(sess.run("one"))
    assert await asyncio.to_thread(shelf.saving.wait, 10)
    task.cancel()
    await asyncio.sleep(0)
    shelf.gate.set()
    await asyncio.gather(task, return_exceptions=True)

    assert len(sess.tree.history()) == 2
    await sess.run("two")
    assert len(sess.tree.history()) == 4


async def test_failed_run_is_saved_and_resumes_in_another_process():
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


async def test_checkpoints_and_states_support_the_data_methods():
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


async def test_checkpoint_has_the_specified_json_members():
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


def test_invalid_documents_are_rejected_with_the_path_of_the_error():
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


async def test_session_in_a_reference_cycle_is_collected(is_collected):
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

    assert is_collected(found)


# ask and query


async def test_ask_appends_to_the_thread():
    helper = agent(model=scripted(echo))
    thread = Thread()

    await ask(helper, "one", thread)
    turn = await ask(helper, "two", thread)

    assert turn.messages == thread.messages[2:]
    assert (await ask(helper, "alone")).response.text == "you said alone"
    with pytest.raises(TypeError, match="thread must be a Thread, not list"):
        await ask(helper, "x", [])


async def test_ask_appends_to_a_tree_node():
    sess = session(agent(model=scripted(echo)))

    await ask(sess.agent, "one", sess.tree.current.thread)

    assert texts(sess.tree.history()) == ["one", "you said one"]


async def test_query_inside_a_run_is_stored_in_the_session():
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


def test_package_exports_the_session_names():
    names = {"Checkpoint", "ExecutionState", "PlanStep", "QueryResult", "Session", "ask", "query", "session"}
    assert names <= set(turntree.__all__)
    assert Session.__module__ == Checkpoint.__module__ == "turntree"


# Structured answers


class City(BaseModel):
    name: str


def cities(*answers):
    """An agent that gives the listed answers and may repair one."""
    return agent(model=scripted(list(answers)), structure=City, structure_repair=True)


async def test_structured_answers_of_a_session_are_typed_and_repaired():
    sess = session(cities("{}", '{"name": "Tokyo"}'))

    turn = await sess.run("city?")

    assert (turn.data, turn.cycles, len(sess.checkpoints)) == (City(name="Tokyo"), 2, 2)
    assert list(sess.tree.history()) == list(turn.messages)


async def test_structured_stream_of_a_session_yields_partial_objects():
    stream = session(cities('{"name": "Tokyo"}')).stream("city?")

    async for _ in stream:
        pass

    assert stream.partial == {"name": "Tokyo"}
    assert (await stream.turn).data == City(name="Tokyo")


async def test_run_restored_before_its_repair_is_repaired_after_loading():
    sess = session(cities("{}", '{"name": "Tokyo"}'))
    await sess.run("city?")
    await sess.restore(sess.checkpoints[0].id)

    turn = await Session.from_json(sess.to_json(), agent=cities('{"name": "Kyoto"}')).resume()

    assert (turn.data, turn.cycles) == (City(name="Kyoto"), 2)


class FixedStore:
    """Returns one document for every key, and records the keys."""

    def __init__(self, document):
        self.document = document
        self.keys = []

    async def save(self, key, data): ...

    async def load(self, key):
        self.keys.append(key)
        return self.document

    async def delete(self, key): ...


async def test_a_document_of_another_session_is_corrupt_data():
    helper = agent(model=scripted(["Hello"]))
    other = session(helper)

    with pytest.raises(CorruptDataError, match=f'the store returned the session "{other.id}"'):
        await Session.load(FixedStore(other.to_json()), str(uuid.uuid4()), helper)


async def test_ids_reach_the_store_in_percent_encoding():
    store = FixedStore(None)

    for key in ("../../etc/passwd", "a:b", "ü", "a b", "%2F"):
        with pytest.raises(SessionError):
            await Session.load(store, key, agent(model=scripted([])))

    assert store.keys == [
        "session:..%2F..%2Fetc%2Fpasswd",
        "session:a%3Ab",
        "session:%C3%BC",
        "session:a%20b",
        "session:%252F",
    ]


@pytest.mark.parametrize("value", [float("nan"), object(), {"metadata": {"a": float("inf")}}, memoryview(b"{}")])
def test_values_without_a_json_form_are_validation_errors(value):
    with pytest.raises(ValidationError):
        Session.from_json(value, agent(model=scripted([])))


@pytest.mark.parametrize("value", [5, {}, [], 1.5, object()])
async def test_a_store_that_returns_no_text_has_corrupt_data(value):
    with pytest.raises(CorruptDataError, match="load must return a str or None"):
        await Session.load(FixedStore(value), str(uuid.uuid4()), agent(model=scripted([])))


LOOK = [{"toolCallId": "c", "toolName": "look", "arguments": {}}]


@pytest.mark.parametrize("replies", [[LOOK, "done"], [LOOK, LOOK]], ids=["finished", "stopped"])
def test_a_session_without_the_shared_data_of_its_runs_is_read_again_after_another_run(replies):
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    def helper(replies):
        return agent(model=scripted(replies), tools=[look], execution=loop(max_iterations=2))

    first = session(helper(replies))
    with contextlib.suppress(UPPError):
        first.run_sync("hi")
    document = json.loads(first.to_json())
    assert document["metadata"].pop("turntree")["runs"]

    loaded = Session.from_json(json.dumps(document), helper([LOOK, "again"]))
    turn = loaded.run_sync("more")

    assert turn.response.text == "again"
    assert len(loaded.checkpoints) > len(first.checkpoints)
    assert Session.from_json(loaded.to_json(), helper([])).to_json() == loaded.to_json()

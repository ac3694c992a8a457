"""Sessions: runs, streams, options and run metadata. UAP-1.0 §6, §9, §13."""

import asyncio
import time
import uuid
from datetime import datetime

import pytest
from session_support import (
    FAILING,
    call,
    echo,
    noting,
    succeed,  # noqa: F401
    texts,
)

from turntree import (
    Session,
    ToolContext,
    ValidationError,
    agent,
    session,
)
from turntree.upp import UPPError, UserMessage, scripted, tool

# Runs


async def test_usage_example_of_the_specification_works():
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


async def test_session_sends_earlier_turns():
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


def test_run_sync_works_in_a_script_and_in_a_notebook_cell(run):
    sess = session(agent(model=scripted(echo)))
    assert sess.run_sync("one").response.text == "you said one"

    async def cell():
        return sess.run_sync("two").response.text

    assert run(cell()) == "you said two"
    assert len(sess.tree.history()) == 4


async def test_stream_is_added_to_the_tree_when_it_ends():
    helper, _ = noting()
    sess = session(helper)

    stream = sess.stream("1")
    told = [event.uap.type async for event in stream if event.uap]

    assert told.count("checkpoint") == 2
    assert (await stream.turn).response.text == "after 1"
    assert len(sess.tree.history()) == 4
    assert [event.uap.type for event in sess.stream_sync("0") if event.uap].count("checkpoint") == 1
    assert len(sess.tree.history()) == 6


async def test_aborted_stream_adds_its_partial_turn():
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


async def test_checkpoint_interval_can_be_turn_or_disabled():
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
        ({"id": ""}, ValidationError, "expected 1 to 200 printable characters"),
        ({"id": "x" * 201}, ValidationError, "expected 1 to 200 printable characters"),
        ({"id": "a\nb"}, ValueError, "invalid session id 'a.nb'"),
        ({"id": "a\ud800"}, ValidationError, "id: the character at index 1 is a lone surrogate"),
        ({"id": 7}, TypeError, "id must be a str, not int"),
        ({"metadata": {"turntree": 1}}, ValidationError, "reserved for the session"),
        ({"metadata": {"x": object()}}, TypeError, "metadata/x"),
        ({"persistence": object()}, TypeError, "save is missing"),
    ],
)
def test_invalid_session_options_are_rejected(options, error, words):
    with pytest.raises(error, match=words):
        session(agent(model=scripted(echo)), **options)


def test_session_requires_an_agent():
    with pytest.raises(TypeError, match="agent must be an Agent, not str"):
        session("helper")


# State that hooks and tools write


async def test_hooks_and_tools_write_run_metadata_that_stop_conditions_read():
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


async def test_metadata_survives_a_failure_and_is_empty_in_a_new_run():
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
    # The second step started again, then a separate run started.
    assert seen == [{"step1": True}, {}]


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: tree.branch(tree.current.id),
        lambda tree: tree.push(UserMessage("More")),
        lambda tree: tree.merge(tree.branch(tree.root.id), tree.root.id),
    ],
    ids=["branch", "push", "merge"],
)
def test_a_change_of_the_tree_is_a_change_of_the_session(change):
    sess = session(agent(model=scripted(["Hello"])))
    sess.run_sync("Hi")
    before = sess.updated_at
    time.sleep(0.005)

    change(sess.tree)

    assert sess.updated_at > before
    assert sess.updated_at == datetime.fromisoformat(sess.to_dict()["updatedAt"])

"""`Session.run(at=node)`: runs on other nodes than the current one, several at once."""

import asyncio
import dataclasses

import pytest

from turntree import ApprovalRequired, Session, agent, session
from turntree.store import memory
from turntree.upp import UPPError, scripted, tool


def echo(request):
    return f"{len(request.messages)}: {request.messages[-1].text}"


async def test_a_run_at_another_node_adds_its_turn_there():
    sess = session(agent(model=scripted(echo)))
    await sess.run("first")
    branch = sess.fork(sess.tree.current.id)

    turn = await sess.run("second", at=branch)

    assert turn.response.text == "3: second"
    assert [message.text for message in sess.tree.history(branch)] == ["first", "1: first", "second", "3: second"]
    assert len(sess.tree.history()) == 2
    assert sess.tree.current.id == sess.tree.root.id
    assert not sess.is_unfinished


async def test_two_branches_run_at_once():
    entered, both = [], asyncio.Event()

    @tool
    async def meet() -> str:
        entered.append(1)
        if len(entered) == 3:
            both.set()
        await asyncio.wait_for(both.wait(), 30)  # ends only if all runs are here
        return "met"

    def model(request):
        last = request.messages[-1]
        return last.results[0].result if last.type == "tool_result" else {"toolName": "meet", "arguments": {}}

    sess = session(agent(model=scripted(model), tools=[meet]))
    one, two = (sess.fork(sess.tree.root.id) for _ in range(2))

    turns = await asyncio.gather(
        sess.run("a", at=sess.tree[one]), sess.run("b", at=two), sess.run("c", at=sess.tree.current)
    )

    assert [turn.response.text for turn in turns] == ["met"] * 3
    assert [sess.tree.history(node)[0].text for node in (one, two, sess.tree.root.id)] == ["a", "b", "c"]


async def test_the_current_node_runs_as_without_at():
    sess = session(agent(model=scripted(echo)))

    await sess.run("first", at=sess.tree.current.id)

    assert len(sess.checkpoints) == 1


async def test_a_failed_run_adds_nothing():
    sess = session(agent(model=scripted([UPPError("down", "PROVIDER_ERROR")])))
    branch = sess.fork(sess.tree.root.id)

    with pytest.raises(UPPError):
        await sess.run("a", at=branch)

    assert sess.tree.history(branch) == []
    assert not sess.is_unfinished


async def test_the_turn_is_saved():
    store, helper = memory(), agent(model=scripted(echo))
    sess = await Session.open(store, "s", helper)
    await sess.run("first")
    branch = sess.fork(sess.tree.current.id)
    await sess.run("second", at=branch)

    loaded = await Session.load(store, "s", helper)
    assert len(loaded.tree.history(branch)) == 4


async def test_calls_that_ask_are_decided_by_on_approval_or_raise():
    paid = []

    @tool(approval="ask")
    def pay() -> str:
        paid.append(1)
        return "paid"

    def model(request):
        last = request.messages[-1]
        return last.results[0].result if last.type == "tool_result" else {"toolName": "pay", "arguments": {}}

    sess = session(agent(model=scripted(model), tools=[pay]))
    branch = sess.fork(sess.tree.root.id)

    with pytest.raises(ApprovalRequired):
        await sess.run("a", at=branch)
    assert (paid, sess.pending) == ([], [])
    await sess.run("a", at=branch, on_approval=lambda pending: True)
    assert paid == [1]


async def test_at_names_what_is_wrong():
    sess = session(agent(model=scripted(echo)))

    with pytest.raises(KeyError):
        await sess.run("a", at="nowhere")
    with pytest.raises(TypeError, match="at must be a node of the session's tree or the id of one, not int"):
        await sess.run("a", at=3)
    with pytest.raises(TypeError, match=r"await session.run\(input, at=node\)"):
        await sess.agent.run("a", at="x")


async def test_a_stream_at_another_node_adds_its_turn_there_and_saves_it():
    store, helper = memory(), agent(model=scripted(echo))
    sess = await Session.open(store, "s", helper)
    await sess.run("first")
    branch = sess.fork(sess.tree.current.id)

    stream = sess.stream("second", at=branch)
    assert "".join([text async for text in stream.text()]) == "3: second"
    assert (await stream.turn).text == "3: second"

    assert len(sess.tree.history()) == 2
    assert len((await Session.load(store, "s", helper)).tree.history(branch)) == 4


def test_sync_runs_and_streams_take_at():
    sess = session(agent(model=scripted(echo)))
    sess.run_sync("first")
    branch = sess.fork(sess.tree.current.id)

    assert sess.run_sync("second", at=branch).text == "3: second"
    assert sess.stream_sync("third", at=sess.tree[branch]).turn.text == "5: third"
    assert [len(sess.tree.history(node)) for node in (branch, sess.tree.current.id)] == [6, 2]


async def test_an_aborted_stream_at_another_node_adds_nothing():
    streams = []

    @tool
    async def wait() -> str:
        streams[0].abort()
        await asyncio.Event().wait()
        return ""

    sess = session(agent(model=scripted([{"toolName": "wait", "arguments": {}}]), tools=[wait]))
    branch = sess.fork(sess.tree.root.id)
    streams.append(sess.stream("a", at=branch))
    async for _ in streams[0]:
        pass
    await streams[0].turn

    assert sess.tree.history(branch) == []


@pytest.mark.parametrize("streamed", [False, True])
def test_data_of_runs_at_another_node_has_the_type_of_the_agent(streamed):
    @dataclasses.dataclass
    class City:
        name: str

    sess = session(agent(model=scripted(['{"name": "Rome"}']), structure=City))
    branch = sess.fork(sess.tree.root.id)
    turn = sess.stream_sync("a", at=branch).turn if streamed else sess.run_sync("a", at=branch)

    assert turn.data == City("Rome")

"""Failures, cancellation, resumption, and the order of runs."""

import asyncio
import threading

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
    SessionError,
    agent,
    session,
)
from turntree.store import memory
from turntree.upp import UPPError, scripted, tool

# Failure, cancellation and resumption


async def test_failed_run_adds_no_messages_and_resumes_without_repeating_tools():
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


def test_session_continues_after_cancellation_at_any_point(run):
    async def main(wait):
        called = []

        @tool
        async def slow(n: int) -> int:
            called.append(n)
            await asyncio.sleep(0.02)  # the pace of the tool; no assertion depends on it
            return n

        def model(request):
            done = sum(message.type == "tool_result" for message in request.messages)
            return [call("slow", n=done * 2), call("slow", n=done * 2 + 1)] if done < 2 else "end"

        sess = session(agent(model=scripted(model), tools=[slow]))
        task = asyncio.create_task(sess.run("go"))
        await asyncio.sleep(wait)  # a sample of moments; the assertions hold at every moment
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


async def test_killed_run_resumes_in_another_session_object():
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


async def test_restoring_a_checkpoint_within_a_run_exposes_its_messages():
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


async def test_unknown_ids_are_rejected():
    sess = session(agent(model=scripted(echo)))

    with pytest.raises(SessionError, match='no checkpoint "x"'):
        await sess.restore("x")
    with pytest.raises(KeyError, match="no node"):
        sess.fork("x")


async def test_restore_fails_when_tree_messages_were_removed():
    sess = session(agent(model=scripted(echo)))
    await sess.run("one")
    sess.tree.root.thread.clear()

    with pytest.raises(SessionError, match=r"needs 2 message\(s\)"):
        await sess.restore(sess.checkpoints[0].id)


# Order of runs, and runs inside a run


async def test_concurrent_runs_of_a_session_run_sequentially():
    sess = session(agent(model=scripted(echo)))

    turns = await asyncio.gather(*(sess.run(str(n)) for n in range(50)))

    assert [turn.messages[0].text for turn in turns] == [str(n) for n in range(50)]
    assert texts(sess.tree.history())[::2] == [str(n) for n in range(50)]


async def test_cancelled_queued_run_leaves_the_queue():
    begun, gate = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        begun.set()
        await gate.wait()
        return "on"

    def model(request):
        last = request.messages[-1]
        return call("wait") if last.text == "wait" else "ok"

    sess = session(agent(model=scripted(model), tools=[wait]))
    first = asyncio.create_task(sess.run("wait"))
    second = asyncio.create_task(sess.run("b"))
    third = asyncio.create_task(sess.run("c"))
    await begun.wait()
    second.cancel()
    gate.set()
    await first
    await third

    assert [message.text for message in sess.tree.history() if message.type == "user"] == ["wait", "c"]


@pytest.mark.parametrize("kind", ["run", "run_sync", "stream", "resume", "restore", "thread", "nested"])
async def test_run_inside_a_tool_of_the_same_session_is_rejected(kind):
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
    assert "from inside its own run" in inner.result
    assert turn.response.text == "told"


async def test_task_that_outlives_the_run_can_use_the_session():
    later, over = [], asyncio.Event()

    async def follow_up():
        await over.wait()
        await sess.run("later")

    @tool
    async def start() -> str:
        later.append(asyncio.create_task(follow_up()))
        return "started"

    sess = session(agent(model=scripted([call("start"), "ok", "later too"]), tools=[start]))
    await sess.run("go")
    over.set()
    await later[0]

    assert texts(sess.tree.history())[-2:] == ["later", "later too"]


async def test_tool_can_run_another_session():
    other = session(agent(model=scripted(echo)))

    @tool
    async def delegate() -> str:
        return (await other.run("sub")).response.text

    sess = session(agent(model=scripted([call("delegate"), "ok"]), tools=[delegate]))

    turn = await sess.run("go")

    assert turn.tool_executions[0].result == "you said sub"


async def test_run_sync_during_a_run_on_the_same_event_loop_raises_instead_of_deadlocking():
    begun, gate = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        begun.set()
        await gate.wait()
        return "on"

    sess = session(agent(model=scripted([call("wait"), "ok"]), tools=[wait]))
    task = asyncio.create_task(sess.run("go"))
    await begun.wait()

    with pytest.raises(SessionError, match="on the event loop of this thread"):
        sess.run_sync("x")

    gate.set()
    await task


def test_runs_from_several_threads_run_sequentially():
    sess = session(agent(model=scripted(echo)))
    threads = [threading.Thread(target=sess.run_sync, args=(str(n),)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    said = texts(sess.tree.history())
    assert sorted(said[::2], key=int) == [str(n) for n in range(20)]
    assert said[1::2] == [f"you said {text}" for text in said[::2]]


async def test_a_thousand_concurrent_sessions():
    helper, _ = noting()
    sessions = [session(helper, persistence=memory()) for _ in range(1000)]

    turns = await asyncio.gather(*(sess.run("1") for sess in sessions))

    assert {turn.response.text for turn in turns} == {"after 1"}
    assert all(len(sess.checkpoints) == 2 and len(sess.persistence.sessions_sync()) == 1 for sess in sessions)


async def test_tree_can_change_during_a_run():
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

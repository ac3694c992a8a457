"""Concurrent runs, cancelled runs, and runs on several event loops."""

import asyncio
import contextlib
import gc
import threading
import weakref

import pytest
from agent_concurrency_support import WORDS, call

from turntree import ToolContext, agent
from turntree.testing import Reply as ServerReply
from turntree.testing import ToolCall
from turntree.upp import Reply, openai, scripted, tool


def echoing(request):
    return request.messages[-1].text


def at(server, **options):
    """A model at a loopback server."""
    return openai("gpt", "completions", base_url=server.base_url, api_key="key", **options)


def echo(request):
    """A server reply that repeats the user's text."""
    return request.user_text


@tool
async def nap(seconds: float) -> str:
    await asyncio.sleep(seconds)  # the pace of the tool; no assertion depends on it
    return "rested"


# Many at once


def test_five_hundred_concurrent_runs(run):
    helper = agent(model=scripted(echoing))

    async def main():
        return await asyncio.gather(*(helper.run(str(n)) for n in range(500)))

    assert [turn.response.text for turn in run(main())] == [str(n) for n in range(500)]


def test_a_hundred_concurrent_runs_over_http(run, loopback):
    server = loopback(echo)
    helper = agent(model=at(server))

    async def main():
        return await asyncio.gather(*(helper.run(str(n)) for n in range(100)))

    assert [turn.response.text for turn in run(main())] == [str(n) for n in range(100)]


def test_a_hundred_concurrent_streams_over_http(run, loopback):
    server = loopback(lambda request: ServerReply(f"{request.user_text} {WORDS}"))
    helper = agent(model=at(server))

    async def one(n):
        stream = helper.stream(str(n))
        text = ""
        async for event in stream:
            if event.upp and event.upp.type == "text_delta":
                text += event.upp.delta["text"]
        assert text == (await stream.turn).response.text
        return text

    async def main():
        return await asyncio.gather(*(one(n) for n in range(100)))

    assert run(main()) == [f"{n} {WORDS}" for n in range(100)]


def test_awaiting_only_the_turn_loses_no_wake_up(run, loopback):
    server = loopback(ServerReply(WORDS, fragment=2))
    helper = agent(model=at(server))

    async def main():
        for _ in range(150):
            turn = await asyncio.wait_for(helper.stream("Hi").turn, 10)
            assert turn.response.text == WORDS

    run(main())


def test_tools_of_concurrent_runs_overlap(run):
    async def main():
        everyone = asyncio.Barrier(200)

        @tool
        async def meet() -> str:
            await asyncio.wait_for(everyone.wait(), 30)
            return "met"

        helper = agent(
            model=scripted(lambda request: [call("meet")] if len(request.messages) == 1 else "done"),
            tools=[meet],
        )
        return await asyncio.gather(*(helper.run("Go") for _ in range(200)))

    assert [turn.tool_executions[0].result for turn in run(main())] == ["met"] * 200


# Cancelling


@pytest.mark.parametrize("way", ["run", "turn", "iterate"])
def test_cancelling_the_task_closes_the_http_request(run, loopback, way):
    server = loopback(ServerReply("late", delay=30))
    helper = agent(model=at(server))

    async def ask():
        if way == "run":
            return await helper.run("Hi")
        stream = helper.stream("Hi")
        if way == "turn":
            return await stream.turn
        return [event async for event in stream]

    async def main():
        task = asyncio.ensure_future(ask())
        await asyncio.to_thread(server.wait_for_request, timeout=30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()
        del task
        gc.collect()
        return await asyncio.to_thread(server.requests[0].wait, 30)

    assert run(main()) == "dropped"


def test_timeout_closes_the_http_request(run, loopback):
    server = loopback(ServerReply("late", delay=60))

    async def by_wait_for(seconds):
        await asyncio.wait_for(agent(model=at(server)).run("Hi"), seconds)

    async def by_timeout(seconds):
        async with asyncio.timeout(seconds):
            await agent(model=at(server)).run("Hi")

    async def main():
        for way in (by_wait_for, by_timeout):
            earlier = len(server.requests)
            # A machine that stalls may not send the request within the time: then the time is longer.
            for seconds in (0.5, 2, 8):
                with pytest.raises(TimeoutError):
                    await way(seconds)
                # The threads of the server may not have read it yet.
                with contextlib.suppress(TimeoutError):
                    await asyncio.to_thread(server.wait_for_request, earlier + 1, 2)
                    break
        return [await asyncio.to_thread(request.wait, 30) for request in server.requests]

    outcomes = run(main())
    assert len(outcomes) >= 2
    assert set(outcomes) == {"dropped"}


def test_async_tools_are_cancelled_with_the_run(run):
    begun, heard = [], []

    @tool
    async def wait(context: ToolContext, name: str) -> str:
        begun.append(name)
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            heard.append((name, context.cancelled))
            raise
        return name

    helper = agent(model=scripted([[call("wait", name="a"), call("wait", name="b")], "never"]), tools=[wait])

    async def main():
        task = asyncio.ensure_future(helper.run("Go"))
        while len(begun) < 2:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)
        return sorted(heard)

    assert run(main()) == [("a", True), ("b", True)]


def test_cancelled_run_stops_tools_and_hooks(run):
    model = scripted([[call("wait")], "never"])
    completed = []

    async def main():
        begun, gate = asyncio.Event(), asyncio.Event()

        @tool
        async def wait() -> str:
            begun.set()
            await gate.wait()
            return "rested"

        helper = agent(model=model, tools=[wait], strategy={"on_complete": completed.append})
        task = asyncio.ensure_future(helper.run("Go"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.set()
        # Nothing signals that the run does not continue, so the test gives it time to.
        await asyncio.sleep(0.1)

    run(main())

    assert len(model.requests) == 1
    assert completed == []


def test_task_group_cancels_sibling_runs(run, loopback):
    server = loopback(ServerReply("late", delay=30))
    helper = agent(model=at(server))

    async def fail():
        await asyncio.to_thread(server.wait_for_request, timeout=30)
        raise ValueError("stop")

    async def main():
        with pytest.raises(ExceptionGroup):  # noqa: F821
            async with asyncio.TaskGroup() as group:
                group.create_task(helper.run("Hi"))
                group.create_task(fail())
        return await asyncio.to_thread(server.requests[0].wait, 30)

    assert run(main()) == "dropped"


def test_run_that_is_never_awaited_sends_nothing(run):
    model = scripted(["x"])

    async def main():
        agent(model=model).run("Hi").close()

    run(main())

    assert model.requests == []


def test_agent_runs_again_after_a_cancelled_run(run, loopback):
    replies = {"first": ServerReply("late", delay=30), "second": ServerReply("quick")}
    server = loopback(lambda request: replies[request.user_text])
    helper = agent(model=at(server))

    async def main():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(helper.run("first"), 0.2)
        return await helper.run("second")

    assert run(main()).response.text == "quick"


# Loops


def test_two_event_loops_in_two_threads_share_an_agent(new_loop, loopback):
    server = loopback(lambda request: echo(request) if request.tool_results else [ToolCall("where", {})])
    seen = []

    @tool
    async def where() -> str:
        await asyncio.sleep(0)
        seen.append(threading.current_thread().name)
        return "here"

    helper = agent(model=at(server), tools=[where])
    outcomes = {}

    def work(name):
        async def main():
            turns = await asyncio.gather(*(helper.run(f"{name}{n}") for n in range(20)))
            return [turn.response.text for turn in turns]

        with asyncio.Runner(loop_factory=new_loop) as runner:
            outcomes[name] = runner.run(main())

    threads = [threading.Thread(target=work, args=(name,), name=name) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert outcomes == {name: [f"{name}{n}" for n in range(20)] for name in "ab"}
    # Not the idents: a thread that starts late may have that of one that has ended.
    assert set(seen) == {"a", "b"}


def test_agent_and_connection_pool_work_on_a_new_event_loop(new_loop, loopback):
    peers = []
    server = loopback(lambda request: (peers.append(request), echo(request))[1])
    helper = agent(model=at(server))

    for n in range(5):
        with asyncio.Runner(loop_factory=new_loop) as runner:
            assert runner.run(helper.run(str(n))).response.text == str(n)
    assert helper.run_sync("sync").response.text == "sync"

    assert len(peers) == 6


def test_agent_works_in_repeated_asyncio_run_calls():
    helper = agent(model=scripted([[call("nap", seconds=0)], "a", [call("nap", seconds=0)], "b"]), tools=[nap])

    assert asyncio.run(helper.run("Hi")).response.text == "a"
    assert asyncio.run(helper.run("Hi")).response.text == "b"


def test_agent_stays_usable_when_the_event_loop_closes_during_a_run(new_loop, loopback):
    replies = iter([ServerReply("late", delay=30), ServerReply("quick")])
    server = loopback(lambda _: next(replies))
    helper = agent(model=at(server))

    async def leave():
        task = asyncio.ensure_future(helper.run("Hi"))
        await asyncio.to_thread(server.wait_for_request, timeout=30)
        return task

    with asyncio.Runner(loop_factory=new_loop) as runner:
        task = runner.run(leave())
    assert task.cancelled()
    assert server.requests[0].wait(30) == "dropped"

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(helper.run("Hi")).response.text == "quick"


def test_stream_abandoned_with_its_event_loop_closes_the_http_request(new_loop, loopback):
    server = loopback(ServerReply(" ".join([WORDS] * 30), gap=0.1))  # longer than any stall

    async def begin():
        stream = agent(model=at(server)).stream("Hi")
        async for event in stream:
            if event.upp and event.upp.type == "text_delta":
                break
        return stream

    with asyncio.Runner(loop_factory=new_loop) as runner:
        stream = runner.run(begin())
    del stream
    gc.collect()

    assert server.requests[0].wait(30) == "dropped"


def test_run_sync_from_many_threads(loopback):
    server = loopback(echo)
    helper = agent(model=at(server))
    outcomes = {}

    def work(n):
        outcomes[n] = helper.run_sync(str(n)).response.text

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert outcomes == {n: str(n) for n in range(16)}


def test_run_sync_does_not_block_other_threads(loopback):
    asked, ticked = threading.Event(), threading.Event()

    def reply(_request):
        asked.set()
        return "ticked" if ticked.wait(10) else "alone"

    def tick():
        if asked.wait(10):
            ticked.set()

    server = loopback(reply)
    thread = threading.Thread(target=tick)
    thread.start()
    turn = agent(model=at(server)).run_sync("Hi")
    thread.join()

    assert turn.response.text == "ticked"


async def test_the_garbage_collector_does_not_end_a_run_that_nothing_refers_to():
    finished = asyncio.Event()

    async def run():
        await agent(model=scripted([Reply("Done.", delay=0.2)])).run("Go")
        finished.set()

    # asyncio refers to its tasks weakly.
    task = weakref.ref(asyncio.create_task(run()))
    await asyncio.sleep(0)
    gc.collect()
    assert task() is not None
    await asyncio.wait_for(finished.wait(), 10)

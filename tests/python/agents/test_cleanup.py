"""A run that ends early returns after its cancelled functions have ended."""

import asyncio
import contextlib
import logging
import random
import subprocess
import sys
import threading
import time

import pytest
from agent_stream_support import call

from turntree import ToolContext, agent, session
from turntree.upp import UPPError, llm, scripted, tool

CLEANUP = 0.05


class Work:
    """A tool whose cleanup takes time, and the order of its calls."""

    def __init__(self, cleanup=CLEANUP):
        self.log = []
        self.begun, self.cancelled = asyncio.Event(), asyncio.Event()

        @tool(name="work")
        async def work(context: ToolContext) -> str:
            self.log.append("begin")
            self.begun.set()
            context.report("begun")
            try:
                await asyncio.sleep(60)
            finally:
                self.cancelled.set()
                await asyncio.sleep(cleanup)
                self.log.append("end")
            return "late"

        self.tool = work

    def agent(self, **options):
        model = scripted(lambda request: [call("work")] if request.messages[-1].text == "go" else "done")
        return agent(model=model, tools=[self.tool], **options)

    def llm(self, **options):
        return llm(model=scripted([[call("work")]]), tools=[self.tool], **options)


async def time_out_after(begun, coroutine):
    """Await the coroutine with a timeout that is over when the event is set."""
    async with asyncio.timeout(None) as limit:

        async def end():
            await begun.wait()
            limit.reschedule(asyncio.get_running_loop().time())

        ending = asyncio.ensure_future(end())
        await coroutine
        await ending


async def read_until_progress(stream):
    while True:
        event = await anext(stream)
        if event.upp and event.upp.type == "tool_execution_progress":
            return


@pytest.mark.parametrize("owner", [lambda helper: helper, session], ids=["agent", "session"])
def test_cancelled_run_returns_after_its_tools(run, owner):
    async def main():
        work = Work()
        task = asyncio.ensure_future(owner(work.agent()).run("go"))
        await work.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return work.log

    assert run(main()) == ["begin", "end"]


def test_timed_out_run_returns_after_its_tools(run):
    async def main():
        work = Work()
        with pytest.raises(asyncio.TimeoutError):
            await time_out_after(work.begun, work.agent().run("go"))
        return work.log

    assert run(main()) == ["begin", "end"]


@pytest.mark.parametrize("way", ["abort", "aclose", "async with", "break"])
@pytest.mark.parametrize("owner", [lambda helper: helper, session], ids=["agent", "session"])
def test_stopped_stream_ends_after_its_tools(run, owner, way):
    async def main():
        work = Work()
        stream = owner(work.agent()).stream("go")
        if way == "async with":
            async with stream:
                await read_until_progress(stream)
            return work.log
        if way == "break":
            async for event in stream:
                if event.upp and event.upp.type == "tool_execution_progress":
                    break
            with pytest.raises(UPPError):
                await stream.turn
            return work.log
        await read_until_progress(stream)
        if way == "abort":
            stream.abort()
            await stream.turn
        else:
            await stream.aclose()
        return work.log

    assert run(main()) == ["begin", "end"]


async def loop_over(stream):
    async for _ in stream:
        pass


async def loop_over_batches(stream):
    async for _ in stream.batches():
        pass


async def loop_over_text(stream):
    async for _ in stream.text():
        pass


async def loop_over_frames(stream):
    async for _ in stream.sse():
        pass


LOOPS = [loop_over, loop_over_batches, loop_over_text, loop_over_frames]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("owner", [lambda helper: helper, session], ids=["agent", "session"])
def test_cancelled_loop_over_a_stream_ends_after_its_tools(run, owner, loop):
    async def main():
        work = Work()
        stream = owner(work.agent()).stream("go")
        task = asyncio.ensure_future(loop(stream))
        await work.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        log = list(work.log)
        with pytest.raises(UPPError, match="cancelled"):
            await stream.turn
        return log

    assert run(main()) == ["begin", "end"]


def test_timed_out_loop_over_a_stream_ends_after_its_tools(run):
    async def main():
        work = Work()
        with pytest.raises(asyncio.TimeoutError):
            await time_out_after(work.begun, loop_over(work.agent().stream("go")))
        return work.log

    assert run(main()) == ["begin", "end"]


def test_second_cancellation_of_a_loop_over_a_stream_ends_the_wait(run):
    async def main():
        work = Work(cleanup=60)
        task = asyncio.ensure_future(loop_over(work.agent(cleanup_timeout=60).stream("go")))
        await work.begun.wait()
        task.cancel()
        await work.cancelled.wait()
        waits = not task.done()
        task.cancel()
        await asyncio.wait({task}, timeout=20)
        return waits, task.cancelled(), work.log

    assert run(main()) == (True, True, ["begin"])


def test_cancelled_loop_over_a_stream_waits_no_longer_than_the_cleanup_timeout(run, caplog):
    async def main():
        work = Work(cleanup=60)
        task = asyncio.ensure_future(loop_over(work.agent(cleanup_timeout=0.05).stream("go")))
        await work.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with caplog.at_level(logging.WARNING, "turntree.tools"):
        run(asyncio.wait_for(main(), 30))

    assert len([record for record in caplog.records if record.name == "turntree.tools"]) == 1


def test_sync_stream_waits_for_its_tools_when_it_is_left():
    log = []

    @tool
    async def work(context: ToolContext) -> str:
        context.report("begun")
        try:
            await asyncio.sleep(30)
        finally:
            await asyncio.sleep(CLEANUP)
            log.append("end")
        return "late"

    helper = agent(model=scripted([[call("work")], "x"]), tools=[work])
    for event in helper.stream_sync("go"):
        if event.upp and event.upp.type == "tool_execution_progress":
            break
    del event

    assert log == ["end"]


def test_second_cancellation_ends_the_wait(run):
    async def main():
        work = Work(cleanup=60)
        task = asyncio.ensure_future(work.agent(cleanup_timeout=60).run("go"))
        await work.begun.wait()
        task.cancel()
        await work.cancelled.wait()
        task.cancel()
        await asyncio.wait({task}, timeout=20)
        assert task.cancelled()
        return work.log

    assert run(main()) == ["begin"]


@pytest.mark.parametrize("owner", ["agent", "llm"])
def test_tool_that_exceeds_the_cleanup_timeout_is_named_in_a_warning(run, caplog, owner):
    async def main():
        work = Work(cleanup=60)
        if owner == "agent":
            coroutine = work.agent(cleanup_timeout=0.05).run("go")
        else:
            coroutine = work.llm(cleanup_timeout=0.05).generate("go")
        task = asyncio.ensure_future(coroutine)
        await work.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return list(work.log)

    with caplog.at_level(logging.WARNING, "turntree.tools"):
        assert run(main()) == ["begin"]

    [record] = [record for record in caplog.records if record.name == "turntree.tools"]
    assert "tool 'work'" in record.getMessage()
    assert "0.05 s" in record.getMessage()


def test_left_stream_reports_a_tool_that_exceeds_the_cleanup_timeout(run, caplog):
    async def main():
        work = Work(cleanup=60)
        stream = work.agent(cleanup_timeout=0.05).stream("go")
        async for event in stream:
            if event.upp and event.upp.type == "tool_execution_progress":
                break
        while "tool 'work'" not in caplog.text:
            await asyncio.sleep(0.01)

    with caplog.at_level(logging.WARNING, "turntree.tools"):
        run(asyncio.wait_for(main(), 30))

    assert "tool 'work'" in caplog.text


@pytest.mark.parametrize("observes", [True, False])
def test_cancelled_run_waits_for_a_sync_tool_in_its_thread(run, caplog, observes):
    release, log = threading.Event(), []

    async def main():
        begun, loop = asyncio.Event(), asyncio.get_running_loop()

        @tool
        def work(context: ToolContext) -> str:
            loop.call_soon_threadsafe(begun.set)
            while not (release.is_set() or (observes and context.cancelled)):
                time.sleep(0.005)
            log.append("end")
            return "late"

        helper = agent(model=scripted([[call("work")], "x"]), tools=[work], cleanup_timeout=60 if observes else 0.05)
        task = asyncio.ensure_future(helper.run("go"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with caplog.at_level(logging.WARNING, "turntree.tools"):
        run(asyncio.wait_for(main(), 30))
    ended = list(log)
    release.set()

    assert ended == (["end"] if observes else [])
    assert ("tool 'work'" in caplog.text) is not observes


@pytest.mark.parametrize("leave", ["break", "cancel", "abort"])
def test_next_run_and_resume_of_a_session_never_overlap_an_old_call(run, leave):
    async def main():
        work = Work()
        talk = session(work.agent())
        if leave == "cancel":
            task = asyncio.ensure_future(talk.run("go"))
            await work.begun.wait()
            task.cancel()
        else:
            stream = talk.stream("go")
            async for event in stream:
                if event.upp and event.upp.type == "tool_execution_progress":
                    if leave == "break":
                        break
                    stream.abort()
        work.begun.clear()
        again = asyncio.ensure_future(talk.run("go") if leave == "abort" else talk.resume())
        await work.begun.wait()
        again.cancel()
        await asyncio.gather(again, return_exceptions=True)
        return work.log

    assert run(asyncio.wait_for(main(), 30)) == ["begin", "end"] * 2


@pytest.mark.parametrize("place", ["sub_agent", "strategy", "middleware", "approval", "hook", "model"])
def test_cancelled_run_returns_after_every_kind_of_function(run, place):
    async def main():
        begun, log = asyncio.Event(), []

        async def wait(*_arguments):
            begun.set()
            try:
                await asyncio.sleep(30)
            finally:
                await asyncio.sleep(CLEANUP)
                log.append("end")

        class Strategy:
            name = "mine"

            async def execute(self, context):
                await wait()

        class Middleware:
            name = "mine"

            async def before(self, context):
                await wait()

        @tool(name="slow")
        async def slow() -> str:
            await wait()
            return "late"

        @tool(name="slow", approval=wait)
        async def approved() -> str:
            return "ok"

        calls = scripted(lambda _request: [call("slow")])
        if place == "sub_agent":
            sub = agent(model=calls, tools=[slow])
            helper = agent(model=scripted([[call("sub", task="go")]]), tools=[sub.to_tool("sub", "Sub.")])
        elif place == "strategy":
            helper = agent(model=calls, execution=Strategy())
        elif place == "middleware":
            helper = agent(model=calls, middleware=[Middleware()])
        elif place == "approval":
            helper = agent(model=calls, tools=[approved])
        elif place == "hook":
            helper = agent(model=calls, tools=[approved], hooks={"on_step_start": wait})
        else:
            helper = agent(model=scripted(wait))
        task = asyncio.ensure_future(helper.run("go"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return log

    assert run(asyncio.wait_for(main(), 30)) == ["end"]


def test_cancelled_call_of_an_llm_returns_after_its_tools(run):
    async def main():
        work = Work()
        task = asyncio.ensure_future(work.llm().generate("go"))
        await work.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return work.log

    assert run(main()) == ["begin", "end"]


@pytest.mark.parametrize("make", [agent, llm])
@pytest.mark.parametrize("value", [-1, float("nan"), 1e9])
def test_cleanup_timeout_out_of_range_is_refused(make, value):
    with pytest.raises(ValueError, match="cleanup_timeout"):
        make(model=scripted([]), cleanup_timeout=value)


@pytest.mark.parametrize("make", [agent, llm])
def test_cleanup_timeout_of_another_type_is_refused(make):
    with pytest.raises(TypeError, match="cleanup_timeout"):
        make(model=scripted([]), cleanup_timeout="5")


def test_calls_never_overlap_in_random_interleavings(run):
    async def main():
        chance = random.Random(7)
        for _ in range(60):
            await one(chance)

    async def one(chance):
        active = most = 0

        async def pause():
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)

        @tool(name="work")
        async def work() -> str:
            nonlocal active, most
            active += 1
            most = max(most, active)
            try:
                await pause()
            finally:
                with contextlib.suppress(asyncio.CancelledError):
                    await pause()
                active -= 1
            return "ok"

        model = scripted(lambda request: [call("work")] if request.messages[-1].type == "user" else "done")
        talk = session(agent(model=model, tools=[work]))

        async def turn():
            way = chance.randrange(5)
            if way == 0:
                return await talk.run("go")
            if way == 1 and talk.state is not None:
                return await talk.resume()
            stream = talk.stream("go")
            left = chance.randrange(12)
            async for _event in stream:
                left -= 1
                if left == 0 and way == 2:
                    stream.abort()
                elif left == 0:
                    break
            return None

        for _ in range(2):
            task = asyncio.ensure_future(turn())
            await pause()
            if chance.random() < 0.4:
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await asyncio.wait_for(talk.run("go"), 30)
        assert most <= 1
        assert active == 0

    run(main())


EXIT = """
import asyncio, time
from turntree import agent
from turntree.upp import scripted, tool, Reply

@tool
async def work() -> str:
    try:
        await asyncio.sleep(30)
    finally:
        await asyncio.sleep(0.01)
    return "late"

def streams():
    call = {"toolName": "work", "arguments": {}}
    tools = agent(model=scripted([[call], "x"]), tools=[work])
    text = agent(model=scripted([Reply("one two three", pace=0.01)]))
    return [tools.stream("go"), text.stream("go")]

async def main():
    global kept
    kept = streams()
    for stream in kept:
        for _ in range(3):
            await anext(stream)
    loops = streams()
    for stream in loops:
        async for event in stream:
            break

asyncio.run(main())
sync = [stream for stream in (agent(model=scripted([Reply("one two", pace=0.01)])).stream_sync("go"),)]
for stream in sync:
    next(stream)
    iteration = iter(stream)
    next(iteration)
print("over")
"""


def test_process_exits_while_streams_are_open():
    done = subprocess.run([sys.executable, "-c", EXIT], capture_output=True, text=True, timeout=30, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "over\n", "")


def test_session_whose_event_loop_was_closed_runs_on_another_loop():
    talk = None

    async def begin():
        nonlocal talk
        work = Work()
        talk = session(work.agent(cleanup_timeout=60))
        stream = talk.stream("go")
        async for event in stream:
            if event.upp and event.upp.type == "tool_execution_progress":
                break
        return stream

    loop = asyncio.new_event_loop()
    stream = loop.run_until_complete(begin())
    loop.close()

    start = time.monotonic()
    turn = asyncio.run(talk.run("next"))

    assert turn.response.text == "done"
    assert time.monotonic() - start < 20
    del stream

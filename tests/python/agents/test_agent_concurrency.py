"""Many runs at once, cancelled runs, several loops, loops that close, interrupts, and what stays in memory."""

import asyncio
import gc
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import pytest

from turntree import ToolContext, agent
from turntree.testing import Reply as ServerReply
from turntree.testing import ToolCall
from turntree.upp import Reply, openai, scripted, tool

WORDS = "one two three four five six seven eight nine ten"


def call(name, /, **arguments):
    """A tool call as a script writes it."""
    return {"toolName": name, "arguments": arguments}


def echoing(request):
    return request.messages[-1].text


def at(server, **options):
    """A model at a loopback server."""
    return openai("gpt", "completions", base_url=server.base_url, api_key="key", **options)


def echo(request):
    """A server's answer: what the user said."""
    return request.user_text


@tool
async def nap(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "rested"


# Many at once


def test_five_hundred_runs_at_once(run):
    helper = agent(model=scripted(echoing))

    async def main():
        return await asyncio.gather(*(helper.run(str(n)) for n in range(500)))

    assert [turn.response.text for turn in run(main())] == [str(n) for n in range(500)]


def test_a_hundred_runs_over_http_at_once(run, loopback):
    server = loopback(echo)
    helper = agent(model=at(server))

    async def main():
        return await asyncio.gather(*(helper.run(str(n)) for n in range(100)))

    assert [turn.response.text for turn in run(main())] == [str(n) for n in range(100)]


def test_a_hundred_streams_over_http_at_once(run, loopback):
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


def test_no_wake_up_is_lost_when_only_the_turn_is_awaited(run, loopback):
    server = loopback(ServerReply(WORDS, fragment=2))
    helper = agent(model=at(server))

    async def main():
        for _ in range(150):
            turn = await asyncio.wait_for(helper.stream("Hi").turn, 10)
            assert turn.response.text == WORDS

    run(main())


def test_tools_of_many_runs_overlap(run):
    helper = agent(
        model=scripted(lambda request: [call("nap", seconds=0.1)] if len(request.messages) == 1 else "done"),
        tools=[nap],
    )

    async def main():
        began = time.monotonic()
        await asyncio.gather(*(helper.run("Go") for _ in range(200)))
        return time.monotonic() - began

    assert run(main()) < 10


# Cancelling


@pytest.mark.parametrize("way", ["run", "turn", "iterate"])
def test_cancelling_the_task_drops_the_request(run, loopback, way):
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
        await asyncio.to_thread(server.wait_for_request)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()
        del task
        gc.collect()
        return await asyncio.to_thread(server.requests[0].wait)

    assert run(main()) == "dropped"


def test_a_timeout_drops_the_request(run, loopback):
    server = loopback(ServerReply("late", delay=30))

    async def main():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(agent(model=at(server)).run("Hi"), 0.2)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await agent(model=at(server)).run("Hi")
        return [await asyncio.to_thread(request.wait) for request in server.requests]

    assert run(main()) == ["dropped", "dropped"]


def test_async_tools_are_cancelled_with_the_run(run):
    heard = []

    @tool
    async def wait(context: ToolContext, name: str) -> str:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            heard.append((name, context.cancelled))
            raise
        return name

    helper = agent(model=scripted([[call("wait", name="a"), call("wait", name="b")], "never"]), tools=[wait])

    async def main():
        task = asyncio.ensure_future(helper.run("Go"))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)
        return sorted(heard)

    assert run(main()) == [("a", True), ("b", True)]


def test_nothing_of_a_cancelled_run_goes_on(run):
    model = scripted([[call("nap", seconds=0.05)], "never"])
    completed = []
    helper = agent(model=model, tools=[nap], strategy={"on_complete": completed.append})

    async def main():
        task = asyncio.ensure_future(helper.run("Go"))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.1)

    run(main())

    assert len(model.requests) == 1
    assert completed == []


def test_a_task_group_cancels_the_siblings(run, loopback):
    server = loopback(ServerReply("late", delay=30))
    helper = agent(model=at(server))

    async def fail():
        await asyncio.to_thread(server.wait_for_request)
        raise ValueError("stop")

    async def main():
        with pytest.raises(ExceptionGroup):  # noqa: F821
            async with asyncio.TaskGroup() as group:
                group.create_task(helper.run("Hi"))
                group.create_task(fail())
        return await asyncio.to_thread(server.requests[0].wait)

    assert run(main()) == "dropped"


def test_a_run_that_was_never_awaited_does_nothing(run):
    model = scripted(["x"])

    async def main():
        agent(model=model).run("Hi").close()

    run(main())

    assert model.requests == []


def test_a_cancelled_run_can_be_asked_again(run, loopback):
    replies = iter([ServerReply("late", delay=30), ServerReply("quick")])
    server = loopback(lambda _: next(replies))
    helper = agent(model=at(server))

    async def main():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(helper.run("Hi"), 0.2)
        return await helper.run("Hi")

    assert run(main()).response.text == "quick"


# Loops


def test_two_loops_in_two_threads_share_an_agent(new_loop, loopback):
    server = loopback(lambda request: echo(request) if request.tool_results else [ToolCall("where", {})])
    seen = []

    @tool
    async def where() -> str:
        await asyncio.sleep(0)
        seen.append((threading.get_ident(), id(asyncio.get_running_loop())))
        return "here"

    helper = agent(model=at(server), tools=[where])
    outcomes = {}

    def work(name):
        async def main():
            turns = await asyncio.gather(*(helper.run(f"{name}{n}") for n in range(20)))
            return [turn.response.text for turn in turns]

        with asyncio.Runner(loop_factory=new_loop) as runner:
            outcomes[name] = runner.run(main())

    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert outcomes == {name: [f"{name}{n}" for n in range(20)] for name in "ab"}
    assert len({thread for thread, _ in seen}) == 2


def test_a_new_loop_after_a_closed_one_uses_the_same_agent_and_pool(new_loop, loopback):
    peers = []
    server = loopback(lambda request: (peers.append(request), echo(request))[1])
    helper = agent(model=at(server))

    for n in range(5):
        with asyncio.Runner(loop_factory=new_loop) as runner:
            assert runner.run(helper.run(str(n))).response.text == str(n)
    assert helper.run_sync("sync").response.text == "sync"

    assert len(peers) == 6


def test_asyncio_run_several_times():
    helper = agent(model=scripted([[call("nap", seconds=0)], "a", [call("nap", seconds=0)], "b"]), tools=[nap])

    assert asyncio.run(helper.run("Hi")).response.text == "a"
    assert asyncio.run(helper.run("Hi")).response.text == "b"


def test_a_loop_that_closes_in_the_middle_of_a_run_leaves_the_agent_usable(new_loop, loopback):
    replies = iter([ServerReply("late", delay=30), ServerReply("quick")])
    server = loopback(lambda _: next(replies))
    helper = agent(model=at(server))

    async def leave():
        task = asyncio.ensure_future(helper.run("Hi"))
        await asyncio.to_thread(server.wait_for_request)
        return task

    with asyncio.Runner(loop_factory=new_loop) as runner:
        task = runner.run(leave())
    assert task.cancelled()
    assert server.requests[0].wait() == "dropped"

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(helper.run("Hi")).response.text == "quick"


def test_a_stream_abandoned_with_its_loop_drops_the_request(new_loop, loopback):
    server = loopback(ServerReply(WORDS, gap=0.1))

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

    assert server.requests[0].wait() == "dropped"


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


def test_run_sync_lets_other_threads_run(loopback):
    server = loopback(ServerReply("late", delay=0.3))
    ticks = []

    def tick():
        for _ in range(10):
            ticks.append(time.monotonic())
            time.sleep(0.01)

    thread = threading.Thread(target=tick)
    began = time.monotonic()
    thread.start()
    agent(model=at(server)).run_sync("Hi")
    thread.join()

    assert ticks[-1] - began < 0.29


# Interrupts


def run_script(source, *, interrupt_after=None):
    """Run a script in an interpreter of its own; send it Ctrl-C when it has printed READY."""
    # A shell's background jobs ignore Ctrl-C, and their children inherit that: whoever runs the tests may be one.
    listens = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    process = subprocess.Popen(
        [sys.executable, "-c", listens + textwrap.dedent(source)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        if interrupt_after is not None:
            assert process.stdout.readline().strip() == "READY"
            time.sleep(interrupt_after)
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    return process.returncode, out, err


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(
    "way", ["helper.run_sync('Hi')", "asyncio.run(helper.run('Hi'))", "list(helper.stream_sync('Hi'))"]
)
def test_ctrl_c_ends_a_run_that_waits_for_the_model(way):
    code, out, err = run_script(
        f"""
        import asyncio
        from turntree import agent
        from turntree.testing import Reply, serve
        from turntree.upp import openai

        with serve(Reply("late", delay=60)) as server:
            helper = agent(model=openai("gpt", "completions", base_url=server.base_url, api_key="key"))
            print("READY", flush=True)
            try:
                {way}
            except KeyboardInterrupt:
                print("interrupted", server.requests[0].wait())
        """,
        interrupt_after=0.4,
    )

    assert (code, out.strip(), err) == (0, "interrupted dropped", "")


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_keyboard_interrupt_in_an_async_tool_ends_asyncio_run():
    code, out, err = run_script(
        """
        import asyncio
        from turntree import agent
        from turntree.upp import scripted

        async def stop():
            raise KeyboardInterrupt

        helper = agent(model=scripted([[{"toolName": "stop", "arguments": {}}], "x"]), tools=[stop])
        try:
            asyncio.run(helper.run("Hi"))
        except KeyboardInterrupt:
            print("interrupted")
        """
    )

    assert (code, out.strip(), err) == (0, "interrupted", "")


@pytest.mark.parametrize("way", ["forget", "exit", "raise"])
def test_leaving_the_process_in_the_middle_of_runs_is_clean(way):
    ending = {"forget": "pass", "exit": "raise SystemExit(0)", "raise": "import os; os._exit(0)"}[way]
    code, _, err = run_script(
        f"""
        import asyncio, threading
        from turntree import agent
        from turntree.testing import Reply, serve
        from turntree.upp import openai

        server = serve(Reply("one two three " * 200, gap=0.001))
        helper = agent(model=openai("gpt", "completions", base_url=server.base_url, api_key="key"))

        async def main():
            tasks = [asyncio.ensure_future(helper.run("Hi")) for _ in range(20)]
            streams = [helper.stream("Hi") for _ in range(20)]
            for stream in streams:
                await anext(stream)
            threading.Thread(target=helper.run_sync, args=("Hi",), daemon=True).start()
            await asyncio.sleep(0.02)
            {ending}

        asyncio.run(main())
        """
    )

    assert (code, err) == (0, "")


# Memory


def collected(reference, seconds=2.0):
    """Whether an object is gone, soon."""
    deadline = time.monotonic() + seconds
    while reference() is not None and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    return reference() is None


class Holder:
    """An object whose method is a tool of the agent that it holds."""

    def __init__(self, model):
        self.agent = agent(
            model=model,
            tools=[self.work],
            strategy={"on_step_start": self.hook},
            tool_strategy={"on_tool_call": self.hook},
        )
        self.stream = None
        self.turn = None

    def work(self, context: ToolContext) -> str:
        """Work."""
        self.context = context
        return "ok"

    def hook(self, *arguments):
        self.seen = arguments


@pytest.mark.parametrize("stage", ["fresh", "ran", "streaming", "aborted", "closed", "ended", "pending"])
def test_an_agent_in_a_cycle_is_collected(run, stage):
    async def main():
        holder = Holder(scripted([[call("work")], Reply(WORDS, pace=0.01)]))
        if stage == "ran":
            holder.turn = await holder.agent.run("Go")
        elif stage != "fresh":
            holder.stream = holder.agent.stream("Go")
            async for event in holder.stream:
                if stage == "pending":
                    break
                if event.upp and event.upp.type == "text_delta" and stage != "ended":
                    break
            if stage == "aborted":
                holder.stream.abort()
                holder.turn = await holder.stream.turn
            if stage == "closed":
                await holder.stream.aclose()
        reference = weakref.ref(holder)
        event = holder = None
        return await asyncio.to_thread(collected, reference)

    assert run(main())


def test_a_cancelled_run_leaves_nothing(run):
    async def main():
        holder = Holder(scripted([Reply("late", delay=30)]))
        task = asyncio.ensure_future(holder.agent.run("Go"))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        reference = weakref.ref(holder)
        del holder, task
        return await asyncio.to_thread(collected, reference)

    assert run(main())


def test_a_failed_run_leaves_nothing(run):
    async def main():
        holder = Holder(scripted([ValueError("broken")]))
        with pytest.raises(ValueError, match="broken"):
            await holder.agent.run("Go")
        reference = weakref.ref(holder)
        del holder
        return await asyncio.to_thread(collected, reference)

    assert run(main())


def test_a_stream_that_failed_in_its_owners_hook_is_collected(run):
    class Owner:
        def hook(self, *_):
            raise ValueError("broken")

    async def main():
        owner = Owner()
        helper = agent(model=scripted(["x"]), strategy={"on_step_start": owner.hook})
        owner.stream = helper.stream("Go")
        with pytest.raises(ValueError, match="broken"):
            await owner.stream.turn
        reference = weakref.ref(owner)
        del owner, helper
        return await asyncio.to_thread(collected, reference)

    assert run(main())


@pytest.mark.parametrize("part", ["script", "key"])
def test_a_model_that_leads_back_to_its_agent_is_collected(run, part):
    class Owner:
        def reply(self, _request):
            return "ok"

        def key(self):
            return "key"

    async def main():
        owner = Owner()
        model = (
            scripted(owner.reply)
            if part == "script"
            else openai("gpt", "completions", base_url="http://127.0.0.1:1", api_key=owner.key)
        )
        owner.agent = agent(model=model)
        reference = weakref.ref(owner)
        del owner, model
        return await asyncio.to_thread(collected, reference)

    assert run(main())


def test_two_thousand_runs_leave_no_objects(run):
    def reply(request):
        return [call("work")] if request.messages[-1].type == "user" else WORDS

    @tool(inline=True)
    def work() -> str:
        return "ok"

    async def rounds(number):
        for _ in range(number):
            # A script remembers its requests: a new one for each run.
            helper = agent(model=scripted(reply), tools=[work])
            await helper.run("Go")
            stream = helper.stream("Go")
            async for _ in stream:
                pass
            await stream.turn

    async def main():
        await rounds(50)
        gc.collect()
        before = len(gc.get_objects())
        await rounds(1000)
        gc.collect()
        return len(gc.get_objects()) - before

    assert run(main()) < 100

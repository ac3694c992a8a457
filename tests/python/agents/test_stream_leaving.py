"""Leaving a stream stops the request and the tools, whichever way and whenever it is left."""

import asyncio
import contextlib
import itertools
import time

import pytest
from agent_stream_support import WORDS

from turntree import ToolContext, agent, session
from turntree.testing import Reply as ServerReply
from turntree.testing import ToolCall
from turntree.upp import ErrorCode, UPPError, llm, openai, tool

OWNERS = ("llm", "agent", "session")
PHASES = ("text", "tool", "sub_agent")
TEXT = " ".join([WORDS] * 30)  # takes a minute
CLEANUP = 60.0
# Seconds until the server and the tools observe that the stream was left. Milliseconds on an idle machine; the limit
# leaves room for a busy one and is far below the cleanup timeout.
LIMIT = 20.0


class Case:
    """One owner of a stream with a model at the server, and what its tool observes."""

    def __init__(self, server, key, owner, phase):
        self.server, self.key, self.phase = server, key, phase
        self.cancelled = asyncio.Event()
        self.begun = asyncio.Event()
        model = openai("gpt", "completions", base_url=server.base_url, api_key="key")

        @tool(name="wait")
        async def wait(context: ToolContext) -> str:
            self.begun.set()
            context.report("begun")
            try:
                await asyncio.sleep(300)
            finally:
                self.cancelled.set()
            return "late"

        helper = agent(model=model, system=f"sub {key}", cleanup_timeout=CLEANUP)
        tools = [helper.to_tool("wait", "A helper.")] if phase == "sub_agent" else [wait]
        self.options = {"sub_agent_events": True} if phase == "sub_agent" else {}
        make = llm if owner == "llm" else agent
        made = make(model=model, tools=tools, cleanup_timeout=CLEANUP)
        self.owner = session(made) if owner == "session" else made

    def stream(self):
        return self.owner.stream(f"{self.phase} {self.key}", **self.options)

    def stream_sync(self):
        return self.owner.stream_sync(f"{self.phase} {self.key}", **self.options)

    def is_reached(self, event):
        event = getattr(event, "upp", event)
        return event is not None and event.type == ("tool_execution_progress" if self.phase == "tool" else "text_delta")

    def request(self):
        """The request that is open while the stream is left."""
        made = [request for request in self.server.requests if self.is_open_while_left(request)]
        return made[0] if made else None

    def is_open_while_left(self, request):
        if self.phase == "sub_agent":
            return f"sub {self.key}" in str(request.json)
        return request.user_text == f"{self.phase} {self.key}"


def script(request):
    if "'sub " in str(request.json) or request.user_text.startswith("text "):
        return ServerReply(TEXT, gap=0.2)
    if request.user_text.startswith("silent "):
        return ServerReply(TEXT, delay=60)
    if request.user_text.startswith("tool "):
        return [ToolCall("wait", {})]
    if request.user_text.startswith("sub_agent "):
        return [ToolCall("wait", {"task": "go"})]
    return "Fine."


async def until(condition):
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline, "not observed in time"
        await asyncio.sleep(0.01)


async def read(case, stream):
    async for event in stream:
        if case.is_reached(event):
            return


# The ways to leave a stream. Each returns the stream, or None if it is gone.


async def by_break(case):
    stream = case.stream()
    async for event in stream:
        if case.is_reached(event):
            break
    return stream


async def by_exception(case):
    stream = case.stream()
    with contextlib.suppress(KeyError):
        async for event in stream:
            if case.is_reached(event):
                raise KeyError
    return stream


async def by_cancellation(case):
    stream, reached = case.stream(), asyncio.Event()

    async def loop():
        async for event in stream:
            if case.is_reached(event):
                reached.set()

    task = asyncio.ensure_future(loop())
    await reached.wait()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return stream


async def by_abort(case):
    stream = case.stream()
    with contextlib.suppress(UPPError):
        async for event in stream:
            if case.is_reached(event):
                stream.abort()
    return stream


async def by_aclose(case):
    stream = case.stream()
    while not case.is_reached(await anext(stream)):
        pass
    await stream.aclose()
    return stream


async def by_async_with(case):
    async with case.stream() as stream:
        while not case.is_reached(await anext(stream)):
            pass
    return stream


async def by_generator(case):
    stream = case.stream()

    async def events():
        async for event in stream:
            yield event

    async with contextlib.aclosing(events()) as generator:
        async for event in generator:
            if case.is_reached(event):
                break
    return stream


async def by_batches(case):
    stream = case.stream()
    async for events in stream.batches():
        if any(map(case.is_reached, events)):
            break
    return stream


async def by_held_batches(case):
    stream = case.stream()
    batches = stream.batches()
    async for events in batches:
        if any(map(case.is_reached, events)):
            break
    return stream, batches


async def by_held_text(case):
    stream = case.stream()
    pieces = stream.text()
    if case.phase == "text":
        async for _ in pieces:
            break
        return stream, pieces
    task = asyncio.ensure_future(anext(aiter(pieces)))
    await until(case.begun.is_set if case.phase == "tool" else case.request)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return stream, pieces


async def by_del(case):
    stream = case.stream()
    while not case.is_reached(await anext(stream)):
        pass
    del stream


async def by_timeout(case):
    stream = case.stream()
    events = aiter(stream)
    while not case.is_reached(await anext(events)):
        pass
    with pytest.raises(asyncio.TimeoutError):
        while True:
            await asyncio.wait_for(anext(events), 0.05)
    return stream


async def by_sync_break(case):
    stream = case.stream_sync()

    def loop():
        for event in stream:
            if case.is_reached(event):
                break

    await asyncio.to_thread(loop)
    return stream


async def by_held_sync_text(case):
    if case.phase != "text":
        return await by_sync_break(case)
    stream = case.stream_sync()
    pieces = stream.text()

    def loop():
        for _ in pieces:
            break

    await asyncio.to_thread(loop)
    return stream, pieces


async def by_sync_with(case):
    def block():
        with case.stream_sync() as stream:
            for event in stream:
                if case.is_reached(event):
                    return stream
        return None

    return await asyncio.to_thread(block)


WAYS = (
    by_break,
    by_exception,
    by_cancellation,
    by_abort,
    by_aclose,
    by_async_with,
    by_generator,
    by_batches,
    by_held_batches,
    by_held_text,
    by_del,
    by_timeout,
    by_sync_break,
    by_held_sync_text,
    by_sync_with,
)


async def turn_of(stream):
    turn = stream.turn
    return await turn if hasattr(turn, "__await__") else turn


async def check(server, key, owner, phase, way):
    case = Case(server, key, owner, phase)
    held = await way(case)
    stream = held[0] if isinstance(held, tuple) else held
    left = time.monotonic()
    if phase == "tool":
        await until(case.cancelled.is_set)
    else:
        await until(lambda: case.request().outcome == "dropped")
    if owner == "session":
        turn = await asyncio.wait_for(case.owner.run("next"), LIMIT)
        assert turn.response.text == "Fine."
    assert time.monotonic() - left < 2 * LIMIT
    if stream is None:
        return
    if way is by_abort and owner != "llm":
        assert (await turn_of(stream)).response.metadata["uap"]["aborted"]
        return
    with pytest.raises(UPPError) as caught:
        await (
            turn_of(stream)
            if not way.__name__.startswith(("by_sync", "by_held_sync"))
            else asyncio.to_thread(lambda: stream.turn)
        )
    assert caught.value.code is ErrorCode.CANCELLED


def test_every_way_to_leave_a_stream_stops_its_request_and_its_tools(run, loopback):
    server = loopback(script, strict=False)
    cases = [
        (owner, phase, way)
        for owner, phase, way in itertools.product(OWNERS, PHASES, WAYS)
        if (owner, phase) != ("llm", "sub_agent")
    ]

    async def main():
        # The limit of each is for its own work: with all at once it would be one for the work of all.
        places = asyncio.Semaphore(12)

        async def one(number, case):
            async with places:
                await asyncio.wait_for(check(server, f"{number:03}", *case), 90)

        return await asyncio.gather(*map(one, range(len(cases)), cases), return_exceptions=True)

    outcomes = run(main())

    failed = [
        f"{owner} {phase} {way.__name__}: {outcome!r}"
        for (owner, phase, way), outcome in zip(cases, outcomes, strict=True)
        if outcome is not None
    ]
    assert failed == []


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("way", ["cancel", "abort", "aclose"])
def test_stream_left_before_the_first_token_closes_the_request(run, loopback, owner, way):
    server = loopback(script, strict=False)

    async def main():
        case = Case(server, "0", owner, "silent")
        stream = case.stream()
        task = asyncio.ensure_future(read(case, stream))
        await until(case.request)
        if way == "cancel":
            task.cancel()
        elif way == "abort":
            stream.abort()
        else:
            await stream.aclose()
        await until(lambda: case.request().outcome == "dropped")
        await asyncio.gather(task, return_exceptions=True)
        if owner == "session":
            await asyncio.wait_for(case.owner.run("next"), LIMIT)

    run(main())


@pytest.mark.parametrize("owner", OWNERS)
def test_stream_that_ended_keeps_its_turn(run, loopback, owner):
    server = loopback(script, strict=False)

    async def main():
        stream = Case(server, "0", owner, "next").stream()
        async for _ in stream:
            pass
        await stream.aclose()
        stream.abort()
        return [event async for event in stream], await stream.turn

    events, turn = run(main())

    assert events == []
    assert turn.response.text == "Fine."


def test_first_event_by_anext_of_a_new_loop_arrives(run, loopback):
    server = loopback(script, strict=False)

    async def main():
        return await anext(aiter(Case(server, "0", "llm", "next").stream()))

    assert run(main()).type == "message_start"


@pytest.mark.parametrize("owner", OWNERS)
def test_an_iterator_that_was_never_read_does_not_stop_the_run(run, loopback, owner):
    server = loopback(script, strict=False)

    async def main():
        stream = Case(server, "0", owner, "next").stream()
        aiter(stream)
        aiter(stream.text())
        text = "".join([piece async for piece in stream.text()])
        return text, (await stream.turn).text

    assert run(main()) == ("Fine.", "Fine.")


@pytest.mark.parametrize("owner", OWNERS)
def test_a_test_for_an_iterable_does_not_stop_the_run_of_a_synchronous_stream(loopback, owner):
    stream = Case(loopback(script, strict=False), "0", owner, "next").stream_sync()

    iter(stream)

    assert len(list(stream)) > 0
    assert stream.turn.text == "Fine."

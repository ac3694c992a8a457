"""Runs as responses that `useChat` reads: frames, errors, silence, disconnected readers, and servers."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from fastapi.testclient import TestClient
from test_ui_stream import actions, called, returned, said, system

import turntree
from turntree import thread_protocol as tp
from turntree.upp import StreamEvent, scripted, tool


@tool
async def weather(city: str) -> dict[str, Any]:
    """Weather of a city."""
    return {"city": city, "degrees": 18}


@tool
async def broken(city: str) -> str:
    """Fails."""
    message = f"no luck in {city}"
    raise RuntimeError(message)


def agent_that(*replies: Any) -> turntree.Agent:
    return turntree.agent(model=scripted(list(replies)), tools=[weather, broken])


def wants(name: str) -> list[dict[str, Any]]:
    return [{"type": "tool_call", "toolCallId": "c", "toolName": name, "arguments": {"city": "Łódź"}}]


async def body_of(response: tp.UiResponse) -> bytes:
    return b"".join([frame async for frame in response])


async def test_a_run_becomes_a_ui_stream() -> None:
    body = await body_of(tp.ui_response(agent_that(wants("weather"), "18 degrees").stream("hi"), message_id="m"))

    thread = tp.from_ui_stream(body)
    assert actions(thread) == [
        called({"city": "Łódź"}, "weather"),
        returned({"city": "Łódź", "degrees": 18}, name="weather"),
        said("18 degrees", finish_reason="stop"),
    ]
    assert body.startswith(b'data: {"type":"start","messageId":"m"}\n\n')
    assert body.endswith(b"data: [DONE]\n\n")


async def test_a_failed_tool_becomes_an_error_of_its_call() -> None:
    body = await body_of(tp.ui_response(agent_that(wants("broken"), "sorry").stream("hi")))

    kinds = [json.loads(line[6:])["type"] for line in body.decode().splitlines() if line.startswith("data: {")]
    assert "tool-output-error" in kinds
    assert kinds[-1] == "finish"
    assert "error" not in kinds


async def test_an_error_after_the_first_byte_becomes_an_error_chunk() -> None:
    def response(**options: Any) -> tp.UiResponse:
        return tp.ui_response(agent_that(wants("weather"), RuntimeError("secret")).stream("hi"), **options)

    body = (await body_of(response())).decode()
    told = (await body_of(response(on_error=lambda error: f"sorry: {type(error).__name__}"))).decode()

    assert '{"type":"error","errorText":"An error occurred."}' in body
    assert "secret" not in body
    assert '"errorText":"sorry: RuntimeError"' in told
    assert body.endswith('data: {"type":"finish","finishReason":"error"}\n\ndata: [DONE]\n\n')


async def test_an_error_closes_the_pending_calls() -> None:
    async def events() -> AsyncIterator[StreamEvent]:
        yield StreamEvent("tool_call_delta", 0, {"toolCallId": "c", "toolName": "t", "argumentsJson": "{}"})
        raise ValueError

    thread = tp.from_ui_stream(await body_of(tp.ui_response(events())))

    assert actions(thread) == [
        called({}),
        returned("Tool execution was interrupted by an error.", "error"),
        system("tp.error", {"error_text": "An error occurred."}),
    ]


async def test_an_aborted_run_sends_an_abort_chunk() -> None:
    stream = agent_that(wants("weather"), "18 degrees").stream("hi")
    frames = []
    async for frame in tp.ui_response(stream):
        frames.append(frame)
        stream.abort()

    assert b'"type":"abort"' in b"".join(frames)


async def test_a_response_can_be_iterated_only_once() -> None:
    response = tp.ui_response(agent_that("hi").stream("hi"))
    await body_of(response)

    with pytest.raises(RuntimeError, match="once"):
        await body_of(response)


def text_delta(words: str) -> StreamEvent:
    return StreamEvent("text_delta", 0, {"text": words})


ALIVE = b": keep-alive\n\n"


async def test_a_silent_run_sends_keep_alive_comments() -> None:
    comments = asyncio.Semaphore(0)

    async def events(*, is_silent: bool) -> AsyncIterator[StreamEvent]:
        for word in ("a", "b", "c"):
            for _ in range(3 if is_silent else 0):
                await comments.acquire()  # the silence lasts until three comments have come
            yield text_delta(word)

    async def frames_of(*, is_silent: bool, keep_alive: float | None) -> list[bytes]:
        frames = []
        async for frame in tp.ui_response(events(is_silent=is_silent), keep_alive=keep_alive):
            frames.append(frame)
            if frame == ALIVE:
                comments.release()
        return frames

    quiet = await asyncio.wait_for(frames_of(is_silent=True, keep_alive=0.02), 10)
    silent = await frames_of(is_silent=False, keep_alive=None)
    talking = await frames_of(is_silent=False, keep_alive=60)

    assert quiet.count(ALIVE) >= 9
    assert quiet[1] == ALIVE
    assert [frame for frame in quiet if frame != ALIVE] == silent == talking
    assert tp.from_ui_stream(quiet) == tp.from_ui_stream(silent)


async def test_events_without_frames_count_as_silence() -> None:
    async def events() -> AsyncIterator[StreamEvent]:
        for _ in range(10):
            await asyncio.sleep(0.03)  # shorter than the pause of 0.1 seconds; all ten are longer
            yield text_delta("")

    frames = [frame async for frame in tp.ui_response(events(), keep_alive=0.1)]

    assert ALIVE in frames


async def test_a_keep_alive_timeout_loses_and_repeats_no_event() -> None:
    """Every event arrives at about the time of the keep-alive timeout."""
    asked = 0

    async def events() -> AsyncIterator[StreamEvent]:
        nonlocal asked
        for number in range(60):
            asked += 1
            await asyncio.sleep(0.002 + number % 3 * 0.0001)  # about the pause of 0.002 seconds
            yield text_delta(f"{number} ")

    thread = tp.from_ui_stream([frame async for frame in tp.ui_response(events(), keep_alive=0.002)])

    assert actions(thread) == [said("".join(f"{number} " for number in range(60)), finish_reason="stop")]
    assert asked == 60


async def test_a_run_is_only_a_few_events_ahead_of_its_reader() -> None:
    made = 0

    async def events() -> AsyncIterator[StreamEvent]:
        nonlocal made
        while made < 1000:
            made += 1
            yield text_delta("x")

    async for frame in tp.ui_response(events()):
        if b"text-delta" in frame:
            # The test proves an absence, which has no event: it gives the run time to go too far.
            await asyncio.sleep(0.05)
            break

    assert made < 6


@pytest.mark.parametrize("keep_alive", [None, 0.01, 60])
async def test_a_reader_can_disconnect_at_any_time(keep_alive: float | None) -> None:
    for moment in (0.0, 0.005, 0.015, 0.03):
        aborted = closed = False

        class Run:
            def __aiter__(self) -> AsyncIterator[StreamEvent]:
                return self.events()

            async def events(self) -> AsyncIterator[StreamEvent]:
                while True:
                    await asyncio.sleep(0.02)  # the pace of the stand-in; no assertion depends on it
                    yield text_delta("x")

            def abort(self) -> None:
                nonlocal aborted
                aborted = True

            async def aclose(self) -> None:
                nonlocal closed
                closed = True

        async def read_all(run: Run) -> None:
            async for _ in tp.ui_response(run, keep_alive=keep_alive):
                pass

        before = asyncio.all_tasks()
        reading = asyncio.ensure_future(read_all(Run()))
        await asyncio.sleep(moment)  # a sample of moments; the assertions hold at every moment
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await asyncio.sleep(0)

        assert asyncio.all_tasks() <= before
        assert (aborted, closed) == (True, True)


async def test_an_error_after_keep_alive_comments_is_sent() -> None:
    async def events() -> AsyncIterator[StreamEvent]:
        yield text_delta("a")
        await asyncio.sleep(0.05)  # longer than the pause of 0.01 seconds
        raise ValueError

    frames = [frame async for frame in tp.ui_response(events(), keep_alive=0.01)]

    assert ALIVE in frames
    assert b'"type":"error"' in frames[-1]


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_keep_alive_of_zero_seconds_or_less_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="keep_alive must be above zero"):
        tp.ui_response(agent_that("hi").stream("hi"), keep_alive=seconds)


async def test_a_disconnected_reader_stops_the_run() -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> str:
        """Takes forever."""
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()
        return ""

    call_slow = [{"type": "tool_call", "toolCallId": "c", "toolName": "slow", "arguments": {}}]
    stream = turntree.agent(model=scripted([call_slow, "x"]), tools=[slow]).stream("hi")
    app = tp.ui_response(stream)

    async with serving(app) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /api/chat HTTP/1.1\r\nhost: x\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"x-vercel-ai-ui-message-stream: v1" in head.lower()
        await asyncio.wait_for(started.wait(), 10)
        writer.close()
        await asyncio.wait_for(stopped.wait(), 10)


def test_fastapi_sends_a_run() -> None:
    app = FastAPI()

    @app.post("/api/chat")
    async def chat() -> StreamingResponse:
        ui = tp.ui_response(agent_that("hello").stream("hi"))
        return StreamingResponse(ui, headers=ui.headers)

    answer = TestClient(app).post("/api/chat")

    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["x-vercel-ai-ui-message-stream"] == "v1"
    assert actions(tp.from_ui_stream(answer.content)) == [said("hello", finish_reason="stop")]


async def test_a_run_is_sent_over_a_socket() -> None:
    async with serving(tp.ui_response(agent_that("hello").stream("hi"))) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /api/chat HTTP/1.1\r\nhost: x\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        body = await asyncio.wait_for(reader.read(), 10)
        writer.close()

    assert actions(tp.from_ui_stream(body)) == [said("hello", finish_reason="stop")]


@asynccontextmanager
async def serving(app: tp.UiResponse) -> AsyncIterator[int]:
    """A small ASGI server on the loopback interface: one request per connection; the close ends the body."""
    answers: set[asyncio.Task[None]] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        answers.add(task)
        try:
            await respond(reader, writer)
        finally:
            writer.close()
            await asyncio.wait({asyncio.ensure_future(writer.wait_closed())})

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")

        async def receive() -> dict[str, Any]:
            await reader.read()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = b"".join(b"%s: %s\r\n" % pair for pair in message["headers"] if pair[0] != b"connection")
                writer.write(b"HTTP/1.1 %d OK\r\nconnection: close\r\n%s\r\n" % (message["status"], headers))
            else:
                writer.write(message["body"])
            await writer.drain()

        await app({"type": "http", "method": "POST", "path": "/api/chat", "headers": []}, receive, send)

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
        # A connection that is open when the loop ends is a warning in another test.
        await asyncio.gather(*answers, return_exceptions=True)

"""Streams of the Vercel AI SDK: read from anything that gives them, and written for ASGI servers."""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    MutableMapping,
)
from contextlib import suppress
from typing import Any, Literal, TypeAlias, overload

from turntree import _core

UiChunk: TypeAlias = Mapping[str, Any]
"""One chunk of a UI message stream: a dict with a ``type``."""

_Scope: TypeAlias = MutableMapping[str, Any]
_Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_Piece: TypeAlias = UiChunk | bytes | bytearray | str

MASKED = "An error occurred."
_ALIVE = b": keep-alive\n\n"


@overload
def from_ui_stream(
    source: AsyncIterable[_Piece],
    *,
    messages: Iterable[Mapping[str, Any]] | str | bytes | None = None,
    agent: _core.AgentConfig | Mapping[str, Any] | None = None,
    thread_id: str | None = None,
    chat_id: str | None = None,
    title: str | None = None,
    timestamp: Any = None,
    profile: Literal["full", "portable"] = "full",
    sidecar: Literal["none", "portable", "full"] = "portable",
    errors: Literal["raise", "stop"] = "raise",
) -> Awaitable[_core.ProtocolThread]: ...
@overload
def from_ui_stream(
    source: bytes | bytearray | str | Iterable[_Piece],
    *,
    messages: Iterable[Mapping[str, Any]] | str | bytes | None = None,
    agent: _core.AgentConfig | Mapping[str, Any] | None = None,
    thread_id: str | None = None,
    chat_id: str | None = None,
    title: str | None = None,
    timestamp: Any = None,
    profile: Literal["full", "portable"] = "full",
    sidecar: Literal["none", "portable", "full"] = "portable",
    errors: Literal["raise", "stop"] = "raise",
) -> _core.ProtocolThread: ...
def from_ui_stream(
    source: Any,
    *,
    messages: Iterable[Mapping[str, Any]] | str | bytes | None = None,
    agent: _core.AgentConfig | Mapping[str, Any] | None = None,
    thread_id: str | None = None,
    chat_id: str | None = None,
    title: str | None = None,
    timestamp: Any = None,
    profile: Literal["full", "portable"] = "full",
    sidecar: Literal["none", "portable", "full"] = "portable",
    errors: Literal["raise", "stop"] = "raise",
) -> Any:
    """Make a thread of a UI message stream of the Vercel AI SDK, 5 to 7.

    Args:
        source: The body of the response as bytes or str, or an iterable of chunks (dicts) or of pieces of the body, cut
            anywhere. For an async iterable the result is awaitable.
        messages: The conversation before the stream, as the client has it; a stream that answers an approval goes on
            with its last message.
        agent: Who answers. Default: as the sidecar says, else one agent called "assistant".
        thread_id: Default: as the sidecar says, else one that follows from `chat_id` or the first message.
        chat_id: The id of the chat: a UUID is the thread's id, from another one it follows.
        title: Default: the beginning of the first user text.
        timestamp: The time of messages that say none (str or datetime with zone). Default: 1970, so that the same
            stream always gives the same thread.
        profile: "full" keeps what it takes to give the messages back equal, "portable" only what others understand.
        sidecar: How much to take of what turntree said beside the parts: "none", "portable" (times, agents, usage), or
            "full" (metadata and system prompts too), which is for messages that no client had in its hands.
        errors: "raise", or "stop" to keep what came before the place where the real client gives up.

    Raises:
        ValidationError: The stream breaks off where the real client gives it up; names the chunk.
        TypeError: A piece is neither a dict nor bytes nor str.

    UI message stream, §2 to §5 and §12.
    """
    if errors not in ("raise", "stop"):
        message = f'errors must be "raise" or "stop", not "{errors}"'
        raise ValueError(message)
    reader = _core.UiStreamReader(
        messages=messages,
        agent=agent,
        thread_id=thread_id,
        chat_id=chat_id,
        title=title,
        timestamp=timestamp,
        profile=profile,
        sidecar=sidecar,
    )
    ends: tuple[type[BaseException], ...] = ()
    if errors == "stop":
        from turntree.exceptions import ValidationError

        ends = (ValidationError,)
    if hasattr(source, "__aiter__"):
        return _read(reader, source, ends)
    pieces = (source,) if isinstance(source, (bytes, bytearray, str)) else source
    with suppress(*ends):
        for piece in pieces:
            reader.feed(piece)
    return reader.thread()


async def _read(
    reader: _core.UiStreamReader, source: AsyncIterable[_Piece], ends: tuple[type[BaseException], ...]
) -> _core.ProtocolThread:
    with suppress(*ends):
        async for piece in source:
            reader.feed(piece)
    return reader.thread()


class UiResponse:
    """A run as the body of a response that `useChat` reads: an async iterator of bytes, and an ASGI application.

    In FastAPI and Starlette give it to ``StreamingResponse(ui, headers=ui.headers)``; where an ASGI application may be
    returned or mounted it is one by itself. When the reader goes away the run is stopped.
    """

    __slots__ = ("_keep_alive", "_live", "_on_error", "_stream", "_used", "headers", "status_code")

    def __init__(
        self,
        stream: Any,
        live: _core.UiLiveStream,
        on_error: Callable[[BaseException], str] | None,
        keep_alive: float | None,
    ) -> None:
        self._stream = stream
        self._live = live
        self._on_error = on_error
        self._keep_alive = keep_alive
        self._used = False
        self.status_code: int = 200
        self.headers: dict[str, str] = _core.ui_stream_headers()

    @property
    def media_type(self) -> str:
        """The content type, ``text/event-stream``."""
        return self.headers["content-type"]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Give the frames of the stream, ``[DONE]`` last. The run starts here, and stops when the iteration does."""
        if self._used:
            message = "a run can be sent once; start another one, or keep what was sent"
            raise RuntimeError(message)
        self._used = True
        stream, live = self._stream, self._live
        is_over = False
        said = _frames(stream, live)
        if self._keep_alive is not None:
            said = _or_silence(said, self._keep_alive)
        try:
            yield live.start()
            try:
                async for frames in said:
                    yield frames
                is_over = True
                yield live.abort() if await _was_aborted(stream) else live.finish()
            except Exception as error:  # whatever went wrong, the status has been sent
                is_over = True
                yield live.error(self._say(error))
        finally:
            if not is_over:
                _call(stream, "abort")
            # Nothing of the run may be asked for by another task when it is closed.
            await said.aclose()
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()

    def _say(self, error: BaseException) -> str:
        if self._on_error is None:
            return MASKED
        try:
            return str(self._on_error(error))
        except Exception:  # the one place left to say something
            return MASKED

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Answer a request as an ASGI application; stops the run when the client disconnects."""
        if scope["type"] != "http":
            message = f'a UI message stream answers "http", not "{scope["type"]}"'
            raise RuntimeError(message)
        sending = asyncio.ensure_future(self._send(send))
        leaving = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                sending.cancel()
        finally:
            for task in (sending, leaving):
                task.cancel()
            outcome = (await asyncio.gather(sending, leaving, return_exceptions=True))[0]
        if isinstance(outcome, Exception) and not isinstance(outcome, OSError):
            raise outcome

    async def _send(self, send: _Send) -> None:
        headers = [(name.encode(), value.encode()) for name, value in self.headers.items()]
        await send({"type": "http.response.start", "status": self.status_code, "headers": headers})
        frames = self.__aiter__()
        try:
            async for frame in frames:
                await send({"type": "http.response.body", "body": frame, "more_body": True})
        finally:
            # A generator that is left behind would be closed by the event loop, some time.
            await frames.aclose()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def __repr__(self) -> str:
        return f"UiResponse({type(self._stream).__name__})"


async def _disconnected(receive: _Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _frames(stream: Any, live: _core.UiLiveStream) -> AsyncGenerator[bytes, None]:
    """Give the frames of what the run says, as it says it."""
    async for events in _batches(stream):
        frames = live.events(events)
        if frames:
            yield frames


async def _or_silence(frames: AsyncGenerator[bytes, None], seconds: float) -> AsyncGenerator[bytes, None]:
    """Give the same frames, and a comment whenever none has come for so long.

    One task asks for all frames, so that what is asked is never given up half-way: a wait that ends is a wait for that
    task. It goes no further ahead of the reader than one frame.
    """
    ready: asyncio.Queue[bytes] = asyncio.Queue(1)

    async def ask() -> None:
        async for frame in frames:
            await ready.put(frame)

    asking = asyncio.ensure_future(ask())
    getting = asyncio.ensure_future(ready.get())
    try:
        while True:
            # When everything was asked for, what is left is there already.
            waited: set[asyncio.Future[Any]] = {getting} if asking.done() else {getting, asking}
            if asking.done() and ready.empty() and not getting.done():
                break
            await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if getting.done():
                yield getting.result()
                getting = asyncio.ensure_future(ready.get())
            elif not asking.done():
                yield _ALIVE
        await asking
    finally:
        asking.cancel()
        getting.cancel()
        await asyncio.gather(asking, getting, return_exceptions=True)
        await frames.aclose()


async def _batches(stream: Any) -> AsyncIterator[list[Any]]:
    """Give all events that are ready at once, where the stream can."""
    batches = getattr(stream, "batches", None)
    if batches is None:
        async for event in stream:
            yield [event]
        return
    async for events in batches():
        yield events


async def _was_aborted(stream: Any) -> bool:
    turn = getattr(stream, "turn", None)
    if turn is None:
        return False
    metadata: dict[str, Any] = getattr((await turn).response, "metadata", None) or {}
    about: dict[str, Any] = metadata.get("uap") or {}
    return bool(about.get("aborted"))


def _call(target: Any, name: str) -> None:
    method = getattr(target, name, None)
    if method is not None:
        method()


def ui_response(
    stream: Any,
    *,
    message_id: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    on_error: Callable[[BaseException], str] | None = None,
    keep_alive: float | None = 15.0,
) -> UiResponse:
    """Send a run to `useChat` of the Vercel AI SDK, 5 to 7, as it happens.

    ::

        @app.post("/api/chat")
        async def chat(request: Request) -> StreamingResponse:
            body = await request.json()
            ui = ui_response(coder.stream(body["messages"][-1]["parts"][-1]["text"]))
            return StreamingResponse(ui, headers=ui.headers)

    Args:
        stream: What `Agent.stream`, `Session.stream` or `LLM.stream` gives, or any async iterable of their events.
        message_id: The id of the message. Default: the client makes one.
        metadata: Facts of the application, in the metadata of the message.
        on_error: What the client is told of an error that ends the run, which comes after the status was sent.
            Default: "An error occurred.", because messages of errors are for operators.
        keep_alive: Seconds of silence after which a comment is sent, which clients pass over: proxies close connections
            that say nothing while a tool works. None sends none.

    Raises:
        TypeError: `metadata` holds what JSON does not have.
        ValueError: `keep_alive` is not above zero.

    UI message stream, §2 to §4.
    """
    if keep_alive is not None and not keep_alive > 0:
        message = f"keep_alive must be above zero, or None to send nothing, not {keep_alive}"
        raise ValueError(message)
    live = _core.UiLiveStream(message_id, None if metadata is None else dict(metadata))
    return UiResponse(stream, live, on_error, keep_alive)

"""UI message streams of the Vercel AI SDK: reading them, and sending them from ASGI servers."""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
)
from contextlib import suppress
from typing import Any, Literal, TypeAlias, TypedDict, cast, overload

from turntree import _core
from turntree._typing import Unpack
from turntree._ui_input import UiInput
from turntree.exceptions import ApprovalRequired


class ReadOptions(TypedDict, total=False):
    """The keyword options of `from_ui_stream`."""

    messages: Iterable[Mapping[str, Any]] | str | bytes | None
    agent: _core.AgentConfig | Mapping[str, Any] | None
    thread_id: str | None
    chat_id: str | None
    title: str | None
    timestamp: Any
    profile: Literal["full", "portable"]
    sidecar: Literal["none", "portable", "full"]
    errors: Literal["raise", "stop"]


UiChunk: TypeAlias = Mapping[str, Any]
"""One chunk of a UI message stream: a dict with a ``type``."""

_Scope: TypeAlias = MutableMapping[str, Any]
_Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_Piece: TypeAlias = UiChunk | bytes | bytearray | str

DEFAULT_ERROR_TEXT = "An error occurred."
_KEEP_ALIVE_COMMENT = b": keep-alive\n\n"


@overload
def from_ui_stream(
    source: AsyncIterable[_Piece], **options: Unpack[ReadOptions]
) -> Awaitable[_core.ProtocolThread]: ...
@overload
def from_ui_stream(
    source: bytes | bytearray | str | Iterable[_Piece], **options: Unpack[ReadOptions]
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
    """Create a thread from a UI message stream of the Vercel AI SDK, versions 5 to 7.

    Args:
        source: The body of the response as bytes or str, or an iterable of chunks (dicts) or of parts of the body,
            split anywhere. For an async iterable, the result is awaitable.
        messages: The conversation before the stream, as the client has it. A stream that continues after an approval
            continues the last message.
        agent: The agent. Default: from the sidecar, else one agent called "assistant".
        thread_id: Id of the thread. Default: from the sidecar, else derived from `chat_id` or the first message.
        chat_id: Id of the chat. A UUID is used as the thread's id; otherwise the thread's id is derived from it.
        title: Default: the beginning of the first user text.
        timestamp: Time of messages without a time (str, or datetime with a time zone). Default: 1970, so that the same
            stream always gives the same thread.
        profile: "full" stores the data for an exact round trip, "portable" only standard data.
        sidecar: How much of turntree's own metadata to read: "none", "portable" (times, agents, usage), or "full" (also
            metadata and system prompts; only for messages that no client can have changed).
        errors: "raise", or "stop" to return the messages before the error.

    Raises:
        ValidationError: The real client would stop with an error here; the message names the chunk. Or the body is
            empty, or not a stream of server-sent events.
        TypeError: A part is neither a dict nor bytes nor str.

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
    ignored: tuple[type[BaseException], ...] = ()
    if errors == "stop":
        from turntree.exceptions import ValidationError

        ignored = (ValidationError,)
    if hasattr(source, "__aiter__"):
        return _read(reader, source, ignored)
    pieces = (source,) if isinstance(source, (bytes, bytearray, str)) else source
    beginning = _BodyBeginning()
    with suppress(*ignored):
        for piece in pieces:
            beginning.add(piece)
            reader.feed(piece)
        beginning.check(reader)
    return reader.thread()


class _BodyBeginning:
    """The first characters of a response body, to detect a text that is not a stream of server-sent events.

    Decoders of such streams ignore all other texts.
    """

    __slots__ = ("_has_text", "_text")

    def __init__(self) -> None:
        self._has_text = False
        self._text = ""

    def add(self, piece: object) -> None:
        """Take the next part of the body; ignores chunks that are dicts."""
        if isinstance(piece, (bytes, bytearray, str)):
            self._has_text = True
            if len(self._text) < 8:
                text = piece if isinstance(piece, str) else bytes(piece[:4096]).decode("utf-8", "replace")
                self._text = (self._text + text).lstrip("\ufeff\r\n\t ")[:40]

    def check(self, reader: _core.UiStreamReader) -> None:
        """Raise ValidationError if the body had no event and does not begin as a stream of them."""
        if not self._has_text or reader.count or self._text.startswith((":", "data", "event", "id", "retry")):
            return
        from turntree.exceptions import ValidationError

        expected = "expected the body of a response, server-sent events such as 'data: {…}'"
        if not self._text:
            message = f"the text is empty; {expected}"
        else:
            message = f"the text has no server-sent event and begins with {self._text!r}; {expected}"
        raise ValidationError(message)


async def _read(
    reader: _core.UiStreamReader, source: AsyncIterable[_Piece], ignored: tuple[type[BaseException], ...]
) -> _core.ProtocolThread:
    beginning = _BodyBeginning()
    with suppress(*ignored):
        async for piece in source:
            beginning.add(piece)
            reader.feed(piece)
        beginning.check(reader)
    return reader.thread()


class UiResponse:
    """A streamed run as a response for `useChat`: an async iterator of bytes, and an ASGI application.

    In FastAPI and Starlette, pass it to ``StreamingResponse(ui, headers=ui.headers)``. It can also be mounted or
    returned as an ASGI application. If the client disconnects, the run is stopped.
    """

    __slots__ = ("_keep_alive", "_known", "_live", "_on_error", "_sdk", "_stream", "_used", "headers", "status_code")

    def __init__(
        self,
        stream: Any,
        live: _core.UiLiveStream,
        on_error: Callable[[BaseException], str] | None,
        keep_alive: float | None,
        sdk: int,
        known: Collection[str],
    ) -> None:
        self._stream = stream
        self._known = known
        self._live = live
        self._on_error = on_error
        self._keep_alive = keep_alive
        self._sdk = sdk
        self._used = False
        self.status_code: int = 200
        self.headers: dict[str, str] = _core.ui_stream_headers()

    @property
    def media_type(self) -> str:
        """The content type, ``text/event-stream``."""
        return self.headers["content-type"]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the frames of the stream, ``[DONE]`` last. The run starts here, and stops if the iteration stops."""
        if self._used:
            message = "a run can be sent only once; start another run, or store the frames"
            raise RuntimeError(message)
        self._used = True
        stream, live = self._stream, self._live
        is_over = False
        source = _frames(stream, live)
        if self._keep_alive is not None:
            source = _with_keep_alive(source, self._keep_alive)
        try:
            yield live.start()
            try:
                async for frames in source:
                    yield frames
                is_over = True
                yield live.abort() if await _was_aborted(stream) else live.finish()
            except ApprovalRequired as required:
                is_over = True
                for id, call in _asked(required, self._known):
                    yield live.approval(call, self._sdk > 5, id)
                yield live.finish()
            except Exception as error:  # the status is already sent, so the error becomes a frame
                is_over = True
                yield live.error(self._error_text(error))
        finally:
            if not is_over:
                _call(stream, "abort")
            # The run can be closed only if no other task awaits its events.
            await source.aclose()
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()

    def _error_text(self, error: BaseException) -> str:
        if self._on_error is None:
            return DEFAULT_ERROR_TEXT
        try:
            return str(self._on_error(error))
        except Exception:  # the client still needs an error frame
            return DEFAULT_ERROR_TEXT

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Handle a request as an ASGI application. Stops the run if the client disconnects."""
        if scope["type"] != "http":
            message = f'a UI message stream requires the ASGI scope "http", not "{scope["type"]}"'
            raise RuntimeError(message)
        sending = asyncio.ensure_future(self._send(send))
        disconnected = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            await asyncio.wait({sending, disconnected}, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                sending.cancel()
        finally:
            for task in (sending, disconnected):
                task.cancel()
            outcome = (await asyncio.gather(sending, disconnected, return_exceptions=True))[0]
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
            # Close the generator now; otherwise the event loop would close it later.
            await frames.aclose()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def __repr__(self) -> str:
        return f"UiResponse({type(self._stream).__name__})"


async def _wait_for_disconnect(receive: _Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _frames(stream: Any, live: _core.UiLiveStream) -> AsyncGenerator[bytes, None]:
    """Yield the frames of the events of a run."""
    async for events in _batches(stream):
        frames = live.events(events)
        if frames:
            yield frames


async def _with_keep_alive(frames: AsyncGenerator[bytes, None], seconds: float) -> AsyncGenerator[bytes, None]:
    """Yield the frames, and a comment after each period of `seconds` without a frame.

    One task reads all frames, so that a timeout never cancels a read. The task reads at most one frame ahead.
    """
    queue: asyncio.Queue[bytes] = asyncio.Queue(1)

    async def read_frames() -> None:
        async for frame in frames:
            await queue.put(frame)

    reading = asyncio.ensure_future(read_frames())
    getting = asyncio.ensure_future(queue.get())
    try:
        while True:
            # After the last read, the remaining frames are in the queue.
            futures: set[asyncio.Future[Any]] = {getting} if reading.done() else {getting, reading}
            if reading.done() and queue.empty() and not getting.done():
                break
            await asyncio.wait(futures, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if getting.done():
                yield getting.result()
                getting = asyncio.ensure_future(queue.get())
            elif not reading.done():
                yield _KEEP_ALIVE_COMMENT
        await reading
    finally:
        reading.cancel()
        getting.cancel()
        await asyncio.gather(reading, getting, return_exceptions=True)
        await frames.aclose()


async def _batches(stream: Any) -> AsyncIterator[list[Any]]:
    """Yield lists of all events that are ready. A stream without `batches` gives one event per list."""
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
    agent_metadata: dict[str, Any] = metadata.get("uap") or {}
    return bool(agent_metadata.get("aborted"))


def _asked(required: ApprovalRequired, known: Collection[str]) -> Iterator[tuple[str, _core.ToolCall]]:
    """Yield the calls that wait, each with an id that only it has: the one under which the client knows it, if it does.

    Args:
        required: The error that ended the run.
        known: The ids of the calls that the client has.
    """
    session = required.session
    waiting = [] if session is None else session._native.pending_by_key
    for call in required.calls:
        found = next((one for one in waiting if one[3] == call), None)
        if found is None:
            yield call.tool_call_id, call
            continue
        waiting.remove(found)
        key, shown_id, *_ = found
        yield key if key in known else shown_id, call


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
    reply_to: UiInput | None = None,
    sdk: Literal[5, 6, 7] = 6,
) -> UiResponse:
    """Stream a run to `useChat` of the Vercel AI SDK, versions 5 to 7.

    ::

        @app.post("/api/chat")
        async def chat(request: Request) -> StreamingResponse:
            chat = ui_input(await request.json())
            session = await Session.open(store, chat.id, coder)
            ui = ui_response(chat.stream(session), reply_to=chat)
            return StreamingResponse(ui, headers=ui.headers)

    Args:
        stream: The result of `Agent.stream`, `Session.stream` or `LLM.stream`, or any async iterable of their events.
        message_id: The id of the message. Default: the client creates one.
        metadata: Metadata of the application, stored in the message.
        on_error: A function that returns the text for the client if the run fails. Default: "An error occurred.",
            because error messages may contain internal data.
        keep_alive: Seconds without a frame after which a comment is sent. Clients ignore it; it prevents proxies from
            closing the connection while a tool runs. None sends no comments.
        reply_to: The request, from `ui_input`. The response to answers then continues the message of the assistant.
        sdk: The major version of the client. If tool calls of a session wait for approval, the stream ends with a
            request for each of them; clients of version 5 do not know these, and show a call without a result.

    Raises:
        TypeError: `stream` is not an async iterable, or `metadata` is not JSON data.
        ValueError: `keep_alive` is not positive.

    UI message stream, §2 to §4.
    """
    if keep_alive is not None and not keep_alive > 0:
        message = f"keep_alive must be above zero, or None to send no comments, not {keep_alive}"
        raise ValueError(message)
    if sdk not in (5, 6, 7):
        message = f"sdk must be 5, 6 or 7, not {sdk!r}"
        raise ValueError(message)
    if not hasattr(stream, "__aiter__"):
        message = f"stream must be agent.stream(input), session.stream(input) or alike, not {type(stream).__name__}"
        raise TypeError(message)
    calls: list[str] = []
    denied: list[str] = []
    known: set[str] = set()
    if reply_to is not None and reply_to.input is None:
        message_id = message_id if message_id is not None else reply_to.message_id
        calls = [answer.tool_call_id for answer in reply_to.answers]
        parts: list[Any] = reply_to.messages[-1]["parts"]
        known = {str(cast("dict[str, Any]", part).get("toolCallId")) for part in parts if isinstance(part, dict)}
        # Clients of version 5 show a denied call as an error.
        denied = [answer.tool_call_id for answer in reply_to.answers if not answer.approved and sdk > 5]
    live = _core.UiLiveStream(message_id, None if metadata is None else dict(metadata), calls, denied)
    return UiResponse(stream, live, on_error, keep_alive, sdk, known)

"""The server: sockets, threads, and what the script says written in the dialect of the request."""

from __future__ import annotations

import json
import selectors
import socket
import socketserver
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from turntree.testing._anthropic import AnthropicMessages
from turntree.testing._embeddings import EMBEDDINGS
from turntree.testing._google import GoogleGenerateContent
from turntree.testing._images import IMAGES, form_of
from turntree.testing._ollama import OllamaChat
from turntree.testing._openai_chat import OpenAIChat
from turntree.testing._openai_responses import OpenAIResponses
from turntree.testing._replies import (
    ErrorReply,
    Fault,
    RawReply,
    Reply,
    Script,
    ToolCall,
    compile_script,
)
from turntree.testing._request import Outcome, Request
from turntree.testing._wire import Call, Dialect, Exchange, compact

if TYPE_CHECKING:
    from typing_extensions import Self

_DIALECTS: tuple[Dialect, ...] = (
    OpenAIChat(),
    OpenAIResponses(),
    AnthropicMessages(),
    GoogleGenerateContent(),
    OllamaChat(),
)

_SERVED: tuple[Dialect, ...] = (*_DIALECTS, *EMBEDDINGS, *IMAGES)

_MAX_BODY = 256 * 1024 * 1024

_NO_FAULT = Fault()


def serve(script: Script, *, strict: bool = True) -> LoopbackServer:
    """Start a server on a free loopback port.

    Args:
        script: What it answers: one reply for every request, a list of replies used up in the
            order in which requests arrive, or a function from `Request` to a reply. Text is a
            reply, so is a `ToolCall`, so is a list of them; `Reply`, `ErrorReply` and `RawReply`
            say more.
        strict: Refuse what the vendor would refuse (no API key, missing fields, tool calls
            without results), with its status and body, without using up the script.

    Returns:
        The running server, for a `with` block; or call its `close()`.

    Raises:
        TypeError: The script holds something that is no reply.
        OSError: No port can be opened.
    """
    return LoopbackServer(script, strict=strict).start()


class LoopbackServer:
    """An HTTP/1.1 server on 127.0.0.1 in a background thread, one more thread a connection.

    It knows an API by the end of the path: `…/chat/completions`, `…/responses`, `…/messages`, `…:generateContent`,
    `…:streamGenerateContent`, `…/api/chat`, and those of embeddings and images: `…/embeddings`, `…:batchEmbedContents`,
    `…/api/embed`, `…/images/generations`, `…/images/edits`, `…:predict`.
    Leaving the `with` block closes every connection and raises what the script's function raised,
    if the block itself did not raise.

    Args:
        script: What to answer, see `serve`.
        strict: Refuse what the vendor would refuse, see `serve`.

    Raises:
        TypeError: The script holds something that is no reply.
    """

    def __init__(self, script: Script, *, strict: bool = True) -> None:
        self.strict = strict
        self._handler: type[Handler] = Handler
        self.errors: list[Exception] = []
        """What the script's function raised; the client got status 500."""
        self._reply_to = compile_script(script)
        self._requests: list[Request] = []
        self._changed = threading.Condition()
        self._call_numbers = count(1)
        self._listener: _Listener | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The root of the server: `http://127.0.0.1:PORT`.

        Raises:
            RuntimeError: The server is not running.
        """
        if self._listener is None:
            raise RuntimeError("the loopback server is not running; use it in a `with` block")
        return f"http://127.0.0.1:{self._listener.server_address[1]}"

    @property
    def base_url(self) -> str:
        """What clients take as their base URL: `http://127.0.0.1:PORT/v1`."""
        return f"{self.url}/v1"

    @property
    def requests(self) -> list[Request]:
        """The requests so far, in the order in which they arrived."""
        with self._changed:
            return list(self._requests)

    def wait_for_request(self, number: int = 1, timeout: float = 5.0) -> Request:
        """Wait until so many requests have arrived.

        Args:
            number: 1 for the first request.
            timeout: Seconds to wait at most.

        Returns:
            The request with that number.

        Raises:
            TimeoutError: It did not arrive in time.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._requests) >= number, timeout):
                raise TimeoutError(f"request {number} did not arrive within {timeout:g} s")
            return self._requests[number - 1]

    def start(self) -> Self:
        """Open the port and serve; a running server is left as it is.

        Raises:
            OSError: No port can be opened.
        """
        if self._listener is None:
            self._listener = _Listener(self)
            self._thread = threading.Thread(
                target=self._listener.serve_forever,
                kwargs={"poll_interval": 0.02},
                name="turntree-loopback",
                daemon=True,
            )
            self._thread.start()
        return self

    def close(self) -> None:
        """Stop serving and close every connection; a closed server is left as it is."""
        listener, thread = self._listener, self._thread
        self._listener = self._thread = None
        if listener is None or thread is None:
            return
        listener.shutdown()
        thread.join()
        listener.close_connections()
        listener.server_close()

    def __enter__(self) -> Self:
        """Start, unless started."""
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close, and raise what the script raised."""
        self.close()
        if error is None and self.errors:
            raise self.errors[0]

    def __repr__(self) -> str:
        """Address and number of requests."""
        place = self.url if self._listener is not None else "closed"
        return f"<LoopbackServer {place} requests={len(self._requests)}>"

    def _record(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Request:
        """Keep a request; the first byte of its response is sent after this."""
        path, _, query = target.partition("?")
        try:
            parsed: Any = json.loads(body)
        except ValueError:  # UnicodeDecodeError is one
            parsed = form_of(headers, body)
        dialect = next((d for d in _SERVED if d.speaks(path)), None)
        with self._changed:
            request = Request(
                number=len(self._requests) + 1,
                method=method,
                path=path,
                query=query,
                headers=headers,
                body=body,
                json=parsed,
                dialect=dialect,
            )
            self._requests.append(request)
            self._changed.notify_all()
        return request

    def _answer(self, request: Request, dialect: Dialect | None) -> Reply | ErrorReply | RawReply:
        """Choose the reply: a refusal, the script's, or the script's failure."""
        if dialect is None:
            return ErrorReply(404, f"Invalid URL ({request.method} {request.path})")
        if request.method != "POST":
            return ErrorReply(405, f"Not allowed to {request.method} on {request.path}")
        if self.strict:
            if not isinstance(request.json, dict):
                return ErrorReply(400, "We could not parse the JSON body of your request.")
            if (refusal := dialect.check(request)) is not None:
                return refusal
        try:
            return self._reply_to(request)
        except Exception as error:  # whatever the script raises goes to the test
            self.errors.append(error)
            return ErrorReply(500, f"the script raised {type(error).__name__}: {error}")

    def _settle(self, call: ToolCall) -> Call:
        """Give a call its id and write its arguments."""
        given = call.arguments
        return Call(
            id=call.id or f"call_{next(self._call_numbers)}",
            name=call.name,
            arguments=given if isinstance(given, str) else compact(dict(given)),
        )


class _Listener(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Accepts connections and knows which are open."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 512

    def __init__(self, owner: LoopbackServer) -> None:
        self.owner = owner
        self.closing = threading.Event()
        self._open: set[socket.socket] = set()
        self._idle = threading.Condition()
        super().__init__(("127.0.0.1", 0), owner._handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._idle:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self._idle:
            self._open.discard(request)
            self._idle.notify_all()

    def close_connections(self) -> None:
        """Wake every handler by closing its connection, and wait for them a while."""
        self.closing.set()
        with self._idle:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._idle.wait_for(lambda: not self._open, timeout=5)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that leaves is ordinary here."""


class _LeftError(Exception):
    """The client, or the server itself, closed the connection while a response was under way."""


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Listener  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_POST(self) -> None:
        self._respond()

    do_GET = do_PUT = do_PATCH = do_DELETE = do_POST

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing on stderr."""

    def _respond(self) -> None:
        body = self._read_body()
        if body is None:
            return
        owner = self.server.owner
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = owner._record(self.command, self.path, headers, body)
        outcome: Outcome = "dropped"
        try:
            outcome = self._write(request)
        except (_LeftError, ConnectionError):
            self.close_connection = True
        finally:
            request._finish(outcome)

    def _read_body(self) -> bytes | None:
        """Read the request's body; None if its length is not given or too large."""
        given = self.headers.get("content-length", "0")
        if self.headers.get("transfer-encoding") is not None or not given.isdigit():
            self.send_error(411)
        elif int(given) > _MAX_BODY:
            self.send_error(413)
        else:
            return self.rfile.read(int(given))
        self.close_connection = True
        return None

    def _write(self, request: Request) -> Outcome:
        """Write the response in the dialect of the request."""
        dialect, owner = cast("Dialect | None", request._dialect), self.server.owner
        reply = owner._answer(request, dialect)
        shape = dialect or _DIALECTS[0]
        if reply.delay:
            self._pause(reply.delay)
        headers = {**shape.headers(request), **reply.headers}
        match reply:
            case ErrorReply():
                if reply.retry_after is not None:
                    headers["retry-after"] = str(reply.retry_after)
                body = compact(shape.error(reply, request)).encode()
                return self._write_whole(reply.status, headers, "application/json", body, None)
            case RawReply():
                raw = reply.body.encode() if isinstance(reply.body, str) else reply.body
                if reply.chunked:
                    return self._write_chunks(reply.status, headers, reply.content_type, iter((raw,)), reply.fault, 0.0)
                return self._write_whole(reply.status, headers, reply.content_type, raw, reply.fault)
            case Reply():
                return self.write_reply(request, shape, reply)

    def write_reply(self, request: Request, dialect: Dialect, reply: Reply) -> Outcome:
        """Write a good reply, or what its fault makes of it."""
        headers = {**dialect.headers(request), **reply.headers}
        calls = tuple(self.server.owner._settle(call) for call in reply.tool_calls)
        exchange = Exchange(request=request, reply=reply, calls=calls)
        if not request.stream:
            body = compact(dialect.response(exchange)).encode()
            return self._write_whole(200, headers, "application/json", body, reply.fault)
        headers["cache-control"] = "no-cache"
        events = _with_error_event(dialect, dialect.events(exchange), reply.fault)
        end = self._write_chunks(200, headers, dialect.stream_type, events, reply.fault, reply.gap)
        broken = reply.fault is not None and reply.fault.error_after is not None
        return "faulted" if broken else end

    def _write_whole(
        self,
        status: int,
        headers: Mapping[str, str],
        content_type: str | None,
        body: bytes,
        fault: Fault | None,
    ) -> Outcome:
        """Write a body with its length."""
        fault = fault or _NO_FAULT
        whole = len(body)
        if fault.truncate_after is not None:
            body = body[: fault.truncate_after]
            fault = replace(fault, truncate_after=None)
        self._write_head(status, headers, content_type, fault, length=len(body))
        outcome = self._write_pieces(iter((body,)), fault, 0.0, chunked=False)
        return "faulted" if len(body) < whole else outcome

    def _write_chunks(
        self,
        status: int,
        headers: Mapping[str, str],
        content_type: str | None,
        pieces: Iterator[bytes],
        fault: Fault | None,
        gap: float,
    ) -> Outcome:
        """Write a body piece by piece, each a chunk."""
        fault = fault or _NO_FAULT
        self._write_head(status, headers, content_type, fault, length=None)
        return self._write_pieces(pieces, fault, gap, chunked=True)

    def _write_head(
        self,
        status: int,
        headers: Mapping[str, str],
        content_type: str | None,
        fault: Fault,
        *,
        length: int | None,
    ) -> None:
        self.send_response_only(status)
        self.send_header("server", "turntree-loopback")
        kind = fault.content_type or content_type
        if kind is not None:
            self.send_header("content-type", kind)
        if length is None:
            self.send_header("transfer-encoding", "chunked")
        else:
            self.send_header("content-length", str(length))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _write_pieces(self, pieces: Iterator[bytes], fault: Fault, gap: float, *, chunked: bool) -> Outcome:
        """Write the body up to the place where its fault strikes."""
        places = (fault.reset_after, fault.close_after, fault.truncate_after, fault.stall_after)
        limit = next((place for place in places if place is not None), None)
        sent = 0
        for number, piece in enumerate(pieces):
            if number and gap:
                self._pause(gap)
            if limit is not None and sent + len(piece) >= limit:
                self._write_piece(piece[: limit - sent], fault.write_size, chunked=chunked)
                self._strike(fault)
                return "faulted"
            self._write_piece(piece, fault.write_size, chunked=chunked)
            sent += len(piece)
        if chunked:
            self.wfile.write(b"0\r\n\r\n")
        return "sent"

    def _write_piece(self, piece: bytes, size: int | None, *, chunked: bool) -> None:
        size = size or max(len(piece), 1)
        for start in range(0, len(piece), size):
            part = piece[start : start + size]
            self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)

    def _strike(self, fault: Fault) -> None:
        """End the body the wrong way."""
        self.close_connection = True
        if fault.truncate_after is not None:
            self.wfile.write(b"0\r\n\r\n")
        elif fault.reset_after is not None:
            # No linger: closing sends RST instead of FIN. The reader holds the socket open too.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.rfile.close()
            self.connection.close()
        elif fault.stall_after is not None:
            with suppress(_LeftError):
                self._pause(None)

    def _pause(self, seconds: float | None) -> None:
        """Wait so long, or for ever, while client and server stay.

        Raises:
            _LeftError: One of them left.
        """
        end = None if seconds is None else time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self.connection, selectors.EVENT_READ)
            while True:
                step = 0.02 if end is None else min(0.02, end - time.monotonic())
                if self.server.closing.is_set():
                    raise _LeftError
                if step <= 0:
                    return
                if not selector.select(step):
                    continue
                if not self.connection.recv(1, socket.MSG_PEEK):
                    raise _LeftError
                self.server.closing.wait(step)  # the next request is already there


def _with_error_event(dialect: Dialect, events: Iterator[bytes], fault: Fault | None) -> Iterator[bytes]:
    """Break a stream off with the vendor's error event, where the fault says so."""
    if fault is None or fault.error_after is None:
        yield from events
        return
    for _, item in zip(range(fault.error_after), events, strict=False):
        yield item
    yield dialect.error_event(fault)

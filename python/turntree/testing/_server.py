"""The loopback server: sockets, threads, and responses in the dialect of each request."""

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
from typing import Any, cast

from turntree._typing import Self
from turntree.testing._anthropic import AnthropicMessages
from turntree.testing._bedrock import BedrockConverse
from turntree.testing._dialect import Call, Dialect, Exchange, compact
from turntree.testing._embeddings import EMBEDDINGS
from turntree.testing._google import GoogleGenerateContent
from turntree.testing._images import IMAGES, parse_form
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

_DIALECTS: tuple[Dialect, ...] = (
    OpenAIChat(),
    OpenAIResponses(),
    AnthropicMessages(),
    GoogleGenerateContent(),
    OllamaChat(),
    BedrockConverse(),
)

_ALL_DIALECTS: tuple[Dialect, ...] = (*_DIALECTS, *EMBEDDINGS, *IMAGES)

_MAX_BODY = 256 * 1024 * 1024

_NO_FAULT = Fault()


def serve(script: Script, *, strict: bool = True) -> LoopbackServer:
    """Start a server on a free loopback port.

    Args:
        script: The replies: one reply for all requests, a list of replies in the order in which requests arrive, or a
            function from a `Request` to its reply. A reply is a text, a `ToolCall`, a list of them, a `Reply`, an
            `ErrorReply` or a `RawReply`.
        strict: Respond to invalid requests (no API key, missing members, tool calls without results) with the vendor's
            status and error. Such requests use no reply of the script.

    Returns:
        The running server. Use it in a `with` block, or call its `close()`.

    Raises:
        TypeError: The script contains a value that is not a reply.
        OSError: No port can be opened.
    """
    return LoopbackServer(script, strict=strict).start()


class LoopbackServer:
    """An HTTP/1.1 server on 127.0.0.1 in a background thread, with one more thread per connection.

    The end of the path identifies the API: `…/chat/completions`, `…/responses`, `…/messages`, `…:generateContent`,
    `…:streamGenerateContent`, `…/api/chat`, `…/converse`, `…/converse-stream`, and those of embeddings and images:
    `…/embeddings`, `…:batchEmbedContents`, `…/api/embed`, `…/images/generations`, `…/images/edits`, `…:predict`.

    The end of the `with` block closes all connections. If the script's function raised an exception, and the block did
    not, the exception is raised there.

    Args:
        script: The replies, see `serve`.
        strict: Respond to invalid requests with an error, see `serve`.

    Raises:
        TypeError: The script contains a value that is not a reply.
    """

    def __init__(self, script: Script, *, strict: bool = True) -> None:
        self.strict = strict
        self._handler: type[Handler] = Handler
        self.errors: list[Exception] = []
        """Exceptions of the script's function. The client received status 500."""
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
        """The base URL for clients: `http://127.0.0.1:PORT/v1`."""
        return f"{self.url}/v1"

    @property
    def requests(self) -> list[Request]:
        """The requests so far, in the order in which they arrived."""
        with self._changed:
            return list(self._requests)

    def wait_for_request(self, number: int = 1, timeout: float = 5.0) -> Request:
        """Wait until a request arrives.

        Args:
            number: The number of the request, from 1.
            timeout: The maximum time in seconds.

        Returns:
            The request with this number.

        Raises:
            TimeoutError: The request did not arrive in time.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._requests) >= number, timeout):
                raise TimeoutError(f"request {number} did not arrive within {timeout:g} s")
            return self._requests[number - 1]

    def start(self) -> Self:
        """Open the port and start the server. No effect if it is running.

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
        """Stop the server and close all connections. No effect if it is closed."""
        listener, thread = self._listener, self._thread
        self._listener = self._thread = None
        if listener is None or thread is None:
            return
        listener.shutdown()
        thread.join()
        listener.close_connections()
        listener.server_close()

    def __enter__(self) -> Self:
        """Start the server."""
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the server, and raise the exception of the script's function."""
        self.close()
        if error is None and self.errors:
            raise self.errors[0]

    def __repr__(self) -> str:
        """Return the URL and the number of requests."""
        url = self.url if self._listener is not None else "closed"
        return f"<LoopbackServer {url} requests={len(self._requests)}>"

    def _record(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Request:
        """Record a request before the first byte of its response is sent."""
        path, _, query = target.partition("?")
        try:
            parsed: Any = json.loads(body)
        except ValueError:  # also UnicodeDecodeError
            parsed = parse_form(headers, body)
        dialect = next((d for d in _ALL_DIALECTS if d.matches(path)), None)
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

    def _reply(self, request: Request, dialect: Dialect | None) -> Reply | ErrorReply | RawReply:
        """Return the reply: the error for an invalid request, the script's reply, or the script's exception."""
        if dialect is None:
            return ErrorReply(404, f"Invalid URL ({request.method} {request.path})")
        if request.method != "POST":
            return ErrorReply(405, f"Not allowed to {request.method} on {request.path}")
        if self.strict:
            if not isinstance(request.json, dict):
                return ErrorReply(400, "We could not parse the JSON body of your request.")
            if (error_reply := dialect.check(request)) is not None:
                return error_reply
        try:
            return self._reply_to(request)
        except Exception as error:  # the test receives it at the end of the `with` block
            self.errors.append(error)
            return ErrorReply(500, f"the script raised {type(error).__name__}: {error}")

    def _numbered(self, call: ToolCall) -> Call:
        """Return a call with its id and with its arguments as JSON."""
        arguments = call.arguments
        return Call(
            id=call.id or f"call_{next(self._call_numbers)}",
            name=call.name,
            arguments=arguments if isinstance(arguments, str) else compact(dict(arguments)),
        )


class _Listener(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Accepts connections and tracks the open ones."""

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
        """Close all connections, which stops their handlers, and wait up to 5 seconds for them."""
        self.closing.set()
        with self._idle:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._idle.wait_for(lambda: not self._open, timeout=5)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: tests disconnect on purpose."""


class _DisconnectedError(Exception):
    """The client or the server closed the connection during a response."""


class Handler(BaseHTTPRequestHandler):
    """Handles the requests of one connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Listener  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_POST(self) -> None:
        self._respond()

    do_GET = do_PUT = do_PATCH = do_DELETE = do_POST

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing to stderr."""

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
        except (_DisconnectedError, ConnectionError):
            self.close_connection = True
        finally:
            request._finish(outcome)

    def _read_body(self) -> bytes | None:
        """Read the body of the request. None if its length is missing or too large."""
        length = self.headers.get("content-length", "0")
        if self.headers.get("transfer-encoding") is not None or not length.isdigit():
            self.send_error(411)
        elif int(length) > _MAX_BODY:
            self.send_error(413)
        else:
            return self.rfile.read(int(length))
        self.close_connection = True
        return None

    def _write(self, request: Request) -> Outcome:
        """Write the response in the dialect of the request."""
        dialect, owner = cast("Dialect | None", request._dialect), self.server.owner
        reply = owner._reply(request, dialect)
        response_dialect = dialect or _DIALECTS[0]
        if reply.delay:
            self._pause(reply.delay)
        headers = {**response_dialect.headers(request), **reply.headers}
        match reply:
            case ErrorReply():
                if reply.retry_after is not None:
                    headers["retry-after"] = str(reply.retry_after)
                body = compact(response_dialect.error(reply, request)).encode()
                return self._write_whole(reply.status, headers, "application/json", body, None)
            case RawReply():
                raw = reply.body.encode() if isinstance(reply.body, str) else reply.body
                if reply.chunked:
                    return self._write_chunks(reply.status, headers, reply.content_type, iter((raw,)), reply.fault, 0.0)
                return self._write_whole(reply.status, headers, reply.content_type, raw, reply.fault)
            case Reply():
                return self.write_reply(request, response_dialect, reply)

    def write_reply(self, request: Request, dialect: Dialect, reply: Reply) -> Outcome:
        """Write a successful reply, with its fault."""
        headers = {**dialect.headers(request), **reply.headers}
        calls = tuple(self.server.owner._numbered(call) for call in reply.tool_calls)
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
        """Write a body with a Content-Length header."""
        fault = fault or _NO_FAULT
        full_length = len(body)
        if fault.truncate_after is not None:
            body = body[: fault.truncate_after]
            fault = replace(fault, truncate_after=None)
        self._write_head(status, headers, content_type, fault, length=len(body))
        outcome = self._write_pieces(iter((body,)), fault, 0.0, chunked=False)
        return "faulted" if len(body) < full_length else outcome

    def _write_chunks(
        self,
        status: int,
        headers: Mapping[str, str],
        content_type: str | None,
        pieces: Iterator[bytes],
        fault: Fault | None,
        gap: float,
    ) -> Outcome:
        """Write a body in chunks, one for each piece."""
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
        """Write the body up to the position of its fault."""
        positions = (fault.reset_after, fault.close_after, fault.truncate_after, fault.stall_after)
        limit = next((position for position in positions if position is not None), None)
        sent = 0
        for number, piece in enumerate(pieces):
            if number and gap:
                self._pause(gap)
            if limit is not None and sent + len(piece) >= limit:
                self._write_piece(piece[: limit - sent], fault.write_size, chunked=chunked)
                self._inject(fault)
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

    def _inject(self, fault: Fault) -> None:
        """End the body in the way of the fault."""
        self.close_connection = True
        if fault.truncate_after is not None:
            self.wfile.write(b"0\r\n\r\n")
        elif fault.reset_after is not None:
            # Without linger, closing sends RST instead of FIN. `rfile` keeps the socket open too.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.rfile.close()
            self.connection.close()
        elif fault.stall_after is not None:
            with suppress(_DisconnectedError):
                self._pause(None)

    def _pause(self, seconds: float | None) -> None:
        """Wait a number of seconds, or without a limit if it is None, while the connection is open.

        Raises:
            _DisconnectedError: The client or the server closed the connection.
        """
        end = None if seconds is None else time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self.connection, selectors.EVENT_READ)
            while True:
                step = 0.02 if end is None else min(0.02, end - time.monotonic())
                if self.server.closing.is_set():
                    raise _DisconnectedError
                if step <= 0:
                    return
                if not selector.select(step):
                    continue
                if not self.connection.recv(1, socket.MSG_PEEK):
                    raise _DisconnectedError
                self.server.closing.wait(step)  # the next request is already there


def _with_error_event(dialect: Dialect, events: Iterator[bytes], fault: Fault | None) -> Iterator[bytes]:
    """Replace the rest of a stream with the vendor's error event, if the fault has `error_after`."""
    if fault is None or fault.error_after is None:
        yield from events
        return
    for _, item in zip(range(fault.error_after), events, strict=False):
        yield item
    yield dialect.error_event(fault)

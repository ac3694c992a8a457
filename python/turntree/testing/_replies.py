"""Replies and scripts: the responses of the loopback server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal, TypeAlias, cast

from turntree.testing._request import Request

Finish: TypeAlias = Literal["stop", "tool_calls", "length", "content_filter"]
"""The finish reason, named as in Chat Completions. Each dialect converts it to the name of its API."""


@dataclass(frozen=True)
class ToolCall:
    """A tool call of the model.

    Args:
        name: Name of the tool.
        arguments: Arguments of the call. A `str` is sent unchanged, so that a test can send invalid JSON.
        id: Id of the call. Default: `call_1`, `call_2`, … in the order in which the server sends them.
    """

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict[str, Any])
    id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault that the server injects while it sends the body of a successful reply.

    Positions are bytes of the body, before chunked transfer encoding. At most one position may be given.

    Args:
        reset_after: Send this number of bytes, then reset the connection (TCP RST).
        close_after: Send this number of bytes, then close the connection without the end of the body.
        truncate_after: Send this number of bytes, then end the body correctly.
        stall_after: Send this number of bytes, then nothing until the client disconnects.
        error_after: Streams only: send this number of events, then the vendor's error event, and end the stream.
        error_type: Type of this error. Default: the vendor's type for an overloaded server.
        error_message: Message of this error.
        write_size: The number of bytes of each write (and chunk).
        content_type: A wrong Content-Type header.

    Raises:
        ValueError: More than one position is given, a position is negative, or `write_size` is below 1.
    """

    reset_after: int | None = None
    close_after: int | None = None
    truncate_after: int | None = None
    stall_after: int | None = None
    error_after: int | None = None
    error_type: str | None = None
    error_message: str = "The server is overloaded. Please try again later."
    write_size: int | None = None
    content_type: str | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        positions = (
            self.reset_after,
            self.close_after,
            self.truncate_after,
            self.stall_after,
            self.error_after,
        )
        given = [position for position in positions if position is not None]
        if len(given) > 1:
            raise ValueError("a Fault has at most one *_after position")
        if any(position < 0 for position in given):
            raise ValueError("the position of a Fault must not be negative")
        if self.write_size is not None and self.write_size < 1:
            raise ValueError("write_size must be at least 1")


@dataclass(frozen=True)
class Reply:
    """A successful reply of the model: reasoning, then text, then tool calls.

    Args:
        text: The text; an empty one is not sent.
        thinking: Reasoning before the text. Chat Completions sends it as `reasoning_content`, as compatible vendors do.
        signature: Signature of the reasoning (Anthropic), or its encrypted content (Responses).
        tool_calls: The tool calls, in order.
        finish: The finish reason. Default: "tool_calls" if there are calls, else "stop".
        input_tokens: Input tokens. Default: a quarter of the number of bytes of the request.
        output_tokens: Output tokens. Default: a quarter of the number of characters of the reply.
        cached_tokens: Input tokens that were read from a cache.
        delay: Seconds before the first byte of the response.
        gap: Seconds between the events of a stream.
        fragment: Number of characters of text or arguments in one event of a stream. Default: one word of text, or
            eight characters of arguments.
        headers: Additional response headers.
        fault: A fault to inject.
    """

    text: str = ""
    thinking: str = field(default="", kw_only=True)
    signature: str | None = field(default=None, kw_only=True)
    tool_calls: Sequence[ToolCall] = field(default=(), kw_only=True)
    finish: Finish | None = field(default=None, kw_only=True)
    input_tokens: int | None = field(default=None, kw_only=True)
    output_tokens: int | None = field(default=None, kw_only=True)
    cached_tokens: int = field(default=0, kw_only=True)
    delay: float = field(default=0.0, kw_only=True)
    gap: float = field(default=0.0, kw_only=True)
    fragment: int | None = field(default=None, kw_only=True)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], kw_only=True)
    fault: Fault | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class ErrorReply:
    """An error response, with the body that the vendor sends for this status.

    Args:
        status: HTTP status, 400 to 599.
        message: The error message. Default: the vendor's message for this status.
        type: The vendor's error type. Default: the type for this status.
        code: The vendor's error code (OpenAI only). Default: the code for this status.
        retry_after: Value of the Retry-After header: seconds or an HTTP date.
        delay: Seconds before the first byte of the response.
        headers: Additional response headers.
    """

    status: int
    message: str | None = None
    type: str | None = field(default=None, kw_only=True)
    code: str | None = field(default=None, kw_only=True)
    retry_after: int | str | None = field(default=None, kw_only=True)
    delay: float = field(default=0.0, kw_only=True)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], kw_only=True)


@dataclass(frozen=True)
class RawReply:
    """A response with any bytes as its body: the HTML page of a proxy, an empty body, a recorded stream.

    Args:
        body: The body.
        status: HTTP status.
        content_type: The Content-Type header; None omits it.
        chunked: Use chunked transfer encoding instead of a Content-Length header.
        delay: Seconds before the first byte of the response.
        headers: Additional response headers.
        fault: A fault to inject.
    """

    body: bytes | str = b""
    status: int = 200
    content_type: str | None = "application/json"
    chunked: bool = field(default=False, kw_only=True)
    delay: float = field(default=0.0, kw_only=True)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], kw_only=True)
    fault: Fault | None = field(default=None, kw_only=True)


ReplyLike: TypeAlias = str | ToolCall | Sequence[ToolCall] | Reply | ErrorReply | RawReply
"""A reply or its short form: text, a tool call, or parallel tool calls."""

Script: TypeAlias = ReplyLike | Sequence[ReplyLike] | Callable[[Request], ReplyLike]
"""One reply for all requests, a list of replies in order, or a function of the request."""


def to_reply(value: object) -> Reply | ErrorReply | RawReply:
    """Convert the short form of a reply to the reply.

    Raises:
        TypeError: The value is not a reply.
    """
    match value:
        case Reply() | ErrorReply() | RawReply():
            return value
        case str():
            return Reply(value)
        case ToolCall():
            return Reply(tool_calls=(value,))
        case list() | tuple():
            calls = cast("Sequence[object]", value)
            if calls and all(isinstance(call, ToolCall) for call in calls):
                return Reply(tool_calls=cast("Sequence[ToolCall]", calls))
            raise TypeError("a list as a reply must contain ToolCall objects, at least one")
        case _:
            raise TypeError(
                "a reply is a str, ToolCall, list of ToolCall, Reply, ErrorReply or RawReply, "
                f"not {type(value).__name__}"
            )


def compile_script(script: Script) -> Callable[[Request], Reply | ErrorReply | RawReply]:
    """Convert a script to a function from a request to its reply.

    After the last reply of a list, the reply is an error with status 400, which clients do not retry.

    Raises:
        TypeError: The script contains a value that is not a reply.
    """
    if callable(script):
        return lambda request: to_reply(script(request))
    if not isinstance(script, list | tuple):
        single = to_reply(script)
        return lambda _request: single
    items = cast("Sequence[object]", script)
    replies = [to_reply(item) for item in items]

    position = count(1)

    def next_reply(_request: Request) -> Reply | ErrorReply | RawReply:
        number = next(position)
        if number <= len(replies):
            return replies[number - 1]
        return ErrorReply(400, f"the script has {len(replies)} replies, and this is request {number}")

    return next_reply

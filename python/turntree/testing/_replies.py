"""What a script can answer with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal, TypeAlias, cast

from turntree.testing._request import Request

Finish: TypeAlias = Literal["stop", "tool_calls", "length", "content_filter"]
"""Why a model stopped, in the words of Chat Completions; each dialect translates it."""


@dataclass(frozen=True)
class ToolCall:
    """A tool call of the model.

    Args:
        name: Name of the tool.
        arguments: Its arguments; a `str` is sent as it is, so that broken JSON can be scripted.
        id: Id of the call; by default `call_1`, `call_2`, … in the order the server makes them.
    """

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict[str, Any])
    id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What goes wrong while the body of a good reply is sent.

    Positions count bytes of the body, before chunked framing; at most one of them may be given.

    Args:
        reset_after: Send this many bytes, then reset the connection (TCP RST).
        close_after: Send this many bytes, then close it without ending the body.
        truncate_after: Send this many bytes, then end the body in good order.
        stall_after: Send this many bytes, then nothing until the client leaves.
        error_after: Streams only: after this many events send the vendor's error event and end.
        error_type: The vendor's type of that error; by default its "overloaded".
        error_message: The message of that error.
        write_size: Send the body in writes (and chunks) of this many bytes.
        content_type: Send this Content-Type instead of the right one.

    Raises:
        ValueError: More than one position is given, or one is negative, or `write_size` is 0.
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
    """A good answer of the model: thinking, then text, then tool calls.

    Args:
        text: The answer; none if empty.
        thinking: Reasoning before the answer; Chat Completions sends it as `reasoning_content`,
            as compatible vendors do.
        signature: Signature of the reasoning (Anthropic) or its encrypted content (Responses).
        tool_calls: Tools the model calls, in order.
        finish: Why the model stopped; by default "tool_calls" if there are calls, else "stop".
        input_tokens: Usage; by default a quarter of the request's bytes.
        output_tokens: Usage; by default a quarter of the answer's characters.
        cached_tokens: The part of the input that was read from a cache.
        delay: Seconds before the first byte of the response.
        gap: Seconds between the events of a stream.
        fragment: Characters of text or arguments in a streamed event; by default one word of text
            or eight characters of arguments.
        headers: More response headers.
        fault: What goes wrong while the body is sent.
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
    """A failure, with the body that the vendor sends for this status.

    Args:
        status: HTTP status, 400 to 599.
        message: The vendor's message; by default one that fits the status.
        type: The vendor's error type, by default the one of the status.
        code: The vendor's error code (OpenAI only), by default the one of the status.
        retry_after: Value of the Retry-After header: seconds or an HTTP date.
        delay: Seconds before the first byte of the response.
        headers: More response headers.
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
    """A response given byte by byte: a proxy's HTML page, an empty body, a recorded stream.

    Args:
        body: The body.
        status: HTTP status.
        content_type: The Content-Type header; None sends none.
        chunked: Send with chunked transfer encoding instead of a length.
        delay: Seconds before the first byte of the response.
        headers: More response headers.
        fault: What goes wrong while the body is sent.
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
"""One reply for every request, a list used up in order, or a function of the request."""


def to_reply(value: object) -> Reply | ErrorReply | RawReply:
    """Turn the short form of a reply into the reply.

    Raises:
        TypeError: The value is no reply.
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
            raise TypeError("a list as a reply must hold ToolCall objects, at least one")
        case _:
            raise TypeError(
                "a reply is a str, ToolCall, list of ToolCall, Reply, ErrorReply or RawReply, "
                f"not {type(value).__name__}"
            )


def compile_script(script: Script) -> Callable[[Request], Reply | ErrorReply | RawReply]:
    """Turn a script into a function from the request to its reply.

    A list that is used up answers with status 400, which clients do not retry, and says so.

    Raises:
        TypeError: The script holds something that is no reply.
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
        return ErrorReply(400, f"the script holds {len(replies)} replies, and this is request {number}")

    return next_reply

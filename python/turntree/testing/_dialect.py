"""The interface of dialects, and the functions that they share: fragments, events and token counts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

if TYPE_CHECKING:
    from turntree.testing._replies import ErrorReply, Fault, Finish, Reply
    from turntree.testing._request import Api, Request

Json: TypeAlias = dict[str, Any]

CREATED = 1_767_225_600
"""The creation time in all responses (2026-01-01, Unix seconds). It is constant, so that responses are reproducible."""

ARGUMENT_FRAGMENT = 8


@dataclass(frozen=True, kw_only=True)
class Call:
    """A tool call with its id, and its arguments as JSON."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """A request with its successful reply, from which any dialect creates a response."""

    request: Request
    reply: Reply
    calls: tuple[Call, ...]

    @property
    def serial(self) -> str:
        """The number of the request, for the ids in the response."""
        return f"{self.request.number:08d}"

    @property
    def finish(self) -> Finish:
        """The finish reason."""
        return self.reply.finish or ("tool_calls" if self.calls else "stop")

    @property
    def input_tokens(self) -> int:
        """All input tokens, including cached ones."""
        tokens = self.reply.input_tokens
        return -(-len(self.request.body) // 4) if tokens is None else tokens

    @property
    def output_tokens(self) -> int:
        """All output tokens, including those of the reasoning."""
        tokens = self.reply.output_tokens
        if tokens is not None:
            return tokens
        arguments = sum(len(call.name) + len(call.arguments) for call in self.calls)
        return -(-(len(self.reply.text) + arguments) // 4) + self.reasoning_tokens

    @property
    def reasoning_tokens(self) -> int:
        """Tokens of the reasoning."""
        return -(-len(self.reply.thinking) // 4)

    def text_fragments(self, text: str) -> Iterator[str]:
        """Split a text for a stream: by words, or by the fragment size of the reply."""
        size = self.reply.fragment
        return words(text) if size is None else pieces(text, size)

    def argument_fragments(self, arguments: str) -> Iterator[str]:
        """Split the arguments of a call for a stream."""
        return pieces(arguments, self.reply.fragment or ARGUMENT_FRAGMENT)


class Dialect(Protocol):
    """The format of one vendor's API."""

    api: Api
    path: str
    """The end of the path of a request."""
    marks_end: bool = True
    """True if the last event marks the end of a stream. Otherwise the end of the body is the only mark."""
    stream_type: str = "text/event-stream; charset=utf-8"
    """The Content-Type of a stream."""

    def matches(self, path: str) -> bool:
        """Return True if the path belongs to the API."""
        return path.rstrip("/").endswith(self.path)

    def streams(self, request: Request) -> bool:
        """Return True if the request asks for a stream."""
        return as_object(request.json).get("stream") is True

    def model(self, request: Request) -> str:
        """Return the name of the model; empty if the request has none."""
        model = as_object(request.json).get("model")
        return model if isinstance(model, str) else ""

    def check(self, request: Request) -> ErrorReply | None:
        """Return the vendor's error for an invalid request: a missing key, a tool call without a result. Else None."""
        ...

    def user_text(self, body: object) -> str:
        """Return the text of the last user message."""
        ...

    def tool_results(self, body: object) -> dict[str, str]:
        """Return the tool results at the end of the conversation, by call id."""
        ...

    def response(self, exchange: Exchange) -> Json:
        """Return the body of a response without streaming."""
        ...

    def events(self, exchange: Exchange) -> Iterator[bytes]:
        """Yield the events of a streamed response."""
        ...

    def headers(self, request: Request) -> dict[str, str]:
        """Return the headers of a response."""
        ...

    def error(self, reply: ErrorReply, request: Request) -> Json:
        """Return the body of an error response."""
        ...

    def error_event(self, fault: Fault) -> bytes:
        """Return the event that ends a failed stream."""
        ...


def words(text: str) -> Iterator[str]:
    """Split a text into words, each with the white space before it. Preserves all characters."""
    return (match.group() for match in re.finditer(r"\s*\S+|\s+$", text))


def pieces(text: str, size: int) -> Iterator[str]:
    """Split a text into pieces of `size` characters."""
    return (text[start : start + size] for start in range(0, len(text), size))


def compact(value: object) -> str:
    """Return a value as JSON without white space, as vendors send it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def event(data: Json, name: str | None = None) -> bytes:
    """Return one server-sent event."""
    head = "" if name is None else f"event: {name}\n"
    return f"{head}data: {compact(data)}\n\n".encode()


def as_object(value: object) -> Json:
    """Return the value if it is a JSON object, else an empty one."""
    return cast("Json", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """Return the value if it is a JSON array, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def text_of(content: object, *types: str) -> str:
    """Return the text of a message's content: a string, or the `text` of its parts of these types."""
    if isinstance(content, str):
        return content
    parts = [as_object(part) for part in as_list(content)]
    return "".join(str(part.get("text", "")) for part in parts if part.get("type") in types)

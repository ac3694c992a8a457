"""What the dialects share: fragments, events, token counts, and the shape of a dialect."""

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
"""The moment every response claims to come from (2026-01-01, Unix seconds): replies repeat."""

ARGUMENT_FRAGMENT = 8


@dataclass(frozen=True, kw_only=True)
class Call:
    """A tool call with its id settled and its arguments written."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """A request with the good reply it gets, ready to be written in any dialect."""

    request: Request
    reply: Reply
    calls: tuple[Call, ...]

    @property
    def serial(self) -> str:
        """Number of the request, for the ids of a response."""
        return f"{self.request.number:08d}"

    @property
    def finish(self) -> Finish:
        """Why the model stopped."""
        return self.reply.finish or ("tool_calls" if self.calls else "stop")

    @property
    def input_tokens(self) -> int:
        """Tokens of the whole input, the cached ones among them."""
        given = self.reply.input_tokens
        return -(-len(self.request.body) // 4) if given is None else given

    @property
    def output_tokens(self) -> int:
        """Tokens of the answer, the reasoning among them."""
        given = self.reply.output_tokens
        if given is not None:
            return given
        arguments = sum(len(call.name) + len(call.arguments) for call in self.calls)
        return -(-(len(self.reply.text) + arguments) // 4) + self.reasoning_tokens

    @property
    def reasoning_tokens(self) -> int:
        """Tokens of the reasoning."""
        return -(-len(self.reply.thinking) // 4)

    def text_fragments(self, text: str) -> Iterator[str]:
        """Cut text as it is streamed: by words, or by the reply's own measure."""
        size = self.reply.fragment
        return words(text) if size is None else pieces(text, size)

    def argument_fragments(self, arguments: str) -> Iterator[str]:
        """Cut the arguments of a call as they are streamed."""
        return pieces(arguments, self.reply.fragment or ARGUMENT_FRAGMENT)


class Dialect(Protocol):
    """The wire of one vendor's API."""

    api: Api
    path: str
    """How the path of a request ends."""
    marks_end: bool = True
    """Whether the last event of a stream says that it is the last; else only the end of the body does."""
    stream_type: str = "text/event-stream; charset=utf-8"
    """The Content-Type of a stream."""

    def speaks(self, path: str) -> bool:
        """Whether a request with this path is meant for the API."""
        return path.rstrip("/").endswith(self.path)

    def streams(self, request: Request) -> bool:
        """Whether a request asks for a stream."""
        return as_object(request.json).get("stream") is True

    def model(self, request: Request) -> str:
        """The model that a request asks for; empty if none."""
        model = as_object(request.json).get("model")
        return model if isinstance(model, str) else ""

    def check(self, request: Request) -> ErrorReply | None:
        """Find what the vendor would refuse in a request: a missing key, a dangling tool call."""
        ...

    def user_text(self, body: object) -> str:
        """The text of the last message of the user."""
        ...

    def tool_results(self, body: object) -> dict[str, str]:
        """The tool results at the end of the conversation, by call id."""
        ...

    def response(self, exchange: Exchange) -> Json:
        """The body of a response that is not streamed."""
        ...

    def events(self, exchange: Exchange) -> Iterator[bytes]:
        """The events of a streamed response."""
        ...

    def headers(self, request: Request) -> dict[str, str]:
        """Headers of every response."""
        ...

    def error(self, reply: ErrorReply, request: Request) -> Json:
        """The body of a failure."""
        ...

    def error_event(self, fault: Fault) -> bytes:
        """The event that ends a stream with a failure."""
        ...


def words(text: str) -> Iterator[str]:
    """Cut text into words, each with the white space before it; nothing is lost."""
    return (match.group() for match in re.finditer(r"\s*\S+|\s+$", text))


def pieces(text: str, size: int) -> Iterator[str]:
    """Cut text into pieces of `size` characters."""
    return (text[start : start + size] for start in range(0, len(text), size))


def compact(value: object) -> str:
    """Write JSON without white space, as vendors do."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def event(data: Json, name: str | None = None) -> bytes:
    """Write one server-sent event."""
    head = "" if name is None else f"event: {name}\n"
    return f"{head}data: {compact(data)}\n\n".encode()


def as_object(value: object) -> Json:
    """The value if it is a JSON object, else an empty one."""
    return cast("Json", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """The value if it is a JSON array, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def text_of(content: object, *types: str) -> str:
    """The text of a message's content: a string, or the `text` of its parts of these types."""
    if isinstance(content, str):
        return content
    parts = [as_object(part) for part in as_list(content)]
    return "".join(str(part.get("text", "")) for part in parts if part.get("type") in types)

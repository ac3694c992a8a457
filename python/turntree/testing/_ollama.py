"""Ollama's own API: POST …/api/chat, one JSON a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from turntree.testing._replies import ErrorReply, Fault
from turntree.testing._wire import Call, Dialect, Exchange, Json, as_list, as_object, compact, text_of

if TYPE_CHECKING:
    from turntree.testing._request import Api, Request

_CREATED_AT = "2026-01-01T00:00:00Z"

_BY_STATUS = {
    400: "invalid request",
    401: "unauthorized",
    404: "model not found, try pulling it first",
    429: "too many requests",
    503: "server busy, please try again. maximum pending requests exceeded",
}


class OllamaChat(Dialect):
    """/api/chat, streaming unless the request says otherwise."""

    api: Api = "ollama-chat"
    path = "/api/chat"
    stream_type = "application/x-ndjson"

    def streams(self, request: Request) -> bool:
        """Whether lines are asked for: they are the default."""
        return as_object(request.json).get("stream", True) is not False

    def check(self, request: Request) -> ErrorReply | None:
        """Refuse what the vendor refuses: no model, messages of no known role. It knows no keys."""
        if not request.model:
            return ErrorReply(400, "model is required")
        for message in _messages(request.json):
            if message.get("role") not in ("system", "user", "assistant", "tool"):
                return ErrorReply(400, f"invalid role: {message.get('role')}, must be one of [system user tool]")
        return None

    def user_text(self, body: object) -> str:
        """The text of the last user message."""
        for message in reversed(_messages(body)):
            if message.get("role") == "user":
                return text_of(message.get("content"))
        return ""

    def tool_results(self, body: object) -> dict[str, str]:
        """The tool messages at the end, by `tool_call_id` or else by the tool's name (`now`, then `now:2`)."""
        last: list[Json] = []
        for message in reversed(_messages(body)):
            if message.get("role") != "tool":
                break
            last.insert(0, message)
        results: dict[str, str] = {}
        for message in last:
            name = key = str(message.get("tool_call_id") or message.get("tool_name"))
            number = 1
            while key in results:
                number += 1
                key = f"{name}:{number}"
            results[key] = text_of(message.get("content"))
        return results

    def headers(self, request: Request) -> dict[str, str]:
        """Headers of every response: none of its own."""
        return {}

    def error(self, reply: ErrorReply, request: Request) -> Json:
        """The body of a failure."""
        known = _BY_STATUS.get(reply.status, "internal server error")
        return {"error": known if reply.message is None else reply.message}

    def error_event(self, fault: Fault) -> bytes:
        """A line with an `error`; the vendor has no types."""
        return _line({"error": fault.error_message})

    def response(self, exchange: Exchange) -> Json:
        """One message with the counts of the run."""
        said: Json = {"content": exchange.reply.text}
        if exchange.reply.thinking:
            said["thinking"] = exchange.reply.thinking
        if exchange.calls:
            said["tool_calls"] = [_call(index, call) for index, call in enumerate(exchange.calls)]
        return _last(exchange, said)

    def events(self, exchange: Exchange) -> Iterator[bytes]:
        """A line for each piece, the calls whole, then the line that says `done`."""
        for fragment in exchange.text_fragments(exchange.reply.thinking):
            yield _line(_frame(exchange, {"content": "", "thinking": fragment}))
        for fragment in exchange.text_fragments(exchange.reply.text):
            yield _line(_frame(exchange, {"content": fragment}))
        for index, call in enumerate(exchange.calls):
            yield _line(_frame(exchange, {"content": "", "tool_calls": [_call(index, call)]}))
        yield _line(_last(exchange, {"content": ""}))


def _messages(body: object) -> list[Json]:
    return [as_object(message) for message in as_list(as_object(body).get("messages"))]


def _line(data: Json) -> bytes:
    return f"{compact(data)}\n".encode()


def _call(index: int, call: Call) -> Json:
    try:
        given: Any = json.loads(call.arguments)
    except ValueError:
        given = call.arguments  # a script may break the arguments on purpose
    return {"id": call.id, "function": {"index": index, "name": call.name, "arguments": given}}


def _frame(exchange: Exchange, said: Json, *, done: bool = False) -> Json:
    message: Json = {"role": "assistant", **said}
    return {"model": exchange.request.model, "created_at": _CREATED_AT, "message": message, "done": done}


def _last(exchange: Exchange, said: Json) -> Json:
    return {
        **_frame(exchange, said, done=True),
        "done_reason": "length" if exchange.finish == "length" else "stop",
        "total_duration": 3_000_000,
        "load_duration": 1_000_000,
        "prompt_eval_count": exchange.input_tokens,
        "prompt_eval_duration": 1_000_000,
        "eval_count": exchange.output_tokens,
        "eval_duration": 1_000_000,
    }

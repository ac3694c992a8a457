"""Ollama's own API: POST …/api/chat, with one JSON document per line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from turntree.testing._dialect import Call, Dialect, Exchange, Json, as_list, as_object, compact, text_of
from turntree.testing._replies import ErrorReply, Fault

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
    """/api/chat. Streams unless the request disables it."""

    api: Api = "ollama-chat"
    path = "/api/chat"
    stream_type = "application/x-ndjson"

    def streams(self, request: Request) -> bool:
        """Return True unless the request disables streaming."""
        return as_object(request.json).get("stream", True) is not False

    def check(self, request: Request) -> ErrorReply | None:
        """Return an error for a missing model or an unknown role. The API has no keys."""
        if not request.model:
            return ErrorReply(400, "model is required")
        for message in _messages(request.json):
            if message.get("role") not in ("system", "user", "assistant", "tool"):
                return ErrorReply(400, f"invalid role: {message.get('role')}, must be one of [system user tool]")
        return None

    def user_text(self, body: object) -> str:
        """Return the text of the last user message."""
        for message in reversed(_messages(body)):
            if message.get("role") == "user":
                return text_of(message.get("content"))
        return ""

    def tool_results(self, body: object) -> dict[str, str]:
        """Return the tool messages at the end, by `tool_call_id`, else by the tool's name (`now`, then `now:2`)."""
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
        """Return the headers of a response: none."""
        return {}

    def error(self, reply: ErrorReply, request: Request) -> Json:
        """Return the body of an error response."""
        default = _BY_STATUS.get(reply.status, "internal server error")
        return {"error": default if reply.message is None else reply.message}

    def error_event(self, fault: Fault) -> bytes:
        """Return a line with an `error`. The vendor has no error types."""
        return _line({"error": fault.error_message})

    def response(self, exchange: Exchange) -> Json:
        """Return one message with the token counts."""
        content: Json = {"content": exchange.reply.text}
        if exchange.reply.thinking:
            content["thinking"] = exchange.reply.thinking
        if exchange.calls:
            content["tool_calls"] = [_call(index, call) for index, call in enumerate(exchange.calls)]
        return _last(exchange, content)

    def events(self, exchange: Exchange) -> Iterator[bytes]:
        """Yield a line for each fragment, one for each call, and the last line with `done`."""
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
        arguments: Any = json.loads(call.arguments)
    except ValueError:
        arguments = call.arguments  # a script may contain invalid JSON
    return {"id": call.id, "function": {"index": index, "name": call.name, "arguments": arguments}}


def _frame(exchange: Exchange, content: Json, *, done: bool = False) -> Json:
    message: Json = {"role": "assistant", **content}
    return {"model": exchange.request.model, "created_at": _CREATED_AT, "message": message, "done": done}


def _last(exchange: Exchange, content: Json) -> Json:
    return {
        **_frame(exchange, content, done=True),
        "done_reason": "length" if exchange.finish == "length" else "stop",
        "total_duration": 3_000_000,
        "load_duration": 1_000_000,
        "prompt_eval_count": exchange.input_tokens,
        "prompt_eval_duration": 1_000_000,
        "eval_count": exchange.output_tokens,
        "eval_duration": 1_000_000,
    }

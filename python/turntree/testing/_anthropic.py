"""The Anthropic Messages API: POST …/messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from turntree.testing._dialect import Dialect, Exchange, Json, as_list, as_object, event, text_of
from turntree.testing._replies import ErrorReply, Fault
from turntree.testing._schemas import ANTHROPIC, schema_error

if TYPE_CHECKING:
    from turntree.testing._request import Api, Request

_BY_STATUS: dict[int, tuple[str, str]] = {
    400: ("invalid_request_error", "Invalid request."),
    401: ("authentication_error", "invalid x-api-key"),
    403: ("permission_error", "Your API key does not have permission to use this resource."),
    404: ("not_found_error", "Not found."),
    413: ("request_too_large", "Request exceeds the maximum size"),
    429: ("rate_limit_error", "This request would exceed your rate limit."),
    500: ("api_error", "Internal server error"),
    504: ("timeout_error", "The request timed out."),
    529: ("overloaded_error", "Overloaded"),
}

_STOP_REASONS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}


class AnthropicMessages(Dialect):
    """Messages, with and without streaming."""

    api: Api = "anthropic-messages"
    path = "/messages"

    def check(self, request: Request) -> ErrorReply | None:
        """Return an error for missing headers, missing members, or tool calls without results."""
        headers = request.headers
        if not headers.get("x-api-key") and not headers.get("authorization"):
            return ErrorReply(401, "x-api-key header is required")
        if not headers.get("anthropic-version"):
            return ErrorReply(400, "anthropic-version: header is required")
        body = as_object(request.json)
        for name in ("model", "max_tokens", "messages"):
            if not body.get(name):
                return ErrorReply(400, f"{name}: Field required")
        return _check_tool_results(_messages(body)) or _check_format(body)

    def user_text(self, body: object) -> str:
        """Return the text of the last user message with a text."""
        for message in reversed(_messages(body)):
            if message.get("role") == "user" and (text := text_of(message.get("content"), "text")):
                return text
        return ""

    def tool_results(self, body: object) -> dict[str, str]:
        """Return the tool results of the last message."""
        messages = _messages(body)
        blocks = _blocks(messages[-1], "tool_result") if messages else []
        return {str(b.get("tool_use_id")): text_of(b.get("content"), "text") for b in blocks}

    def headers(self, request: Request) -> dict[str, str]:
        """Return the headers of a response."""
        return {"request-id": f"req_{request.number:08d}"}

    def error(self, reply: ErrorReply, request: Request) -> Json:
        """Return the body of an error response."""
        kind, message = _BY_STATUS.get(reply.status, _BY_STATUS[500])
        return {
            "type": "error",
            "error": {
                "type": reply.type or kind,
                "message": message if reply.message is None else reply.message,
            },
            "request_id": f"req_{request.number:08d}",
        }

    def error_event(self, fault: Fault) -> bytes:
        """Return an `error` event."""
        kind = fault.error_type or "overloaded_error"
        return event({"type": "error", "error": {"type": kind, "message": fault.error_message}}, "error")

    def response(self, exchange: Exchange) -> Json:
        """Return one `message` with its content blocks."""
        return {
            **_message(exchange),
            "content": _content(exchange),
            "stop_reason": _STOP_REASONS[exchange.finish],
            "stop_sequence": None,
            "usage": _usage(exchange, exchange.output_tokens),
        }

    def events(self, exchange: Exchange) -> Iterator[bytes]:
        """Yield `message_start`, a ping, the blocks, `message_delta` and `message_stop`."""
        opening: Json = {
            **_message(exchange),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(exchange, 1),
        }
        yield _typed_event("message_start", {"message": opening})
        for index, block in enumerate(_content(exchange)):
            position: Json = {"index": index}
            yield _typed_event("content_block_start", {**position, "content_block": _empty_block(block)})
            if index == 0:
                yield _typed_event("ping", {})
            for delta in _deltas(exchange, block):
                yield _typed_event("content_block_delta", {**position, "delta": delta})
            yield _typed_event("content_block_stop", position)
        reason = {"stop_reason": _STOP_REASONS[exchange.finish], "stop_sequence": None}
        usage = _usage(exchange, exchange.output_tokens)
        yield _typed_event("message_delta", {"delta": reason, "usage": usage})
        yield _typed_event("message_stop", {})


def _typed_event(kind: str, fields: Json) -> bytes:
    return event({"type": kind, **fields}, kind)


def _messages(body: object) -> list[Json]:
    return [as_object(message) for message in as_list(as_object(body).get("messages"))]


def _blocks(message: Json, kind: str) -> list[Json]:
    blocks = [as_object(block) for block in as_list(message.get("content"))]
    return [block for block in blocks if block.get("type") == kind]


def _check_tool_results(messages: list[Json]) -> ErrorReply | None:
    """Return an error unless the next user message has the results of all calls of a message, and no others."""
    merged: list[Json] = []  # the vendor merges adjacent messages of one role
    for message in messages:
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if merged and merged[-1]["role"] == message.get("role"):
            merged[-1]["content"] += as_list(blocks)
        else:
            merged.append({"role": message.get("role"), "content": list(as_list(blocks))})
    open_calls: list[Any] = []
    for index, message in enumerate(merged):
        results = [block.get("tool_use_id") for block in _blocks(message, "tool_result")]
        missing = [call_id for call_id in open_calls if call_id not in results]
        if missing:
            return _missing_results(index - 1, missing)
        unknown = [call_id for call_id in results if call_id not in open_calls]
        if unknown:
            return ErrorReply(
                400,
                f"messages.{index}: unexpected `tool_use_id` found in `tool_result` blocks: "
                f"{', '.join(map(str, unknown))}.",
            )
        open_calls = [block.get("id") for block in _blocks(message, "tool_use")]
    if open_calls:
        return _missing_results(len(merged) - 1, open_calls)
    return None


def _check_format(body: Json) -> ErrorReply | None:
    """Return an error for a schema that the vendor cannot enforce."""
    forms = {
        "output_config.format": as_object(body.get("output_config")).get("format"),
        "output_format": body.get("output_format"),
    }
    for name, form in forms.items():
        if form is not None and (error := schema_error(as_object(form).get("schema"), ANTHROPIC)) is not None:
            return ErrorReply(400, f"{name}.schema: {error}")
    return None


def _missing_results(index: int, call_ids: list[Any]) -> ErrorReply:
    return ErrorReply(
        400,
        f"messages.{index}: `tool_use` ids were found without `tool_result` blocks "
        f"immediately after: {', '.join(map(str, call_ids))}.",
    )


def _message(exchange: Exchange) -> Json:
    return {
        "model": exchange.request.model,
        "id": f"msg_{exchange.serial}",
        "type": "message",
        "role": "assistant",
    }


def _content(exchange: Exchange) -> list[Json]:
    """Return the complete content blocks: thinking, text, tool uses."""
    blocks: list[Json] = []
    if exchange.reply.thinking or exchange.reply.signature:
        blocks.append(
            {
                "type": "thinking",
                "thinking": exchange.reply.thinking,
                "signature": exchange.reply.signature or "",
            }
        )
    if exchange.reply.text:
        blocks.append({"type": "text", "text": exchange.reply.text})
    for call in exchange.calls:
        try:
            arguments: Any = json.loads(call.arguments)
        except ValueError:
            arguments = call.arguments  # a script may contain invalid JSON
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": arguments})
    return blocks


def _empty_block(block: Json) -> Json:
    """Return a content block without its content, for the start event."""
    match block["type"]:
        case "thinking":
            return {"type": "thinking", "thinking": "", "signature": ""}
        case "text":
            return {"type": "text", "text": ""}
        case _:
            return {**block, "input": {}}


def _deltas(exchange: Exchange, block: Json) -> Iterator[Json]:
    match block["type"]:
        case "thinking":
            for fragment in exchange.text_fragments(block["thinking"]):
                yield {"type": "thinking_delta", "thinking": fragment}
            yield {"type": "signature_delta", "signature": block["signature"]}
        case "text":
            for fragment in exchange.text_fragments(block["text"]):
                yield {"type": "text_delta", "text": fragment}
        case _:
            arguments = next(call.arguments for call in exchange.calls if call.id == block["id"])
            yield {"type": "input_json_delta", "partial_json": ""}
            if arguments == "{}":
                return
            for fragment in exchange.argument_fragments(arguments):
                yield {"type": "input_json_delta", "partial_json": fragment}


def _usage(exchange: Exchange, output_tokens: int) -> Json:
    return {
        # The vendor counts cached tokens separately from the other input tokens.
        "input_tokens": exchange.input_tokens - exchange.reply.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": exchange.reply.cached_tokens,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": output_tokens,
        "service_tier": "standard",
    }

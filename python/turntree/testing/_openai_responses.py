"""The OpenAI Responses API: POST …/responses."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

from turntree.testing._dialect import CREATED, Call, Exchange, Json, as_list, as_object, event, text_of
from turntree.testing._openai import OpenAIDialect, check_format, check_key, check_tools
from turntree.testing._replies import ErrorReply, Fault

if TYPE_CHECKING:
    from turntree.testing._request import Api, Request


class OpenAIResponses(OpenAIDialect):
    """Responses, with and without streaming."""

    api: Api = "openai-responses"
    path = "/responses"

    def check(self, request: Request) -> ErrorReply | None:
        """Return an error for a missing key, model or input, or for tool calls without results."""
        if (key_error := check_key(request)) is not None:
            return key_error
        body = as_object(request.json)
        if not request.model:
            return ErrorReply(400, "Missing required parameter: 'model'.")
        if not body.get("input"):
            return ErrorReply(400, "Missing required parameter: 'input'.")
        if (
            format_error := check_format(as_object(as_object(body.get("text")).get("format")), "text.format")
        ) is not None:
            return format_error
        if (tool_error := check_tools(as_object(tool) for tool in as_list(body.get("tools")))) is not None:
            return tool_error
        # The vendor stores the calls of an earlier response; this server does not.
        return None if body.get("previous_response_id") else _check_calls(_items(body))

    def user_text(self, body: object) -> str:
        """Return the text of the last user message, or the input if it is a string."""
        text = as_object(body).get("input")
        if isinstance(text, str):
            return text
        for item in reversed(_items(body)):
            if item.get("role") == "user":
                return text_of(item.get("content"), "input_text")
        return ""

    def tool_results(self, body: object) -> dict[str, str]:
        """Return the function call outputs at the end, by call id."""
        results: dict[str, str] = {}
        for item in reversed(_items(body)):
            if item.get("type") != "function_call_output":
                break
            results[str(item.get("call_id"))] = text_of(item.get("output"), "input_text")
        return dict(reversed(results.items()))

    def error_event(self, fault: Fault) -> bytes:
        """Return an `error` event."""
        data: Json = {
            "type": "error",
            "code": fault.error_type or "server_error",
            "message": fault.error_message,
            "param": None,
            "sequence_number": 0,
        }
        return event(data, "error")

    def response(self, exchange: Exchange) -> Json:
        """Return one `response` with its output items."""
        return _response(exchange, _status(exchange), _output(exchange), _usage(exchange))

    def events(self, exchange: Exchange) -> Iterator[bytes]:
        """Yield numbered events, from `response.created` to `response.completed`, one item after the other."""
        numbers = count()

        def numbered(kind: str, fields: Json) -> bytes:
            return event({"type": kind, "sequence_number": next(numbers), **fields}, kind)

        opening = _response(exchange, "in_progress", [], None)
        yield numbered("response.created", {"response": opening})
        yield numbered("response.in_progress", {"response": opening})
        for index, item in enumerate(_output(exchange)):
            position: Json = {"output_index": index}
            yield numbered("response.output_item.added", {**position, "item": _empty_item(item)})
            for kind, fields in _item_events(exchange, item):
                yield numbered(kind, {"item_id": item["id"], **position, **fields})
            yield numbered("response.output_item.done", {**position, "item": item})
        closing = self.response(exchange)
        yield numbered(f"response.{closing['status']}", {"response": closing})


def _items(body: object) -> list[Json]:
    return [as_object(item) for item in as_list(as_object(body).get("input"))]


def _check_calls(items: list[Json]) -> ErrorReply | None:
    calls = [item.get("call_id") for item in items if item.get("type") == "function_call"]
    outputs = [item.get("call_id") for item in items if item.get("type") == "function_call_output"]
    for call_id in calls:
        if call_id not in outputs:
            return ErrorReply(400, f"No tool output found for function call {call_id}.")
    for call_id in outputs:
        if call_id not in calls:
            return ErrorReply(400, f"No tool call found for function call output with call_id {call_id}.")
    return None


def _status(exchange: Exchange) -> str:
    return "incomplete" if exchange.finish in ("length", "content_filter") else "completed"


def _output(exchange: Exchange) -> list[Json]:
    """Return the complete output items: reasoning, message, function calls."""
    items: list[Json] = []
    if exchange.reply.thinking or exchange.reply.signature:
        summary = [{"type": "summary_text", "text": exchange.reply.thinking}]
        reasoning: Json = {
            "id": f"rs_{exchange.serial}",
            "type": "reasoning",
            "summary": summary if exchange.reply.thinking else [],
        }
        if exchange.reply.signature:
            reasoning["encrypted_content"] = exchange.reply.signature
        items.append(reasoning)
    if exchange.reply.text or not exchange.calls:
        items.append(
            {
                "id": f"msg_{exchange.serial}",
                "type": "message",
                "status": _status(exchange),
                "content": [_text_part(exchange.reply.text)],
                "role": "assistant",
            }
        )
    items.extend(_function_call(call) for call in exchange.calls)
    return items


def _text_part(text: str) -> Json:
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


def _function_call(call: Call) -> Json:
    return {
        "id": f"fc_{call.id}",
        "type": "function_call",
        "status": "completed",
        "arguments": call.arguments,
        "call_id": call.id,
        "name": call.name,
    }


def _empty_item(item: Json) -> Json:
    """Return an output item without its content, for the event that adds it."""
    match item["type"]:
        case "reasoning":
            return {**item, "summary": []}
        case "message":
            return {**item, "status": "in_progress", "content": []}
        case _:
            return {**item, "status": "in_progress", "arguments": ""}


def _item_events(exchange: Exchange, item: Json) -> Iterator[tuple[str, Json]]:
    """Yield the events between the start and the end of an item."""
    match item["type"]:
        case "reasoning":
            for index, part in enumerate(item["summary"]):
                yield from _summary_events(exchange, index, part)
        case "message":
            position: Json = {"content_index": 0}
            part = item["content"][0]
            yield "response.content_part.added", {**position, "part": _text_part("")}
            for fragment in exchange.text_fragments(part["text"]):
                yield "response.output_text.delta", {**position, "delta": fragment, "logprobs": []}
            yield "response.output_text.done", {**position, "text": part["text"], "logprobs": []}
            yield "response.content_part.done", {**position, "part": part}
        case _:
            for fragment in exchange.argument_fragments(item["arguments"]):
                yield "response.function_call_arguments.delta", {"delta": fragment}
            yield "response.function_call_arguments.done", {"arguments": item["arguments"]}


def _summary_events(exchange: Exchange, index: int, part: dict[str, Any]) -> Iterator[tuple[str, Json]]:
    position: Json = {"summary_index": index}
    empty = {"type": "summary_text", "text": ""}
    yield "response.reasoning_summary_part.added", {**position, "part": empty}
    for fragment in exchange.text_fragments(part["text"]):
        yield "response.reasoning_summary_text.delta", {**position, "delta": fragment}
    yield "response.reasoning_summary_text.done", {**position, "text": part["text"]}
    yield "response.reasoning_summary_part.done", {**position, "part": part}


def _response(exchange: Exchange, status: str, output: list[Json], usage: Json | None) -> Json:
    asked = as_object(exchange.request.json)
    reason = "max_output_tokens" if exchange.finish == "length" else exchange.finish
    return {
        "id": f"resp_{exchange.serial}",
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": {"reason": reason} if status == "incomplete" else None,
        "instructions": asked.get("instructions"),
        "max_output_tokens": asked.get("max_output_tokens"),
        "model": exchange.request.model,
        "output": output,
        "parallel_tool_calls": asked.get("parallel_tool_calls", True),
        "previous_response_id": asked.get("previous_response_id"),
        "reasoning": asked.get("reasoning", {"effort": None, "summary": None}),
        "service_tier": "default",
        "store": asked.get("store", True),
        "temperature": asked.get("temperature", 1.0),
        "text": asked.get("text", {"format": {"type": "text"}}),
        "tool_choice": asked.get("tool_choice", "auto"),
        "tools": asked.get("tools", []),
        "top_p": asked.get("top_p", 1.0),
        "truncation": asked.get("truncation", "disabled"),
        "usage": usage,
        "user": None,
        "metadata": asked.get("metadata", {}),
    }


def _usage(exchange: Exchange) -> Json:
    return {
        "input_tokens": exchange.input_tokens,
        "input_tokens_details": {"cached_tokens": exchange.reply.cached_tokens},
        "output_tokens": exchange.output_tokens,
        "output_tokens_details": {"reasoning_tokens": exchange.reasoning_tokens},
        "total_tokens": exchange.input_tokens + exchange.output_tokens,
    }

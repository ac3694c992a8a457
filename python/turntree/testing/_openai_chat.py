"""The OpenAI Chat Completions API: POST …/chat/completions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from turntree.testing._dialect import CREATED, Exchange, Json, as_list, as_object, event, text_of
from turntree.testing._openai import OpenAIDialect, check_format, check_key, check_tools
from turntree.testing._replies import ErrorReply, Fault

if TYPE_CHECKING:
    from turntree.testing._request import Api, Request


class OpenAIChat(OpenAIDialect):
    """Chat Completions, with and without streaming."""

    api: Api = "openai-chat"
    path = "/chat/completions"

    def check(self, request: Request) -> ErrorReply | None:
        """Return an error for a missing key, model or messages, or for tool calls without results."""
        if (key_error := check_key(request)) is not None:
            return key_error
        body = as_object(request.json)
        if not request.model:
            return ErrorReply(400, "you must provide a model parameter")
        messages = [as_object(message) for message in as_list(body.get("messages"))]
        if not messages:
            return ErrorReply(400, "Missing required parameter: 'messages'.")
        functions = (as_object(as_object(tool).get("function")) for tool in as_list(body.get("tools")))
        return _check_tool_messages(messages) or _check_format(body) or check_tools(functions)

    def user_text(self, body: object) -> str:
        """Return the text of the last user message."""
        for message in reversed(_messages(body)):
            if message.get("role") == "user":
                return text_of(message.get("content"), "text")
        return ""

    def tool_results(self, body: object) -> dict[str, str]:
        """Return the texts of the tool messages at the end, by call id."""
        results: dict[str, str] = {}
        for message in reversed(_messages(body)):
            if message.get("role") != "tool":
                break
            results[str(message.get("tool_call_id"))] = text_of(message.get("content"), "text")
        return dict(reversed(results.items()))

    def error_event(self, fault: Fault) -> bytes:
        """Return a data event with an `error` and no choices."""
        kind = fault.error_type or "server_error"
        return event({"error": {"message": fault.error_message, "type": kind, "param": None, "code": None}})

    def response(self, exchange: Exchange) -> Json:
        """Return one `chat.completion`."""
        message: Json = {
            "role": "assistant",
            "content": exchange.reply.text or None,
            "refusal": None,
            "annotations": [],
        }
        if exchange.reply.thinking:
            message["reasoning_content"] = exchange.reply.thinking
        if exchange.calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in exchange.calls
            ]
        choice: Json = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": exchange.finish,
        }
        return {
            **_head(exchange, "chat.completion"),
            "choices": [choice],
            "usage": _usage(exchange),
        }

    def events(self, exchange: Exchange) -> Iterator[bytes]:
        """Yield `chat.completion.chunk` events, the usage if it is requested, and `[DONE]`."""
        options = as_object(as_object(exchange.request.json).get("stream_options"))
        with_usage = options.get("include_usage") is True
        head = _head(exchange, "chat.completion.chunk")

        def chunk(delta: Json, finish: str | None = None) -> bytes:
            choice: Json = {
                "index": 0,
                "delta": delta,
                "logprobs": None,
                "finish_reason": finish,
            }
            return event({**head, "choices": [choice], **({"usage": None} if with_usage else {})})

        content = None if exchange.calls and not exchange.reply.text else ""
        yield chunk({"role": "assistant", "content": content, "refusal": None})
        for fragment in exchange.text_fragments(exchange.reply.thinking):
            yield chunk({"reasoning_content": fragment})
        for fragment in exchange.text_fragments(exchange.reply.text):
            yield chunk({"content": fragment})
        for index, call in enumerate(exchange.calls):
            start: Json = {
                "index": index,
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": ""},
            }
            yield chunk({"tool_calls": [start]})
            for fragment in exchange.argument_fragments(call.arguments):
                more: Json = {"index": index, "function": {"arguments": fragment}}
                yield chunk({"tool_calls": [more]})
        yield chunk({}, exchange.finish)
        if with_usage:
            yield event({**head, "choices": [], "usage": _usage(exchange)})
        yield b"data: [DONE]\n\n"


def _messages(body: object) -> list[Json]:
    return [as_object(message) for message in as_list(as_object(body).get("messages"))]


def _check_tool_messages(messages: list[Json]) -> ErrorReply | None:
    """Return an error unless the tool messages after an assistant message have the results of all its calls."""
    open_calls: list[str] = []
    is_after_calls = False
    for index, message in enumerate(messages):
        if message.get("role") == "tool":
            call_id: Any = message.get("tool_call_id")
            if not is_after_calls:
                return ErrorReply(
                    400,
                    f"Invalid parameter: messages[{index}] with role 'tool' must be a response "
                    "to a preceding message with 'tool_calls'.",
                )
            if call_id in open_calls:
                open_calls.remove(call_id)
            continue
        if open_calls:
            break
        calls = as_list(message.get("tool_calls"))
        open_calls = [str(as_object(call).get("id")) for call in calls]
        is_after_calls = bool(calls)
    if not open_calls:
        return None
    return ErrorReply(
        400,
        "An assistant message with 'tool_calls' must be followed by tool messages responding to "
        "each 'tool_call_id'. The following tool_call_ids did not have response messages: " + ", ".join(open_calls),
    )


def _check_format(body: Json) -> ErrorReply | None:
    """Return an error for a schema that the vendor cannot enforce."""
    form = as_object(as_object(body.get("response_format")).get("json_schema"))
    return check_format(form, "response_format")


def _head(exchange: Exchange, kind: str) -> Json:
    return {
        "id": f"chatcmpl-{exchange.serial}",
        "object": kind,
        "created": CREATED,
        "model": exchange.request.model,
        "service_tier": "default",
        "system_fingerprint": "fp_loopback",
    }


def _usage(exchange: Exchange) -> Json:
    return {
        "prompt_tokens": exchange.input_tokens,
        "completion_tokens": exchange.output_tokens,
        "total_tokens": exchange.input_tokens + exchange.output_tokens,
        "prompt_tokens_details": {
            "cached_tokens": exchange.reply.cached_tokens,
            "audio_tokens": 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": exchange.reasoning_tokens,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }

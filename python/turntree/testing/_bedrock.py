"""Amazon Bedrock: POST …/model/MODEL/converse and …/converse-stream."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from turntree.testing._dialect import Dialect, Exchange, Json, as_list, as_object, compact
from turntree.testing._replies import ErrorReply, Fault

if TYPE_CHECKING:
    from turntree.testing._request import Api, Request

_WHOLE = "/converse"
_STREAM = "/converse-stream"

_BY_STATUS: dict[int, tuple[str, str]] = {
    400: ("ValidationException", "The input fails to satisfy the constraints of the service."),
    403: ("AccessDeniedException", "You don't have access to the model with the specified model ID."),
    404: ("ResourceNotFoundException", "Could not resolve the foundation model from the provided model identifier."),
    408: ("ModelTimeoutException", "The request took too long to process."),
    424: ("ModelErrorException", "The request failed due to an error while processing the model."),
    429: ("ThrottlingException", "Too many requests, please wait before trying again."),
    500: ("InternalServerException", "An internal server error occurred."),
    503: ("ServiceUnavailableException", "The service isn't currently available."),
}

_STOP_REASONS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "content_filtered",
}


class BedrockConverse(Dialect):
    """Converse and ConverseStream. The path contains the model."""

    api: Api = "bedrock-converse"
    path = _WHOLE
    marks_end = False  # the token counts follow the event with the stop reason
    stream_type = "application/vnd.amazon.eventstream"

    def matches(self, path: str) -> bool:
        """Return True if the path ends with one of the two methods."""
        return path.endswith((_WHOLE, _STREAM))

    def streams(self, request: Request) -> bool:
        """Return True for the streaming method."""
        return request.path.endswith(_STREAM)

    def model(self, request: Request) -> str:
        """Return the part of the path before the method."""
        return unquote(request.path.rpartition("/")[0].rpartition("/")[2])

    def check(self, request: Request) -> ErrorReply | None:
        """Return an error for a missing signature, missing messages, or tool uses without results."""
        if not request.headers.get("authorization"):
            return ErrorReply(403, "Missing Authentication Token", type="MissingAuthenticationTokenException")
        messages = _messages(request.json)
        if not messages or messages[0].get("role") != "user":
            return ErrorReply(400, "A conversation must start with a user message.")
        for index, message in enumerate(messages):
            if message.get("role") not in ("user", "assistant"):
                return ErrorReply(400, f"messages.{index}.role: must be user or assistant")
            if not as_list(message.get("content")):
                return ErrorReply(400, f"The content field in the Message object at messages.{index} is empty.")
        return _check_tool_results(messages)

    def user_text(self, body: object) -> str:
        """Return the text of the last user message with a text."""
        for message in reversed(_messages(body)):
            texts = [str(block["text"]) for block in _blocks(message) if "text" in block]
            if message.get("role") == "user" and texts:
                return "".join(texts)
        return ""

    def tool_results(self, body: object) -> dict[str, str]:
        """Return the tool results of the last message."""
        messages = _messages(body)
        results = _members(messages[-1], "toolResult") if messages else []
        return {str(result.get("toolUseId")): _result_text(result) for result in results}

    def headers(self, request: Request) -> dict[str, str]:
        """Return the headers of a response."""
        return {"x-amzn-requestid": f"00000000-0000-4000-8000-{request.number:012d}"}

    def error(self, reply: ErrorReply, request: Request) -> Json:
        """Return the body of an error response."""
        kind, message = _BY_STATUS.get(reply.status, _BY_STATUS[500])
        # The service has the type in a header too; in the body it is as good.
        return {"__type": reply.type or kind, "message": message if reply.message is None else reply.message}

    def error_event(self, fault: Fault) -> bytes:
        """Return a message of an exception."""
        kind = fault.error_type or "serviceUnavailableException"
        return _message({":exception-type": kind, ":message-type": "exception"}, {"message": fault.error_message})

    def response(self, exchange: Exchange) -> Json:
        """Return one message with its content blocks."""
        return {
            "output": {"message": {"role": "assistant", "content": _content(exchange)}},
            "stopReason": _STOP_REASONS[exchange.finish],
            "usage": _usage(exchange),
            "metrics": {"latencyMs": 1},
        }

    def events(self, exchange: Exchange) -> Iterator[bytes]:
        """Yield `messageStart`, the blocks, `messageStop` and `metadata`."""
        yield _event("messageStart", {"role": "assistant"})
        for index, block in enumerate(_content(exchange)):
            position: Json = {"contentBlockIndex": index}
            if "toolUse" in block:
                use = {name: block["toolUse"][name] for name in ("toolUseId", "name")}
                yield _event("contentBlockStart", {**position, "start": {"toolUse": use}})
            for delta in _deltas(exchange, block):
                yield _event("contentBlockDelta", {**position, "delta": delta})
            yield _event("contentBlockStop", position)
        yield _event("messageStop", {"stopReason": _STOP_REASONS[exchange.finish]})
        yield _event("metadata", {"usage": _usage(exchange), "metrics": {"latencyMs": 1}})


def _event(name: str, payload: Json) -> bytes:
    return _message({":event-type": name, ":message-type": "event"}, payload)


def _message(headers: Mapping[str, str], payload: Json) -> bytes:
    """Return one message of an event stream: lengths, headers, payload, and a checksum of each part."""
    typed = {**headers, ":content-type": "application/json"}
    head = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for name, value in typed.items()
    )
    body = compact(payload).encode()
    prelude = struct.pack(">II", 16 + len(head) + len(body), len(head))
    whole = prelude + struct.pack(">I", zlib.crc32(prelude)) + head + body
    return whole + struct.pack(">I", zlib.crc32(whole))


def _messages(body: object) -> list[Json]:
    return [as_object(message) for message in as_list(as_object(body).get("messages"))]


def _blocks(message: Json) -> list[Json]:
    return [as_object(block) for block in as_list(message.get("content"))]


def _members(message: Json, name: str) -> list[Json]:
    return [as_object(block[name]) for block in _blocks(message) if name in block]


def _result_text(result: Json) -> str:
    blocks = [as_object(block) for block in as_list(result.get("content"))]
    return "".join(str(block["text"]) if "text" in block else compact(block.get("json")) for block in blocks)


def _check_tool_results(messages: list[Json]) -> ErrorReply | None:
    """Return an error unless the message after tool uses has the result of each, and no others."""
    uses: list[Any] = []
    for index, message in enumerate(messages):
        results = _ids(message, "toolResult")
        if missing := [use for use in uses if use not in results]:
            return _missing(index - 1, missing)
        if [result for result in results if result not in uses]:
            exceeds = "The number of toolResult blocks exceeds the number of toolUse blocks of previous turn."
            return ErrorReply(400, f"{exceeds} (messages.{index})")
        uses = _ids(message, "toolUse")
    return _missing(len(messages) - 1, uses) if uses else None


def _ids(message: Json, name: str) -> list[Any]:
    # Calls that the vendor runs itself have a type; their results are in the same message.
    return [member.get("toolUseId") for member in _members(message, name) if "type" not in member]


def _missing(index: int, uses: list[Any]) -> ErrorReply:
    ids = ", ".join(map(str, uses))
    return ErrorReply(400, f"Expected toolResult blocks at messages.{index + 1}.content for the following Ids: {ids}")


def _content(exchange: Exchange) -> list[Json]:
    """Return the complete content blocks: reasoning, text, tool uses."""
    blocks: list[Json] = []
    reply = exchange.reply
    if reply.thinking or reply.signature:
        blocks.append({"reasoningContent": {"reasoningText": _signed(reply.thinking, reply.signature)}})
    if reply.text:
        blocks.append({"text": reply.text})
    for call in exchange.calls:
        try:
            arguments: Any = json.loads(call.arguments)
        except ValueError:
            arguments = call.arguments  # a script may contain invalid JSON
        blocks.append({"toolUse": {"toolUseId": call.id, "name": call.name, "input": arguments}})
    return blocks


def _signed(thinking: str, signature: str | None) -> Json:
    return {"text": thinking} if signature is None else {"text": thinking, "signature": signature}


def _deltas(exchange: Exchange, block: Json) -> Iterator[Json]:
    if "text" in block:
        for fragment in exchange.text_fragments(block["text"]):
            yield {"text": fragment}
    elif "toolUse" in block:
        arguments = next(call.arguments for call in exchange.calls if call.id == block["toolUse"]["toolUseId"])
        for fragment in exchange.argument_fragments(arguments):
            yield {"toolUse": {"input": fragment}}
    else:
        reasoning = block["reasoningContent"]["reasoningText"]
        for fragment in exchange.text_fragments(reasoning["text"]):
            yield {"reasoningContent": {"text": fragment}}
        if "signature" in reasoning:
            yield {"reasoningContent": {"signature": reasoning["signature"]}}


def _usage(exchange: Exchange) -> Json:
    """Return the token counts. The service counts cached tokens separately from the other input tokens."""
    cached = exchange.reply.cached_tokens
    return {
        "inputTokens": exchange.input_tokens - cached,
        "outputTokens": exchange.output_tokens,
        "totalTokens": exchange.input_tokens + exchange.output_tokens,
        "cacheReadInputTokens": cached,
        "cacheWriteInputTokens": 0,
    }

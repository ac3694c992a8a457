"""The Gemini API: POST …/models/MODEL:generateContent and …:streamGenerateContent?alt=sse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from turntree.testing._dialect import Call, Dialect, Exchange, Json, as_list, as_object, compact, event
from turntree.testing._replies import ErrorReply, Fault

if TYPE_CHECKING:
    from turntree.testing._request import Api, Request

_WHOLE = ":generateContent"
_STREAM = ":streamGenerateContent"

_BY_STATUS: dict[int, tuple[str, str]] = {
    400: ("INVALID_ARGUMENT", "Request contains an invalid argument."),
    401: ("UNAUTHENTICATED", "Request had invalid authentication credentials."),
    403: ("PERMISSION_DENIED", "Method doesn't allow unregistered callers."),
    404: ("NOT_FOUND", "The model is not found for API version v1beta."),
    429: ("RESOURCE_EXHAUSTED", "You exceeded your current rate limit."),
    500: ("INTERNAL", "An internal error has occurred."),
    503: ("UNAVAILABLE", "The model is overloaded. Please try again later."),
    504: ("DEADLINE_EXCEEDED", "The deadline expired before the answer was ready."),
}

_FINISH_REASONS = {
    "stop": "STOP",
    "tool_calls": "STOP",
    "length": "MAX_TOKENS",
    "content_filter": "SAFETY",
}


class GoogleGenerateContent(Dialect):
    """generateContent and streamGenerateContent. The path contains the method and the model."""

    api: Api = "google-generate-content"
    path = _WHOLE
    marks_end = False  # token counts may follow the event with the finish reason

    def matches(self, path: str) -> bool:
        """Return True if the path ends with one of the two methods."""
        return path.endswith((_WHOLE, _STREAM))

    def streams(self, request: Request) -> bool:
        """Return True for the streaming method."""
        return request.path.endswith(_STREAM)

    def model(self, request: Request) -> str:
        """Return the last part of the path, without the method."""
        return request.path.rpartition("/")[2].partition(":")[0]

    def check(self, request: Request) -> ErrorReply | None:
        """Return an error for a missing key, missing contents, or calls and responses that do not match."""
        headers = request.headers
        if not headers.get("x-goog-api-key") and not headers.get("authorization") and "key=" not in request.query:
            return ErrorReply(403)
        if self.streams(request) and "alt=sse" not in request.query.split("&"):
            return ErrorReply(400, "the loopback server streams with ?alt=sse only, not as one long JSON array")
        contents = _contents(request.json)
        if not contents:
            return ErrorReply(400, "* GenerateContentRequest.contents: contents is not specified")
        for index, content in enumerate(contents):
            if content.get("role", "user") not in ("user", "model"):
                return ErrorReply(400, "Please use a valid role: user, model.")
            if not as_list(content.get("parts")):
                return ErrorReply(400, f"* GenerateContentRequest.contents[{index}].parts: must not be empty")
        return _check_responses(contents)

    def user_text(self, body: object) -> str:
        """Return the text of the last user content with a text."""
        for content in reversed(_contents(body)):
            texts = [str(part["text"]) for part in _parts(content) if "text" in part]
            if content.get("role", "user") == "user" and texts:
                return "".join(texts)
        return ""

    def tool_results(self, body: object) -> dict[str, str]:
        """Return the function responses of the last content; the value of `{"result": …}` without the dict."""
        contents = _contents(body)
        responses = _members(contents[-1], "functionResponse") if contents else []
        return {str(item.get("id") or item.get("name")): _result_text(item.get("response")) for item in responses}

    def headers(self, request: Request) -> dict[str, str]:
        """Return the headers of a response."""
        return {"x-gemini-service-tier": "standard"}

    def error(self, reply: ErrorReply, request: Request) -> Json:
        """Return the body of an error response."""
        return _error(reply.status, reply.message, reply.type)

    def error_event(self, fault: Fault) -> bytes:
        """Return a data event with an `error` and no candidates."""
        return event(_error(503, fault.error_message, fault.error_type))

    def response(self, exchange: Exchange) -> Json:
        """Return one candidate with its parts."""
        parts: list[Json] = []
        if exchange.reply.thinking:
            parts.append({"text": exchange.reply.thinking, "thought": True})
        if exchange.reply.text:
            parts.append({"text": exchange.reply.text})
        parts += [_call(call) for call in exchange.calls]
        signature = exchange.reply.signature
        if signature and exchange.calls:
            parts[-len(exchange.calls)]["thoughtSignature"] = signature
        elif signature and parts:
            parts[-1]["thoughtSignature"] = signature
        return _frame(exchange, parts, finish=True)

    def events(self, exchange: Exchange) -> Iterator[bytes]:
        """Yield complete responses, each with new parts. The last one has the finish reason and all token counts."""
        for fragment in exchange.text_fragments(exchange.reply.thinking):
            yield event(_frame(exchange, [{"text": fragment, "thought": True}]))
        for fragment in exchange.text_fragments(exchange.reply.text):
            yield event(_frame(exchange, [{"text": fragment}]))
        signature = exchange.reply.signature
        for index, call in enumerate(exchange.calls):
            # The vendor signs only the first of parallel calls.
            signed = {"thoughtSignature": signature} if signature and not index else {}
            yield event(_frame(exchange, [{**_call(call), **signed}]))
        last: Json = {"text": ""}
        if signature and not exchange.calls:
            last["thoughtSignature"] = signature
        yield event(_frame(exchange, [last], finish=True))


def _contents(body: object) -> list[Json]:
    return [as_object(content) for content in as_list(as_object(body).get("contents"))]


def _parts(content: Json) -> list[Json]:
    return [as_object(part) for part in as_list(content.get("parts"))]


def _members(content: Json, name: str) -> list[Json]:
    return [as_object(part[name]) for part in _parts(content) if name in part]


def _check_responses(contents: list[Json]) -> ErrorReply | None:
    """Return an error unless the content after calls has the same number of responses."""
    open_calls = 0
    for content in contents:
        if len(_members(content, "functionResponse")) != open_calls:
            return ErrorReply(
                400,
                "Please ensure that the number of function response parts is equal to the number of function call "
                "parts of the function call turn.",
            )
        open_calls = len(_members(content, "functionCall")) if content.get("role") == "model" else 0
    if open_calls:
        return ErrorReply(400, "Please ensure that function call turn is followed by a function response turn.")
    return None


def _result_text(response: object) -> str:
    fields = as_object(response)
    value: Any = fields["result"] if list(fields) == ["result"] else response
    return value if isinstance(value, str) else compact(value)


def _error(status: int, message: str | None, kind: str | None) -> Json:
    default_kind, default_message = _BY_STATUS.get(status, ("UNKNOWN", "Something went wrong."))
    return {
        "error": {
            "code": status,
            "message": default_message if message is None else message,
            "status": kind or default_kind,
        }
    }


def _call(call: Call) -> Json:
    try:
        arguments: Any = json.loads(call.arguments)
    except ValueError:
        arguments = call.arguments  # a script may contain invalid JSON
    return {"functionCall": {"id": call.id, "name": call.name, "args": arguments}}


def _frame(exchange: Exchange, parts: list[Json], *, finish: bool = False) -> Json:
    candidate: Json = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if finish:
        candidate["finishReason"] = _FINISH_REASONS[exchange.finish]
    return {
        "candidates": [candidate],
        "usageMetadata": _usage(exchange, whole=finish),
        "modelVersion": exchange.request.model,
        "responseId": f"resp-{exchange.serial}",
    }


def _usage(exchange: Exchange, *, whole: bool) -> Json:
    """Return the token counts. The vendor counts thoughts separately from the other output tokens."""
    input_tokens = exchange.input_tokens
    counts: Json = {"promptTokenCount": input_tokens, "totalTokenCount": input_tokens}
    if exchange.reply.cached_tokens:
        counts["cachedContentTokenCount"] = exchange.reply.cached_tokens
    if whole:
        thoughts = min(exchange.reasoning_tokens, exchange.output_tokens)
        counts["candidatesTokenCount"] = exchange.output_tokens - thoughts
        counts["totalTokenCount"] = input_tokens + exchange.output_tokens
        if thoughts:
            counts["thoughtsTokenCount"] = thoughts
    return counts

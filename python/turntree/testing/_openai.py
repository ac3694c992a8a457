"""The base of OpenAI's APIs: keys, errors and headers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turntree.testing._dialect import Dialect, Json
from turntree.testing._replies import ErrorReply
from turntree.testing._schemas import OPENAI, schema_error

if TYPE_CHECKING:
    from collections.abc import Iterable

    from turntree.testing._request import Request

_BY_STATUS: dict[int, tuple[str, str | None, str]] = {
    400: ("invalid_request_error", None, "Invalid request."),
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    403: ("invalid_request_error", "unsupported_country_region_territory", "Access denied."),
    404: ("invalid_request_error", "model_not_found", "The model does not exist."),
    408: ("server_error", None, "The request timed out."),
    429: ("requests", "rate_limit_exceeded", "Rate limit reached for requests."),
    503: ("server_error", None, "The engine is currently overloaded, please try again later."),
}


class OpenAIDialect(Dialect):
    """A dialect with OpenAI's headers and errors."""

    def headers(self, request: Request) -> dict[str, str]:
        """Return the headers of a response."""
        return {
            "openai-version": "2020-10-01",
            "openai-processing-ms": "1",
            "x-request-id": f"req_{request.number:08d}",
        }

    def error(self, reply: ErrorReply, request: Request) -> Json:
        """Return the body of an error response."""
        default = ("server_error", None, "The server had an error while processing your request.")
        kind, code, message = _BY_STATUS.get(reply.status, default)
        return {
            "error": {
                "message": message if reply.message is None else reply.message,
                "type": reply.type or kind,
                "param": None,
                "code": reply.code or code,
            }
        }


def check_key(request: Request) -> ErrorReply | None:
    """Return an error for a request without a bearer token or, as Azure has it, a header `api-key`. Any is valid."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if (scheme.lower() == "bearer" and token.strip()) or request.headers.get("api-key"):
        return None
    return ErrorReply(401, "You didn't provide an API key.", code=None)


def check_format(form: Json, member: str) -> ErrorReply | None:
    """Return an error for a format with `strict` and a schema that the vendor cannot enforce."""
    if form.get("strict") is not True or (error := schema_error(form.get("schema"), OPENAI)) is None:
        return None
    return ErrorReply(400, f"Invalid schema for {member} '{form.get('name')}': {error}", code="invalid_json_schema")


def check_tools(functions: Iterable[Json]) -> ErrorReply | None:
    """Return an error for a function with `strict` and a schema that the vendor cannot enforce."""
    for function in functions:
        if function.get("strict") is True and (error := schema_error(function.get("parameters"), OPENAI)) is not None:
            message = f"Invalid schema for function '{function.get('name')}': {error}"
            return ErrorReply(400, message, code="invalid_function_parameters")
    return None

"""Endpoints that make pictures: OpenAI's (xAI's too) and Google's. Any good reply gives one dot for each picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from email.message import Message
from email.parser import BytesParser
from typing import TYPE_CHECKING, cast

from turntree.testing import _openai
from turntree.testing._replies import ErrorReply, Fault
from turntree.testing._wire import CREATED, Dialect, Exchange, Json, as_list, as_object, event

if TYPE_CHECKING:
    from turntree.testing._request import Api, Request

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A picture of one pixel, PNG as base64."""


def form_of(headers: Mapping[str, str], body: bytes) -> Json | None:
    """The fields of a form, files as `{"filename", "type", "size"}`; None where the body is none."""
    kind = headers.get("content-type", "")
    if not kind.startswith("multipart/form-data"):
        return None
    parsed = BytesParser().parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body)
    fields: Json = {}
    for part in cast("list[Message]", parsed.get_payload()):
        name = str(part.get_param("name", header="content-disposition"))
        content = cast("bytes", part.get_payload(decode=True))
        file_name = part.get_filename()
        if file_name is None:
            fields[name] = content.decode()
        else:
            fields[name] = {"filename": file_name, "type": part.get_content_type(), "size": len(content)}
    return fields


class OpenAIImages(Dialect):
    """`POST …/images/generations`, with previews when a stream is asked for."""

    api: Api = "openai-images"
    path = "/images/generations"

    def check(self, request: Request) -> ErrorReply | None:
        """Refuse a missing key or prompt."""
        if not self.user_text(request.json):
            return ErrorReply(400, "Missing required parameter: 'prompt'.")
        return _openai.check_key(request)

    def user_text(self, body: object) -> str:
        """The prompt."""
        return str(as_object(body).get("prompt", ""))

    def tool_results(self, body: object) -> dict[str, str]:
        """None, ever."""
        return {}

    def response(self, exchange: Exchange) -> Json:
        """The pictures."""
        body = as_object(exchange.request.json)
        picture = {"url": "https://pictures.example/dot.png"} if body.get("response_format") == "url" else {}
        picture = picture or {"b64_json": DOT}
        count = int(body.get("n", 1))
        usage = {"input_tokens": exchange.input_tokens, "output_tokens": exchange.output_tokens}
        revised = {"revised_prompt": f"{self.user_text(body)}, in detail"}
        return {"created": CREATED, "data": [{**picture, **revised} for _ in range(count)], "usage": usage}

    def events(self, exchange: Exchange) -> Iterator[bytes]:
        """The previews, then the picture."""
        for place in range(int(as_object(exchange.request.json).get("partial_images", 0))):
            name = "image_generation.partial_image"
            yield event({"type": name, "b64_json": DOT, "partial_image_index": place}, name)
        usage = {"input_tokens": exchange.input_tokens, "output_tokens": exchange.output_tokens}
        name = "image_generation.completed"
        yield event({"type": name, "b64_json": DOT, "usage": usage}, name)

    def headers(self, request: Request) -> dict[str, str]:
        """Headers of every response."""
        return _openai.headers(request)

    def error(self, reply: ErrorReply, request: Request) -> Json:
        """The body of a failure."""
        return _openai.error(reply)

    def error_event(self, fault: Fault) -> bytes:
        """The event that ends a stream with a failure."""
        kind = fault.error_type or "server_error"
        return event({"type": "error", "error": {"type": kind, "message": fault.error_message}}, "error")


class OpenAIImageEdits(OpenAIImages):
    """`POST …/images/edits`, a form."""

    api: Api = "openai-image-edits"
    path = "/images/edits"

    def check(self, request: Request) -> ErrorReply | None:
        """Refuse a missing key, prompt or picture."""
        if not isinstance(as_object(request.json).get("image"), dict):
            return ErrorReply(400, "Missing required parameter: 'image'.")
        return super().check(request)


class GoogleImages(OpenAIImages):
    """`POST …:predict`."""

    api: Api = "google-images"
    path = ":predict"

    def check(self, request: Request) -> ErrorReply | None:
        """Refuse a missing prompt."""
        return None if self.user_text(request.json) else ErrorReply(400, "prompt is missing.")

    def user_text(self, body: object) -> str:
        """The prompt."""
        return "".join(str(as_object(item).get("prompt", "")) for item in as_list(as_object(body).get("instances")))

    def response(self, exchange: Exchange) -> Json:
        """The pictures."""
        parameters = as_object(as_object(exchange.request.json).get("parameters"))
        picture = {"bytesBase64Encoded": DOT, "mimeType": "image/png"}
        return {"predictions": [picture for _ in range(int(parameters.get("sampleCount", 1)))]}


IMAGES: tuple[Dialect, ...] = (OpenAIImages(), OpenAIImageEdits(), GoogleImages())

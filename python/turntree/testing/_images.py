"""The image APIs of OpenAI, xAI and Google. Every successful reply returns images of one pixel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from email.message import Message
from email.parser import BytesParser
from typing import TYPE_CHECKING, cast

from turntree.testing._dialect import CREATED, Dialect, Exchange, Json, as_list, as_object, event
from turntree.testing._openai import OpenAIDialect, check_key
from turntree.testing._replies import ErrorReply, Fault

if TYPE_CHECKING:
    from turntree.testing._request import Api, Request

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A PNG image of one pixel, in base64."""


def parse_form(headers: Mapping[str, str], body: bytes) -> Json | None:
    """Return the fields of a form, files as `{"filename", "type", "size"}`; None if the body is not a form."""
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


class OpenAIImages(OpenAIDialect):
    """`POST …/images/generations`, with previews in a stream."""

    api: Api = "openai-images"
    path = "/images/generations"

    def check(self, request: Request) -> ErrorReply | None:
        """Return an error for a request without a key or a prompt."""
        if not self.user_text(request.json):
            return ErrorReply(400, "Missing required parameter: 'prompt'.")
        return check_key(request)

    def user_text(self, body: object) -> str:
        """Return the prompt."""
        return str(as_object(body).get("prompt", ""))

    def tool_results(self, body: object) -> dict[str, str]:
        """Return an empty dict: the API has no tools."""
        return {}

    def response(self, exchange: Exchange) -> Json:
        """Return the images."""
        body = as_object(exchange.request.json)
        image = {"url": "https://pictures.example/dot.png"} if body.get("response_format") == "url" else {}
        image = image or {"b64_json": DOT}
        count = int(body.get("n", 1))
        usage = {"input_tokens": exchange.input_tokens, "output_tokens": exchange.output_tokens}
        revised = {"revised_prompt": f"{self.user_text(body)}, in detail"}
        return {"created": CREATED, "data": [{**image, **revised} for _ in range(count)], "usage": usage}

    def events(self, exchange: Exchange) -> Iterator[bytes]:
        """Yield the previews, then the image."""
        for index in range(int(as_object(exchange.request.json).get("partial_images", 0))):
            name = "image_generation.partial_image"
            yield event({"type": name, "b64_json": DOT, "partial_image_index": index}, name)
        usage = {"input_tokens": exchange.input_tokens, "output_tokens": exchange.output_tokens}
        name = "image_generation.completed"
        yield event({"type": name, "b64_json": DOT, "usage": usage}, name)

    def error_event(self, fault: Fault) -> bytes:
        """Return the event that ends a failed stream."""
        kind = fault.error_type or "server_error"
        return event({"type": "error", "error": {"type": kind, "message": fault.error_message}}, "error")


class OpenAIImageEdits(OpenAIImages):
    """`POST …/images/edits`, whose body is a form."""

    api: Api = "openai-image-edits"
    path = "/images/edits"

    def check(self, request: Request) -> ErrorReply | None:
        """Return an error for a request without a key, a prompt or an image."""
        if not isinstance(as_object(request.json).get("image"), dict):
            return ErrorReply(400, "Missing required parameter: 'image'.")
        return super().check(request)


class GoogleImages(OpenAIImages):
    """`POST …:predict`."""

    api: Api = "google-images"
    path = ":predict"

    def check(self, request: Request) -> ErrorReply | None:
        """Return an error for a request without a prompt."""
        return None if self.user_text(request.json) else ErrorReply(400, "prompt is missing.")

    def user_text(self, body: object) -> str:
        """Return the prompt."""
        return "".join(str(as_object(item).get("prompt", "")) for item in as_list(as_object(body).get("instances")))

    def response(self, exchange: Exchange) -> Json:
        """Return the images."""
        parameters = as_object(as_object(exchange.request.json).get("parameters"))
        image = {"bytesBase64Encoded": DOT, "mimeType": "image/png"}
        return {"predictions": [image for _ in range(int(parameters.get("sampleCount", 1)))]}


IMAGES: tuple[Dialect, ...] = (OpenAIImages(), OpenAIImageEdits(), GoogleImages())

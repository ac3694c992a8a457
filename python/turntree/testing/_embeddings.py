"""The embedding APIs of OpenAI, Google and Ollama. A successful reply returns vectors of the texts in the request."""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from turntree.testing._dialect import Dialect, Exchange, Json, as_list, as_object
from turntree.testing._openai import OpenAIDialect, check_key
from turntree.testing._replies import ErrorReply, Fault

if TYPE_CHECKING:
    from turntree.testing._request import Api, Request

DIMENSIONS = 8


def vector(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """Return the vector of a text. It is always the same, and exact as 32-bit floats."""
    digest = hashlib.sha256(text.encode()).digest() * (dimensions // 32 + 1)
    return [byte / 128 - 1 for byte in digest[:dimensions]]


class _Embeddings(OpenAIDialect):
    """The base of embedding APIs, which have neither conversations nor streams."""

    def user_text(self, body: object) -> str:
        """Return the last text."""
        return next(iter(self.texts(body)[::-1]), "")

    def tool_results(self, body: object) -> dict[str, str]:
        """Return an empty dict: the API has no tools."""
        return {}

    def texts(self, body: object) -> list[str]:
        """Return the texts in the request."""
        inputs = as_object(body).get("input")
        return [inputs] if isinstance(inputs, str) else [text for text in as_list(inputs) if isinstance(text, str)]

    def check(self, request: Request) -> ErrorReply | None:
        """Return an error for a request without texts, or with an empty one."""
        texts = self.texts(request.json)
        if not texts or not all(texts):
            return ErrorReply(400, "input must not be empty.")
        return None

    def events(self, exchange: Exchange) -> Iterator[bytes]:
        """Return no events: the API has no streams."""
        return iter(())

    def error_event(self, fault: Fault) -> bytes:
        """Return no bytes: the API has no streams."""
        return b""


class OpenAIEmbeddings(_Embeddings):
    """`POST …/embeddings`, with vectors as numbers or as base64."""

    api: Api = "openai-embeddings"
    path = "/embeddings"

    def check(self, request: Request) -> ErrorReply | None:
        """Return an error for a request without a key, or with more texts than the vendor allows."""
        if len(self.texts(request.json)) > 2048:
            return ErrorReply(400, "input has more than 2048 items.")
        return check_key(request) or super().check(request)

    def response(self, exchange: Exchange) -> Json:
        """Return the vectors."""
        body = as_object(exchange.request.json)
        dimensions = int(body.get("dimensions", DIMENSIONS))
        vectors = [vector(text, dimensions) for text in self.texts(body)]
        is_encoded = body.get("encoding_format") == "base64"
        items: list[Any] = [to_base64(numbers) for numbers in vectors] if is_encoded else [*vectors]
        tokens = exchange.input_tokens
        return {
            "object": "list",
            "data": [{"object": "embedding", "index": index, "embedding": item} for index, item in enumerate(items)],
            "model": body.get("model"),
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }


class GoogleEmbeddings(_Embeddings):
    """`POST …:batchEmbedContents`."""

    api: Api = "google-embeddings"
    path = ":batchEmbedContents"

    def texts(self, body: object) -> list[str]:
        """Return the texts in the request."""
        requests = [as_object(item) for item in as_list(as_object(body).get("requests"))]
        parts = [as_list(as_object(item.get("content")).get("parts")) for item in requests]
        return ["".join(str(as_object(part).get("text", "")) for part in items) for items in parts]

    def response(self, exchange: Exchange) -> Json:
        """Return the vectors."""
        texts = self.texts(exchange.request.json)
        statistics = [{"tokenCount": -(-len(text) // 4)} for text in texts]
        return {
            "embeddings": [
                {"values": vector(text), "statistics": counted} for text, counted in zip(texts, statistics, strict=True)
            ]
        }


class OllamaEmbeddings(_Embeddings):
    """`POST /api/embed`."""

    api: Api = "ollama-embeddings"
    path = "/api/embed"

    def response(self, exchange: Exchange) -> Json:
        """Return the vectors."""
        body = as_object(exchange.request.json)
        return {
            "model": body.get("model"),
            "embeddings": [vector(text) for text in self.texts(body)],
            "total_duration": 14_143_917,
            "load_duration": 1_019_500,
            "prompt_eval_count": exchange.input_tokens,
        }


def to_base64(numbers: list[float]) -> str:
    """Return numbers as base64 of little-endian 32-bit floats."""
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


EMBEDDINGS: tuple[Dialect, ...] = (OpenAIEmbeddings(), GoogleEmbeddings(), OllamaEmbeddings())

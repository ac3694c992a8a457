"""Files at a vendor: upload, look up and delete.

OpenAI, Anthropic and Google keep files. Every function takes a model, its name or an `LLM`, whose key and base URL are
used.
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from turntree._core import ModelReference, VendorApi
from turntree._public_names import LateClass
from turntree._public_names import set_public_module as _set_public_module
from turntree.exceptions import ErrorCode, UPPError
from turntree.upp._vendor_calls import check_id, connect, form, multipart, read_object, run_sync, write_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from turntree.upp._llm import LLM
else:
    LLM = LateClass("turntree.upp._llm", "LLM")

__all__ = ["File", "delete", "delete_sync", "get", "get_sync", "upload", "upload_sync"]

# The content, or the path of a file.
Data: TypeAlias = bytes | bytearray | memoryview | str | PathLike[str]

_UNKNOWN_TYPE = "application/octet-stream"
_ANTHROPIC_HEADERS = [("anthropic-beta", "files-api-2025-04-14")]
_GOOGLE_HEADERS = [("X-Goog-Upload-Protocol", "multipart")]
# The headers of each vendor.
_VENDORS: dict[str, list[tuple[str, str]]] = {"anthropic": _ANTHROPIC_HEADERS, "google": [], "openai": []}


class File(NamedTuple):
    """A file at a vendor."""

    id: str
    """The vendor's id."""
    name: str
    """The name of the file."""
    media_type: str | None
    """The media type. OpenAI does not return it: there it is that of the upload, or guessed by the name."""
    bytes: int
    """The size."""
    vendor: str
    """The provider of the model, such as ``openai``."""
    uri: str | None = None
    """The URI by which messages to Google name the file. None for other vendors."""


async def upload(
    model: ModelReference | LLM[Any] | str,
    data: Data,
    *,
    name: str | None = None,
    media_type: str | None = None,
    purpose: str | None = None,
) -> File:
    """Upload a file.

    Args:
        model: A model, its name or an `LLM` of the vendor.
        data: The content as bytes, or the path of a file.
        name: The name of the file. Default: that of the path, else ``file``.
        media_type: The media type. Default: guessed by the name.
        purpose: The purpose, which OpenAI alone has. Default: ``user_data``.

    Returns:
        The file at the vendor.

    Raises:
        UPPError: INVALID_REQUEST: the vendor keeps no files. Any other code: the request failed.
        OSError: The file cannot be read.
        TypeError: An argument has the wrong type.
        ValueError: A text contains a line break, or `purpose` is given for another vendor than OpenAI.
    """
    vendor, api = connect(model, "files", _VENDORS)
    for argument, value in (("name", name), ("media_type", media_type), ("purpose", purpose)):
        _check_text(argument, value)
    if purpose is not None and vendor != "openai":
        message = f"purpose is an option of openai; leave it out for {vendor}"
        raise ValueError(message)
    content, found = await _content(data)
    name = name or found
    kind = media_type or _type_of(name) or _UNKNOWN_TYPE
    if vendor == "google":
        about = write_json({"file": {"displayName": name, "mimeType": kind}}).encode()
        head = ["Content-Type: application/json; charset=utf-8"]
        body, content_type = multipart("related", [(head, about), ([f"Content-Type: {kind}"], content)])
        answer = await api.call("POST", "/files", body, content_type, _GOOGLE_HEADERS, "/upload")
    else:
        fields = {"purpose": purpose or "user_data"} if vendor == "openai" else {}
        body, content_type = form(fields, name, kind, content)
        answer = await api.call("POST", "/files", body, content_type, _VENDORS[vendor], "")
    return _file(vendor, read_object(answer, vendor), kind)


async def get(model: ModelReference | LLM[Any] | str, id: str) -> File:
    """Look up a file.

    Args:
        model: A model, its name or an `LLM` of the vendor.
        id: The id of the file.

    Raises:
        UPPError: The vendor keeps no files, or the request failed.
        TypeError: An argument has the wrong type.
        ValueError: `id` is not an id.
    """
    vendor, api = connect(model, "files", _VENDORS)
    return _file(vendor, read_object(await _call(vendor, api, "GET", id), vendor), None)


async def delete(model: ModelReference | LLM[Any] | str, id: str) -> None:
    """Delete a file.

    Args:
        model: A model, its name or an `LLM` of the vendor.
        id: The id of the file.

    Raises:
        UPPError: The vendor keeps no files, or the request failed.
        TypeError: An argument has the wrong type.
        ValueError: `id` is not an id.
    """
    vendor, api = connect(model, "files", _VENDORS)
    await _call(vendor, api, "DELETE", id)


def upload_sync(
    model: ModelReference | LLM[Any] | str,
    data: Data,
    *,
    name: str | None = None,
    media_type: str | None = None,
    purpose: str | None = None,
) -> File:
    """Like `upload`, but blocks; also works inside a running event loop (notebooks)."""
    return run_sync(lambda: upload(model, data, name=name, media_type=media_type, purpose=purpose))


def get_sync(model: ModelReference | LLM[Any] | str, id: str) -> File:
    """Like `get`, but blocks; also works inside a running event loop (notebooks)."""
    return run_sync(lambda: get(model, id))


def delete_sync(model: ModelReference | LLM[Any] | str, id: str) -> None:
    """Like `delete`, but blocks; also works inside a running event loop (notebooks)."""
    return run_sync(lambda: delete(model, id))


async def _call(vendor: str, api: VendorApi, method: str, identifier: object) -> bytes:
    short = check_id(identifier, "id", "files/" if vendor == "google" else "")
    return await api.call(method, f"/files/{short}", b"", "application/json", _VENDORS[vendor], "")


def _check_text(name: str, value: object) -> None:
    if value is None:
        return
    if not isinstance(value, str):
        message = f"{name} must be a str, not {type(value).__name__}"
        raise TypeError(message)
    if not value or "\r" in value or "\n" in value:
        message = f"{name} must be a text without line breaks, not {value!r}"
        raise ValueError(message)


async def _content(data: object) -> tuple[bytes, str]:
    """Return the content and the name of the file."""
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(cast("bytes", data)), "file"
    if not isinstance(data, str | PathLike):
        message = f"data must be bytes, or the path of a file, not {type(data).__name__}"
        raise TypeError(message)
    import asyncio
    from pathlib import Path

    path = Path(cast("str", data))
    return await asyncio.to_thread(path.read_bytes), path.name


def _type_of(name: str) -> str | None:
    import mimetypes

    return mimetypes.guess_type(name)[0]


def _file(vendor: str, answer: Mapping[str, Any], media_type: str | None) -> File:
    answer = answer.get("file", answer)
    try:
        if vendor == "google":
            name = answer.get("displayName") or answer["name"]
            kind, size, uri = answer.get("mimeType") or media_type, answer.get("sizeBytes", 0), answer.get("uri")
            return File(answer["name"], name, kind, int(size), vendor, uri)
        name = answer["filename"]
        if vendor == "anthropic":
            return File(answer["id"], name, answer.get("mime_type") or media_type, int(answer["size_bytes"]), vendor)
        return File(answer["id"], name, media_type or _type_of(name), int(answer["bytes"]), vendor)
    except (KeyError, TypeError, ValueError, AttributeError):
        message = f"the response of {vendor} does not describe a file"
        raise UPPError(message, ErrorCode.INVALID_RESPONSE, provider=vendor) from None


_set_public_module(__name__, globals())

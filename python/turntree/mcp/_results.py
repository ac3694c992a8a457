"""Results of MCP tools: what the model reads of them, and what our tools return as results."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Collection
from typing import Any, Literal, cast

from turntree._core import Audio, Binary, Document, Image, Text, Video

Medium = Literal["image", "document", "audio", "video"]

# The kinds of media that a model can get.
MEDIA: tuple[Medium, ...] = ("image", "document", "audio", "video")

# Media types of texts that are sent as binary data.
_TEXTS = ("application/json", "application/xml", "application/yaml")

_ANY_TYPE = "application/octet-stream"


def value_of(result: dict[str, Any], media: Collection[str]) -> Any:
    """Return what the model reads of a result: the structured content if there is some, else the texts; and the media.

    Args:
        result: The members of ``CallToolResult``.
        media: The kinds of media that the model gets. A text names the others.
    """
    structured = result.get("structuredContent")
    content: list[dict[str, Any]] = result.get("content") or []
    parts = [_part(block, media) for block in content]
    blocks = [part for part in parts if not isinstance(part, str)]
    if structured is None:
        return parts[0] if len(parts) == 1 else parts if blocks else "\n".join(parts)
    if not blocks:
        return structured
    # Some servers repeat the media in the structured content, as base64.
    text = json.dumps(structured)
    is_repeated = any(data in text for block in content if (data := _data(block)))
    return parts if is_repeated else [structured, *blocks]


def text_of(result: dict[str, Any]) -> str:
    """Return the text of a result that is an error: media are named in it."""
    value = value_of(result, ())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _data(block: dict[str, Any]) -> str:
    if block.get("type") == "resource":
        return str(block["resource"].get("blob") or "")
    return str(block.get("data") or "")


def _part(block: dict[str, Any], media: Collection[str]) -> Any:
    """Return a text or a media block for one content block."""
    kind = block.get("type")
    if kind == "text":
        return str(block["text"])
    if kind == "resource_link":
        return _link(block)
    if kind == "resource":
        return _resource(block["resource"], media)
    return _medium(_data(block), block.get("mimeType"), media) or _named(str(kind), block)


def _link(block: dict[str, Any]) -> str:
    facts = [block.get("title") or block.get("name"), block.get("mimeType"), block.get("description")]
    return f"[resource {block.get('uri')}: {', '.join(str(fact) for fact in facts if fact)}]"


def _resource(resource: dict[str, Any], media: Collection[str]) -> Any:
    """Return an embedded resource: its text, its medium, or its name."""
    text, media_type = resource.get("text"), str(resource.get("mimeType") or _ANY_TYPE)
    if text is not None:
        return str(text)
    data = str(resource.get("blob") or "")
    if media_type.startswith("text/") or media_type in _TEXTS:
        try:
            return base64.b64decode(data, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return _named(f"resource {resource.get('uri')}", resource)
    return _medium(data, media_type, media) or _named(f"resource {resource.get('uri')}", resource)


def _medium(data: str, media_type: Any, media: Collection[str]) -> Any:
    """Return the block of a medium; None if the model does not get it, or the data are not valid."""
    family = str(media_type).partition("/")[0]
    kind = "document" if media_type == "application/pdf" else family
    makers: dict[str, Any] = {"image": Image, "document": Document, "audio": Audio, "video": Video}
    if not data or kind not in media or kind not in makers:
        return None
    try:
        return makers[kind].from_base64(data, media_type)
    except ValueError:
        return None


def _named(what: str, block: dict[str, Any]) -> str:
    data = str(block.get("data") or block.get("blob") or "")
    size = len(data) * 3 // 4 - data[-2:].count("=")
    return f"[{what}, {block.get('mimeType')}, {size} bytes]"


def result_of(value: Any, *, is_error: bool) -> dict[str, Any]:
    """Return the members of ``CallToolResult`` for what a tool of ours has returned.

    Media become blocks of MCP. A dict is also the structured content.
    """
    items: list[Any] = [*cast("list[Any]", value)] if isinstance(value, (list, tuple)) else [value]
    if any(isinstance(item, (Image, Document, Audio, Video, Binary)) for item in items):
        return {"content": [_block(item) for item in items], "isError": is_error}
    if isinstance(value, str):
        return {"content": [_text(value)], "isError": is_error}
    from turntree._jsonable import to_jsonable

    plain = to_jsonable(value)
    result: dict[str, Any] = {"content": [_text(json.dumps(plain))], "isError": is_error}
    # Before protocol 2026-07-28, structured content is an object.
    if isinstance(plain, dict):
        result["structuredContent"] = plain
    return result


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _block(item: Any) -> dict[str, Any]:
    """Return the content block of one item of a result with media."""
    if isinstance(item, str):
        return _text(item)
    if isinstance(item, Text):
        return _text(item.text)
    if isinstance(item, Image):
        return _at_url(item, item.to_url()) if not item.has_data else _binary("image", item)
    if isinstance(item, Audio):
        return _binary("audio", item)
    if isinstance(item, Document):
        return _document(item)
    if isinstance(item, Video):
        return _embedded(item, item.type, blob=item.to_base64())
    if isinstance(item, Binary):
        return _embedded(item, item.type, blob=base64.b64encode(item.data).decode())
    from turntree._jsonable import to_jsonable

    return _text(json.dumps(to_jsonable(item)))


def _binary(kind: str, item: Image | Audio) -> dict[str, Any]:
    return {"type": kind, "data": item.to_base64(), "mimeType": item.mime_type}


def _document(item: Document) -> dict[str, Any]:
    source = item.source
    if source["type"] == "url":
        return _at_url(item, source["url"])
    if source["type"] == "text":
        return _embedded(item, item.title or "document", text=source["data"])
    return _embedded(item, item.title or "document", blob=item.to_base64())


def _at_url(item: Image | Document, url: str) -> dict[str, Any]:
    name = url.rstrip("/").rpartition("/")[2] or url
    return {"type": "resource_link", "uri": url, "name": name, "mimeType": item.mime_type}


def _embedded(item: Document | Video | Binary, name: str, **content: str) -> dict[str, Any]:
    from urllib.parse import quote

    # A resource has an address. This one is of no server: the content is in the block.
    resource = {"uri": f"attachment:{quote(name)}", "mimeType": item.mime_type, **content}
    return {"type": "resource", "resource": resource}


__all__ = ["MEDIA", "result_of", "text_of", "value_of"]

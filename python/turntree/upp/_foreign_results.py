"""What tools of other libraries return, as results that every vendor takes: images and documents become media blocks.

Recognized by their attributes: no library is imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

# Members of the objects and dicts that stand for media, by what they hold.
_BYTES = ("base64", "data", "file_data")
_URLS = ("url", "image_url", "file_url")
# Members that only descriptions of media have.
_OWN = ("image_url", "file_data", "file_url")


def result_of_other_library(value: Any, *, dicts: bool) -> Any:
    """Return the result of a tool for the model. Values without media are returned as they are.

    Args:
        value: What the tool has returned.
        dicts: Whether the library describes media also by dicts.
    """
    if _is_of(value, "langchain") and getattr(value, "type", None) == "tool":
        # A `ToolMessage`. Its artifact is not for the model.
        value = value.content
    if getattr(value, "kind", None) == "tool-return":
        # `ToolReturn` of pydantic-ai. Its metadata are not for the model.
        more = getattr(value, "content", None)
        value = value.return_value
        if more is not None:
            first: list[Any] = [*cast("list[Any]", value)] if isinstance(value, (list, tuple)) else [value]
            value = [*first, *([more] if isinstance(more, str) else more)]
    if isinstance(value, (list, tuple)):
        items = cast("Sequence[Any]", value)
        converted: list[Any] = [_part(item) if dicts or not _is_dict(item) else item for item in items]
        is_same = all(converted[place] is item for place, item in enumerate(items))
        return cast("Any", items) if is_same else converted
    return value if _is_dict(value) and not (dicts and _first(value, _OWN)) else _part(value)


def _is_dict(value: Any) -> bool:
    return isinstance(value, dict)


def _is_of(value: Any, library: str) -> bool:
    return type(value).__module__.startswith(library)


def _part(value: Any) -> Any:
    """Return a text or a media block for one part of a result; other values as they are."""
    kind = _member(value, "kind") or _member(value, "type")
    if not isinstance(kind, str):
        return value
    if kind == "text" and isinstance(text := _member(value, "text"), str):
        return text
    if kind in ("binary", "image-url", "document-url", "image_url", "image", "file"):
        return _media(value)
    if kind in ("audio-url", "video-url"):
        return f"[{kind.removesuffix('-url')}: {value.url}]"
    return value


def _member(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).get(name)
    return getattr(value, name, None)


def _first(value: Any, names: tuple[str, ...]) -> Any:
    return next((found for name in names if (found := _member(value, name)) is not None), None)


def _media(value: Any) -> Any:
    """Return the block of an image or a document; a text that names what no vendor takes as a result."""
    from turntree._core import Document, Image

    media_type: Any = _first(value, ("media_type", "mime_type", "mimeType"))
    data, url = _first(value, _BYTES), _first(value, _URLS)
    if isinstance(url, dict):  # {"image_url": {"url": …}}
        url = cast("dict[str, Any]", url).get("url")
    if isinstance(data, str) and data.startswith("data:"):
        data, url = None, data
    if isinstance(url, str) and url.startswith("data:"):
        head, _, data = url.partition(",")
        media_type, url = head.removeprefix("data:").partition(";")[0], None
    is_image = str(media_type).startswith("image/") if media_type else _is_of_image(value)
    if isinstance(data, (str, bytes)) and media_type:
        is_document = media_type in ("application/pdf", "text/plain")
        if not is_image and not is_document:
            size = len(data) * 3 // 4 if isinstance(data, str) else len(data)
            return f"[{media_type}, {size} bytes]"
        kind: Any = Image if is_image else Document
        return (kind.from_base64 if isinstance(data, str) else kind.from_bytes)(data, media_type)
    if isinstance(url, str) and (is_image or _member(value, "kind") == "document-url" or _first(value, _OWN)):
        return Image.from_url(url) if is_image else Document.from_url(url)
    return value


def _is_of_image(value: Any) -> bool:
    kind = _member(value, "kind") or _member(value, "type")
    return kind in ("image", "image_url", "image-url")

"""Content blocks of LangChain and OpenAI messages as blocks of turntree.

Spec: UPP-1.2 §3
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, cast

from turntree import _core

if TYPE_CHECKING:
    from collections import Counter

TOOL_CALL_BLOCKS = frozenset({"tool_use", "tool_call", "tool_call_chunk", "function_call", "input_json_delta"})
"""Blocks of assistant messages that repeat what their tool calls say."""

_TEXT = frozenset({"text", "input_text", "output_text", "summary_text", "reasoning_text"})
_AUDIO_FORMATS = {"wav": "audio/wav", "mp3": "audio/mpeg"}


def blocks_of(content: Any, omitted: Counter[str]) -> list[dict[str, Any]]:
    """Return the content of a message as blocks.

    Args:
        content: A text, a block, or a list of both.
        omitted: Receives the counts of blocks that have no counterpart.
    """
    if content is None:
        return []
    items = cast("list[Any]", content) if isinstance(content, list) else [content]
    blocks: list[dict[str, Any]] = []
    for item in items:
        if isinstance(item, str):
            if item:
                blocks.append({"type": "text", "text": item})
            continue
        if not isinstance(item, dict):
            omitted["content block of an unknown form"] += 1
            continue
        blocks += _block(cast("dict[str, Any]", item), omitted)
    return blocks


def _block(item: dict[str, Any], omitted: Counter[str]) -> list[dict[str, Any]]:
    kind = str(item.get("type"))
    if kind in TOOL_CALL_BLOCKS:
        return []
    if kind in _TEXT and isinstance(item.get("text"), str):
        if item.get("annotations"):
            omitted["annotations of a text"] += 1
        return [{"type": "text", "text": item["text"]}] if item["text"] else []
    if kind == "refusal" and isinstance(item.get("refusal"), str):
        return [{"type": "text", "text": item["refusal"]}]
    if kind in ("reasoning", "thinking"):
        return _reasoning(item, omitted)
    media = _media(item)
    if media is None:
        omitted[f"content block {kind[:60]!r}"] += 1
        return []
    return [media]


def _reasoning(item: dict[str, Any], omitted: Counter[str]) -> list[dict[str, Any]]:
    if item.get("signature") or item.get("encrypted_content"):
        omitted["signature of reasoning"] += 1
    texts = [item.get("reasoning"), item.get("thinking")]
    for name in ("summary", "content"):
        parts = item.get(name)
        if isinstance(parts, list):
            listed = cast("list[Any]", parts)
            texts += [cast("dict[str, Any]", part).get("text") for part in listed if isinstance(part, dict)]
    return [{"type": "reasoning", "text": text} for text in texts if isinstance(text, str) and text]


def _media(item: dict[str, Any]) -> dict[str, Any] | None:
    """Return an image, a document, audio or video, or None if its data is not in the block."""
    kind = str(item.get("type", ""))
    found = _source(item)
    if found is None:
        return None
    data, url, mime = found
    kinds = ("image", "audio", "video", "file", "document")
    group = next((name for name in kinds if name in kind), None)
    if group == "file" and mime is not None and mime.partition("/")[0] in ("image", "audio", "video"):
        group = mime.partition("/")[0]
    try:
        return _block_of_data(group, data, mime) if data is not None else _block_of_url(group, cast("str", url))
    except (TypeError, ValueError):
        return None


def _block_of_data(group: str | None, data: str, mime: str | None) -> dict[str, Any] | None:
    raw = base64.b64decode(data, validate=True)
    if group == "image":
        return _core.Image.from_bytes(raw, mime or "image/png").to_dict()
    if group == "audio":
        return _core.Audio.from_bytes(raw, mime or "audio/wav").to_dict()
    if group == "video":
        return _core.Video.from_bytes(raw, mime or "video/mp4").to_dict()
    if group in ("file", "document"):
        if mime is not None and mime.startswith("text/"):
            return _core.Document.from_text(raw.decode()).to_dict()
        return _core.Document.from_base64(data, mime or "application/pdf").to_dict()
    return None


def _block_of_url(group: str | None, url: str) -> dict[str, Any] | None:
    if group == "image":
        return _core.Image.from_url(url).to_dict()
    return _core.Document.from_url(url).to_dict() if group in ("file", "document") else None


def _source(item: dict[str, Any]) -> tuple[str | None, str | None, str | None] | None:
    """Return the data in base64 or the URL, and the media type, of the forms that vendors and LangChain use."""
    for name in ("image_url", "input_audio", "file", "source"):
        inner = item.get(name)
        if isinstance(inner, dict):
            item = {**item, **cast("dict[str, Any]", inner)}
        elif isinstance(inner, str):
            item = {**item, "url": inner}
    mime = item.get("mime_type") or item.get("media_type") or _AUDIO_FORMATS.get(str(item.get("format")))
    mime = mime if isinstance(mime, str) else None
    for name in ("url", "file_url", "file_data", "base64", "data"):
        value = item.get(name)
        if not isinstance(value, str) or not value:
            continue
        if value.startswith("data:"):
            head, comma, data = value[5:].partition(",")
            if not comma or not head.endswith(";base64"):
                return None
            return data, None, head.removesuffix(";base64").partition(";")[0] or mime
        if name in ("url", "file_url"):
            return None, value, mime
        return value, None, mime
    return None


def is_plain(value: Any) -> bool:
    """Return whether a value is JSON."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def arguments_of(text: object) -> dict[str, Any] | None:
    """Return the arguments of a tool call that are JSON in a text, or None."""
    if isinstance(text, str):
        try:
            text = json.loads(text) if text.strip() else {}
        except (ValueError, RecursionError):
            return None
    return cast("dict[str, Any]", text) if isinstance(text, dict) and is_plain(text) else None

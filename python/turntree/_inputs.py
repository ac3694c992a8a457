"""Inputs and histories in the forms of other libraries: each error names what to write instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from turntree import _core

_PARTS = {
    "image_url": 'turntree.upp.Image.from_url("https://…")',
    "input_image": 'turntree.upp.Image.from_url("https://…")',
    "input_text": "the text itself",
    "output_text": "the text itself",
    "input_audio": "turntree.upp.Audio(data, mime_type)",
    "input_file": "turntree.upp.Document(data, mime_type)",
}


def checked_input(given: Any) -> Any:
    """Return the input of a run.

    Raises:
        TypeError: It has the form of another library.
    """
    if type(given) is str:
        return given
    remedy = _remedy(given)
    if remedy is not None:
        message = f"input {remedy}"
        raise TypeError(message)
    items = cast("list[object]", given) if type(given) is list else []
    for place, item in enumerate(items):
        if type(item) is not str and (remedy := _remedy(item)) is not None:
            message = f"input[{place}] {remedy}"
            raise TypeError(message)
    return cast("Any", given)


def checked_history(history: Any) -> Any:
    """Return the history of a run.

    Raises:
        TypeError: It has the form of another library.
    """
    if type(history) in (list, tuple):
        for place, item in enumerate(history):
            if not isinstance(item, _core.Message) and (remedy := _remedy(item)) is not None:
                message = f"history[{place}] {remedy}"
                raise TypeError(message)
        return history
    if hasattr(history, "tree") and hasattr(history, "agent"):
        message = "history is a Session, which keeps its history by itself; write await session.run(input)"
        raise TypeError(message)
    if hasattr(history, "cr_code"):
        message = f"history {_FORGOTTEN}"
        raise TypeError(message)
    return history


_FORGOTTEN = "is a coroutine: await it first"


def _remedy(value: Any) -> str | None:
    """Return what to write instead of a value of another library; None for other values."""
    if isinstance(value, Mapping):
        return _of_dict(cast("Mapping[str, Any]", value))
    if isinstance(value, tuple):
        return "is a tuple; write UserMessage(text) or AssistantMessage(text) of turntree.upp"
    if isinstance(value, _core.Turn):
        return "is a turn; write turn.text, or give its messages as the history: run(turn.messages, input)"
    if hasattr(value, "cr_code"):
        return _FORGOTTEN
    module = type(value).__module__
    if module.startswith("langchain"):
        return "is a message of LangChain; write UserMessage(text) or AssistantMessage(text) of turntree.upp"
    if module.startswith("pydantic_ai") and type(value).__name__.endswith(("Url", "Content")):
        return "is a content of Pydantic AI; write turntree.upp.Image, Document, Audio or Video"
    return None


def _of_dict(value: Mapping[str, Any]) -> str | None:
    if "messages" in value and "type" not in value:
        return "is a dict with messages; the earlier messages are the history: run(history, input)"
    if (part := _PARTS.get(str(value.get("type")))) is not None:
        return f"is a block in the form of OpenAI's API; write {part}"
    return None

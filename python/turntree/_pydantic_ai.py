"""Validation of histories by the installed pydantic-ai, which is imported on first use."""

from __future__ import annotations

import json
from typing import Any, cast


def canonicalize(history: str | bytes | bytearray) -> bytes:
    """Load a history with the installed pydantic-ai and dump it again.

    Names of old versions become current ones, missing members get their defaults, and unknown members are removed.
    pydantic-ai generates missing times and ids, which differ at each call.

    Args:
        history: The JSON of a history, of any version that the installed one supports.

    Returns:
        The output of ``ModelMessagesTypeAdapter.dump_json``.

    Raises:
        ImportError: pydantic-ai is not installed; install ``turntree[pydantic-ai]``.
        ValidationError: The installed version rejects the history; the message names the path.
    """
    from turntree._core import from_pydantic_ai

    adapter = _adapter()
    try:
        data = history.encode() if isinstance(history, str) else bytes(history)
        return cast("bytes", adapter.dump_json(adapter.validate_json(data)))
    except ValueError:
        # Building the messages one by one raises an error that names the path.
        from_pydantic_ai(history).to_pydantic_ai()
        raise


def _adapter() -> Any:
    try:
        from pydantic_ai.messages import ModelMessagesTypeAdapter
    except ImportError as error:
        raise ImportError('this needs pydantic-ai: pip install "turntree[pydantic-ai]"') from error
    return ModelMessagesTypeAdapter


def validation_errors(error: BaseException, text: bytes, index: int, default: str) -> list[dict[str, Any]]:
    """Return the errors of a message that pydantic-ai rejects, with paths in the whole history.

    Args:
        error: The exception for a list of one message.
        text: The JSON of this list.
        index: The index of the message in its history.
        default: The message if the exception has no details.
    """
    errors = getattr(error, "errors", None)
    details: list[dict[str, Any]] = []
    if callable(errors):
        document = json.loads(text)
        for entry in cast(
            "list[dict[str, Any]]", errors(include_url=False, include_context=False, include_input=False)
        ):
            loc = (index, *_location(document, entry)[1:])
            pointer = "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in loc)
            details.append({"loc": loc, "pointer": pointer, "type": "pydantic_ai", "msg": entry["msg"], "input": None})
    return details or [{"loc": (index,), "pointer": f"/{index}", "type": "pydantic_ai", "msg": default, "input": None}]


def _location(document: Any, entry: dict[str, Any]) -> tuple[int | str, ...]:
    """Return the steps of a pydantic location that exist in the document, without the names of classes in unions."""
    value, steps = document, cast("list[int | str]", [])
    loc = cast("tuple[int | str, ...]", entry["loc"])
    for number, step in enumerate(loc):
        if (isinstance(value, list) and isinstance(step, int) and step < len(cast("list[Any]", value))) or (
            isinstance(value, dict) and step in value
        ):
            steps.append(step)
            value = cast("Any", value)[step]
        elif entry["type"] == "missing" and number == len(loc) - 1:
            steps.append(step)
    return tuple(steps)

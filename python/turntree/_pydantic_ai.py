"""What only the installed pydantic-ai can say about a history; imported when it is asked."""

from __future__ import annotations

import json
from typing import Any, cast


def canonicalize(history: str | bytes | bytearray) -> bytes:
    """Give a history as the installed pydantic-ai would store it after loading: read and dumped once.

    Old spellings become new ones, missing members get their defaults, unknown members are gone. Times and ids that are
    missing are made up by pydantic-ai, each time anew.

    Args:
        history: The JSON of a history, of any version that the installed one reads.

    Returns:
        What ``ModelMessagesTypeAdapter.dump_json`` writes.

    Raises:
        ImportError: pydantic-ai is not installed; ``turntree[pydantic-ai]`` brings it.
        ValidationError: The installed version refuses the history; names the place.
    """
    from turntree._core import from_pydantic_ai

    adapter = _adapter()
    data = history.encode() if isinstance(history, str) else bytes(history)
    try:
        return cast("bytes", adapter.dump_json(adapter.validate_json(data)))
    except ValueError:
        # Building the messages one by one names the place of what is refused.
        from_pydantic_ai(history).to_pydantic_ai()
        raise


def _adapter() -> Any:
    try:
        from pydantic_ai.messages import ModelMessagesTypeAdapter
    except ImportError as error:
        raise ImportError('this needs pydantic-ai: pip install "turntree[pydantic-ai]"') from error
    return ModelMessagesTypeAdapter


def refusals(error: BaseException, text: bytes, place: int, said: str) -> list[dict[str, Any]]:
    """Name the places in a history that pydantic-ai refuses.

    Args:
        error: What it raised for a list of one message.
        text: That list.
        place: The place of the message in its history.
        said: What to say where nothing more is known.
    """
    errors = getattr(error, "errors", None)
    found: list[dict[str, Any]] = []
    if callable(errors):
        document = json.loads(text)
        for entry in cast(
            "list[dict[str, Any]]", errors(include_url=False, include_context=False, include_input=False)
        ):
            loc = (place, *_location(document, entry)[1:])
            pointer = "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in loc)
            found.append({"loc": loc, "pointer": pointer, "type": "pydantic_ai", "msg": entry["msg"], "input": None})
    return found or [{"loc": (place,), "pointer": f"/{place}", "type": "pydantic_ai", "msg": said, "input": None}]


def _location(document: Any, entry: dict[str, Any]) -> tuple[int | str, ...]:
    """The steps of a pydantic location that are steps in the document: not the names of classes in unions."""
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

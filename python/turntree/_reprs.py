"""Reprs of turns and messages."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from turntree import _core

if TYPE_CHECKING:
    from collections.abc import Callable

# Maximum number of characters of a text in a repr.
LONGEST = 60
# Maximum numbers of characters of a text and of entries of a list that rich shows.
_TEXT = 600
_ENTRIES = 100


def short(value: Any) -> str | None:
    """Return the repr of a value, or None."""
    parts = _PARTS.get(class_of(value))
    return None if parts is None else f"{type(value).__name__}({', '.join(parts(value))})"


def class_of(value: Any) -> type[Any]:
    """Return the class of a value."""
    return type(value)  # pyright: ignore[reportUnknownVariableType]


def quoted(text: str) -> str:
    """Return the beginning of a text as a literal on one line."""
    line = " ".join(text[: 4 * LONGEST].split())
    return repr(line if len(line) <= LONGEST and len(text) <= 4 * LONGEST else line[: LONGEST - 1] + "…")


def literal(value: Any, limit: int = 400) -> str:
    """Return the repr of a value, cut after the limit."""
    return shortened(repr(value), limit)


def shortened(text: str, limit: int = 400) -> str:
    """Return a text, cut after the limit."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def without_ends(value: Any, depth: int = 4) -> Any:
    """Return data with the beginnings of its texts and lists, for displays that shorten nothing."""
    kind = class_of(value)
    if kind is str or kind is bytes:
        end: Any = "…" if kind is str else b""
        return value if len(value) <= _TEXT else value[: _TEXT - 1] + end
    if kind not in (list, tuple, dict):
        return value
    if depth == 0:
        return "…"
    kept: list[Any] = list(islice(value.items() if kind is dict else value, _ENTRIES))
    missing = f"… {len(value) - _ENTRIES:,} more" if len(value) > _ENTRIES else None
    if kind is dict:
        shown = {without_ends(key): without_ends(item, depth - 1) for key, item in kept}
        return shown if missing is None else {**shown, missing: "…"}
    cut = [without_ends(item, depth - 1) for item in kept]
    return cut if missing is None else [*cut, missing]


def count(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 token``, ``2 tokens``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _turn(turn: _core.Turn[Any]) -> list[str]:
    parts = [quoted(turn.text)]
    calls = len(turn.tool_executions)
    if calls:
        parts.append(count(calls, "tool call"))
    return [*parts, count(turn.usage.total_tokens, "token")]


def _message(message: _core.Message) -> list[str]:
    texts = [quoted(message.text)] if message.text else []
    others: dict[str, int] = {}
    for block in message.content:
        if not isinstance(block, _core.Text):
            name = "other block" if isinstance(block, dict) else block.type.replace("_", " ")
            others[name] = others.get(name, 0) + 1
    return [*(texts or ([] if others else ["''"])), *(count(number, name) for name, number in others.items())]


def _assistant(message: _core.AssistantMessage) -> list[str]:
    calls = message.tool_calls or []
    parts = [part for part in _message(message) if part != "''" or not calls]
    return [*parts, count(len(calls), "tool call")] if calls else parts


def _results(message: _core.ToolResultMessage) -> list[str]:
    results = message.results
    failed = sum(result.is_error for result in results)
    return [count(len(results), "result") + (f", {failed} failed" if failed else "")]


_PARTS: dict[type[Any], Callable[[Any], list[str]]] = {
    _core.Turn: _turn,
    _core.UserMessage: _message,
    _core.AssistantMessage: _assistant,
    _core.ToolResultMessage: _results,
}

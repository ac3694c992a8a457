"""The parts of reprs: what notebooks and rich show of an object whose class has no display of its own.

They are read from the repr, so that what a repr hides, as a token, is hidden in the other displays too.
"""

from __future__ import annotations

import re
from typing import Any

from turntree._reprs import class_of, literal, shortened, without_ends

_OF_LIST: Any = vars(list)["__repr__"]
_OF_DICT: Any = vars(dict)["__repr__"]
# Characters of a repr that are read.
_LONGEST = 10_000
_CALL = re.compile(r"[\w.]*\((.*)\)", re.DOTALL)
_BRACKETED = re.compile(r"<[\w.]+:? (.*)>", re.DOTALL)
_STRUCT = re.compile(r"\w+ \{ (.*) \}", re.DOTALL)  # the repr of some native classes
_NAMED = re.compile(r"([^\W\d]\w*)(?:=|: )(.*)", re.DOTALL)
_SIGNS = re.compile(r"""\\.|['"()\[\]{}<>,]""", re.DOTALL)


class Written:
    """A value as a repr has it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def parts_of(value: Any) -> list[tuple[str | None, Any]]:
    """Return the parts of the repr of an object: names, or None, and values. Long texts and lists are cut."""
    kind: Any = class_of(value)
    written = kind.__repr__
    if written is object.__repr__:
        return []
    if written is _OF_LIST:
        return [(None, item) for item in _shown(list(value))]
    if written is _OF_DICT:
        return [_entry(key, item) for key, item in _shown(dict(value)).items()]
    if getattr(written, "__module__", None) == "rich.repr":  # `rich.repr.auto`, which asks for these parts
        return [(name, _shown(item)) for name, item in getattr(value, "__dict__", {}).items() if name[0] != "_"]
    names = _generated(value)
    if names is not None:
        return [(name, _shown(getattr(value, name))) for name in names]
    text = shortened(repr(value), _LONGEST)
    if text == kind.__name__:
        return []
    if bracketed := _BRACKETED.fullmatch(text):
        return [(None, Written(bracketed[1]))]
    call = _CALL.fullmatch(text) or _STRUCT.fullmatch(text)
    return [_part(part) for part in _split(call[1])] if call else [(None, Written(text))]


def _generated(value: Any) -> list[str] | None:
    """Return the names in the repr that Python generates for a NamedTuple or dataclass; None for another repr."""
    kind: Any = class_of(value)
    written = kind.__repr__
    if getattr(written, "__module__", None) == "collections":
        return list(kind._fields)
    # That of a dataclass is wrapped.
    if hasattr(written, "__wrapped__") and isinstance(getattr(kind, "__dataclass_fields__", None), dict):
        import dataclasses

        return [field.name for field in dataclasses.fields(value) if field.repr]
    return None


def literal_of(part: Any, limit: int) -> str:
    """Return a part as text. A generated repr, which cuts nothing, is not called."""
    names = _generated(part)
    if names is None:
        return literal(part, limit)
    members = ", ".join(f"{name}={literal(without_ends(getattr(part, name)), limit)}" for name in names)
    return f"{type(part).__name__}({members})"


def _shown(value: Any) -> Any:
    """Return a value that rich can print as it is: it cuts neither texts nor the reprs of other classes."""
    kind = class_of(value)
    if kind in (str, bytes, list, tuple, dict):
        return without_ends(value)
    if value is None or kind in (bool, int, float):
        return value
    return value if hasattr(kind, "__rich_repr__") else Written(literal(value, _LONGEST))


def _entry(key: object, item: Any) -> tuple[str, Any]:
    # rich prints names as they are.
    return (key if isinstance(key, str) and key.isidentifier() else repr(key)), item


def _part(text: str) -> tuple[str | None, Written]:
    named = _NAMED.fullmatch(text)
    return (named[1], Written(named[2])) if named else (None, Written(text))


def _split(text: str) -> list[str]:
    """Return the arguments of a call. If brackets or quotes are not closed, as in a text that is cut, it is one."""
    parts: list[str] = []
    begin, depth, quote = 0, 0, ""
    for sign in _SIGNS.finditer(text):
        letter = sign[0]
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "([{<":
            depth += 1
        elif letter in ")]}>":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[begin : sign.start()].strip())
            begin = sign.end()
    if depth or quote:
        return [text]
    last = text[begin:].strip()
    return [*parts, last] if last else parts

"""The parts of reprs: what notebooks and rich show of an object whose class has no display of its own.

They are read from the repr, so that what a repr hides, as a token, is hidden in the other displays too.
"""

from __future__ import annotations

import re
from typing import Any

from turntree._reprs import class_of, shortened, without_ends

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
    found = _of_generated(value)
    if found is not None:
        return found
    text = shortened(repr(value), _LONGEST)
    if bracketed := _BRACKETED.fullmatch(text):
        return [(None, Written(bracketed[1]))]
    if text == class_of(value).__name__:
        return []
    call = _CALL.fullmatch(text) or _STRUCT.fullmatch(text)
    return [_part(part) for part in _split(call[1])] if call else [(None, Written(text))]


def _of_generated(value: Any) -> list[tuple[str | None, Any]] | None:
    """Return the parts of a repr that Python has generated, which cuts nothing; None for a written one."""
    kind: Any = class_of(value)
    written = kind.__repr__
    if written is object.__repr__:
        return []
    if written is list.__repr__:
        return [(None, item) for item in without_ends(list(value))]
    if written is dict.__repr__:
        return [_entry(key, item) for key, item in without_ends(dict(value)).items()]
    # Those of a NamedTuple and of a dataclass.
    if getattr(written, "__module__", None) == "collections":
        return [(name, without_ends(getattr(value, name))) for name in kind._fields]
    if hasattr(written, "__wrapped__") and isinstance(getattr(kind, "__dataclass_fields__", None), dict):
        import dataclasses

        fields = dataclasses.fields(value)
        return [(field.name, without_ends(getattr(value, field.name))) for field in fields if field.repr]
    return None


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

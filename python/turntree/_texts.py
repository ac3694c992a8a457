"""Texts that UTF-8 can represent: the rule of the native module, for texts that only Python reads."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

__all__ = ["check_path", "encoded"]


def encoded(text: str, argument: str) -> bytes:
    """Return a text as UTF-8.

    Args:
        text: The text.
        argument: The name of the argument, for the error.

    Raises:
        ValidationError: The text has a lone surrogate.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise _refusal(error, argument) from None


def check_path(path: str | os.PathLike[str], argument: str) -> None:
    """Refuse a path that the file system cannot have. Names that are not UTF-8 have surrogates that it can.

    Raises:
        ValidationError: The path has another lone surrogate.
    """
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise _refusal(error, argument) from None


def _refusal(error: UnicodeEncodeError, argument: str) -> ValueError:
    exceptions: Any = import_module("turntree.exceptions")  # which is of a higher layer
    rule = f"the character at index {error.start} is a lone surrogate"
    message = f'{rule}; JSON is UTF-8: decode the source with errors="replace"'
    error_type: type[ValueError] = exceptions.ValidationError
    return error_type(
        f"{argument}: {message}", [{"loc": (), "pointer": "", "type": "invalid_utf8", "msg": message, "input": None}]
    )


def json_problem(error: ValueError) -> str:
    """What is wrong with a JSON text, in a line, from the error of `json.loads`."""
    import json

    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    if not error.doc.strip():
        return "it is empty"
    place = f"character {error.colno}" if "\n" not in error.doc.strip() else f"line {error.lineno}"
    return f"{error.msg[:1].lower()}{error.msg[1:]}, at {place}"

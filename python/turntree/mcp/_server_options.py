"""Checks of the options of `stdio`, `http` and `sse`, where they are given and not when the first run connects."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from turntree._core import ModelReference
from turntree._texts import check_path, encoded
from turntree.mcp._results import MEDIA


def check_text(option: str, text: object) -> str:
    """Return a text.

    Raises:
        TypeError: It is not a str.
    """
    if isinstance(text, str):
        return text
    message = f"{option} must be a str, not {type(text).__name__}"
    raise TypeError(message)


def check_texts(option: str, texts: object) -> dict[str, str]:
    """Return a dict of texts; empty for None.

    Raises:
        TypeError: It is not a dict, or has something else than texts.
    """
    if texts is None:
        return {}
    if not isinstance(texts, Mapping):
        message = f"{option} must be a dict, not {type(texts).__name__}"
        raise TypeError(message)
    given = cast("Mapping[object, object]", texts)
    return {check_text(f"a name in {option}", name): check_text(f"{option}[{name!r}]", given[name]) for name in given}


def check_auth(auth: object) -> None:
    """Raise TypeError if `auth` is neither a token nor a function."""
    if auth is not None and not isinstance(auth, str) and not callable(auth):
        message = f"auth must be a token, a function that returns one, or mcp.oauth(url), not {type(auth).__name__}"
        raise TypeError(message)


def timeout_of(timeout: Any) -> float | None:
    """Return the seconds; None for no limit.

    Raises:
        TypeError: It is not a number.
        ValueError: It is not greater than 0.
    """
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        message = f"timeout must be a number of seconds or None, not {type(timeout).__name__}"
        raise TypeError(message)
    try:
        seconds = float(timeout)
    except OverflowError:
        message = "timeout is too large; write timeout=None for no limit"
        raise ValueError(message) from None
    if not seconds > 0:
        message = f"timeout must be a number of seconds greater than 0, not {timeout}"
        raise ValueError(message)
    return seconds


def names_of(option: str, names: Any) -> set[str] | None:
    """Return the names of tools; None for None.

    Raises:
        TypeError: It is not a list of texts.
    """
    if names is None:
        return None
    return {
        check_text(f"{option}[{index}]", name) for index, name in enumerate(_listed(option, "names of tools", names))
    }


def roots_of(roots: Any) -> list[dict[str, str]]:
    """Return the folders as MCP has them.

    Raises:
        TypeError: It is not a list of folders.
    """
    return [_root(path) for path in _listed("roots", "folders", roots)]


def media_of(kinds: Any) -> tuple[str, ...]:
    """Return the kinds of media.

    Raises:
        TypeError: It is not a list.
        ValueError: A kind is unknown.
    """
    known = tuple(_listed("media", "kinds of media", kinds))
    unknown = [kind for kind in known if kind not in MEDIA]
    if unknown:
        message = f"media: unknown kind {unknown[0]!r}; the kinds are {', '.join(MEDIA)}"
        raise ValueError(message)
    return known


def check_answers(on_elicitation: object, on_sampling: object) -> None:
    """Raise TypeError if the server's questions could not be answered with these."""
    if on_elicitation is not None and on_elicitation != "approval" and not callable(on_elicitation):
        found = repr(on_elicitation) if isinstance(on_elicitation, str) else type(on_elicitation).__name__
        message = f'on_elicitation must be a function or "approval", not {found}'
        raise TypeError(message)
    if on_sampling is not None and not isinstance(on_sampling, ModelReference) and not callable(on_sampling):
        message = (
            f'on_sampling must be a model, such as openai("gpt-5") of turntree.models, or a function, not '
            f"{type(on_sampling).__name__}"
        )
        raise TypeError(message)


def _listed(option: str, what: str, values: Any) -> Iterable[Any]:
    if isinstance(values, (str, bytes, os.PathLike)):
        message = f"{option} must be a list of {what}; write {option}=[{values!r}]"
        raise TypeError(message)
    if not isinstance(values, Iterable):
        message = f"{option} must be a list of {what}, not {type(values).__name__}"
        raise TypeError(message)
    return cast("Iterable[Any]", values)


def _root(path: str | os.PathLike[str]) -> dict[str, str]:
    text = os.fspath(path)
    if "://" in text:
        encoded(text, "roots")
        return {"uri": text}
    check_path(text, "roots")
    return {"uri": Path(text).absolute().as_uri()}

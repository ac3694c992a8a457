"""Objects that are pickled by the function that creates them and its arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

from turntree._core import Replay

Recipe: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]

# Headers that hold no secret. The value of any other header may be one.
_PLAIN_HEADERS = frozenset(
    {
        *("accept", "accept-language", "user-agent", "http-referer", "referer", "x-title"),
        *("anthropic-beta", "anthropic-version", "openai-beta"),
    }
)
_SECRET_QUERY = re.compile(r"[?&](api[-_]?key|key|(access[-_]?)?token|sig(nature)?|code)=", re.IGNORECASE)


def is_secret_url(url: object) -> bool:
    """Return whether a URL has a user, or a key in its query."""
    return url is not None and ("@" in str(url) or _SECRET_QUERY.search(str(url)) is not None)


def shown_url(url: str) -> str:
    """Return a URL for reprs and messages: without its user, and without a query that may hold a key."""
    shown = re.sub(r"^([\w+.-]+://)[^/?#]*@", r"\1", url)
    return f"{shown.partition('?')[0]}?…" if "?" in shown and is_secret_url(shown) else shown


def has_secret_header(headers: object) -> bool:
    """Return whether headers may hold a secret, as may an object that is no mapping."""
    if not isinstance(headers, Mapping):
        return headers is not None
    return any(str(name).lower() not in _PLAIN_HEADERS for name in cast("Mapping[Any, Any]", headers))


def without_key(settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return connection settings without the key, which is not sent to another process; None if others are secret."""
    rest = {name: value for name, value in settings.items() if name != "api_key"}
    is_secret = (
        isinstance(rest.get("transport"), Replay)
        or rest.get("auth") is not None
        or has_secret_header(rest.get("headers"))
        or is_secret_url(rest.get("base_url"))
        or is_secret_url(rest.get("proxy"))
    )
    return None if is_secret else rest


def portable_config(config: object) -> dict[str, Any] | None:
    """Return the ``config`` of an agent without its key.

    Raises:
        TypeError: It is a `ProviderConfig`, or another setting is secret.
    """
    if config is None:
        return None
    rest = without_key(cast("Mapping[str, Any]", config)) if isinstance(config, Mapping) else None
    if rest is None:
        message = (
            "the agent cannot be pickled: its config= holds a secret, or is a ProviderConfig, which can hold one. "
            "Pass a dict, or give the options to the function of the model"
        )
        raise TypeError(message)
    return rest


def recipe(function: Callable[..., Any], *args: Any, **options: Any) -> Recipe:
    """Return what `__reduce__` returns for an object that a function creates from these arguments."""
    return _created, (function, args, options)


def _created(function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    return function(*args, **options)

"""Where and when a session is saved."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any, Literal, TypeVar, cast

from turntree import _core
from turntree._options import check_progress
from turntree.exceptions import CorruptDataError
from turntree.store import PersistenceAdapter, Store, from_url, memory

SaveInterval = Literal["turn", "step", "tool"]
T = TypeVar("T")


def store_of(persistence: PersistenceAdapter | str | None) -> PersistenceAdapter:
    """Return the store for the option `persistence`."""
    if persistence is None:
        return memory()
    return given_store(persistence)


def given_store(persistence: PersistenceAdapter | str) -> PersistenceAdapter:
    """Return the store that an argument names; it cannot be left out."""
    if persistence is None:  # pyright: ignore[reportUnnecessaryComparison]
        message = "store must have the methods save, load and delete, not be None"
        raise TypeError(message)
    if isinstance(persistence, str):
        return from_url(persistence)
    if isinstance(persistence, type) or (callable(persistence) and hasattr(persistence, "__name__")):
        name = cast("Any", persistence).__name__
        message = f"persistence must be a store, not the function or class {name}; call it: {name}(…)"
        raise TypeError(message)
    if isinstance(persistence, PathLike):
        message = f'persistence must be the URL of a store, not a path; write "sqlite:///{persistence}"'
        raise TypeError(message)
    missing = [name for name in ("save", "load", "delete") if not callable(getattr(persistence, name, None))]
    if missing:
        message = (
            f"persistence must be the URL of a store or have the methods save, load and delete; {missing[0]} is missing"
        )
        raise TypeError(message)
    return persistence


def save_interval_of(
    persistence: PersistenceAdapter | str | None, interval: SaveInterval | None
) -> SaveInterval | None:
    """Return the save interval; None if the caller gave no store."""
    if interval not in (None, "turn", "step", "tool"):
        message = f'save_interval must be "turn", "step" or "tool", not {interval!r}'
        raise ValueError(message)
    if persistence is None:
        return None
    return interval or _default_save_interval(persistence)


def _default_save_interval(store: PersistenceAdapter | str) -> SaveInterval:
    """Return "tool" for a store that saves only what is new, and "turn" for one that saves the whole session."""
    return "tool" if isinstance(store, (str, Store)) else "turn"


async def load_core(
    store: Store,
    id: str,
    agent: _core.AgentCore,
    interval: SaveInterval | None,
    progress: bool,  # noqa: FBT001
) -> _core.SessionCore | None:
    """Load a session from a store of turntree; `progress` shows a bar."""
    saves = save_interval_of(store, interval) or "tool"
    if not check_progress(progress):
        return await _core.SessionCore.load(store, id, agent, saves, None)
    from turntree._progress import watched

    with watched("entries") as counter:
        return await _core.SessionCore.load(store, id, agent, saves, counter)


async def call_store(method: Callable[..., Any], key: str) -> str | None:
    """Call a method of a store; a sync method runs in a thread, since it may block."""
    import asyncio
    import inspect

    if inspect.iscoroutinefunction(method):
        answer = await method(key)
    else:
        answer = await asyncio.to_thread(method, key)
        if inspect.isawaitable(answer):
            answer = await cast("Any", answer)
    if answer is not None and not isinstance(answer, (str, bytes)):
        message = f"load must return a str or None, not {type(answer).__name__}"
        raise CorruptDataError(message)
    return cast("str | None", answer)


_LARGE = 64 * 1024
"""A stored session of this many characters or more is parsed in a thread."""


async def parse(read: Callable[..., T], data: str, *arguments: object) -> T:
    """Call a function with the text of a session; with a large text in a thread, so that the event loop stays free."""
    if len(data) < _LARGE:
        return read(data, *arguments)
    import asyncio

    return await asyncio.to_thread(read, data, *arguments)

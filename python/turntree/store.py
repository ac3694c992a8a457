"""Stores: where sessions are kept.

Any object with ``save(key, data)``, ``load(key)`` and ``delete(key)`` is one, sync or async.

Spec: UAP-1.0 §14.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable

__all__ = ["MemoryStore", "PersistenceAdapter", "memory"]


class PersistenceAdapter(Protocol):
    """What a store has to have. Each method may be sync or async; sync ones are called in a thread."""

    def save(self, key: str, data: str, /) -> Awaitable[object] | object:
        """Keep a text under a key, in place of what was there."""

    def load(self, key: str, /) -> Awaitable[str | None] | str | None:
        """Give what is kept under a key; None when there is nothing."""

    def delete(self, key: str, /) -> Awaitable[object] | object:
        """Take away what is kept under a key; nothing there is no error."""


class MemoryStore:
    """The store that `memory` makes."""

    __slots__ = ("_texts",)

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    async def save(self, key: str, data: str, /) -> None:
        """Keep a text under a key, in place of what was there."""
        self._texts[key] = data

    async def load(self, key: str, /) -> str | None:
        """Give what is kept under a key; None when there is nothing."""
        return self._texts.get(key)

    async def delete(self, key: str, /) -> None:
        """Take away what is kept under a key; nothing there is no error."""
        self._texts.pop(key, None)

    def __len__(self) -> int:
        return len(self._texts)

    def __repr__(self) -> str:
        return f"MemoryStore({len(self._texts)} kept)"


def memory() -> MemoryStore:
    """Make a store that keeps texts in this process, and forgets them with it."""
    return MemoryStore()

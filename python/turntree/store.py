"""Stores of sessions.

A store is any object with the methods ``save(key, data)``, ``load(key)`` and ``delete(key)``, sync or async.

Spec: UAP-1.0 §14.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable

__all__ = ["MemoryStore", "PersistenceAdapter", "memory"]


class PersistenceAdapter(Protocol):
    """The interface of stores. Each method may be sync or async; sync methods are called in a thread."""

    def save(self, key: str, data: str, /) -> Awaitable[object] | object:
        """Store a text under a key. Replaces the previous text."""

    def load(self, key: str, /) -> Awaitable[str | None] | str | None:
        """Return the text under a key, or None."""

    def delete(self, key: str, /) -> Awaitable[object] | object:
        """Delete the text under a key. No effect if there is none."""


class MemoryStore:
    """The store that `memory` creates."""

    __slots__ = ("_texts",)

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    async def save(self, key: str, data: str, /) -> None:
        """Store a text under a key. Replaces the previous text."""
        self._texts[key] = data

    async def load(self, key: str, /) -> str | None:
        """Return the text under a key, or None."""
        return self._texts.get(key)

    async def delete(self, key: str, /) -> None:
        """Delete the text under a key. No effect if there is none."""
        self._texts.pop(key, None)

    def __len__(self) -> int:
        return len(self._texts)

    def __repr__(self) -> str:
        return f"MemoryStore({len(self._texts)} keys)"


def memory() -> MemoryStore:
    """Create a store in the memory of this process."""
    return MemoryStore()

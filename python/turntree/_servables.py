"""Which objects ``turntree serve`` serves, and how. Each protocol registers its kind of object when it is imported."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turntree._server import Server

__all__ = ["Servable", "find", "register"]

# The modules of the protocols, in the order in which they are asked.
_PROTOCOLS = ("turntree.uaip", "turntree.uamp")


@dataclass(frozen=True)
class Servable:
    """A kind of object that a protocol serves.

    Attributes:
        name: The kind in messages, such as ``workflow``.
        accepts: Whether an object is of this kind.
        serve: Makes a server of objects; takes them by position, and the keywords ``host``, ``port`` and ``auth``.
    """

    name: str
    accepts: Callable[[Any], bool]
    serve: Callable[..., Server]


_kinds: list[Servable] = []


def register(kind: Servable) -> None:
    """Let ``turntree serve`` serve a kind of object."""
    _kinds.append(kind)


def find(objects: Sequence[Any]) -> Servable:
    """The kind of all ``objects``.

    Raises:
        TypeError: An object is of no kind that is known here, or the objects are of several kinds.
    """
    for module in _PROTOCOLS:
        importlib.import_module(module)
    found: list[Servable] = []
    for item in objects:
        kind = next((kind for kind in _kinds if kind.accepts(item)), None)
        if kind is None:
            known = " or ".join(kind.name for kind in _kinds)
            message = f"expected a {known}, got {type(item).__name__}"
            raise TypeError(message)
        found.append(kind)
    if len({kind.name for kind in found}) > 1:
        names = " and ".join(dict.fromkeys(kind.name for kind in found))
        message = f"one server serves objects of one kind, not {names}; start a server for each"
        raise TypeError(message)
    return found[0]

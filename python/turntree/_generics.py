"""The type variables of generic classes. Their defaults exist for type checkers only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    DepsT = TypeVar("DepsT", default=Any)
    DataT = TypeVar("DataT", default=Any)
    # Of class methods that return an object of the class: those of the class are `Any` in `Session.open(…)`.
    GivenDepsT = TypeVar("GivenDepsT", default=Any)
    GivenDataT = TypeVar("GivenDataT", default=Any)
else:
    from typing import TypeVar

    DepsT = TypeVar("DepsT")
    DataT = TypeVar("DataT")
    GivenDepsT = TypeVar("GivenDepsT")
    GivenDataT = TypeVar("GivenDataT")

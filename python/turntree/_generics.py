"""The type variables of generic classes. Their defaults exist for type checkers only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    DepsT = TypeVar("DepsT", default=Any)
    DataT = TypeVar("DataT", default=Any)
else:
    from typing import TypeVar

    DepsT = TypeVar("DepsT")
    DataT = TypeVar("DataT")

"""Type aliases and protocols that several modules use. Imported for type checkers only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from turntree import _core

Block = _core.Text | _core.Image | _core.Document | _core.Audio | _core.Video | _core.Binary
Input = str | _core.Message | Block | Mapping[str, Any] | list[Any]
History = _core.Thread | Iterable[_core.Message | Mapping[str, Any]]
ModelInput = str | _core.Message | Block | Mapping[str, Any]
ModelHistory = _core.Thread | Sequence[_core.Message | Mapping[str, Any]]


class Middleware(Protocol):
    """Wraps the runs of an agent: any object with a name and some of the hooks.

    Spec: UAP-1.0 §10.1.
    """

    @property
    def name(self) -> str:
        """Its name, shown in errors and logs."""
        ...

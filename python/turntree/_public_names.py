"""Sets `__module__` of public names to the public module, for reprs, tracebacks and pickles."""

from __future__ import annotations

from typing import Any


def set_public_module(module: str, namespace: dict[str, Any]) -> None:
    """Set ``__module__`` of each name in ``__all__`` that a private module defines to the public module."""
    for name in namespace["__all__"]:
        if "._" in getattr(namespace[name], "__module__", ""):
            namespace[name].__module__ = module

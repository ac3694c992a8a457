"""Where users find a public name, for reprs, tracebacks and pickles."""

from __future__ import annotations

from typing import Any


def set_public_module(module: str, namespace: dict[str, Any]) -> None:
    """Say of every name in ``__all__`` that a private module made that it lives in the public one."""
    for name in namespace["__all__"]:
        if "._" in getattr(namespace[name], "__module__", ""):
            namespace[name].__module__ = module

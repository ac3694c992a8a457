"""What people see of data classes. The native core calls this module, and imports it at the first display.

A function returns None for a class without a form of its own; the core then shows the members of the value.
"""

from __future__ import annotations

from typing import Any

from turntree import _reprs


def short(value: Any) -> str | None:
    """Return the repr of a value, or None."""
    return _reprs.short(value)


def html(value: Any) -> str | None:
    """Return a value as HTML, or None."""
    from turntree.notebook import _renderers

    return _renderers.html(value)


def markdown(value: Any) -> str | None:
    """Return a value as Markdown, or None."""
    from turntree.notebook import _renderers

    return _renderers.markdown(value)


def rich(value: Any) -> list[Any]:
    """Return the parts of a repr, as rich takes them: values, and pairs of a name and a value."""
    from turntree.notebook import _renderers

    return _renderers.rich(value)

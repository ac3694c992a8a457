"""What people see of data classes. The native core calls this module, and imports it at the first display.

A function returns None for a class without a form of its own; the core then shows the members of the value.
`parts` and `parts_html` show the objects of other classes.
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


def parts(value: Any) -> list[Any]:
    """Return the parts of the repr of an object that is no data, as rich takes them."""
    from turntree._repr_parts import parts_of

    return [part if name is None else (name, part) for name, part in parts_of(value)]


def parts_html(value: Any) -> str:
    """Return the parts of the repr of an object that is no data as HTML."""
    from turntree.notebook import _renderers

    return _renderers.parts_html(value)

"""Lets a notebook not show a turn twice: in the live display, and as the value of the cell."""

from __future__ import annotations

from typing import Any

from turntree import _core

# The turn that this cell has shown live, and the shell that was told.
_SHOWN: dict[str, Any] = {"turn": None}


def shown_live(shell: Any, turn: _core.Turn[Any]) -> None:
    """Show a turn as one line, if it is the value of this cell: its display is above."""
    formatters = shell.display_formatter.formatters
    if "shell" not in _SHOWN:
        for kind in ("text/html", "text/markdown"):
            formatters[kind].for_type(_core.Turn, _unless_shown(formatters[kind].for_type(_core.Turn), kind))
        shell.events.register("post_run_cell", _forget)
        _SHOWN["shell"] = shell
    _SHOWN["turn"] = turn


def _forget(*_: Any) -> None:
    _SHOWN["turn"] = None


def _unless_shown(previous: Any, kind: str) -> Any:
    method = "_repr_html_" if kind == "text/html" else "_repr_markdown_"

    def show(turn: Any) -> Any:
        if turn is _SHOWN["turn"]:
            return None
        return previous(turn) if previous is not None else getattr(turn, method)()

    return show

"""How notebooks show that a person has stopped a run: the lines of the cell, without the frames of turntree."""

from __future__ import annotations

import sys
from asyncio import CancelledError
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turntree._session_state import SessionState

HINT = "The run was stopped. Continue it: await session.resume()"


def shorten(error: BaseException) -> None:
    """Let IPython show a short traceback for an exception that is no error."""
    if "IPython" in sys.modules and not isinstance(error, Exception):
        # IPython calls this attribute of an exception, if it has one. A function that refers to the exception would
        # keep it, and the frames of its traceback, until the garbage is collected.
        vars(error)["_render_traceback_"] = _rendered


def _rendered() -> list[str]:
    """Return the traceback of the exception that IPython handles, up to the first frame of turntree."""
    error: Any = sys.exc_info()[1] or sys.last_value
    shell: Any = sys.modules["IPython"].get_ipython()
    lines: list[str] = shell.InteractiveTB.structured_traceback(type(error), error, _own_frames(error.__traceback__))
    return lines


def _own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """Return a copy of a traceback up to the first frame of turntree."""
    kept: list[TracebackType] = []
    while traceback is not None and not _is_ours(traceback):
        kept.append(traceback)
        traceback = traceback.tb_next
    own: TracebackType | None = None
    for entry in reversed(kept):
        own = TracebackType(own, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return own


def _is_ours(traceback: TracebackType) -> bool:
    module = traceback.tb_frame.f_globals.get("__name__")
    return isinstance(module, str) and module.partition(".")[0] == "turntree"


def note_left_loop(session: SessionState) -> None:
    """Print in a kernel how to continue, when the cell has ended that was stopped in the body of a loop."""
    shell: Any = sys.modules["IPython"].get_ipython()

    def tell(result: Any = None) -> None:
        shell.events.unregister("post_run_cell", tell)
        error = getattr(result, "error_in_exec", None)
        is_told = HINT in getattr(error, "__notes__", ())
        if isinstance(error, (KeyboardInterrupt, CancelledError)) and not is_told and session.is_unfinished:
            print(HINT, file=sys.stderr)

    shell.events.register("post_run_cell", tell)

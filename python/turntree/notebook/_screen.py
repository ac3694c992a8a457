"""Where a live run is shown: one display of a notebook that is updated in place, or plain text."""

from __future__ import annotations

import sys
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from turntree._reprs import count
from turntree.notebook._activity import Activity, arguments_of
from turntree.notebook._page import Page, one_line, plain, visible
from turntree.notebook._views import View

if TYPE_CHECKING:
    import asyncio

    from turntree import _core

# The least time between two updates of a display, in seconds: front ends redraw the whole output.
PACE = 0.1
# How often the clock of a silent run is updated, in seconds.
TICK = 1.0
# Turns before the current one that stay visible.
_KEPT = 20


def kernel_shell() -> Any:
    """Return the shell of IPython if it runs in a kernel, whose displays can be updated; else None."""
    module = sys.modules.get("IPython")
    shell = None if module is None else module.get_ipython()
    return shell if getattr(shell, "kernel", None) is not None else None


class Screen(Protocol):
    """Shows one run after another."""

    def begin(self, activity: Activity, loop: asyncio.AbstractEventLoop) -> None:
        """Show a run that begins."""
        ...

    def add(self, event: _core.AgentStreamEvent) -> None:
        """Show that the activity has changed by an event."""
        ...

    def settled(self) -> float:
        """Return in how many seconds the end may be shown."""
        ...

    def end(self, turn: _core.Turn[Any] | None, note: str) -> None:
        """Show the end of a run: its turn, or why it has none and what to do."""
        ...


class NotebookScreen:
    """One display of a notebook. It is updated at most ten times a second."""

    def __init__(self) -> None:
        shown: Any = import_module("IPython.display")
        self._display: Any = shown.display
        self._handle: Any = None
        self._activity = Activity()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._painted = 0.0
        self._before: list[str] = []

    def begin(self, activity: Activity, loop: asyncio.AbstractEventLoop) -> None:
        """Show a run that begins, below those before it."""
        self._activity, self._loop = activity, loop
        self._paint()

    def add(self, event: _core.AgentStreamEvent) -> None:
        """Update the display now, or when a tenth of a second has passed since the last update."""
        self._activity.add(event)
        left = self._painted + PACE - time.monotonic()
        if left <= 0:
            self._paint()
        else:
            self._plan(left)

    def settled(self) -> float:
        """Return in how many seconds the next update may come. None comes before `end`."""
        self._cancel()
        return self._painted + PACE - time.monotonic()

    def end(self, turn: _core.Turn[Any] | None, note: str) -> None:
        """Show the turn as a notebook shows a turn, or the activity with a note."""
        self._cancel()
        last: Any = turn
        if turn is None:
            page = Page()
            page.add(f'<p class="bad" role="alert">{page.line(note, 1_000)}</p>')
            last = View(f"{self._activity.html()}{page.html()}", f"{self._activity!r}\n{note}")
        self._update(last)
        self._before = [*self._before, last._repr_html_()][-_KEPT:]

    def _update(self, value: Any) -> None:
        shown = View("".join([*self._before, value._repr_html_()]), repr(value)) if self._before else value
        if self._handle is None:
            self._handle = self._display(shown, display_id=True)
        else:
            self._handle.update(shown)
        self._painted = time.monotonic()

    def _paint(self) -> None:
        self._cancel()
        self._update(View(self._activity.html(), repr(self._activity)))
        self._plan(TICK)

    def _plan(self, delay: float) -> None:
        if self._loop is None:
            return
        at = self._loop.time() + delay
        if self._timer is None or self._timer.when() > at:
            self._cancel()
            self._timer = self._loop.call_at(at, self._paint)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class PlainScreen:
    """Prints text as it comes, and a line for each tool call that begins or ends."""

    def __init__(self) -> None:
        self._activity = Activity()
        self._at_start = True

    def begin(self, activity: Activity, loop: asyncio.AbstractEventLoop) -> None:
        """Nothing is printed before the first event."""
        self._activity = activity

    def add(self, event: _core.AgentStreamEvent) -> None:
        """Print what an event adds."""
        self._activity.add(event)
        own = event.sub_agent is None
        if event.upp is not None and event.upp.type == "text_delta" and own:
            self._write(event.upp.delta["text"])
        elif event.upp is not None and event.upp.type == "tool_execution_end":
            delta: Any = event.upp.delta
            state = "failed" if delta["isError"] else "returned"
            self._line(f"[{delta['toolName']} {state} {one_line(plain(delta['result']), 100)}]")
        elif event.uap is not None and event.uap.type == "action" and own:
            for call in event.uap.data["toolCalls"]:
                self._line(f"[{call['toolName']}({arguments_of(call)})]")

    def settled(self) -> float:
        """Return zero: text is printed as it comes."""
        return 0.0

    def end(self, turn: _core.Turn[Any] | None, note: str) -> None:
        """Print tokens and time, or the note."""
        self._line(f"[{self._activity.facts()}]" if turn is not None else f"[{note}]")

    def _line(self, text: str) -> None:
        self._write(text if self._at_start else f"\n{text}")
        self._write("\n")

    def _write(self, text: str) -> None:
        """Print text; characters that control a terminal are shown by their number."""
        if text:
            print("".join(map(visible, text)), end="", flush=True)
            self._at_start = text.endswith("\n")


def failure_note(error: BaseException, target: object) -> str:
    """Return what is shown below a run that ended without a turn."""
    from turntree._session import Session
    from turntree.exceptions import ApprovalRequired

    if isinstance(error, ApprovalRequired):
        calls = ", ".join(call.tool_name for call in error.calls)
        return (
            f"{count(len(error.calls), 'call')} waiting for approval: {calls}. Write session.approve_all() or "
            "session.deny_all(), then await session.resume()"
        )
    remedy = ""
    if isinstance(target, Session) and target.is_unfinished:
        remedy = ". Write await session.resume() to continue"
    if isinstance(error, Exception):
        return f"failed: {type(error).__name__}: {one_line(str(error), 500)}{remedy}"
    return f"stopped{remedy}"

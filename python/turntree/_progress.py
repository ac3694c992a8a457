"""A bar for work with many parts: of tqdm or rich if one of them is installed, else a line on a terminal."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from contextvars import copy_context
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

from turntree._core import StoreProgress
from turntree._typing import Self

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

# The least time between two drawings of the line, in seconds.
_PACE = 0.1


class Drawing(Protocol):
    """Where a bar is drawn."""

    def draw(self, done: int, facts: str) -> None:
        """Draw how many parts are done, and the facts."""
        ...

    def close(self) -> None:
        """Draw for the last time."""
        ...


class Tokens:
    """Counts the ended runs of a `map`: rate, tokens, cost and errors; and draws them."""

    __slots__ = ("_drawing", "_open", "began", "cost", "done", "errors", "tokens")

    def __init__(self, total: int | None, what: str = "runs") -> None:
        self.done = self.tokens = self.errors = 0
        self.cost = 0.0
        self._open = True
        self._drawing = drawing(total, what)
        # After the import of tqdm or rich, which takes up to 0.1 s.
        self.began = time.monotonic()
        self._drawing.draw(0, self.facts())

    def ended(self, outcome: Any) -> None:
        """Count a turn, or the exception of a run that failed."""
        self.done += 1
        if isinstance(outcome, BaseException):
            self.errors += 1
        else:
            self.tokens += outcome.usage.total_tokens
            self.cost += outcome.usage.cost or 0.0
        self._drawing.draw(self.done, self.facts())

    def facts(self) -> str:
        """Return rate, tokens, cost and errors on one line."""
        rate = self.done / max(time.monotonic() - self.began, 1e-6)
        parts = [f"{rate:.1f}/s", f"{self.tokens:,} tokens"]
        if self.cost:
            parts.append(f"${self.cost:.4f}")
        if self.errors:
            parts.append(f"{self.errors} error{'' if self.errors == 1 else 's'}")
        return " · ".join(parts)

    def close(self) -> None:
        """Remove the bar from the terminal's last line. A second call does nothing."""
        if self._open:
            self._open = False
            self._drawing.close()


def of_report(what: str = "documents") -> tuple[Callable[[Any], None], Callable[[], None]]:
    """Return a function that draws the `Report` of a conversion, and one that ends the drawing."""
    shown, began = drawing(None, what), time.monotonic()

    def draw(report: Any) -> None:
        seconds = max(time.monotonic() - began, 1e-6)
        facts = f"{report.documents / seconds:,.0f}/s · {report.bytes_in / 1e6 / seconds:.1f} MB/s"
        if report.failed:
            facts += f" · {report.failed} failed"
        shown.draw(report.documents, facts)

    return draw, shown.close


class Watch:
    """Draws what a native operation counts, from a thread: the operation may keep the event loop.

    Args:
        counter: What is counted.
        what: The name of the parts.
    """

    def __init__(self, counter: StoreProgress, what: str) -> None:
        self._counter = counter
        self._what = what
        self._ended = threading.Event()
        # The context of the caller: what a kernel shows below the cell that runs.
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._follow,), name="turntree-progress", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _follow(self) -> None:
        began, shown = time.monotonic(), None
        running = True
        while running:
            running = not self._ended.wait(_PACE)
            done, total = self._counter.done, self._counter.total
            if shown is None and total:
                shown = drawing(total, self._what)
            if shown is not None:
                shown.draw(done, f"{done / max(time.monotonic() - began, 1e-6):,.0f}/s")
        if shown is not None:
            shown.close()


@contextmanager
def watched(what: str) -> Generator[StoreProgress]:
    """Return a counter, and show a bar of it until the context ends."""
    counter = StoreProgress()
    with Watch(counter, what):
        yield counter


def drawing(total: int | None, what: str) -> Drawing:
    """Return a bar of tqdm or rich, if it is installed; else a line, if standard error is a terminal or a notebook."""
    if find_spec("tqdm") is not None:
        return _Tqdm(total, what)
    if find_spec("rich") is not None:
        return _Rich(total, what)
    return _Line(total, what)


class _Tqdm:
    """A bar of tqdm. Its form for notebooks needs ipywidgets."""

    def __init__(self, total: int | None, what: str) -> None:
        module: Any = import_module("tqdm.auto" if find_spec("ipywidgets") is not None else "tqdm.std")
        self._bar: Any = module.tqdm(total=total, unit=f" {what}")

    def draw(self, done: int, facts: str) -> None:
        self._bar.set_postfix_str(facts, refresh=False)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        self._bar.close()


class _Rich:
    """A bar of rich, on standard error."""

    def __init__(self, total: int | None, what: str) -> None:
        module: Any = import_module("rich.progress")
        console: Any = import_module("rich.console").Console(stderr=True)
        counted = "{task.completed:,} of {task.total:,}" if total is not None else "{task.completed:,}"
        columns = (module.BarColumn(), f"{counted} {what}", "{task.fields[facts]}", module.TimeRemainingColumn())
        self._progress: Any = module.Progress(*columns, console=console)
        self._task: Any = self._progress.add_task(what, total=total, facts="")
        self._progress.start()

    def draw(self, done: int, facts: str) -> None:
        self._progress.update(self._task, completed=done, facts=facts)

    def close(self) -> None:
        self._progress.stop()


class _Line:
    """One line on standard error that is drawn again."""

    def __init__(self, total: int | None, what: str) -> None:
        kernel = getattr(getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)(), "kernel", None)
        self._visible = sys.stderr.isatty() or kernel is not None
        self._total = total
        self._what = what
        self._at = 0.0
        self._text = self._drawn = ""

    def draw(self, done: int, facts: str) -> None:
        counted = f"{done:,}" if self._total is None else f"{done:,} of {self._total:,}"
        self._text = f"{counted} {self._what} · {facts}"
        if time.monotonic() - self._at >= _PACE:
            self._at = time.monotonic()
            self._write()

    def _write(self) -> None:
        if self._visible and self._text != self._drawn:
            sys.stderr.write("\r" + self._text.ljust(len(self._drawn)))
            sys.stderr.flush()
            self._drawn = self._text

    def close(self) -> None:
        self._write()
        if self._drawn:
            sys.stderr.write("\n")
            sys.stderr.flush()

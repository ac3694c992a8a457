"""Standard error: complaints, and a line of progress where somebody watches."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from turntree._core import DocumentIssue, Report


class CliError(Exception):
    """Ends the command with one sentence.

    Attributes:
        status: The exit status.
    """

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


def plain(text: str) -> str:
    """Text on one line, without what a terminal would obey: it may stand in the documents of strangers."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def complain(message: str) -> None:
    """Say on standard error what is wrong."""
    with suppress(OSError):  # nobody listens any more
        print(f"turntree: {plain(message)}", file=sys.stderr, flush=True)


def wants_colours(choice: str) -> bool:
    """Whether standard output is to be coloured."""
    if choice != "auto":
        return choice == "always"
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def counted(documents: int) -> str:
    """A number of documents in words."""
    return f"{documents} document{'' if documents == 1 else 's'}"


BAR = 20
"""How many characters the bar of progress has."""


class Progress:
    """One line on standard error that tells how far things are; nothing where nobody watches.

    Args:
        total: Bytes that will be read, or 0 where nobody knows.
        wanted: Whether to show it at all.
    """

    def __init__(self, total: int, *, wanted: bool = True) -> None:
        self.total = total
        self.shown = wanted and sys.stderr.isatty()
        self.before = [0, 0, 0]
        self.began = time.monotonic()
        self._last = 0.0
        self._width = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def __call__(self, report: Report) -> None:
        """Show where a conversion is."""
        now = time.monotonic()
        if not self.shown or now - self._last < 0.1:
            return
        self._last = now
        counts = (report.documents, report.failed, report.bytes_in)
        documents, failed, read = (before + now for before, now in zip(self.before, counts, strict=True))
        rate = read / 1e6 / max(now - self.began, 1e-6)
        parts = [counted(documents), f"{rate:.0f} MB/s"]
        if failed:
            parts.append(f"{failed} failed")
        if self.total:
            share = min(read / self.total, 1.0)
            parts.insert(0, f"{share:4.0%}")
            done = int(BAR * share)
            bar = f"[{'#' * done}{'.' * (BAR - done)}] "
            # Where there is no room for everything, the numbers say more than the bar.
            if len("  ".join(parts)) + len(bar) <= self._room():
                parts[0] = bar + parts[0]
        self._write("  ".join(parts))

    def add(self, report: Report) -> None:
        """Count a conversion that is over."""
        self.before = [
            self.before[0] + report.documents,
            self.before[1] + report.failed,
            self.before[2] + report.bytes_in,
        ]

    def issue(self, issue: DocumentIssue) -> None:
        """Say what is wrong with a document, above the line."""
        self.clear()
        complain(str(issue))

    def clear(self) -> None:
        """Take the line away."""
        if self._width:
            self._write("")

    def _write(self, text: str) -> None:
        # A line that is wider than the terminal would go on in the next one, and stay there.
        text = text[: self._room()]
        sys.stderr.write("\r" + text.ljust(self._width) + ("\r" if not text else ""))
        sys.stderr.flush()
        self._width = len(text)

    @staticmethod
    def _room() -> int:
        """How many characters go on a line of the terminal, which may change while one looks at it."""
        try:
            columns = os.get_terminal_size(sys.stderr.fileno()).columns
        except OSError:
            columns = 0
        return (columns or 80) - 1

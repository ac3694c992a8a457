"""Output to the terminal: errors and the progress line."""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType
    from typing import BinaryIO

    from typing_extensions import Self

    from turntree._core import DocumentIssue, Report


def use_utf8() -> None:
    """Let standard streams be UTF-8 where the locale has ASCII only (C, POSIX); in no locale, printing fails.

    A charset that the variable PYTHONIOENCODING names is not replaced.
    """
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper) or os.environ.get("PYTHONIOENCODING"):
            continue
        charset = codecs.lookup(stream.encoding).name
        if charset == "ascii":
            stream.reconfigure(encoding="utf-8")
        elif charset != "utf-8" and stream is sys.stdout:
            stream.reconfigure(errors="backslashreplace")  # as standard error


class CliError(Exception):
    """Ends the command with an error message.

    Attributes:
        status: The exit status.
    """

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


# Control characters of C0 and C1, marks that change the direction of writing, line separators, and lone surrogates.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_CONTROLS_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Return text as one line with control characters escaped: untrusted documents may contain terminal commands."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def printable_json(text: str) -> str:
    """Return JSON of the same value in which strings contain no control characters."""
    return _CONTROLS_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def print_json(value: object) -> None:
    """Print a value as one line of JSON; on a terminal, without control characters."""
    text = json.dumps(value, ensure_ascii=False)
    print(printable_json(text) if sys.stdout.isatty() else text)


def standard_output() -> BinaryIO | JsonTerminal:
    """Return standard output for JSON: a pipe or a file gets the bytes unchanged, a terminal gets escapes."""
    return JsonTerminal(sys.stdout.buffer) if sys.stdout.isatty() else sys.stdout.buffer


class JsonTerminal:
    """Writes JSON to a terminal, with control characters in its strings escaped."""

    def __init__(self, terminal: BinaryIO) -> None:
        self._terminal = terminal
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def write(self, data: bytes) -> int:
        """Write bytes of JSON, split anywhere."""
        self._terminal.write(printable_json(self._decode(bytes(data))).encode())
        return len(data)

    def flush(self) -> None:
        """Flush the terminal."""
        self._terminal.flush()


class _Output:
    """How this command writes messages."""

    as_json = False


def set_json(*, as_json: bool) -> None:
    """Set whether messages are written as JSON."""
    _Output.as_json = as_json


def is_json() -> bool:
    """Return True if messages are written as JSON."""
    return _Output.as_json


def print_error(message: str, status: int | None) -> None:
    """Print an error message to standard error: as text, or with ``--json`` as an object on one line.

    Args:
        message: The message.
        status: The exit status that the error gives to the command; None if it does not end with this error.
    """
    _print_message("error", message, {"status": status})


def print_note(message: str) -> None:
    """Print a message that is not an error to standard error, as `print_error` does."""
    _print_message("note", message, {})


def _print_message(kind: str, message: str, values: dict[str, object]) -> None:
    line = f"turntree: {printable(message)}"
    if _Output.as_json:
        # Lone surrogates, of names of files, have no UTF-8.
        text = "".join(printable(letter) if "\ud800" <= letter <= "\udfff" else letter for letter in message)
        line = printable_json(json.dumps({"type": kind, "message": text, **values}, ensure_ascii=False))
    with suppress(OSError):  # standard error may be closed
        print(line, file=sys.stderr, flush=True)


def wants_colours(choice: str) -> bool:
    """Return True if standard output has colours."""
    if choice != "auto":
        return choice == "always"
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def document_count(documents: int) -> str:
    """Return a number with the noun "document" in singular or plural."""
    return f"{documents} document{'' if documents == 1 else 's'}"


BAR_WIDTH = 20
"""The number of characters of the progress bar."""


class Progress:
    """A line on standard error that shows the progress, if standard error is a terminal.

    Args:
        total: The number of bytes to read, or 0 if it is unknown.
        enabled: If False, nothing is shown.
    """

    def __init__(self, total: int, *, enabled: bool = True) -> None:
        self.total = total
        self.is_visible = enabled and sys.stderr.isatty()
        self.finished = [0, 0, 0]
        self.start_time = time.monotonic()
        self._last = 0.0
        self._width = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def __call__(self, report: Report) -> None:
        """Show the progress of a conversion, at most ten times per second."""
        now = time.monotonic()
        if not self.is_visible or now - self._last < 0.1:
            return
        self._last = now
        counts = (report.documents, report.failed, report.bytes_in)
        documents, failed, read = (before + current for before, current in zip(self.finished, counts, strict=True))
        rate = read / 1e6 / max(now - self.start_time, 1e-6)
        parts = [document_count(documents), f"{rate:.0f} MB/s"]
        if failed:
            parts.append(f"{failed} failed")
        if self.total:
            share = min(read / self.total, 1.0)
            parts.insert(0, f"{share:4.0%}")
            done = int(BAR_WIDTH * share)
            bar = f"[{'#' * done}{'.' * (BAR_WIDTH - done)}] "
            # A narrow terminal shows the numbers without the bar.
            if len("  ".join(parts)) + len(bar) <= self._available_width():
                parts[0] = bar + parts[0]
        self._write("  ".join(parts))

    def add(self, report: Report) -> None:
        """Add the counts of a finished conversion."""
        self.finished = [
            self.finished[0] + report.documents,
            self.finished[1] + report.failed,
            self.finished[2] + report.bytes_in,
        ]

    def print_issue(self, issue: DocumentIssue) -> None:
        """Print an error of a document, above the progress line."""
        self.clear()
        print_error(str(issue), 1)

    def clear(self) -> None:
        """Remove the line."""
        if self._width:
            self._write("")

    def _write(self, text: str) -> None:
        # The terminal wraps a longer line, and the first part could not be removed.
        text = text[: self._available_width()]
        sys.stderr.write("\r" + text.ljust(self._width) + ("\r" if not text else ""))
        sys.stderr.flush()
        self._width = len(text)

    @staticmethod
    def _available_width() -> int:
        """Return the maximum length of a line. The user may resize the terminal at any time."""
        try:
            columns = os.get_terminal_size(sys.stderr.fileno()).columns
        except OSError:
            columns = 0
        return (columns or 80) - 1

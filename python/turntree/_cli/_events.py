"""Events of commands that run for a while: one JSON object per line, of the command's state and of its log."""

from __future__ import annotations

import json
import logging
import sys
from contextlib import contextmanager, nullcontext, redirect_stdout
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from turntree._cli._terminal import printable_json

if TYPE_CHECKING:
    import argparse
    from collections.abc import Generator
    from typing import TextIO

_TEXT = "%(asctime)s %(levelname)s %(message)s"


def add_json(parser: argparse.ArgumentParser, help: str) -> None:
    """Add ``--json`` to a parser."""
    parser.add_argument("--json", action="store_true", help=help)


def print_event(kind: str, values: dict[str, Any], output: TextIO | None = None) -> None:
    """Print an event at once: a JSON object of its type and its values, as one line.

    Args:
        kind: The type of the event.
        values: The other members.
        output: Where to print it. Default: standard output.
    """
    text = json.dumps({"type": kind, **values}, ensure_ascii=False)
    print(printable_json(text) if (output or sys.stdout).isatty() else text, file=output, flush=True)


@contextmanager
def event_output(*, as_json: bool) -> Generator[TextIO]:
    """Yield standard output. If it has JSON, what the application prints goes to standard error meanwhile."""
    output = sys.stdout
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        yield output


def start_log(level: int, *, as_json: bool) -> None:
    """Write the log to standard error: as text, or as one JSON object per line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if as_json else logging.Formatter(_TEXT))
    logging.basicConfig(level=level, handlers=[handler])


class _JsonFormatter(logging.Formatter):
    """One JSON object per record."""

    def format(self, record: logging.LogRecord) -> str:
        values = {
            "type": "log",
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            values["exception"] = self.formatException(record.exc_info)
        return printable_json(json.dumps(values, ensure_ascii=False))

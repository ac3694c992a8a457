"""The file ``.env``, which only commands that import an application read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from turntree._cli._terminal import CliError

if TYPE_CHECKING:
    import argparse


def add_env(parser: argparse.ArgumentParser) -> None:
    """Add ``--env`` to a parser."""
    parser.add_argument("--env", metavar="FILE", help="the file with variables (default: .env, if it exists)")


def load_env(file: str | None) -> None:
    """Set the variables of a file ``.env`` that are not set.

    Raises:
        CliError: The file was named and does not exist, or a line is not ``NAME=VALUE``.
    """
    path = Path(file or ".env")
    if not path.is_file():
        if file is not None:
            raise CliError(f"{file}: there is no such file", 2)
        return
    for number, line in enumerate(path.read_text("utf-8-sig").splitlines(), 1):
        text = line.strip().removeprefix("export ").strip()
        if not text or text.startswith("#"):
            continue
        name, separator, value = text.partition("=")
        if not separator or not name.strip().replace("_", "a").isalnum():
            raise CliError(f"{path}:{number}: must be NAME=VALUE", 2)
        os.environ.setdefault(name.strip(), _value(value.strip()))


def _value(text: str) -> str:
    """Return a value without its quotes and without the comment after it."""
    if text[:1] in ("'", '"'):
        inner, end, rest = text[1:].partition(text[0])
        if end and (not rest or (rest[0].isspace() and rest.lstrip()[0] == "#")):
            return inner
        if len(text) > 1 and text[-1] == text[0]:
            return text[1:-1]
    if text.startswith("#"):
        return ""
    return text.partition(" #")[0].rstrip()

"""Which files a command means, and how each of them is read."""

from __future__ import annotations

import io
import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast

from turntree._cli._terminal import CliError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from contextlib import ExitStack
    from typing import BinaryIO

STANDARD = "-"
"""The name of standard input and output."""

LINES = (".jsonl", ".ndjson")
WHOLE = (".json", ".sse")
TABLES = (".parquet",)
PACKED = (".gz", ".zst")


@dataclass(frozen=True)
class Input:
    """A file to read.

    Attributes:
        path: Where it is; "-" is standard input.
        base: The directory that was named, or the file's own: where its relative path begins.
        was_found: Whether it was found in a directory that was named, and not named itself.
    """

    path: str
    base: str
    was_found: bool = False

    @property
    def kind(self) -> str:
        """What its name says: "lines", "whole", "table", or "auto" where it says nothing."""
        name = self.path
        for packed in PACKED:
            name = name.removesuffix(packed)
        for kind, suffixes in (("lines", LINES), ("whole", WHOLE), ("table", TABLES)):
            if name.endswith(suffixes):
                return kind
        return "auto"

    @property
    def is_standard(self) -> bool:
        """Whether it is standard input."""
        return self.path == STANDARD

    @property
    def is_zstandard(self) -> bool:
        """Whether its name says that it is compressed with zstandard."""
        return self.path.endswith(".zst")

    @property
    def size(self) -> int:
        """Bytes that will be read, or 0 where that cannot be known."""
        if self.is_standard or self.path.endswith((*PACKED, *TABLES)):
            return 0
        try:
            return Path(self.path).stat().st_size
        except OSError:
            return 0


def find(names: list[str], without: str | None = None) -> list[Input]:
    """The files that names mean: a directory means every file of a known name in it and below, in order.

    Args:
        names: Files and directories.
        without: A directory that is left out where it lies in one of these: what will be written is not read.
    """
    found: list[Input] = []
    for name in names or [STANDARD]:
        if name != STANDARD and Path(name).is_dir():
            inside = sorted(_inside(name, None if without is None else Path(without).resolve()))
            if not inside:
                known = ", ".join((*LINES, *WHOLE, *TABLES))
                raise CliError(f"{name}: no file in it is named {known}, with or without .gz or .zst")
            found += [Input(path, name, was_found=True) for path in inside]
        else:
            found.append(Input(name, str(Path(name).parent)))
    if sum(file.is_standard for file in found) > 1:
        raise CliError("standard input can be read once only; name - once", 2)
    return found


def _inside(directory: str, without: Path | None) -> Iterator[str]:
    def unreadable(error: OSError) -> NoReturn:
        # A directory that is passed over in silence would be a loss that nobody hears of.
        raise CliError(f"{error.filename}: {error.strerror}; nothing was done") from None

    # Links to directories are not followed, so there are no loops.
    for place, directories, names in os.walk(directory, onerror=unreadable):
        kept = [name for name in directories if not name.startswith(".")]
        directories[:] = sorted(name for name in kept if without is None or Path(place, name).resolve() != without)
        for name in names:
            path = Path(place, name)
            # A pipe would be waited for; a link that leads nowhere is an error that should be seen.
            is_other = path.exists() and not path.is_file()
            if not name.startswith(".") and not is_other and Input(str(path), directory).kind != "auto":
                yield str(path)


def open_input(file: Input, stack: ExitStack) -> BinaryIO:
    """A file as lines or as a whole, without compression."""
    if file.is_standard:
        return sys.stdin.buffer
    if file.is_zstandard:
        from turntree._bulk import opened

        return cast("BinaryIO", opened(file.path, stack)[0])
    plain = stack.enter_context(io.BufferedReader(io.FileIO(file.path)))
    if plain.peek(2)[:2] != b"\x1f\x8b":
        return plain
    import gzip

    return cast("BinaryIO", stack.enter_context(gzip.open(plain)))


@contextmanager
def said(file: Input) -> Generator[None]:
    """Say in one sentence that a file that is read is damaged."""
    import gzip
    import zlib

    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise CliError(f"{file.path}: the gzip data are damaged or cut short; fetch the file again") from error
    except OSError as error:
        if error.errno is None:
            # It names the file already.
            raise CliError(str(error)) from error
        raise

"""Which files a command means, and how each of them is read."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from turntree._command._terminal import Complaint

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        if self.is_standard or self.path.endswith(PACKED):
            return 0
        try:
            return Path(self.path).stat().st_size
        except OSError:
            return 0


def find(names: list[str]) -> list[Input]:
    """The files that names mean: a directory means every file of a known name in it and below, in order."""
    found: list[Input] = []
    for name in names or [STANDARD]:
        if name != STANDARD and Path(name).is_dir():
            inside = sorted(_inside(name))
            if not inside:
                known = ", ".join((*LINES, *WHOLE, *TABLES))
                raise Complaint(f"{name}: no file in it is named {known}, with or without .gz or .zst")
            found += [Input(path, name, was_found=True) for path in inside]
        else:
            found.append(Input(name, str(Path(name).parent)))
    if sum(file.is_standard for file in found) > 1:
        raise Complaint("standard input can be read once only; name - once", 2)
    return found


def _inside(directory: str) -> Iterator[str]:
    for place, directories, names in os.walk(directory):
        directories[:] = sorted(name for name in directories if not name.startswith("."))
        for name in names:
            path = str(Path(place, name))
            if not name.startswith(".") and Input(path, directory).kind != "auto":
                yield path


def read_whole(file: Input) -> bytes:
    """All bytes of a file, without compression."""
    if file.is_standard:
        return sys.stdin.buffer.read()
    if file.is_zstandard:
        from turntree._bulk import zstandard

        with zstandard().open(file.path, "rb") as opened:
            return bytes(opened.read())
    data = Path(file.path).read_bytes()
    if data.startswith(b"\x1f\x8b"):
        import gzip
        import zlib

        try:
            return gzip.decompress(data)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise Complaint(f"{file.path}: the gzip data are damaged or cut short; fetch the file again") from None
    return data

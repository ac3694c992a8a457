"""The input files of a command: directories, file kinds and compression."""

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

STANDARD_STREAM = "-"
"""The name of standard input and output."""

LINES = (".jsonl", ".ndjson")
DOCUMENT = (".json", ".sse")
TABLE = (".parquet",)
COMPRESSED = (".gz", ".zst")


@dataclass(frozen=True)
class InputFile:
    """A file to read.

    Attributes:
        path: The path; "-" is standard input.
        base: The directory in the arguments, or the directory of the file. The relative path starts there.
        data: The content of a document that is not in a file.
        from_directory: True if the arguments have the file's directory instead of the file.
    """

    path: str
    base: str
    from_directory: bool = False
    data: bytes | None = None

    @property
    def kind(self) -> str:
        """The kind according to the name: "lines", "whole", "table", or "auto" if the name is ambiguous."""
        if self.data is not None:
            return "whole"
        name = self.path
        for suffix in COMPRESSED:
            name = name.removesuffix(suffix)
        for kind, suffixes in (("lines", LINES), ("whole", DOCUMENT), ("table", TABLE)):
            if name.endswith(suffixes):
                return kind
        return "auto"

    @property
    def is_standard_input(self) -> bool:
        """True for standard input."""
        return self.path == STANDARD_STREAM

    @property
    def display_name(self) -> str:
        """The name for messages."""
        return "standard input" if self.is_standard_input else self.path

    @property
    def is_zstandard(self) -> bool:
        """True if the name has the suffix of zstandard."""
        return self.path.endswith(".zst")

    @property
    def size(self) -> int:
        """The number of bytes to read, or 0 if it is unknown."""
        if self.data is not None or self.is_standard_input or self.path.endswith((*COMPRESSED, *TABLE)):
            return 0
        try:
            return Path(self.path).stat().st_size
        except OSError:
            return 0


def input_files(arguments: list[str], output: str | None = None) -> list[InputFile]:
    """Return the input files, in order. A directory stands for all files below it with a known suffix.

    Args:
        arguments: Files and directories. An empty list stands for standard input.
        output: The output directory, which is not read if it is below one of the directories.

    Raises:
        CliError: A file does not exist, a directory cannot be read or has no such file, or standard input is used
            twice.
    """
    files: list[InputFile] = []
    for name in arguments or [STANDARD_STREAM]:
        if name != STANDARD_STREAM:
            _require_existing(name)
        if name != STANDARD_STREAM and Path(name).is_dir():
            paths = sorted(_files_below(name, None if output is None else Path(output).resolve()))
            if not paths:
                known = ", ".join((*LINES, *DOCUMENT, *TABLE))
                raise CliError(f"{name}: no file in it ends in {known}, with or without .gz or .zst")
            files += [InputFile(path, name, from_directory=True) for path in paths]
        else:
            files.append(InputFile(name, str(Path(name).parent)))
    if sum(file.is_standard_input for file in files) > 1:
        raise CliError("standard input can be read only once; pass - once", 2)
    return files


def _require_existing(name: str) -> None:
    try:
        Path(name).stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CliError(f"{name}: {error.strerror}; check the path", 2) from None
    except OSError:
        return  # the error is reported where the file is read


def _files_below(directory: str, excluded: Path | None) -> Iterator[str]:
    def raise_error(error: OSError) -> NoReturn:
        # Without a handler, os.walk skips a directory that it cannot read.
        raise CliError(f"{error.filename}: {error.strerror}; no file was converted") from None

    # os.walk does not follow links to directories, so there are no loops.
    for parent, directories, names in os.walk(directory, onerror=raise_error):
        visible = [name for name in directories if not name.startswith(".")]
        directories[:] = sorted(name for name in visible if Path(parent, name).resolve() != excluded)
        for name in names:
            path = Path(parent, name)
            # Reading a pipe could block. A broken link is included, so that its error is reported.
            is_special = path.exists() and not path.is_file()
            if not name.startswith(".") and not is_special and InputFile(str(path), directory).kind != "auto":
                yield str(path)


# A byte order mark of UTF-8 and white space.
_BLANKS = b"\xef\xbb\xbf \t\r\n"


def standard_input(documents: str | None) -> BinaryIO:
    """Return standard input.

    Args:
        documents: The option ``--documents``. With "lines" and "auto", standard input may have no document.

    Raises:
        CliError: Standard input has no document.
    """
    source = cast("io.BufferedReader", sys.stdin.buffer)
    if documents in {"lines", "auto"} or source.peek(1).strip(_BLANKS):
        return source
    # The first bytes are blank. All bytes are kept: errors name lines.
    data = source.read()
    if not data.strip(_BLANKS):
        raise CliError(
            "standard input: the text is empty; expected a document, or pass --documents lines if there may be none"
        )
    return io.BytesIO(data)


def open_input(file: InputFile, stack: ExitStack) -> BinaryIO:
    """Open a file for reading, decompressed."""
    if file.is_standard_input:
        return sys.stdin.buffer
    if file.is_zstandard:
        from turntree._bulk import open_source

        return cast("BinaryIO", open_source(file.path, stack)[0])
    reader = stack.enter_context(io.BufferedReader(io.FileIO(file.path)))
    if reader.peek(2)[:2] != b"\x1f\x8b":
        return reader
    import gzip

    return cast("BinaryIO", stack.enter_context(gzip.open(reader)))


@contextmanager
def read_errors(file: InputFile) -> Generator[None]:
    """Convert errors of decompression to a `CliError` that names the file."""
    import gzip
    import zlib

    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise CliError(f"{file.path}: the gzip data are damaged or cut short; fetch the file again") from error
    except OSError as error:
        if error.errno is None:
            # An error of our own, whose message names the file.
            raise CliError(str(error)) from error
        raise

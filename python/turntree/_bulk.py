"""Bulk conversion of files and streams with many documents. This module opens the files; Rust converts them."""

from __future__ import annotations

import importlib
import inspect
import io
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol, TypeAlias, cast

from turntree._core import DocumentIssue, Report, _convert_lines, _UnfinishedFile

Replacement: TypeAlias = str | bytes | list[Any] | dict[str, Any] | None
OnError: TypeAlias = (
    Literal["raise", "skip"] | Callable[[DocumentIssue, bytes], Replacement] | Callable[[DocumentIssue], Replacement]
)

__all__ = ["BinaryReader", "BinaryWriter", "DocumentIssue", "Report", "convert_jsonl"]


class BinaryReader(Protocol):
    """A binary source: a file opened with ``"rb"``, ``sys.stdin.buffer``, ``io.BytesIO``, an S3 object."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; an empty result at the end."""
        ...


class BinaryWriter(Protocol):
    """A binary target: a file opened with ``"wb"``, ``sys.stdout.buffer``, ``io.BytesIO``."""

    def write(self, data: bytes, /) -> object:
        """Write bytes."""
        ...


def convert_jsonl(
    src: str | os.PathLike[str] | BinaryReader,
    dst: str | os.PathLike[str] | BinaryWriter,
    from_: str | None = "pydantic-ai",
    to: str = "thread-protocol",
    jobs: int | None = None,
    on_error: OnError = "raise",
    progress: Callable[[Report], object] | bool | None = None,  # noqa: FBT001
    *,
    profile: Literal["full", "portable"] = "full",
    overwrite: bool = True,
    max_document_bytes: int | None = None,
) -> Report:
    """Convert a file with one JSON document per line, on all cores. Preserves the order.

    The memory depends on the largest document and on `jobs`, not on the size of the file. If `dst` is a path, the file
    is written completely or not at all: it has a temporary name until the end, and is removed after an error or Ctrl-C.
    The conversion releases the GIL. Callbacks are called on the calling thread.

    Args:
        src: A path, or a binary file object. gzip is detected by the content, zstandard by the suffix ``.zst``.
        dst: A path, or a binary file object. A path that ends in ``.gz`` or ``.zst`` is compressed.
        from_: "pydantic-ai", "ui-messages", "ui-stream", "thread-protocol", "thread-protocol-canonical", "session" or
            "tree"; None detects the format by the first document. Of a session or a tree, the history of the current
            node becomes the thread.
        to: One of the first five names.
        jobs: The number of threads. Default: one per core that this process may use.
        on_error: "raise" raises the error of the first document that fails; "skip" skips the document and adds the
            error to the report; a function ``(issue, text)`` or ``(issue)`` receives the error and the input. If the
            function returns None, the document is skipped; a text or plain data is written instead of it; an exception
            ends the conversion.
        progress: Called about 20 times per second with the `Report` so far. True shows a bar with the rate and the
            failures: of tqdm or rich if one of them is installed, else a line on a terminal.
        profile: "full" stores the data for an exact round trip, "portable" only standard data.
        overwrite: If True, an existing file at `dst` is replaced.
        max_document_bytes: The maximum length of a line in bytes. Default: 1 GiB.

    Raises:
        ValidationError: A document cannot be converted; the message names the line and the path.
        OSError: Reading or writing failed; `FileExistsError` if `dst` exists and `overwrite` is False.
        ValueError: An argument is invalid, or the format cannot be detected.
        ImportError: The file requires zstandard, which is not installed.
    """
    check_jobs(jobs)
    with ExitStack() as stack:
        source, name = open_source(src, stack)
        target, finish = open_target(dst, stack, overwrite=overwrite)
        if progress is True:
            from turntree._progress import of_report

            progress, end = of_report()
            stack.callback(end)
        report = _convert_lines(
            source,
            target,
            from_=from_,
            to=to,
            jobs=jobs,
            on_error=_handler(on_error),
            progress=progress or None,
            profile=profile,
            framing="lines",
            gzip=is_path(dst) and os.fspath(cast("str", dst)).endswith(".gz"),
            overwrite=overwrite,
            durable=True,
            name=name,
            max_bytes=max_document_bytes,
        )
        finish()
        return report


def is_path(value: object) -> bool:
    """Return True if a value is the path of a file."""
    return isinstance(value, str | os.PathLike)


def open_source(src: object, stack: ExitStack) -> tuple[Any, str | None]:
    """Return a source for the native module, and its name for errors."""
    if not is_path(src):
        return src, getattr(src, "name", None) if isinstance(getattr(src, "name", None), str) else None
    path = os.fspath(cast("str", src))
    if path.endswith(".zst"):
        return stack.enter_context(io.BufferedReader(ZstandardFile(path), 256 * 1024)), path
    return path, path


def open_target(
    dst: object, stack: ExitStack, *, overwrite: bool, durable: bool = True
) -> tuple[Any, Callable[[], object]]:
    """Return a target for the native module, and a function to call at the end."""
    if not is_path(dst):
        return dst, lambda: None
    path = os.fspath(cast("str", dst))
    if not path.endswith(".zst"):
        return path, lambda: None
    module = zstandard()
    unfinished = _UnfinishedFile(path, overwrite)
    stack.callback(unfinished.discard)
    file = cast("BinaryIO", module.open(str(unfinished.place), "wb"))
    stack.callback(file.close)

    def finish() -> None:
        file.close()
        unfinished.finish(durable)

    return file, finish


def zstandard() -> Any:
    """Return the module for zstandard: that of the standard library since Python 3.14, else the package."""
    for name in ("compression.zstd", "zstandard"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise ImportError("files that end in .zst need the package zstandard: pip install turntree[zstd]")


class ZstandardFile(io.RawIOBase):
    """The decompressed content of a zstandard file with any number of frames. Raises an error if it is cut short.

    The reader of the package zstandard does not detect that a file is cut short.
    """

    _READ_SIZE = 16 * 1024

    def __init__(self, path: str) -> None:
        module = zstandard()
        self._path = path
        # In the standard library, ZstdDecompressor is a decompressor; in the package, it is a factory of them.
        factory = module.ZstdDecompressor
        self._new: Callable[[], Any] = factory if hasattr(factory, "eof") else lambda: factory().decompressobj()
        self._error: type[Exception] = module.ZstdError
        self._frame: Any = None
        self._ready = memoryview(b"")
        self._file = Path(path).open("rb")  # noqa: SIM115 - closed by close()

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Read into a buffer and return the number of bytes."""
        while not self._ready:
            unused = self._frame.unused_data if self._frame and self._frame.eof else b""
            data = unused or self._file.read(self._READ_SIZE)
            if not data:
                if self._frame and not self._frame.eof:
                    raise OSError(f"{self._path}: the zstandard data are cut short; fetch the file again")
                return 0
            if self._frame is None or self._frame.eof:
                self._frame = self._new()
            try:
                self._ready = memoryview(self._frame.decompress(data))
            except self._error:
                raise OSError(f"{self._path}: the zstandard data are damaged; fetch the file again") from None
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


def check_jobs(jobs: int | None) -> None:
    """Raise TypeError or ValueError if this is not a number of threads."""
    if jobs is None:
        return
    if not isinstance(jobs, int) or isinstance(jobs, bool):
        raise TypeError(f"jobs must be an int, not {type(jobs).__name__}")
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, not {jobs}")


def _handler(on_error: OnError) -> Any:
    """Return a function of two arguments for one that takes only the issue."""
    if not callable(on_error) or _takes(on_error, 2) or not _takes(on_error, 1):
        return on_error
    function = cast("Callable[[DocumentIssue], Replacement]", on_error)

    def handle(issue: DocumentIssue, _: bytes) -> Replacement:
        return function(issue)

    return handle


def _takes(function: Callable[..., Any], count: int) -> bool:
    """Whether a function can be called with so many positional arguments; false if it has no signature."""
    try:
        inspect.signature(function).bind(*(None,) * count)
    except (TypeError, ValueError):
        return False
    return True

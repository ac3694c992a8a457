"""Bulk conversion: files and streams of many documents. The work is done in Rust; here files are opened."""

from __future__ import annotations

import importlib
import io
import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from turntree._core import DocumentIssue, Report, _convert_lines, _UnfinishedFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO, TypeAlias

    OnError: TypeAlias = (
        Literal["raise", "skip"] | Callable[[DocumentIssue, bytes], str | bytes | list[Any] | dict[str, Any] | None]
    )

__all__ = ["BinaryReader", "BinaryWriter", "DocumentIssue", "Report", "convert_jsonl"]


class BinaryReader(Protocol):
    """What can be read from: a file opened with ``"rb"``, ``sys.stdin.buffer``, ``io.BytesIO``, an S3 object."""

    def read(self, size: int, /) -> bytes:
        """Give at most `size` bytes; none at the end."""
        ...


class BinaryWriter(Protocol):
    """What can be written to: a file opened with ``"wb"``, ``sys.stdout.buffer``, ``io.BytesIO``."""

    def write(self, data: bytes, /) -> object:
        """Take bytes."""
        ...


def convert_jsonl(
    src: str | os.PathLike[str] | BinaryReader,
    dst: str | os.PathLike[str] | BinaryWriter,
    from_: str | None = "pydantic-ai",
    to: str = "thread-protocol",
    jobs: int | None = None,
    on_error: OnError = "raise",
    progress: Callable[[Report], object] | None = None,
    *,
    profile: Literal["full", "portable"] = "full",
    overwrite: bool = True,
    max_document_bytes: int | None = None,
) -> Report:
    """Convert a file of one JSON document a line, on every core, in order.

    Memory is bounded by the largest document and the number of jobs, not by the file. A path as `dst` is written whole
    or not at all: until the end the file has another name, and an error or Ctrl-C leaves nothing behind. Other Python
    threads run meanwhile; callbacks are called on the calling thread.

    Args:
        src: A path, or a binary file object. gzip is recognised by content, zstandard by the name ``*.zst``.
        dst: A path, or a binary file object. A path that ends in ``.gz`` or ``.zst`` is compressed.
        from_: "pydantic-ai", "ui-messages", "ui-stream", "thread-protocol" or "thread-protocol-canonical"; None tells
            it by the first document.
        to: One of the same names.
        jobs: Threads that convert. Default: one a core that this process may use.
        on_error: "raise" ends with the first document that fails; "skip" leaves it out and lists it in the report; a
            function ``(issue, text)`` is given what is wrong and what was read: when it gives None the document is left
            out, text or plain data are written in its place, and what it raises ends the conversion.
        progress: Called about twenty times a second with the `Report` so far.
        profile: "full" keeps all it takes to give a history back equal, "portable" only what others understand.
        overwrite: Whether a file at `dst` may be replaced.
        max_document_bytes: Longest line. Default: 1 GiB.

    Raises:
        ValidationError: A document could not be converted; names line and place.
        OSError: Reading or writing failed; `FileExistsError` where `dst` is there and `overwrite` is False.
        ValueError: An argument is wrong, or the format cannot be told.
        ImportError: zstandard is needed and not installed.
    """
    with ExitStack() as stack:
        source, name = opened(src, stack)
        target, finish = created(dst, stack, overwrite=overwrite)
        report = _convert_lines(
            source,
            target,
            from_=from_,
            to=to,
            jobs=jobs,
            on_error=on_error,
            progress=progress,
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
    """Whether a value names a file."""
    return isinstance(value, str | os.PathLike)


def opened(src: object, stack: ExitStack) -> tuple[Any, str | None]:
    """A source as the native module takes it, and what to call it in errors."""
    if not is_path(src):
        return src, getattr(src, "name", None) if isinstance(getattr(src, "name", None), str) else None
    path = os.fspath(cast("str", src))
    if path.endswith(".zst"):
        return stack.enter_context(io.BufferedReader(ZstandardFile(path), 256 * 1024)), path
    return path, path


def created(
    dst: object, stack: ExitStack, *, overwrite: bool, durable: bool = True
) -> tuple[Any, Callable[[], object]]:
    """A target as the native module takes it, and what to call when all is written."""
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
    """The module that reads and writes zstandard: Python's own since 3.14, else the package."""
    for name in ("compression.zstd", "zstandard"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise ImportError("files that end in .zst need the package zstandard: pip install turntree[zstd]")


class ZstandardFile(io.RawIOBase):
    """What a file of zstandard holds, all its frames, with an error where it is cut short.

    (The reader of the package zstandard takes the end of the file for the end of the data.)
    """

    _READ = 16 * 1024

    def __init__(self, path: str) -> None:
        module = zstandard()
        self._path = path
        # Python's own module has decompressors; those of the package make what is one.
        made = module.ZstdDecompressor
        self._new: Callable[[], Any] = made if hasattr(made, "eof") else lambda: made().decompressobj()
        self._error: type[Exception] = module.ZstdError
        self._frame: Any = None
        self._ready = memoryview(b"")
        self._file = Path(path).open("rb")  # noqa: SIM115 - closed by close()

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer as far as data are at hand."""
        while not self._ready:
            data = (self._frame.unused_data if self._frame and self._frame.eof else b"") or self._file.read(self._READ)
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

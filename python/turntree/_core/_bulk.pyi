"""Conversion of many documents at a time: lines, files and columns."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, final

from typing_extensions import Self

from turntree._core._data import Data

@final
class DocumentIssue(Data):
    """An error or a rule violation of one document; ``str()`` returns it as one line."""

    def __new__(cls, **fields: Any) -> Self: ...
    @property
    def path(self) -> str | None:
        """The file, or None."""
    @property
    def line(self) -> int | None:
        """The line of the file, from 1, or None."""
    @property
    def row(self) -> int | None:
        """The row of the column, from 0, or None."""
    @property
    def pointer(self) -> str:
        """JSON pointer into the document; empty for the whole document."""
    @property
    def rule(self) -> str:
        """The name of the rule, such as "json_truncated"."""
    @property
    def message(self) -> str:
        """Description of the problem and its remedy."""
    @property
    def severity(self) -> Literal["error", "warning"]:
        """`error` or `warning`."""

@final
class Report(Data):
    """Statistics and errors of a bulk conversion."""

    def __new__(cls, **fields: Any) -> Self: ...
    @property
    def documents(self) -> int:
        """Documents that were converted."""
    @property
    def failed(self) -> int:
        """Documents that failed."""
    @property
    def bytes_in(self) -> int:
        """Bytes of all documents that were read, after decompression."""
    @property
    def bytes_out(self) -> int:
        """Bytes of all documents that were written, before compression."""
    @property
    def errors(self) -> list[DocumentIssue]:
        """The first thousand errors, in order."""
    @property
    def seconds(self) -> float:
        """Wall-clock time."""

def _convert_lines(
    source: Any,
    target: Any,
    *,
    from_: str | None,
    to: str | None,
    jobs: int | None,
    on_error: Any,
    progress: Callable[[Report], object] | None,
    profile: str,
    framing: str,
    gzip: bool,
    overwrite: bool,
    durable: bool,
    name: str | None,
    max_bytes: int | None,
) -> Report:
    """Convert, or with ``to=None`` validate, the documents of one file or file object."""

def _convert_files(
    pairs: Sequence[tuple[str, str, bool, bool]],
    *,
    from_: str | None,
    to: str | None,
    jobs: int | None,
    on_error: Any,
    progress: Callable[[Report], object] | None,
    profile: str,
    durable: bool,
) -> Report:
    """Convert, or with ``to=None`` validate, files of one document each."""

@final
class _UnfinishedFile:
    """A file that writers in Python write: under a temporary name until it is complete."""

    def __new__(cls, target: str, overwrite: bool) -> _UnfinishedFile: ...
    @property
    def place(self) -> Path:
        """The path to open and write to."""
    def finish(self, durable: bool) -> None:
        """Rename the file to its target; with `durable`, after it is synced to disk."""
    def discard(self) -> None:
        """Remove the temporary file, unless it was renamed."""

@final
class _ArrowColumn:
    """A column for consumers of the Arrow C data interface."""

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Return the column as capsules of the Arrow C data interface."""

def _convert_column(
    schema: object,
    array: object,
    *,
    from_: str | None,
    to: str,
    jobs: int | None,
    on_error: Any,
    profile: str,
    first_row: int,
) -> tuple[_ArrowColumn, Report]:
    """Convert an Arrow array of texts, passed as capsules of the Arrow C data interface, which it takes over."""

def _formats() -> tuple[list[str], list[str]]:
    """Return the names of the formats that can be read, and of those that can be written."""

def _render(data: bytes, *, style: str, what: str, from_: str | None, name: str | None) -> str:
    """Render a document as text, text with colours, or a page of HTML."""

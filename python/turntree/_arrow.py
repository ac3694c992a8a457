"""Conversion of Arrow columns."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeVar, cast

from turntree._bulk import check_jobs
from turntree._core import DocumentIssue, Report, _convert_column

__all__ = ["convert_arrow"]

ColumnT = TypeVar("ColumnT")

# A chunk with 32-bit offsets is converted in parts, because the result may be larger than the input.
_PART_BYTES = 512 * 1024 * 1024


def convert_arrow(
    column: ColumnT,
    from_: str | None = "pydantic-ai",
    to: str = "thread-protocol",
    *,
    jobs: int | None = None,
    on_error: Literal["raise", "null"] | Callable[[DocumentIssue], object] = "raise",
    progress: Callable[[Report], object] | None = None,
    profile: Literal["full", "portable"] = "full",
) -> ColumnT:
    """Convert a column of JSON documents, on all cores. Preserves the order. Requires pyarrow.

    Input and output are not copied: both use the Arrow C data interface. The conversion releases the GIL.

    Args:
        column: A ``pyarrow.Array`` or ``pyarrow.ChunkedArray`` of any string or binary type, or an object with
            ``__arrow_c_array__`` or ``__arrow_c_stream__``, such as a Polars series.
        from_: "pydantic-ai", "ui-messages", "ui-stream", "thread-protocol", "thread-protocol-canonical", "session" or
            "tree"; None detects the format by the first document. Of a session or a tree, the history of the current
            node becomes the thread.
        to: One of the first five names.
        jobs: The number of threads. Default: one per core that this process may use.
        on_error: "raise" raises the error of the first row that fails; "null" makes the row null; a function receives
            the error, and the row is null. An exception of the function ends the conversion.
        progress: Called with the `Report` so far after each chunk.
        profile: "full" stores the data for an exact round trip, "portable" only standard data.

    Returns:
        An array of the same type if `column` is an array, else a chunked array with the same chunks. Null remains null.

    Raises:
        ValidationError: A row cannot be converted; the message names the row and the path.
        TypeError: The column has values other than strings or binary.
        ImportError: pyarrow is not installed.
    """
    pa = pyarrow()
    given: Any = column
    if not isinstance(given, pa.Array | pa.ChunkedArray):
        if hasattr(given, "__arrow_c_stream__"):
            given = pa.chunked_array(given)
        elif hasattr(given, "__arrow_c_array__"):
            given = pa.array(given)
        else:
            raise TypeError(f"column must be a pyarrow Array or ChunkedArray, not {type(given).__name__}")
    check_jobs(jobs)
    options = {"from_": from_, "to": to, "jobs": jobs, "profile": profile, "on_error": _handler(on_error)}
    chunks = given.chunks if isinstance(given, pa.ChunkedArray) else [given]
    done: list[Any] = []
    so_far = Report.model_validate(
        {"documents": 0, "failed": 0, "bytes_in": 0, "bytes_out": 0, "errors": [], "seconds": 0.0}
    )
    row = 0
    for chunk in chunks:
        converted, reports = _chunk(pa, chunk, row, options)
        done.append(converted)
        row += len(chunk)
        so_far = _sum([so_far, *reports])
        if progress is not None:
            progress(so_far)
    if isinstance(given, pa.ChunkedArray):
        return cast("ColumnT", pa.chunked_array(done, type=given.type))
    return cast("ColumnT", done[0])


def _handler(on_error: Any) -> Any:
    if on_error == "null":
        return "skip"
    if on_error == "raise":
        return on_error
    if not callable(on_error):
        raise ValueError(f'on_error must be "raise", "null" or a function of one DocumentIssue, not {on_error!r}')
    function = cast("Callable[[DocumentIssue], object]", on_error)

    def handler(issue: DocumentIssue, _text: bytes) -> None:
        function(issue)

    return handler


def _chunk(pa: Any, chunk: Any, row: int, options: dict[str, Any]) -> tuple[Any, list[Report]]:
    kind = chunk.type
    plain = {pa.string(), pa.large_string(), pa.binary(), pa.large_binary()}
    if kind in plain:
        pieces: list[Any] = []
        reports: list[Report] = []
        for part in _parts(pa, chunk):
            column, report = _convert_column(*part.__arrow_c_array__(), **options, first_row=row)
            pieces.append(pa.array(column))
            reports.append(report)
            row += len(part)
        return (pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)), reports
    if isinstance(kind, pa.BaseExtensionType):
        # An extension type of text, such as pa.json_().
        converted, reports = _chunk(pa, chunk.storage, row, options)
        return pa.ExtensionArray.from_storage(kind, converted), reports
    types: Any = pa.types
    values = kind.value_type if types.is_dictionary(kind) else kind
    binary = types.is_binary(values) or types.is_large_binary(values) or types.is_binary_view(values)
    if not binary and not (types.is_string(values) or types.is_large_string(values) or types.is_string_view(values)):
        raise TypeError(f"the column must hold strings or binary, not {kind}; pass a column of JSON documents")
    converted, reports = _chunk(pa, chunk.cast(pa.large_binary() if binary else pa.large_string()), row, options)
    converted = converted.cast(values)
    return (converted.dictionary_encode().cast(kind) if types.is_dictionary(kind) else converted), reports


def _parts(pa: Any, chunk: Any) -> Iterator[Any]:
    if chunk.type in {pa.large_string(), pa.large_binary()} or chunk.nbytes <= _PART_BYTES or len(chunk) < 2:
        yield chunk
        return
    half = len(chunk) // 2
    yield from _parts(pa, chunk.slice(0, half))
    yield from _parts(pa, chunk.slice(half))


def _sum(reports: list[Report]) -> Report:
    keys = ("documents", "failed", "bytes_in", "bytes_out", "seconds")
    total: dict[str, Any] = {key: sum(getattr(report, key) for report in reports) for key in keys}
    total["errors"] = [issue.to_dict() for report in reports for issue in report.errors][:1000]
    return Report.model_validate(total)


def pyarrow() -> Any:
    """Return the package pyarrow.

    Raises:
        ImportError: It is not installed.
    """
    try:
        return importlib.import_module("pyarrow")  # it has no type annotations
    except ImportError:
        raise ImportError("Arrow columns need the package pyarrow: pip install turntree[arrow]") from None

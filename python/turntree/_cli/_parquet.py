"""Conversion of Parquet files: converts one column and preserves the others."""

from __future__ import annotations

import importlib
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turntree._arrow import convert_arrow, pyarrow
from turntree._cli._files import STANDARD_STREAM
from turntree._cli._terminal import CliError
from turntree._core import DocumentIssue, Report, _UnfinishedFile

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from turntree._cli._files import InputFile

MAX_ROWS = 4096
"""The maximum number of rows in one batch."""

TARGET_BYTES = 32_000_000
"""The approximate size of the documents of one batch. A single larger document is one batch."""


def convert_parquet(
    file: InputFile,
    target: str,
    options: argparse.Namespace,
    report_failure: Callable[[DocumentIssue], None],
    progress: Callable[[Report], object],
) -> Report:
    """Convert a column of a Parquet file into another file, batch by batch.

    Raises:
        CliError: The column or the target is missing, or, with ``--on-error stop``, a document failed.
        ImportError: pyarrow is not installed.
    """
    pyarrow()  # raises the ImportError that names the extra
    parquet: Any = importlib.import_module("pyarrow.parquet")
    if target == STANDARD_STREAM:
        raise CliError(f"{file.path}: cannot write a .parquet file to standard output; pass a file with --output", 2)
    with ExitStack() as stack:
        reader = stack.enter_context(parquet.ParquetFile(file.path))
        schema = reader.schema_arrow
        name = _column(file, schema.names, options.column)
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        unfinished = _UnfinishedFile(target, bool(options.force))
        stack.callback(unfinished.discard)
        total = {"documents": 0, "failed": 0, "bytes_in": 0, "bytes_out": 0, "seconds": 0.0}
        with parquet.ParquetWriter(str(unfinished.place), schema) as writer:
            _convert_batches(reader, writer, name, file, options, report_failure, progress, total)
        unfinished.finish(not options.no_sync)
    return Report.model_validate({**total, "errors": []})


def _column(file: InputFile, names: list[str], column: str | None) -> str:
    known = ", ".join(names)
    if column is None:
        raise CliError(f"{file.path}: the column is missing; pass one of {known} with --column", 2)
    if column not in names:
        raise CliError(f"{file.path}: unknown column {column}; expected one of {known}", 2)
    return column


def _batch_rows(metadata: Any, name: str) -> int:
    """Return the number of rows in a batch of about `TARGET_BYTES`."""
    size = 0
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        columns = map(group.column, range(group.num_columns))
        size += sum(column.total_uncompressed_size for column in columns if column.path_in_schema == name)
    return max(1, min(MAX_ROWS, TARGET_BYTES * int(metadata.num_rows) // max(size, 1)))


def _convert_batches(
    reader: Any,
    writer: Any,
    name: str,
    file: InputFile,
    options: argparse.Namespace,
    report_failure: Callable[[DocumentIssue], None],
    progress: Callable[[Report], object],
    total: dict[str, Any],
) -> None:
    first = 0
    for batch in reader.iter_batches(batch_size=_batch_rows(reader.metadata, name)):
        index = batch.schema.get_field_index(name)

        def on_error(issue: DocumentIssue, first: int = first) -> None:
            values = {**issue.to_dict(), "path": file.path, "row": first + (issue.row or 0)}
            issue = DocumentIssue.model_validate(values)
            if options.on_error == "stop":
                raise CliError(str(issue))
            report_failure(issue)

        def count(report: Report) -> None:
            for key in total:
                total[key] += getattr(report, key)
            progress(Report.model_validate({**total, "errors": []}))

        converted = convert_arrow(
            batch.column(index),
            from_=options.from_,
            to=options.to,
            jobs=options.jobs,
            on_error=on_error,
            progress=count,
            profile=options.profile,
        )
        writer.write_batch(batch.set_column(index, batch.schema.field(index), converted))
        first += batch.num_rows

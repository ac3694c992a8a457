"""Parquet files: one column is converted, everything else stays."""

from __future__ import annotations

import importlib
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turntree._arrow import convert_arrow, pyarrow
from turntree._cli._files import STANDARD
from turntree._cli._terminal import CliError
from turntree._core import DocumentIssue, Report, _UnfinishedFile

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from turntree._cli._files import Input

ROWS = 4096
"""The most rows that are in memory at once."""

BYTES = 32_000_000
"""About how many bytes of documents are in memory at once, where a single one has no more."""


def convert_table(
    file: Input,
    target: str,
    options: argparse.Namespace,
    failure: Callable[[DocumentIssue], None],
    progress: Callable[[Report], object],
) -> Report:
    """Convert a column of a Parquet file into another file, batch by batch."""
    pyarrow()  # says which extra to install
    parquet: Any = importlib.import_module("pyarrow.parquet")
    if target == STANDARD:
        raise CliError(f"{file.path}: a .parquet file cannot go to standard output; name a file with --output", 2)
    with ExitStack() as stack:
        read = stack.enter_context(parquet.ParquetFile(file.path))
        schema = read.schema_arrow
        name = _column(file, schema.names, options.column)
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        unfinished = _UnfinishedFile(target, bool(options.force))
        stack.callback(unfinished.discard)
        total = {"documents": 0, "failed": 0, "bytes_in": 0, "bytes_out": 0, "seconds": 0.0}
        with parquet.ParquetWriter(str(unfinished.place), schema) as writer:
            _copy(read, writer, name, file, options, failure, progress, total)
        unfinished.finish(not options.no_sync)
    return Report.model_validate({**total, "errors": []})


def _column(file: Input, names: list[str], wanted: str | None) -> str:
    known = ", ".join(names)
    if wanted is None:
        raise CliError(f"{file.path}: name the column to convert with --column: one of {known}", 2)
    if wanted not in names:
        raise CliError(f"{file.path}: has no column {wanted}; its columns are {known}", 2)
    return wanted


def _rows(metadata: Any, name: str) -> int:
    """How many rows have about `BYTES` in a column."""
    size = 0
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        columns = map(group.column, range(group.num_columns))
        size += sum(column.total_uncompressed_size for column in columns if column.path_in_schema == name)
    return max(1, min(ROWS, BYTES * int(metadata.num_rows) // max(size, 1)))


def _copy(
    read: Any,
    writer: Any,
    name: str,
    file: Input,
    options: argparse.Namespace,
    failure: Callable[[DocumentIssue], None],
    progress: Callable[[Report], object],
    total: dict[str, Any],
) -> None:
    first = 0
    for batch in read.iter_batches(batch_size=_rows(read.metadata, name)):
        place = batch.schema.get_field_index(name)

        def failed(issue: DocumentIssue, first: int = first) -> None:
            placed = {**issue.to_dict(), "path": file.path, "row": first + (issue.row or 0)}
            issue = DocumentIssue.model_validate(placed)
            if options.on_error == "stop":
                raise CliError(str(issue))
            failure(issue)

        def count(report: Report) -> None:
            for key in total:
                total[key] += getattr(report, key)
            progress(Report.model_validate({**total, "errors": []}))

        converted = convert_arrow(
            batch.column(place),
            from_=options.from_,
            to=options.to,
            jobs=options.jobs,
            on_error=failed,
            progress=count,
            profile=options.profile,
        )
        writer.write_batch(batch.set_column(place, batch.schema.field(place), converted))
        first += batch.num_rows

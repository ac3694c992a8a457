"""``turntree convert``."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turntree._bulk import created, opened
from turntree._cli._files import PACKED, STANDARD, WHOLE, Input, find
from turntree._cli._terminal import CliError, Progress, complain, counted
from turntree._core import DocumentIssue, Report, _convert_files, _convert_lines, _formats

if TYPE_CHECKING:
    from collections.abc import Sequence

SAID = 20
"""How many failures are told one by one."""

EPILOG = """\
Files ending in .jsonl or .ndjson hold one document a line, .json and .sse files one document,
.parquet files documents in a column. What stands in other files, and in standard input,
is told by its first line. gzip and zstandard are taken away, and put on where the name
of the output ends in .gz or .zst. Files are written whole or not at all.
"""


def add(commands: Any) -> None:
    """Add the command to a parser."""
    readable, writable = _formats()
    parser: argparse.ArgumentParser = commands.add_parser(
        "convert",
        help="convert conversations from one format to another",
        description="Converts conversations from one format to another, on every core.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="files or directories; - is standard input")
    parser.add_argument("-o", "--output", metavar="PATH", help="where to write: a file, or a directory for several")
    parser.add_argument("--from", dest="from_", choices=readable, help="the format that is read (told by content)")
    parser.add_argument("--to", choices=writable, default="thread-protocol", help="the format (thread-protocol)")
    parser.add_argument("--profile", choices=("full", "portable"), default="full", help="how much to keep (full)")
    parser.add_argument("--documents", choices=("lines", "whole", "auto"), help="where one document of a file ends")
    parser.add_argument("--column", metavar="NAME", help="the column of a .parquet file")
    parser.add_argument("--on-error", choices=("stop", "skip"), default="stop", help="what to do on failure (stop)")
    add_jobs(parser)
    parser.add_argument("--force", action="store_true", help="overwrite files that are there")
    parser.add_argument("--no-sync", action="store_true", help="do not wait for the disk: faster for many small files")
    parser.add_argument("--quiet", action="store_true", help="show no progress and no summary")
    parser.set_defaults(run=run)


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add ``--jobs`` to a parser."""

    def jobs(text: str) -> int:
        if not text.isascii() or not text.isdigit() or int(text) < 1:
            raise argparse.ArgumentTypeError(f"must be a number from 1, not {text!r}")
        return int(text)

    parser.add_argument("--jobs", metavar="N", type=jobs, help="threads that convert (one a core)")


def run(options: argparse.Namespace) -> int:
    """Convert; give the exit status."""
    files = find(options.files, options.output)
    pairs = _targets(files, options)
    work = _Work(options, files)
    with work.progress:
        alone = [(file, target) for file, target in pairs if not is_small(file, options)]
        together = [(file, target) for file, target in pairs if is_small(file, options)]
        if len(together) == 1 or (together and STANDARD in [target for _, target in together]):
            alone, together = pairs, []
        if together:
            work.together(together)
        for file, target in alone:
            work.alone(file, target)
    return work.end()


def is_small(file: Input, options: argparse.Namespace) -> bool:
    """Whether a file is one document, so that many are converted side by side."""
    return (options.documents or file.kind) == "whole" and not file.is_standard and not file.is_zstandard


def _targets(files: list[Input], options: argparse.Namespace) -> list[tuple[Input, str]]:
    """Where each file goes; complains before anything is done."""
    output: str | None = options.output
    several = len(files) > 1 or files[0].was_found
    if output is None or output == STANDARD:
        if several:
            raise CliError("several files need a directory to go to; name it with --output", 2)
        return [(files[0], STANDARD)]
    if not several and not (Path(output).is_dir() or output.endswith("/")):
        pairs = [(files[0], output)]
    else:
        if any(file.is_standard for file in files):
            raise CliError("standard input has no name to have in a directory; name a file with --output", 2)
        inside = [_renamed(str(Path(file.path).relative_to(file.base)), options.to) for file in files]
        pairs = [(file, str(Path(output, name))) for file, name in zip(files, inside, strict=True)]
    targets = [target for _, target in pairs]
    if len(set(targets)) < len(targets):
        twice = Counter(targets).most_common(1)[0][0]
        raise CliError(f"two files would become {twice}; convert their directories apart", 2)
    if not options.force:
        for target in targets:
            # A device or a pipe is written to as it is.
            place = Path(target)
            if place.is_file() or place.is_dir() or (place.is_symlink() and not place.exists()):
                raise CliError(f"{target} exists already; choose another name, or overwrite it with --force", 2)
    return pairs


def _renamed(name: str, to: str) -> str:
    """The name of a file of one document in another format: streams are .sse, everything else is .json."""
    stem, packed = name, ""
    for ending in PACKED:
        if name.endswith(ending):
            stem, packed = name.removesuffix(ending), ending
    if not stem.endswith(WHOLE):
        return name
    return str(Path(stem).with_suffix(".sse" if to == "ui-stream" else ".json")) + packed


class _Work:
    """One run of the command."""

    def __init__(self, options: argparse.Namespace, files: list[Input]) -> None:
        self.options = options
        sizes = [file.size for file in files]
        self.progress = Progress(sum(sizes) if all(sizes) else 0, wanted=not options.quiet)
        self.said = 0
        self.documents = self.failed = self.bytes = 0

    def failure(self, issue: DocumentIssue, _text: bytes = b"") -> None:
        """Tell of a document that is left out."""
        if self.said < SAID:
            self.progress.issue(issue)
        self.said += 1

    def together(self, pairs: Sequence[tuple[Input, str]]) -> None:
        """Convert many files of one document."""
        options = self.options
        given = [(file.path, target, bool(options.force), target.endswith(".gz")) for file, target in pairs]
        self._count(
            _convert_files(
                given,
                from_=options.from_,
                to=options.to,
                jobs=options.jobs,
                on_error=self._on_error(),
                progress=self.progress,
                profile=options.profile,
                durable=not options.no_sync,
            )
        )

    def alone(self, file: Input, target: str) -> None:
        """Convert one file."""
        options = self.options
        if (options.documents or file.kind) == "table":
            from turntree._cli._table import convert_table

            self._count(convert_table(file, target, options, self.failure, self.progress))
            return
        if options.column is not None:
            raise CliError(f"{file.path}: --column is for .parquet files", 2)
        if target != STANDARD:
            Path(target).parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            source, name = (sys.stdin.buffer, "standard input") if file.is_standard else opened(file.path, stack)
            whereto = sys.stdout.buffer if target == STANDARD else target
            durable = not options.no_sync
            written, finish = created(whereto, stack, overwrite=bool(options.force), durable=durable)
            report = _convert_lines(
                source,
                written,
                from_=options.from_,
                to=options.to,
                jobs=options.jobs,
                on_error=self._on_error(),
                progress=self.progress,
                profile=options.profile,
                framing=options.documents or file.kind,
                gzip=target.endswith(".gz"),
                overwrite=bool(options.force),
                durable=durable,
                name=name,
                max_bytes=None,
            )
            finish()
        self._count(report)

    def _on_error(self) -> Any:
        return "raise" if self.options.on_error == "stop" else self.failure

    def _count(self, report: Report) -> None:
        self.progress.add(report)
        self.documents += report.documents
        self.failed += report.failed
        self.bytes += report.bytes_in

    def end(self) -> int:
        """Sum up; give the exit status."""
        if self.said > SAID:
            complain(f"… and {self.said - SAID} more")
        if self.failed:
            complain(f"{self.failed} of {self.documents + self.failed} documents were left out")
        if self.progress.shown:
            seconds = time.monotonic() - self.progress.began
            size, rate = self.bytes / 1e6, self.bytes / 1e6 / max(seconds, 1e-6)
            done = f"{counted(self.documents)}, {size:.1f} MB in {seconds:.1f} s ({rate:.0f} MB/s)"
            print(done, file=sys.stderr)
        return 1 if self.failed else 0

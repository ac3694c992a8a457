"""The command ``turntree convert``."""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turntree._bulk import open_source, open_target
from turntree._cli._events import add_json, print_event
from turntree._cli._files import (
    COMPRESSED,
    DOCUMENT,
    STANDARD_STREAM,
    InputFile,
    input_files,
    open_input,
    read_errors,
    standard_input,
)
from turntree._cli._parts import HEAD, branch_note, may_have_branches, with_branch
from turntree._cli._stores import add_session, stored_session
from turntree._cli._terminal import CliError, Progress, document_count, print_error, print_note, standard_output
from turntree._core import DocumentIssue, Report, _convert_files, _convert_lines, _formats
from turntree.exceptions import ValidationError

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_PRINTED_FAILURES = 20
"""The maximum number of failures that are printed one by one."""

EPILOG = """\
Files that end in .jsonl or .ndjson have one document per line, .json and .sse files have one
document, and .parquet files have documents in a column. For other files and for standard input,
the first line determines the format. gzip and zstandard are decompressed. The output is
compressed if its name ends in .gz or .zst. A file is written completely, or not at all.
"""


def add(commands: Any) -> None:
    """Add the command to a parser."""
    readable, writable = _formats()
    parser: argparse.ArgumentParser = commands.add_parser(
        "convert",
        help="convert conversations from one format to another",
        description="Converts conversations from one format to another, on all cores.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="files or directories; - is standard input")
    add_session(parser)
    parser.add_argument("-o", "--output", metavar="PATH", help="output file, or directory for several files")
    parser.add_argument("--from", dest="from_", choices=readable, help="input format (default: from the content)")
    parser.add_argument(
        "--to", choices=writable, default="thread-protocol", help="output format (default: thread-protocol)"
    )
    parser.add_argument(
        "--profile",
        choices=("full", "portable"),
        default="full",
        help="full stores the data for an exact round trip, portable only standard data (default: full)",
    )
    parser.add_argument(
        "--documents", choices=("lines", "whole", "auto"), help="one document per line, or one per file"
    )
    parser.add_argument("--column", metavar="NAME", help="the column of a .parquet file")
    parser.add_argument(
        "--on-error", choices=("stop", "skip"), default="stop", help="what to do after an error (default: stop)"
    )
    parser.add_argument(
        "--branch", metavar="NAME", help="the branch of a session or tree, by name or id (default: the current one)"
    )
    add_jobs(parser)
    parser.add_argument("--force", action="store_true", help="overwrite existing files")
    parser.add_argument("--no-sync", action="store_true", help="do not sync to disk: faster for many small files")
    parser.add_argument("--quiet", action="store_true", help="show no progress and no summary")
    add_json(
        parser,
        "print each skipped document and the summary as one JSON object; without --output to standard error, because "
        "standard output has the documents",
    )
    parser.set_defaults(run=run)


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add ``--jobs`` to a parser."""

    def jobs(text: str) -> int:
        if not text.isascii() or not text.isdigit() or int(text) < 1:
            raise argparse.ArgumentTypeError(f"must be a number from 1, not {text!r}")
        return int(text)

    parser.add_argument("--jobs", metavar="N", type=jobs, help="number of threads (default: one per core)")


def run(options: argparse.Namespace) -> int:
    """Convert the files and return the exit status."""
    stored = _stored_thread(options)
    files = [stored] if stored else input_files(options.files, options.output)
    if options.branch is not None:
        _check_branch(options, files)
    pairs = _targets(files, options)
    conversion = _Conversion(options, files)
    with conversion.progress:
        single = [(file, target) for file, target in pairs if not is_small(file, options)]
        small = [(file, target) for file, target in pairs if is_small(file, options)]
        if options.branch is not None:
            single, small = pairs, []
        if len(small) == 1 or (small and STANDARD_STREAM in [target for _, target in small]):
            single, small = pairs, []
        if small:
            conversion.convert_small_files(small)
        for file, target in single:
            conversion.convert_file(file, target)
    return conversion.summarize()


def _check_branch(options: argparse.Namespace, files: list[InputFile]) -> None:
    """Refuse ``--branch`` for what has no branches, before anything is written.

    Raises:
        CliError: The format has no branches, or a file has several documents.
    """
    if options.session is None and options.from_ not in (None, "session", "tree"):
        raise CliError(f"--branch is for sessions and trees; {options.from_} has no branches", 2)
    for file in files:
        if (options.documents or file.kind) in ("lines", "table"):
            name = file.display_name
            raise CliError(f"{name}: --branch is for files with one session or tree; leave it out for several", 2)


def is_small(file: InputFile, options: argparse.Namespace) -> bool:
    """Return True if a file is one document. Such files are converted in parallel."""
    return (
        (options.documents or file.kind) == "whole"
        and file.data is None
        and not file.is_standard_input
        and not file.is_zstandard
    )


def _targets(files: list[InputFile], options: argparse.Namespace) -> list[tuple[InputFile, str]]:
    """Return each file with its target.

    Raises:
        CliError: A target is missing, exists, or is the target of two files.
    """
    output: str | None = options.output
    several = len(files) > 1 or files[0].from_directory
    if output is None or output == STANDARD_STREAM:
        if several:
            raise CliError("several input files require an output directory; pass it with --output", 2)
        return [(files[0], STANDARD_STREAM)]
    if not several and not (Path(output).is_dir() or output.endswith("/")):
        pairs = [(files[0], output)]
    else:
        if any(file.is_standard_input for file in files):
            raise CliError("standard input cannot be converted into a directory; pass a file with --output", 2)
        names = [_output_name(str(Path(file.path).relative_to(file.base)), options.to) for file in files]
        pairs = [(file, str(Path(output, name))) for file, name in zip(files, names, strict=True)]
    targets = [target for _, target in pairs]
    if len(set(targets)) < len(targets):
        duplicate = Counter(targets).most_common(1)[0][0]
        raise CliError(f"two input files have the target {duplicate}; convert their directories separately", 2)
    if not options.force:
        for target in targets:
            # Devices and pipes are written to.
            path = Path(target)
            if path.is_file() or path.is_dir() or (path.is_symlink() and not path.exists()):
                raise CliError(f"{target} exists already; choose another name, or overwrite it with --force", 2)
    return pairs


def _output_name(name: str, to: str) -> str:
    """Return the name of a one-document file in another format: .sse for streams, .json for other formats."""
    stem, compression = name, ""
    for suffix in COMPRESSED:
        if name.endswith(suffix):
            stem, compression = name.removesuffix(suffix), suffix
    if not stem.endswith(DOCUMENT):
        return name
    return str(Path(stem).with_suffix(".sse" if to == "ui-stream" else ".json")) + compression


def _stored_thread(options: argparse.Namespace) -> InputFile | None:
    """Return the current branch of the session that the options name, as a thread; None if they name no store."""
    stored = stored_session(options)
    if stored is None:
        return None
    if options.from_ is not None:
        raise CliError("--from is for files; a stored session needs no format", 2)
    from turntree import ThreadTree
    from turntree.thread_protocol import from_upp

    if options.branch is not None:
        stored = with_branch(stored, options.branch, f"session {options.session}")
    options.from_ = "thread-protocol"
    tree = ThreadTree.model_validate(json.loads(stored)["threadTree"])
    if not options.quiet and options.branch is None and (note := branch_note(stored, f"session {options.session}")):
        print_note(note)
    thread = from_upp(tree, thread_id=options.session, profile=options.profile)
    return InputFile(f"session {options.session}", "", data=thread.model_dump_json().encode())


def _source(file: InputFile, options: argparse.Namespace, stack: ExitStack) -> Any:
    """Open a file, and say which branches of a session or tree the conversion leaves out."""
    if file.data is not None:
        return io.BytesIO(file.data)
    if options.branch is not None:
        with ExitStack() as opened, read_errors(file):
            document = open_input(file, opened).read()
        return io.BytesIO(with_branch(document, options.branch, file.display_name))
    source: Any = standard_input(options.documents) if file.is_standard_input else open_source(file.path, stack)[0]
    if options.quiet or options.from_ not in (None, "session", "tree") or (options.documents or file.kind) == "lines":
        return source
    if isinstance(source, str):
        if (note := _note_of_file(file)) is not None:
            print_note(note)
        return source
    read, note = _note_of(source, file.display_name)
    if note is not None:
        print_note(note)
    return source if read is None else io.BytesIO(read)


def _note_of_file(file: InputFile) -> str | None:
    """Return what the conversion of a file leaves out; None if it leaves out nothing, or cannot be read."""
    with ExitStack() as opened, suppress(OSError, EOFError):  # the conversion names the place
        return _note_of(open_input(file, opened), file.display_name)[1]
    return None


def _note_of(source: Any, name: str) -> tuple[bytes | None, str | None]:
    """Return the document if it may be a session or a tree, and what its conversion leaves out."""
    if not may_have_branches(source.getvalue() if isinstance(source, io.BytesIO) else source.peek(HEAD)):
        return None, None
    document: bytes = source.read()
    return document, branch_note(document, name)


class _Conversion:
    """One run of the command: its options, progress and counts."""

    def __init__(self, options: argparse.Namespace, files: list[InputFile]) -> None:
        self.options = options
        sizes = [file.size for file in files]
        self.progress = Progress(sum(sizes) if all(sizes) else 0, enabled=not options.quiet)
        self.failures = 0
        self.documents = self.failed = self.bytes = self.written = 0
        self.files = len(files)
        self.writes_documents = options.output in (None, STANDARD_STREAM)

    def report_failure(self, issue: DocumentIssue, _text: bytes = b"") -> None:
        """Print an error of a document that is skipped, up to the maximum number."""
        if self.options.json:
            self.progress.clear()
            self._print_event("issue", json.loads(issue.to_json()))
        elif self.failures < MAX_PRINTED_FAILURES:
            self.progress.print_issue(issue)
        self.failures += 1

    def convert_small_files(self, pairs: Sequence[tuple[InputFile, str]]) -> None:
        """Convert files of one document each, in parallel."""
        options = self.options
        if not options.quiet and options.from_ in (None, "session", "tree"):
            self._note_branches([file for file, _ in pairs])
        jobs = [(file.path, target, bool(options.force), target.endswith(".gz")) for file, target in pairs]
        self._count(
            _convert_files(
                jobs,
                from_=options.from_,
                to=options.to,
                jobs=options.jobs,
                on_error=self._on_error(),
                progress=self.progress,
                profile=options.profile,
                durable=not options.no_sync,
            )
        )

    def _note_branches(self, files: Sequence[InputFile]) -> None:
        """Say which branches of sessions and trees the conversion leaves out, for the first files that have several."""
        notes = [note for file in files if (note := _note_of_file(file)) is not None]
        self.progress.clear()
        for note in notes[:MAX_PRINTED_FAILURES]:
            print_note(note)
        if (more := len(notes) - MAX_PRINTED_FAILURES) > 0:
            print_note(f"… and {more} more {'file' if more == 1 else 'files'} with branches that are left out")

    def convert_file(self, file: InputFile, target: str) -> None:
        """Convert one file of any kind."""
        options = self.options
        if (options.documents or file.kind) == "table":
            from turntree._cli._parquet import convert_parquet

            self._count(convert_parquet(file, target, options, self.report_failure, self.progress))
            return
        if options.column is not None:
            raise CliError(f"{file.path}: --column is for .parquet files", 2)
        with ExitStack() as stack:
            try:
                source = _source(file, options, stack)
            except (CliError, ValidationError) as error:
                if options.on_error == "stop":
                    raise
                self._skip(file, error)
                return
            if target != STANDARD_STREAM:
                Path(target).parent.mkdir(parents=True, exist_ok=True)
            output = standard_output() if target == STANDARD_STREAM else target
            durable = not options.no_sync
            destination, finish = open_target(output, stack, overwrite=bool(options.force), durable=durable)
            report = _convert_lines(
                source,
                destination,
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
                name=file.display_name,
                max_bytes=None,
            )
            finish()
        self._count(report)

    def _skip(self, file: InputFile, error: Exception) -> None:
        """Report a file that does not have the branch."""
        message = str(error).removeprefix(f"{file.display_name}: ")
        issue = {"path": file.display_name, "pointer": "", "rule": "branch", "message": message, "severity": "error"}
        self.report_failure(DocumentIssue.model_validate(issue))
        self.failed += 1

    def _on_error(self) -> Any:
        return "raise" if self.options.on_error == "stop" else self.report_failure

    def _count(self, report: Report) -> None:
        self.progress.add(report)
        self.documents += report.documents
        self.failed += report.failed
        self.bytes += report.bytes_in
        self.written += report.bytes_out

    def _print_event(self, kind: str, values: dict[str, Any]) -> None:
        print_event(kind, values, sys.stderr if self.writes_documents else None)

    def summarize(self) -> int:
        """Print the summary and return the exit status."""
        seconds = time.monotonic() - self.progress.start_time
        if self.options.json:
            counts = {"files": self.files, "documents": self.documents, "failed": self.failed}
            sizes = {"bytes_in": self.bytes, "bytes_out": self.written, "seconds": round(seconds, 3)}
            self._print_event("summary", {**counts, **sizes})
            return 1 if self.failed else 0
        if self.failures > MAX_PRINTED_FAILURES:
            print_error(f"… and {self.failures - MAX_PRINTED_FAILURES} more", 1)
        if self.failed:
            print_error(f"{self.failed} of {self.documents + self.failed} documents were skipped", 1)
        if self.progress.is_visible:
            size, rate = self.bytes / 1e6, self.bytes / 1e6 / max(seconds, 1e-6)
            summary = f"{document_count(self.documents)}, {size:.1f} MB in {seconds:.1f} s ({rate:.0f} MB/s)"
            print(summary, file=sys.stderr)
        return 1 if self.failed else 0

"""The command ``turntree validate``."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from itertools import groupby
from typing import TYPE_CHECKING, Any

from turntree._bulk import open_source
from turntree._cli._convert import add_jobs, is_small
from turntree._cli._files import InputFile, input_files, standard_input
from turntree._cli._terminal import CliError, document_count, printable, printable_json
from turntree._core import DocumentIssue, Report, _convert_files, _convert_lines, _formats

if TYPE_CHECKING:
    import argparse

LISTED = 3
"""The maximum number of issues of a rule that are printed."""


def add(commands: Any) -> None:
    """Add the command to a parser."""
    readable, _ = _formats()
    parser: argparse.ArgumentParser = commands.add_parser(
        "validate",
        help="check conversations against the rules of ThreadProtocol",
        description="Checks conversations against the rules of ThreadProtocol. Prints the number of violations of each "
        f"rule and the first {LISTED}; --json prints all.",
        allow_abbrev=False,
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="files or directories; - is standard input")
    parser.add_argument("--from", dest="from_", choices=readable, help="input format (default: from the content)")
    parser.add_argument(
        "--documents", choices=("lines", "whole", "auto"), help="one document per line, or one per file"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per issue")
    add_jobs(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Validate the files and return the exit status."""
    validation = _Validation(options)
    for small, group in groupby(input_files(options.files), key=lambda file: is_small(file, options)):
        if small:
            validation.validate_small_files(list(group))
        else:
            for file in group:
                validation.validate_file(file)
    return validation.summarize()


class _Validation:
    """One run of the command: its options and counts."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.documents = self.failed = 0
        self.groups: dict[tuple[str, str], _IssueGroup] = {}

    def validate_small_files(self, files: list[InputFile]) -> None:
        """Validate files of one document each, in parallel."""
        self._count(
            _convert_files(
                [(file.path, "", False, False) for file in files],
                from_=self.options.from_,
                to=None,
                jobs=self.options.jobs,
                on_error=self._add_issue,
                progress=None,
                profile="full",
                durable=False,
            )
        )

    def validate_file(self, file: InputFile) -> None:
        """Validate one file of any kind."""
        options = self.options
        if (options.documents or file.kind) == "table":
            raise CliError(f"{file.display_name}: cannot validate a .parquet file; convert it instead", 2)
        try:
            with ExitStack() as stack:
                report = _convert_lines(
                    standard_input(options.documents) if file.is_standard_input else open_source(file.path, stack)[0],
                    None,
                    from_=options.from_,
                    to=None,
                    jobs=options.jobs,
                    on_error=self._add_issue,
                    progress=None,
                    profile="full",
                    framing=options.documents or file.kind,
                    gzip=False,
                    overwrite=False,
                    durable=False,
                    name=file.display_name,
                    max_bytes=None,
                )
        except (OSError, ValueError) as error:
            if isinstance(error, BrokenPipeError):
                raise
            self.failed += 1
            self._add_issue(_issue_of(error, file.display_name))
        else:
            self._count(report)

    def _count(self, report: Report) -> None:
        self.documents += report.documents
        self.failed += report.failed

    def _add_issue(self, issue: DocumentIssue, _text: bytes = b"") -> None:
        if self.options.json:
            text = issue.to_json()
            print(printable_json(text) if sys.stdout.isatty() else text)
            return
        group = self.groups.setdefault((issue.severity, issue.rule), _IssueGroup())
        group.count += 1
        if group.count > LISTED:
            return
        line, pointer = [str(issue.line)] if issue.line else [], [issue.pointer] if issue.pointer else []
        position = ":".join([issue.path or "", *line, *pointer])
        group.lines.append(printable(f"{position}: {issue.severity}: {issue.message} [{issue.rule}]"))

    def summarize(self) -> int:
        """Print the issues by rule and the summary, and return the exit status."""
        if not self.options.json:
            # Errors precede warnings; otherwise the rules have the order of their first issues.
            for (severity, rule), group in sorted(self.groups.items(), key=lambda item: item[0][0] != "error"):
                if group.count == 1:
                    print(*group.lines)
                    continue
                print(f"{printable(rule)}: {group.count} {severity}s")
                for line in group.lines:
                    print(f"  {line}")
                if group.count > LISTED:
                    print(f"  … and {group.count - LISTED} more; --json prints all")
            result = f"{self.failed} with errors" if self.failed else "all valid"
            print(f"{document_count(self.documents + self.failed)}, {result}", file=sys.stderr)
        return 1 if self.failed else 0


class _IssueGroup:
    """The number of issues of one rule, and the lines of the first ones."""

    def __init__(self) -> None:
        self.count = 0
        self.lines: list[str] = []


def _issue_of(error: OSError | ValueError, name: str) -> DocumentIssue:
    """Return the issue of a file that cannot be read."""
    message = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return DocumentIssue.model_validate(
        {
            "path": name,
            "pointer": "",
            "rule": "io" if isinstance(error, OSError) else "format",
            "message": message.removeprefix(f"{name}: "),
            "severity": "error",
        }
    )

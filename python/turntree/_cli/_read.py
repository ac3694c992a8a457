"""``turntree validate``, ``turntree show`` and ``turntree tree``."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from io import TextIOWrapper
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from turntree._bulk import opened
from turntree._cli._convert import add_jobs, is_small
from turntree._cli._files import Input, find, open_input, said
from turntree._cli._terminal import CliError, complain, plain, wants_colours
from turntree._core import DocumentIssue, Report, _convert_files, _convert_lines, _formats, _render
from turntree.exceptions import ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterator

STANDARD_NAME = "standard input"


def add(commands: Any) -> None:
    """Add the commands to a parser."""
    readable, _ = _formats()
    validate: argparse.ArgumentParser = commands.add_parser(
        "validate",
        help="check conversations against the rules of ThreadProtocol",
        description="Checks conversations against the rules of ThreadProtocol, and says what is wrong and where.",
        allow_abbrev=False,
    )
    validate.add_argument("files", nargs="*", metavar="FILE", help="files or directories; - is standard input")
    validate.add_argument("--from", dest="from_", choices=readable, help="the format (told by content)")
    validate.add_argument("--documents", choices=("lines", "whole", "auto"), help="where one document of a file ends")
    validate.add_argument("--json", action="store_true", help="one JSON object a line for each issue")
    add_jobs(validate)
    validate.set_defaults(run=_validate)

    show: argparse.ArgumentParser = commands.add_parser(
        "show",
        help="show a conversation",
        description="Shows threads, histories, sessions and trees as a transcript.",
        allow_abbrev=False,
    )
    _add_shown(show, readable)
    show.add_argument("--html", action="store_true", help="a page that needs nothing else, with everything escaped")
    show.set_defaults(run=_show, what="all")

    tree: argparse.ArgumentParser = commands.add_parser(
        "tree",
        help="draw the branches of a session or a tree",
        description="Draws the branches of a session or a tree.",
        allow_abbrev=False,
    )
    _add_shown(tree, readable)
    tree.set_defaults(run=_show, what="tree", html=False)


def _add_shown(parser: argparse.ArgumentParser, readable: list[str]) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help="files; - is standard input")
    parser.add_argument("--from", dest="from_", choices=readable, help="the format (told by content)")
    parser.add_argument("--line", type=int, metavar="N", help="only this line of a .jsonl file, from 1")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="colours (auto)")


def _validate(options: argparse.Namespace) -> int:
    check = _Check(options)
    for small, group in groupby(find(options.files), key=lambda file: is_small(file, options)):
        if small:
            check.together(list(group))
        else:
            for file in group:
                check.alone(file)
    return check.end()


class _Check:
    """One run of ``turntree validate``."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.documents = self.failed = 0

    def together(self, files: list[Input]) -> None:
        """Check many files of one document, side by side."""
        self._count(
            _convert_files(
                [(file.path, "", False, False) for file in files],
                from_=self.options.from_,
                to=None,
                jobs=self.options.jobs,
                on_error=self._say,
                progress=None,
                profile="full",
                durable=False,
            )
        )

    def alone(self, file: Input) -> None:
        """Check one file."""
        options = self.options
        name = STANDARD_NAME if file.is_standard else file.path
        if (options.documents or file.kind) == "table":
            raise CliError(f"{name}: .parquet files are converted, not validated", 2)
        try:
            with ExitStack() as stack:
                report = _convert_lines(
                    sys.stdin.buffer if file.is_standard else opened(file.path, stack)[0],
                    None,
                    from_=options.from_,
                    to=None,
                    jobs=options.jobs,
                    on_error=self._say,
                    progress=None,
                    profile="full",
                    framing=options.documents or file.kind,
                    gzip=False,
                    overwrite=False,
                    durable=False,
                    name=name,
                    max_bytes=None,
                )
        except (OSError, ValueError) as error:
            if isinstance(error, BrokenPipeError):
                raise
            self.failed += 1
            words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            rule = "io" if isinstance(error, OSError) else "format"
            message = words.removeprefix(f"{name}: ")
            issue = {"path": name, "pointer": "", "rule": rule, "message": message, "severity": "error"}
            self._say(DocumentIssue.model_validate(issue))
        else:
            self._count(report)

    def _count(self, report: Report) -> None:
        self.documents += report.documents
        self.failed += report.failed

    def _say(self, issue: DocumentIssue, _text: bytes = b"") -> None:
        if self.options.json:
            print(issue.to_json())
            return
        line, pointer = [str(issue.line)] if issue.line else [], [issue.pointer] if issue.pointer else []
        place = ":".join([issue.path or "", *line, *pointer])
        print(plain(f"{place}: {issue.severity}: {issue.message} [{issue.rule}]"))

    def end(self) -> int:
        """Sum up; give the exit status."""
        if not self.options.json:
            words = f"{self.failed} with errors" if self.failed else "all valid"
            print(f"{self.documents + self.failed} documents, {words}", file=sys.stderr)
        return 1 if self.failed else 0


def _show(options: argparse.Namespace) -> int:
    output: Any = sys.stdout
    if isinstance(output, TextIOWrapper):
        # A terminal that cannot show a character gets a question mark, not a traceback.
        output.reconfigure(errors="replace")
    style = "html" if options.html else "ansi" if wants_colours(options.color) else "text"
    status, shown = 0, 0
    for file in find(options.files):
        for name, document in _documents(file, options.line):
            try:
                text = _render(document, style=style, what=options.what, from_=options.from_, name=name)
            except ValidationError as error:
                complain(f"{name}: {error}")
                status = 1
                continue
            except ValueError as error:
                complain(str(error))
                status = 1
                continue
            output.write(("\n" if shown and style != "html" else "") + text)
            shown += 1
    return status


def _documents(file: Input, line: int | None) -> Iterator[tuple[str, bytes]]:
    """The documents of a file, with what to call each in errors. Of a file of lines one is in memory at a time."""
    name = STANDARD_NAME if file.is_standard else file.path
    if file.kind == "table":
        raise CliError(f"{name}: .parquet files are converted, not shown", 2)
    with ExitStack() as stack, said(file):
        source = open_input(file, stack)
        if line is not None:
            text = next(islice(source, line - 1, line), b"") if line > 0 else b""
            if not text.strip():
                raise CliError(f"{name}: there is no document in line {line}", 1)
            yield f"{name}:{line}", text
        elif file.kind == "lines":
            yield from ((f"{name}:{number}", text) for number, text in enumerate(source, 1) if text.strip())
        else:
            yield name, source.read()

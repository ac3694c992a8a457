"""``turntree validate``, ``turntree show`` and ``turntree tree``."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any

from turntree._bulk import opened
from turntree._command._convert import add_jobs
from turntree._command._files import Input, find, read_whole
from turntree._command._terminal import Complaint, complain, plain, wants_colours
from turntree._core import DocumentIssue, _convert_lines, _formats, _render
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
    documents = failed = 0
    for file in find(options.files):
        name = STANDARD_NAME if file.is_standard else file.path

        def found(issue: DocumentIssue, _text: bytes = b"", name: str = name) -> None:
            _say(issue, name, as_json=options.json)

        if (options.documents or file.kind) == "table":
            raise Complaint(f"{name}: .parquet files are converted, not validated", 2)
        try:
            with ExitStack() as stack:
                source = sys.stdin.buffer if file.is_standard else opened(file.path, stack)[0]
                report = _convert_lines(
                    source,
                    None,
                    from_=options.from_,
                    to=None,
                    jobs=options.jobs,
                    on_error=found,
                    progress=None,
                    profile="full",
                    framing=options.documents or file.kind,
                    gzip=False,
                    overwrite=False,
                    name=name,
                    max_bytes=None,
                )
        except (OSError, ValueError) as error:
            if isinstance(error, BrokenPipeError):
                raise
            failed += 1
            words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            rule = "io" if isinstance(error, OSError) else "format"
            issue = {"pointer": "", "rule": rule, "message": words.removeprefix(f"{name}: "), "severity": "error"}
            found(DocumentIssue.model_validate(issue))
        else:
            documents += report.documents
            failed += report.failed
    if not options.json:
        words = f"{failed} with errors" if failed else "all valid"
        print(f"{documents + failed} documents, {words}", file=sys.stderr)
    return 1 if failed else 0


def _say(issue: DocumentIssue, name: str, *, as_json: bool) -> None:
    if as_json:
        print(DocumentIssue.model_validate({**issue.to_dict(), "path": name}).to_json())
        return
    place = ":".join([name, *([str(issue.line)] if issue.line else []), *([issue.pointer] if issue.pointer else [])])
    print(plain(f"{place}: {issue.severity}: {issue.message} [{issue.rule}]"))


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
    """The documents of a file, with what to call each in errors."""
    name = STANDARD_NAME if file.is_standard else file.path
    data = read_whole(file)
    kind = file.kind
    if kind == "table":
        raise Complaint(f"{name}: .parquet files are converted, not shown", 2)
    if line is None and kind != "lines":
        yield name, data
        return
    lines = data.split(b"\n")
    if line is not None:
        if not 1 <= line <= len(lines) or not lines[line - 1].strip():
            raise Complaint(f"{name}: there is no document in line {line}", 1)
        yield f"{name}:{line}", lines[line - 1]
        return
    yield from ((f"{name}:{number}", text) for number, text in enumerate(lines, 1) if text.strip())

"""The commands ``turntree show`` and ``turntree tree``.

Text from documents is escaped: a document cannot control the terminal. The page of ``--html`` is unchanged in a file
or a pipe. The page of a session is that of `Session.inspect`, without its script.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from io import TextIOWrapper
from itertools import islice
from typing import TYPE_CHECKING, Any

from turntree._cli._files import InputFile, input_files, open_input, read_errors
from turntree._cli._parts import parts
from turntree._cli._stores import add_session, stored_session
from turntree._cli._terminal import CliError, print_error, print_json, wants_colours
from turntree._core import _formats, _render
from turntree.exceptions import ValidationError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator


def add(commands: Any) -> None:
    """Add the commands to a parser."""
    show: argparse.ArgumentParser = commands.add_parser(
        "show",
        help="show a conversation",
        description="Shows threads, histories, sessions and trees as a transcript.",
        allow_abbrev=False,
    )
    _add_arguments(show, "message or action")
    show.add_argument("--html", action="store_true", help="print a self-contained HTML page; all text is escaped")
    show.set_defaults(run=run, what="all")

    tree: argparse.ArgumentParser = commands.add_parser(
        "tree",
        help="draw the branches of a session or a tree",
        description="Draws the branches of a session or a tree.",
        allow_abbrev=False,
    )
    _add_arguments(tree, "node")
    tree.set_defaults(run=run, what="tree", html=False)


def _add_arguments(parser: argparse.ArgumentParser, part: str) -> None:
    readable, _ = _formats()
    parser.add_argument("files", nargs="*", metavar="FILE", help="files; - is standard input")
    add_session(parser)
    parser.add_argument("--from", dest="from_", choices=readable, help="input format (default: from the content)")
    parser.add_argument("--json", action="store_true", help=f"print one JSON object for each {part}")
    parser.add_argument("--line", type=int, metavar="N", help="only this line of a .jsonl file, from 1")
    parser.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="use of colours (default: auto)"
    )


def run(options: argparse.Namespace) -> int:
    """Print the documents and return the exit status."""
    if options.json and options.html:
        raise CliError("--json and --html exclude each other", 2)
    output: Any = sys.stdout
    if isinstance(output, TextIOWrapper):
        # Characters that the terminal's encoding lacks become question marks instead of an exception.
        output.reconfigure(errors="replace")
    if options.html:
        # A file or a pipe gets the page unchanged; a terminal would execute control characters.
        style = "terminal-html" if sys.stdout.isatty() else "html"
    else:
        style = "ansi" if wants_colours(options.color) else "text"
    status, shown = 0, 0
    for name, document in _all_documents(options):
        try:
            if options.json:
                for part in parts(document, options.what, options.from_, name):
                    print_json(part)
                continue
            text = (session_page(document) if options.html and options.from_ is None else None) or _render(
                document, style=style, what=options.what, from_=options.from_, name=name
            )
        except ValidationError as error:
            print_error(f"{name}: {error}", 1)
            status = 1
            continue
        except ValueError as error:
            print_error(str(error), 1)
            status = 1
            continue
        output.write(("\n" if shown and not options.html else "") + text)
        shown += 1
    return status


def session_page(document: bytes) -> str | None:
    """Return the page that shows a session: tree, messages, checkpoints, requests. None if it is no session.

    Raises:
        ValidationError: The session is invalid.
    """
    import json

    if b'"threadTree"' not in document:
        return None
    try:
        value = json.loads(document)
    except (ValueError, RecursionError):
        return None  # the renderer names the place
    if not isinstance(value, dict) or "threadTree" not in value:
        return None
    from turntree._agent import agent
    from turntree._session import Session
    from turntree.notebook._session_page import content
    from turntree.notebook._session_page import document as page
    from turntree.upp import scripted

    # The agent of a session is not stored, and the page needs none.
    session = Session.from_json(document, agent(model=scripted([])))
    return page(f"Session {session.id}", content(session))


def _all_documents(options: argparse.Namespace) -> Iterator[tuple[str, bytes]]:
    if (stored := stored_session(options)) is not None:
        yield options.session, stored
        return
    for file in input_files(options.files):
        yield from _documents(file, options.line)


def _documents(file: InputFile, line: int | None) -> Iterator[tuple[str, bytes]]:
    """Yield the documents of a file, with their names for errors. Only one line of a file is in memory at a time."""
    name = file.display_name
    if file.kind == "table":
        raise CliError(f"{name}: cannot show a .parquet file; convert it first", 2)
    with ExitStack() as stack, read_errors(file):
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

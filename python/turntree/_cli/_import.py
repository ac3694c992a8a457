"""The command ``turntree import``: conversations of other packages, as sessions of a store."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turntree._cli._stores import add_store, open_store
from turntree._cli._terminal import CliError, print_error, printable, printable_json
from turntree.exceptions import StoreError

if TYPE_CHECKING:
    from turntree._import.report import ImportStatus
    from turntree.store import ImportedSession, ImportReport

_FORMATS = ("langgraph", "openai-agents", "pydantic-ai")


def add(commands: Any) -> None:
    """Add the command to a parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "import",
        help="import conversations of LangGraph, the OpenAI Agents SDK or Pydantic AI into a store",
        description="Stores the conversations of another package as sessions. Reads SQLite files of LangGraph's "
        "SqliteSaver and of SQLiteSession of the OpenAI Agents SDK, and JSON of Pydantic AI (a file, JSON Lines, or a "
        "folder). The source does not change, and no session of the store is overwritten.",
        allow_abbrev=False,
    )
    parser.add_argument("source", metavar="SOURCE", help="the file or the folder")
    add_store(parser, required=True)
    parser.add_argument("--from", dest="from_", choices=_FORMATS, help="the format (default: found out)")
    parser.add_argument("--agent", metavar="ID", help="the id of the sessions' agent (default: the format)")
    parser.add_argument(
        "--messages-key", metavar="CHANNEL", default="messages", help="LangGraph's channel with the messages"
    )
    parser.add_argument("--dry-run", action="store_true", help="store nothing, only report")
    parser.add_argument(
        "--on-error",
        choices=("stop", "skip"),
        default="stop",
        help="for a conversation that is damaged, or whose id the store has: store nothing, or import the others",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object for each conversation")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Import, print the report, and return the exit status: 1 if a conversation was not imported."""
    if not Path(options.source).exists():
        raise CliError(f"{options.source}: No such file or directory; check the path", 2)
    with open_store(options.store) as opened:
        try:
            report = opened.import_from_sync(
                options.source,
                format=options.from_,
                agent=options.agent,
                messages_key=options.messages_key,
                dry_run=options.dry_run,
                on_error="raise" if options.on_error == "stop" else "skip",
                progress=sys.stderr.isatty(),
            )
        except StoreError as error:
            raise CliError(str(error)) from error
    if options.json:
        for session in report.sessions:
            text = json.dumps(_as_dict(session), ensure_ascii=False)
            print(printable_json(text) if sys.stdout.isatty() else text)
    else:
        _print_report(report)
    for session in report.sessions:
        if session.status in ("exists", "failed"):
            print_error(str(session.error), 1)
    return 1 if report.count("exists") or report.count("failed") else 0


def _as_dict(session: ImportedSession) -> dict[str, Any]:
    values = session._asdict()
    return {**values, "in_metadata": dict(session.in_metadata), "omitted": dict(session.omitted)}


def _print_report(report: ImportReport) -> None:
    print(f"{'status':8}  {'messages':>8}  {'branches':>8}  id")
    for session in report.sessions:
        counts = f"{session.messages:>8}  {session.branches:>8}"
        print(f"{session.status:8}  {counts}  {printable(session.id)}")
        for title, kinds in (("in metadata", session.in_metadata), ("omitted", session.omitted)):
            if kinds:
                listed = "; ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
                print(f"{'':30}  {title}: {printable(listed)}")
    imported = report.count("imported")
    verb = "can be imported" if report.dry_run else "imported"
    words: dict[ImportStatus, str] = {"empty": "empty", "exists": "in the store already", "failed": "failed"}
    others = [f"{number} {word}" for status, word in words.items() if (number := report.count(status))]
    print(", ".join([f"{imported} session{'' if imported == 1 else 's'} of {report.format} {verb}", *others]))

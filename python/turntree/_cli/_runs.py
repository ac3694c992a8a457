"""The command ``turntree runs``: the queue of a store."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import timezone
from typing import TYPE_CHECKING, Any

from turntree._cli._stores import add_store, limit_of, open_store
from turntree._cli._terminal import CliError, print_note, printable, printable_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turntree.store import Run, Store

_STATUSES = ("queued", "running", "waiting", "done", "failed")


def add(commands: Any) -> None:
    """Add the command to a parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "runs",
        help="list the queued and finished runs of a store",
        description="Lists the runs of the queue of a store, the newest first.",
        allow_abbrev=False,
    )
    add_store(parser, required=True)
    parser.add_argument("--status", choices=_STATUSES, help="only runs with this status")
    parser.add_argument("--session", metavar="ID", help="only runs of this session")
    parser.add_argument("--limit", type=limit_of, default=100, metavar="N", help="runs to list (default: 100)")
    parser.add_argument("--after", metavar="POSITION", help="where to go on: the position that the page before printed")
    parser.add_argument("--all", action="store_true", help="list all runs, without a limit")
    parser.add_argument("--json", action="store_true", help="print one JSON object for each run, with its turn")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the runs and return the exit status."""
    with open_store(options.store, must_exist=True) as opened:
        try:
            rows = _pages(opened, options)
            if options.json:
                for one in rows:
                    text = json.dumps(as_dict(one), ensure_ascii=False)
                    print(printable_json(text) if sys.stdout.isatty() else text)
            else:
                _print_table(rows)
        except ValueError as error:
            raise CliError(str(error), 2) from error
    return 0


def as_dict(one: Run) -> dict[str, Any]:
    """Return a run as JSON values."""
    return {
        "id": one.id,
        "session": one.session,
        "status": one.status,
        "agent": one.agent,
        "attempts": one.attempts,
        "error": one.error,
        "created_at": one.created_at.isoformat(),
        "updated_at": one.updated_at.isoformat(),
        "turn": None if one.turn is None else json.loads(one.turn.model_dump_json()),
    }


def _pages(opened: Store, options: argparse.Namespace) -> Iterator[Run]:
    after = options.after
    while True:
        page = opened.runs_sync(options.status, options.session, limit=options.limit, after=after)
        yield from page
        after = page.next
        if after is None:
            return
        if not options.all:
            sys.stdout.flush()
            print_note(f"there are more; go on with --after {after}")
            return


def _print_table(rows: Iterator[Run]) -> None:
    print(f"{'updated (UTC)':19}  {'status':8}  {'attempts':>8}  {'id':36}  session")
    for one in rows:
        time = one.updated_at.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
        print(f"{time}  {one.status:8}  {one.attempts:>8}  {printable(one.id):36}  {printable(one.session)}")
        if one.error is not None:
            print(f"{'':19}  {printable(one.error)}")

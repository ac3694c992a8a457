"""The command ``turntree sessions``, and stores as the source of other commands."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from turntree._cli._objects import load_store
from turntree._cli._terminal import CliError, print_note, printable, printable_json
from turntree.exceptions import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turntree.store import SessionInfo, Store


def add(commands: Any) -> None:
    """Add the command to a parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "sessions",
        help="list the sessions of a store",
        description="Lists the sessions of a store, the most recently updated first.",
        allow_abbrev=False,
    )
    add_store(parser, required=True)
    parser.add_argument("--agent", metavar="ID", help="only sessions of the agent with this id")
    parser.add_argument("--status", choices=("idle", "unfinished", "waiting"), help="only sessions with this status")
    parser.add_argument(
        "--updated-after", type=_time, metavar="TIME", help="only sessions that changed after this ISO 8601 time"
    )
    parser.add_argument("--limit", type=limit_of, default=100, metavar="N", help="sessions to list (default: 100)")
    parser.add_argument("--after", metavar="POSITION", help="where to go on: the position that the page before printed")
    parser.add_argument("--all", action="store_true", help="list all sessions, without a limit")
    parser.add_argument("--json", action="store_true", help="print one JSON object for each session")
    parser.set_defaults(run=run)


def add_store(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    """Add ``--store`` to a parser."""
    parser.add_argument(
        "--store",
        metavar="URL",
        required=required,
        help="the store: sqlite:///sessions.db, postgresql://…, or MODULE:STORE",
    )


def add_session(parser: argparse.ArgumentParser) -> None:
    """Add ``--store`` and ``--session`` to a parser of a command that reads documents."""
    add_store(parser)
    parser.add_argument("--session", metavar="ID", help="the session to read from the store")


def stored_session(options: argparse.Namespace) -> bytes | None:
    """Return the session that the options name, as JSON, or None if they name no store.

    Raises:
        CliError: An option is missing or the session does not exist.
    """
    if options.store is None:
        if options.session is not None:
            raise CliError("--session needs a store; pass its URL with --store", 2)
        return None
    if options.session is None:
        raise CliError("--store needs a session; pass its id with --session; turntree sessions lists the ids", 2)
    if options.files:
        raise CliError("pass files or a store, not both", 2)
    with open_store(options.store, must_exist=True) as opened:
        text = opened.load_sync(options.session)
    if text is None:
        raise CliError(f"the store has no session {options.session!r}; turntree sessions lists the ids")
    return text.encode()


class open_store:
    """Opens a store for a command, and closes it.

    Args:
        url: The URL, or ``module:name``.
        must_exist: Refuse the URL of a file or folder that does not exist, instead of creating it.
    """

    def __init__(self, url: str, *, must_exist: bool = False) -> None:
        if must_exist:
            _check_place(url)
        self._url = url
        self._store: Store | None = None

    def __enter__(self) -> Store:
        try:
            self._store = load_store(self._url)
        except StoreError as error:
            raise CliError(str(error)) from error
        return self._store

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        if self._store is not None:
            self._store.close_sync()
        if isinstance(error, StoreError):
            raise CliError(str(error)) from error


def _check_place(url: str) -> None:
    scheme, _, rest = url.partition(":///")
    if scheme not in ("sqlite", "file") or not rest:
        return
    place = Path(unquote(rest if scheme == "sqlite" else f"/{rest}"))
    if not place.exists():
        raise CliError(f"{place}: No such file or directory; check the URL of the store", 2)


def run(options: argparse.Namespace) -> int:
    """Print the sessions and return the exit status."""
    with open_store(options.store, must_exist=True) as opened:
        rows = _pages(opened, options)
        if options.json:
            for info in rows:
                text = json.dumps(as_dict(info), ensure_ascii=False)
                print(printable_json(text) if sys.stdout.isatty() else text)
            return 0
        _print_table(rows)
    return 0


def as_dict(info: SessionInfo) -> dict[str, Any]:
    """Return a row of the list as JSON values."""
    return {
        "id": info.id,
        "agent": info.agent,
        "status": info.status,
        "turns": info.turns,
        "nodes": info.nodes,
        "updated_at": info.updated_at.isoformat(),
        "bytes": info.bytes,
    }


def _pages(opened: Store, options: argparse.Namespace) -> Iterator[SessionInfo]:
    after = options.after
    while True:
        page = opened.sessions_sync(
            options.agent, options.status, options.updated_after, limit=options.limit, after=after
        )
        yield from page
        after = page.next
        if after is None:
            return
        if not options.all:
            sys.stdout.flush()
            print_note(f"there are more; go on with --after {printable(after)!r}")
            return


def _print_table(rows: Iterator[SessionInfo]) -> None:
    print(f"{'updated (UTC)':19}  {'status':10}  {'turns':>6}  {'nodes':>6}  {'bytes':>10}  agent  id")
    for info in rows:
        time = info.updated_at.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
        counts = f"{info.turns:>6}  {info.nodes:>6}  {info.bytes:>10}"
        print(f"{time}  {info.status:10}  {counts}  {printable(info.agent)}  {printable(info.id)}")


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a time such as 2026-05-01T12:00:00Z, not {text!r}") from None
    return time if time.tzinfo else time.replace(tzinfo=timezone.utc)


def limit_of(text: str) -> int:
    """Return the number that an option gives.

    Raises:
        argparse.ArgumentTypeError: The text is not a positive number.
    """
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a number from 1, not {text!r}")
    return int(text)

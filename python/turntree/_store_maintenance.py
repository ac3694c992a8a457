"""The methods of stores that work on all sessions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, cast

from turntree import _core
from turntree._import.report import ImportFormat, ImportReport
from turntree._options import check_progress

if TYPE_CHECKING:
    from turntree.store import Store

__all__ = ["Maintenance", "PruneResult", "StoreIssue"]


class StoreIssue(NamedTuple):
    """A defect that `Store.check` has found."""

    session: str | None
    """The id of the damaged session; None if the defect is of the whole store."""
    message: str
    """What is wrong."""

    def __str__(self) -> str:
        return self.message if self.session is None else f'session "{self.session}": {self.message}'


class PruneResult(NamedTuple):
    """What `Store.prune` has done."""

    shortened: int
    """The number of sessions that lost old checkpoints or other branches."""
    deleted: int
    """The number of deleted sessions."""
    spared: int
    """The number of old sessions that stay as they are: they have a run to resume, or changed meanwhile."""
    runs: int = 0
    """The number of removed runs of the queue that were done or failed."""


class Maintenance:
    """Methods of `Store` that work on all sessions."""

    __slots__ = ()

    _native: _core.StoreCore

    @property
    def schema(self) -> int | None:
        """The version of the layout in which data is stored; None for `memory`."""
        return self._native.schema

    async def check(self) -> list[StoreIssue]:
        """Find defects: damaged files, pages and indexes, and sessions that cannot be read.

        Every session is read, one at a time: the digests of all its entries, the data that they refer to, and the
        counts that `sessions` shows. Other processes may use the store meanwhile.

        Returns:
            The defects; an empty list if there are none.
        """
        return _issues(await cast("Awaitable[Any]", self._native.check(blocking=False)))

    def check_sync(self) -> list[StoreIssue]:
        """Like `check`, but blocks."""
        return _issues(self._native.check(blocking=True))

    async def export(self, path: str | PathLike[str], *, progress: bool = False) -> int:
        """Write all sessions to a file, in JSON Lines that do not depend on the engine.

        The file is complete and on disk, or unchanged: it is written under another name and renamed. An existing file
        is replaced. Other processes may use the store meanwhile. The file is not encrypted, also if the store is.

        Args:
            path: The file. Only its owner can read it.
            progress: Whether to show a bar of the sessions: of tqdm or rich if one of them is installed, else a line on
                a terminal.

        Returns:
            The number of sessions.

        Raises:
            CorruptDataError: Sessions are damaged; the message names them. The file is complete but for these, unless
                there are no others: then it is unchanged.
            StoreError: The file cannot be written.
        """
        with _shown(progress, self._native, "sessions") as native:
            return cast("int", await native.export(path, blocking=False))

    def export_sync(self, path: str | PathLike[str], *, progress: bool = False) -> int:
        """Like `export`, but blocks."""
        with _shown(progress, self._native, "sessions") as native:
            return cast("int", native.export(path, blocking=True))

    async def load_export(self, path: str | PathLike[str], *, progress: bool = False) -> int:
        """Store all sessions of a file of `export`, or none of them. No session is overwritten.

        The whole file is checked first. Also a process that is killed meanwhile leaves all sessions or none. What will
        be stored is in a temporary file meanwhile, which has no name and is not encrypted.

        Args:
            path: The file.
            progress: Whether to show a bar of the bytes that were read, as `export` does.

        Returns:
            The number of sessions.

        Raises:
            ConflictError: The store has one of the sessions.
            CorruptDataError: The file is damaged, cut off, or not an export; the message names the line.
            StoreError: The file cannot be read.
        """
        with _shown(progress, self._native, "bytes") as native:
            return cast("int", await native.load_export(path, blocking=False))

    def load_export_sync(self, path: str | PathLike[str], *, progress: bool = False) -> int:
        """Like `load_export`, but blocks."""
        with _shown(progress, self._native, "bytes") as native:
            return cast("int", native.load_export(path, blocking=True))

    async def import_from(
        self,
        source: str | PathLike[str],
        *,
        format: ImportFormat | None = None,
        agent: _Identified | str | None = None,
        messages_key: str = "messages",
        dry_run: bool = False,
        on_error: Literal["raise", "skip"] = "raise",
        progress: Callable[[int], object] | bool | None = None,
    ) -> ImportReport:
        """Store the conversations of another package as sessions, which an agent can continue. None is overwritten.

        Reads the SQLite files of LangGraph's ``SqliteSaver`` (every thread; ``turntree[import]`` is needed) and of the
        OpenAI Agents SDK (``SQLiteSession`` and ``AdvancedSQLiteSession``), and the JSON of Pydantic AI: a file, JSON
        Lines, or a folder. The source is opened for reading only, and no code in it is executed.

        Ids and times are kept. Branches become branches of the tree. The sessions are stored together: if the import
        fails, is cancelled or killed, none of them is. Until then they are in a temporary file, which has no name and
        is not encrypted.

        Args:
            source: The file or the folder.
            format: The format. Default: found out from the source.
            agent: The agent of the new sessions, or its id. Default: the name of the format.
            messages_key: The channel of LangGraph that has the messages.
            dry_run: Whether to store nothing, and only to report.
            on_error: What happens with a conversation that cannot be read, or whose id the store has. "raise": an
                error, and nothing is stored. "skip": the report names it, and the others are stored.
            progress: Called with the number of conversations that were read, on the thread that imports. True shows a
                bar with the rate and the failures: of tqdm or rich if one of them is installed, else a line on a
                terminal.

        Returns:
            What was done with each conversation, and what has no counterpart in sessions.

        Raises:
            ConflictError: The store has one of the sessions.
            CorruptDataError: The source is damaged; the message names the file and the thread, session, line or row.
            ImportError: A package is missing that the format needs.
            OSError: The source cannot be read.
            TypeError: `progress` is no function.
            ValueError: The source has an unknown format, or an argument is invalid.
        """
        import asyncio
        import threading

        from turntree._import.importer import ImportOptions, import_sessions

        options = ImportOptions(source, format, _agent_id(agent), messages_key, dry_run, on_error, progress)
        stopped = threading.Event()
        try:
            return await asyncio.to_thread(import_sessions, cast("Store", self), options, stopped)
        finally:
            stopped.set()  # after a cancellation

    def import_from_sync(
        self,
        source: str | PathLike[str],
        *,
        format: ImportFormat | None = None,
        agent: _Identified | str | None = None,
        messages_key: str = "messages",
        dry_run: bool = False,
        on_error: Literal["raise", "skip"] = "raise",
        progress: Callable[[int], object] | bool | None = None,
    ) -> ImportReport:
        """Like `import_from`, but blocks."""
        from turntree._import.importer import ImportOptions, import_sessions

        options = ImportOptions(source, format, _agent_id(agent), messages_key, dry_run, on_error, progress)
        return import_sessions(cast("Store", self), options)

    async def prune(self, older_than: timedelta | datetime, keep_heads: bool = True) -> PruneResult:  # noqa: FBT001, FBT002
        """Remove what old sessions no longer need, and old runs. Sessions with a run to resume are spared.

        The runs of the queue are removed that are done or failed and did not change since then. Their ids are unknown
        afterwards, so that a message which is enqueued again is executed again.

        Args:
            older_than: An age, or a time: sessions that did not change since then are old. A time without a time zone
                is in UTC.
            keep_heads: If True, old sessions keep the messages of the current branch, and lose checkpoints and other
                branches. If False, they are deleted.

        Raises:
            CorruptDataError: A session cannot be read; see `check`.
            TypeError: `older_than` has another type.
            ValueError: The age is negative.
        """
        before = _before(older_than)
        return PruneResult(*await cast("Awaitable[Any]", self._native.prune(before, keep_heads, blocking=False)))

    def prune_sync(self, older_than: timedelta | datetime, keep_heads: bool = True) -> PruneResult:  # noqa: FBT001, FBT002
        """Like `prune`, but blocks."""
        return PruneResult(*self._native.prune(_before(older_than), keep_heads, blocking=True))

    async def rotate(self) -> int:
        """Encrypt all sessions with the first key of `encrypted`, one after the other.

        It can be repeated after a failure; sessions that are done are skipped. Handles of a changed session raise
        `ConflictError` when they are saved; reload them.

        Returns:
            The number of sessions that were changed.

        Raises:
            CorruptDataError: A session cannot be decrypted.
            ValueError: The store is not encrypted.
        """
        return cast("int", await self._native.rotate(blocking=False))

    def rotate_sync(self) -> int:
        """Like `rotate`, but blocks."""
        return cast("int", self._native.rotate(blocking=True))


class _Identified(Protocol):
    """An agent."""

    @property
    def id(self) -> str: ...


@contextmanager
def _shown(progress: bool, native: _core.StoreCore, what: str) -> Generator[_core.StoreCore]:  # noqa: FBT001
    """Return a handle of the store; its operation is shown as a bar if `progress` is true."""
    if not check_progress(progress):
        yield native
        return
    from turntree._progress import watched

    with watched(what) as counter:
        yield native.with_progress(counter)


def _agent_id(agent: _Identified | str | None) -> str | None:
    return agent if agent is None or isinstance(agent, str) else agent.id


def _before(older_than: timedelta | datetime) -> datetime:
    if isinstance(older_than, timedelta):
        if older_than < timedelta():
            message = f"older_than must not be negative: {older_than}"
            raise ValueError(message)
        now = datetime.now(timezone.utc)
        earliest = datetime.min.replace(tzinfo=timezone.utc)
        return earliest if older_than > now - earliest else now - older_than
    if isinstance(older_than, datetime):
        return older_than
    message = f"older_than must be a timedelta or a datetime, not {type(older_than).__name__}"
    raise TypeError(message)


def _issues(rows: Any) -> list[StoreIssue]:
    return [StoreIssue(*row) for row in rows]

"""Stores of sessions."""

from datetime import datetime
from os import PathLike
from typing import Any, final

@final
class ImportCore:
    """Sessions that are stored together, all or none."""

    def add(self, data: str) -> None:
        """Add a session that is given as JSON."""

    def commit(self, skips_existing: bool, blocking: bool) -> Any:
        """Store the sessions, all or none; return the ids of those that the store had, and that were left out."""

@final
class StoreProgress:
    """How far a long operation of a store is."""

    def __new__(cls) -> StoreProgress: ...
    @property
    def done(self) -> int:
        """The number of parts that are done."""

    @property
    def total(self) -> int:
        """The number of all parts; 0 until it is known."""

@final
class StoreCore:
    """The native half of ``turntree.store.Store``.

    With ``blocking=False``, operations return a coroutine.
    """

    @staticmethod
    def memory() -> StoreCore:
        """Create a store in the memory of this process."""

    @staticmethod
    def sqlite(path: str | PathLike[str], synchronous: str, read_only: bool) -> StoreCore:
        """Open a store in a SQLite file."""

    @staticmethod
    def file(path: str | PathLike[str]) -> StoreCore:
        """Open a store in a folder."""

    @staticmethod
    def postgres(url: str, synchronous: str, max_connections: int, schema: str | None) -> StoreCore:
        """Open a store in a PostgreSQL database."""

    @staticmethod
    def redis(url: str, prefix: str | None) -> StoreCore:
        """Open a store in a Redis server."""

    @property
    def name(self) -> str:
        """The name of the store in messages."""

    def sessions(
        self,
        agent: str | None,
        status: str | None,
        updated_after: datetime | None,
        limit: int,
        after: str | None,
        blocking: bool,
    ) -> Any:
        """List sessions: a page of tuples, and the position of the next page."""

    def delete(self, id: str, blocking: bool) -> Any:
        """Delete a session; return whether there was one."""

    def load(self, id: str, blocking: bool) -> Any:
        """Return a session as JSON, or None."""

    def save(self, id: str, data: str, blocking: bool) -> Any:
        """Store a session that is given as JSON. Replaces what the store has."""

    def importer(self) -> ImportCore:
        """Begin to store sessions together."""

    @property
    def schema(self) -> int | None:
        """The version of the layout in which data is stored, or None."""

    def check(self, blocking: bool) -> Any:
        """Find defects: a list of tuples of a session's id, or None, and a message."""

    def export(self, path: str | PathLike[str], blocking: bool) -> Any:
        """Write all sessions to a file; return their number."""

    def load_export(self, path: str | PathLike[str], blocking: bool) -> Any:
        """Store the sessions of an export; return their number."""

    def prune(self, before: datetime, keep_heads: bool, blocking: bool) -> Any:
        """Shorten or delete old sessions, remove old runs; return the numbers of each and of those spared."""

    def encrypted(self, keys: list[tuple[str, bytes]]) -> StoreCore:
        """Return a store that encrypts what this one stores."""

    def rotate(self, blocking: bool) -> Any:
        """Encrypt all sessions with the first key; return how many were changed."""

    def with_progress(self, progress: StoreProgress) -> StoreCore:
        """Return a handle of the same store whose exports and imports count how far they are."""

    def with_fence(self, token: int) -> StoreCore:
        """Return a handle of the same store whose saves fail if a newer lease of the session was issued."""

    def enqueue(
        self,
        id: str,
        session: str,
        input: str | None,
        agent: str | None,
        not_before: datetime | None,
        priority: int,
        blocking: bool,
    ) -> Any:
        """Add a run, or resume the session if there is no input; return the run's id."""

    def run(self, id: str, blocking: bool) -> Any:
        """Return a run as a tuple, or None."""

    def runs(self, status: str | None, session: str | None, limit: int, after: str | None, blocking: bool) -> Any:
        """List runs: a page of tuples, and the position of the next page."""

    def claim(self, worker: str, agents: list[str], lease: float) -> Any:
        """Return a coroutine of a run as a tuple, its token, and whether it was started before; or None."""

    def heartbeat(self, session: str, token: int, lease: float) -> Any:
        """Extend a lease; return whether the worker still has it. Returns a coroutine."""

    def finish(
        self,
        run: str,
        session: str,
        token: int,
        outcome: str,
        text: str | None,
        delay: float,
        updated_at: datetime | None,
    ) -> Any:
        """Store how an attempt ended, and give the lease back. Returns a coroutine."""

    def wait_for_runs(self, timeout: float) -> Any:
        """Wait until a run may have become available. Returns a coroutine."""

    def close(self, blocking: bool) -> Any:
        """Close the store."""

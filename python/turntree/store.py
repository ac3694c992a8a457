"""Stores of sessions.

`memory`, `file`, `sqlite`, `postgres` and `redis` create a `Store`: an append-only log for each session. A save writes
only what is new. `encrypted` wraps one. Where a store is expected, its URL as text is one too:
``"sqlite:///sessions.db"``.

Any object with the methods ``save(key, data)``, ``load(key)`` and ``delete(key)``, sync or async, is a store too; see
`PersistenceAdapter`. It receives the whole session as JSON.

Spec: UAP-1.0 §14.2.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from os import PathLike
from types import TracebackType
from typing import Any, Literal, NamedTuple, Protocol, cast
from weakref import WeakValueDictionary

from turntree import _core
from turntree._argument_errors import explain_arguments
from turntree._import.report import ImportedSession, ImportReport
from turntree._peer_arguments import STORE
from turntree._public_names import set_public_module
from turntree._queued_runs import Identified, Run, RunPage, RunStatus, new_run, run_from, run_page
from turntree._session_id import check_id
from turntree._store_maintenance import Maintenance, PruneResult, StoreIssue
from turntree._typing import Self

SessionStatus = Literal["idle", "unfinished", "waiting"]

__all__ = [
    "ImportReport",
    "ImportedSession",
    "PersistenceAdapter",
    "PruneResult",
    "Run",
    "RunPage",
    "SessionInfo",
    "SessionPage",
    "Store",
    "StoreIssue",
    "encrypted",
    "file",
    "from_url",
    "memory",
    "postgres",
    "redis",
    "sqlite",
]


class PersistenceAdapter(Protocol):
    """The interface of stores. Each method may be sync or async; sync methods are called in a thread.

    A store may have a fourth method, ``compare_and_save(key, data, expected) -> bool``: it stores `data` if the text
    under the key is `expected` (None: there is none), and returns whether it did. A session whose stored text was
    changed by another writer then raises `ConflictError` when it is saved.
    """

    def save(self, key: str, data: str, /) -> Awaitable[object] | object:
        """Store a text under a key. Replaces the previous text."""

    def load(self, key: str, /) -> Awaitable[str | None] | str | None:
        """Return the text under a key, or None."""

    def delete(self, key: str, /) -> Awaitable[object] | object:
        """Delete the text under a key. No effect if there is none."""


class SessionInfo(NamedTuple):
    """What a list of sessions shows of a session."""

    id: str
    """The session's id."""
    agent: str
    """The id of the agent that the session was created with."""
    status: SessionStatus
    """"idle"; "unfinished": `Session.resume` has a run to continue; "waiting": calls of that run wait for approval."""
    turns: int
    """The number of user messages of the tree."""
    nodes: int
    """The number of nodes of the tree."""
    updated_at: datetime
    """The time of the last change, in UTC."""
    bytes: int
    """The size of the stored data in bytes."""


class SessionPage(list[SessionInfo]):
    """A page of sessions.

    Attributes:
        next: The position of the next page, for the argument `after` of `Store.sessions`; None for the last page.
    """

    def __init__(self, sessions: Iterable[SessionInfo], next: str | None) -> None:
        super().__init__(sessions)
        self.next = next


class Store(Maintenance):
    """A store of sessions. Created by `memory` and `from_url`.

    Every method has a twin that blocks, with the suffix ``_sync``; it also works inside a running event loop.

    Raises:
        StoreError: The store cannot be reached, is closed, full or read-only. Every method raises it.
        CorruptDataError: Stored data cannot be read.
    """

    __slots__ = ("__weakref__", "_native")

    def __init__(self, native: _core.StoreCore) -> None:
        self._native = native

    def __reduce__(self) -> Any:
        """Refuse to be pickled."""
        message = "a store cannot be pickled: give its URL, and write store.from_url(url) in the process that uses it"
        raise TypeError(message)

    async def sessions(
        self,
        agent: str | None = None,
        status: SessionStatus | None = None,
        updated_after: datetime | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> SessionPage:
        """List sessions, the most recently updated first.

        Args:
            agent: Only sessions of the agent with this id.
            status: Only sessions with this status.
            updated_after: Only sessions that changed after this time.
            limit: The largest number of sessions of the page, at least 1.
            after: The position that the page starts after: ``page.next`` of the page before it.

        Raises:
            ValueError: An argument is invalid.
        """
        rows = self._native.sessions(agent, status, updated_after, _positive(limit), after, blocking=False)
        return _page(await cast("Awaitable[Any]", rows))

    def sessions_sync(
        self,
        agent: str | None = None,
        status: SessionStatus | None = None,
        updated_after: datetime | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> SessionPage:
        """Like `sessions`, but blocks."""
        return _page(self._native.sessions(agent, status, updated_after, _positive(limit), after, blocking=True))

    async def delete(self, id: str) -> bool:
        """Delete a session with all its data. Handles of the session raise `ConflictError` when they are saved.

        Args:
            id: The session's id, or ``session:`` and the id in percent-encoding, the key of `PersistenceAdapter`.

        Returns:
            True if the store had the session.
        """
        return cast("bool", await self._native.delete(_id_of(id), blocking=False))

    def delete_sync(self, id: str) -> bool:
        """Like `delete`, but blocks."""
        return cast("bool", self._native.delete(_id_of(id), blocking=True))

    async def load(self, key: str) -> str | None:
        """Return a session as JSON, or None.

        Args:
            key: The session's id or its key, as in `delete`.
        """
        return cast("str | None", await self._native.load(_id_of(key), blocking=False))

    def load_sync(self, key: str) -> str | None:
        """Like `load`, but blocks."""
        return cast("str | None", self._native.load(_id_of(key), blocking=True))

    async def save(self, key: str, data: str) -> None:
        """Store a session that is given as JSON. Replaces the stored session.

        Args:
            key: The session's id or its key, as in `delete`.
            data: The JSON of `Session.to_json`.

        Raises:
            ValidationError: `data` is not the JSON of a session.
            ValueError: `data` is another session than that of `key`.
        """
        await self._native.save(_id_of(key), data, blocking=False)

    def save_sync(self, key: str, data: str) -> None:
        """Like `save`, but blocks."""
        self._native.save(_id_of(key), data, blocking=True)

    async def enqueue(
        self,
        session_id: str,
        input: str | _core.UserMessage | Sequence[Any] | None,
        agent: Identified | str | None = None,
        not_before: datetime | None = None,
        priority: int = 0,
    ) -> str:
        """Add a run of a session to the queue of the store's workers. Only with SQLite, PostgreSQL and memory.

        The runs of one session are executed in the order in which they were enqueued. When the method has returned,
        the run is stored as durably as a saved session.

        Args:
            session_id: The session's id. A session that does not exist is created by the worker.
            input: As `Agent.run` takes it, but one message. The id of a `UserMessage` becomes the run's id, and
                enqueueing the message again adds nothing. None resumes the session: a waiting run goes on, otherwise
                a run is added that resumes the unfinished run of the session.
            agent: The agent, or its name or id: only workers with this agent execute the run. Default: all workers.
            not_before: The time before which the run does not start. It does not block later runs of the session.
            priority: Sessions whose next run has a higher priority are served first.

        Returns:
            The run's id, for `run`.

        Raises:
            TypeError: `input` cannot be a user message, or `agent` is not an agent.
            ValueError: The store has no queue, `session_id` is not a session id, or `priority` is out of range.
        """
        check_id(session_id)
        arguments = new_run(session_id, input, agent, not_before, priority)
        return cast("str", await self._native.enqueue(*arguments, blocking=False))

    def enqueue_sync(
        self,
        session_id: str,
        input: str | _core.UserMessage | Sequence[Any] | None,
        agent: Identified | str | None = None,
        not_before: datetime | None = None,
        priority: int = 0,
    ) -> str:
        """Like `enqueue`, but blocks."""
        check_id(session_id)
        arguments = new_run(session_id, input, agent, not_before, priority)
        return cast("str", self._native.enqueue(*arguments, blocking=True))

    async def run(self, run_id: str) -> Run:
        """Return a run.

        Args:
            run_id: The id that `enqueue` has returned.

        Raises:
            KeyError: The store has no run with this id.
            ValueError: The store has no queue.
        """
        return run_from(run_id, await cast("Awaitable[Any]", self._native.run(run_id, blocking=False)))

    def run_sync(self, run_id: str) -> Run:
        """Like `run`, but blocks."""
        return run_from(run_id, self._native.run(run_id, blocking=True))

    async def runs(
        self, status: RunStatus | None = None, session: str | None = None, limit: int = 100, after: str | None = None
    ) -> RunPage:
        """List the runs of the queue, the newest first.

        Args:
            status: Only runs with this status.
            session: Only runs of the session with this id.
            limit: The largest number of runs of the page, at least 1.
            after: The position that the page starts after: ``page.next`` of the page before it.

        Raises:
            ValueError: An argument is invalid, or the store has no queue.
        """
        rows = self._native.runs(status, session, _positive(limit), after, blocking=False)
        return run_page(await cast("Awaitable[Any]", rows))

    def runs_sync(
        self, status: RunStatus | None = None, session: str | None = None, limit: int = 100, after: str | None = None
    ) -> RunPage:
        """Like `runs`, but blocks."""
        return run_page(self._native.runs(status, session, _positive(limit), after, blocking=True))

    async def close(self) -> None:
        """Close the store. Later operations raise `StoreError`."""
        self._forget()
        await self._native.close(blocking=False)

    def close_sync(self) -> None:
        """Like `close`, but blocks."""
        self._forget()
        self._native.close(blocking=True)

    def _forget(self) -> None:
        """Let `from_url` open the store anew."""
        for url in [url for url, store in _opened.items() if store is self]:
            del _opened[url]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close_sync()

    def __repr__(self) -> str:
        return f"<Store: {self._native.name}>"


def memory() -> Store:
    """Create a store in the memory of this process."""
    # Without the frame that explains missing arguments: sessions without a store have one of these.
    created = Store.__new__(Store)
    created._native = _core.StoreCore.memory()
    return created


@explain_arguments(STORE)
def sqlite(
    path: str | PathLike[str], *, synchronous: Literal["full", "normal"] = "full", read_only: bool = False
) -> Store:
    """Open a store in a SQLite file, which is created if it does not exist.

    Several processes may use one file; it must not be on a network file system. The file is opened at the first
    operation.

    Args:
        path: The path of the file. Its folder must exist.
        synchronous: When a save is durable. "full": when it has returned; it survives a power failure. "normal": a
            crash of the process loses nothing, but a power failure may lose the last saves.
        read_only: Whether to open the file for reading only; it must exist then.

    Raises:
        StoreError: The folder does not exist, or the path is a folder.
        ValueError: `synchronous` is unknown, or the path is a URL.
    """
    if isinstance(path, str) and path.startswith("sqlite:"):
        message = f"sqlite() takes the path of a file, not a URL; write store.from_url({path!r})"
        raise ValueError(message)
    return Store(_core.StoreCore.sqlite(path, synchronous, read_only))


@explain_arguments(STORE)
def file(path: str | PathLike[str]) -> Store:
    """Open a store in a folder, with one log file for each session. The folder is created if it does not exist.

    Several processes may use one folder; it must not be on a network file system. A save is on disk when it has
    returned. For many sessions, or many processes, prefer `sqlite`.

    Args:
        path: The path of the folder. The folder above it must exist.

    Raises:
        StoreError: The folder above does not exist, or the path is a file.
    """
    return Store(_core.StoreCore.file(path))


@explain_arguments(STORE)
def postgres(
    url: str,
    *,
    synchronous: Literal["full", "normal"] = "full",
    max_connections: int = 8,
    schema: str | None = None,
) -> Store:
    """Use a PostgreSQL database as a store. The tables are created at the first operation.

    Args:
        url: ``postgresql://user:password@host:port/database``, with the options of libpq, such as ``?sslmode=require``.
        synchronous: When a save is durable. "full": when it has returned, as the server is configured. "normal": a
            crash of the server may lose the last saves (``synchronous_commit=off``).
        max_connections: The largest number of connections of this process.
        schema: The schema of the tables, which is created if it does not exist. Default: the first one of the search
            path.

    Raises:
        ValueError: An argument is invalid.
    """
    return Store(_core.StoreCore.postgres(url, synchronous, max_connections, schema))


@explain_arguments(STORE)
def redis(url: str, *, prefix: str | None = None) -> Store:
    """Use a Redis server as a store.

    A save is as durable as the server's configuration says: with ``appendonly yes`` and ``appendfsync always`` when it
    has returned, otherwise up to a second later or at the next snapshot.

    Args:
        url: ``redis://user:password@host:port/database``, or ``rediss://`` with TLS.
        prefix: What the names of all keys start with. Default: "turntree". Stores with different prefixes share
            nothing.

    Raises:
        ValueError: An argument is invalid.
    """
    return Store(_core.StoreCore.redis(url, prefix))


def encrypted(store: Store | str, keys: Mapping[str, bytes]) -> Store:
    """Encrypt what a store stores, with AES-256-GCM.

    Messages, metadata and all other content are encrypted. The ids of sessions and agents, times, status, counts, sizes
    and the ids of keys stay readable. Entries that were changed, swapped or moved are refused.

    Args:
        store: The store, or its URL.
        keys: Keys of 32 bytes by their ids. The first key encrypts, all of them decrypt; see `Store.rotate`. An id has
            1 to 64 printable characters.

    Raises:
        TypeError: A key or an id has another type.
        ValueError: There are no keys, or a key has another length.
    """
    items = keys.items() if isinstance(keys, Mapping) else None
    if items is None:
        message = f"keys must be a dict of ids and keys, not {type(keys).__name__}"
        raise TypeError(message)
    pairs: list[tuple[str, bytes]] = []
    for id, key in items:
        if not isinstance(id, str) or not isinstance(key, bytes):
            message = f"keys: expected a str and bytes, not {type(id).__name__} and {type(key).__name__}"
            raise TypeError(message)
        pairs.append((id, key))
    inner = from_url(store) if isinstance(store, str) else store
    if not isinstance(inner, Store):
        message = f"store must be a store of turntree or its URL, not {type(inner).__name__}"
        raise TypeError(message)
    return Store(inner._native.encrypted(pairs))


# Sessions that are opened with the same URL share a store.
_opened: WeakValueDictionary[str, Store] = WeakValueDictionary()


def from_url(url: str) -> Store:
    """Return the store with a URL. Calls with the same URL in one process return the same store while it is in use.

    Args:
        url: ``sqlite:///relative/path.db``, ``sqlite:////absolute/path.db``, ``file:///absolute/folder``,
            ``postgresql://…``, ``redis://…``, ``rediss://…`` or ``memory://``.

    Raises:
        ValueError: The URL has another scheme, or is invalid.
        StoreError: The store cannot be opened.
    """
    if not isinstance(cast("object", url), str):
        message = f"url must be a str, not {type(url).__name__}"
        raise TypeError(message)
    if (known := _opened.get(url)) is not None:
        return known
    scheme, separator, _ = url.partition("://")
    if not separator or scheme not in _ENGINES:
        schemes = ", ".join(f"{name}://" for name in _ENGINES)
        message = f"{_shown(url)!r} is not the URL of a store; it starts with one of: {schemes}"
        if not separator and url:
            message += f"; write {_url_of_path(url)!r} for a file of SQLite"
        raise ValueError(message)
    store = _opened[url] = _ENGINES[scheme](url)
    return store


def _url_of_path(path: str) -> str:
    """Return the URL of a SQLite store in a file."""
    return f"sqlite:///{path.removeprefix('./')}"


def _sqlite_from(url: str) -> Store:
    authority, slash, path = url.partition("://")[2].partition("/")
    if authority or not slash or not path:
        message = f"{url!r} has no path: expected sqlite:///relative/path.db or sqlite:////absolute/path.db"
        raise ValueError(message)
    from urllib.parse import unquote  # not part of the import of turntree

    return sqlite(unquote(path))


def _file_from(url: str) -> Store:
    authority, slash, path = url.partition("://")[2].partition("/")
    if authority or not slash or not path:
        message = f"{url!r} has no absolute path: expected file:///folder"
        raise ValueError(message)
    from urllib.parse import unquote

    return file("/" + unquote(path))


def _memory_from(_url: str) -> Store:
    return memory()


_ENGINES: dict[str, Callable[[str], Store]] = {
    "sqlite": _sqlite_from,
    "file": _file_from,
    "postgresql": postgres,
    "postgres": postgres,
    "redis": redis,
    "rediss": redis,
    "memory": _memory_from,
}

_PREFIX = "session:"

# The largest limit of a page that the engines take.
_LARGEST_PAGE = 2**31 - 1


def key_of(id: str) -> str:
    """Return the key of a session: ``session:`` and the id in percent-encoding."""
    from urllib.parse import quote

    return _PREFIX + quote(id, safe="")


def _id_of(key: str) -> str:
    if not isinstance(key, str):
        message = f"id must be a str, not {type(key).__name__}"
        raise TypeError(message)
    from urllib.parse import unquote

    return unquote(key[len(_PREFIX) :]) if key.startswith(_PREFIX) else key


def _shown(url: str) -> str:
    """Return a URL without what could be a password."""
    return url.partition("://")[0] + "://…" if "://" in url else url


def _positive(limit: int) -> int:
    if not isinstance(limit, int) or isinstance(limit, bool):
        message = f"limit must be an int, not {type(limit).__name__}"
        raise TypeError(message)
    if limit < 1:
        message = f"limit must be at least 1, not {limit}"
        raise ValueError(message)
    return min(limit, _LARGEST_PAGE)


def _page(answer: Any) -> SessionPage:
    rows, next = answer
    return SessionPage((SessionInfo(*row) for row in rows), next)


set_public_module(__name__, globals())

"""SQLite files of other applications, opened without changing anything beside or in them."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from turntree.exceptions import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from typing import Any

MAGIC = b"SQLite format 3\x00"
_WAL = 2


class Database:
    """A SQLite file in one read transaction. Values of type text are returned as bytes.

    Attributes:
        path: The file, for messages.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection

    def rows(self, statement: str, *arguments: object) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query.

        Raises:
            CorruptDataError: The file is damaged or locked.
        """
        try:
            yield from self._connection.execute(statement, arguments)
        except sqlite3.OperationalError as error:
            raise CorruptDataError(f"{self.path}: {error}") from error
        except sqlite3.Error as error:
            raise CorruptDataError(f"{self.path}: {error}; check the file with PRAGMA integrity_check") from error

    def columns(self) -> dict[str, set[str]]:
        """Return the columns of each table."""
        names = [text_of(name) for (name,) in self.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            name: {text_of(column) for (column,) in self.rows("SELECT name FROM pragma_table_info(?)", name)}
            for name in names
        }


def text_of(value: Any) -> str:
    """Return a value of a column as text; bytes that are not UTF-8 are escaped."""
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


@contextmanager
def open_database(path: Path) -> Generator[Database]:
    """Open a SQLite file for reading. Nothing is written: neither the file nor its ``-wal`` changes.

    Raises:
        CorruptDataError: The file is damaged, or was changed while it was read.
    """
    with ExitStack() as stack:
        is_wal = _is_wal(path)
        log, index = path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")
        has_log = is_wal and log.exists() and log.stat().st_size > 0
        opened, before = path, _state(path)
        if has_log and not index.exists():
            # SQLite would create the index beside the file.
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="turntree-import-")))
            opened = Path(shutil.copy(path, folder))
            shutil.copy(log, folder)
        is_immutable = is_wal and not has_log
        address = f"{opened.resolve().as_uri()}?mode=ro" + ("&immutable=1" if is_immutable else "")
        try:
            connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=30)
            stack.callback(connection.close)
            connection.text_factory = bytes
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.Error as error:
            raise CorruptDataError(f"{path}: the database cannot be read: {error}") from error
        yield Database(path, connection)
        if (is_immutable or opened is not path) and _state(path) != before:
            message = f"{path}: the file was changed while it was read; stop the application that writes it"
            raise CorruptDataError(message)


def _is_wal(path: Path) -> bool:
    with path.open("rb") as file:
        header = file.read(20)
    return len(header) == 20 and header[18] == _WAL


def _state(path: Path) -> tuple[object, ...]:
    log = path.with_name(path.name + "-wal")
    states = [file.stat() if file.exists() else None for file in (path, log)]
    return tuple(None if state is None else (state.st_size, state.st_mtime_ns) for state in states)

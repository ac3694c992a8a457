"""Sessions that are saved, for the cases of the group "store"."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cases import STEPS

POSTGRES = "TURNTREE_TEST_POSTGRES"
"""The variable with the URL of a PostgreSQL server."""

FOLDER = "TURNTREE_BENCH_FOLDER"
"""The variable with the folder of SQLite files, which `compare.py` removes."""

# In a process of its own: a process must not open a SQLite file with two copies of SQLite.
_CHECKPOINT = (
    "import sqlite3, sys\n"
    "connection = sqlite3.connect(sys.argv[1])\n"
    "connection.execute('PRAGMA wal_checkpoint(TRUNCATE)').fetchall()\n"
)


@dataclass
class Saved:
    """A prepared case.

    Attributes:
        once: One run of `STEPS` steps in a new session, sync or async. Returns the last text.
        size: Returns the bytes on disk of all sessions.
        messages: Returns the number of messages of the last session, as another process would read it.
    """

    once: Callable[[], Any]
    size: Callable[[], int]
    messages: Callable[[], int]

    def verify(self) -> None:
        """Check that a run was saved: the question, an answer for each step, and the results."""
        found, expected = self.messages(), 2 * STEPS
        if found != expected:
            raise ValueError(f"the saved session has {found} messages, expected {expected}")


def sqlite_file() -> Path:
    """Return the path of a new SQLite file."""
    return Path(tempfile.mkdtemp(dir=os.environ.get(FOLDER))) / "sessions.db"


def sqlite_size(path: Path) -> Callable[[], int]:
    """Return a function that returns the size of a SQLite file with everything in it that is in its log."""

    def size() -> int:
        subprocess.run([sys.executable, "-I", "-c", _CHECKPOINT, str(path)], check=True)
        return sum(file.stat().st_size for file in (path, path.with_name(path.name + "-wal")) if file.exists())

    return size


def postgres_schema(name: str) -> tuple[str, str]:
    """Return the URL of the server, and the name of a new schema."""
    schema = f"bench_{name}_{os.getpid()}"
    _query(f"CREATE SCHEMA {schema}")
    return os.environ[POSTGRES], schema


def postgres_size(schema: str) -> Callable[[], int]:
    """Return a function that returns the size of a schema with its indexes."""
    statement = (
        "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c JOIN pg_namespace n "
        f"ON n.oid = c.relnamespace WHERE n.nspname = '{schema}' AND c.relkind = 'r'"
    )
    return lambda: int(_query(statement))


def _query(statement: str) -> str:
    command = ["psql", os.environ[POSTGRES], "-X", "-q", "-A", "-t", "-c", statement]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

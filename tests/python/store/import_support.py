"""Sources of imports, for the tests of `Store.import_from`."""

import importlib.util
import shutil
import sqlite3
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "tests" / "data" / "imports"
HISTORIES = ROOT / "examples" / "data"

needs_msgpack = pytest.mark.skipif(
    importlib.util.find_spec("msgpack") is None, reason="NOT TESTED with LangGraph: msgpack is not installed"
)


def copy_of(name, folder):
    """A copy of a source, which a test may change."""
    return Path(shutil.copy(SOURCES / name, folder / name))


def change(path, statement, *arguments):
    """Change a copy with SQL."""
    connection = sqlite3.connect(path)
    with connection:
        changed = connection.execute(statement, arguments).rowcount
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    assert changed > 0


def texts(session):
    """Type and text of each message of the current branch."""
    return [(message.type, message.text) for message in session.tree.history()]


def drawn(session):
    """The names and numbers of messages of all nodes."""
    return [(node.name, node.branch_point, len(node.thread)) for node in session.tree.nodes.values()]

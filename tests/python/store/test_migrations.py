"""Stores that earlier versions of the schema have written open and continue.

``schemas/sqlite-N.sql`` has what version N has added: its tables as they were released, and rows of them.
"""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from turntree import Session, agent, store
from turntree._worker import Worker
from turntree.upp import scripted

SCHEMAS = Path(__file__).with_name("schemas")
VERSIONS = [int(path.stem.rpartition("-")[2]) for path in sorted(SCHEMAS.iterdir())]
HELPER = agent(id="5d7a2b0c-6c0e-4f57-9f0a-0e2f5f7f1a11", model=scripted(lambda request: "Noted."))


def written_by(version, path):
    """Make the file that a version has written."""
    database = sqlite3.connect(path)
    database.executescript("PRAGMA page_size = 512; PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;")
    for number in range(1, version + 1):
        database.executescript((SCHEMAS / f"sqlite-{number}.sql").read_text())
    database.executescript(f"PRAGMA application_id = {0x74747265}; PRAGMA user_version = {version};")
    database.close()


def questions(session):
    return [message.text for message in session.tree.history() if message.type == "user"]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_sqlite_file_of_each_version_opens_and_continues(tmp_path, version):
    path = tmp_path / "s.db"
    written_by(version, path)

    async with store.sqlite(path) as saved:
        assert await saved.check() == []
        session = await Session.load(saved, "customer-7", HELPER)
        assert questions(session) == ["My order is late.", "Where is it?"]
        await session.run("Thanks.")
        if version == 1:
            await saved.enqueue("customer-7", "Is it there?")
        # The worker of the file, if there was one, has died with its machine.
        (run,) = await saved.runs()
        worker = Worker(saved, HELPER)
        task = asyncio.create_task(worker.run())
        while (await saved.run(run.id)).status != "done":
            await asyncio.sleep(0.02)
        worker.stop()
        await task
        assert await saved.check() == []

    async with store.sqlite(path, read_only=True) as again:
        assert "Is it there?" in questions(await Session.load(again, "customer-7", HELPER))
    assert sqlite3.connect(path).execute("PRAGMA user_version").fetchone() == (max(VERSIONS),)


def test_each_version_of_the_schema_has_a_file():
    assert max(VERSIONS) == store.sqlite("none.db").schema
    assert list(range(1, max(VERSIONS) + 1)) == VERSIONS

"""Stores that earlier versions of the schema have written open and continue.

``schemas/sqlite-N.sql`` and ``schemas/postgres-N.sql`` have what version N has added: its tables as they were released,
and rows of them.
"""

import asyncio
import sqlite3
from pathlib import Path

import psycopg
import pytest
from store_engines import url_of

from turntree import Session, agent, store
from turntree._worker import Worker
from turntree.upp import scripted

SCHEMAS = Path(__file__).with_name("schemas")
HELPER = agent(id="5d7a2b0c-6c0e-4f57-9f0a-0e2f5f7f1a11", model=scripted(lambda request: "Noted."))


def versions(engine):
    return sorted(int(path.stem.rpartition("-")[2]) for path in SCHEMAS.glob(f"{engine}-*.sql"))


def statements(engine, version):
    """Return what the versions up to this one have added."""
    return "".join((SCHEMAS / f"{engine}-{number}.sql").read_text() for number in range(1, version + 1))


def questions(session):
    return [message.text for message in session.tree.history() if message.type == "user"]


async def open_and_continue(saved, version):
    """Check a store that a version has written, and continue its session and its queue."""
    assert await saved.check() == []
    session = await Session.load(saved, "customer-7", HELPER)
    assert questions(session) == ["My order is late.", "Where is it?"]
    await session.run("Thanks.")
    if version == 1:
        await saved.enqueue("customer-7", "Is it there?")
    # The worker of the store, if there was one, has died with its machine.
    (run,) = await saved.runs()
    worker = Worker(saved, HELPER)
    task = asyncio.create_task(worker.run())
    while (await saved.run(run.id)).status != "done":
        await asyncio.sleep(0.02)
    worker.stop()
    await task
    assert await saved.check() == []


@pytest.mark.parametrize("version", versions("sqlite"))
async def test_a_sqlite_file_of_each_version_opens_and_continues(tmp_path, version):
    path = tmp_path / "s.db"
    database = sqlite3.connect(path)
    database.executescript("PRAGMA page_size = 512; PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;")
    database.executescript(statements("sqlite", version))
    database.executescript(f"PRAGMA application_id = {0x74747265}; PRAGMA user_version = {version};")
    database.close()

    async with store.sqlite(path) as saved:
        await open_and_continue(saved, version)

    async with store.sqlite(path, read_only=True) as again:
        assert "Is it there?" in questions(await Session.load(again, "customer-7", HELPER))
    assert sqlite3.connect(path).execute("PRAGMA user_version").fetchone() == (max(versions("sqlite")),)


@pytest.mark.parametrize("version", versions("postgres"))
async def test_a_postgresql_schema_of_each_version_opens_and_continues(tmp_path, version, request):
    url = url_of("postgres", tmp_path, request.node.name)
    server, _, schema = url.partition("?schema=")
    with psycopg.connect(server, autocommit=True) as database:
        database.execute(f"CREATE SCHEMA {schema}; SET search_path TO {schema}; {statements('postgres', version)}")
        try:
            async with store.postgres(url) as saved:
                await open_and_continue(saved, version)

            async with store.postgres(url) as again:
                assert "Is it there?" in questions(await Session.load(again, "customer-7", HELPER))
            found = database.execute(f"SELECT version FROM {schema}.turntree_schema").fetchall()
            assert found == [(max(versions("postgres")),)]
        finally:
            database.execute(f"DROP SCHEMA {schema} CASCADE")


async def test_a_migrated_postgresql_schema_has_the_tables_of_a_new_one(tmp_path, request):
    url = url_of("postgres", tmp_path, request.node.name)
    server, _, schema = url.partition("?schema=")
    columns = """
        SELECT table_name, column_name, ordinal_position, data_type, collation_name, is_nullable, column_default,
            is_identity
        FROM information_schema.columns WHERE table_schema = %s ORDER BY 1, 3"""
    indexes = "SELECT replace(indexdef, %s || '.', '') FROM pg_indexes WHERE schemaname = %s ORDER BY 1"
    with psycopg.connect(server, autocommit=True) as database:
        database.execute(f"CREATE SCHEMA {schema}_1; SET search_path TO {schema}_1; {statements('postgres', 1)}")
        try:
            found = []
            for name in (f"{schema}_1", f"{schema}_new"):
                async with store.postgres(f"{server}?schema={name}") as saved:
                    assert await saved.check() == []
                tables = database.execute(columns, [name]).fetchall()
                found.append((tables, database.execute(indexes, [name, name]).fetchall()))
            assert found[0] == found[1]
            assert {"turntree_sessions", "turntree_runs", "turntree_records"} <= {row[0] for row in found[0][0]}
        finally:
            database.execute(f"DROP SCHEMA {schema}_1 CASCADE; DROP SCHEMA IF EXISTS {schema}_new CASCADE")


@pytest.mark.parametrize(
    ("engine", "newest"), [("sqlite", store.sqlite("none.db")), ("postgres", store.postgres("postgresql://h/d"))]
)
def test_each_version_of_the_schema_has_a_file(engine, newest):
    assert list(range(1, newest.schema + 1)) == versions(engine)

"""Empty PostgreSQL databases for the tests of durable engines."""

import os
import uuid

import pytest

POSTGRES = "TURNTREE_TEST_POSTGRES"


def postgres_database(schema: str | None = None) -> str:
    """Create an empty database and return its URL; `schema` "absurd" installs the schema of Absurd.

    Skips the test, and says so, if there is no server.
    """
    url = os.environ.get(POSTGRES)
    if url is None:
        if os.environ.get("TURNTREE_REQUIRE_SERVICES"):
            pytest.fail(f"{POSTGRES} is not set")
        pytest.skip(f"NOT TESTED with PostgreSQL: {POSTGRES} is not set")
    psycopg = pytest.importorskip("psycopg", reason="NOT TESTED with PostgreSQL: the package psycopg is not installed")
    name = f"durable_{uuid.uuid4().hex}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    created = url.rpartition("/")[0] + f"/{name}"
    if schema == "absurd":
        absurdctl = pytest.importorskip("absurdctl", reason="NOT TESTED: the package absurdctl is not installed")
        with psycopg.connect(created, autocommit=True) as connection:
            connection.execute(absurdctl.BUNDLED_SCHEMA_SQL)
            connection.execute("SELECT absurd.create_queue('default')")
    return created

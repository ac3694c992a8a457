"""The engines of stores that are tested."""

import os
import uuid

import pytest

SERVERS = {
    "postgres": "TURNTREE_TEST_POSTGRES",
    "pgbouncer": "TURNTREE_TEST_PGBOUNCER",
    "redis": "TURNTREE_TEST_REDIS",
}


def url_of(engine, folder, name):
    if engine == "sqlite":
        return f"sqlite:///{folder}/{name}.db"
    if engine == "file":
        return f"file://{folder}/{name}"
    if engine == "memory":
        return f"memory://{folder}/{name}"
    variable = SERVERS[engine]
    url = os.environ.get(variable)
    if url is None:
        if os.environ.get("TURNTREE_REQUIRE_SERVICES"):
            pytest.fail(f"{variable} is not set")
        pytest.skip(f"NOT TESTED with {engine}: {variable} is not set")
    name = "".join(letter if letter.isalnum() else "_" for letter in name).lower()[-44:]  # suffixes of tests fit too
    separator = "&" if "?" in url else "?"
    return f"{url}{separator}{'prefix' if engine == 'redis' else 'schema'}=t_{name}_{uuid.uuid4().hex[:8]}"


def texts(sess):
    return [message.text for message in sess.tree.history()]

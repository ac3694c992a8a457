"""The stores of the crash tests: a store of each engine, in a folder or on the servers of tools/test-services."""

import os
import uuid
from pathlib import Path

import pytest

LOCAL = ["sqlite", "file"]
DURABLE = [*LOCAL, "postgres", "redis"]
EVERY = ["memory", *DURABLE]

_SERVERS = {"postgres": ("TURNTREE_TEST_POSTGRES", "schema"), "redis": ("TURNTREE_TEST_REDIS", "prefix")}


def url_of(engine: str, folder: Path, name: str) -> str:
    """Return the URL of an empty store. Skips the test, and says so, if the engine needs a server that is absent."""
    if engine == "memory":
        return f"memory://{folder}/{name}"
    if engine == "sqlite":
        return f"sqlite:///{folder}/{name}.db"
    if engine == "file":
        return f"file://{folder}/{name}"
    variable, option = _SERVERS[engine]
    url = os.environ.get(variable)
    if url is None:
        if os.environ.get("TURNTREE_REQUIRE_SERVICES"):
            pytest.fail(f"{variable} is not set")
        pytest.skip(f"NOT TESTED with {engine}: {variable} is not set")
    return f"{url}{'&' if '?' in url else '?'}{option}=crash_{name}_{uuid.uuid4().hex[:12]}"

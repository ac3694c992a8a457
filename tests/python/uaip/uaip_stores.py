"""The stores of servers that are tested."""

import os
import secrets

import pytest

STORES = ("sqlite", "postgres")
VARIABLE = "TURNTREE_TEST_POSTGRES"


def store_url(kind, folder):
    """Return the URL of a new store: a file, or a schema of its own."""
    if kind == "sqlite":
        return f"sqlite:///{folder}/sessions.db"
    url = os.environ.get(VARIABLE)
    if url is None:
        if os.environ.get("TURNTREE_REQUIRE_SERVICES"):
            pytest.fail(f"{VARIABLE} is not set")
        pytest.skip(f"NOT TESTED with postgres: {VARIABLE} is not set")
    return f"{url}{'&' if '?' in url else '?'}schema=uaip_{secrets.token_hex(8)}"

"""The official SDK in an environment of its own, and the servers that the tests start."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from support.client_environment import client_environment

from turntree import mcp

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
OFFICIAL_SERVER = HERE / "official_server.py"
OFFICIAL_CLIENT = HERE / "official_client.py"
OWN_SERVER = HERE / "own_server.py"


def environment() -> str:
    """The Python of an environment with the official SDK."""
    return client_environment("mcp-clients", "the official SDK of MCP")


def model_events(events, kind):
    """The events of model calls and tools of one type, among the events of a stream."""
    return [event.upp for event in events if event.upp is not None and event.upp.type == kind]


TRANSPORTS = ["stdio", "http", "sse"]


@contextmanager
def listening(transport: str) -> Iterator[str]:
    process = subprocess.Popen([environment(), str(OFFICIAL_SERVER), transport], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        path = "sse" if transport == "sse" else "mcp"
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/{path}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@asynccontextmanager
async def connected(transport: str, **options: Any) -> AsyncIterator[mcp.McpServer]:
    if transport == "stdio":
        async with mcp.stdio(environment(), str(OFFICIAL_SERVER), "stdio", **options) as server:
            yield server
        return
    make = mcp.sse if transport == "sse" else mcp.http
    with listening(transport) as url:
        async with make(url, **options) as server:
            yield server

"""The official SDK in an environment of its own, and the servers that the tests start."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from turntree import mcp

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
REQUIREMENTS = ROOT / "requirements" / "mcp-clients.txt"
REQUIRED = any(os.environ.get(name, "") not in ("", "0") for name in ("CI", "TURNTREE_REQUIRE_CLIENTS"))
OFFICIAL_SERVER = HERE / "official_server.py"
OFFICIAL_CLIENT = HERE / "official_client.py"
OWN_SERVER = HERE / "own_server.py"


def environment() -> str:
    """The Python of an environment with the official SDK. Skips the test if it cannot be installed."""
    digest = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:16]
    home = ROOT / "target" / "mcp-clients" / f"{digest}-py{sys.version_info.major}{sys.version_info.minor}"
    python = home / "bin" / "python"
    home.parent.mkdir(parents=True, exist_ok=True)
    with (home.parent / f"{home.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests in other processes may be making it
        if not (home / ".ready").exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(home)], check=True)
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
            done = subprocess.run([*pip, "install", "-q", "-r", str(REQUIREMENTS)], capture_output=True, text=True)
            if done.returncode:
                reason = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
                message = f"NOT TESTED with the official SDK of {REQUIREMENTS.name}: {reason}"
                print(message)
                if REQUIRED:
                    pytest.fail(message)
                pytest.skip(message)
            (home / ".ready").touch()
    return str(python)


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

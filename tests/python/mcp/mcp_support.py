"""The official SDK in an environment of its own, and the servers that the tests start."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

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

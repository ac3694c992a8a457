"""Environments with packages of others, which tests start as programs."""

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
REQUIRED = any(os.environ.get(name, "") not in ("", "0") for name in ("CI", "TURNTREE_REQUIRE_CLIENTS"))


def not_tested(message: str) -> None:
    """Skip the test, or fail where the packages are required."""
    print(message)
    if REQUIRED:
        pytest.fail(message)
    pytest.skip(message)


def client_environment(requirements: str, what: str) -> str:
    """The Python of an environment with the packages of `requirements/NAME.txt`, made once below `target`.

    If they cannot be installed, `what` is not tested.
    """
    listed = ROOT / "requirements" / f"{requirements}.txt"
    digest = hashlib.sha256(listed.read_bytes()).hexdigest()[:16]
    home = ROOT / "target" / requirements / f"{digest}-py{sys.version_info.major}{sys.version_info.minor}"
    python = str(home / "bin" / "python")
    home.parent.mkdir(parents=True, exist_ok=True)
    with (home.parent / f"{home.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests in other processes may be making it
        if not (home / ".ready").exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(home)], check=True)
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
            done = subprocess.run([*pip, "install", "-q", "-r", str(listed)], capture_output=True, text=True)
            if done.returncode:
                reason = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
                not_tested(f"NOT TESTED with {what}: {reason}")
            (home / ".ready").touch()
    return python

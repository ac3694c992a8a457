"""Installs a wheel into an empty environment and tries it: on every platform, with nothing but Python.

    python tools/check_wheel.py dist/turntree-0.1.0-cp310-abi3-manylinux_2_28_x86_64.whl

Checks that the wheel is at most 15 MB, has no absolute paths in its bill of materials, installs no other package, and
that an agent, a store, the command and the hook program work; on Linux with glibc, that it needs no symbols of a newer
glibc than its name says. Prints the size, the time of the import and that of Python alone: the least of 20.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

LIMIT = 15_000_000
PROGRAM = """
import turntree
from turntree import store
from turntree.upp import ToolCall, scripted

def add(a: int, b: int) -> int:
    "Add."
    return a + b

helper = turntree.agent(model=scripted([ToolCall("c", "add", {"a": 1, "b": 2}), "It is 3."]), tools=[add])
with store.sqlite("check.db") as sessions:
    talk = turntree.session(helper, id="check", persistence=sessions)
    turn = talk.run_sync("1 + 2?")
    assert (turn.text, turn.tool_executions[0].result) == ("It is 3.", 3), turn
    assert [row.id for row in sessions.sessions_sync()] == ["check"]
print(f"turntree {turntree.__version__}")
"""
# A call as Claude Code sends it.
CALL = {"session_id": "check", "hook_event_name": "PreToolUse", "tool_name": "Bash"}


def bill_of_materials(wheel: Path) -> str:
    """Return the bill of materials in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".cyclonedx.json")]
        return archive.read(name).decode()


def newest_glibc(wheel: Path) -> tuple[int, int]:
    """Return the newest version of glibc whose symbols the files of a wheel name; (0, 0) for other libraries."""
    versions = {(0, 0)}
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith((".so", "/turntree-hook")):
                found = re.findall(rb"\0GLIBC_(\d+)\.(\d+)", archive.read(name))
                versions |= {(int(major), int(minor)) for major, minor in found}
    return max(versions)


def milliseconds(run: Callable[..., str], python: str, code: str) -> str:
    """Return the least time of 20 processes, and the least time of their processors."""
    program = f"import time; {code}; print(time.process_time())"
    walls, processors = [], []
    for _ in range(20):
        began = time.perf_counter()
        processors.append(float(run(python, "-I", "-c", program)))
        walls.append(time.perf_counter() - began)
    return f"{min(walls) * 1000:.0f} ms ({min(processors) * 1000:.0f} ms CPU)"


def check(wheel: Path) -> None:
    """Raise AssertionError or CalledProcessError if something is wrong with the wheel."""
    size = wheel.stat().st_size
    paths = re.findall(r'file:|path\+|"/|"[A-Z]:', bill_of_materials(wheel))
    assert not paths, f"{wheel.name}: the bill of materials has paths of this machine: {paths[:3]}"
    named = re.search(r"manylinux_(\d+)_(\d+)", wheel.name)
    needed = newest_glibc(wheel)
    if named is not None:
        allowed = (int(named[1]), int(named[2]))
        assert needed <= allowed, f"{wheel.name} needs glibc {needed[0]}.{needed[1]}"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = Path(folder) / "venv"
        venv.create(home, with_pip=True)
        programs = home / ("Scripts" if os.name == "nt" else "bin")
        python = str(programs / "python")
        pip = [python, "-m", "pip", "--disable-pip-version-check"]

        def run(*command: str) -> str:
            done = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True, timeout=300)
            return done.stdout

        def hook(command: str) -> int:
            event = json.dumps({**CALL, "cwd": folder, "tool_input": {"command": command}})
            program = str(programs / "turntree-hook")
            done = subprocess.run([program], input=event, cwd=folder, capture_output=True, text=True, timeout=60)
            return done.returncode

        run(*pip, "install", "--quiet", "--no-index", str(wheel.resolve()))
        installed = {line.partition("==")[0] for line in run(*pip, "list", "--format=freeze").split()}
        assert installed <= {"pip", "setuptools", "turntree"}, f"other packages were installed: {installed}"
        said = run(python, "-c", PROGRAM).strip()
        run(str(programs / "turntree"), "doctor", "--json")
        assert (hook("ls"), hook("git push --force origin main")) == (0, 2), "turntree-hook decides wrongly"
        times = [milliseconds(run, python, code) for code in ("import turntree", "pass")]
        print(f"{wheel.name}: {size / 1e6:.1f} MB; Python {sys.version.split()[0]}; {said}")
        print(f"  import turntree: {times[0]}; Python alone: {times[1]}; glibc {needed[0]}.{needed[1]}")
    assert size <= LIMIT, f"{wheel.name} has {size / 1e6:.1f} MB, more than {LIMIT / 1e6:.0f}"


if __name__ == "__main__":
    for each in sys.argv[1:]:
        check(Path(each))

"""Runs leave nothing behind: the memory of a process that has made many."""

import subprocess
import sys

import pytest

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")

# Bytes a run. Fewer than one object of Python's smallest kinds takes, and more than the allocators' own wandering.
BOUND = 64


@LINUX
@pytest.mark.timeout(300)
@pytest.mark.parametrize("way", ["run", "stream", "left", "session", "failing"])
def test_runs_leave_no_memory_behind(root, way):
    """From 2 000 to 6 000 runs, with an agent and a model of their own each."""
    source = f"""
import asyncio, sys
sys.path.insert(0, {str(root / "benches/python")!r})
from soak import soak
looks = dict(asyncio.run(soak(6_000, [{way!r}], 2_000)))
print((looks[6_000] - looks[2_000]) / 4_000)
"""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=280)

    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < BOUND, f"{done.stdout.strip()} bytes a run"


@LINUX
def test_the_bound_finds_a_leak_of_a_hundred_bytes_a_run(root):
    """What the test above would say of runs that leave a hundred bytes each."""
    source = f"""
import asyncio, sys
sys.path.insert(0, {str(root / "benches/python")!r})
import soak as bench
leaked = []
async def one(way):
    leaked.append(bytes(100 - sys.getsizeof(b"")))
bench.one = one
looks = dict(asyncio.run(bench.soak(60_000, ["run"], 20_000)))
print((looks[60_000] - looks[20_000]) / 40_000)
"""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr
    assert float(done.stdout) > BOUND, f"{done.stdout.strip()} bytes a run"

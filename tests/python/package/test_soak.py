"""Runs do not leak: the memory of a process after many runs."""

import subprocess
import sys

import pytest

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")

# Bytes per run: less than the smallest Python object, and more than the variation of the allocators.
BOUND = 64


@LINUX
@pytest.mark.timeout(300)
@pytest.mark.parametrize("way", ["run", "stream", "left", "session", "failing"])
def test_runs_do_not_leak_memory(root, way):
    """The growth between 2 000 and 6 000 runs, each with a new agent and a new model."""
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
def test_the_memory_bound_detects_a_leak_of_100_bytes_per_run(root):
    """The test above must fail for runs that leak 100 bytes each."""
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

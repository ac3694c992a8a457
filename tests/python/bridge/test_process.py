"""Fork and exit."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
import time

import pytest

from turntree._core import _bridge_selftest as bridge

# The short sleeps let the work begin; a process may leave cleanly at every moment.
LEAVING = [
    # Pending wakes.
    "async def main():\n    await asyncio.gather(*[bridge.sleeps(50, 4) for _ in range(50)])\nasyncio.run(main())",
    # An unfinished stream that a global variable references.
    "stream = bridge.numbers(10**6, 20)\nasync def main():\n"
    "    for _ in range(20): await anext(stream)\nasyncio.run(main())",
    # Tasks pending on a loop that is never closed.
    "loop = asyncio.new_event_loop()\ntasks = [loop.create_task(bridge.sleeps(100, 1000)) for _ in range(50)]\n"
    "loop.run_until_complete(asyncio.sleep(0.01))",
    # Tools in threads and on the loop of turntree.
    "async def tool():\n    await asyncio.sleep(0.001)\nfor _ in range(5): bridge.tool_sync(tool, 'task')\n"
    "bridge.tool_sync(lambda: None, 'thread')",
    # A daemon thread waiting in run_sync.
    "import threading, time\nthreading.Thread(target=lambda: bridge.sleeps_sync(200, 10**6), daemon=True).start()\n"
    "time.sleep(0.02)",
    # The wake thread of a loop that cannot watch file descriptors.
    "class Plain(asyncio.SelectorEventLoop):\n    def add_reader(self, *a): raise NotImplementedError\n"
    "loop = Plain()\ntasks = [loop.create_task(bridge.sleeps(30, 10**6)) for _ in range(20)]\n"
    "loop.run_until_complete(asyncio.sleep(0.01))",
]


def in_child(check) -> int:
    """Run `check` in a forked child. Returns its exit status, or -1 after a timeout."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if check() else 1)
        except BaseException:
            os._exit(2)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)  # the poll interval
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return -1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_process_starts_its_own_runtime(run) -> None:
    async def tool() -> int:
        await asyncio.sleep(0.001)  # the pace of the tool; no assertion depends on it
        return 1

    assert run(bridge.sleeps(100, 5)) == 5
    assert bridge.tool_sync(tool, "task") == 1
    assert bridge.tool_sync(lambda: 1, "thread") == 1

    def check() -> bool:
        return (
            asyncio.run(bridge.sleeps(100, 5)) == 5
            and bridge.tool_sync(tool, "task") == 1
            and bridge.tool_sync(lambda: 1, "thread") == 1
        )

    assert in_child(check) == 0
    assert run(bridge.sleeps(100, 5)) == 5
    assert bridge.tool_sync(tool, "task") == 1


FORKS = """
import asyncio, os, select, signal, threading
from turntree._core import _bridge_selftest as bridge

class Plain(asyncio.SelectorEventLoop):
    def add_reader(self, *a): raise NotImplementedError

def wakes(factory, times=20):
    loop = factory()
    loop.run_until_complete(bridge.sleeps(50, times))
    loop.close()

def repeat(factory):
    while True: wakes(factory)

for factory in (Plain, Plain, asyncio.SelectorEventLoop):
    threading.Thread(target=repeat, args=(factory,), daemon=True).start()
wakes(Plain)
statuses, blocked = [], 0
while len(statuses) < 40 and blocked < 3:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, b"x")
        signal.alarm(20)
        # Few: each wake of the forty children may cost a turn of the scheduler.
        wakes(Plain, 3)
        wakes(asyncio.SelectorEventLoop, 3)
        assert bridge.tool_sync(lambda: 1, "thread") == 1
        os._exit(0)
    os.close(writer)
    if not select.select([reader], [], [], 10)[0]:
        # CPython 3.11 itself may block: os.fork() takes the lock of thread states, which another thread held.
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        blocked += 1
        continue
    statuses.append(os.waitpid(child, 0)[1])
print(statuses.count(0))
"""


def test_a_fork_while_other_threads_wake_loops_does_not_block_the_child() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKS], capture_output=True, text=True, timeout=110)
    assert (done.returncode, done.stdout.strip()) == (0, "40"), done.stderr


@pytest.mark.parametrize("leaving", LEAVING)
def test_an_exit_on_a_busy_machine_does_not_crash(leaving: str) -> None:
    script = "import asyncio\nfrom turntree._core import _bridge_selftest as bridge\n" + textwrap.dedent(leaving)
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        for _ in range(10):
            done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done.stderr
            assert "panicked" not in done.stderr
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()

"""run_sync: the calling thread drives the future, inside and outside a running loop."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable

import pytest

from turntree._core import _bridge_selftest as bridge


async def where() -> str:
    await asyncio.sleep(0.001)  # the pace of the tool; no assertion depends on it
    return threading.current_thread().name


def test_a_synchronous_call_works_outside_a_loop() -> None:
    assert bridge.sleeps_sync(200, 20) == 20
    assert bridge.tool_sync(where, "task") == "turntree-tools-loop"


def test_a_synchronous_call_works_inside_a_running_loop(run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert bridge.sleeps_sync(200, 20) == 20
        assert bridge.tool_sync(where, "task") == "turntree-tools-loop"
        assert asyncio.get_running_loop() is loop

    run(main())


def interrupt_when(begun: Callable[[], object]) -> threading.Thread:
    """Send SIGINT to this process when `begun` returns something true; it must do so within 20 seconds."""

    def wait() -> None:
        deadline = time.monotonic() + 20
        while not begun() and time.monotonic() < deadline:
            time.sleep(0.001)  # the poll interval
        if begun():
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_a_synchronous_call_releases_the_gil_while_it_waits() -> None:
    alive, counted = bridge.alive(), []

    def twenty_turns() -> bool:
        if bridge.alive() > alive:  # the call below waits
            counted.append(len(counted))
        return len(counted) >= 20

    thread = interrupt_when(twenty_turns)
    # Without the release, no turn is made during the call, and it is not interrupted.
    with pytest.raises(KeyboardInterrupt):
        bridge.sleeps_sync(30_000_000)
    thread.join()
    assert len(counted) >= 20


def test_nested_synchronous_calls_in_tools_do_not_deadlock() -> None:
    async def inner() -> int:
        await asyncio.sleep(0.001)  # the pace of the tool; no assertion depends on it
        return 1

    async def middle() -> int:
        return bridge.tool_sync(inner, "task") + bridge.tool_sync(lambda: 1, "thread")

    assert bridge.tool_sync(middle, "task") == 2
    assert bridge.tool_sync(lambda: bridge.tool_sync(middle, "task"), "thread") == 2

    def nested() -> list[int]:
        return bridge.tool_sync(lambda: 1, "thread")

    async def many() -> list[int]:
        return await bridge.tools([nested] * 64, "thread")

    assert asyncio.run(asyncio.wait_for(many(), 20)) == [1] * 64


def test_an_interrupt_ends_the_call_and_drops_the_future() -> None:
    alive = bridge.alive()
    thread = interrupt_when(lambda: bridge.alive() > alive)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        bridge.sleeps_sync(30_000_000)
    assert time.monotonic() - started < 20  # the call itself takes 30 seconds
    assert bridge.alive() == alive
    thread.join()


def test_an_interrupt_cancels_the_tool() -> None:
    begun, cancelled = threading.Event(), threading.Event()

    async def tool() -> None:
        begun.set()
        try:
            await asyncio.sleep(30)
        finally:
            cancelled.set()

    thread = interrupt_when(begun.is_set)
    with pytest.raises(KeyboardInterrupt):
        bridge.tool_sync(tool, "task")
    assert cancelled.wait(10)
    thread.join()


def test_many_threads_call_synchronously_at_once() -> None:
    results = []
    threads = [threading.Thread(target=lambda: results.append(bridge.tool_sync(where, "task"))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert results == ["turntree-tools-loop"] * 20


def test_the_extension_module_does_not_import_asyncio() -> None:
    script = "import sys; import turntree._core; print('asyncio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_tool_on_the_turntree_loop_is_cancelled_at_exit() -> None:
    script = textwrap.dedent("""
        import asyncio, threading
        from turntree._core import _bridge_selftest as bridge

        async def tool():
            async def stays():
                try:
                    await asyncio.sleep(60)
                finally:
                    print("cleaned")
            tool.task = asyncio.ensure_future(stays())
            await asyncio.sleep(0)  # the first step of the task enters its try block

        bridge.tool_sync(tool, "task")
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "cleaned", "")

"""The overhead of the bridge. Run it by hand with a release build: `python tests/python/bridge/measure.py`."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable

from turntree._core import _bridge_selftest as bridge


async def per_await(make: Callable[[], Awaitable[object]], count: int, rounds: int = 7) -> float:
    """Median microseconds of one await."""
    costs = []
    for _ in range(rounds):
        started = time.perf_counter()
        for _ in range(count):
            await make()
        costs.append((time.perf_counter() - started) / count * 1e6)
    return statistics.median(costs)


async def per_event(make: Callable[[], object], count: int, rounds: int = 5) -> float:
    """Median microseconds of one event."""
    costs = []
    for _ in range(rounds):
        stream = make()
        started = time.perf_counter()
        seen = 0
        async for item in stream:
            seen += len(item) if isinstance(item, list) else 1
        costs.append((time.perf_counter() - started) / count * 1e6)
        assert seen == count
    return statistics.median(costs)


async def main() -> None:
    async def python() -> int:
        return 1

    async def tool() -> int:
        return 1

    def sync_tool() -> int:
        return 1

    rows = {
        "await Python's own async def": await per_await(python, 20_000),
        "await a ready future, None": await per_await(lambda: bridge.ready(None), 20_000),
        "await a ready future, int": await per_await(lambda: bridge.ready(1), 20_000),
        "one turn of the loop (self-wake)": await per_await(lambda: bridge.yields(1), 5_000),
        "a wake from another thread": await per_await(lambda: bridge.sleeps(0), 2_000),
        "Python: await create_task(tool())": await per_await(lambda: asyncio.create_task(tool()), 5_000),
        "async tool": await per_await(lambda: bridge.tool(tool, "task"), 5_000),
        "sync tool, inline": await per_await(lambda: bridge.tool(sync_tool, "inline"), 5_000),
        "sync tool, in a thread": await per_await(lambda: bridge.tool(sync_tool, "thread"), 1_000),
        "asyncio.to_thread": await per_await(lambda: asyncio.to_thread(sync_tool), 1_000),
        "100k ready events, each": await per_event(lambda: bridge.ready_numbers(100_000), 100_000),
        "100k events of a driver, each": await per_event(lambda: bridge.numbers(100_000), 100_000),
        "100k live events, 100 a wake, each": await per_event(lambda: bridge.numbers(100_000, 1, 100), 100_000),
        "100k ready events in batches, each": await per_event(lambda: bridge.ready_numbers(100_000).batches(), 100_000),
    }
    print(sys.version.split()[0], type(asyncio.get_running_loop()).__module__)
    for name, microseconds in rows.items():
        print(f"  {microseconds:9.3f} µs  {name}")


if __name__ == "__main__":
    asyncio.run(main())
    try:
        import uvloop
    except ImportError:
        pass
    else:
        uvloop.run(main())
    started = time.perf_counter()
    for _ in range(2_000):
        bridge.tool_sync(lambda: 1, "inline")
    print(f"run_sync, inline tool: {(time.perf_counter() - started) / 2_000 * 1e6:.2f} µs")

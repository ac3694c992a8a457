"""Many concurrent sessions on one event loop: fairness, and the latency of the event loop.

    python benches/python/concurrent_sessions.py [--sessions 1000] [--steps 20]

Each session executes one run with the given number of steps, one async tool call each, with a scripted model. The
output is the total time, the ratio of the last completion to the median, and the delay of a task with a 5 ms timer.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time

from turntree import agent, session
from turntree.execution import loop
from turntree.upp import Reply, scripted, tool


@tool
async def wait() -> None:
    """Wait one iteration of the event loop."""
    await asyncio.sleep(0)


def talk(steps: int, delay: float):
    replies = [Reply([{"toolName": "wait", "arguments": {}}], delay=delay)] * (steps - 1)
    model = scripted([*replies, Reply("Done.", delay=delay)])
    return session(agent(model=model, tools=[wait], execution=loop(max_iterations=steps)))


async def watch(lags: list[float], interval: float = 0.005) -> None:
    while True:
        due = time.perf_counter() + interval
        await asyncio.sleep(interval)
        lags.append(time.perf_counter() - due)


async def measure(sessions: int, steps: int, delay: float) -> None:
    talks = [talk(steps, delay) for _ in range(sessions)]
    lags: list[float] = []
    watcher = asyncio.create_task(watch(lags))
    begun, cpu = time.perf_counter(), time.process_time()

    async def one(talk) -> float:
        await talk.run("Go")
        return time.perf_counter() - begun

    ended = await asyncio.gather(*(one(talk) for talk in talks))
    whole, spent = time.perf_counter() - begun, time.process_time() - cpu
    watcher.cancel()
    median = statistics.median(ended)
    lags.sort()
    print(f"{sessions} sessions of {steps} steps, model answers after {delay * 1000:.0f} ms: {whole:.2f} s")
    print(f"  CPU {spent:.2f} s, {spent / sessions / steps * 1e6:.1f} µs a step")
    print(f"  completion: first {min(ended):.2f} s, median {median:.2f} s, last {max(ended):.2f} s")
    print(f"  last / median {max(ended) / median:.2f}")
    if lags:
        late = lags[int(len(lags) * 0.99)]
        print(
            f"  loop lag: median {lags[len(lags) // 2] * 1000:.1f} ms, 99 % {late * 1000:.1f} ms, "
            f"most {lags[-1] * 1000:.1f} ms"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    for delay in (0.0, 0.05):
        asyncio.run(measure(options.sessions, options.steps, delay))


if __name__ == "__main__":
    main()

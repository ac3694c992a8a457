"""Runs one case of one peer in the environment of the peer.

Started by `compare.py`. The first output line reports if the case is ready. For each input line `{"iterations": n}`,
the worker writes the CPU time of the process (all threads, user and system) and the wall time.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import inspect
import json
import os
import resource
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from typing import Any, TextIO

import cases

# The warm-up ends after this number of iterations, or after this time.
WARM_UP = 3
WARM_UP_SECONDS = 1.0


class Runner:
    """A prepared case, with one event loop for all iterations."""

    def __init__(self, name: str, once: Callable[[], Any]) -> None:
        self.name = name
        self.once = once
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.is_async = inspect.iscoroutinefunction(once)

    def verify(self) -> None:
        """Warm up, and check that the work is done."""
        start = time.perf_counter()
        for _ in range(WARM_UP):
            before = cases.Tally.calls
            self.measure(1)
            expected = {"tool": 1, "concurrent": cases.CONCURRENT}.get(self.name, 0)
            if cases.BY_NAME[self.name].group == "store":
                expected = cases.STEPS - 1
            if cases.Tally.calls - before != expected:
                raise ValueError(f"the tool ran {cases.Tally.calls - before} times, expected {expected}")
            if time.perf_counter() - start > WARM_UP_SECONDS:
                break

    def measure(self, iterations: int) -> dict[str, float]:
        """Measure a number of iterations. The results are checked after the measurement."""
        if self.is_async:
            wall, cpu, results = self.loop.run_until_complete(self._iterate_async(iterations))
        else:
            wall, cpu, results = self._iterate(iterations)
        for result in results:
            cases.check(self.name, result)
        return {"cpu": cpu, "wall": wall}

    async def _iterate_async(self, iterations: int) -> tuple[float, float, list[Any]]:
        once, results = self.once, []
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(iterations):
            results.append(await once())
        return time.perf_counter() - wall, time.process_time() - cpu, results

    def _iterate(self, iterations: int) -> tuple[float, float, list[Any]]:
        once, result = self.once, None
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(iterations):
            result = once()
        return time.perf_counter() - wall, time.process_time() - cpu, [result]


def prepare(peer: str, name: str, url: str) -> tuple[Callable[[], Any], dict[str, Any]]:
    """Return the function of one iteration, and properties of the case (the size of the input)."""
    module = importlib.import_module(f"peers.{peer}")
    facts: dict[str, Any] = {}
    if cases.BY_NAME[name].group == "conversion":
        prepared = getattr(module, name)()
        prepared.verify()
        facts["bytes"] = prepared.size
        return prepared.once, facts
    if cases.BY_NAME[name].group == "store":
        saved = getattr(module, name)()
        return saved.once, {"saved": saved}
    if name == "concurrent":
        return _concurrently(module.tool(url)), facts
    if name.startswith("history_"):
        return module.history(url, cases.past(int(name.removeprefix("history_")))), facts
    if name == "stream_paced":
        return module.stream(url, "stream-500-paced"), facts
    if name == "stream":
        return module.stream(url, "stream-500"), facts
    return getattr(module, name)(url), facts


def _concurrently(once: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[list[Any]]]:
    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(once() for _ in range(cases.CONCURRENT)))

    return all_of_them


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("peer")
    parser.add_argument("case")
    parser.add_argument("url")
    arguments = parser.parse_args()

    # Redirect the output of libraries to stderr; stdout is for the protocol.
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    try:
        once, facts = prepare(arguments.peer, arguments.case, arguments.url)
        runner = Runner(arguments.case, once)
        runner.verify()
        saved = facts.pop("saved", None)
        if saved is not None:
            saved.verify()
    except Exception as error:
        traceback.print_exc()
        _say(channel, {"error": f"{type(error).__name__}: {error}"})
        return
    _say(channel, {"ready": True, **facts})

    for line in sys.stdin:
        try:
            before = saved.size() if saved is not None else 0
            answer: dict[str, Any] = runner.measure(json.loads(line)["iterations"])
            if saved is not None:
                answer["disk"] = saved.size() - before
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        answer["peak_rss"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        _say(channel, answer)
    # Exit immediately: closing 500 sockets of a library is not part of the measurement.
    channel.flush()
    os._exit(0)


def _say(channel: TextIO, message: dict[str, Any]) -> None:
    channel.write(json.dumps(message) + "\n")
    channel.flush()


if __name__ == "__main__":
    main()

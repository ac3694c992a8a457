"""Memory leaks: the memory of the process during many agent runs.

    python benches/python/soak.py [--runs 100000] [--ways run,stream,session,failing]

A run is two model calls and one tool call, with a new agent and a new model. Memory is RssAnon (Linux). The last
line is the growth from a tenth of the runs to the end, in bytes per run.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from pathlib import Path

from turntree import agent, session
from turntree.upp import UPPError, scripted, tool

WAYS = ("run", "stream", "session", "failing", "left")


def resident() -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon"))


@tool
async def look(word: str) -> str:
    """Look a word up."""
    return word


def helper(*, fails: bool = False):
    answers = [[{"toolName": "look", "arguments": {"word": "turn"}}], "It is a word."]
    return agent(model=scripted(answers[:1] if fails else answers), tools=[look])


async def one(way: str) -> None:
    if way == "run":
        await helper().run("What is it?")
    elif way == "stream":
        async for _ in helper().stream("What is it?"):
            pass
    elif way == "left":
        async with helper().stream("What is it?") as stream:
            async for _ in stream:
                break
    elif way == "session":
        await session(helper()).run("What is it?")
    else:
        try:
            await helper(fails=True).run("What is it?")
        except UPPError:
            return


async def soak(runs: int, ways: list[str], report: int) -> list[tuple[int, int]]:
    """Return the number of runs and the memory at each sample."""
    looks = []
    for number in range(1, runs + 1):
        await one(ways[number % len(ways)])
        # A run with ready responses never yields to the event loop, which then releases no objects.
        await asyncio.sleep(0)
        if number % report == 0:
            gc.collect()
            looks.append((number, resident()))
    return looks


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--ways", default=",".join(WAYS))
    options = parser.parse_args()
    begun = time.process_time()
    looks = asyncio.run(soak(options.runs, options.ways.split(","), max(options.runs // 10, 1)))
    for number, memory in looks:
        print(f"{number:8} runs: {memory / 1e6:.2f} MB")
    (first, early), (last, late) = looks[0], looks[-1]
    print(f"CPU {(time.process_time() - begun) / options.runs * 1e6:.0f} µs a run")
    print(f"growth {(late - early) / max(last - first, 1):.2f} bytes a run")


if __name__ == "__main__":
    main()

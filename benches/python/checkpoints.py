"""Cost of a checkpoint with 10 to 10 000 messages, and of restoring and branching with 10 000 messages.

    python benches/python/checkpoints.py [--samples 25]

CPU time, medians. A checkpoint is the difference between a run of 100 steps with a checkpoint each and one without,
divided by the number of steps. The other figures include the call from Python.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable

from turntree import agent, session
from turntree.execution import loop
from turntree.upp import UserMessage, scripted, tool

STEPS = 100


@tool(inline=True)
def noop() -> None:
    """Do nothing."""


def talk(messages: int, *, checkpoints: bool):
    replies = [*([[{"toolName": "noop", "arguments": {}}]] * (STEPS - 1)), "Done."]
    made = session(
        agent(model=scripted(replies), tools=[noop], execution=loop(max_iterations=STEPS)), checkpoints=checkpoints
    )
    made.tree.current.thread.push(*(UserMessage("Rain until noon, then clouds.") for _ in range(messages)))
    return made


async def run_of(messages: int, *, checkpoints: bool) -> float:
    made = talk(messages, checkpoints=checkpoints)
    begun = time.process_time()
    await made.run("Go")
    return (time.process_time() - begun) / STEPS * 1e6


def per_call(work: Callable[[], object], times: int = 200) -> float:
    begun = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - begun) / times * 1e6


async def measure(samples: int) -> None:
    for messages in (10, 100, 1_000, 10_000):
        await run_of(messages, checkpoints=True)
        with_them, without = [], []
        for _ in range(samples):
            with_them.append(await run_of(messages, checkpoints=True))
            without.append(await run_of(messages, checkpoints=False))
        cost = statistics.median(with_them) - statistics.median(without)
        least = min(with_them) - min(without)
        print(
            f"a checkpoint after {messages:6} messages: {cost:5.2f} µs (of the fastest runs {least:.2f} µs)", flush=True
        )

    made = talk(10_000, checkpoints=True)
    await made.run("Go")
    tree, root = made.tree, made.tree.root.id
    tip = tree.branch(root)
    first, last = made.checkpoints[0].id, made.checkpoints[-1].id
    print(f"branch   {statistics.median(per_call(lambda: tree.branch(root)) for _ in range(samples)):.2f} µs")
    there_and_back = statistics.median(
        per_call(lambda: (tree.checkout(tip), tree.checkout(root))) for _ in range(samples)
    )
    print(f"checkout {there_and_back / 2:.2f} µs")

    async def restore(times: int = 100) -> float:
        begun = time.process_time()
        for _ in range(times):
            await made.restore(first)
            await made.restore(last)
        return (time.process_time() - begun) / times / 2 * 1e6

    print(f"restore  {statistics.median([await restore() for _ in range(samples)]):.2f} µs")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=25)
    options = parser.parse_args()
    asyncio.run(measure(options.samples))


if __name__ == "__main__":
    main()

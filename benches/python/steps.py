"""Cost of an agent's step without its model: a scripted model in the process, one tool call per step.

    python benches/python/steps.py [--steps 20] [--runs 50] [--samples 15]

CPU time of all threads of the process. A sample executes `--runs` runs of `--steps` steps in sequence. The output is
the median, the minimum and the maximum of the samples. Requires an installed turntree.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time

from turntree import agent
from turntree.execution import loop
from turntree.upp import scripted, tool


@tool
async def asynchronous() -> None:
    """Do nothing, on the event loop."""


@tool
def threaded() -> None:
    """Do nothing, in a thread."""


@tool(inline=True)
def inline() -> None:
    """Do nothing, on the thread that polls the run."""


def helper(name: str, steps: int):
    replies = [*([[{"toolName": name, "arguments": {}}]] * steps), "Done."]
    return agent(
        model=scripted(replies), tools=[asynchronous, threaded, inline], execution=loop(max_iterations=steps + 1)
    )


def sample(name: str, steps: int, runs: int, *, streamed: bool) -> float:
    """Return the CPU time per step in microseconds."""

    async def main() -> float:
        helpers = [helper(name, steps) for _ in range(runs)]
        begun = time.process_time()
        for one in helpers:
            if streamed:
                async for _ in one.stream("Go"):
                    pass
            else:
                await one.run("Go")
        return time.process_time() - begun

    return asyncio.run(main()) / runs / steps * 1e6


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--samples", type=int, default=15)
    options = parser.parse_args()
    for name in ("asynchronous", "threaded", "inline"):
        for streamed in (False, True):
            sample(name, options.steps, options.runs, streamed=streamed)
            samples = [sample(name, options.steps, options.runs, streamed=streamed) for _ in range(options.samples)]
            way = "streamed" if streamed else "run"
            spread = f"{min(samples):.1f} to {max(samples):.1f}"
            print(f"{name:12} {way:8} {statistics.median(samples):7.1f} µs a step ({spread})", flush=True)


if __name__ == "__main__":
    main()

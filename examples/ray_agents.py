"""An agent over many inputs on a cluster, with Ray.

    pip install turntree ray
    python examples/ray_agents.py [NUMBER OF INPUTS]

The model is served by this program, so it needs no key. With a real model, set its key in the environment of the
cluster.
"""

# pyright: basic, reportMissingImports=false
# (Ray has no type annotations)
from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

from turntree import agent, testing
from turntree.upp import openai

if TYPE_CHECKING:
    from turntree import Agent

BLOCK = 500


def answers(assistant: Agent[Any, Any], inputs: list[str]) -> list[str]:
    """Run the agent over a block of inputs in one process and return the texts, in the order of the inputs."""

    async def run() -> list[str]:
        turns = await asyncio.gather(*(assistant.run(text) for text in inputs))
        return [turn.text for turn in turns]

    return asyncio.run(run())


def blocks(inputs: list[str]) -> list[list[str]]:
    """Return the inputs in blocks: one task of Ray for each."""
    return [inputs[start : start + BLOCK] for start in range(0, len(inputs), BLOCK)]


def main() -> int:
    """Map the agent with Ray and return the exit status."""
    try:
        import ray
    except ImportError:
        print("ray is not installed; try: pip install ray.", file=sys.stderr)
        return 1
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    inputs = [f"Sort the ticket {number}" for number in range(count)]
    os.environ["OPENAI_API_KEY"] = "not-checked-by-this-server"
    with testing.serve(lambda _request: "billing") as server:
        assistant = agent(model=openai("gpt-5", base_url=server.base_url), system="Name the department.")
        ray.init(logging_level="error")
        try:
            # Ray pickles the agent once.
            shared, task = ray.put(assistant), ray.remote(answers)
            texts = [
                text for done in ray.get([task.remote(shared, block) for block in blocks(inputs)]) for text in done
            ]
        finally:
            ray.shutdown()
    print(f"{len(texts)} answers, {texts.count('billing')} for billing")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Serves a counter from a SQLite file; the test kills it between and inside of actions.

A task writes a line to a file when it runs, so that the test sees how often it ran.
"""

import asyncio
import sys
from pathlib import Path

from turntree import uaip
from turntree.uaip import State, Workflow

counter = Workflow("counter")
counter.stage("count")


@counter.task(stage="count")
async def add(state: State, slow: bool = False) -> int:
    """Count one more."""
    state.set("count", state.get("count", 0) + 1)
    with Path(sys.argv[2]).open("a") as log:
        log.write("ran\n")
    if slow:
        await asyncio.sleep(60)
    return state.get("count")


async def main() -> None:
    async with uaip.serve(counter, store=sys.argv[1]) as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()


asyncio.run(main())

"""Serves a task that a person must approve; the test kills it between the question, the decision and the call.

The first line of standard output is the URL. Standard input takes the lines ``list``, ``approve ID`` and ``deny ID``,
each answered by one line of JSON.
"""

import asyncio
import json
import sys

from turntree import uaip
from turntree.uaip import State, Workflow
from turntree.upp import tool

till = Workflow("till", private=["paid"])
till.stage("pay")


@till.task(stage="pay")
@tool(approval="ask")
def pay(amount: int, state: State) -> int:
    """Pay."""
    state.set("paid", state.get("paid", 0) + amount)
    return state.get("paid")


def answer(line: str) -> object:
    """Execute a line of the test."""
    command, *arguments = line.split()
    if command == "list":
        return [waiting._asdict() for waiting in till.approvals]
    if command == "approve":
        return till.approve(*arguments)
    return till.deny(arguments[0], "too much")


async def main() -> None:
    async with uaip.serve(till, store=sys.argv[1]) as server:
        print(server.url, flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(await asyncio.to_thread(answer, line)), flush=True)


asyncio.run(main())

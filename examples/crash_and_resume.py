"""Kills a process in the middle of a run, and continues the run in another one. Runs offline.

The tool of the first step has a side effect; it is not repeated. The second tool was running when the process died, and
says that it can be repeated: `idempotent=True`.
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from turntree import Session, agent
from turntree.upp import ModelRequest, Reply, ToolCall, ToolResultMessage, scripted, tool


@tool
def reserve(seat: str) -> str:
    """Reserve a seat."""
    with Path("reservations.txt").open("a") as file:
        print(seat, file=file)
    return f"{seat} is reserved"


@tool(idempotent=True)
def price(seat: str) -> int:
    """Return the price of a seat in euros. The first process dies here."""
    if "--die" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    return 40 + len(seat)


def play_model(request: ModelRequest) -> Reply:
    """Reserve, ask for the price, answer."""
    results = [message.results[0].result for message in request.messages if isinstance(message, ToolResultMessage)]
    match results:
        case []:
            return Reply(ToolCall("call-1", "reserve", {"seat": "12A"}))
        case [_]:
            return Reply(ToolCall("call-2", "price", {"seat": "12A"}))
        case _:
            return Reply(f"Seat 12A costs {results[-1]} euros.")


clerk = agent(model=scripted(play_model), tools=[reserve, price])


async def work() -> None:
    """Start the run, or continue the one that a dead process has left."""
    order = await Session.open("sqlite:///orders.db", "order-1", clerk)
    if order.is_unfinished:
        print("found an unfinished run")
        turn = await order.resume()
    else:
        turn = await order.run("Seat 12A, please.")
    print(turn.text)
    print(f"reservations: {Path('reservations.txt').read_text().split()}")


def main() -> None:
    """Run the work in a process that dies, then in another one."""
    this = str(Path(__file__).resolve())
    with tempfile.TemporaryDirectory(prefix="turntree-") as folder:
        dead = subprocess.run([sys.executable, this, "--work", "--die"], cwd=folder, check=False)
        print(f"the first process ended with status {dead.returncode}", flush=True)
        subprocess.run([sys.executable, this, "--work"], cwd=folder, check=True)


if __name__ == "__main__":
    if "--work" in sys.argv:
        asyncio.run(work())
    else:
        main()

"""Starts programs that execute sessions until they are killed: crash_program.py URL FOLDER.

For each line ``FIRST`` on its standard input it forks a program, before it has used turntree itself, which is faster
than a new interpreter. It prints the program's process id, and its exit status when it has ended. The program prints
"ready" and executes the sessions s-FIRST, s-FIRST+1, … It writes to FOLDER: ``outside.log`` has the side effects of its
tools, ``acknowledged.log`` what the sessions reported as done.
"""

import asyncio
import itertools
import os
import sys
from pathlib import Path

from crash_sessions import OutsideLog, advance, make_agent, open_session

from turntree import store


def say(line: object) -> None:
    """Print a line in one write: two processes print to the same pipe, also with PYTHONUNBUFFERED."""
    os.write(1, f"{line}\n".encode())


async def execute(url: str, folder: Path, first: int, parent: int) -> None:
    """Execute sessions until the parent process ends."""
    outside, acknowledged = OutsideLog(folder / "outside.log"), OutsideLog(folder / "acknowledged.log")
    async with store.from_url(url) as saved:
        await saved.sessions(limit=1)
        say("ready")
        for number in itertools.count(first):
            # The process that started this one has ended with its test.
            if os.getppid() != parent:
                return
            session = await open_session(saved, f"s-{number}", outside)
            await advance(session, outside, acknowledged.add)


def main(url: str, folder: Path) -> None:
    """Start programs."""
    # Each program would spend a third of a second on the first agent: imports, and the schemas of tools.
    make_agent(OutsideLog(folder / "outside.log"))
    parent = os.getpid()
    for line in sys.stdin:
        program = os.fork()
        if program == 0:
            asyncio.run(execute(url, folder, int(line), parent))
        say(program)
        say(os.waitpid(program, 0)[1])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

"""Runs a session while a thread reads its file with Python's sqlite3, then kills itself: peek_program.py FILE TURNS."""

import asyncio
import os
import signal
import sqlite3
import sys
import threading

from turntree import Session, agent, store
from turntree.upp import scripted

HELPER = agent(id="5d7a2b0c-6c0e-4f57-9f0a-0e2f5f7f1a11", model=scripted(lambda _request: "ok"))


async def main(path: str, turns: int) -> None:
    """Run turns and print the number of each one that is saved."""
    saved = store.sqlite(path)
    sess = await Session.open(saved, "s", HELPER)
    stop = threading.Event()
    reader = threading.Thread(target=read, args=[path, stop], daemon=True)
    reader.start()
    for number in range(turns):
        await sess.run(f"turn {number}")
        print(number, flush=True)
    stop.set()
    reader.join()
    await sess.run("the last one")
    os.kill(os.getpid(), signal.SIGKILL)


def read(path: str, stop: threading.Event) -> None:
    """Open the file, look at it and close it, again and again."""
    while not stop.wait(0.002):
        connection = sqlite3.connect(path, timeout=30)
        connection.execute("SELECT count(*) FROM sessions").fetchall()
        connection.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))

"""The parts of the growth tests that need their own processes: growth_program.py write|live|load FILE SESSIONS TURNS.

`write` writes one session. `live` writes many and `load` loads them; they print how many bytes of memory these sessions
take: anonymous memory with them, without that before.
"""

import asyncio
import ctypes
import gc
import sys
from pathlib import Path

from turntree import Session, agent, session, store
from turntree.upp import AssistantMessage, UserMessage, scripted

# How many sessions of 100 turns are in memory before those that are measured. They use the free blocks that the
# allocator has from the start: the first measured sessions would take no new memory.
WARMUP = 20
HELPER = agent(id="5d7a2b0c-6c0e-4f57-9f0a-0e2f5f7f1a11", model=scripted(lambda _request: "ok"))


def disable_huge_pages() -> None:
    """Let this process take memory in pages of 4 KB: huge pages would be counted in steps of 2 MB."""
    pr_set_thp_disable = 41
    ctypes.CDLL(None).prctl(pr_set_thp_disable, 1, 0, 0, 0)


def memory() -> int:
    """Return the anonymous memory of this process, without free blocks, in bytes."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    # This file is exact: the kernel updates the numbers of /proc/self/status in steps of many pages.
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) * 1024
    raise AssertionError


def fill(sess: Session, turns: range, size: int) -> None:
    """Add turns, each with two messages of `size` characters."""
    thread = sess.tree.current.thread
    for number in turns:
        thread.push(UserMessage(f"{number:x}".ljust(size, "u")), AssistantMessage(f"{number:x}".ljust(size, "a")))


async def main(command: str, path: str, sessions: int, turns: int) -> None:
    """Execute a command."""
    async with store.sqlite(path) as saved:
        if command == "write":
            sess = session(HELPER, id="s", persistence=saved)
            fill(sess, range(turns), 100)
            await sess.save()
            return
        disable_huge_pages()
        warmup = [await _one(command, saved, f"warmup-{number}", 100) for number in range(WARMUP)]
        before = memory()
        kept = [await _one(command, saved, f"s-{number}", turns) for number in range(sessions)]
        print(memory() - before)
        assert all(len(sess.tree.history()) == 200 for sess in warmup)
        assert all(len(sess.tree.history()) == 2 * turns for sess in kept)


async def _one(command: str, saved: store.Store, name: str, turns: int) -> Session:
    if command == "load":
        return await Session.load(saved, name, HELPER)
    sess = session(HELPER, id=name, persistence=saved)
    for turn in range(turns):
        fill(sess, range(turn, turn + 1), 1000)
        if turn % 10 == 9:
            await sess.save()
    return sess


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))

"""The parts of the fault tests that need a process of their own: fault_program.py COMMAND URL [ARGUMENT …].

A command that succeeds prints "ok" as its last line.
"""

import asyncio
import ctypes
import os
import sys
import threading
from pathlib import Path

from turntree import ConflictError, Session, StoreError, agent, store
from turntree.upp import scripted

HELPER = agent(
    id="5d7a2b0c-6c0e-4f57-9f0a-0e2f5f7f1a11", model=scripted(lambda request: f"{request.messages[-1].text}!")
)


def texts(session: Session) -> list[str]:
    """Return the texts of the users."""
    return [message.text for message in session.tree.history() if message.type == "user"]


async def full(url: str, filler: str) -> None:
    """Save until the disk is full, remove the file `filler`, and save again."""
    Path(filler).write_bytes(b"x" * 300_000)
    async with store.from_url(url) as saved:
        session = await Session.open(saved, "s", HELPER)
        number = 0
        try:
            while True:
                await session.run(f"{number} {os.urandom(10_000).hex()}")
                number += 1
        except StoreError as error:
            print(error)
        stored = await Session.load(saved, "s", HELPER)
        assert [text.split()[0] for text in texts(stored)][:number] == [str(count) for count in range(number)]
        Path(filler).unlink()
        if session.is_unfinished:
            await session.resume()
        await session.save()
        assert [text.split()[0] for text in texts(session)] == [str(count) for count in range(number + 1)]
    async with store.from_url(url) as again:
        assert (await Session.load(again, "s", HELPER)).to_json() == session.to_json()


async def fork(url: str) -> None:
    """Use a store in a process and in its fork at the same time."""
    async with store.from_url(url) as saved:
        session = await Session.open(saved, "parent", HELPER)
        await session.run("0")
        child = os.fork()
        if child == 0:
            # The loop of the parent is that of this thread too.
            thread = threading.Thread(target=lambda: asyncio.run(_in_fork(saved)))
            thread.start()
            thread.join(30)
            os._exit(1)
        for number in range(1, 6):
            await session.run(str(number))
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        assert status == 0, status
        assert texts(await Session.load(saved, "parent", HELPER)) == [str(number) for number in range(6)]
        assert texts(await Session.load(saved, "child", HELPER)) == [str(number) for number in range(5)]


async def _in_fork(saved: store.Store) -> None:
    assert texts(await Session.load(saved, "parent", HELPER))[0] == "0"
    session = await Session.open(saved, "child", HELPER)
    for number in range(5):
        await session.run(str(number))
    os._exit(0)


async def write(url: str, name: str, threads: str, turns: str) -> None:
    """Write with many threads: each has a session of its own, and every fourth one of both processes shares one."""

    async def talk(thread: int) -> None:
        own = await Session.open(saved, f"{name}-{thread}", HELPER)
        shared = await Session.open(saved, "shared", HELPER)
        for turn in range(int(turns)):
            await own.run(f"{turn}")
            if thread % 4 == 0:
                await _run_shared(shared, f"{name}-{thread}-{turn}")

    async with store.from_url(url) as saved:
        tasks = (asyncio.to_thread(asyncio.run, talk(thread)) for thread in range(int(threads)))
        await asyncio.gather(*tasks)


async def _run_shared(shared: Session, text: str) -> None:
    """Add a turn to a session that other writers change too."""
    while True:
        try:
            await shared.run(text)
        except ConflictError:
            await shared.reload()
            continue
        return


async def clock(url: str, library: str) -> None:
    """Use a session while the clock goes backwards. `library` has the variable that is added to the clock."""
    offset = ctypes.c_long.in_dll(ctypes.CDLL(library), "clock_offset")
    async with store.from_url(url) as saved:
        session = await Session.open(saved, "s", HELPER)
        before = session.created_at
        for number in range(10):
            offset.value = -3600 * number
            await session.run(str(number))
        other = await Session.open(saved, "other", HELPER)
        await other.run("0")
        assert (before - other.created_at).total_seconds() > 3600, "the clock did not go backwards"
        loaded = await Session.load(saved, "s", HELPER)
        assert loaded.to_json() == session.to_json()
        assert texts(loaded) == [str(number) for number in range(10)]
        assert {info.id for info in await saved.sessions()} == {"s", "other"}
        first = await saved.sessions(limit=1)
        assert len(first) + len(await saved.sessions(limit=1, after=first.next)) == 2
        await loaded.restore(loaded.checkpoints[0].id)
        await loaded.run("again")
        assert texts(await Session.load(saved, "s", HELPER))[-1] == "again"


async def lease(url: str, library: str) -> None:
    """Claim runs while the clock moves by hours. `library` has the variable that is added to the clock."""
    offset = ctypes.c_long.in_dll(ctypes.CDLL(library), "clock_offset")
    async with store.from_url(url) as saved:
        native = saved._native
        for number in range(3):
            await saved.enqueue(f"s{number}", "Hello")

        # The clock goes forward: nobody else gets the session.
        run, token, _ = await native.claim("one", [], 60)
        others = [await native.claim("other", [], 60) for _ in range(2)]
        assert None not in others
        offset.value = 5 * 3600
        assert await native.claim("two", [], 60) is None
        assert await native.heartbeat(run[1], token, 60)

        # The clock goes back: a worker that has died does not keep the session.
        assert await native.heartbeat(run[1], token, 0.2)
        offset.value = -5 * 3600
        await asyncio.sleep(0.3)
        again, newer, was_started = await native.claim("three", [], 60)
        assert (again[0], newer > token, was_started) == (run[0], True, True)
        assert not await native.heartbeat(run[1], token, 60)

        # A pause before the next attempt does not become hours.
        offset.value = 0
        await native.finish(again[0], again[1], newer, "retry", "no answer", 0.2, None)
        offset.value = -5 * 3600
        await asyncio.sleep(0.3)
        assert (await native.claim("four", [], 60))[0][0] == run[0]


COMMANDS = {one.__name__: one for one in (full, fork, write, clock, lease)}

if __name__ == "__main__":
    asyncio.run(COMMANDS[sys.argv[1]](*sys.argv[2:]))
    print("ok", flush=True)

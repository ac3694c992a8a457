"""What sessions cost in a store as they grow: bytes written, time of a list, memory after a load.

Bytes written are ``wchar`` of /proc/self/io: what the process has passed to ``write``, ``pwrite`` and the like, for the
database, its journal and all else. No other file is written meanwhile.
"""

import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from turntree import Session, agent, store
from turntree.execution import loop
from turntree.upp import scripted, tool

PROGRAM = Path(__file__).with_name("growth_program.py")
needs_proc = pytest.mark.skipif(
    not Path("/proc/self/io").exists(), reason="NOT TESTED: this system has no /proc/self/io"
)


def counted(counter: str) -> int:
    """Return a counter of this process: "rchar" for bytes that were read, "wchar" for those that were written."""
    for line in Path("/proc/self/io").read_text().splitlines():
        if line.startswith(f"{counter}:"):
            return int(line.split()[1])
    raise AssertionError


def written() -> int:
    """Return how many bytes this process has written."""
    return counted("wchar")


def text_of(number: int, size: int) -> str:
    """Return a text of `size` characters that no other number has, of words as in a conversation."""
    words = random.Random(number)
    text = f"{number}"
    while len(text) < size:
        text += " " + "".join(words.choice("etaoinshrdlucmfwypvbgkqjxz") for _ in range(words.randint(2, 9)))
    return text[:size]


@needs_proc
async def test_turns_cost_the_same_bytes_from_the_first_to_the_last(tmp_path):
    path = tmp_path / "s.db"
    helper = agent(model=scripted(lambda request: text_of(len(request.messages), 1000)))
    costs = []
    async with store.sqlite(path) as saved:
        sess = await Session.open(saved, "s", helper)
        for number in range(400):
            before = written()
            await sess.run(text_of(-number, 1000))
            costs.append(written() - before)
    size = sum(one.stat().st_size for one in tmp_path.iterdir())

    # Medians: about one turn of ten also copies the write-ahead log to the database.
    early, late = (statistics.median(part) for part in (costs[1:51], costs[-50:]))
    print(
        f"400 turns of 2 KB: {size} bytes; a turn writes {early:.0f} bytes at the start, {late:.0f} at the end, "
        f"{sum(costs) / 400:.0f} on average with the checkpoints of the database"
    )
    assert size <= 1_200_000
    assert late <= early * 1.1
    # With the checkpoints of the database.
    assert sum(costs[200:]) <= sum(costs[1:200]) * 1.2


@needs_proc
async def test_steps_that_are_saved_one_by_one_write_what_is_new(tmp_path):
    @tool
    def read(page: int) -> str:
        """Read a page."""
        return text_of(page, 1000)

    replies = [*([{"toolName": "read", "arguments": {"page": page}}] for page in range(99)), "Done."]
    helper = agent(model=scripted(replies), tools=[read], execution=loop(max_iterations=100))
    async with store.sqlite(tmp_path / "s.db") as saved:
        sess = await Session.open(saved, "s", helper, save_interval="tool")
        before = written()
        await sess.run("Go")
    cost = written() - before

    print(f"100 steps with 1 KB results write {cost} bytes in all")
    assert cost <= 3_000_000


@needs_proc
async def test_the_head_of_a_long_session_is_read_without_its_messages(tmp_path):
    times, bytes_read = {}, {}
    for turns in (10, 10_000):
        path = tmp_path / f"{turns}.db"
        program = [sys.executable, str(PROGRAM), "write", str(path), "1", str(turns)]
        subprocess.run(program, check=True, timeout=300)
        async with store.sqlite(path, read_only=True) as saved:
            before = counted("rchar")
            (info,) = await saved.sessions()
            bytes_read[turns] = counted("rchar") - before
            assert info.turns == turns
            times[turns] = []
            for _ in range(20):
                begun = time.process_time()
                await saved.sessions()
                times[turns].append(time.process_time() - begun)

    print(f"the head of a session: {bytes_read} bytes are read; at best {min(times[10_000]) * 1000:.2f} ms of CPU time")
    # The first list also opens the file: both read its header and schema. The messages have 2 MB.
    assert bytes_read[10_000] <= bytes_read[10] + 64 * 1024
    # CPU time, because other processes run on this machine.
    assert min(times[10_000]) <= 0.005


def memory_of(command: str, path: Path, sessions: int, turns: int) -> int:
    """Return how much memory sessions take in a process of their own, live or loaded."""
    program = [sys.executable, str(PROGRAM), command, str(path), str(sessions), str(turns)]
    # Free memory is returned at once: otherwise it counts.
    environment = {**os.environ, "MALLOC_ARENA_MAX": "1", "MIMALLOC_PURGE_DELAY": "0"}
    done = subprocess.run(program, check=True, timeout=300, capture_output=True, env=environment)
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="NOT TESTED: memory is read from /proc")
@pytest.mark.parametrize(("sessions", "turns"), [(50, 100), (1, 8000)])
def test_loaded_sessions_take_little_more_memory_than_live_ones(tmp_path, sessions, turns):
    live = memory_of("live", tmp_path / "s.db", sessions, turns)
    loaded = memory_of("load", tmp_path / "s.db", sessions, turns)

    print(f"{sessions} sessions of {turns} turns of 2 KB: {live} bytes live, {loaded} loaded ({loaded / live:.3f})")
    # The texts alone: less would not be a measurement of these sessions.
    assert live >= sessions * turns * 2000
    # Repeated runs give 1.01 to 1.03: a thread that decodes sessions has pages of its own, about 0.7 MB in all.
    # crates/turntree-store/tests/growth counts allocations, which are equal.
    assert loaded <= live * 1.15

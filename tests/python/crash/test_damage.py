"""Files that a disk has damaged: no session is read as something that it was not, and the others are recovered."""

import random
import shutil
import sqlite3
from pathlib import Path

import pytest
from fault_program import HELPER, texts

from turntree import CorruptDataError, Session, StoreError, store

SESSIONS, TURNS, TRIALS = 4, 5, 15


async def filled(saved: store.Store) -> dict[str, list[list[str]]]:
    """Fill a store. Return the states that each session had, as texts."""
    states: dict[str, list[list[str]]] = {}
    async with saved:
        for number in range(SESSIONS):
            session = await Session.open(saved, f"s{number}", HELPER, save_interval="turn")
            for turn in range(TURNS):
                await session.run(f"{number}/{turn} {random.Random(number * 10 + turn).randbytes(200).hex()}")
                states.setdefault(session.id, []).append(texts(session))
    return states


async def read(saved: store.Store, id: str) -> list[str] | StoreError:
    """Return the texts of a session, or why it cannot be read."""
    try:
        return texts(await Session.load(saved, id, HELPER))
    except StoreError as error:
        return error


def flip(path: Path, start: int, end: int) -> str:
    """Flip a bit between two places of a file."""
    content = bytearray(path.read_bytes())
    place, bit = random.randrange(start, end), random.randrange(8)
    content[place] ^= 1 << bit
    path.write_bytes(content)
    return f"bit {bit} of byte {place} of {path.name}"


async def test_a_flipped_bit_of_a_log_file_is_detected_and_named(tmp_path):
    states = await filled(store.file(tmp_path / "whole"))
    log = Path("sessions/s-s1/log")
    for trial in range(TRIALS):
        folder = tmp_path / f"{trial}"
        shutil.copytree(tmp_path / "whole", folder)
        size = (folder / log).stat().st_size
        # Not in the last record: there, damage and a torn write look the same.
        what = flip(folder / log, 0, size // 2)
        async with store.file(folder) as saved:
            found = await read(saved, "s1")
            assert isinstance(found, CorruptDataError), f"{what}: {found}"
            assert "s1" in str(found), what
            for number in (0, 2, 3):
                assert await read(saved, f"s{number}") == states[f"s{number}"][-1], what
            assert {info.id for info in await saved.sessions()} >= {"s0", "s2", "s3"}, what
            # A damaged session can be removed, and its id used again.
            await saved.delete("s1")
            assert texts(await _run(saved, "s1", "new")) == ["new"]


async def test_a_torn_log_file_has_the_last_whole_record(tmp_path):
    states = await filled(store.file(tmp_path / "whole"))
    log = Path("sessions/s-s1/log")
    size = (tmp_path / "whole" / log).stat().st_size
    for trial in range(TRIALS):
        folder = tmp_path / f"{trial}"
        shutil.copytree(tmp_path / "whole", folder)
        kept = random.randrange(size)
        with (folder / log).open("r+b") as file:
            file.truncate(kept)
        async with store.file(folder) as saved:
            if await saved.load("s1") is None:
                continue
            session = await Session.load(saved, "s1", HELPER)
            assert texts(session) in states["s1"][:-1], kept
            await session.run("more")
            assert texts(await Session.load(saved, "s1", HELPER))[-1] == "more"
            for number in (0, 2, 3):
                assert await read(saved, f"s{number}") == states[f"s{number}"][-1]


async def _run(saved: store.Store, id: str, text: str) -> Session:
    session = await Session.open(saved, id, HELPER)
    await session.run(text)
    return session


def place_of_an_entry(path: Path) -> tuple[int, int]:
    """Return where the start of an entry of a session is in a SQLite file; its end may be on other pages."""
    database = sqlite3.connect(path)
    content, tables = path.read_bytes(), database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    values = [
        value for (table,) in tables.fetchall() for row in database.execute(f'SELECT * FROM "{table}"') for value in row
    ]
    database.close()
    starts = [value[:40] for value in values if isinstance(value, bytes) and len(value) > 100]
    start = content.index(next(one for one in starts if content.count(one) == 1))
    return start, start + 40


async def test_a_flipped_bit_of_an_entry_in_sqlite_is_detected_and_named(tmp_path):
    states = await filled(store.sqlite(tmp_path / "whole.db"))
    start, end = place_of_an_entry(tmp_path / "whole.db")
    for trial in range(TRIALS):
        path = tmp_path / f"{trial}.db"
        shutil.copy(tmp_path / "whole.db", path)
        what = flip(path, start, end)
        async with store.sqlite(path) as saved:
            found = {id: await read(saved, id) for id in states}
            assert len(await saved.sessions()) == SESSIONS, what
        damaged = {id: error for id, error in found.items() if isinstance(error, StoreError)}
        assert len(damaged) == 1, what
        ((id, error),) = damaged.items()
        assert isinstance(error, CorruptDataError), what
        assert id in str(error), what
        assert all(found[other] == states[other][-1] for other in states if other != id), what


async def test_no_flipped_bit_of_a_sqlite_file_makes_another_session_of_one(tmp_path):
    states = await filled(store.sqlite(tmp_path / "whole.db"))
    size = (tmp_path / "whole.db").stat().st_size
    unreadable = 0
    for trial in range(TRIALS):
        path = tmp_path / f"{trial}.db"
        shutil.copy(tmp_path / "whole.db", path)
        what = flip(path, 0, size)
        saved = store.sqlite(path)
        for id, versions in states.items():
            found = await read(saved, id)
            if isinstance(found, StoreError):
                unreadable += 1
                # A page may be damaged so that the session is not found in it any more.
                assert path.name in str(found), f"{what}: {found}"
            else:
                assert found == versions[-1], what
        await saved.close()
    print(f"{TRIALS} flipped bits: {unreadable} of {TRIALS * SESSIONS} sessions were refused, all others are whole")


async def test_a_torn_write_ahead_log_of_sqlite_has_the_last_whole_save(tmp_path):
    saved = store.sqlite(tmp_path / "whole.db")
    session = await Session.open(saved, "s", HELPER, save_interval="turn")
    states = []
    for turn in range(8):
        await session.run(f"{turn}")
        states.append(texts(session))
    # As a crash leaves it: the log was not copied to the database.
    log = tmp_path / "whole.db-wal"
    size = log.stat().st_size
    for trial in range(TRIALS):
        path = tmp_path / f"{trial}.db"
        shutil.copy(tmp_path / "whole.db", path)
        torn = tmp_path / f"{trial}.db-wal"
        torn.write_bytes(log.read_bytes()[: random.randrange(size // 2, size)])
        async with store.sqlite(path) as again:
            loaded = await Session.load(again, "s", HELPER)
            assert texts(loaded) in states, trial
            await loaded.run("more")
            assert texts(await Session.load(again, "s", HELPER))[-1] == "more"
    await saved.close()


@pytest.mark.parametrize("kept", [10, 1000, 5000])
async def test_a_sqlite_file_that_was_cut_is_named(tmp_path, kept):
    await filled(store.sqlite(tmp_path / "s.db"))
    with (tmp_path / "s.db").open("r+b") as file:
        file.truncate(kept)

    for number in range(SESSIONS):
        with pytest.raises(StoreError, match=r"s\.db"):
            await Session.load(store.sqlite(tmp_path / "s.db"), f"s{number}", HELPER)

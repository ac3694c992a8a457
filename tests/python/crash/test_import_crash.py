"""Imports that are killed: the store has all of the sessions or none, and the import can be repeated."""

import contextlib
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from crash_engines import DURABLE, url_of
from fault_program import HELPER

from turntree import ConflictError, Session, store

PROGRAM = Path(__file__).with_name("import_program.py")
SESSIONS = 60
# `make crash` asks for more.
KILLS = int(os.environ.get("TURNTREE_CRASHES", "50")) // 10


def run(url: str, source: Path, kill_after: float | None = None) -> float:
    """Import, and kill the program that long after its start, in seconds. Return how long it took."""
    command = [sys.executable, str(PROGRAM), url, str(source)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout
        assert program.stdout.readline() == "ready\n"
        started = time.perf_counter()
        if kill_after is None:
            assert program.stdout.readline() == "done\n"
            return time.perf_counter() - started
        time.sleep(kill_after)
        program.kill()
    return kill_after


async def import_again(saved: store.Store, source: Path) -> None:
    """Import in this process."""
    if source.suffix == ".jsonl":
        await saved.load_export(source)
    else:
        await saved.import_from(source, format="pydantic-ai")


async def export(folder: Path) -> Path:
    """Write an export of many sessions."""
    path = folder / "export.jsonl"
    async with store.memory() as saved:
        for number in range(SESSIONS):
            await (await Session.open(saved, f"s{number}", HELPER)).run(f"{number}" * 500)
        await saved.export(path)
    return path


async def histories(folder: Path) -> Path:
    """Write histories of Pydantic AI, one file each."""
    path = folder / "histories"
    path.mkdir()
    for number in range(SESSIONS):
        part = {"part_kind": "user-prompt", "content": f"Question {number}", "timestamp": "2026-01-01T00:00:00Z"}
        (path / f"s{number}.json").write_text(json.dumps([{"kind": "request", "parts": [part]}]))
    return path


# Every kill comes within the time of an import, which a busy disk makes many times as long.
@pytest.mark.timeout(120 + 60 * KILLS)
@pytest.mark.parametrize("make_source", [export, histories])
@pytest.mark.parametrize("engine", DURABLE)
async def test_an_import_that_is_killed_has_stored_all_sessions_or_none(engine, make_source, tmp_path):
    source = await make_source(tmp_path)
    url = url_of(engine, tmp_path, f"import_{make_source.__name__}")
    longest = run(url, source)
    found = []
    async with store.from_url(url) as saved:
        for _ in range(KILLS):
            for info in await saved.sessions(limit=1000):
                await saved.delete(info.id)
            run(url, source, random.uniform(0, longest * 1.2))

            found.append(len(await saved.sessions(limit=1000)))
            assert found[-1] in (0, SESSIONS), found
            assert await saved.check() == []
        # A commit that was on its way at the end of a process may come after the counts, and before or in this import.
        if not await saved.sessions(limit=1000):
            with contextlib.suppress(ConflictError):
                await import_again(saved, source)
        assert len(await saved.sessions(limit=1000)) == SESSIONS
    print(f"{engine}: an import of {longest * 1000:.0f} ms, killed {KILLS} times: {found.count(SESSIONS)} were done")
    if engine == "file":
        folder = Path(url.removeprefix("file://"))
        async with store.from_url(url) as saved:
            await saved.sessions()
        assert {one.name for one in folder.iterdir()} == {"locks", "sessions", "trash", "turntree-store.json"}

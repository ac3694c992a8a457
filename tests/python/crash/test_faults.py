"""Full and read-only disks, clocks that go backwards, forks, many writers, a database server that is killed."""

import asyncio
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from crash_engines import DURABLE, LOCAL, url_of
from fault_program import HELPER, texts

from turntree import ConflictError, Session, StoreError, store
from turntree import session as make_session

PROGRAM = Path(__file__).with_name("fault_program.py")
ROOT = Path(__file__).resolve().parents[3]


def start(*arguments: object, prefix: tuple[str, ...] = (), **environment: str) -> subprocess.Popen[str]:
    command = [*prefix, sys.executable, str(PROGRAM), *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )


def finish(program: subprocess.Popen[str]) -> str:
    """Wait until a program has ended, check that it was successful, and return what it printed."""
    output, errors = program.communicate(timeout=50)
    assert program.returncode == 0, f"{output}{errors}"
    assert output.endswith("ok\n"), output
    return output


@pytest.mark.skipif(sys.platform != "linux", reason="NOT TESTED: a small file system needs Linux")
@pytest.mark.parametrize("engine", LOCAL)
def test_a_full_disk_is_named_and_the_session_is_saved_when_there_is_space(engine, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)]
    alone = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*alone, *mount], check=False, capture_output=True).returncode:
        pytest.skip("NOT TESTED: this machine does not allow a tmpfs in a namespace of its own")
    prefix = (*alone, "sh", "-c", f'{" ".join(mount)} && exec "$@"', "sh")

    output = finish(start("full", url_of(engine, small, "store"), small / "filler", prefix=prefix))

    assert "full" in output
    assert "no space" in output


CLOCK = """
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
long clock_offset = 0;
int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = syscall(SYS_clock_gettime, clock, time);
    if (!failed && clock == CLOCK_REALTIME) time->tv_sec += clock_offset;
    return failed;
}
"""


@pytest.fixture
def clock(tmp_path: Path) -> Path:
    """Return a library whose wall clock can be moved."""
    compiler = shutil.which("cc")
    if sys.platform != "linux" or compiler is None:
        pytest.skip("NOT TESTED: there is no C compiler, or no LD_PRELOAD, to replace the clock")
    (tmp_path / "clock.c").write_text(CLOCK)
    library = tmp_path / "clock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "clock.c"], check=True)
    return library


@pytest.mark.parametrize("engine", DURABLE)
def test_a_clock_that_goes_backwards_changes_nothing_but_times(engine, tmp_path, clock):
    finish(start("clock", url_of(engine, tmp_path, "clock"), clock, LD_PRELOAD=str(clock)))


@pytest.mark.parametrize("engine", ["memory", "sqlite", "postgres"])
def test_a_clock_that_moves_by_hours_neither_ends_nor_prolongs_a_lease(engine, tmp_path, clock):
    finish(start("lease", url_of(engine, tmp_path, "lease"), clock, LD_PRELOAD=str(clock)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="NOT TESTED: this system cannot fork")
@pytest.mark.parametrize("engine", DURABLE)
def test_a_process_and_its_fork_use_the_same_store(engine, tmp_path):
    finish(start("fork", url_of(engine, tmp_path, "fork")))


@pytest.mark.parametrize("engine", DURABLE)
async def test_threads_of_two_processes_write_to_one_store(engine, tmp_path):
    url, threads, turns = url_of(engine, tmp_path, "many"), 8, 3
    programs = [start("write", url, name, threads, turns) for name in ("one", "two")]
    for program in programs:
        finish(program)

    async with store.from_url(url) as saved:
        for name in ("one", "two"):
            for thread in range(threads):
                session = await Session.load(saved, f"{name}-{thread}", HELPER)
                assert texts(session) == [str(turn) for turn in range(turns)]
        shared = texts(await Session.load(saved, "shared", HELPER))
    sharing = [f"{name}-{thread}" for name in ("one", "two") for thread in range(0, threads, 4)]
    expected = {f"{name}-{turn}" for name in sharing for turn in range(turns)}
    assert len(shared) == len(expected)
    assert set(shared) == expected


class Server:
    """A PostgreSQL server of this test alone."""

    def __init__(self) -> None:
        # The user that runs the server must be able to enter it.
        self.folder = Path(tempfile.mkdtemp(prefix="turntree-crash-"))
        self.folder.chmod(0o755)
        self.url = ""

    async def call(self, command: str) -> None:
        program = [str(ROOT / "tools/test-services"), command, str(self.folder), *["postgres"] * (command != "stop")]
        done = await asyncio.to_thread(subprocess.run, program, check=True, capture_output=True, text=True, timeout=60)
        for line in done.stdout.splitlines():
            if "TURNTREE_TEST_POSTGRES=" in line:
                self.url = line.partition("=")[2]


@pytest.mark.timeout(180)
async def test_sessions_recover_when_postgres_is_killed_under_load(tmp_path):
    url_of("postgres", tmp_path, "killed")  # skips without servers
    server = Server()
    kills = 2
    done: dict[str, int] = {}
    stopped = asyncio.Event()

    async def talk(saved: store.Store, name: str) -> None:
        # Not `open`, which reads.
        session = make_session(HELPER, id=name, persistence=saved)
        while not stopped.is_set() or done.get(name, 0) < 3:
            text = str(done.get(name, 0))
            try:
                await session.run(text)
            except ConflictError:
                raise
            except StoreError:
                await _recover(session)
            done[name] = done.get(name, 0) + 1
            await asyncio.sleep(0)

    try:
        await server.call("start")
        async with store.postgres(server.url, schema="killed") as saved:
            await saved.sessions()
            tasks = [asyncio.create_task(talk(saved, f"s{number}")) for number in range(6)]
            for _ in range(kills):
                await asyncio.sleep(random.uniform(0.2, 0.6))
                await server.call("kill")
                await server.call("start")
            stopped.set()
            await asyncio.wait_for(asyncio.gather(*tasks), 30)
            for name, count in done.items():
                loaded = await Session.load(saved, name, HELPER)
                assert texts(loaded) == [str(number) for number in range(count)], name
    finally:
        await server.call("stop")


async def _recover(session: Session) -> None:
    """Do what an application does after an error of the store: save until it is there, and continue the run."""
    while True:
        try:
            if session.is_unfinished:
                await session.resume()
            await session.save()
        except ConflictError:
            raise
        except StoreError:
            await asyncio.sleep(0.05)
            continue
        return

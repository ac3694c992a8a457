"""Stores of another user, in folders that cannot be written."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from read_only_program import HELPER

from turntree import Session, store

PROGRAM = Path(__file__).with_name("read_only_program.py")
needs_users = pytest.mark.skipif(sys.platform == "win32", reason="NOT TESTED: Windows has other permissions")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder that every user can enter; the one of pytest is for its user only."""
    with tempfile.TemporaryDirectory(prefix="turntree-read-only-") as name:
        path = Path(name)
        path.chmod(0o755)
        yield path
        for one, _, _ in os.walk(path):
            Path(one).chmod(0o755)


def protect(path: Path) -> None:
    """Let nobody write the files and folders; root can all the same."""
    for one, _, files in os.walk(path):
        for name in files:
            Path(one, name).chmod(0o444)
        Path(one).chmod(0o555)


def use(url: str, *options: str) -> list[str]:
    """Run the program as another user, and return its lines."""
    command = [sys.executable, str(PROGRAM), url, *options]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@needs_users
@pytest.mark.parametrize("options", [["read_only"], []])
async def test_a_sqlite_file_in_a_folder_of_another_user_can_be_read(folder, options):
    path = folder / "s.db"
    async with store.sqlite(path) as saved:
        await (await Session.open(saved, "s", HELPER)).run("Hello")
    protect(folder)

    read, run, delete = use(f"sqlite:///{path}", *options)

    assert read == "read ['s'] ['Hello', 'Noted.'] []"
    assert "is read-only" in run
    assert "is read-only" in delete
    assert [one.name for one in folder.iterdir()] == ["s.db"]


@needs_users
async def test_a_reader_sees_what_the_other_user_writes_in_the_meantime(folder):
    path = folder / "s.db"
    async with store.sqlite(path) as saved:
        talk = await Session.open(saved, "s", HELPER)
        await talk.run("Hello")
        folder.chmod(0o755)

        # The file and its log are open: the log has the newest entries.
        read, run, _ = use(f"sqlite:///{path}", "read_only")

    assert read == "read ['s'] ['Hello', 'Noted.'] []"
    assert "is read-only" in run


@needs_users
def test_a_sqlite_file_that_cannot_be_created_is_an_error_that_says_why(folder):
    folder.chmod(0o555)

    run, delete = use(f"sqlite:///{folder}/s.db")

    assert "is read-only" in run
    assert "Permission denied" in delete
    assert list(folder.iterdir()) == []


@needs_users
async def test_a_folder_of_another_user_can_be_read(folder):
    path = folder / "store"
    async with store.file(path) as saved:
        await (await Session.open(saved, "s", HELPER)).run("Hello")
    protect(path)

    read, run, delete = use(f"file://{path}")

    assert read == "read ['s'] ['Hello', 'Noted.'] []"
    assert "is read-only" in run
    assert "is read-only" in delete
    async with store.file(path) as saved:
        assert (await saved.sessions())[0].turns == 1


@pytest.mark.skipif(sys.platform != "linux", reason="NOT TESTED: a read-only mount needs Linux")
@pytest.mark.parametrize("engine", ["sqlite", "file"])
async def test_a_store_on_a_file_system_that_is_mounted_for_reading_can_be_read(folder, engine):
    url = f"sqlite:///{folder}/s.db" if engine == "sqlite" else f"file://{folder}/store"
    async with store.from_url(url) as saved:
        await (await Session.open(saved, "s", HELPER)).run("Hello")
    mount = f"mount --bind {folder} {folder} && mount -o remount,bind,ro {folder}"
    alone = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*alone, "sh", "-c", mount], check=False, capture_output=True).returncode:
        pytest.skip("NOT TESTED: this machine does not allow mounts in a namespace of its own")

    command = [*alone, "sh", "-c", f'{mount} && exec "$@"', "sh", sys.executable, str(PROGRAM), url]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=50)

    assert done.returncode == 0, done.stderr
    read, run, delete = done.stdout.splitlines()
    assert read == "read ['s'] ['Hello', 'Noted.'] []"
    assert "is read-only" in run
    assert "is read-only" in delete

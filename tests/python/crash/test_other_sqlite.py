"""Another copy of the SQLite library in the same process, such as Python's, loses nothing that was saved."""

import subprocess
import sys
from pathlib import Path

import pytest
from peek_program import HELPER

from turntree import Session, store

PROGRAM = Path(__file__).with_name("peek_program.py")


@pytest.mark.skipif(sys.platform != "linux", reason="NOT TESTED: only Linux has the locks that this needs")
async def test_reading_the_file_with_sqlite3_in_the_same_process_loses_no_turn(tmp_path):
    path = tmp_path / "s.db"
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(path), "60"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.split()) == (-9, [str(number) for number in range(60)]), done.stderr

    async with store.sqlite(path) as saved:
        assert await saved.check() == []
        session = await Session.load(saved, "s", HELPER)
    # Each of the 60 turns and the last one has a question and an answer.
    assert len(session.tree.history()) == 122

"""Programs that are killed at random moments: what was acknowledged is stored, and their sessions continue."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from crash_engines import DURABLE, url_of
from crash_sessions import OutsideLog, advance, open_session, operations, save_interval, shape, uninterrupted

from turntree import store

# `make crash` asks for more.
CRASHES = int(os.environ.get("TURNTREE_CRASHES", "50"))
# A program is killed after a random time up to one of these, in seconds.
DELAYS = (0.02, 0.06, 0.2)
PROGRAM = Path(__file__).with_name("crash_program.py")


class Programs:
    """Programs that execute sessions, one at a time."""

    def __init__(self, url: str, folder: Path) -> None:
        self.errors = (folder / "errors.log").open("w+")
        self.outside = folder / "outside.log"
        command = [sys.executable, str(PROGRAM), url, str(folder)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True
        )

    def kill_after(self, seconds: float, first: int, *, in_run: bool) -> None:
        """Start a program that executes the sessions from number `first` on, and kill it when it has run for a time.

        With `in_run` the time starts with its next tool call: on a slow machine too, it is then in a run.
        """
        assert self.process.stdin
        before = self.outside.stat().st_size
        self.process.stdin.write(f"{first}\n")
        self.process.stdin.flush()
        # Two processes print these lines, in any order.
        (pid,) = {self._line(), self._line()} - {"ready"}
        deadline = time.monotonic() + 60
        while in_run and self.outside.stat().st_size == before:
            assert time.monotonic() < deadline, f"no tool was called: {self._said()}"
            time.sleep(0.001)
        time.sleep(seconds)
        os.kill(int(pid), signal.SIGKILL)
        status = self._line()
        assert int(status) == signal.SIGKILL, f"the program ended with {status}: {self._said()}"

    def _line(self) -> str:
        assert self.process.stdout
        line = self.process.stdout.readline().strip()
        assert line, self._said()
        return line

    def _said(self) -> str:
        self.errors.seek(0)
        return self.errors.read()

    def end(self) -> None:
        """End the processes."""
        self.process.communicate(timeout=10)
        self.errors.close()


class Checker:
    """Compares the store with the logs of the programs."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.outside, self.acknowledged = OutsideLog(folder / "outside.log"), OutsideLog(folder / "acknowledged.log")
        self.finished = 0
        # How many kills were during a run, and during a call of a tool that is not idempotent.
        self.in_runs = self.in_calls = 0

    async def check(self, saved: store.Store) -> None:
        """Check the sessions that the killed program may have changed."""
        reported: dict[str, list[tuple[str, str]]] = {}
        for line in self.acknowledged.lines():
            kind, name, value = line.split()
            reported.setdefault(name, []).append((kind, value))
        while await self._check_session(saved, f"s-{self.finished}", reported.get(f"s-{self.finished}", [])):
            self.finished += 1

    async def _check_session(self, saved: store.Store, name: str, reported: list[tuple[str, str]]) -> bool:
        """Check what was acknowledged of a session. Return whether its script has ended."""
        if await saved.load(name) is None:
            assert not reported, f"{name} was acknowledged, and the store does not have it"
            return False
        session = await open_session(saved, name, self.outside)
        done = max((int(value) for kind, value in reported if kind == "operation"), default=-1)
        newest = session.metadata.get("operation", -1)
        # An operation of which only the start was saved is unfinished.
        assert newest - session.is_unfinished >= done, f"{name}: {done} was acknowledged, {newest} is stored"
        stored = {checkpoint.id for checkpoint in session.checkpoints}
        lost = {value for kind, value in reported if kind == "checkpoint"} - stored
        assert not lost, f"{name}: checkpoints {lost} were acknowledged, and the store does not have them"
        self.in_runs += session.is_unfinished
        self.in_calls += bool(session.in_doubt)
        if newest + 1 < len(operations(name)) or session.is_unfinished:
            return False
        assert shape(session) == await uninterrupted(name, self.folder), name
        return True

    def check_side_effects(self) -> None:
        """Check that no charge was made twice, and that notices were repeated with the same key only.

        Only "tool" saves a response before its tools run. With "step" the step that was running is repeated, and with
        "turn" the run: never an earlier one.
        """
        lines = [line for line in self.outside.lines() if save_interval(line.split()[1]) == "tool"]
        charges = Counter(line for line in lines if line.startswith("charge "))
        assert not {line for line, times in charges.items() if times > 1}
        keys = Counter(line.rpartition(" ")[0] for line in set(lines) if line.startswith("notify "))
        assert not {line for line, different in keys.items() if different > 1}

        newest: dict[str, tuple[int, int]] = {}
        for line in self.outside.lines():
            # For example "charge s-1 turn 4/2": the third call of the turn, which is in its second step.
            kind, name, _, place = line.split()[:4]
            turn, call = place.split("/")
            if kind == "charge" and save_interval(name) != "tool":
                current = (int(turn), int(call) if save_interval(name) == "step" else 0)
                assert newest.get(name, current) <= current, f"{line}: a later one was made before"
                newest[name] = current


@pytest.mark.timeout(60 + 4 * CRASHES)
@pytest.mark.parametrize("engine", DURABLE)
async def test_a_killed_program_loses_nothing_that_it_was_told_and_continues(engine, tmp_path):
    url = url_of(engine, tmp_path, "kills")
    seed = random.randrange(1_000_000)
    chosen, checker = random.Random(seed), Checker(url, tmp_path)
    print(f"seed {seed}")
    started = time.monotonic()
    programs = Programs(url, tmp_path)
    try:
        async with store.from_url(url) as saved:
            for number in range(CRASHES):
                seconds = chosen.uniform(0, chosen.choice(DELAYS))
                programs.kill_after(seconds, checker.finished, in_run=number % 2 == 0)
                await checker.check(saved)
            # What the last program left is continued here.
            name = f"s-{checker.finished}"
            session = await open_session(saved, name, checker.outside)
            await advance(session, checker.outside, checker.acknowledged.add)
            await checker.check(saved)
            checker.check_side_effects()
    finally:
        programs.end()
    seconds = time.monotonic() - started
    print(
        f"{engine}: {CRASHES} kills, {checker.in_runs} in runs, {checker.in_calls} in calls; "
        f"{checker.finished} sessions, {len(checker.acknowledged.lines())} acknowledgements, {seconds:.1f} s"
    )
    assert checker.finished >= 1
    assert checker.in_runs >= CRASHES // 10, "the programs were killed before they did anything"


async def test_the_script_contains_every_operation(tmp_path):
    names = [f"s-{number}" for number in range(12)]

    assert {word.split()[0] for name in names for word in operations(name)} == {"turn", "branch", "restore", "merge"}
    shapes = await asyncio.gather(*(uninterrupted(name, tmp_path) for name in names))
    assert all(len(one) >= 3 for one in shapes)

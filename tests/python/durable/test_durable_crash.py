"""A killed process is taken over: finished steps are not repeated, and the turn is that of an uninterrupted run."""

import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from durable_agents import Journal

HERE = Path(__file__).parent
POSTGRES = "TURNTREE_TEST_POSTGRES"
PLACES = 48
"""How many places of the program can be the last one of its process, at least."""


def database(engine: str, folder: Path) -> str:
    """Return the URL of an empty database. Skips the test, and says so, if a package or a server is absent."""
    package = "dbos" if engine.startswith("dbos") else "absurd_sdk"
    pytest.importorskip(package, reason=f"NOT TESTED with {engine}: the package {package} is not installed")
    if engine == "dbos-sqlite":
        return f"sqlite:///{folder}/dbos.db"
    from durable_servers import postgres_database

    return postgres_database(schema="absurd" if engine == "absurd" else None)


def program(engine: str, url: str, folder: Path, die_at: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(HERE / "durable_program.py"), engine, url, str(folder), str(die_at)]
    return subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)


def comparable(value):
    """Without the ids, times and durations, which differ between two runs."""
    if isinstance(value, dict):
        return {key: comparable(item) for key, item in value.items() if key not in ("id", "timestamp", "duration")}
    return [comparable(item) for item in value] if isinstance(value, list) else value


def output(finished: subprocess.CompletedProcess[str]) -> dict:
    assert finished.returncode == 0, finished.stderr[-3000:]
    return json.loads(finished.stdout.splitlines()[-1])


ENGINES = ["dbos-sqlite", "dbos-postgres", "absurd"]


@pytest.fixture(scope="module", params=ENGINES)
def uninterrupted(request, tmp_path_factory):
    """The engine and the output of a run without a crash."""
    folder = tmp_path_factory.mktemp(f"q{uuid.uuid4().hex[:8]}")
    finished = program(request.param, database(request.param, folder), folder, 0)
    return request.param, output(finished), Journal(folder / "effects").lines()


def test_the_program_has_enough_places_to_die_at(uninterrupted):
    assert uninterrupted[1]["places"] >= PLACES


# Two programs that import much, each with its own limit.
@pytest.mark.timeout(120)
@pytest.mark.parametrize("die_at", range(1, PLACES + 1, 1 if os.environ.get("TURNTREE_CRASHES") else 4))
def test_a_killed_run_is_continued(uninterrupted, die_at, tmp_path):
    engine, expected, all_effects = uninterrupted
    url = database(engine, tmp_path)

    killed = program(engine, url, tmp_path, die_at)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-3000:]
    recorded = {name for kind, name in Journal(tmp_path / "steps").lines() if kind == "recorded"}
    before = len(Journal(tmp_path / "steps").lines())
    continued = output(program(engine, url, tmp_path, 0))

    repeated = [name for kind, name in Journal(tmp_path / "steps").lines()[before:] if kind == "executed"]
    assert recorded.isdisjoint(repeated)
    assert comparable(continued["turn"]) == comparable(expected["turn"])
    effects = Journal(tmp_path / "effects").lines()
    booked = [line[1] for line in effects if line[0] == "book"]
    assert sorted(booked) == ["12A", "12B"], "a call of a tool that is not idempotent was repeated"
    keys = {(line[0], line[1], line[2]) for line in effects if line[0] != "model"}
    assert len(keys) == len([line for line in all_effects if line[0] != "model"]), "a repeated call has another key"

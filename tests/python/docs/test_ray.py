"""The examples for Ray on a real local cluster; skipped if Ray, a large package, is not installed.

`make test-ray` installs it.
"""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from turntree import thread_protocol as tp

pytest.importorskip("ray.data", reason='ray is not installed: pip install "ray[data]"')

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
HISTORIES = [path.read_text(encoding="utf-8").strip() for path in sorted((EXAMPLES / "data").glob("*.json"))]
THREADS = [tp.from_pydantic_ai(history).model_dump_json() for history in HISTORIES]


def run_example(name, *arguments):
    """Run an example and return its output."""
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=590)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.timeout(600)
def test_conversion_with_ray_adds_a_column_to_parquet_files(tmp_path):
    (tmp_path / "in").mkdir()
    expected = {}
    for part in range(3):
        rows = [*HISTORIES * 40, None, "["]
        names = [f"{part}-{place:03}" for place in range(len(rows))]
        expected |= dict(zip(names, [*THREADS * 40, None, None], strict=True))
        pq.write_table(pa.table({"name": names, "history": rows}), tmp_path / "in" / f"{part}.parquet")

    run_example("ray_data.py", str(tmp_path / "in"), str(tmp_path / "out"))

    written = pq.read_table(tmp_path / "out")
    assert dict(zip(written["name"].to_pylist(), written["thread"].to_pylist(), strict=True)) == expected


@pytest.mark.timeout(600)
def test_an_agent_answers_ten_thousand_inputs_on_ray():
    assert run_example("ray_agents.py").splitlines()[-1] == "10000 answers, 10000 for billing"

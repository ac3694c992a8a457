"""The example for Ray Data on a real local cluster; skipped if Ray, a large package, is not installed."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from turntree import thread_protocol as tp

pytest.importorskip("ray.data", reason='ray is not installed: pip install "ray[data]"')

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "ray_data.py"
HISTORIES = [path.read_text(encoding="utf-8").strip() for path in sorted((EXAMPLE.parent / "data").glob("*.json"))]
THREADS = [tp.from_pydantic_ai(history).model_dump_json() for history in HISTORIES]


@pytest.mark.timeout(600)
def test_conversion_with_ray_adds_a_column_to_parquet_files(tmp_path):
    (tmp_path / "in").mkdir()
    expected = {}
    for part in range(3):
        rows = [*HISTORIES * 40, None, "["]
        names = [f"{part}-{place:03}" for place in range(len(rows))]
        expected |= dict(zip(names, [*THREADS * 40, None, None], strict=True))
        pq.write_table(pa.table({"name": names, "history": rows}), tmp_path / "in" / f"{part}.parquet")

    command = [sys.executable, str(EXAMPLE), str(tmp_path / "in"), str(tmp_path / "out")]
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=590)

    assert done.returncode == 0, done.stderr
    written = pq.read_table(tmp_path / "out")
    assert dict(zip(written["name"].to_pylist(), written["thread"].to_pylist(), strict=True)) == expected

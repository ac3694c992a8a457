"""Histories of Pydantic AI to ThreadProtocol on a cluster, with Ray Data.

    pip install "turntree[arrow]" "ray[data]"
    python examples/ray_data.py [FROM [TO]]

FROM and TO are directories of Parquet files. Without them a few histories of this repository are converted and shown.
"""

# pyright: basic, reportMissingImports=false
# (pyarrow and Ray have no type annotations)
from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from turntree import thread_protocol as tp


def to_threads(batch: pa.Table) -> pa.Table:
    """Add the column ``thread`` to a batch. The value is null for an invalid history."""
    # One job, because Ray runs one of these functions per core.
    threads: Any = tp.convert_arrow(batch["history"], jobs=1, on_error="null")
    return batch.append_column("thread", threads)


def histories() -> pa.Table:
    """Return the histories of this repository as a table."""
    paths = sorted((Path(__file__).parent / "data").glob("*.json"))
    return pa.table({"name": [path.stem for path in paths], "history": [path.read_text("utf-8") for path in paths]})


def main() -> int:
    """Convert with Ray and return the exit status."""
    try:
        import ray
    except ImportError:
        print('ray is not installed; try: pip install "ray[data]".', file=sys.stderr)
        return 1
    ray.init(log_to_driver=False, logging_level="error")
    logging.getLogger("ray.data").setLevel(logging.WARNING)
    given = ray.data.read_parquet(sys.argv[1]) if len(sys.argv) > 1 else ray.data.from_arrow(histories())
    # Ray sends a function of the script to the workers. A function of another module would have to be installed there.
    threads = given.map_batches(to_threads, batch_format="pyarrow")
    if len(sys.argv) > 2:
        threads.write_parquet(sys.argv[2])
        return 0
    for row in threads.take(10):
        print(row["name"], len(row["thread"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())

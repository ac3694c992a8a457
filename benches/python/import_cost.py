"""CPU time of imports in fresh processes.

    python benches/python/import_cost.py [--processes 40] ["import turntree" …]

The user and system time of a process that executes a statement, without that of one that executes ``pass``. The
statements take turns. The output is the median and the minimum in milliseconds, and the number of modules that the
statement loads. Requires an installed turntree whose modules are compiled, as pip does, and a system with times of
child processes.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys

STATEMENTS = [
    "import typing",
    "import asyncio",
    "import turntree",
    "import turntree.upp",
    "from turntree import agent",
    "from turntree import agent, session",
]
COUNTED = "import sys; before = set(sys.modules); {}; print(len(set(sys.modules) - before))"


def milliseconds(statement: str) -> float:
    """Return the CPU time of a process. It is isolated: no user site, no environment variables."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-I", "-c", statement], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1_000


def loaded(statement: str) -> int:
    """Return how many modules a statement loads."""
    command = [sys.executable, "-I", "-c", COUNTED.format(statement)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("statements", nargs="*", default=STATEMENTS)
    parser.add_argument("--processes", type=int, default=40)
    options = parser.parse_args()

    times: dict[str, list[float]] = {statement: [] for statement in ["pass", *options.statements]}
    for statement in times:
        milliseconds(statement)  # Fills the cache of the file system.
    for _ in range(options.processes):
        for statement, measured in times.items():
            measured.append(milliseconds(statement))

    start = times.pop("pass")
    print(f"start of the interpreter: {statistics.median(start):.1f} ms, at least {min(start):.1f} ms")
    for statement, measured in times.items():
        median, least = statistics.median(measured) - statistics.median(start), min(measured) - min(start)
        print(f"{median:7.1f} ms  {least:7.1f} ms  {loaded(statement):4} modules  {statement}")


if __name__ == "__main__":
    main()

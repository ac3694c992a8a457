"""Runs what published wheels must be fast at: the workload of their profile-guided optimization.

    make profile        # builds turntree with counters, runs this file and merges the counts

What runs here is optimized for speed, in proportion to how often it runs; the rest of the code is optimized for size.
The benchmarks of `benches/python` give the weights. Each is a process of its own and must succeed; all print to
`target/counts/output.txt`. The argument is the hook program that is counted.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BENCHES = ROOT / "benches" / "python"
OUTPUT = ROOT / "target" / "counts" / "output.txt"

CASES = (
    "plain",
    "tools",
    "session_turn",
    "http",
    "stream",
    "from_json",
    "to_json",
    "dump",
    "parse",
    "canonical",
    "ui_stream",
)

PROGRAMS: list[list[str]] = [
    *(["compare_versions.py", "--case", case] for case in CASES),
    ["steps.py", "--runs", "10", "--samples", "3"],
    ["checkpoints.py", "--samples", "3"],
    ["concurrent_sessions.py", "--sessions", "100"],
    ["long_session.py", "--turns", "1000", "--once"],
    ["streams.py", "--streams", "100", "--deltas", "50", "--interval", "0.01"],
    ["vendor_streams.py", "--streams", "20"],
    ["bulk.py", "--documents", "2000", "--large-megabytes", "5", "--repeat", "1", "--jobs", "1"],
    ["uaip_requests.py", "--requests", "2000", "--repetitions", "1"],
    ["uamp_streams.py", "--requests", "60", "--repetitions", "1", "--only", "turntree"],
]


def main(hook: str) -> int:
    """Run the programs; return 1 if one fails."""
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    with OUTPUT.open("w") as output:
        for program, *arguments in [*PROGRAMS, ["hooks.py", "--samples", "20", "--program", hook]]:
            print(program, *arguments, flush=True)
            print("$", program, *arguments, file=output, flush=True)
            command = [sys.executable, str(BENCHES / program), *arguments]
            done = subprocess.run(command, cwd=BENCHES, stdout=output, stderr=subprocess.STDOUT, check=False)
            if done.returncode:
                print(f"{program} failed; see {OUTPUT}", file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(str(Path(sys.argv[1]).resolve())))

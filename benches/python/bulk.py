"""Bulk conversion: throughput with one core and with two, and memory.

    python benches/python/bulk.py [--documents 100000] [--large-megabytes 100] [--only scaling|memory]

Creates histories in a temporary directory. Each measurement is a separate process; the wall time, CPU time and peak
memory of that process are reported (Linux, macOS). Two cores of a virtual machine rarely double the throughput of one:
compare the factor with that of independent processes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

FORMATS = ("pydantic-ai", "thread-protocol", "thread-protocol-canonical", "ui-messages", "ui-stream")

SENTENCE = (
    "a conversation between people agents and tools is a tree of turns that branches where somebody changes their mind"
)
WORDS = SENTENCE.split()

MEASURE = """
import json, resource, sys, time
from turntree import thread_protocol as tp
source, target, from_, to, jobs = sys.argv[1:]
before = resource.getrusage(resource.RUSAGE_SELF)
began = time.perf_counter()
report = tp.convert_jsonl(source, target, from_, to, int(jobs)) if source else None
wall = time.perf_counter() - began
after = resource.getrusage(resource.RUSAGE_SELF)
cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
peak = after.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
if sys.platform == "linux":
    # ru_maxrss starts with the value of the parent process.
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024
print(json.dumps({"wall": wall, "cpu": cpu, "peak": peak}))
"""


def text(seed: int, words: int) -> str:
    """Return words that depend on the seed."""
    return " ".join(WORDS[(seed * 7 + n) % len(WORDS)] for n in range(words)) + f" {seed}."


def history(number: int, rounds: int) -> str:
    """Return a history with four messages per round, in the format of pydantic-ai."""
    messages = []
    for turn in range(rounds):
        seed = number * 31 + turn
        time = f"2026-01-{1 + number % 28:02}T09:{turn % 60:02}:00Z"
        call = f"call_{number}_{turn}"
        usage = {
            "input_tokens": 900 + seed % 90,
            "cache_write_tokens": 0,
            "cache_read_tokens": 512,
            "output_tokens": 40,
            "input_audio_tokens": 0,
            "cache_audio_read_tokens": 0,
            "output_audio_tokens": 0,
            "details": {},
        }
        answer = {"usage": usage, "model_name": "example-1", "timestamp": time, "kind": "response"}
        tool = {"tool_name": "search", "tool_call_id": call}
        messages += [
            {
                "parts": [{"content": text(seed, 40), "timestamp": time, "part_kind": "user-prompt"}],
                "instructions": None,
                "kind": "request",
            },
            {
                "parts": [
                    {"content": text(seed + 1, 20), "id": None, "part_kind": "text"},
                    {**tool, "args": {"query": text(seed, 5), "limit": 5}, "part_kind": "tool-call"},
                ],
                **answer,
            },
            {
                "parts": [
                    {
                        **tool,
                        "content": {"hits": [{"id": n, "title": text(n, 8)} for n in range(4)]},
                        "metadata": None,
                        "timestamp": time,
                        "part_kind": "tool-return",
                    }
                ],
                "instructions": None,
                "kind": "request",
            },
            {"parts": [{"content": text(seed + 2, 90), "id": None, "part_kind": "text"}], **answer},
        ]
    return json.dumps(messages, separators=(",", ":"), ensure_ascii=False)


def measure(source: Path, target: Path, from_: str, to: str, jobs: int) -> dict[str, float]:
    """Run one conversion in a separate process."""
    command = [sys.executable, "-c", MEASURE, str(source), str(target), from_, to, str(jobs)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def side_by_side(source: Path, folder: Path, from_: str, to: str, number: int) -> float:
    """Return the speedup of independent processes with one job each: the limit of the machine."""
    targets = [folder / f"side-{place}.jsonl" for place in range(number)]
    commands = [[sys.executable, "-c", MEASURE, str(source), str(target), from_, to, "1"] for target in targets]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
    walls = [json.loads(run.communicate()[0])["wall"] for run in runs]
    for target in targets:
        target.unlink()
    return max(walls)


def main() -> None:
    """Run and print all measurements."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--large-megabytes", type=int, default=100)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", choices=["scaling", "memory"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.only != "memory":
            scaling(Path(folder), options)
        if options.only != "scaling":
            memory(Path(folder), options)


def scaling(folder: Path, options: argparse.Namespace) -> None:
    """Measure the time for each number of jobs."""
    histories, threads, out = folder / "histories.jsonl", folder / "threads.jsonl", folder / "out.jsonl"
    with histories.open("w", encoding="utf-8") as file:
        file.writelines(history(number, 1 + number % 3) + "\n" for number in range(options.documents))
    measure(histories, threads, "pydantic-ai", "thread-protocol", 2)
    size = histories.stat().st_size / 1e6
    print(f"{options.documents} histories, {size:.0f} MB; the best of {options.repeat}")
    for source, from_, to in (
        (histories, "pydantic-ai", "thread-protocol"),
        (threads, "thread-protocol", "pydantic-ai"),
        (threads, "thread-protocol", "thread-protocol-canonical"),
    ):
        first = 0.0
        for jobs in options.jobs:
            best = min(
                (measure(source, out, from_, to, jobs) for _ in range(options.repeat)), key=lambda run: run["wall"]
            )
            first = first or best["wall"]
            print(
                f"  {from_} -> {to}, {jobs} jobs: {best['wall']:.2f} s wall, {best['cpu']:.2f} s CPU, "
                f"{source.stat().st_size / 1e6 / best['wall']:.0f} MB/s, {first / best['wall']:.2f} x"
            )
        number = max(options.jobs)
        together = min(side_by_side(source, folder, from_, to, number) for _ in range(options.repeat))
        most = number * first / together
        print(f"    {number} processes of one job at once: {most:.2f} x, the most that this machine allows")


def memory(folder: Path, options: argparse.Namespace) -> None:
    """Measure the memory for a large document, for every pair of formats, as a multiple of the document."""
    sources = {size: {FORMATS[0]: folder / f"{size}-{FORMATS[0]}.jsonl"} for size in ("small", "large")}
    rounds = options.large_megabytes * 1_000_000 // len(history(1, 1))
    sources["small"][FORMATS[0]].write_text(history(1, 1) + "\n", encoding="utf-8")
    sources["large"][FORMATS[0]].write_text(history(1, rounds) + "\n", encoding="utf-8")
    for size, files in sources.items():
        for name in FORMATS[1:]:
            files[name] = folder / f"{size}-{name}.jsonl"
            measure(files[FORMATS[0]], files[name], FORMATS[0], name, 1)
    print(f"peak memory above that of a small document, in multiples of a document of {options.large_megabytes} MB")
    out = folder / "out.jsonl"
    for from_ in FORMATS:
        row = []
        for to in FORMATS:
            if from_ != to:
                fixed = measure(sources["small"][from_], out, from_, to, 1)["peak"]
                peak = measure(sources["large"][from_], out, from_, to, 1)["peak"]
                row.append(f"{to} {(peak - fixed) / sources['large'][from_].stat().st_size:.1f}")
        print(f"  {from_} -> {', '.join(row)}")


if __name__ == "__main__":
    main()

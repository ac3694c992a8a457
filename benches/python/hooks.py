"""Time of the hook program for one event, from its start to its end, as a harness sees it.

    python benches/python/hooks.py [--program turntree-hook] [--samples 200]

The program runs in a linked worktree of a new repository: without rules of the user, with 20 in TOML, and with 20 in
Cedar. The first line is the start and end of a program that does nothing (`true`), which every hook costs. "CPU" is the
mean of user and system time of the program, which a busy machine changes less. The rows "rules" are what the rules
alone need, from the audit. Requires git, on a system with `resource`.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import sqlite3
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

TOML = """
[[rule]]
id = "user.rule-{at}"
reason = "not here"
remedy = "ask"
[rule.when]
programs = ["tool-{at}"]
arguments = ["--context=prod*"]
"""
CEDAR = """
@id("user.rule-{at}") @reason("not here") @remedy("ask")
forbid (principal, action == Action::"shell", resource)
when {{ context.program == "tool-{at}" && context.line like "*--context=prod*" }}
unless {{ context.branch like "release/*" || context.arguments.contains("--dry-run") }};
"""
COMMANDS = {
    "allowed": "cargo test --workspace 2>&1 | tail -20",
    "denied": "cd /tmp && git push --force origin main",
    "long": "; ".join(f"grep -rn word{at} src | head -{at} > /tmp/out{at}" for at in range(1, 30)),
}


def repository(folder: Path) -> Path:
    """Make a repository with a linked worktree; return the worktree."""
    main, tree = folder / "main", folder / "tree"
    main.mkdir(parents=True)
    for command in (
        "init -q -b main",
        "-c user.name=a -c user.email=a@example.com commit -q --allow-empty -m Start",
        f"worktree add -q -b feature/x {tree}",
    ):
        subprocess.run(["git", "-C", str(main), *command.split()], check=True)
    (main / "policies").mkdir()
    return tree


def event(name: str, tree: Path, **more: object) -> bytes:
    """Return an event as Claude Code sends it."""
    return json.dumps({"hook_event_name": name, "session_id": "bench", "cwd": str(tree), **more}).encode()


def used() -> float:
    """Return the CPU time of the programs that have ended, in milliseconds."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (usage.ru_utime + usage.ru_stime) * 1000


def measure(command: list[str], stdin: bytes, samples: int) -> tuple[list[float], float]:
    """Return the times of a program in milliseconds, and its CPU time."""
    for _ in range(5):
        subprocess.run(command, input=stdin, capture_output=True, check=False)
    before = used()
    times: list[float] = []
    for _ in range(samples):
        begun = time.perf_counter()
        subprocess.run(command, input=stdin, capture_output=True, check=False)
        times.append((time.perf_counter() - begun) * 1000)
    return times, (used() - before) / samples


def show(name: str, times: list[float], cpu: float | None = None) -> None:
    """Print p50, p95, the largest time and the CPU time."""
    p95 = statistics.quantiles(times, n=20)[-1]
    text = f"{name:40} p50 {statistics.median(times):7.2f} ms   p95 {p95:7.2f} ms   max {max(times):7.2f} ms"
    print(text if cpu is None else f"{text}   CPU {cpu:6.2f} ms", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default=shutil.which("turntree-hook") or "turntree-hook")
    parser.add_argument("--samples", type=int, default=200)
    options = parser.parse_args()
    hook = [options.program, "--harness", "claude"]
    print(f"{options.program}: {Path(options.program).stat().st_size / 1e6:.1f} MB")
    show("true", *measure(["true"], b"", options.samples))
    with tempfile.TemporaryDirectory() as folder:
        tree = repository(Path(folder))
        policies = tree.parent / "main/policies"
        database = tree.parent / "main/.turntree/state.db"
        for kind, name, text in (
            ("no rules", None, ""),
            ("20 TOML", "a.policy.toml", TOML),
            ("20 Cedar", "a.cedar", CEDAR),
        ):
            for file in policies.iterdir():
                file.unlink()
            if name is not None:
                (policies / name).write_text("".join(text.format(at=at) for at in range(20)))
            for what, command in COMMANDS.items():
                stdin = event("PreToolUse", tree, tool_name="Bash", tool_input={"command": command})
                show(f"{kind}, {what}", *measure(hook, stdin, options.samples))
                with sqlite3.connect(database) as connection:
                    query = "SELECT latency_us / 1000.0 FROM policy_event ORDER BY rowid DESC LIMIT ?"
                    rules = [row[0] for row in connection.execute(query, (options.samples,))]
                show("    rules", rules)
        edit = event(
            "PreToolUse", tree, tool_name="Write", tool_input={"file_path": str(tree / "a.rs"), "content": "x"}
        )
        show("20 Cedar, edit", *measure(hook, edit, options.samples))
        show(
            "20 Cedar, after a tool",
            *measure(hook, event("PostToolUse", tree, tool_name="Bash", tool_input={"command": "ls"}), options.samples),
        )
        show("20 Cedar, session start", *measure(hook, event("SessionStart", tree, source="startup"), options.samples))


if __name__ == "__main__":
    main()

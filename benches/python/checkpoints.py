"""Cost of checkpoints with 10 to 10 000 messages, of restoring and branching, and the size of a run.

    python benches/python/checkpoints.py [--samples 25] [--size]

CPU time, medians. A checkpoint is the difference between a run of 100 steps with a checkpoint each and one without,
divided by the number of steps. The other figures include the call from Python.

The size is that of the JSON of a run of 100 steps, each with a tool call and 1 KB of result: members that UAP-1.0 §13
requires, and the rest. Memory is RssAnon (Linux) of 50 such sessions, live or loaded, each in a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from turntree import Session, agent, session
from turntree.execution import loop
from turntree.upp import UserMessage, scripted, tool

STEPS = 100


@tool(inline=True)
def noop() -> None:
    """Do nothing."""


def talk(messages: int, *, checkpoints: bool):
    replies = [*([[{"toolName": "noop", "arguments": {}}]] * (STEPS - 1)), "Done."]
    made = session(
        agent(model=scripted(replies), tools=[noop], execution=loop(max_iterations=STEPS)), checkpoints=checkpoints
    )
    made.tree.current.thread.push(*(UserMessage("Rain until noon, then clouds.") for _ in range(messages)))
    return made


async def run_of(messages: int, *, checkpoints: bool) -> float:
    made = talk(messages, checkpoints=checkpoints)
    begun = time.process_time()
    await made.run("Go")
    return (time.process_time() - begun) / STEPS * 1e6


def per_call(work: Callable[[], object], times: int = 200) -> float:
    begun = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - begun) / times * 1e6


async def measure(samples: int) -> None:
    for messages in (10, 100, 1_000, 10_000):
        await run_of(messages, checkpoints=True)
        with_them, without = [], []
        for _ in range(samples):
            with_them.append(await run_of(messages, checkpoints=True))
            without.append(await run_of(messages, checkpoints=False))
        cost = statistics.median(with_them) - statistics.median(without)
        least = min(with_them) - min(without)
        print(
            f"a checkpoint after {messages:6} messages: {cost:5.2f} µs (of the fastest runs {least:.2f} µs)", flush=True
        )

    made = talk(10_000, checkpoints=True)
    await made.run("Go")
    tree, root = made.tree, made.tree.root.id
    tip = tree.branch(root)
    first, last = made.checkpoints[0].id, made.checkpoints[-1].id
    print(f"branch   {statistics.median(per_call(lambda: tree.branch(root)) for _ in range(samples)):.2f} µs")
    there_and_back = statistics.median(
        per_call(lambda: (tree.checkout(tip), tree.checkout(root))) for _ in range(samples)
    )
    print(f"checkout {there_and_back / 2:.2f} µs")

    async def restore(times: int = 100) -> float:
        begun = time.process_time()
        for _ in range(times):
            await made.restore(first)
            await made.restore(last)
        return (time.process_time() - begun) / times / 2 * 1e6

    print(f"restore  {statistics.median([await restore() for _ in range(samples)]):.2f} µs")


REQUIRED = ("id", "sessionId", "timestamp", "step", "threadId", "state", "subAgentStates")


@tool(inline=True)
def read(page: int) -> str:
    """Read a page."""
    return f"{page:9} ".ljust(1000, "x")


def reader(**options):
    replies = [*([{"toolName": "read", "arguments": {"page": page}}] for page in range(STEPS - 1)), "Done."]
    return session(
        agent(model=scripted(replies), tools=[read], execution=loop(max_iterations=STEPS)),
        **options,
    )


def compact(value: object) -> int:
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


class Counter:
    """A store that counts the bytes that were saved."""

    def __init__(self) -> None:
        self.written = 0

    def save(self, key: str, data: str) -> None:
        self.written += len(data)

    def load(self, key: str) -> None:
        return None

    def delete(self, key: str) -> None:
        pass


async def size() -> str:
    made = reader()
    await made.run("Read the book.")
    text = made.to_json()
    document = json.loads(text)
    required = compact(document["threadTree"])
    messages = sum(compact(checkpoint["state"]["messages"]) for checkpoint in document["checkpoints"])
    for checkpoint in document["checkpoints"]:
        required += compact({name: checkpoint[name] for name in REQUIRED})
    print(
        f"JSON of {STEPS} steps of 1 KB: {len(text) / 1e6:.2f} MB; required by UAP-1.0 {required / 1e6:.2f} MB "
        f"(state.messages {messages / 1e6:.2f} MB); the rest {(len(text) - required) / 1e6:.3f} MB",
        flush=True,
    )
    for interval in ("turn", "step", "tool"):
        store = Counter()
        await reader(persistence=store, save_interval=interval).run("Read the book.")
        print(f"saved with save_interval={interval!r}: {store.written / 1e6:.1f} MB", flush=True)
    return text


def resident() -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon"))


def memory(path: str | None, sessions: int = 50) -> None:
    """Print the memory of sessions that are read from a file, or that run."""

    async def live() -> Session:
        made = reader()
        await made.run("Read the book.")
        return made

    async def grow() -> float:
        warm = session(agent(model=scripted(["Hi."])))
        await warm.run("Hello")
        Session.from_json(warm.to_json(), warm.agent)
        gc.collect()
        before, held = resident(), []
        for _ in range(sessions):
            held.append(Session.from_json(Path(path).read_text(), warm.agent) if path else await live())
        gc.collect()
        return (resident() - before) / len(held)

    name = "loaded" if path else "live"
    print(f"memory of a {name} session of {STEPS} steps of 1 KB: {asyncio.run(grow()) / 1e3:.0f} KB", flush=True)


def measure_size() -> None:
    text = asyncio.run(size())
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(text)
        file.flush()
        for path in (None, file.name):
            process = multiprocessing.get_context("spawn").Process(target=memory, args=(path,))
            process.start()
            process.join()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=25)
    parser.add_argument("--size", action="store_true", help="print the size of a run only")
    options = parser.parse_args()
    if not options.size:
        asyncio.run(measure(options.samples))
    measure_size()


if __name__ == "__main__":
    main()

"""A session with many turns: the cost of its JSON by length, and its memory, live and loaded, in addition to its text.

    python benches/python/long_session.py [--turns 10000] [--characters 1000] [--no-checkpoints] [--once]

Memory is RssAnon (Linux), minus that of the same process before the first turn. That of a loaded session
is the difference between two sessions and one, in a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import multiprocessing
import statistics
import tempfile
import time
from pathlib import Path

from turntree import Session, agent, session
from turntree.upp import ModelResponse, TokenUsage, create_provider, scripted


def resident() -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon"))


def text(number: int, characters: int) -> str:
    return f"{number:>9} ".ljust(characters, "x")


class Echo:
    """Returns a new text each time. Unlike `scripted`, it does not record requests."""

    def __init__(self, characters: int) -> None:
        self.characters = characters
        self.count = 0

    async def generate(self, request) -> ModelResponse:
        self.count += 1
        return ModelResponse(text(self.count, self.characters), usage=TokenUsage(1, 1))


def load(path: str, said: int, turns: int) -> None:
    """Print the memory of a session that is read from a file."""
    warm = session(agent(model=scripted(["Hi."])))
    Session.from_json(warm.to_json(), warm.agent)
    gc.collect()
    before = resident()
    held, sizes = [], []
    for _ in range(2):
        begun = time.process_time()
        held.append(Session.from_json(Path(path).read_text(), warm.agent))
        seconds = time.process_time() - begun
        gc.collect()
        sizes.append(resident() - before)
    # The allocator keeps what reading the first document needed, and the second one reuses it.
    print(
        f"{turns:6} turns: memory of a loaded session {(sizes[1] - sizes[0]) / 1e6:7.2f} MB = "
        f"{(sizes[1] - sizes[0]) / said:.2f} × the text, in {seconds * 1000:.0f} ms; the process after the first "
        f"one {sizes[0] / 1e6:.2f} MB",
        flush=True,
    )


async def measure(turns: int, characters: int, *, checkpoints: bool, look: bool) -> None:
    model = create_provider("echo", Echo(characters))("echo")
    talk = session(agent(model=model), checkpoints=checkpoints)
    # Exclude the memory of the runtime, the event loop and the first response.
    warm = session(agent(model=scripted(["Hi."])))
    await warm.run("Hello")
    gc.collect()
    before, said = resident(), 0
    for number in range(turns):
        await talk.run(text(number, characters))
        said += 2 * characters
        looks = (turns // 10, turns // 4, turns // 2, turns) if look else (turns,)
        if number + 1 in looks:
            gc.collect()
            grown = resident() - before
            spent = []
            for _ in range(3):
                begun = time.process_time()
                written = len(talk.to_json())
                spent.append(time.process_time() - begun)
            seconds = statistics.median(spent)
            print(
                f"{number + 1:6} turns: memory {grown / 1e6:7.2f} MB = {grown / said:.2f} × the text, "
                f"{(grown - said) / (number + 1):.0f} bytes a turn beside it; "
                f"JSON {written / 1e6:.2f} MB in {seconds * 1000:.1f} ms, {seconds / (number + 1) * 1e6:.2f} µs a turn",
                flush=True,
            )
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(talk.to_json())
        file.flush()
        process = multiprocessing.get_context("spawn").Process(target=load, args=(file.name, said, turns))
        process.start()
        process.join()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--characters", type=int, default=1_000, help="of each question and each answer")
    parser.add_argument("--no-checkpoints", action="store_true")
    parser.add_argument(
        "--once", action="store_true", help="look at the end only: JSON of before leaves no room behind"
    )
    options = parser.parse_args()
    checkpoints, look = not options.no_checkpoints, not options.once
    asyncio.run(measure(options.turns, options.characters, checkpoints=checkpoints, look=look))


if __name__ == "__main__":
    main()

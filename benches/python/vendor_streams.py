"""CPU time of a streamed delta in the wire format of each vendor that `turntree.testing.serve` speaks.

    python benches/python/vendor_streams.py [--streams 50]

The server is a process of its own and sends 500 words. The time is that of all threads of this process for one stream,
divided by its deltas; the output is the least of three rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from turntree import agent
from turntree.upp import anthropic, openai, openai_compatible

WORDS = 500
SERVER = f"""
import sys
from turntree.testing import Reply, serve

with serve(Reply("word " * {WORDS})) as server:
    print(server.base_url, flush=True)
    sys.stdin.read()
"""
MODELS: dict[str, Callable[..., Any]] = {
    "OpenAI Chat Completions": lambda **options: openai("model", "completions", **options),
    "OpenAI Responses": lambda **options: openai("model", **options),
    "Anthropic Messages": lambda **options: anthropic("model", **options),
    "compatible servers": lambda **options: openai_compatible("model", **options),
}


async def read(helper: Any, streams: int) -> int:
    """Read streams to their end; return the number of events."""
    count = 0
    for _ in range(streams):
        async for _event in helper.stream("Hi"):
            count += 1
    return count


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--streams", type=int, default=50)
    streams = parser.parse_args().streams
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdin
    assert server.stdout
    try:
        url = server.stdout.readline().strip()
        print("| format | µs of CPU for each event |\n|---|---|")
        for name, make in MODELS.items():
            helper = agent(model=make(base_url=url, api_key="none"), params={"max_tokens": 100})
            rounds = []
            for _ in range(3):
                start = time.process_time()
                count = asyncio.run(read(helper, streams))
                rounds.append((time.process_time() - start) / count * 1e6)
            print(f"| {name} | {min(rounds):.2f} |")
    finally:
        server.stdin.close()
        server.wait(30)


if __name__ == "__main__":
    main()

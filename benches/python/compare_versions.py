"""Comparison of two installations of turntree: detects hot paths that became slower.

    python benches/python/compare_versions.py OLD_PYTHON NEW_PYTHON [--rounds 9] [--cases plain,http,...]

Each round runs each case once in each environment, in alternating order, each in a separate process. The measure is the
CPU time of an iteration in all threads. The table shows the minimum of all rounds and the ratio. The program fails if a
ratio exceeds 1.03 by more than the spread of the rounds in the old environment.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
DELTAS = "word " * 500


def measured(once: Callable[[], object], seconds: float = 0.5) -> float:
    """Return the CPU time of one call, in seconds, after a warm-up."""
    for _ in range(3):
        once()
    count, start = 0, time.process_time()
    while (spent := time.process_time() - start) < seconds:
        once()
        count += 1
    return spent / count


def measured_async(once: Callable[[], object]) -> float:
    """Return the CPU time of one awaited call, in seconds."""
    loop = asyncio.new_event_loop()
    return measured(lambda: loop.run_until_complete(once()))


def plain() -> float:
    """A turn of an agent with a scripted model."""
    from turntree import agent
    from turntree.upp import scripted

    helper = agent(model=scripted(lambda _: "Hello."))
    return measured_async(lambda: helper.run("Hi"))


def tools() -> float:
    """A run with ten tool rounds."""
    from turntree import agent
    from turntree.execution import loop
    from turntree.upp import scripted, tool

    @tool
    async def add(a: int, b: int) -> int:
        return a + b

    def model(request):
        if sum(message.type == "tool_result" for message in request.messages) < 10:
            return {"toolName": "add", "arguments": {"a": 1, "b": 2}}
        return "done"

    helper = agent(model=scripted(model), tools=[add], execution=loop(max_iterations=11))
    return measured_async(lambda: helper.run("go"))


def session_turn() -> float:
    """A new session and its first turn, with a checkpoint."""
    from turntree import agent, session
    from turntree.upp import scripted

    helper = agent(model=scripted(lambda _: "Hello."))
    return measured_async(lambda: session(helper).run("Hi"))


def _server():
    code = (
        "from turntree.testing import Reply, serve\nimport sys\n"
        f"text = {DELTAS!r}\n"
        "with serve(lambda request: Reply(text) if request.stream else 'Hello.') as server:\n"
        "    print(server.base_url, flush=True)\n    sys.stdin.read()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip()


def http() -> float:
    """A turn over HTTP on the loopback interface; the server is a separate process."""
    from turntree import agent
    from turntree.upp import openai

    process, url = _server()
    helper = agent(model=openai("gpt", "completions", base_url=url, api_key="none"))
    try:
        return measured_async(lambda: helper.run("Hi"))
    finally:
        process.kill()


def stream() -> float:
    """A streamed turn over HTTP, with hundreds of deltas that `async for` reads."""
    from turntree import agent
    from turntree.upp import openai

    process, url = _server()
    helper = agent(model=openai("gpt", "completions", base_url=url, api_key="none"))

    async def once() -> None:
        async for _ in helper.stream("Hi"):
            pass

    try:
        return measured_async(once)
    finally:
        process.kill()


def _history() -> bytes:
    """A Pydantic AI history of 1 000 messages: questions, tool calls, tool returns, answers."""
    time_stamp, usage = "2026-01-02T03:04:05.678901Z", {"input_tokens": 120, "output_tokens": 34}
    text = "The forecast for Tokyo is rain until noon, then clouds over Shinjuku – 18 °C.\n" * 5
    messages = []
    for number in range(250):
        call = {
            "tool_name": "weather",
            "args": '{"city":"Tokyo","days":3}',
            "tool_call_id": f"call_{number}",
            "part_kind": "tool-call",
        }
        returned = {
            "tool_name": "weather",
            "content": {"sky": "rain", "high": 18},
            "tool_call_id": f"call_{number}",
            "timestamp": time_stamp,
            "part_kind": "tool-return",
        }
        question = {"content": text, "timestamp": time_stamp, "part_kind": "user-prompt"}
        messages += [
            {"parts": [question], "kind": "request"},
            {"parts": [call], "usage": usage, "model_name": "gpt", "timestamp": time_stamp, "kind": "response"},
            {"parts": [returned], "kind": "request"},
            {
                "parts": [{"content": text, "part_kind": "text"}],
                "usage": usage,
                "model_name": "gpt",
                "timestamp": time_stamp,
                "kind": "response",
            },
        ]
    return json.dumps(messages, ensure_ascii=False, separators=(",", ":")).encode()


def from_json() -> float:
    """A Pydantic AI history in JSON to ThreadProtocol."""
    from turntree import thread_protocol

    history = _history()
    return measured(lambda: thread_protocol.from_pydantic_ai(history))


def to_json() -> float:
    """ThreadProtocol to a Pydantic AI history in JSON."""
    from turntree import thread_protocol

    thread = thread_protocol.from_pydantic_ai(_history())
    return measured(thread.to_pydantic_ai_json)


def dump() -> float:
    """A ThreadProtocol document to JSON."""
    from turntree import thread_protocol

    return measured(thread_protocol.from_pydantic_ai(_history()).model_dump_json)


def parse() -> float:
    """JSON to a ThreadProtocol document."""
    from turntree import thread_protocol

    data = thread_protocol.from_pydantic_ai(_history()).model_dump_json()
    return measured(lambda: thread_protocol.Thread.model_validate_json(data))


def canonical() -> float:
    """Canonical JSON of a document."""
    from turntree import thread_protocol

    return measured(thread_protocol.from_pydantic_ai(_history()).canonical_json)


def ui_stream() -> float:
    """A document to a UI stream of the Vercel AI SDK."""
    from turntree import thread_protocol

    thread = thread_protocol.from_pydantic_ai(_history())
    return measured(thread.to_ui_stream_bytes)


CASES = {
    case.__name__: case
    for case in (plain, tools, session_turn, http, stream, from_json, to_json, dump, parse, canonical, ui_stream)
}


def run_case(python: str, case: str) -> float:
    """Run a case in another environment."""
    done = subprocess.run([python, __file__, "--case", case], capture_output=True, text=True, cwd=FOLDER, check=False)
    if done.returncode:
        raise SystemExit(f"{case} failed with {python}:\n{done.stderr}")
    return float(json.loads(done.stdout))


def main() -> int:
    """Print the table; return 1 if a case became slower."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("old", nargs="?")
    parser.add_argument("new", nargs="?")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(CASES[options.case]()))
        return 0
    slower = []
    print(f"{'case':14} {'old µs':>10} {'new µs':>10} {'new/old':>8} {'spread':>7}")
    for case in options.cases.split(","):
        samples: dict[str, list[float]] = {options.old: [], options.new: []}
        for number in range(options.rounds):
            for python in sorted(samples, reverse=bool(number % 2)):
                samples[python].append(run_case(python, case))
        old, new = (min(samples[python]) for python in (options.old, options.new))
        spread = statistics.median(samples[options.old]) / old - 1
        print(f"{case:14} {old * 1e6:10.1f} {new * 1e6:10.1f} {new / old:8.3f} {spread:7.1%}", flush=True)
        if new / old > 1.03 + spread:
            slower.append(case)
    if slower:
        print("slower:", ", ".join(slower))
    return bool(slower)


if __name__ == "__main__":
    sys.exit(main())

"""The two main features of turntree with real input; `make demo` runs it.

1. Converts each Pydantic AI history in examples/data to a ThreadProtocol document and back, to the same bytes.
2. Streams the answer of an agent with two Python tools. The model is one of OpenAI, Anthropic or Ollama if
   OPENAI_API_KEY or ANTHROPIC_API_KEY is set, or Ollama runs at OLLAMA_HOST or its default port. Otherwise, a server in
   this process sends the same HTTP responses and server-sent events.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import sys
import time
import urllib.request
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    from turntree import agent
    from turntree import thread_protocol as tp
    from turntree.testing import Reply, Request, ToolCall, serve
    from turntree.upp import AssistantMessage, ToolResultMessage, anthropic, ollama, openai, tool
except ImportError as error:
    sys.exit(f"turntree is not installed in this Python ({error}); run `make demo` instead.")

if TYPE_CHECKING:
    from turntree.upp import Message, ModelReference, Turn

DATA = Path(__file__).parent / "data"
DATA_VERSION = "2.68.0"  # version of pydantic-ai that wrote the files
OLLAMA = os.environ.get("OLLAMA_HOST") or "http://localhost:11434"
OLLAMA_URL = OLLAMA if "://" in OLLAMA else f"http://{OLLAMA}"
QUESTION = "What is the weather in Tokyo, and what time is it there?"


class DemoError(Exception):
    """An error message for the user."""


# 1. Histories


def convert_histories() -> None:
    """Convert each file in both directions, and print the results."""
    print("Pydantic AI histories to ThreadProtocol and back")
    paths = sorted(DATA.glob("*.json"))
    if not paths:
        raise DemoError(f"there are no histories in {DATA}")
    for path in paths:
        data = path.read_bytes()
        start = time.perf_counter()
        thread = tp.from_pydantic_ai(data)
        errors = [issue for issue in thread.validate() if issue.severity == "error"]
        back = thread.to_pydantic_ai_json()
        elapsed = time.perf_counter() - start
        if errors:
            first = errors[0]
            raise DemoError(f"{path.name} breaks {first.rule} at {first.pointer}: {first.message}")
        if back != data:
            raise DemoError(f"{path.name} came back different from byte {mismatch(data, back)} on")
        objects = ", objects equal" if check_objects(thread, data) else ""
        print(
            f"  {path.stem:24} {len(data):6} bytes  {len(thread):3} actions  "
            f"valid, bytes equal{objects}  {elapsed * 1e6:6.0f} µs"
        )


def check_objects(thread: tp.Thread, data: bytes) -> bool:
    """Also compare Pydantic AI objects, if the version that wrote the files is installed."""
    try:
        if importlib.metadata.version("pydantic-ai-slim") != DATA_VERSION:
            return False
    except importlib.metadata.PackageNotFoundError:
        return False
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    messages = ModelMessagesTypeAdapter.validate_json(data)
    if thread.to_pydantic_ai() != messages:
        raise DemoError("the live objects came back different")
    if tp.from_pydantic_ai(messages).canonical_json() != thread.canonical_json():
        raise DemoError("live objects and their JSON make different documents")
    return True


def mismatch(left: bytes, right: bytes) -> int:
    """Return the position of the first different byte."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(left), len(right)))


# 2. An agent


@tool
async def weather(city: str, days: int = 1) -> dict[str, Any]:
    """Return the forecast for a city."""
    await asyncio.sleep(0.05)  # a real tool would call a service here
    return {"city": city, "days": [{"sky": "sunny", "high": 21}] * days}


@tool
def local_time(utc_offset: int) -> str:
    """Return the time at a place with this offset from UTC in hours."""
    return datetime.now(timezone(timedelta(hours=utc_offset))).strftime("%H:%M")


@dataclass
class Choice:
    """The model of the agent."""

    model: ModelReference
    said: str
    params: dict[str, Any] = field(default_factory=dict[str, Any])


@contextmanager
def choose_model() -> Generator[Choice]:
    """Yield a model of an available provider, or of the server in this process."""
    if os.environ.get("OPENAI_API_KEY"):
        yield Choice(openai("gpt-4o-mini"), "OpenAI gpt-4o-mini, because OPENAI_API_KEY is set")
    elif os.environ.get("ANTHROPIC_API_KEY"):
        yield Choice(
            anthropic("claude-haiku-4-5"),
            "Anthropic claude-haiku-4-5, because ANTHROPIC_API_KEY is set",
            {"max_tokens": 1024},
        )
    elif name := ollama_model():
        yield Choice(
            ollama(name, base_url=OLLAMA_URL),
            f"Ollama {name}, because it answers at {OLLAMA_URL}",
        )
    else:
        for name in ("NO_PROXY", "no_proxy"):  # a proxy cannot reach a server in this process
            os.environ[name] = ",".join(filter(None, (os.environ.get(name), "127.0.0.1")))
        with serve(play_model) as server:
            yield Choice(
                openai("gpt-4o-mini", api="completions", base_url=server.base_url, api_key="none"),
                f"a stand-in for OpenAI at {server.base_url}, real HTTP and SSE, no key needed",
            )


def ollama_model() -> str | None:
    """Return a model of the Ollama on this machine, or None."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{OLLAMA_URL}/api/tags", timeout=5) as answer:
            return str(json.load(answer)["models"][0]["name"])
    return None


def play_model(request: Request) -> Reply:
    """Return the reply of the local server: first two tool calls, then an answer with their results."""
    results = list(request.tool_results.values())
    if not results:
        calls = [ToolCall("weather", {"city": "Tokyo"}), ToolCall("local_time", {"utc_offset": 9})]
        return Reply("I will look both up.", tool_calls=calls, gap=0.03)
    today = json.loads(results[0])["days"][0]
    return Reply(
        f"In Tokyo it is {today['sky']}, up to {today['high']} degrees, and the clocks there say {results[1]}.",
        gap=0.03,
    )


async def run_agent() -> None:
    """Run the agent, print the events as they arrive, then the summary."""
    print("\nAn agent with two tools")
    with choose_model() as choice:
        print(f"  model: {choice.said}")
        print(f"  you:   {QUESTION}\n")
        helper = agent(
            model=choice.model,
            params=choice.params,
            tools=[weather, local_time],
            system="Use the tools. Answer in one sentence.",
        )
        start = time.perf_counter()
        first: float | None = None
        open_line = False
        stream = helper.stream(QUESTION)
        async for event in stream:
            if event.upp is None:
                continue
            match event.upp.type:
                case "text_delta":
                    first = first or time.perf_counter() - start
                    print("" if open_line else "  ", end="")
                    print(event.upp.delta["text"], end="", flush=True)
                    open_line = True
                case "message_stop" if open_line:
                    print(flush=True)
                    open_line = False
                case "tool_execution_start":
                    print(f"  … {event.upp.delta['toolName']}", flush=True)
                case _:
                    pass
        turn = await stream.turn
        show_turn(turn, first or 0.0, time.perf_counter() - start)


def show_turn(turn: Turn, first: float, whole: float) -> None:
    """Print tool calls, tokens, times and the thread."""
    print("\n  tool calls")
    for done in turn.tool_executions:
        outcome = "failed: " if done.is_error else ""
        print(f"    {call(done.tool_name, done.arguments)} -> {outcome}{brief(done.result)}")
    usage = turn.usage
    print(
        f"  tokens  {usage.input_tokens} in + {usage.output_tokens} out = {usage.total_tokens}, "
        f"in {turn.cycles} model calls"
    )
    print(f"  time    first text after {first * 1e3:.0f} ms, whole turn {whole * 1e3:.0f} ms")
    print("  thread")
    for line in draw(turn.messages):
        print(f"    {line}")


def draw(messages: Sequence[Message]) -> Iterator[str]:
    """Return the messages as a branch of a tree."""
    for number, message in enumerate(messages, start=1):
        last = number == len(messages)
        for row, (label, text) in enumerate(describe(message)):
            stem = ("└─ " if last else "├─ ") if row == 0 else ("   " if last else "│  ")
            yield f"{stem}{label if row == 0 else '':10} {text}"


def describe(message: Message) -> Iterator[tuple[str, str]]:
    """Return a message as rows of speaker and text."""
    if isinstance(message, ToolResultMessage):
        for result in message.results:
            yield "tool", brief(result.result)
        return
    if message.text:
        yield message.type, message.text
    if isinstance(message, AssistantMessage):
        for made in message.tool_calls or ():
            yield message.type, f"calls {call(made.tool_name, made.arguments)}"


def call(name: str, arguments: dict[str, Any]) -> str:
    """Return a tool call in Python syntax."""
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def brief(value: Any) -> str:
    """Return a value as text with at most 80 characters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:79]}…"


def main() -> int:
    """Run both parts. Print an error message and return 1 if one fails."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")  # print ? for characters that the terminal lacks, such as µ and └
    try:
        convert_histories()
        asyncio.run(run_agent())
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("\nThe demo was interrupted.", file=sys.stderr)
    except BrokenPipeError:  # the reader closed the pipe, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        print(f"\nThe demo failed: {reason.rstrip('.')}.", file=sys.stderr)
    else:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())

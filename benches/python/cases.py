"""The cases: their input and their expected results.

`compare.py` and the workers in the environments of all peers import it, so it uses the standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass

PROMPT = "What is the capital of France?"
TOOL_PROMPT = "What is 2 + 3?"
PLAIN_ANSWER = "Paris is the capital of France."
TOOL_ANSWER = "2 + 3 = 5"
DELTAS = 500
CONCURRENT = 500
CONVERTED_MESSAGES = 10_000
# One run of a saved session: each step is a model call, and all but the last one call a tool with a result of 1 KB.
STEPS = 20
DONE = "Done."


@dataclass(frozen=True)
class Case:
    """One row of the table.

    Attributes:
        name: The function of a peer's file that prepares it.
        title: What a reader calls it.
        group: "import", "agent" (milliseconds of work over the mock server), "conversion" (megabytes a second) or
            "store" (steps of saved sessions a second, with a model that is a function).
        target: What turntree holds itself to, as words.
        limit: The same as a number, in seconds (at most) or megabytes a second (at least).
    """

    name: str
    title: str
    group: str
    target: str = ""
    limit: float | None = None


CASES = (
    Case("import", "import, fresh process", "import", "≤ 50 ms", 0.05),
    Case("first_answer", "from a fresh process to the first plain turn's end", "import"),
    Case("build", "build an agent with one tool", "agent"),
    Case("plain", "one plain turn", "agent", "≤ 0.25 ms", 0.25e-3),
    Case("tool", "tool round trip (2 model calls, 1 Python tool)", "agent", "≤ 0.6 ms", 0.6e-3),
    Case("stream", f"{DELTAS} streamed deltas to `async for`", "agent", "≤ 3 ms", 3e-3),
    Case("stream_paced", f"the same, one delta a millisecond, {DELTAS} writes", "agent"),
    Case("concurrent", f"{CONCURRENT} concurrent tool round trips, all of them", "agent"),
    Case("history_10", "plain turn after 10 messages", "agent"),
    Case("history_100", "plain turn after 100 messages", "agent"),
    Case("history_1000", "plain turn after 1 000 messages", "agent"),
    Case("saved_sqlite", f"{STEPS} steps of a new session, saved to SQLite after each step", "store"),
    Case("saved_sqlite_tool", f"{STEPS} steps of a new session, saved to SQLite after each response and tool", "store"),
    Case("saved_sqlite_once", f"{STEPS} steps of a new session, saved to SQLite at the end", "store"),
    Case("saved_postgres", f"{STEPS} steps of a new session, saved to PostgreSQL after each step", "store"),
    Case(
        "saved_postgres_tool",
        f"{STEPS} steps of a new session, saved to PostgreSQL after each response and tool",
        "store",
    ),
    Case("objects_to_thread", "Pydantic AI objects → ThreadProtocol", "conversion", "≥ 200 MB/s", 200.0),
    Case("json_to_thread_json", "history JSON → ThreadProtocol JSON", "conversion", "≥ 200 MB/s", 200.0),
    Case("thread_to_objects", "ThreadProtocol → Pydantic AI objects", "conversion", "≥ 150 MB/s", 150.0),
    Case("thread_json_to_json", "ThreadProtocol JSON → history JSON", "conversion"),
    Case("validate_thread", "validating a ThreadProtocol thread", "conversion", "≥ 400 MB/s", 400.0),
    Case("canonical_thread", "canonical JSON of a ThreadProtocol thread", "conversion", "≥ 250 MB/s", 250.0),
    Case("pydantic_dump_json", "pydantic alone: `dump_json`", "conversion"),
    Case("pydantic_validate_json", "pydantic alone: `validate_json`", "conversion"),
    Case("pydantic_both", "pydantic alone: `validate_json`, then `dump_json`", "conversion"),
    Case("sorted_json", "Python alone: `json.loads`, then `json.dumps` with sorted keys", "conversion"),
)

BY_NAME = {case.name: case for case in CASES}


class Tally:
    """Counts the calls of the tool, so that a peer that skips the tool is detected."""

    calls = 0


async def add(a: int, b: int) -> int:
    """Add two integers."""
    Tally.calls += 1
    return a + b


def read(page: int) -> str:
    """Read a page."""
    Tally.calls += 1
    return f"{page:9} ".ljust(1000, "x")


def past(count: int) -> list[tuple[str, str]]:
    """Return a history: alternating roles ("user" and "assistant"), each with a text of 196 characters."""
    return [("assistant" if number % 2 else "user", f"{number:06} " * 28) for number in range(count)]


def check(case: str, result: object) -> None:
    """Raise an error if a peer did not do the work.

    Args:
        case: Name of the case.
        result: What the peer's function returned.
    """
    if case == "concurrent":
        expected: object = [TOOL_ANSWER] * CONCURRENT
    elif case == "tool":
        expected = TOOL_ANSWER
    elif case.startswith("stream"):
        expected = DELTAS
    elif case.startswith("saved_"):
        expected = DONE
    elif case == "plain" or case.startswith("history_"):
        expected = PLAIN_ANSWER
    else:
        return
    if result != expected:
        raise ValueError(f"{case}: expected {expected!r:.80}, got {result!r:.200}")

"""The history for the conversions: 10 000 Pydantic AI messages with all common parts, equal on all machines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from cases import CONVERTED_MESSAGES

SENTENCE = (
    "the conversation between people agents and tools is a tree of turns that branches where somebody changes "
    "their mind and merges where two paths agree, so each “answer” keeps its place — naïve as it seems"
)
WORDS = SENTENCE.split()


@dataclass(frozen=True)
class Conversion:
    """One direction of a conversion.

    Attributes:
        once: The function to time.
        size: The bytes of Pydantic AI JSON it stands for.
        verify: Raises when its work is not what it should be; called once, outside of the clock.
    """

    once: Callable[[], Any]
    size: int
    verify: Callable[[], None] = lambda: None


def expect_equal(found: Any, expected: list[Any]) -> None:
    """Raise an error for the first message that differs: a conversion that loses data must not count as fast."""
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        if one != other:
            raise ValueError(f"message {number} differs: {one!r:.150} is not {other!r:.150}")


def make_history() -> tuple[list[Any], bytes]:
    """Return messages as objects and as JSON.

    Four messages in turn: a question; thinking, a sentence and two tool calls; two tool returns; an answer. Needs
    pydantic-ai.
    """
    from pydantic_ai import messages as m
    from pydantic_ai.usage import RequestUsage

    start = datetime(2026, 1, 1, 9, tzinfo=timezone.utc)
    history: list[Any] = []
    for number in range(CONVERTED_MESSAGES // 4):
        now = start + timedelta(seconds=30 * number)
        run = f"run-{number // 50:05}"
        calls = [f"call_{number:08}{letter}" for letter in "ab"]
        response = {
            "model_name": "gpt-5",
            "timestamp": now,
            "provider_name": "openai",
            "provider_response_id": f"chatcmpl-{number:012}",
            "run_id": run,
        }
        usage = RequestUsage(input_tokens=1200 + number, output_tokens=90, cache_read_tokens=1024)
        history += [
            m.ModelRequest(parts=[m.UserPromptPart(content=_text(number, 60), timestamp=now)], run_id=run),
            m.ModelResponse(
                parts=[
                    m.ThinkingPart(content=_text(number + 1, 80), signature=f"sig{number:040}", provider_name="openai"),
                    m.TextPart(content=_text(number + 2, 20)),
                    m.ToolCallPart(
                        "search", {"query": _text(number, 6), "limit": 5, "filters": ["a", "b"]}, tool_call_id=calls[0]
                    ),
                    m.ToolCallPart("read", f'{{"path": "notes/{number}.md", "lines": [1, 40]}}', tool_call_id=calls[1]),
                ],
                usage=usage,
                finish_reason="tool_call",
                **response,
            ),
            m.ModelRequest(
                parts=[
                    m.ToolReturnPart(
                        "search",
                        {"hits": [{"id": n, "title": _text(n, 8), "score": 0.5 + n / 100} for n in range(5)]},
                        tool_call_id=calls[0],
                        timestamp=now,
                    ),
                    m.ToolReturnPart("read", _text(number + 3, 150), tool_call_id=calls[1], timestamp=now),
                ],
                run_id=run,
            ),
            m.ModelResponse(
                parts=[m.TextPart(content=_text(number + 4, 120))], usage=usage, finish_reason="stop", **response
            ),
        ]
    return history, m.ModelMessagesTypeAdapter.dump_json(history)


def _text(seed: int, words: int) -> str:
    return " ".join(WORDS[(seed + n) % len(WORDS)] for n in range(words)) + (".\n" if seed % 3 else ".")

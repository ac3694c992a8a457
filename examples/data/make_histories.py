"""Create the histories in this folder with pydantic-ai.

Each conversation is a real agent run: real tools, real validation, a function in the place of the
model. What differs from run to run (times, run ids) is frozen afterwards, and the files are exactly
what `ModelMessagesTypeAdapter.dump_json` writes.

    python examples/data/make_histories.py            # writes the files
    python examples/data/make_histories.py --check    # compares them instead

Needs pydantic-ai-slim at the version pinned in requirements/dev.lock: another version may dump
other keys.
"""

from __future__ import annotations

import asyncio
import dataclasses
import struct
import sys
import uuid
import zlib
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, TypeAlias, cast

from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, ImageUrl, ModelRetry
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

HERE = Path(__file__).parent
START = datetime(2026, 1, 15, 9, 0, 0, 125_000, tzinfo=timezone.utc)
NAMESPACE = uuid.UUID("5b0a6f2e-7f0f-4d0c-9a53-3f2a5a1d7c11")

Parts: TypeAlias = Sequence[ModelResponsePart]
Conversation: TypeAlias = Callable[[], Awaitable[list[ModelMessage]]]


def model(*responses: Parts) -> FunctionModel:
    """Return a model with these responses, one per request, in the form of an OpenAI-compatible vendor."""
    remaining = iter(enumerate(responses, start=1))

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        number, parts = next(remaining)
        calls = any(isinstance(part, ToolCallPart) for part in parts)
        return ModelResponse(
            parts=list(parts),
            usage=RequestUsage(input_tokens=40 * number + len(messages), output_tokens=12 * number),
            provider_name="example",
            provider_response_id=f"resp_{number:04d}",
            finish_reason="tool_call" if calls else "stop",
        )

    return FunctionModel(respond, model_name="example-1")


async def plain_text() -> list[ModelMessage]:
    """A question, an answer."""
    agent = Agent(model([TextPart("Kyoto was the capital of Japan until 1868.")]))
    result = await agent.run("Which city was the capital of Japan before Tokyo?")
    return result.all_messages()


async def system_prompt_and_turns() -> list[ModelMessage]:
    """System prompt, instructions, three turns of one conversation."""
    agent = Agent(
        model(
            [TextPart("Hello, Ada. What shall we look at?")],
            [TextPart("It is a tree: every branch keeps its parent's history.")],
            [TextPart("Noted: *branch*, *merge*, *restore*. 🌳")],
        ),
        system_prompt="You teach data structures.",
        instructions="Answer in one sentence.",
    )
    result = await agent.run("Hi, I am Ada.")
    for question in ("What is a conversation with branches?", "Note three words for “later”."):
        result = await agent.run(question, message_history=result.all_messages())
    return result.all_messages()


async def thinking_with_signature() -> list[ModelMessage]:
    """Visible thinking with a signature, redacted thinking with a signature alone."""
    agent = Agent(
        model(
            [
                ThinkingPart(
                    "17 × 23 is 17 × 20 + 17 × 3, so 340 + 51.",
                    signature="ErUBCkYIARgCIkDhb2xhIG11bmRv",
                    provider_name="anthropic",
                ),
                TextPart("17 × 23 = 391"),
            ],
            [
                ThinkingPart(
                    "",
                    id="redacted_thinking",
                    signature="EoQBCgIYAhIM7Zr0Q2xhc3NpZmllZA==",
                    provider_name="anthropic",
                ),
                TextPart("Yes: 391 = 17 × 23, and both are prime."),
            ],
        )
    )
    result = await agent.run("What is 17 × 23?")
    result = await agent.run("Are you sure?", message_history=result.all_messages())
    return result.all_messages()


async def parallel_tools() -> list[ModelMessage]:
    """Three calls in one response, arguments as object and as text; results of several types."""
    agent = Agent(
        model(
            [
                TextPart("I will look that up."),
                ToolCallPart("weather", {"city": "Tokyo"}, tool_call_id="call_a1"),
                ToolCallPart("weather", '{"city": "Lisboa", "days": 2}', tool_call_id="call_a2"),
                ToolCallPart("local_time", {"zone": "Asia/Tokyo"}, tool_call_id="call_a3"),
            ],
            [TextPart("Tokyo is sunny at 18:30; Lisboa has rain on both days.")],
        )
    )

    async def weather(city: str, days: int = 1) -> dict[str, Any]:
        """Forecast for a city."""
        sky = "sunny" if city == "Tokyo" else "rain"
        return {"city": city, "days": [{"sky": sky, "high": 21.5}] * days}

    def local_time(zone: str) -> str:
        """The time in a zone."""
        return f"18:30 in {zone}"

    agent.tool_plain(weather)
    agent.tool_plain(local_time)
    result = await agent.run("Compare the weather in Tokyo and Lisboa, and tell me the time.")
    return result.all_messages()


async def retries() -> list[ModelMessage]:
    """Arguments that do not validate, a tool that asks to retry, an answer that is rejected."""
    agent = Agent(
        model(
            [ToolCallPart("price", {"symbol": "TREE", "shares": "many"}, tool_call_id="call_b1")],
            [ToolCallPart("price", {"symbol": "tree", "shares": 3}, tool_call_id="call_b2")],
            [ToolCallPart("price", {"symbol": "TREE", "shares": 3}, tool_call_id="call_b3")],
            [TextPart("A lot.")],
            [TextPart("3 shares of TREE cost 37.50 EUR.")],
        ),
        retries=2,
    )

    def price(symbol: str, shares: int) -> float:
        """Price of some shares, in EUR."""
        if not symbol.isupper():
            raise ModelRetry(f"Symbols are written in capitals: {symbol.upper()!r}?")
        return 12.5 * shares

    def has_a_number(answer: str) -> str:
        if not any(character.isdigit() for character in answer):
            raise ModelRetry("Say the price as a number.")
        return answer

    agent.tool_plain(price)
    agent.output_validator(has_a_number)
    result = await agent.run("What do three shares of TREE cost?")
    return result.all_messages()


async def images() -> list[ModelMessage]:
    """An image as bytes and one as a URL, between texts; an image as a tool's result."""
    picture = BinaryContent(png(8, 8, (34, 139, 34)), media_type="image/png")
    agent = Agent(
        model(
            [ToolCallPart("draw", {"color": "green"}, tool_call_id="call_c1")],
            [TextPart("Both are green; the second one shows a tree.")],
        )
    )

    def draw(color: str) -> BinaryContent:
        """Draw a square."""
        return picture

    agent.tool_plain(draw)
    result = await agent.run(
        [
            "What do these have in common?",
            picture,
            "and",
            ImageUrl("https://example.com/tree.jpg"),
        ]
    )
    return result.all_messages()


class Place(BaseModel):
    """A city and its country."""

    city: str
    country: str


async def structured_output() -> list[ModelMessage]:
    """An answer given through the output tool, on the second try."""
    agent: Agent[None, Place] = Agent(
        model(
            [ToolCallPart("final_result", {"city": "Porto"}, tool_call_id="call_d1")],
            [
                ToolCallPart(
                    "final_result",
                    '{"city": "Porto", "country": "Portugal"}',
                    tool_call_id="call_d2",
                )
            ],
        ),
        output_type=Place,
        retries=1,
    )
    result = await agent.run("Where is the Ribeira?")
    return result.all_messages()


CONVERSATIONS: dict[str, Conversation] = {
    "plain-text": plain_text,
    "system-prompt-and-turns": system_prompt_and_turns,
    "thinking": thinking_with_signature,
    "parallel-tools": parallel_tools,
    "retries": retries,
    "images": images,
    "structured-output": structured_output,
}


def png(width: int, height: int, color: tuple[int, int, int]) -> bytes:
    """A PNG of one color."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        crc = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc)

    rows = (b"\0" + bytes(color) * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    # Level 0: the bytes do not depend on the version of zlib.
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 0)) + chunk(b"IEND", b"")


def freeze(messages: list[ModelMessage], name: str) -> None:
    """Replace times by steps of 250 ms from `START`, run and conversation ids by their ordinal."""
    # By identity, not by value: whether two clock readings are equal differs from run to run.
    moments: dict[int, tuple[datetime, datetime]] = {}
    ids: dict[str, str] = {}

    def visit(value: object) -> None:
        if isinstance(value, list | tuple):
            for item in cast("Sequence[object]", value):
                visit(item)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            for field in dataclasses.fields(value):
                item: object = getattr(value, field.name)
                if isinstance(item, datetime):
                    step = timedelta(milliseconds=250) * len(moments)
                    _, frozen = moments.setdefault(id(item), (item, START + step))
                    object.__setattr__(value, field.name, frozen)
                elif field.name in ("run_id", "conversation_id") and isinstance(item, str):
                    fresh = str(uuid.uuid5(NAMESPACE, f"{name}/{len(ids)}"))
                    object.__setattr__(value, field.name, ids.setdefault(item, fresh))
                else:
                    visit(item)

    visit(messages)


async def main() -> int:
    """Write the files, or with `--check` compare them; 1 if one differs."""
    check = "--check" in sys.argv[1:]
    differing: list[str] = []
    for name, conversation in CONVERSATIONS.items():
        messages = await conversation()
        freeze(messages, name)
        data = ModelMessagesTypeAdapter.dump_json(messages)
        if ModelMessagesTypeAdapter.dump_json(ModelMessagesTypeAdapter.validate_json(data)) != data:
            print(f"{name}: pydantic-ai itself does not read back what it wrote", file=sys.stderr)
            return 1
        path = HERE / f"{name}.json"
        if not check:
            path.write_bytes(data)
            print(f"{path.name}: {len(messages)} messages, {len(data)} bytes")
        elif not path.exists() or path.read_bytes() != data:
            differing.append(path.name)
    if differing:
        print(f"differs from what pydantic-ai writes now: {', '.join(differing)}", file=sys.stderr)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

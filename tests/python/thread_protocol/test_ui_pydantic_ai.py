"""Pydantic AI as the server: its stored history and its sent stream give the same thread.

The runs are random: real agents with real tools, and a model that answers with every kind of part.
"""

import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import pytest

from turntree import thread_protocol as tp

pytest.importorskip("pydantic_ai", reason="NOT TESTED with Pydantic AI as the server: pydantic-ai is not installed")

from pydantic_ai import Agent, BinaryContent, ModelRetry, ToolReturn
from pydantic_ai import messages as pai
from pydantic_ai.models import Model, StreamedResponse
from pydantic_ai.ui.vercel_ai import VercelAIAdapter
from pydantic_ai.ui.vercel_ai import response_types as ui
from pydantic_ai.ui.vercel_ai.request_types import SubmitMessage

PRIOR = [{"id": "u", "role": "user", "parts": [{"type": "text", "text": "hi"}]}]
CHUNKS = [
    ui.DataChunk(type="data-progress", id="p", data={"n": 1}),
    ui.DataChunk(type="data-toast", data="hi", transient=True),
    ui.SourceUrlChunk(source_id="s", url="https://x.org"),
    ui.FileChunk(url="https://x.org/f", media_type="text/plain"),
    ui.SourceDocumentChunk(source_id="d", media_type="a/b", title="t"),
]
# Each function returns parts of an answer; its second argument is the id for a call.
SPOKEN = {
    "text": lambda rng, _: [pai.TextPart(rng.choice(["a", "b c", "žluť 👍", ""]))],
    "cited": lambda rng, _: [
        pai.TextPart(
            "c", citations=[pai.Citation(sources=[pai.WebCitationSource(url=rng.choice(["https://a", "https://b"]))])]
        )
    ],
    "thought": lambda rng, _: [
        pai.ThinkingPart(
            rng.choice(["", "hm"]),
            signature=rng.choice([None, "s"]),
            id=rng.choice([None, "i"]),
            provider_name=rng.choice([None, "anthropic"]),
            provider_details=rng.choice([None, None, {"x": 1}]),
        )
    ],
    "file": lambda rng, _: [pai.FilePart(BinaryContent(b"\xff\xfe", media_type=rng.choice(["image/png", "a/b"])))],
    "native": lambda rng, call: [
        pai.NativeToolCallPart("web_search", rng.choice([{"q": "x"}, '{"q":1}', None]), call),
        pai.NativeToolReturnPart(
            "web_search", rng.choice([{"r": 1}, "ok", None, ["a"]]), call, outcome=rng.choice(["success", "failed"])
        ),
    ],
    "compaction": lambda rng, _: [pai.CompactionPart(content=rng.choice(["sum", None]), provider_name="anthropic")],
}
ARGUMENTS = ['{"v": 1.0}', {"v": "x"}, '{"v":"\\u00e9"}', '{"v": ', "[1]", '{"w":1}', '"x"', {"w": 1}]
TOOLS = ["echo", "echo", "rich", "one", "picture", "retry", "nothing", "unknown"]


def answer(rng: random.Random, *, last: bool) -> list[Any]:
    """The parts of each answer; an answer with a tool call has a successor, the last one has a text."""
    parts: list[Any] = []
    for _ in range(rng.randint(1, 4)):
        call = f"call-{rng.random()}"
        if not last and rng.random() < 0.5:
            name = rng.choice(TOOLS)
            parts.append(pai.ToolCallPart(name, rng.choice(ARGUMENTS if name == "echo" else [None, "", "{}"]), call))
        else:
            parts += SPOKEN[rng.choice(list(SPOKEN))](rng, call)
    if last:
        return [*parts, pai.TextPart("end")]
    if not any(isinstance(part, pai.ToolCallPart) for part in parts):
        parts.append(pai.ToolCallPart("nothing", None, f"call-{rng.random()}"))
    return parts


@dataclass
class Streamed(StreamedResponse):
    """An answer, part by part."""

    parts: list[Any] = field(default_factory=list)
    provider: str | None = None

    async def _get_event_iterator(self) -> AsyncIterator[Any]:
        for part in self.parts:
            yield self._parts_manager.handle_part(vendor_part_id=None, part=part)

    model_name = "m"  # type: ignore[assignment]
    provider_url = None  # type: ignore[assignment]
    timestamp = datetime(2026, 1, 2, tzinfo=timezone.utc)  # type: ignore[assignment]

    @property
    def provider_name(self) -> str | None:
        return self.provider

    async def close_stream(self) -> None:
        pass


class Answers(Model):
    """A model that returns these answers in order."""

    model_name = "m"  # type: ignore[assignment]
    system = "mock"  # type: ignore[assignment]

    def __init__(self, answers: list[list[Any]], provider: str | None) -> None:
        super().__init__()
        self.answers = iter(answers)
        self.vendor = provider

    async def request(self, *_: Any) -> Any:
        raise NotImplementedError

    @asynccontextmanager
    async def request_stream(self, _messages: Any, _settings: Any, params: Any, _context: Any = None) -> Any:
        yield Streamed(params, parts=next(self.answers, [pai.TextPart("end")]), provider=self.vendor)


def server(model: Model) -> Agent:
    agent = Agent(model, retries=20)

    @agent.tool_plain
    def echo(v: Any) -> Any:
        return v

    @agent.tool_plain
    def rich() -> ToolReturn:
        return ToolReturn({"ok": True}, metadata=CHUNKS)

    @agent.tool_plain
    def one() -> ToolReturn:
        return ToolReturn("x", metadata=ui.DataChunk(type="data-a-b", data=None))

    @agent.tool_plain
    def picture() -> BinaryContent:
        return BinaryContent(b"\xff\xfe", media_type="image/png")

    @agent.tool_plain
    def retry() -> str:
        message = "again"
        raise ModelRetry(message)

    @agent.tool_plain
    def nothing() -> None:
        return None

    return agent


async def run(seed: int) -> tuple[bytes, list[Any]]:
    """The history of a run, and the chunks of its stream."""
    rng = random.Random(seed)
    count = rng.randint(1, 4)
    model = Answers([answer(rng, last=place + 1 == count) for place in range(count)], rng.choice([None, "openai"]))
    version: Any = rng.choice([5, 6])
    asked = SubmitMessage.model_validate({"id": "chat", "messages": PRIOR, "trigger": "submit-message"})
    results: list[Any] = []

    async def done(result: Any) -> None:
        results.append(result)

    adapter = VercelAIAdapter(agent=server(model), run_input=asked, sdk_version=version)
    sent = [made.encode(version) async for made in adapter.run_stream(on_complete=done)]
    return results[0].all_messages_json(), [json.loads(text) for text in sent if text != "[DONE]"]


def comparable(thread: tp.Thread) -> list[dict[str, Any]]:
    """The actions without the members that only the history or only the stream contains."""
    gone = ("timestamp", "sequence", "agent_id", "usage", "finish_reason")
    actions = json.loads(thread.canonical_json())["actions"]
    return [{key: value for key, value in action.items() if key not in gone} for action in actions]


@pytest.mark.parametrize("seed", range(60))
async def test_history_and_stream_give_the_same_thread(seed: int) -> None:
    history, chunks = await run(seed)

    kept = tp.from_pydantic_ai(history, profile="portable")
    sent = tp.from_ui_stream(chunks, messages=PRIOR, profile="portable")

    assert comparable(kept) == comparable(sent)
    assert tp.from_pydantic_ai(history).to_pydantic_ai_json() == history

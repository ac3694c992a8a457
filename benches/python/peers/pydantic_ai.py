"""Pydantic AI, and the time of pydantic alone to write and read a history."""

from __future__ import annotations

from typing import Any

from cases import PROMPT, TOOL_PROMPT, add
from conversion import Conversion, make_history

PACKAGES = ["pydantic-ai-slim[openai]"]
VERSIONS = ["pydantic-ai-slim", "openai", "pydantic"]
IMPORT = """
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
"""
UNSUPPORTED: dict[str, str] = {}


def _model(url: str, name: str) -> Any:
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    client = AsyncOpenAI(base_url=url, api_key="x", max_retries=0)
    return OpenAIChatModel(name, provider=OpenAIProvider(openai_client=client))


def build(url: str) -> Any:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel

    provider = _model(url, "tool")._provider

    def once() -> Any:
        return Agent(OpenAIChatModel("tool", provider=provider), tools=[add])

    return once


def plain(url: str) -> Any:
    from pydantic_ai import Agent

    agent = Agent(_model(url, "plain"))

    async def once() -> str:
        return (await agent.run(PROMPT)).output

    return once


def tool(url: str) -> Any:
    from pydantic_ai import Agent

    agent = Agent(_model(url, "tool"), tools=[add])

    async def once() -> str:
        return (await agent.run(TOOL_PROMPT)).output

    return once


def stream(url: str, model: str) -> Any:
    from pydantic_ai import Agent

    agent = Agent(_model(url, model))

    async def once() -> int:
        deltas = 0
        async with agent.run_stream(PROMPT) as result:
            # Without debouncing, like all peers: each delta is one event.
            async for _ in result.stream_text(delta=True, debounce_by=None):
                deltas += 1
        return deltas

    return once


def history(url: str, past: list[tuple[str, str]]) -> Any:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart

    agent = Agent(_model(url, "plain"))
    messages = [
        ModelRequest(parts=[UserPromptPart(content=text)])
        if role == "user"
        else ModelResponse(parts=[TextPart(content=text)])
        for role, text in past
    ]

    async def once() -> str:
        return (await agent.run(PROMPT, message_history=messages)).output

    return once


def pydantic_dump_json() -> Conversion:
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    messages, data = make_history()
    return Conversion(lambda: ModelMessagesTypeAdapter.dump_json(messages), len(data))


def pydantic_validate_json() -> Conversion:
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    _, data = make_history()
    return Conversion(lambda: ModelMessagesTypeAdapter.validate_json(data), len(data))


def pydantic_both() -> Conversion:
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    _, data = make_history()
    adapter = ModelMessagesTypeAdapter
    return Conversion(lambda: adapter.dump_json(adapter.validate_json(data)), len(data))


def sorted_json() -> Conversion:
    import json

    _, data = make_history()
    return Conversion(lambda: json.dumps(json.loads(data), sort_keys=True, separators=(",", ":")), len(data))

"""Agno with its OpenAI chat model, without telemetry and without a database."""

from __future__ import annotations

from typing import Any

from cases import PROMPT, TOOL_PROMPT, add

PACKAGES = ["agno", "openai"]
VERSIONS = ["agno", "openai"]
IMPORT = "from agno.agent import Agent; from agno.models.openai import OpenAIChat"
UNSUPPORTED: dict[str, str] = {}


def _model(url: str, name: str) -> Any:
    from agno.models.openai import OpenAIChat

    return OpenAIChat(id=name, base_url=url, api_key="x", max_retries=0)


def build(url: str) -> Any:
    from agno.agent import Agent

    def once() -> Any:
        return Agent(model=_model(url, "tool"), tools=[add], telemetry=False)

    return once


def plain(url: str) -> Any:
    from agno.agent import Agent

    agent = Agent(model=_model(url, "plain"), telemetry=False)

    async def once() -> str:
        return (await agent.arun(PROMPT)).content

    return once


def tool(url: str) -> Any:
    from agno.agent import Agent

    agent = Agent(model=_model(url, "tool"), tools=[add], telemetry=False)

    async def once() -> str:
        return (await agent.arun(TOOL_PROMPT)).content

    return once


def stream(url: str, model: str) -> Any:
    from agno.agent import Agent, RunEvent

    agent = Agent(model=_model(url, model), telemetry=False)
    content = RunEvent.run_content.value

    async def once() -> int:
        deltas = 0
        async for event in agent.arun(PROMPT, stream=True):
            if event.event == content and event.content:
                deltas += 1
        return deltas

    return once


def history(url: str, past: list[tuple[str, str]]) -> Any:
    from agno.agent import Agent
    from agno.models.message import Message

    agent = Agent(model=_model(url, "plain"), telemetry=False)
    messages = [Message(role=role, content=text) for role, text in past]

    async def once() -> str:
        return (await agent.arun([*messages, Message(role="user", content=PROMPT)])).content

    return once

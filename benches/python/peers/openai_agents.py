"""OpenAI Agents SDK, with Chat Completions like all peers, without tracing."""

from __future__ import annotations

from typing import Any

from cases import PROMPT, TOOL_PROMPT, add

PACKAGES = ["openai-agents"]
VERSIONS = ["openai-agents", "openai"]
IMPORT = "from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool; from openai import AsyncOpenAI"
UNSUPPORTED: dict[str, str] = {}


def _model(url: str, name: str) -> Any:
    from agents import OpenAIChatCompletionsModel, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=url, api_key="x", max_retries=0)
    return OpenAIChatCompletionsModel(model=name, openai_client=client)


def build(url: str) -> Any:
    from agents import Agent, OpenAIChatCompletionsModel, function_tool

    client = _model(url, "tool")._client

    def once() -> Any:
        model = OpenAIChatCompletionsModel(model="tool", openai_client=client)
        return Agent(name="agent", model=model, tools=[function_tool(add)])

    return once


def plain(url: str) -> Any:
    from agents import Agent, Runner

    agent = Agent(name="agent", model=_model(url, "plain"))

    async def once() -> str:
        return (await Runner.run(agent, PROMPT)).final_output

    return once


def tool(url: str) -> Any:
    from agents import Agent, Runner, function_tool

    agent = Agent(name="agent", model=_model(url, "tool"), tools=[function_tool(add)])

    async def once() -> str:
        return (await Runner.run(agent, TOOL_PROMPT)).final_output

    return once


def stream(url: str, model: str) -> Any:
    from agents import Agent, Runner

    agent = Agent(name="agent", model=_model(url, model))

    async def once() -> int:
        deltas = 0
        async for event in Runner.run_streamed(agent, PROMPT).stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                deltas += 1
        return deltas

    return once


def history(url: str, past: list[tuple[str, str]]) -> Any:
    from agents import Agent, Runner

    agent = Agent(name="agent", model=_model(url, "plain"))
    items: list[Any] = [{"role": role, "content": text} for role, text in past]

    async def once() -> str:
        return (await Runner.run(agent, [*items, {"role": "user", "content": PROMPT}])).final_output

    return once

"""OpenAI Agents SDK, with Chat Completions like all peers, without tracing."""

from __future__ import annotations

from typing import Any

from cases import DONE, PROMPT, STEPS, TOOL_PROMPT, add, read
from saved import Saved, sqlite_file, sqlite_size

PACKAGES = ["openai-agents"]
VERSIONS = ["openai-agents", "openai"]
IMPORT = "from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool; from openai import AsyncOpenAI"
UNSUPPORTED = {
    "saved_sqlite_tool": "the items of a step are saved after its tools",
    "saved_sqlite_once": "the items of each step are saved",
}


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


def saved_sqlite() -> Saved:
    """The SDK saves the input, and the items of each turn; SQLite's `synchronous` is FULL by default."""
    import asyncio
    import json
    from uuid import uuid4

    from agents import Agent, Model, ModelResponse, Runner, SQLiteSession, Usage, function_tool, set_tracing_disabled
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    set_tracing_disabled(True)

    class Function(Model):
        async def get_response(self, *arguments: Any, input: Any = None, **options: Any) -> ModelResponse:
            input = arguments[1] if input is None else input
            page = sum(item.get("type") == "function_call_output" for item in input)
            output: Any
            if page == STEPS - 1:
                text = ResponseOutputText(type="output_text", text=DONE, annotations=[])
                output = ResponseOutputMessage(
                    id=f"msg_{page}", type="message", role="assistant", status="completed", content=[text]
                )
            else:
                output = ResponseFunctionToolCall(
                    type="function_call", call_id=f"call_{page}", name="read", arguments=json.dumps({"page": page})
                )
            return ModelResponse(output=[output], usage=Usage(), response_id=None)

        def stream_response(self, *arguments: Any, **options: Any) -> Any:
            raise NotImplementedError

    agent = Agent(name="agent", model=Function(), tools=[function_tool(read)])
    path = sqlite_file()
    last: Any = None

    async def once() -> str:
        nonlocal last
        if last is not None:
            last.close()
        last = SQLiteSession(str(uuid4()), path)
        return (await Runner.run(agent, PROMPT, session=last, max_turns=2 * STEPS)).final_output

    def messages() -> int:
        return len(asyncio.get_event_loop().run_until_complete(last.get_items()))

    return Saved(once, sqlite_size(path), messages)

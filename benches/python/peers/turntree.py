"""turntree: the wheel alone for agents, and with pydantic-ai for conversions."""

from __future__ import annotations

from typing import Any

from cases import PROMPT, TOOL_PROMPT, add
from conversion import Conversion, expect_equal, make_history

PACKAGES: list[str] = []
VERSIONS = ["turntree"]
IMPORT = "from turntree import agent; from turntree.upp import openai, tool"
UNSUPPORTED: dict[str, str] = {}


def _agent(url: str, name: str, tools: tuple[Any, ...] = ()) -> Any:
    from turntree import agent
    from turntree.upp import openai

    return agent(model=openai(name, api="completions", base_url=url, api_key="x"), tools=list(tools))


def build(url: str) -> Any:
    from turntree.upp import tool as make_tool

    def once() -> Any:
        return _agent(url, "tool", (make_tool(add),))

    return once


def plain(url: str) -> Any:
    agent = _agent(url, "plain")

    async def once() -> str:
        return (await agent.run(PROMPT)).response.text

    return once


def tool(url: str) -> Any:
    from turntree.upp import tool as make_tool

    agent = _agent(url, "tool", (make_tool(add),))

    async def once() -> str:
        return (await agent.run(TOOL_PROMPT)).response.text

    return once


def stream(url: str, model: str) -> Any:
    agent = _agent(url, model)

    async def once() -> int:
        deltas = 0
        async for event in agent.stream(PROMPT):
            if event.upp is not None and event.upp.type == "text_delta":
                deltas += 1
        return deltas

    return once


def history(url: str, past: list[tuple[str, str]]) -> Any:
    from turntree.upp import AssistantMessage, UserMessage

    agent = _agent(url, "plain")
    messages = [UserMessage(text) if role == "user" else AssistantMessage(text) for role, text in past]

    async def once() -> str:
        return (await agent.run(messages, PROMPT)).response.text

    return once


def objects_to_thread() -> Conversion:
    from turntree import thread_protocol as tp

    messages, data = make_history()

    def verify() -> None:
        expect_equal(tp.from_pydantic_ai(messages).to_pydantic_ai(), messages)

    return Conversion(lambda: tp.from_pydantic_ai(messages), len(data), verify)


def json_to_thread_json() -> Conversion:
    from turntree import thread_protocol as tp

    messages, data = make_history()

    def once() -> bytes:
        return tp.from_pydantic_ai(data).to_json_bytes()

    return Conversion(once, len(data), lambda: expect_equal(_objects(once()), messages))


def thread_to_objects() -> Conversion:
    from turntree import thread_protocol as tp

    messages, data = make_history()
    document = tp.from_pydantic_ai(messages)
    return Conversion(document.to_pydantic_ai, len(data), lambda: expect_equal(document.to_pydantic_ai(), messages))


def thread_json_to_json() -> Conversion:
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    from turntree import thread_protocol as tp

    messages, data = make_history()
    thread = tp.from_pydantic_ai(data).model_dump_json()

    def once() -> bytes:
        return tp.Thread.model_validate_json(thread).to_pydantic_ai_json()

    return Conversion(once, len(data), lambda: expect_equal(ModelMessagesTypeAdapter.validate_json(once()), messages))


def validate_thread() -> Conversion:
    from turntree import thread_protocol as tp

    thread = tp.from_pydantic_ai(make_history()[1])

    def verify() -> None:
        if any(issue.severity == "error" for issue in thread.validate()):
            raise ValueError("a thread that was converted must be valid")

    return Conversion(thread.validate, len(thread.to_json_bytes()), verify)


def canonical_thread() -> Conversion:
    from turntree import thread_protocol as tp

    thread = tp.from_pydantic_ai(make_history()[1])
    document = thread.to_json_bytes()

    def verify() -> None:
        if tp.Thread.model_validate_json(thread.canonical_json()).canonical_json() != thread.canonical_json():
            raise ValueError("canonical bytes must stay as they are")

    return Conversion(thread.canonical_json, len(document), verify)


def _objects(thread: str | bytes) -> Any:
    from turntree import thread_protocol as tp

    return tp.Thread.model_validate_json(thread).to_pydantic_ai()

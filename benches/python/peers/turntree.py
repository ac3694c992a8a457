"""turntree: the wheel alone for agents, and with pydantic-ai for conversions."""

from __future__ import annotations

from typing import Any

from cases import DONE, PROMPT, STEPS, TOOL_PROMPT, add, read
from conversion import Conversion, expect_equal, make_history
from saved import Saved, postgres_schema, postgres_size, sqlite_file, sqlite_size

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


def saved_sqlite() -> Saved:
    return _saved_sqlite("step")


def saved_sqlite_tool() -> Saved:
    return _saved_sqlite("tool")


def saved_sqlite_once() -> Saved:
    return _saved_sqlite("turn")


def _saved_sqlite(interval: Any) -> Saved:
    from turntree import store

    path = sqlite_file()
    return _saved(store.sqlite(path, synchronous="full"), sqlite_size(path), interval)


def saved_postgres() -> Saved:
    return _saved_postgres("step")


def saved_postgres_tool() -> Saved:
    return _saved_postgres("tool")


def _saved_postgres(interval: Any) -> Saved:
    from turntree import store

    url, schema = postgres_schema("turntree")
    return _saved(store.postgres(url, synchronous="full", schema=schema), postgres_size(schema), interval)


def _saved(store: Any, size: Any, interval: Any) -> Saved:
    """Sessions that are saved: "step", "turn", or "tool", the default of applications."""
    from uuid import uuid4

    from turntree import agent, session
    from turntree.execution import loop
    from turntree.upp import scripted
    from turntree.upp import tool as make_tool

    def reply(request: Any) -> Any:
        page = len(request.messages) // 2
        return [{"toolName": "read", "arguments": {"page": page}}] if page < STEPS - 1 else DONE

    tools = [make_tool(inline=True)(read)]
    helper = agent(model=scripted(reply), tools=tools, execution=loop(max_iterations=STEPS))
    last = ""

    async def once() -> str:
        nonlocal last
        last = str(uuid4())
        return (await session(helper, id=last, persistence=store, save_interval=interval).run(PROMPT)).response.text

    def messages() -> int:
        import json

        tree = json.loads(store.load_sync(last))["threadTree"]
        return sum(len(node["thread"]["messages"]) for node in tree["nodes"])

    return Saved(once, size, messages)


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

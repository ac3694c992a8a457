"""Agno with its OpenAI chat model, without telemetry and without a database."""

from __future__ import annotations

from typing import Any

from cases import DONE, PROMPT, STEPS, TOOL_PROMPT, add, read
from saved import Saved, sqlite_file, sqlite_size

PACKAGES = ["agno", "openai", "sqlalchemy[asyncio]"]
VERSIONS = ["agno", "openai"]
IMPORT = "from agno.agent import Agent; from agno.models.openai import OpenAIChat"
_ONCE = "a session is saved at the end of a run only"
UNSUPPORTED = {"saved_sqlite": _ONCE, "saved_sqlite_tool": _ONCE}


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


def saved_sqlite_once() -> Saved:
    """agno saves a session once, at the end of a run; SQLite's `synchronous` is FULL by default."""
    import json
    from uuid import uuid4

    from agno.agent import Agent
    from agno.db.base import SessionType
    from agno.db.sqlite import SqliteDb
    from agno.models.base import Model
    from agno.models.response import ModelResponse

    class Function(Model):
        def invoke(self, messages: Any, **options: Any) -> ModelResponse:
            page = sum(message.role == "tool" for message in messages)
            if page == STEPS - 1:
                return ModelResponse(role="assistant", content=DONE)
            function = {"name": "read", "arguments": json.dumps({"page": page})}
            call = {"id": f"call_{page}", "type": "function", "function": function}
            return ModelResponse(role="assistant", tool_calls=[call])

        async def ainvoke(self, messages: Any, **options: Any) -> ModelResponse:
            return self.invoke(messages, **options)

        def invoke_stream(self, *arguments: Any, **options: Any) -> Any:
            raise NotImplementedError

        ainvoke_stream = _parse_provider_response = _parse_provider_response_delta = invoke_stream

    path = sqlite_file()
    db = SqliteDb(db_file=str(path))
    agent = Agent(model=Function(id="function"), tools=[read], db=db, telemetry=False)
    last = ""

    def once() -> str:
        nonlocal last
        last = str(uuid4())
        return agent.run(PROMPT, session_id=last).content

    def messages() -> int:
        session: Any = db.get_session(last, session_type=SessionType.AGENT)
        return len(session.runs[-1].messages)

    return Saved(once, sqlite_size(path), messages)

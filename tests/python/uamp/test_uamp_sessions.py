"""The client with a server of this package: sessions, tools on both sides, cancellation, restarts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from uamp_support import FACES, served

from turntree import agent, uamp
from turntree.store import sqlite
from turntree.upp import ModelRequest, ToolCall, ToolResultMessage, scripted

pytestmark = pytest.mark.parametrize("face", FACES)


def remembering(request: ModelRequest) -> str:
    return f"{len(request.messages)} messages"


async def test_a_session_keeps_the_conversation_on_the_server(face: str) -> None:
    async with served(face, agent(name="helper", model=scripted(remembering))) as url, uamp.connect(url) as client:
        first, second = await client.session(), await client.session("helper")
        assert first.id != second.id
        assert await first.run("one").text() == "1 messages"
        assert await first.run("two").text() == "3 messages"
        assert await second.run("one").text() == "1 messages"


async def test_tools_run_on_the_server_and_in_the_client(face: str) -> None:
    def stock(product: str) -> int:
        """How much is in stock."""
        return {"tea": 12}[product]

    async def local_time() -> str:
        """Tell the time of the user."""
        return "12:30"

    calls = [
        ToolCall(tool_call_id="c1", tool_name="stock", arguments={"product": "tea"}),
        ToolCall(tool_call_id="c2", tool_name="local_time", arguments={}),
    ]
    model = scripted([calls, "done"])
    async with served(face, agent(name="helper", model=model, tools=[stock])) as url, uamp.connect(url) as client:
        session = await client.session()
        events = [event async for event in session.run("hi", tools=[local_time])]

    kinds = [event.type for event in events]
    assert "response.created" in kinds
    assert kinds[-1] == "response.done"
    assert [event["name"] for event in events if event.type == "tool.call"] == ["local_time"]
    answered = model.requests[1].messages[-1]
    assert isinstance(answered, ToolResultMessage)
    assert [result.result for result in answered.results] == [12, "12:30"]


async def test_a_cancelled_response_cancels_the_tool_on_the_server(face: str) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        """Wait for ever."""
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    model = scripted([ToolCall(tool_call_id="c1", tool_name="wait", arguments={}), "after"])
    async with served(face, agent(name="helper", model=model, tools=[wait])) as url, uamp.connect(url) as client:
        session = await client.session()

        async def cancel() -> None:
            await began.wait()
            await session.cancel()

        cancelling = asyncio.create_task(cancel())
        kinds = [event.type async for event in session.run("hi")]
        await cancelling
        await asyncio.wait_for(ended.wait(), 20)
        assert kinds[-1] == "response.cancelled"


async def test_a_session_needs_a_token_of_its_agent_and_a_known_agent(face: str) -> None:
    def auth(token: str) -> str | None:
        return "anna" if token == "secret" else None

    async with served(face, agent(name="helper", model=scripted(["hi"])), auth=auth) as url:
        async with uamp.connect(url, "secret") as client:
            with pytest.raises(uamp.UampError) as caught:
                await client.session("nobody")
            assert caught.value.code == "agent_not_found"
            assert await (await client.session("helper")).run("hi").text() == "hi"
        with pytest.raises(uamp.UampError) as caught:
            async with uamp.connect(url, "wrong") as client:
                await client.session()
        assert caught.value.code == "unauthorized"


async def test_the_exception_of_the_agent_ends_the_response_with_an_error(face: str) -> None:
    model: Any = scripted([RuntimeError("the model is broken")])
    async with served(face, agent(name="helper", model=model)) as url, uamp.connect(url) as client:
        session = await client.session()
        with pytest.raises(uamp.UampError) as caught:
            await session.run("hi")
        assert caught.value.code == "generation_error"


async def test_a_conversation_is_a_session_of_the_store(face: str, tmp_path: Path) -> None:
    helper = agent(name="helper", model=scripted(remembering))
    store = sqlite(tmp_path / "conversations.db")
    async with served(face, helper, store=store) as url, uamp.connect(url) as client:
        session = await client.session()
        await session.run("one")
        (stored,) = await store.sessions()
        assert (stored.id, stored.turns) == (session.id, 1)
    await store.close()

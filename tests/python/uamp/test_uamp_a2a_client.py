"""Agents of other servers as tools, by A2A: servers of this package and of `a2a-sdk`."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable, Generator
from typing import Any

import pytest
from uamp_clients import CLIENTS, environment
from uamp_support import http, served, under_uvicorn

from turntree import agent, session, uamp
from turntree.upp import Tool, ToolCall, ToolResultMessage, scripted

pytestmark = pytest.mark.timeout(300)


def asking(*messages: str) -> Any:
    """A model that sends messages to the agent, one after the other, and then says the last result."""
    place = -1

    def reply(request: Any) -> Any:
        nonlocal place
        place += 1
        if place < len(messages):
            return ToolCall(tool_call_id=f"call_{place}", tool_name="expert", arguments={"message": messages[place]})
        last = request.messages[-1]
        assert isinstance(last, ToolResultMessage)
        place = -1
        return str(last.results[0].result)

    return scripted(reply)


async def said(tool: Tool[..., Any], *messages: str) -> str:
    """Send messages to the agent in one run and return the last answer."""
    turn = await agent(model=asking(*messages), tools=[tool]).run("go")
    return turn.response.text


async def progress_of(tool: Tool[..., Any], message: str) -> list[Any]:
    """The reports of a call."""
    found = []
    async with agent(model=asking(message), tools=[tool]).stream("go") as stream:
        async for event in stream:
            if event.upp and event.upp.type == "tool_execution_progress":
                found.append(event.upp.delta["progress"])
    return found


# --- a server of this package


@pytest.mark.parametrize("face", ["native", "asgi"])
async def test_an_agent_of_another_server_is_a_tool(face: str) -> None:
    expert = agent(name="expert", model=scripted(lambda request: f"{len(request.messages)} messages"))
    async with served(face, expert, auth=lambda token: "anna" if token == "secret" else None) as url:
        tool = await asyncio.to_thread(uamp.a2a_agent, url, token="secret")
        assert (tool.name, tool.description) == ("expert", "The agent expert.")
        assert await said(tool, "one") == "1 messages"
        assert await said(tool, "one", "two") == "3 messages", "the second call of a run continues the conversation"


async def test_calls_of_a_session_continue_the_conversation() -> None:
    expert = agent(name="expert", model=scripted(lambda request: f"{len(request.messages)} messages"))
    async with served("native", expert) as url:
        tool = uamp.a2a_agent(url, name="expert", description="Knows.")
        helper = agent(model=asking("one"), tools=[tool])
        first, second = session(helper), session(helper)
        assert (await first.run("go")).response.text == "1 messages"
        assert (await first.run("go")).response.text == "3 messages"
        assert (await second.run("go")).response.text == "1 messages"


async def test_the_pieces_of_the_answer_are_progress() -> None:
    expert = agent(name="expert", model=scripted(["a longer answer in pieces"]))
    async with served("native", expert) as url:
        pieces = await progress_of(uamp.a2a_agent(url, name="expert", description="Knows."), "hi")

    assert len(pieces) > 1
    assert "".join(pieces) == "a longer answer in pieces"


async def test_cancelling_the_run_cancels_the_task_of_the_agent() -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        """Wait."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    model = scripted([ToolCall(tool_call_id="call", tool_name="wait", arguments={})])
    async with served("native", agent(name="expert", model=model, tools=[wait])) as url:
        tool = uamp.a2a_agent(url, name="expert", description="Knows.")
        running = asyncio.ensure_future(said(tool, "wait"))
        await asyncio.wait_for(started.wait(), 20)
        running.cancel()
        await asyncio.wait_for(stopped.wait(), 20)
        async with http(url) as client, asyncio.timeout(10):
            # The state is stored after the run has ended, by another thread.
            states = ["TASK_STATE_WORKING"]
            while states == ["TASK_STATE_WORKING"]:
                await asyncio.sleep(0.01)
                states = [task["status"]["state"] for task in (await client.get("/tasks")).json()["tasks"]]

    assert states == ["TASK_STATE_CANCELED"]


async def test_a_question_of_the_agent_is_the_result_and_the_next_call_answers_it() -> None:
    def delete() -> str:
        """Delete everything."""
        return "deleted"

    call = ToolCall(tool_call_id="call", tool_name="delete", arguments={})
    tools = [Tool("delete", "Delete everything.", None, delete, "ask")]
    async with served("native", agent(name="expert", model=scripted([call, "done"]), tools=tools)) as url:
        tool = uamp.a2a_agent(url, name="expert", description="Knows.")
        results: list[str] = []
        model = asking("delete it", "approve")
        await agent(model=model, tools=[tool]).run("go")
        for request in model.requests[1:]:
            results.append(str(request.messages[-1].results[0].result))

    assert results[0].startswith("The agent has not finished. It needs input: ")
    assert results[1] == "done"


async def test_failures_are_errors_with_codes() -> None:
    def failing(_: Any) -> str:
        raise RuntimeError("the model is broken")

    async with served("native", agent(name="expert", model=scripted(failing)), auth=lambda _: None) as url:
        tool = uamp.a2a_agent(url, "wrong", name="expert", description="Knows.")
        assert "answered 401" in await said(tool, "hi")

    async with served("native", agent(name="expert", model=scripted(failing))) as url:
        with pytest.raises(uamp.UampError) as missing:
            await asyncio.to_thread(uamp.a2a_agent, f"{url}/agents/nobody")
        assert missing.value.code == "card_not_found"
        model = asking("hi")
        await agent(model=model, tools=[uamp.a2a_agent(url, name="expert", description="Knows.")]).run("go")
        (result,) = model.requests[1].messages[-1].results
        assert result.is_error
        assert "has failed" in str(result.result)


def test_a_url_that_is_not_one_is_refused() -> None:
    with pytest.raises(ValueError, match="is not the URL of an agent"):
        uamp.a2a_agent("expert")
    with pytest.raises(TypeError, match="token must be a str, not int"):
        uamp.a2a_agent("http://127.0.0.1:1", 5)  # pyright: ignore[reportArgumentType]


async def test_the_token_is_not_sent_to_another_origin() -> None:
    seen: dict[str, str | None] = {}

    def recording(place: str, answer: Callable[[], dict[str, Any]]) -> Any:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                return
            seen[place] = dict(scope["headers"]).get(b"authorization", b"").decode() or None
            while (await receive()).get("more_body"):
                pass
            await send(
                {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]}
            )
            await send({"type": "http.response.body", "body": json.dumps(answer()).encode()})

        return app

    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hello"}]}
    reply = {"jsonrpc": "2.0", "id": 1, "result": {"message": message}}
    async with under_uvicorn(recording("agent", lambda: reply), lifespan="off") as other:
        interface = {"url": f"{other}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        card = {"name": "expert", "capabilities": {}, "supportedInterfaces": [interface]}
        async with under_uvicorn(recording("card", lambda: card), lifespan="off") as url:
            tool = await asyncio.to_thread(uamp.a2a_agent, url, "secret")
            assert await said(tool, "hi") == "hello"

    assert seen == {"card": "Bearer secret", "agent": None}


async def test_a_lost_stream_is_continued_by_reading_the_task() -> None:
    reads = 0

    def task(state: str, artifacts: list[Any]) -> dict[str, Any]:
        return {"id": "t", "contextId": "c", "status": {"state": state}, "artifacts": artifacts}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal reads
        if scope["type"] != "http":
            return
        body = b""
        while True:
            part = await receive()
            body += part.get("body", b"")
            if not part.get("more_body"):
                break
        kind, media = "application/json", {}
        if scope["path"].endswith("agent-card.json"):
            host = dict(scope["headers"])[b"host"].decode()
            interface = {"url": f"http://{host}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
            media = {"name": "expert", "capabilities": {"streaming": True}, "supportedInterfaces": [interface]}
        else:
            request = json.loads(body)
            media = {"jsonrpc": "2.0", "id": request["id"]}
            if request["method"] == "SendStreamingMessage":
                kind, media["result"] = "text/event-stream", {"task": task("TASK_STATE_WORKING", [])}
            elif request["method"] == "SubscribeToTask":
                media["error"] = {"code": -32004, "message": "not here"}
            else:
                reads += 1
                done = [{"artifactId": "a", "parts": [{"text": "hello"}]}]
                media["result"] = task("TASK_STATE_COMPLETED" if reads > 1 else "TASK_STATE_WORKING", done)
        text = json.dumps(media)
        sent = f"data: {text}\n\n" if kind == "text/event-stream" else text
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind.encode())]})
        await send({"type": "http.response.body", "body": sent.encode()})

    async with under_uvicorn(app, lifespan="off") as url:
        tool = uamp.a2a_agent(url, name="expert", description="Knows.")
        assert await said(tool, "hi") == "hello"
    assert reads == 2


# --- a server of a2a-sdk


@pytest.fixture(scope="module")
def sdk_url() -> Generator[str]:
    """The URL of a server of `a2a-sdk` in another process."""
    command = [str(environment()), "a2a_sdk_server.py"]
    with subprocess.Popen(command, cwd=CLIENTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
        process.stdin.close()


KINDS = ["new", "plain", "old"]


@pytest.mark.parametrize("kind", KINDS)
async def test_an_agent_of_the_sdk_answers(sdk_url: str, kind: str) -> None:
    tool = await asyncio.to_thread(uamp.a2a_agent, f"{sdk_url}/{kind}")
    assert (tool.name, tool.description) == (f"{kind}_agent", f"The {kind} one.\n- count: Counts messages.")
    tool.name = "expert"
    assert await said(tool, "hello") == "hello is number 1"
    assert await said(tool, "hello", "again") == "again is number 2"


@pytest.mark.parametrize("kind", ["new", "old"])
async def test_an_agent_of_the_sdk_reports_progress(sdk_url: str, kind: str) -> None:
    tool = uamp.a2a_agent(f"{sdk_url}/{kind}", name="expert", description="Knows.")
    assert await progress_of(tool, "hello") == ["looking", "hello ", "is ", "number 1"]


@pytest.mark.parametrize("kind", KINDS)
async def test_an_agent_of_the_sdk_asks(sdk_url: str, kind: str) -> None:
    tool = uamp.a2a_agent(f"{sdk_url}/{kind}", name="expert", description="Knows.")
    assert "It needs input: Which city?" in await said(tool, "ask")
    assert await said(tool, "ask", "Oulu") == "Oulu is number 2"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("word", "message"), [("fail", "has failed: the shelf is empty"), ("reject", "was rejected")])
async def test_an_agent_of_the_sdk_fails(sdk_url: str, kind: str, word: str, message: str) -> None:
    tool = uamp.a2a_agent(f"{sdk_url}/{kind}", name="expert", description="Knows.")
    assert message in await said(tool, word)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_task_of_the_sdk_is_cancelled(sdk_url: str, kind: str) -> None:
    tool = uamp.a2a_agent(f"{sdk_url}/{kind}", name="expert", description="Knows.")
    async with http(sdk_url) as client:

        async def count_of(entry: str, count: int) -> None:
            while (await client.get("/log")).json().count(entry) < count:
                await asyncio.sleep(0.02)

        before = (await client.get("/log")).json()
        running = asyncio.ensure_future(said(tool, "wait"))
        await asyncio.wait_for(count_of("waits", before.count("waits") + 1), 20)
        running.cancel()
        await asyncio.wait_for(count_of("cancelled", before.count("cancelled") + 1), 20)

"""Questions of MCP servers while several calls are open: they reach the run whose call asks, or nobody."""

from __future__ import annotations

import asyncio
import contextvars
import sys
from typing import Any

import pytest
from mcp_support import connected

from turntree import agent, mcp
from turntree.upp import ToolCall, scripted

user = contextvars.ContextVar("user", default="nobody")


def voter(server: mcp.McpServer, voters: int, name: str) -> Any:
    """An agent that calls the tool `vote`, which asks when this number of calls is open."""
    return agent(model=scripted([ToolCall(name, "vote", {"voters": voters}), "Done."]), tools=[server])


class Decider:
    """Answers with the color of a person, and records who is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str]] = []

    def of(self, name: str) -> Any:
        async def decide(question: mcp.Elicitation) -> dict[str, str]:
            self.asked.append((name, question.tool_call_id, user.get()))
            return {"color": name}

        return decide


async def answers_of_two_runs(server: mcp.McpServer, decider: Decider) -> list[str]:
    async def run(name: str) -> str:
        user.set(name)
        turn = await voter(server, 2, name).run("Go.", on_approval=decider.of(name))
        return str(turn.tool_executions[0].result)

    return list(await asyncio.gather(run("ann"), run("ben")))


async def test_over_http_each_run_is_asked_about_its_own_call():
    decider = Decider()

    async with connected("http", on_elicitation="approval") as server:
        answers = await answers_of_two_runs(server, decider)

    assert answers == ["accept: ann", "accept: ben"]
    assert sorted(decider.asked) == [("ann", "ann", "ann"), ("ben", "ben", "ben")]


@pytest.mark.parametrize("transport", ["stdio", "sse"])
async def test_without_streams_no_run_is_asked_while_calls_of_several_runs_are_open(transport: str):
    decider = Decider()

    async with connected(transport, on_elicitation="approval") as server:
        answers = await answers_of_two_runs(server, decider)
        alone = await voter(server, 1, "ann").run("Go.", on_approval=decider.of("ann"))

    # The call whose question is refused ends, and the other one is then the only one that is open.
    refused = ["calls of several runs are open" in answer for answer in answers]
    assert any(refused)
    assert all(
        answer == f"accept: {name}"
        for name, answer, is_refused in zip(("ann", "ben"), answers, refused, strict=True)
        if not is_refused
    )
    assert all(name == call_id == variable for name, call_id, variable in decider.asked[:-1])
    assert alone.tool_executions[0].result == "accept: ann"


async def test_calls_of_one_run_are_answered_by_its_function():
    decider = Decider()
    calls = [ToolCall("c1", "vote", {"voters": 2}), ToolCall("c2", "vote", {"voters": 2})]

    async with connected("stdio", on_elicitation="approval") as server:
        asking = agent(model=scripted([calls, "Done."]), tools=[server])
        turn = await asking.run("Go.", on_approval=decider.of("ann"))

    assert [call.result for call in turn.tool_executions] == ["accept: ann", "accept: ann"]
    # The first question comes while both calls are open: it does not say which of them asks.
    assert decider.asked[0] == ("ann", "", "nobody")


async def test_a_function_of_the_connection_is_always_asked():
    decider = Decider()

    async with connected("stdio", on_elicitation=decider.of("all")) as server:
        answers = await answers_of_two_runs(server, Decider())

    assert answers == ["accept: all", "accept: all"]
    assert decider.asked[0] == ("all", "", "nobody")


async def test_a_call_without_a_run_does_not_ask_the_run_beside_it():
    decider = Decider()

    async with connected("http", on_elicitation="approval") as server:
        running = asyncio.create_task(voter(server, 2, "ann").run("Go.", on_approval=decider.of("ann")))
        alone = await server.call("vote", voters=2)
        turn = await running

    assert alone["content"][0]["text"] == "cancel"
    assert turn.tool_executions[0].result == "accept: ann"
    assert decider.asked == [("ann", "ann", "nobody")]


@pytest.mark.parametrize(("transport", "answer"), [("http", "cancel"), ("stdio", None)])
async def test_a_prompt_that_asks_does_not_ask_the_run_beside_it(transport: str, answer: str | None):
    decider = Decider()

    async with connected(transport, on_elicitation="approval") as server:
        running = asyncio.create_task(voter(server, 2, "ann").run("Go.", on_approval=decider.of("ann")))
        if answer is None:
            with pytest.raises(mcp.McpError):
                await server.get_prompt("favorite")
        else:
            assert (await server.get_prompt("favorite"))[0]["content"]["text"] == answer
        assert decider.asked == []
        running.cancel()


async def test_a_refused_question_is_logged(caplog: pytest.LogCaptureFixture):
    async with connected("stdio", on_elicitation="approval") as server:
        await answers_of_two_runs(server, Decider())

    assert "Give each run a connection of its own" in caplog.text


# A server without an SDK: the tool `late` asks after its call was cancelled, and the tool `wait` never asks.
LATE = """
import json, sys
def send(message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
waiting = None
for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params", {})
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "raw", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("late", "wait")]}
    elif method == "tools/call":
        if params["name"] == "wait":
            waiting = message["id"]
        send({"method": "notifications/tools/list_changed"})
        continue
    elif method == "notifications/cancelled":
        asked = {"message": "Delete all?", "requestedSchema": {"type": "object", "properties": {}}}
        send({"id": 900, "method": "elicitation/create", "params": asked})
        continue
    elif message.get("id") == 900:
        text = {"type": "text", "text": json.dumps(message.get("result") or message.get("error"))}
        send({"id": waiting, "result": {"content": [text]}})
        continue
    else:
        continue
    send({"id": message["id"], "result": result})
"""


async def test_a_question_of_a_cancelled_call_does_not_reach_another_run():
    decider = Decider()

    async with mcp.stdio(sys.executable, "-c", LATE, on_elicitation="approval") as server:
        late, wait = (
            agent(model=scripted([ToolCall(name, name, {}), "Done."]), tools=[server]) for name in ("late", "wait")
        )
        cancelled = asyncio.create_task(late.run("Go.", on_approval=decider.of("ann")))
        waiting = asyncio.create_task(wait.run("Go.", on_approval=decider.of("ben")))
        async with asyncio.timeout(10):
            while server._changes < 2:  # the server has both calls
                await asyncio.sleep(0.01)
        cancelled.cancel()
        turn = await waiting

    assert decider.asked == []
    assert "calls of several runs are open" in str(turn.tool_executions[0].result)


# A server without an SDK: the tool `early` answers, a list of resources asks after it, and `wait` answers after
# the question.
AFTER = """
import json, sys
def send(message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def ask(): send({"id": 900, "method": "elicitation/create",
                 "params": {"message": "Delete all?", "requestedSchema": {"type": "object", "properties": {}}}})
def say(id, text): send({"id": id, "result": {"content": [{"type": "text", "text": text}]}})
waiting = asked = None
for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params", {})
    if method == "initialize":
        send({"id": message["id"], "result": {"protocolVersion": sys.argv[1],
              "capabilities": {"tools": {}, "resources": {}}, "serverInfo": {"name": "raw", "version": "1"}}})
    elif method == "tools/list":
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("early", "wait", "answer")]
        send({"id": message["id"], "result": {"tools": tools}})
    elif method == "tools/call" and params["name"] == "early":
        say(message["id"], "done")
    elif method == "resources/list":
        send({"id": message["id"], "result": {"resources": []}})
        ask()
    elif method == "tools/call" and params["name"] == "wait":
        waiting = message["id"]
        send({"method": "notifications/tools/list_changed"})
    elif method == "tools/call":
        say(message["id"], asked)
    elif message.get("id") == 900:
        asked = message.get("result", {}).get("action") or message["error"]["message"]
        if waiting is not None:
            say(waiting, asked)
        send({"method": "notifications/tools/list_changed"})
"""


@pytest.mark.parametrize(
    ("version", "answer"),
    [("2025-11-25", "cancel"), ("2026-07-28", "must be associated with an in-flight client request")],
)
async def test_a_question_after_the_result_of_the_only_call_reaches_nobody(version: str, answer: str):
    decider = Decider()

    async with mcp.stdio(sys.executable, "-c", AFTER, version, on_elicitation="approval") as server:
        asking = agent(model=scripted([ToolCall("c1", "early", {}), "Done."]), tools=[server])
        await asking.run("Go.", on_approval=decider.of("ann"))
        await server.resources()
        while not server._changes:
            await asyncio.sleep(0.01)
        answered = await server.call("answer")

    assert decider.asked == []
    assert answer in answered["content"][0]["text"]


async def test_a_question_after_the_result_of_a_call_is_taken_for_one_of_the_only_open_call():
    decider = Decider()

    async with mcp.stdio(sys.executable, "-c", AFTER, "2025-11-25", on_elicitation="approval") as server:
        early, wait = (
            agent(model=scripted([ToolCall(name, name, {}), "Done."]), tools=[server]) for name in ("early", "wait")
        )
        waiting = asyncio.create_task(wait.run("Go.", on_approval=decider.of("ben")))
        while not server._changes:  # the server has the call
            await asyncio.sleep(0.01)
        # This server cannot be told from one whose open call asks. The run that has its result is never asked.
        await server.call("early")
        await server.resources()
        turn = await waiting
        await early.run("Go.", on_approval=decider.of("ann"))

    assert decider.asked == [("ben", "wait", "nobody")]
    assert turn.tool_executions[0].result == "accept"

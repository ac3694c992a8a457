"""Who asks, as tools of served agents see it."""

from __future__ import annotations

from typing import Any

import pytest
from uamp_support import FACES, http, served

from turntree import ToolContext, agent, uamp
from turntree.upp import ToolCall, scripted


def auth(token: str) -> Any:
    return {"id": token, "plan": "pro"} if token == "anna" else token


def asked(name: str = "whoami") -> ToolCall:
    return ToolCall(tool_call_id="c", tool_name=name, arguments={})


def inspected(calls: int, seen: list[Any]) -> Any:
    def whoami(context: ToolContext) -> str:
        """Tell who asks."""
        seen.append((context.principal, context.claims))
        return "done"

    return agent(name="helper", model=scripted([asked(), "ok"] * calls), tools=[whoami])


@pytest.mark.parametrize("face", FACES)
async def test_a_tool_sees_who_asks_on_all_wires(face: str) -> None:
    seen: list[Any] = []
    message = {"role": "user", "parts": [{"kind": "text", "text": "hi"}], "messageId": "m", "kind": "message"}
    requests: dict[str, Any] = {
        "/chat/completions": {"model": "helper", "messages": [{"role": "user", "content": "hi"}]},
        "/responses": {"model": "helper", "input": "hi"},
        "/uamp/completions": {"model": "helper", "messages": [{"role": "user", "content": "hi"}]},
        "/uamp": [{"type": "session.create"}, {"type": "input.text", "text": "hi"}, {"type": "response.create"}],
        "/a2a": {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}},
        "/ag-ui": {
            "threadId": "t",
            "runId": "r",
            "messages": [{"id": "m", "role": "user", "content": "hi"}],
            "tools": [],
            "context": [],
            "state": {},
            "forwardedProps": {},
        },
    }
    async with served(face, inspected(len(requests) + 1, seen), auth=auth) as url:
        async with http(url, headers={"authorization": "Bearer anna"}) as client:
            for path, body in requests.items():
                answer = await client.post(path, json=body)
                assert answer.status_code == 200, (path, answer.text)
                assert seen.pop() == ("anna", {"id": "anna", "plan": "pro"}), path
        async with uamp.connect(url, "ben") as client:
            await (await client.session()).run("hi")
        assert seen == [("ben", {})]


async def test_a_sub_agent_has_the_principal_of_its_caller() -> None:
    seen: list[Any] = []
    inner = inspected(1, seen)
    inner_tool = ToolCall(tool_call_id="c", tool_name="inner", arguments={"task": "hi"})
    outer = agent(name="outer", model=scripted([inner_tool, "ok"]), tools=[inner.to_tool("inner")])
    async with served("native", outer, auth=auth) as url, uamp.connect(url, "anna") as client:
        await (await client.session()).run("hi")
    assert seen == [("anna", {"id": "anna", "plan": "pro"})]


async def test_a_run_without_a_server_has_no_principal() -> None:
    seen: list[Any] = []
    helper = inspected(2, seen)
    await helper.run("hi")
    async with served("native", helper) as url, uamp.connect(url) as client:
        await (await client.session()).run("hi")
    assert seen == [(None, {}), (None, {})]

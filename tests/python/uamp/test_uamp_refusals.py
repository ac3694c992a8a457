"""What clients of UAMP see when they are refused: limits, codes of closed connections, ids of errors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from uamp_support import FACES, served

from turntree import agent, uamp
from turntree.execution import plan
from turntree.upp import ErrorCode, UPPError, scripted

websockets = pytest.importorskip("websockets")


def helper(*replies: Any, **options: Any) -> Any:
    return agent(name="helper", model=scripted([*replies] or ["done"]), **options)


def connect(url: str, path: str = "/uamp") -> Any:
    return websockets.connect(url.replace("http", "ws") + path, proxy=None)


async def receive(socket: Any) -> dict[str, Any]:
    return json.loads(await socket.recv())


async def until(socket: Any, kind: str) -> list[dict[str, Any]]:
    events = [await receive(socket)]
    while events[-1]["type"] != kind:
        events.append(await receive(socket))
    return events


async def code_of(socket: Any) -> int:
    """Read to the end of the connection, and return the code with which it was closed."""
    with pytest.raises(websockets.exceptions.ConnectionClosed) as closed:
        while True:
            await socket.recv()
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code


@pytest.mark.parametrize("face", FACES)
async def test_a_path_of_an_unknown_agent_is_closed_with_4404(face: str) -> None:
    async with served(face, helper()) as url, connect(url, "/agents/other/uamp") as socket:
        assert (await receive(socket))["error"]["code"] == "agent_not_found"
        assert await code_of(socket) == 4404


@pytest.mark.parametrize("face", FACES)
async def test_a_token_of_another_principal_is_closed_with_4403_without_a_session(face: str) -> None:
    def auth(token: str) -> str | None:
        return token.removeprefix("t-") if token.startswith("t-") else None

    update = json.dumps({"type": "session.update", "event_id": "e", "token": "t-bob"})
    async with served(face, helper(), auth=auth) as url:
        async with connect(url, "/uamp?token=t-ada") as socket:
            await socket.send(update)
            error = await receive(socket)
            assert (error["error"]["code"], error["reply_to"]) == ("forbidden", "e")
            assert await code_of(socket) == 4403
        async with connect(url) as socket:
            await socket.send(json.dumps({"type": "session.create", "token": "wrong"}))
            assert (await receive(socket))["error"]["code"] == "unauthorized"
            assert await code_of(socket) == 4401
        async with connect(url, "/uamp?token=t-ada") as socket:
            await socket.send(json.dumps({"type": "session.create"}))
            await until(socket, "capabilities")
            await socket.send(update)
            assert (await receive(socket))["error"]["code"] == "forbidden"
            await socket.send(json.dumps({"type": "ping"}))
            assert (await receive(socket))["type"] == "pong", "a session keeps its principal and its connection"


@pytest.mark.parametrize("face", FACES)
async def test_a_flood_of_malformed_events_is_closed_with_1008(face: str) -> None:
    async with served(face, helper()) as url, connect(url) as socket:
        for _ in range(100):
            await socket.send("{")
            assert (await receive(socket))["error"]["code"] == "invalid_json"
        assert await code_of(socket) == 1008


@pytest.mark.parametrize("face", FACES)
async def test_a_message_over_the_limit_is_closed_with_1009(face: str) -> None:
    async with served(face, helper()) as url, connect(url) as socket:
        # The head of a masked frame of 17 MiB: the server needs no more of it to refuse it.
        socket.transport.write(b"\x81\xff" + (17 << 20).to_bytes(8, "big") + bytes(4))
        assert await code_of(socket) == 1009
        async with connect(url) as other:
            await other.send(json.dumps({"type": "ping"}))
            assert (await receive(other))["type"] == "pong"


@pytest.mark.parametrize("face", FACES)
async def test_a_malformed_event_is_answered_with_its_ids(face: str) -> None:
    async with served(face, helper()) as url, connect(url) as socket:
        await socket.send(json.dumps({"type": "session.create"}))
        session = (await until(socket, "capabilities"))[0]["session_id"]
        ids = {"event_id": "e1", "session_id": session}
        for text in (json.dumps({"type": "input.text", **ids}), json.dumps({**ids, "type": "input.text"})[:-1]):
            await socket.send(text)
            error = await receive(socket)
            assert (error["type"], error["reply_to"], error["session_id"]) == ("session.error", "e1", session)


@pytest.mark.parametrize("face", FACES)
async def test_a_limit_of_the_models_vendor_is_announced(face: str) -> None:
    limited = UPPError("slow down", code=ErrorCode.RATE_LIMITED, provider="scripted")
    async with served(face, helper(limited)) as url, connect(url) as socket:
        for event in ({"type": "session.create"}, {"type": "input.text", "text": "hi"}, {"type": "response.create"}):
            await socket.send(json.dumps(event))
        limit, error = (await until(socket, "response.error"))[-2:]
        assert (limit["type"], limit["remaining"]) == ("rate_limit", 0)
        assert error["error"]["code"] == "rate_limit_exceeded"
        assert uamp.ServerEvent.model_validate(limit).remaining == 0


@pytest.mark.parametrize("face", FACES)
async def test_the_plan_of_an_agent_is_a_thought(face: str) -> None:
    steps: list[dict[str, Any]] = [{"id": "1", "description": "Look", "tool": None, "dependsOn": []}]
    planner = helper(json.dumps({"steps": steps}), "found", execution=plan())
    async with served(face, planner) as url, connect(url) as socket:
        for event in ({"type": "session.create"}, {"type": "input.text", "text": "hi"}, {"type": "response.create"}):
            await socket.send(json.dumps(event))
        events = await until(socket, "response.done")
        thoughts = [
            (event["content"], event["stage"], event["is_delta"]) for event in events if event["type"] == "thinking"
        ]
        assert thoughts == [("1. Look", "planning", False)]

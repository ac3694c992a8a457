"""The daemon role: agents of this process at a router that they dial."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from support.ports import reserved_port
from uamp_router import Router
from uamp_support import under_uvicorn

from turntree import agent, uamp
from turntree.upp import ModelRequest, ToolCall, scripted


def echo(name: str) -> Any:
    def answer(request: ModelRequest) -> str:
        return f"{name} has {len(request.messages)} messages"

    return agent(name=name, model=scripted(answer))


async def test_input_text_alone_asks_for_a_response_of_each_agent() -> None:
    router = Router()
    async with under_uvicorn(router) as url:
        async with uamp.dial(url, echo("a"), echo("b"), token="secret"):
            assert list(router.sessions) == ["a", "b"]
            await router.ask("b", "hi", "e1")
            await router.until("response.done")
            await router.ask("a", "hi", "e2")
            await router.until("response.done", 2)
            await router.ask("b", "again", "e3")
            received = await router.until("response.done", 3)
        await router.until("session.end", 2)

    first = router.creates[0]
    assert (first["agent"], first["token"], first["uamp_version"]) == ("a", "secret", "1.0")
    assert (first["session"]["agent"], first["session"]["token"]) == ("a", "secret")
    assert first["client_capabilities"]["id"] == "a"
    assert router.headers[0]["authorization"] == "Bearer secret"
    kinds = [event["type"] for event in received if event.get("session_id") == router.sessions["a"]]
    assert kinds[0] == "response.created"
    assert "session.created" not in kinds
    assert router.text(router.sessions["a"]) == "a has 1 messages"
    assert router.text(router.sessions["b"]) == "b has 1 messagesb has 3 messages"


async def test_a_conversation_that_the_router_sends_is_the_whole_one() -> None:
    router = Router()
    async with under_uvicorn(router) as url, uamp.dial(url, echo("a")):
        messages = [
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": "two"},
            {"role": "user", "content": "three"},
        ]
        for number in (1, 2):
            await router.ask("a", "three", f"e{number}", messages=messages)
        await router.until("response.done", 2)
        assert router.text(router.sessions["a"]) == "a has 3 messages" * 2


async def test_an_event_that_the_router_repeats_has_no_effect_and_a_ping_is_answered() -> None:
    router = Router()
    async with under_uvicorn(router) as url, uamp.dial(url, echo("a")):
        await router.ask("a", "hi", "e1")
        await router.ask("a", "hi", "e1")
        await router.until("response.done")
        await router.send("ping", event_id="p1")
        await router.send("ping", event_id="p2", session_id=router.sessions["a"])
        received = await router.until("pong", 2)
    assert [event["type"] for event in received].count("response.created") == 1
    assert {event["reply_to"] for event in received if event["type"] == "pong"} == {"p1", "p2"}


def waiting(released: asyncio.Event, started: asyncio.Event) -> Any:
    async def wait() -> str:
        """Wait for the test."""
        started.set()
        await released.wait()
        return "waited"

    return agent(
        name="a", model=scripted([ToolCall(tool_call_id="c", tool_name="wait", arguments={}), "done"]), tools=[wait]
    )


@pytest.mark.parametrize("names_position", [True, False])
async def test_a_response_continues_over_a_lost_connection(names_position: bool) -> None:
    router = Router()
    released, started = asyncio.Event(), asyncio.Event()
    async with under_uvicorn(router) as url, uamp.dial(url, waiting(released, started)):
        await router.ask("a", "hi", "e1", seq=7)
        received = await router.until("response.created")
        await asyncio.wait_for(started.wait(), 20)
        if names_position:
            router.names_position = received[-1]["seq"]
        await router.lose()
        released.set()
        await asyncio.wait_for(router.opened.wait(), 20)
        received = await router.until("response.done")

    resume = router.creates[1]["session"]["extensions"]["uamp"]["resume"]
    assert resume == {"session_id": router.sessions["a"], "after_seq": 7}
    assert router.text(router.sessions["a"]) == "done"
    by_id = {event["event_id"]: event["seq"] for event in received if "seq" in event}
    seqs = sorted(by_id.values())
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
    repeated = [event["type"] for event in received].count("response.created")
    assert repeated == (1 if names_position else 2)


async def test_a_router_that_has_lost_the_session_gets_a_new_one() -> None:
    router = Router()
    async with under_uvicorn(router) as url, uamp.dial(url, echo("a")):
        router.forgets = True
        await router.lose()
        await asyncio.wait_for(router.opened.wait(), 20)
        assert router.sessions["a"] == "s-a-2"
        await router.ask("a", "hi", "e1")
        await router.until("response.done")
    assert router.text("s-a-2") == "a has 1 messages"


async def test_a_session_that_the_router_ends_is_made_again() -> None:
    router = Router()
    async with under_uvicorn(router) as url, uamp.dial(url, echo("a")):
        router.opened.clear()
        await router.send("session.end", session_id=router.sessions["a"], reason="timeout")
        await asyncio.wait_for(router.opened.wait(), 20)
        await router.ask("a", "hi", "e1")
        await router.until("response.done")
        assert len(router.creates) == 2


async def test_a_cancelled_response_cancels_the_tool() -> None:
    router = Router()
    started, ended = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        """Wait for ever."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    model = scripted([ToolCall(tool_call_id="c", tool_name="wait", arguments={}), "done"])
    async with under_uvicorn(router) as url, uamp.dial(url, agent(name="a", model=model, tools=[wait])):
        await router.ask("a", "hi", "e1")
        await asyncio.wait_for(started.wait(), 20)
        await router.send("response.cancel", session_id=router.sessions["a"], event_id="e2")
        await router.until("response.cancelled")
        await asyncio.wait_for(ended.wait(), 20)


async def test_a_router_that_refuses_is_an_error() -> None:
    router = Router()
    router.refuses = {"code": "unauthorized", "message": "who are you"}
    async with under_uvicorn(router) as url:
        with pytest.raises(uamp.UampError, match="who are you") as caught:
            async with uamp.dial(url, echo("a")):
                pass
        assert caught.value.code == "unauthorized"
        router.refuses, router.closes_with_status = None, True
        with pytest.raises(uamp.UampError) as caught:
            await uamp.dial(url, echo("a")).start()
        assert caught.value.code == "connection_failed"


async def test_a_daemon_that_is_refused_later_ends_with_the_error() -> None:
    router = Router()
    async with under_uvicorn(router) as url, uamp.dial(url, echo("a")) as daemon:
        router.refuses = {"code": "forbidden", "message": "not any more"}
        await router.lose()
        with pytest.raises(uamp.UampError) as caught:
            await asyncio.wait_for(daemon.wait(), 20)
        assert caught.value.code == "forbidden"


async def test_a_daemon_connects_again_to_a_router_that_was_restarted() -> None:
    first, second = Router(), Router()
    second.forgets = True
    with reserved_port() as port:
        async with under_uvicorn(first, port=port) as url:
            daemon = uamp.dial(url, echo("a"))
            await daemon.start()
        async with under_uvicorn(second, port=port):
            await asyncio.wait_for(second.opened.wait(), 20)
            await second.ask("a", "hi", "e1")
            await second.until("response.done")
            await daemon.aclose()
            await daemon.wait()


async def test_wrong_arguments_are_errors() -> None:
    with pytest.raises(TypeError, match="there are no agents"):
        uamp.dial("http://127.0.0.1:1")
    with pytest.raises(ValueError, match='two agents are named "a"'):
        uamp.dial("http://127.0.0.1:1", echo("a"), echo("a"))
    with pytest.raises(ValueError, match="not the URL of a server"):
        await uamp.dial("ftp://x", echo("a")).start()
    daemon = uamp.dial("http://127.0.0.1:1", echo("a"))
    with pytest.raises(RuntimeError, match="async with"):
        await daemon.wait()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with pytest.raises(uamp.UampError) as caught:
            await uamp.dial(f"http://127.0.0.1:{closed.getsockname()[1]}", echo("a")).start()
    assert caught.value.code == "connection_failed"

"""The client, with servers that lose connections and servers that do not answer."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from support.ports import reserved_port
from uamp_peer import Peer
from uamp_support import served, under_uvicorn

from turntree import agent, uamp
from turntree.upp import scripted


async def say_hello(peer: Peer, _: str) -> None:
    await peer.send("response.created", response_id="r1")
    await peer.delta("hel")
    await peer.delta("lo")
    await peer.done("hello")


async def test_a_response_is_a_stream_of_events() -> None:
    peer = Peer(say_hello)
    async with under_uvicorn(peer) as url, uamp.connect(url, "secret") as client:
        session = await client.session("helper")
        assert (session.id, session.agent) == ("s1", "helper")
        events = [event async for event in session.run("hi", instructions="Be short.")]

    assert [event.type for event in events] == ["response.created", "response.delta", "response.delta", "response.done"]
    assert "".join(event.text for event in events) == "hello"
    assert peer.headers["authorization"] == "Bearer secret"
    assert peer.paths == ["/uamp"]
    create, text, asked = peer.received
    assert (create["token"], create["agent"], create["uamp_version"]) == ("secret", "helper", "1.0")
    assert (text["type"], text["text"], text["session_id"]) == ("input.text", "hi", "s1")
    assert asked["response"] == {"instructions": "Be short."}


async def test_a_response_can_be_awaited_for_its_text() -> None:
    async with under_uvicorn(Peer(say_hello)) as url, uamp.connect(f"{url}/agents/helper/uamp") as client:
        session = await client.session()
        assert await session.run("hi").text() == "hello"
        assert (await session.run("again"))["status"] == "completed"


async def test_a_lost_connection_loses_and_repeats_nothing() -> None:
    async def answer(peer: Peer, _: str) -> None:
        await peer.send("response.created", response_id="r1")
        await peer.delta("one ")
        await peer.delta("two ", keep=True)
        await peer.done("one two ", keep=True)
        await peer.lose()

    peer = Peer(answer)
    async with under_uvicorn(peer) as url, uamp.connect(url) as client:
        session = await client.session()
        events = [event async for event in session.run("hi")]

    assert [event["seq"] for event in events] == [1, 2, 3, 4]
    assert "".join(event.text for event in events) == "one two "
    assert len(peer.paths) == 2


async def test_a_request_that_was_lost_is_sent_again_with_its_id() -> None:
    asked: list[str] = []

    async def answer(peer: Peer, event_id: str) -> None:
        asked.append(event_id)
        if len(asked) == 1:
            await peer.lose()
        else:
            await say_hello(peer, event_id)

    async with under_uvicorn(Peer(answer)) as url, uamp.connect(url) as client:
        session = await client.session()
        assert await session.run("hi").text() == "hello"

    assert len(asked) == 2
    assert asked[0] == asked[1]


async def test_a_response_that_the_server_has_lost_is_an_error() -> None:
    async def answer(peer: Peer, _: str) -> None:
        await peer.send("response.created", response_id="r1")
        peer.loses_history = True
        await peer.lose()

    peer = Peer(answer)
    async with under_uvicorn(peer) as url, uamp.connect(url) as client:
        session = await client.session()
        with pytest.raises(uamp.UampError, match="lost the response") as caught:
            await session.run("hi")
        assert caught.value.code == "session_lost"
        peer.answer = say_hello
        assert await session.run("again").text() == "hello"


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_tools_run_in_the_client(kind: str) -> None:
    async def look_up(city: str) -> dict[str, str]:
        """Look up a city."""
        await asyncio.sleep(0)
        return {"city": city, "weather": "sunny"}

    def look_up_sync(city: str) -> dict[str, str]:
        """Look up a city."""
        return {"city": city, "weather": "sunny"}

    async def answer(peer: Peer, _: str) -> None:
        await peer.send("response.created", response_id="r1")
        name = "look_up" if kind == "async" else "look_up_sync"
        await peer.send("tool.call", call_id="c1", name=name, arguments='{"city": "Rome"}', response_id="r1")
        await peer.send("tool.call", call_id="c2", name="missing", arguments="{}", response_id="r1")
        await peer.send("tool.call", call_id="c3", name=name, arguments="not JSON", response_id="r1")

    class Answering(Peer):
        async def _on(self, event: dict[str, Any]) -> None:
            await super()._on(event)
            if (
                len([one for one in self.received if one["type"] == "tool.result"]) == 3
                and event["type"] == "tool.result"
            ):
                await self.done("thanks")

    peer = Answering(answer)
    async with under_uvicorn(peer) as url, uamp.connect(url) as client:
        session = await client.session()
        assert await session.run("hi", tools=[look_up if kind == "async" else look_up_sync]).text() == "thanks"

    results = {event["call_id"]: event for event in peer.received if event["type"] == "tool.result"}
    assert results["c1"]["result"] == '{"city":"Rome","weather":"sunny"}'
    assert "is_error" not in results["c1"]
    assert results["c2"]["is_error"] is True
    assert "no tool 'missing'" in results["c2"]["result"]
    assert results["c3"]["is_error"] is True
    (asked,) = [event for event in peer.received if event["type"] == "response.create"]
    assert asked["response"]["tools"][0]["function"]["parameters"]["properties"]["city"] == {"type": "string"}


async def endless(peer: Peer, _: str) -> None:
    await peer.send("response.created", response_id="r1")


async def test_a_response_is_cancelled_and_its_events_end() -> None:
    async with under_uvicorn(Peer(endless)) as url, uamp.connect(url) as client:
        session = await client.session()
        events: list[str] = []
        async for event in session.run("hi"):
            events.append(event.type)
            if len(events) == 1:
                await session.cancel()
    assert events == ["response.created", "response.cancelled"]


async def test_leaving_the_loop_cancels_the_response_and_frees_the_session() -> None:
    peer = Peer(endless)
    async with under_uvicorn(peer) as url, uamp.connect(url) as client:
        session = await client.session()
        response = session.run("hi")
        async for _ in response:
            break
        peer.answer = say_hello
        assert await session.run("again").text() == "hello"
    assert [event["type"] for event in peer.received].count("response.cancel") == 1


async def test_a_session_has_one_response_at_a_time() -> None:
    async with under_uvicorn(Peer(endless)) as url, uamp.connect(url) as client:
        session = await client.session()
        first = session.run("hi")
        await first.__anext__()
        with pytest.raises(uamp.UampError) as caught:
            await session.run("again")
        assert caught.value.code == "response_in_progress"


async def test_an_error_of_the_server_is_an_exception_with_its_code() -> None:
    async def answer(peer: Peer, event_id: str) -> None:
        error = {"code": "rate_limit_exceeded", "message": "too fast", "details": {"retry_after": 3}}
        await peer.send("response.error", reply_to=event_id, error=error)

    async with under_uvicorn(Peer(answer)) as url, uamp.connect(url) as client:
        session = await client.session()
        with pytest.raises(uamp.UampError, match="too fast") as caught:
            await session.run("hi")
    assert (caught.value.code, caught.value.details) == ("rate_limit_exceeded", {"retry_after": 3})


async def test_a_server_that_does_not_come_back_ends_the_response() -> None:
    with reserved_port() as port:
        async with under_uvicorn(Peer(endless), port=port) as url:
            client = uamp.connect(url, reconnect_for=0.3)
            await client.start()
            session = await client.session()
            response = session.run("hi")
            await response.__anext__()
        with pytest.raises(uamp.UampError) as caught:
            await response
        assert caught.value.code == "connection_failed"
        with pytest.raises(uamp.UampError, match="the session has ended"):
            await session.run("again")
        await client.aclose()


async def test_a_client_that_connects_again_can_be_closed_and_its_responses_end_with_an_error() -> None:
    with reserved_port() as port:
        async with under_uvicorn(Peer(endless), port=port) as url:
            client = uamp.connect(url, reconnect_for=3600)
            await client.start()
            session = await client.session()
            response = session.run("hi")
            await response.__anext__()
        waiting = asyncio.create_task(client.session())
        await asyncio.sleep(0)
        await client.aclose()
        for unanswered in (response, waiting, session.run("again"), client.session()):
            with pytest.raises(uamp.UampError, match="the session has ended") as caught:
                await unanswered
            assert caught.value.code == "session_closed"


async def test_a_url_that_is_not_one_is_refused() -> None:
    for url in ("", "example.com", "ftp://example.com", "http://"):
        with pytest.raises(ValueError, match="not the URL of a server"):
            await uamp.connect(url).start()


async def test_a_server_that_cannot_be_reached_is_an_error() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(uamp.UampError) as caught:
            await uamp.connect(url).start()
    assert caught.value.code == "connection_failed"


async def test_a_server_that_refuses_the_token_is_an_error() -> None:
    def nobody(token: str) -> None:
        assert token == "wrong"

    async with served("native", agent(name="helper", model=scripted([])), auth=nobody) as url:
        with pytest.raises(uamp.UampError):
            async with uamp.connect(url, token="wrong") as client:
                await client.session()


async def test_wrong_arguments_are_errors() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        await uamp.connect("http://127.0.0.1:1").session()
    async with under_uvicorn(Peer(say_hello)) as url, uamp.connect(url) as client:
        session = await client.session()
        wrong: Any = 3
        with pytest.raises(TypeError, match="text must be a str"):
            session.run(wrong)
        with pytest.raises(TypeError, match="tools must be functions"):
            session.run("hi", tools=[wrong])
        with pytest.raises(ValueError, match="reconnect_for"):
            await uamp.connect(url, reconnect_for=-1).start()


async def test_instructions_of_a_response_follow_a_system_prompt_made_by_a_function() -> None:
    model = scripted(["hello"])
    helper = agent(model=model, name="bot", system=lambda context: f"Step {context.step}.")
    async with served("native", helper) as url, uamp.connect(url) as client:
        session = await client.session()
        assert await session.run("hi", instructions="Be short.").text() == "hello"

    assert [request.system for request in model.requests] == ["Step 1.\n\nBe short."]

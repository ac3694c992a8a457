"""The client for callers without an event loop."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from turntree import agent, uamp
from turntree.upp import ModelRequest, ToolCall, ToolResultMessage, scripted


def remembering(request: ModelRequest) -> str:
    return f"{len(request.messages)} messages"


def served(model: Any, **options: Any) -> Any:
    return uamp.serve_sync(agent(name="helper", model=model), **options)


def test_a_session_keeps_the_conversation_on_the_server() -> None:
    with served(scripted(remembering)) as server, uamp.connect_sync(server.url) as client:
        session = client.session("helper")
        assert session.agent == "helper"
        assert session.run("one").text() == "1 messages"
        events = list(session.run("two"))
        assert "".join(event.text for event in events) == "3 messages"
        assert events[-1].type == "response.done"
        assert session.run("three").result()["status"] == "completed"
        session.end()


def test_tools_run_in_threads_of_the_client() -> None:
    threads: list[int] = []

    def local_time() -> str:
        """Tell the time of the user."""
        threads.append(threading.get_ident())
        return "12:30"

    async def city() -> str:
        """Tell the city of the user."""
        return "Oulu"

    def broken() -> str:
        """Fail."""
        message = "no clock"
        raise ValueError(message)

    calls = [
        ToolCall(tool_call_id=f"c{index}", tool_name=name, arguments={})
        for index, name in enumerate(("local_time", "city", "broken"))
    ]
    model = scripted([calls, "done"])
    with served(model) as server, uamp.connect_sync(server.url) as client:
        assert client.session().run("hi", tools=[local_time, city, broken]).text() == "done"
    answered = model.requests[1].messages[-1]
    assert isinstance(answered, ToolResultMessage)
    assert [result.result for result in answered.results][:2] == ["12:30", "Oulu"]
    assert "no clock" in str(answered.results[2].result)
    assert threads != [threading.get_ident()]


def test_leaving_the_loop_cancels_the_response_and_frees_the_session() -> None:
    released = threading.Event()

    def wait() -> str:
        """Wait until the test ends."""
        released.wait(20)
        return "late"

    call = ToolCall(tool_call_id="c", tool_name="wait", arguments={})
    with served(scripted([call, "after"])) as server, uamp.connect_sync(server.url) as client:
        session = client.session()
        for event in session.run("hi", tools=[wait]):
            if event.type == "tool.call":
                break
        assert session.run("again").text() == "after"
        released.set()


def test_a_response_can_be_read_event_by_event_and_closed() -> None:
    with served(scripted(["one", "two"])) as server, uamp.connect_sync(server.url) as client:
        session = client.session()
        response = session.run("hi")
        assert next(response).type == "response.created"
        response.close()
        assert session.run("again").result()["status"] == "completed"


def test_errors_have_their_codes() -> None:
    with served(scripted(["hi"]), auth={"secret": "anna"}.get) as server:
        with uamp.connect_sync(server.url, "secret") as client:
            with pytest.raises(uamp.UampError) as caught:
                client.session("nobody")
            assert caught.value.code == "agent_not_found"
            assert client.session().run("hi").text() == "hi"
            with pytest.raises(TypeError, match="text must be a str"):
                client.session().run(3)  # type: ignore[arg-type]
        with pytest.raises(uamp.UampError) as caught, uamp.connect_sync(server.url, "wrong") as client:
            client.session()
        assert caught.value.code == "unauthorized"
    with pytest.raises(RuntimeError, match="`with`"):
        uamp.connect_sync("http://127.0.0.1:1").session()

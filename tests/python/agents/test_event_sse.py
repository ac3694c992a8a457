"""``AgentStream.sse``: the events of a run as server-sent events."""

import json
import logging

import pytest

from turntree import agent, session
from turntree.upp import Reply, ToolCall, scripted, tool


@tool(approval="ask")
async def pay(to: str) -> str:
    """Pay."""
    return to


async def frames(stream, **options):
    """The names and data of all frames."""
    text = b"".join([frame async for frame in stream.sse(**options)]).decode()
    found = []
    for block in text.removesuffix("\n\n").split("\n\n"):
        name, data = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


async def test_the_frames_are_the_events_and_the_turn():
    stream = agent(model=scripted(["One\n\ndata: two\u2028"])).stream("Hi")

    found = await frames(stream)

    pieces = [data["upp"]["delta"]["text"] for name, data in found if name == "text_delta"]
    assert "".join(pieces) == "One\n\ndata: two\u2028"
    assert found[0][0] == "step_start"
    assert found[-1] == ("turn", json.loads((await stream.turn).model_dump_json()))


async def test_calls_that_wait_are_the_last_frame():
    talk = session(agent(model=scripted([ToolCall("c1", "pay", {"to": "Ann"}), "Done."]), tools=[pay]))

    name, data = (await frames(talk.stream("Pay")))[-1]

    assert name == "approval"
    assert [(call["toolName"], call["arguments"]) for call in data["calls"]] == [("pay", {"to": "Ann"})]
    talk.approve(talk.pending[0])
    assert (await talk.resume()).text == "Done."


async def test_an_error_has_no_details_unless_the_application_gives_them(caplog):
    helper = agent(model=scripted(lambda _: RuntimeError("password=1234")))
    with caplog.at_level(logging.ERROR, "turntree.sse"):
        found = await frames(helper.stream("Hi"))

    assert found[-1] == ("error", {"message": "An error occurred."})
    assert "1234" in caplog.text
    caplog.clear()
    assert (await frames(helper.stream("Hi"), on_error=lambda error: type(error).__name__))[-1][0] == "error"
    assert caplog.text == ""


async def test_a_client_that_leaves_stops_the_run():
    talk = session(agent(model=scripted([Reply("word " * 10, pace=60), "Second."])))
    written = talk.stream("Hi").sse()
    assert (await written.__anext__()).startswith(b"event: step_start\n")
    await written.aclose()

    assert talk.is_unfinished
    assert (await talk.resume()).text == "Second."


@pytest.mark.parametrize("text", ["\x00\x1b[2J", "</script>"])
async def test_any_text_fits_into_a_frame(text):
    found = await frames(agent(model=scripted([text])).stream(text))

    assert found[-1][1]["messages"][-1]["content"][0]["text"] == text

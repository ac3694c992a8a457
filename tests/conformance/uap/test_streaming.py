"""UAP-1.0 §12, point by point. The number in a name is that of the point in our checklist."""

import asyncio

from turntree import agent, session
from turntree.upp import Reply, StreamEvent, Turn, llm, scripted, tool


def call(name, /, **arguments):
    return {"toolName": name, "arguments": arguments}


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def adder():
    return agent(model=scripted([[call("add", a=1, b=2)], "It is 3."]), tools=[add])


async def events_of(stream):
    return [event async for event in stream]


def comparable(event):
    data = event.model_dump()
    for name in ("timestamp", "duration"):
        data["delta"].pop(name, None)
    return data


def uap(events):
    return [event.uap for event in events if event.uap]


async def test_uap_67_upp_events_are_passed_on_unchanged():
    events = await events_of(adder().stream("1 + 2?"))

    passed_on = [event for event in events if event.source == "upp"]
    assert passed_on
    assert all(isinstance(event.upp, StreamEvent) and event.uap is None for event in passed_on)
    words = "".join(event.upp.delta["text"] for event in passed_on if event.upp.type == "text_delta")
    assert words == "It is 3."
    kinds = {event.upp.type for event in passed_on}
    assert {"message_start", "text_delta", "message_stop", "tool_execution_start", "tool_execution_end"} <= kinds

    # `llm()` without an agent gives the same events for the same script, except the times of the tool.
    script = [[{"toolCallId": "call_1", **call("add", a=1, b=2)}], "It is 3."]
    with_agent = await events_of(agent(model=scripted(script), tools=[add]).stream("1 + 2?"))
    alone = await events_of(llm(model=scripted(script), tools=[add]).stream("1 + 2?"))
    assert [comparable(event.upp) for event in with_agent if event.source == "upp"] == [
        comparable(event) for event in alone
    ]


async def test_uap_68_uap_events_have_their_source():
    events = await events_of(session(adder()).stream("1 + 2?"))

    kinds = [event.type for event in uap(events)]
    assert kinds == [
        "step_start",
        "action",
        "observation",
        "step_end",
        "checkpoint",
        "step_start",
        "step_end",
        "checkpoint",
    ]
    assert all(event.source == "uap" for event in events if event.uap)


async def test_uap_69_events_are_chronological():
    happened, announced = [], asyncio.Event()

    @tool
    async def noted(n: int) -> int:
        # The subscriber receives the start of the call before the call returns: a step does not buffer its events.
        async with asyncio.timeout(10):
            await announced.wait()
        happened.append("tool")
        return n

    stream = agent(model=scripted([[call("noted", n=1)], "done"]), tools=[noted]).stream("go")
    async for event in stream:
        kind = event.uap.type if event.uap else event.upp.type
        happened.append(kind)
        if kind == "tool_execution_start":
            announced.set()

    assert [what for what in happened if not what.endswith("_delta")] == [
        "step_start",
        "message_start",
        "message_stop",
        "action",
        "tool_execution_start",
        "tool",
        "tool_execution_end",
        "observation",
        "step_end",
        "step_start",
        "message_start",
        "message_stop",
        "step_end",
    ]
    # Deltas come between the start and the stop of their message.
    within = 0
    for what in happened:
        within += (what == "message_start") - (what == "message_stop")
        assert within == 1 if what.endswith("_delta") else within in (0, 1), happened


async def test_uap_70_turn_resolves_to_a_valid_turn():
    stream = adder().stream("1 + 2?")
    await events_of(stream)
    turn = await stream.turn

    assert type(turn) is Turn
    assert [message.type for message in turn.messages] == ["user", "assistant", "tool_result", "assistant"]
    assert turn.response.text == "It is 3."
    assert turn.cycles == 2


async def test_uap_70_turn_resolves_without_a_reader_of_events():
    turn = await adder().stream("1 + 2?").turn

    assert turn.response.text == "It is 3."


async def test_uap_71_abort_resolves_turn_with_the_partial_response():
    stream = agent(model=scripted([Reply("one two three four five", pace=0.02)])).stream("count")
    seen = ""
    async for event in stream:
        if event.upp and event.upp.type == "text_delta":
            seen += event.upp.delta["text"]
            stream.abort()
    turn = await stream.turn

    assert type(turn) is Turn
    assert turn.messages[0].text == "count"
    assert turn.response.text.startswith(seen)
    assert turn.response.metadata["uap"] == {"aborted": True}


async def test_uap_71_abort_cancels_running_tools():
    started, cancelled = asyncio.Event(), asyncio.Event()

    @tool
    async def forever() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    stream = agent(model=scripted([[call("forever")], "never"]), tools=[forever]).stream("go")

    async def stop():
        await started.wait()
        stream.abort()

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        group.create_task(stop())
        group.create_task(events_of(stream))
    turn = await stream.turn

    await asyncio.wait_for(cancelled.wait(), 10)
    assert [message.type for message in turn.messages][-2:] == ["tool_result", "assistant"]
    assert turn.messages[-2].results[0].is_error


async def test_uap_72_uap_events_carry_step_and_agent():
    one = adder()
    events = uap(await events_of(one.stream("1 + 2?")))

    assert [event.step for event in events] == [1, 1, 1, 1, 2, 2]
    assert {event.agent_id for event in events} == {one.id}
    assert all(isinstance(event.data, dict) for event in events)


async def test_uap_a54_data_of_events_has_the_keys_of_the_specification():
    events = uap(await events_of(session(adder()).stream("1 + 2?")))
    data = {event.type: event.data for event in events}

    assert data["step_start"]["stepNumber"] == 2
    assert data["step_end"]["stepNumber"] == 2
    assert {"inputTokens", "outputTokens"} <= set(data["step_end"]["usage"])
    assert [made["toolName"] for made in data["action"]["toolCalls"]] == ["add"]
    assert [result["result"] for result in data["observation"]["results"]] == [3]
    assert set(data["checkpoint"]) == {"checkpointId"}


async def test_uap_a55_step_usage_counts_only_that_step():
    stream = adder().stream("1 + 2?")
    ends = [event.data["usage"] for event in uap(await events_of(stream)) if event.type == "step_end"]
    turn = await stream.turn

    assert len(ends) == 2
    assert sum(usage["totalTokens"] for usage in ends) == turn.usage.total_tokens


async def test_uap_a57_abort_before_the_start_gives_an_empty_turn():
    model = scripted(["never"])
    stream = agent(model=model).stream("go")
    stream.abort()
    turn = await stream.turn

    assert [message.text for message in turn.messages] == ["go", ""]
    assert list(model.requests) == []

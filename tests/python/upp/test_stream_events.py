"""Events of streams have a class for each type, for `match` and `isinstance`."""

import copy
import json
import pickle

import pytest

from turntree import agent, session
from turntree.tools import ToolContext, tool
from turntree.upp import (
    ContentBlockStart,
    ImageDelta,
    MessageStart,
    ObjectDelta,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolExecutionEnd,
    ToolExecutionProgress,
    ToolExecutionStart,
    llm,
    scripted,
)


@tool
def weather(city: str, context: ToolContext) -> str:
    """Return the weather."""
    context.report({"asked": city})
    return f"Rain in {city}"


def described(event: StreamEvent) -> str:
    match event:
        case TextDelta(text) | ReasoningDelta(text) | ObjectDelta(text):
            return f"text {text}"
        case ToolCallDelta(_, name, arguments):
            return f"call {name} {arguments}"
        case ToolExecutionStart(tool_name=name):
            return f"start {name}"
        case ToolExecutionProgress(progress=report):
            return f"progress {report}"
        case ToolExecutionEnd(result=result, is_error=False):
            return f"end {result}"
        case _:
            return event.type


async def test_match_reads_the_events_of_a_run():
    model = scripted([ToolCall("c", "weather", {"city": "Rome"}), "Wet."])

    stream = agent(model=model, tools=[weather]).stream("Weather?")
    seen = [described(event.upp) async for event in stream if event.upp]

    # A scripted model sends texts and arguments in pieces.
    calls = [line.removeprefix("call weather ") for line in seen if line.startswith("call ")]
    assert "".join(calls) == '{"city":"Rome"}'
    assert "".join(line.removeprefix("text ") for line in seen if line.startswith("text ")) == "Wet."
    assert [line for line in seen if line.startswith(("start ", "progress ", "end "))] == [
        "start weather",
        "progress {'asked': 'Rome'}",
        "end Rain in Rome",
    ]


async def test_events_of_a_model_have_the_class_of_their_type():
    stream = llm(model=scripted(["Hi"])).stream("Hello")

    events = [event async for event in stream]

    assert all(isinstance(event, StreamEvent) for event in events)
    assert {type(event) for event in events if event.type == "text_delta"} == {TextDelta}
    assert any(type(event) is MessageStart for event in events)


@pytest.mark.parametrize(
    ("kind", "delta", "cls"),
    [
        ("text_delta", {"text": "x"}, TextDelta),
        ("image_delta", {"data": "eHg="}, ImageDelta),
        ("content_block_start", {}, ContentBlockStart),
        (
            "tool_execution_progress",
            {"toolCallId": "c", "toolName": "t", "progress": 1, "timestamp": 2},
            ToolExecutionProgress,
        ),
        ("vendor_ping", {"a": 1}, StreamEvent),
    ],
)
def test_all_ways_to_create_an_event_choose_the_class(kind, delta, cls):
    plain = {"type": kind, "index": 3, "delta": delta}

    event = StreamEvent.model_validate(plain)

    assert type(event) is cls
    assert type(StreamEvent(kind, 3, event.delta)) is cls
    assert type(StreamEvent.from_json(json.dumps(plain))) is cls
    assert type(pickle.loads(pickle.dumps(event))) is cls
    assert (event.type, event.index) == (kind, 3)


def test_an_event_is_made_from_its_index_and_delta():
    event = TextDelta(1, {"text": "hi"})

    assert (event.type, event.index, event.text) == ("text_delta", 1, "hi")
    assert event == StreamEvent("text_delta", 1, {"text": "hi"})
    assert repr(event).startswith("TextDelta(")


def test_a_class_refuses_events_of_other_types():
    with pytest.raises(ValueError, match="text_delta"):
        TextDelta.model_validate({"type": "reasoning_delta", "index": 0, "delta": {"text": "x"}})


async def test_every_event_of_a_run_dumps_to_json():
    helper = agent(model=scripted(["Helped."]), name="helper").to_tool(name="helper", description="Helps.")
    calls = [ToolCall("c", "weather", {"city": "Rome"}), ToolCall("d", "helper", {"input": "x"})]
    runner = session(agent(model=scripted([calls, "Done."]), tools=[weather, helper]))

    count = 0
    async for event in runner.stream("Go"):
        plain = event.model_dump(mode="json")
        count += 1
        assert json.loads(event.model_dump_json(indent=2)) == plain == event.to_dict() == json.loads(event.to_json())
        inner = event.uap or event.upp
        assert inner is not None
        assert plain[event.source] == json.loads(inner.model_dump_json()) == inner.model_dump(mode="json")
        assert plain[event.source]["type"] == inner.type

    assert count > 10


async def test_every_event_of_a_run_is_read_from_json_pickled_and_copied():
    helper = agent(model=scripted([ToolCall("e", "weather", {"city": "Oslo"}), "Helped."]), tools=[weather])
    calls = [ToolCall("c", "weather", {"city": "Rome"}), ToolCall("d", "helper", {"task": "x"})]
    tools = [weather, helper.to_tool(name="helper", description="Helps.")]
    runner = session(agent(model=scripted([calls, "Done."]), tools=tools))

    events = [event async for event in runner.stream("Go", sub_agent_events=True)]

    for event in events:
        assert type(event).model_validate(event.to_dict()) == event
        assert type(event).model_validate_json(event.to_json().encode()) == event
        assert pickle.loads(pickle.dumps(event)) == event == copy.deepcopy(event)
        for part in (event.uap, event.sub_agent):
            assert pickle.loads(pickle.dumps(part)) == part
    assert any(event.sub_agent for event in events)
    with pytest.raises(ValueError, match='"type" is missing'):
        type(events[0]).model_validate({"source": "uap", "uap": {}})


async def test_the_mode_of_a_dump_is_checked():
    events = [event async for event in agent(model=scripted(["Hi"])).stream("Hello")]

    with pytest.raises(ValueError, match='mode must be "python" or "json"'):
        events[0].model_dump(mode="yaml")

"""How much JSON is written from Python data: objects that share references grow exponentially when they are written."""

import asyncio
import dataclasses
import gc
import time

import pytest

from turntree import ValidationError, agent, session, upp
from turntree import thread_protocol as tp
from turntree.upp import scripted, tool

COPIES = (
    "an object that is in the data more than once is written each time, and its copies have more than 1000000 objects "
    "and lists"
)


def shared(levels, pair=lambda inner: {"a": inner, "b": inner}):
    """Data of a few objects: as JSON they have twice as many values for each level."""
    data = pair(1)
    for _ in range(levels):
        data = pair(data)
    return data


@dataclasses.dataclass
class Pair:
    a: object
    b: object


PAIRS = {
    "dict": lambda inner: {"a": inner, "b": inner},
    "list": lambda inner: [inner, inner],
    "tuple": lambda inner: (inner, inner),
    "dataclass": lambda inner: Pair(inner, inner),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_shared_references_are_refused_with_the_place_and_the_remedy(kind):
    with pytest.raises(ValidationError) as caught:
        upp.ToolCall("c", "t", {"city": "Oslo", "data": shared(100, PAIRS[kind])})

    assert str(caught.value).startswith("arguments/data/")
    assert str(caught.value).endswith(f": {COPIES}; give each object once, or refer to it by an id")
    (error,) = caught.value.errors()
    assert error["type"] == "limit_exceeded"
    assert error["loc"][0] == "data"


@pytest.mark.parametrize(
    "write",
    [
        lambda data: upp.ToolResult("c", data),
        lambda data: upp.UserMessage("x", metadata=data),
        lambda data: upp.UserMessage.model_validate({"type": "user", "metadata": data}),
        lambda data: upp.Thread.from_json({"messages": [], "metadata": data}),
        lambda data: upp.StreamEvent("object_delta", 0, {"delta": data}),
        lambda data: tp.Thread(metadata=data),
        lambda data: tp.Thread.model_validate({"metadata": data}),
        lambda data: tp.ToolReturnAction("look_up", data, tool_call_id="c"),
        lambda data: tp.from_ui_messages([{"id": "1", "role": "user", "parts": [], "metadata": data}]),
        lambda data: agent(model=scripted([]), params=data),
        lambda data: agent(model=scripted(["Hi"])).run_sync("x", metadata=data),
        lambda data: session(agent(model=scripted([])), metadata=data).to_json(),
    ],
)
def test_every_place_that_takes_data_has_the_limit(write):
    with pytest.raises(ValidationError, match=COPIES):
        write(shared(100))


def test_histories_of_pydantic_ai_have_the_limit():
    messages = pytest.importorskip("pydantic_ai.messages")
    history = [
        messages.ModelRequest(parts=[messages.UserPromptPart("Hi")]),
        messages.ModelResponse(parts=[messages.ToolCallPart("t", shared(100), "c")]),
    ]

    with pytest.raises(ValidationError, match=rf"^messages/1: {COPIES}"):
        tp.from_pydantic_ai(history)


def test_the_result_of_a_tool_that_is_too_large_is_an_error_for_the_model():
    @tool
    def look():
        """Look."""
        return shared(100)

    talk = agent(model=scripted([[upp.ToolCall("c", "look", {})], "Sorry"]), tools=[look])

    turn = asyncio.run(talk.run("Go"))

    assert turn.text == "Sorry"
    assert COPIES in str(turn.tool_executions[0].result)


def test_objects_that_are_shared_a_few_times_are_written_each_time():
    point = {"x": 1, "y": [2, 3]}

    call = upp.ToolCall("c", "t", {"points": [point] * 20_000, "same": shared(14)})

    assert call.arguments == {"points": [point] * 20_000, "same": shared(14)}


def test_many_copies_of_a_small_object_are_written():
    origin = (0, 0)

    assert len(upp.ToolResult("c", [origin] * 1_100_000).result) == 1_100_000


def test_objects_that_are_made_while_they_are_written_are_not_shared():
    class Rows:
        """A mapping that makes a new object for each of its keys."""

        def keys(self):
            return map(str, range(75_000))

        def __getitem__(self, key):
            return [[] for _ in range(8)]

    # 1 200 000 lists in lists, which would be copies if an address that is used again were the same object.
    call = upp.ToolCall("c", "t", {"one": Rows(), "two": Rows()})

    assert call.arguments["two"]["74999"] == [[]] * 8


def test_a_large_text_is_written():
    text = "x" * 50_000_000

    assert len(upp.ToolResult("c", {"text": text}).result["text"]) == 50_000_000


def test_more_values_than_a_part_of_a_document_may_have_are_refused():
    with pytest.raises(ValidationError, match=r"^result: has more than 4000000 values; split it$"):
        upp.ToolResult("c", [0] * 4_000_002)


def test_the_time_grows_with_the_size():
    def seconds(size):
        data = [{"name": str(index), "values": [index, 1.5, None]} for index in range(size)]
        best = float("inf")
        for _ in range(3):
            start = time.process_time()
            upp.ToolResult("c", data)
            best = min(best, time.process_time() - start)
        return best

    gc.collect()
    gc.disable()
    try:
        ratios = []
        for _ in range(3):
            ratios.append(seconds(80_000) / seconds(20_000))
            if min(ratios) < 5.5:
                break
    finally:
        gc.enable()
    assert min(ratios) < 5.5

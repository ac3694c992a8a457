"""The interface that all data classes share: one test for each guarantee, run for every class."""

import copy
import json
import pickle

import jsonschema
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import BaseModel, TypeAdapter
from pydantic import ValidationError as PydanticValidationError

import turntree
from turntree import thread_protocol, upp
from turntree._core import Data

TIME = "2024-01-15T10:30:00.000Z"


def _turn() -> upp.Turn:
    user = {"id": "u", "type": "user", "content": [], "timestamp": TIME}
    answer = {"id": "a", "type": "assistant", "content": [], "timestamp": TIME, "toolCalls": []}
    execution = {
        "toolName": "t",
        "toolCallId": "c",
        "arguments": {},
        "result": None,
        "isError": False,
        "duration": 3,
    }
    return upp.Turn.model_validate(
        {"messages": [user, answer], "toolExecutions": [execution], "cycles": 1, "data": {"x": [1]}}
    )


def _results() -> list[Data]:
    """Results of embedding and image models."""
    vector = {"vector": [0.5, -1.0], "dimensions": 2, "index": 0, "tokens": 3}
    embedded = upp.EmbeddingResult.model_validate({"embeddings": [vector], "usage": {"totalTokens": 3}})
    progress = {"embeddings": [vector], "completed": 1, "total": 2, "percent": 50.0}
    picture = {"image": upp.Image.from_bytes(b"\x89PNG", "image/png").to_dict(), "metadata": {"openai": {"seed": 1}}}
    drawn = upp.ImageResult.model_validate({"images": [picture], "usage": {"imagesGenerated": 1}})
    usage = drawn.usage
    assert usage is not None
    return [
        embedded,
        embedded.embeddings[0],
        embedded.usage,
        upp.EmbeddingProgress.model_validate(progress),
        drawn,
        drawn.images[0],
        usage,
        upp.ImageEvent.model_validate({"type": "complete", "image": picture, "index": 0}),
    ]


def _events() -> list[Data]:
    """An event of each class."""
    call = {"toolCallId": "c", "toolName": "t"}
    empty = (upp.MessageStart, upp.MessageStop, upp.ContentBlockStart, upp.ContentBlockStop)
    return [
        upp.StreamEvent("vendor_event", 0, {"x": 1}),
        *(cls(0, {"text": "x"}) for cls in (upp.TextDelta, upp.ReasoningDelta, upp.ObjectDelta)),
        *(cls(1, {"data": b"xx"}) for cls in (upp.ImageDelta, upp.AudioDelta, upp.VideoDelta)),
        upp.CodeExecutionDelta(1, {"code": "1 + 1", "output": "2"}),
        upp.ToolCallDelta(1, {**call, "argumentsJson": "{}"}),
        upp.ToolExecutionStart(0, {**call, "timestamp": 1}),
        upp.ToolExecutionProgress(0, {**call, "progress": 0.5, "timestamp": 2}),
        upp.ToolExecutionEnd(0, {**call, "result": None, "isError": False, "timestamp": 3}),
        *(cls(0, {}) for cls in empty),
    ]


def _agent_events() -> list[Data]:
    """Events of the agent layer: one of each type, and of a sub-agent."""
    call = {"toolCallId": "c", "toolName": "t", "arguments": {"noneInArguments": None}}
    usage = {
        "inputTokens": 1,
        "outputTokens": 2,
        "totalTokens": 3,
        "cacheReadTokens": 0,
        "cacheWriteTokens": 0,
        "cycles": [],
    }
    data: dict[str, dict[str, object]] = {
        "step_start": {"stepNumber": 1, "stepId": "s"},
        "step_end": {"stepNumber": 1, "usage": usage},
        "reasoning": {"text": "hm"},
        "action": {"toolCalls": [call]},
        "observation": {"results": [{"toolCallId": "c", "result": 1, "isError": False}]},
        "checkpoint": {"checkpointId": "p"},
        "newer": {"x": 1},
    }
    of_agent = [{"type": kind, "step": 1, "agentId": "a", "data": found} for kind, found in data.items()]
    run = {"agentId": "b", "turnId": "t", "toolName": "ask", "toolCallId": "c", "depth": 1}
    text = upp.TextDelta(0, {"text": "x"}).to_dict()
    return [
        *(turntree.UapEvent.model_validate(event) for event in of_agent),
        turntree.SubAgentRun.model_validate(run),
        turntree.AgentStreamEvent.model_validate({"source": "uap", "uap": of_agent[0]}),
        turntree.AgentStreamEvent.model_validate({"source": "upp", "upp": text, "subAgent": run}),
    ]


def samples() -> list[Data]:
    call = upp.ToolCall("c", "weather", {"city": "Tokyo", "big": 10**30})
    turn = _turn()
    return [
        upp.Text("hi"),
        upp.Reasoning("hm"),
        upp.Image.from_bytes(b"\x89PNG", "image/png"),
        upp.Image.from_url("https://example.org/x.jpg"),
        upp.Document.from_text("words", title="T"),
        upp.Audio(b"RIFF", "audio/wav", 1.5),
        upp.Video(b"....", "video/mp4", width=3),
        upp.Binary(b"\x00\xff", "application/zip", {"k": 1}),
        upp.CodeExecution("1 + 1", "2", language="python", is_error=False),
        upp.UserMessage("hi", id="u", metadata={"openai": {"x": 1}}, timestamp=TIME),
        upp.AssistantMessage(["a", upp.Text("b")], [call], id="a", timestamp=TIME),
        upp.ToolResultMessage([upp.ToolResult("c", {"ok": True})], id="r", timestamp=TIME),
        call,
        upp.ToolResult("c", None, is_error=True),
        turn.tool_executions[0],
        upp.TokenUsage(3, 4, cache_read_tokens=1),
        turn,
        *_events(),
        *_agent_events(),
        upp.Thread([upp.UserMessage("hi", id="u", timestamp=TIME)]),
        *_results(),
    ]


each = pytest.mark.parametrize("value", samples(), ids=lambda value: type(value).__name__)


def test_every_data_class_has_a_sample() -> None:
    classes = {
        value
        for value in [*vars(upp).values(), turntree.AgentStreamEvent, turntree.SubAgentRun, turntree.UapEvent]
        if isinstance(value, type) and issubclass(value, Data) and value is not upp.Message
    }
    assert classes - {upp.CycleUsage} == {type(value) for value in samples()}


@each
def test_values_are_equal_after_a_json_round_trip(value: Data) -> None:
    cls = type(value)

    assert cls.model_validate_json(value.model_dump_json()) == value
    assert cls.model_validate_json(value.model_dump_json(indent=2).encode()) == value
    assert cls.from_json(value.to_json()) == value
    assert cls.from_json(value.to_dict()) == value


@each
def test_dumps_validate_to_equal_values(value: Data) -> None:
    cls = type(value)

    assert cls.model_validate(value.model_dump()) == value
    assert cls.model_validate(value.model_dump(mode="json")) == value
    assert cls.model_validate(value) is value


@each
def test_json_mode_returns_plain_json_values(value: Data) -> None:
    assert value.model_dump(mode="json") == json.loads(value.model_dump_json())
    assert json.loads(value.model_dump_json(indent=4)) == value.to_dict()


@each
def test_copies_and_pickles_are_equal(value: Data) -> None:
    assert pickle.loads(pickle.dumps(value)) == value
    assert copy.copy(value) == value
    assert copy.deepcopy(value) == value


@each
def test_the_schema_is_valid_and_accepts_the_value(value: Data) -> None:
    schema = type(value).model_json_schema()

    jsonschema.Draft202012Validator.check_schema(schema)
    errors = jsonschema.Draft202012Validator(schema).iter_errors(value.model_dump(mode="json"))
    assert [error.message for error in errors] == []


@each
def test_the_classes_are_field_types_of_pydantic_models(value: Data) -> None:
    cls = type(value)
    model = TypeAdapter(list[cls])  # type: ignore[valid-type]

    assert model.validate_python([value]) == [value]
    assert model.validate_json(model.dump_json([value])) == [value]
    assert model.dump_python([value], mode="json") == [value.model_dump(mode="json")]
    jsonschema.Draft202012Validator.check_schema(model.json_schema())


@each
def test_reprs_are_short_and_safe(value: Data) -> None:
    assert repr(value).startswith(type(value).__name__ + "(")
    assert len(repr(value)) < 600
    assert "<script" not in upp.Text("<script>")._repr_html_()


def test_frozen_values_are_hashable_and_threads_are_not() -> None:
    one = upp.UserMessage("hi", id="u", metadata={"a": {"x": 1, "y": 2}}, timestamp=TIME)
    two = upp.UserMessage("hi", id="u", metadata={"a": {"y": 2, "x": 1}}, timestamp=TIME)

    assert one == two
    assert hash(one) == hash(two)
    assert one != upp.UserMessage("ho", id="u", timestamp=TIME)
    with pytest.raises(TypeError, match="unhashable"):
        hash(upp.Thread())


def test_equal_numbers_have_equal_hashes() -> None:
    one = upp.ToolCall("c", "t", {"x": 1, "y": [10**22]})
    other = upp.ToolCall("c", "t", {"y": [1e22], "x": 1.0})

    assert one == other
    assert hash(one) == hash(other)


def test_events_are_dumped_as_other_data() -> None:
    run = {"agentId": "b", "turnId": "t", "parentAgentId": None, "toolName": "ask", "toolCallId": "c", "depth": 1}
    image = {"type": "image_delta", "index": 0, "delta": {"data": "UklGRg=="}}
    event = turntree.AgentStreamEvent.model_validate({"source": "upp", "upp": image, "subAgent": run})

    dump = event.model_dump(by_alias=False, exclude_none=True)

    assert dump["sub_agent"]["agent_id"] == "b"
    assert "parent_agent_id" not in dump["sub_agent"]
    assert dump["upp"]["delta"]["data"] == b"RIFF"
    assert event.model_dump(mode="json")["upp"]["delta"]["data"] == "UklGRg=="
    assert json.loads(event.model_dump_json(by_alias=False))["sub_agent"]["tool_name"] == "ask"
    assert turntree.AgentStreamEvent.model_validate(dump) == event
    with pytest.raises(turntree.ValidationError, match="source"):
        turntree.AgentStreamEvent.model_validate({"source": "other"})


def test_model_dump_gives_python_names_and_types_on_request() -> None:
    message = upp.AssistantMessage("x", [upp.ToolCall("c", "t", {"keepMe": None})], timestamp=TIME)

    dump = message.model_dump(by_alias=False, exclude_none=True)

    assert dump["tool_calls"] == [{"tool_call_id": "c", "tool_name": "t", "arguments": {"keepMe": None}}]
    assert dump["timestamp"] == message.timestamp
    assert upp.Audio(b"RIFF", "audio/wav").model_dump()["data"] == b"RIFF"
    assert upp.Audio(b"RIFF", "audio/wav").model_dump(mode="json")["data"] == "UklGRg=="


def test_unknown_members_and_the_spelling_of_numbers_are_preserved() -> None:
    text = (
        '{"id":"m","type":"user","content":[{"type":"smell","rose":1.50}],"metadata":{"x":{"n":1e400}},'
        '"timestamp":"2024-01-15T10:30:00.000Z","future":[12345678901234567890123]}'
    )

    assert upp.UserMessage.model_validate_json(text).model_dump_json() == text


def test_validation_errors_contain_location_rule_and_input() -> None:
    with pytest.raises(turntree.ValidationError) as caught:
        upp.Thread.model_validate({"id": "t", "messages": [{"id": "m", "type": "user"}]})

    (error,) = caught.value.errors()
    assert error["loc"] == ("messages", 0)
    assert error["pointer"] == "/messages/0"
    assert '"content" is missing' in error["msg"]
    assert isinstance(caught.value, ValueError)
    assert pickle.loads(pickle.dumps(caught.value)).errors() == caught.value.errors()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b'{"id": "\xff"}', "invalid_utf8"),
        (b"{", "json_truncated"),
        (b"{]", "json_invalid"),
        (b"[" * 5000, "limit_exceeded"),
        (b"[]", "invalid"),
        (b"null", "invalid"),
    ],
)
def test_invalid_documents_raise_a_typed_validation_error(text: bytes, kind: str) -> None:
    with pytest.raises(turntree.ValidationError) as caught:
        upp.UserMessage.model_validate_json(text)

    assert caught.value.errors()[0]["type"] == kind


def test_non_json_values_are_refused_with_their_location() -> None:
    with pytest.raises(TypeError, match="arguments/deep/1: values of object have no JSON form"):
        upp.ToolCall("c", "t", {"deep": [1, object()]})
    with pytest.raises(turntree.ValidationError, match="not JSON; use None"):
        upp.ToolResult("c", float("nan"))
    with pytest.raises(ValueError, match="lone surrogate"):
        upp.ToolResult("c", "\ud800")
    nested: list[object] = []
    for _ in range(1000):
        nested = [nested]
    with pytest.raises(ValueError, match="nested deeper"):
        upp.ToolResult("c", nested)


@pytest.mark.parametrize(
    ("data", "pointer", "message"),
    [
        (object(), "", "values of object have no JSON form; give plain data"),
        ({"toolCallId": "c", "toolName": "t", "arguments": {"a": [1, len]}}, "/arguments/a/1", "values of builtin"),
        ({"toolCallId": "c", "toolName": "t", "arguments": {("a",): 1}}, "/arguments", "keys of a JSON object are str"),
        ({"toolCallId": "c", "toolName": "t", "arguments": {"a": float("inf")}}, "/arguments/a", "inf is not JSON"),
    ],
)
def test_data_that_json_does_not_have_is_invalid_like_other_data(data: object, pointer: str, message: str) -> None:
    read = [upp.ToolCall.model_validate]
    if isinstance(data, dict):
        read.append(upp.ToolCall.from_json)
    for function in read:
        with pytest.raises(turntree.ValidationError) as caught:
            function(data)

        (error,) = caught.value.errors()
        assert (error["pointer"], error["type"]) == (pointer, "invalid")
        assert error["msg"].startswith(message)
        assert error["loc"] == tuple(int(key) if key.isdigit() else key for key in pointer.split("/")[1:])


def test_data_that_is_nested_too_deeply_is_invalid() -> None:
    nested: list[object] = []
    for _ in range(1000):
        nested = [nested]

    with pytest.raises(turntree.ValidationError, match=r"^obj: nested deeper than \d+ levels; flatten it$") as caught:
        thread_protocol.Thread.model_validate({"metadata": nested})
    assert caught.value.errors()[0]["type"] == "limit_exceeded"


def test_such_data_in_a_model_of_pydantic_is_an_error_of_pydantic() -> None:
    class Holder(BaseModel):
        call: upp.ToolCall

    with pytest.raises(PydanticValidationError, match="have no JSON form"):
        Holder.model_validate({"call": {"toolCallId": "c", "toolName": "t", "arguments": {"a": object()}}})


def test_the_nesting_limit_is_equal_for_constructors_and_documents() -> None:
    def nested(levels: int) -> list[object]:
        return [nested(levels - 1)] if levels > 1 else []

    deepest = upp.ToolResult("c", nested(160))
    thread = upp.Thread([upp.ToolResultMessage([deepest], id="r", timestamp=TIME)])

    assert upp.Thread.from_json(thread.to_json()) == thread
    assert upp.Thread.from_json(thread.to_dict()) == thread
    with pytest.raises(ValueError, match="nested deeper than 160 levels"):
        upp.ToolResult("c", nested(161))
    with pytest.raises(ValueError, match="nested deeper than 160 levels"):
        upp.ToolResult("c", [deepest])


def test_pydantic_reports_turntree_errors_as_validation_errors() -> None:
    class Model(BaseModel):
        message: upp.UserMessage

    with pytest.raises(PydanticValidationError) as caught:
        Model.model_validate({"message": {"id": "m", "type": "user", "content": 3, "timestamp": TIME}})

    assert caught.value.errors()[0]["loc"] == ("message",)
    assert "/content" in caught.value.errors()[0]["msg"]


def test_fastapi_accepts_the_classes_as_bodies_and_responses() -> None:
    app = FastAPI()

    @app.post("/echo")
    async def echo(thread: upp.Thread) -> upp.Thread:
        return thread.user("more")

    client = TestClient(app)
    thread = upp.Thread([upp.UserMessage("hi")])

    answer = client.post("/echo", content=thread.to_json(), headers={"content-type": "application/json"})

    assert answer.status_code == 200
    assert [message["content"][0]["text"] for message in answer.json()["messages"]] == ["hi", "more"]
    assert client.post("/echo", json={"id": 1}).status_code == 422
    assert client.get("/openapi.json").status_code == 200

"""ThreadProtocol documents: the interface that all classes share, and the methods of threads."""

import copy
import json
import pickle
from datetime import datetime, timezone

import jsonschema
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import BaseModel, TypeAdapter
from pydantic import ValidationError as PydanticValidationError

import turntree
from turntree import thread_protocol as tp
from turntree._core import Data

TIME = "2025-01-15T10:00:00Z"
LATER = "2025-01-15T10:00:01.500000+05:30"
AGENT = "9f0b7a52-5b0c-4d0e-9a77-0f3f4a8a0001"


def agent() -> tp.AgentConfig:
    return tp.AgentConfig("Weather Assistant", agent_id=AGENT, created_at=TIME)


def actions() -> list[tp.Action]:
    at = {"timestamp": TIME}
    return [
        tp.UserMessageAction(
            [
                "Look:",
                tp.ImageContent(image_url="https://example.org/x.png"),
                {"type": "smell", "n": 1.50},
            ],
            attachments=[tp.Attachment("notes.txt", media_type="text/plain", data=b"\x00\xff")],
            **at,
        ),
        tp.ThinkingAction(
            "hm",
            agent_id=AGENT,
            signature="sig==",
            provider_name="anthropic",
            thinking_id="t1",
            usage=tp.ThinkingUsage(7),
            **at,
        ),
        tp.AssistantMessageAction("Sunny.", agent_id=AGENT, finish_reason="stop", usage=tp.Usage(3, 4, 7), **at),
        tp.ToolCallAction("weather", {"city": "Tokyo"}, agent_id=AGENT, tool_call_id="c1", **at),
        tp.ToolReturnAction("weather", {"big": 10**30}, tool_call_id="c1", **at),
        tp.SystemAction("system.tool_grant", {"tool_name": "weather"}, metadata={"app": {"k": 1}}, **at),
    ]


def thread() -> tp.Thread:
    return tp.Thread(
        thread_id="550e8400-e29b-41d4-a716-446655440000",
        title="Weather",
        agents=[agent()],
        actions=actions(),
        created_at=TIME,
        metadata={"app": {"x": 1}},
    )


def reports() -> list[Data]:
    """Results of bulk conversions."""
    issue = {"path": "x.jsonl", "line": 3, "pointer": "/0", "rule": "r", "message": "m", "severity": "error"}
    report = {"documents": 2, "failed": 1, "bytes_in": 30, "bytes_out": 40, "errors": [issue], "seconds": 0.5}
    return [tp.DocumentIssue.model_validate(issue), tp.Report.model_validate(report)]


def samples() -> list[Data]:
    other = {"action_type": "later", "timestamp": TIME, "sequence": 1, "news": [1.0]}
    return [
        *actions(),
        tp.OtherAction.model_validate(other),
        tp.Usage(1, 2),
        tp.ThinkingUsage(),
        tp.TextContent("hi"),
        tp.ImageContent(image_base64=b"\x89PNG\xff", media_type="image/png", name="x.png"),
        tp.FileContent(file_id="file-1", media_type="application/pdf"),
        tp.AudioContent(audio_base64="UklGRg==", media_type="audio/wav"),
        tp.VideoContent(video_url="https://example.org/x.mp4"),
        tp.Attachment("a", media_type="text/plain", url="https://example.org/a", size_bytes=3),
        agent(),
        thread(),
        *reports(),
        tp.Change.model_validate({"pointer": "/0/parts/1", "kind": "dropped", "message": "m"}),
        tp.Issue.model_validate({"rule": "r", "pointer": "/x", "message": "m", "severity": "error"}),
    ]


each = pytest.mark.parametrize("value", samples(), ids=lambda value: type(value).__name__)


def test_every_class_has_a_sample() -> None:
    classes = {
        value
        for value in vars(tp).values()
        if isinstance(value, type) and issubclass(value, Data) and value.__module__ == tp.__name__
    }

    assert classes == {type(value) for value in samples()}
    assert {cls.__name__ for cls in classes} < set(tp.__all__)


@each
def test_classes_are_exported_under_their_names(value: Data) -> None:
    cls = type(value)

    assert cls.__module__ == "turntree.thread_protocol"
    assert getattr(tp, cls.__name__) is cls


@each
def test_values_are_equal_after_a_json_round_trip(value: Data) -> None:
    cls = type(value)

    assert cls.model_validate_json(value.model_dump_json()) == value
    assert cls.model_validate_json(value.model_dump_json(indent=2).encode()) == value
    assert cls.model_validate_json(value.model_dump_json()).to_json() == value.to_json()
    assert cls.from_json(value.to_json()) == value
    assert cls.from_json(value.to_dict()) == value


@each
def test_dumps_validate_to_equal_values(value: Data) -> None:
    cls = type(value)

    assert cls.model_validate(value.model_dump()) == value
    assert cls.model_validate(value.model_dump(mode="json")) == value
    assert cls.model_validate(value.model_dump(exclude_none=True)) == value
    assert cls.model_validate(value) is value
    assert value.model_dump(mode="json") == json.loads(value.model_dump_json())


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
    model = TypeAdapter(list[type(value)])

    assert model.validate_python([value]) == [value]
    assert model.validate_json(model.dump_json([value])) == [value]
    jsonschema.Draft202012Validator.check_schema(model.json_schema())


@each
def test_reprs_are_short(value: Data) -> None:
    assert repr(value).startswith(type(value).__name__ + "(")
    assert len(repr(value)) < 600
    assert value._repr_html_()


@each
def test_frozen_values_are_hashable_and_threads_are_not(value: Data) -> None:
    if isinstance(value, tp.Thread):
        with pytest.raises(TypeError, match="unhashable"):
            hash(value)
        return
    assert hash(value) == hash(pickle.loads(pickle.dumps(value)))
    with pytest.raises(AttributeError):
        value.anything = 1  # type: ignore[attr-defined]


def test_the_action_union_selects_the_class() -> None:
    adapter = TypeAdapter(list[tp.Action])

    read = adapter.validate_json(adapter.dump_json(actions()))

    assert [type(action) for action in read] == [type(action) for action in actions()]
    assert read == actions()
    assert all(isinstance(action, tp.Action) for action in read)


def test_a_class_refuses_an_action_of_another_type() -> None:
    with pytest.raises(turntree.ValidationError, match='must be "user_message" here, not "thinking"'):
        tp.UserMessageAction.model_validate(actions()[1].to_dict())


def test_actions_have_the_documented_attributes() -> None:
    user, thought, said, call, returned, event = thread()

    assert [action.sequence for action in thread()] == [1, 2, 3, 4, 5, 6]
    assert (user.action_type, user.action_id, user.timestamp) == ("user_message", None, TIME)
    text, image, smell = user.content
    assert (text.text, image.image_url, image.media_type) == (
        "Look:",
        "https://example.org/x.png",
        None,
    )
    assert smell == {"type": "smell", "n": 1.5}
    assert user.attachments[0].data == "AP8="
    assert (thought.content, thought.signature, thought.provider_name) == (
        "hm",
        "sig==",
        "anthropic",
    )
    assert (thought.thinking_id, thought.usage.thinking_tokens) == ("t1", 7)
    assert (said.content, said.agent_id, said.finish_reason) == ("Sunny.", AGENT, "stop")
    assert (said.usage.input_tokens, said.usage.output_tokens, said.usage.total_tokens) == (3, 4, 7)
    assert (call.tool_name, call.tool_call_id, call.args) == ("weather", "c1", {"city": "Tokyo"})
    assert (returned.status, returned.content) == ("success", {"big": 10**30})
    assert (event.action_type, event.data) == ("system.tool_grant", {"tool_name": "weather"})
    assert event.metadata == {"app": {"k": 1}}
    assert thread().agents[AGENT].agent_identifier == "weather_assistant"
    assert thread().metadata == {"app": {"x": 1}}
    assert (thread().version, thread().title, thread().parent_thread_id) == (
        "1.0.0",
        "Weather",
        None,
    )
    assert (thread().created_at, thread().updated_at) == (TIME, TIME)


def test_timestamps_preserve_their_spelling() -> None:
    assert tp.UserMessageAction("x", timestamp=LATER).timestamp == LATER
    time = datetime(2025, 1, 15, 10, tzinfo=timezone.utc)
    assert tp.UserMessageAction("x", timestamp=time).timestamp == "2025-01-15T10:00:00.000Z"
    assert abs(datetime.now(timezone.utc).timestamp() - _seconds(tp.UserMessageAction("x").timestamp)) < 60


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def test_append_adds_actions_with_sequence_numbers() -> None:
    grown = tp.Thread(title="t", created_at=TIME)
    assert (len(grown), list(grown), grown.actions) == (0, [], [])

    given = tp.UserMessageAction("hi", timestamp=LATER)
    added = grown.append(given)
    grown.append({"action_type": "system.note", "data": 1})

    assert (given.sequence, added.sequence, grown[-1].sequence) == (0, 1, 2)
    assert grown[0] == added
    assert grown.updated_at == grown[1].timestamp != LATER
    assert [action.sequence for action in grown[:1]] == [1]
    assert grown.add_agent(agent()).agents == {AGENT: agent()}
    with pytest.raises(IndexError):
        grown[2]
    with pytest.raises(IndexError):
        grown[-3]
    with pytest.raises(TypeError, match="integers or slices"):
        grown["0"]  # type: ignore[call-overload]


def test_a_branch_shares_earlier_actions_and_grows_separately() -> None:
    trunk = thread()

    branch = trunk.branch("Other way")
    branch.append(tp.UserMessageAction("no"))

    assert (len(trunk), len(branch)) == (6, 7)
    assert branch.parent_thread_id == trunk.thread_id != branch.thread_id
    assert (branch.title, trunk.branch().title) == ("Other way", "Weather")
    assert branch.metadata["branch"] == {"parent_sequence": 6}
    assert branch[:6] == trunk.actions


def test_copies_of_a_thread_grow_separately() -> None:
    one = thread()
    two = copy.copy(one)
    two.append(tp.UserMessageAction("more"))

    assert (len(one), len(two)) == (6, 7)
    assert one != two


def test_a_valid_thread_has_no_issues() -> None:
    assert thread().validate() == []
    assert thread().check() is None


def test_issues_contain_rule_location_and_remedy() -> None:
    broken = tp.Thread(
        agents=[agent()],
        created_at=TIME,
        actions=[
            tp.ToolReturnAction("t", 1, tool_call_id="c9", timestamp=TIME, sequence=1),
            tp.AssistantMessageAction("x", agent_id="nobody", timestamp="yesterday", sequence=5),
            tp.UserMessageAction("x", timestamp="2020-01-01T00:00:00Z", sequence=6),
        ],
    )

    issues = broken.validate()

    found = [(issue.rule, issue.pointer, issue.severity) for issue in issues]
    assert found == [
        ("tool_call_id", "/actions/0/tool_call_id", "error"),
        ("sequence", "/actions/1/sequence", "error"),
        ("timestamp", "/actions/1/timestamp", "error"),
        ("agent_id", "/actions/1/agent_id", "error"),
        ("chronology", "/actions/2/timestamp", "warning"),
    ]
    assert all(issue.remedy for issue in issues)
    assert "add it to agents" in next(issue.message for issue in issues if issue.rule == "agent_id")
    with pytest.raises(turntree.ValidationError) as caught:
        broken.check()
    errors = caught.value.errors()
    assert {error["pointer"] for error in errors} == {issue.pointer for issue in issues if issue.severity == "error"}
    assert errors[0]["loc"] == ("actions", 0, "tool_call_id")
    assert isinstance(caught.value, ValueError)


def test_canonical_bytes_do_not_depend_on_member_order() -> None:
    document = thread().to_dict()
    turned = {key: document[key] for key in reversed(document)}

    assert tp.Thread.model_validate(turned).canonical_json() == thread().canonical_json()
    assert list(json.loads(thread().canonical_json())) == sorted(document)
    assert thread().canonical_json() != thread().branch().canonical_json()


def test_the_example_of_the_specification_is_valid(root) -> None:
    text = (root / "tests/data/thread_protocol/example.json").read_text("utf-8").strip()

    example = tp.Thread.model_validate_json(text)

    assert example.model_dump_json() == text
    assert example.validate() == []
    assert len(example) == 7


@pytest.mark.parametrize(
    ("text", "kind", "pointer"),
    [
        (b"", "json_truncated", ""),
        (b"[]", "invalid", ""),
        (b'{"version"', "json_truncated", ""),
        (b'{"version": "\xff"}', "invalid_utf8", ""),
        (b"[" * 5000, "limit_exceeded", ""),
    ],
)
def test_invalid_documents_raise_a_typed_validation_error(text: bytes, kind: str, pointer: str) -> None:
    with pytest.raises(turntree.ValidationError) as caught:
        tp.Thread.model_validate_json(text)

    (error,) = caught.value.errors()
    assert (error["type"], error["pointer"]) == (kind, pointer)


def test_invalid_members_are_reported_with_their_location() -> None:
    document = thread().to_dict()
    document["actions"][3]["tool_name"] = 5

    with pytest.raises(turntree.ValidationError) as caught:
        tp.Thread.model_validate(document)

    assert caught.value.errors()[0]["pointer"].startswith("/actions/3")


def test_wrong_arguments_are_named_in_the_error() -> None:
    with pytest.raises(TypeError, match=r"content must be a str or a list of content parts, not int"):
        tp.UserMessageAction(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"content\[1\] must be a content part, a str or a dict, not int"):
        tp.UserMessageAction(["x", 5])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"actions\[0\] must be an action or its dict, not str"):
        tp.Thread(actions=["x"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"agents must be a list, not int"):
        tp.Thread(agents=5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='must begin with "system."'):
        tp.SystemAction("note")
    with pytest.raises(TypeError, match="timestamp"):
        tp.UserMessageAction("x", timestamp=5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="base64 text or bytes, not int"):
        tp.ImageContent(image_base64=5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="action must be an action or its dict, not Usage"):
        tp.Thread().append(tp.Usage())  # type: ignore[arg-type]


def test_pydantic_reports_turntree_errors_as_validation_errors() -> None:
    class Model(BaseModel):
        thread: tp.Thread

    with pytest.raises(PydanticValidationError) as caught:
        Model.model_validate({"thread": {**thread().to_dict(), "title": 5}})

    assert caught.value.errors()[0]["loc"] == ("thread",)
    assert "title" in caught.value.errors()[0]["msg"]


def test_fastapi_accepts_the_classes_as_bodies_and_responses() -> None:
    app = FastAPI()

    @app.post("/branch")
    async def branch(thread: tp.Thread) -> tp.Thread:
        return thread.branch("b")

    client = TestClient(app)
    headers = {"content-type": "application/json"}

    answer = client.post("/branch", content=thread().to_json(), headers=headers)

    assert answer.status_code == 200
    assert answer.json()["parent_thread_id"] == thread().thread_id
    assert client.post("/branch", json={"version": 1}).status_code == 422
    assert client.get("/openapi.json").status_code == 200

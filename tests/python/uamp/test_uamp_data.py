"""Events of UAMP and their types as data classes."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import TypeAdapter
from uamp_support import served

import turntree
from turntree import agent, uamp
from turntree._core import Data
from turntree.upp import scripted

EXAMPLES = Path(__file__).resolve().parents[3] / "crates" / "turntree-uamp" / "tests" / "it" / "events"
EVENTS: dict[str, Any] = {"client": uamp.ClientEvent, "server": uamp.ServerEvent, "system": uamp.SystemEvent}


def samples() -> list[Any]:
    return [
        uamp.ClientEvent("input.text", text="hi", event_id="e1", future=[1.50]),
        uamp.ServerEvent("response.delta", response_id="r1", delta={"type": "text", "text": "hi"}, seq=4),
        uamp.ServerEvent("analyze.emotion", mood="good"),
        uamp.SystemEvent("system.stop", event_id="e2"),
        uamp.ContentItem("image", image={"url": "https://example.com/x.png"}, format="png"),
        uamp.ContentItem("html", html="<b>"),
        uamp.Message(role="user", content="hi", content_items=[{"type": "text", "text": "hi"}], name="ada"),
        uamp.SessionConfig(modalities=["text"], instructions="Be brief."),
        uamp.Capabilities(id="m", provider="p", modalities=["text"]),
        uamp.UsageStats(input_tokens=1, output_tokens=2, cost={"total_cost": 0.1, "currency": "USD"}),
    ]


def class_of(value: object) -> Any:
    """The class, for values of any class."""
    return type(value)


each = pytest.mark.parametrize("value", samples(), ids=lambda value: type(value).__name__)


def test_every_class_has_a_sample() -> None:
    classes = {value for value in vars(uamp).values() if isinstance(value, type) and issubclass(value, Data)}
    assert classes == {type(value) for value in samples()}
    assert {cls.__name__ for cls in classes} < set(uamp.__all__)
    assert {cls.__module__ for cls in classes} == {"turntree.uamp"}


@each
def test_values_are_equal_after_round_trips(value: Any) -> None:
    cls = class_of(value)
    assert cls.model_validate_json(value.model_dump_json()) == value
    assert cls.model_validate_json(value.model_dump_json()).to_json() == value.to_json()
    assert cls.model_validate(value.model_dump()) == value
    assert cls.from_json(value.to_dict()) == value
    assert pickle.loads(pickle.dumps(value)) == copy.deepcopy(value) == value
    assert hash(copy.copy(value)) == hash(value)
    assert repr(value).startswith(f"{cls.__name__}(")
    assert TypeAdapter(cls).validate_json(value.to_json()) == value


@each
def test_the_schema_is_valid_and_accepts_the_value(value: Any) -> None:
    cls = class_of(value)
    schema: dict[str, Any] = cls.model_json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    validator: Any = jsonschema.Draft202012Validator(schema)
    validator.validate(value.to_dict())


@pytest.mark.parametrize("side", EVENTS)
def test_every_event_of_the_protocol_is_read_and_its_members_are_attributes(side: str) -> None:
    cls, seen = EVENTS[side], set[str]()
    for line in (EXAMPLES / f"{side}.jsonl").read_text(encoding="utf-8").splitlines():
        event = cls.model_validate_json(line)
        assert json.loads(event.to_json()) == json.loads(line)
        for name, member in json.loads(line).items():
            assert getattr(event, name) == member
        seen.add(event.type)
    assert seen >= cls.TYPES
    assert len(uamp.ClientEvent.TYPES | uamp.ServerEvent.TYPES) - len({"message.read", "extension.message"}) >= 47


def test_a_member_that_is_missing_is_none_and_one_that_does_not_exist_is_an_error() -> None:
    event = uamp.ServerEvent("session.updated")
    assert (event.session_id, event.seq, event.timestamp) == (None, None, None)
    assert uamp.Capabilities(id="m", provider="p", modalities=[]).context_window is None
    assert uamp.Capabilities(id="m", provider="p", modalities=[]).supports_streaming is False
    for value in (event, uamp.UsageStats()):
        with pytest.raises(AttributeError, match='has no member "tokens"; model_dump shows those that it has'):
            assert value.tokens


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: uamp.ClientEvent("input.text"), '"text" is missing'),
        (lambda: uamp.ClientEvent.model_validate({"text": "hi"}), "type"),
        (lambda: uamp.ContentItem("image", image=5), "image"),
        (lambda: uamp.SessionConfig(modalities="text"), "modalities"),
        (lambda: uamp.ClientEvent.model_validate_json("[" * 5000), "nested"),
    ],
)
def test_a_wrong_value_is_refused_with_its_place(made: Any, words: str) -> None:
    with pytest.raises(turntree.ValidationError, match=words):
        made()


def test_a_message_without_a_role_names_it() -> None:
    with pytest.raises(TypeError, match=r"^Message\(\) needs role; write Message\(role=…\)$"):
        uamp.Message(content="hi")  # pyright: ignore[reportCallIssue]


def test_events_are_bodies_of_fastapi() -> None:
    app = FastAPI()

    @app.post("/")
    async def echo(event: uamp.ClientEvent) -> uamp.ServerEvent:
        return uamp.ServerEvent("pong", reply_to=event.event_id)

    client: Any = TestClient(app)
    with client:
        assert client.post("/", json={"type": "ping", "event_id": "e1"}).json() == {"type": "pong", "reply_to": "e1"}
        assert client.post("/", json={"type": "input.text"}).status_code == 422


async def test_events_of_a_response_are_events_of_servers() -> None:
    async with served("native", agent(name="helper", model=scripted(["hi"]))) as url, uamp.connect(url) as client:
        events = [uamp.ServerEvent.model_validate(event) async for event in (await client.session()).run("hello")]

    done = events[-1]
    assert (done.type, done.response["output"]) == ("response.done", [{"type": "text", "text": "hi"}])
    assert uamp.ContentItem.model_validate(done.response["output"][0]).text == "hi"
    assert uamp.UsageStats.model_validate(done.response["usage"]).output_tokens == 1

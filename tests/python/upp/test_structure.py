"""Structured answers: types and schemas, validation, repair, partial objects. UPP-1.2 §10.5 and UPP-1.3."""

import dataclasses
import json
import pickle
import subprocess
import sys
from typing import Literal

import pydantic
import pytest
from typing_extensions import TypedDict

from turntree import agent
from turntree.testing import RawReply, ToolCall
from turntree.upp import ErrorCode, Turn, UPPError, anthropic, google, llm, ollama, openai, scripted, tool, xai

TOKYO = '{"name": "Tokyo", "people": 14}'
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer", "minimum": 1}},
    "required": ["name", "people"],
}


class City(pydantic.BaseModel):
    name: str
    people: int = pydantic.Field(ge=1)

    @pydantic.field_validator("name")
    @classmethod
    def known(cls, name):
        if name == "Atlantis":
            raise ValueError("there is no such city")
        return name


@dataclasses.dataclass
class Place:
    name: str
    people: int


@dataclasses.dataclass
class Trip:
    places: list[Place]
    mode: Literal["train", "bus"] = "train"
    note: str | None = None


class CityDict(TypedDict):
    name: str
    people: int


class Node(pydantic.BaseModel):
    label: str
    children: list["Node"] = []


@tool
def look(city: str) -> str:
    """Look a city up."""
    return f"{city} has 14 people"


BOTH = [pytest.param(llm, "generate", id="llm"), pytest.param(agent, "run", id="agent")]


def asked(run, answers, make=llm, method="generate", **options):
    made = make(model=scripted(list(answers)), **options)
    return run(getattr(made, method)("Tokyo?")), made


def refused(run, answers, make=llm, method="generate", **options):
    with pytest.raises(UPPError) as caught:
        asked(run, answers, make, method, **options)
    assert caught.value.code is ErrorCode.INVALID_RESPONSE
    return caught.value


@pytest.mark.parametrize(("make", "method"), BOTH)
@pytest.mark.parametrize(
    ("structure", "answer", "expected"),
    [
        (SCHEMA, TOKYO, {"name": "Tokyo", "people": 14}),
        (City, TOKYO, City(name="Tokyo", people=14)),
        (Place, TOKYO, Place("Tokyo", 14)),
        (Trip, f'{{"places": [{TOKYO}], "note": null}}', Trip([Place("Tokyo", 14)])),
        (CityDict, TOKYO, {"name": "Tokyo", "people": 14}),
        (list[Place], f'{{"value": [{TOKYO}]}}', [Place("Tokyo", 14)]),
        (list[int], '{"value": [1, 2]}', [1, 2]),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (Literal["yes", "no"], '{"value": "no"}', "no"),
        (City | Literal["none"], f'{{"value": {TOKYO}}}', City(name="Tokyo", people=14)),
        (int, '{"value": 42}', 42),
        (int | None, '{"value": null}', None),
        (Node, '{"label": "a", "children": [{"label": "b"}]}', Node(label="a", children=[Node(label="b")])),
        ({"type": "array", "items": {"type": "integer"}}, '{"value": [1]}', [1]),
    ],
    ids=str,
)
def test_turn_data_has_the_requested_type(run, make, method, structure, answer, expected):
    turn, made = asked(run, [answer], make, method, structure=structure)

    assert turn.data == expected
    assert type(turn.data) is type(expected)
    sent = made.model.requests[0].structure
    assert sent["type"] == "object"


def test_turn_with_typed_data_supports_all_turn_methods(run):
    turn, _ = asked(run, [TOKYO], structure=City)

    plain = {"name": "Tokyo", "people": 14}
    restored = pickle.loads(pickle.dumps(turn))
    assert isinstance(turn.data, City)
    assert turn.data is turn.data
    assert restored == turn == Turn.model_validate_json(turn.to_json())
    assert restored.data == json.loads(turn.to_json())["data"] == turn.model_dump()["data"] == plain
    assert hash(restored) == hash(turn)


def test_hooks_and_streams_provide_typed_data(run):
    completed = []
    options = {"structure": Place, "strategy": {"on_complete": lambda turn: completed.append(turn.data)}}

    async def main():
        stream = agent(model=scripted([TOKYO]), **options).stream("Go")
        return (await stream.turn).data, (await llm(model=scripted([TOKYO]), structure=Place).stream("Go")).data

    assert run(main()) == (Place("Tokyo", 14), Place("Tokyo", 14))
    assert completed == [Place("Tokyo", 14)]
    assert llm(model=scripted([TOKYO]), structure=City).generate_sync("Go").data == City(name="Tokyo", people=14)


@pytest.mark.parametrize(("make", "method"), BOTH)
@pytest.mark.parametrize(
    ("structure", "answer", "words"),
    [
        (SCHEMA, "I do not know.", "the answer: it is not JSON (json)"),
        (SCHEMA, "", "the answer: it is not JSON (json)"),
        (SCHEMA, '{"name": "Tokyo", "people": 0}', "/people: "),
        (SCHEMA, '{"name": "Tokyo"}', "(required)"),
        (City, '{"name": "Tokyo", "people": "many"}', "/people: "),
        (City, '{"name": "Atlantis", "people": 1}', "/name: Value error, there is no such city (value_error)"),
        (Trip, '{"places": [{"name": 1, "people": 2}]}', "/places/0/name: "),
        (list[int], '{"value": ["x"]}', "/value/0: "),
        (list[int], "[1]", "(type)"),
    ],
    ids=str,
)
def test_answer_that_violates_the_schema_is_rejected(run, make, method, structure, answer, words):
    error = refused(run, [answer], make, method, structure=structure)

    assert error.message.startswith("the answer does not fit the structure: ")
    assert words in error.message
    assert "allow a repair with structure_repair=True" in error.message
    assert error.partial.response.text == answer
    assert error.partial.usage.input_tokens > 0


@pytest.mark.parametrize(("make", "method"), BOTH)
@pytest.mark.parametrize("wrong", ["no", '{"name": "Tokyo", "people": 0}', '{"name": "Atlantis", "people": 1}'])
def test_invalid_answer_is_repaired_once_if_allowed(run, make, method, wrong):
    turn, made = asked(run, [wrong, TOKYO], make, method, structure=City, structure_repair=True)
    error = refused(run, [wrong, wrong, TOKYO], make, method, structure=City, structure_repair=True)

    assert turn.data == City(name="Tokyo", people=14)
    assert (turn.cycles, len(turn.usage.cycles), len(made.model.requests)) == (2, 2, 2)
    told = turn.messages[2]
    assert told.type == "user"
    assert told.metadata == {"turntree": {"structureRepair": True}}
    assert made.model.requests[1].structure == made.model.requests[0].structure
    assert error.partial.cycles == 2


def test_repair_can_use_tools(run):
    script = ["no", [{"toolName": "look", "arguments": {"city": "Tokyo"}}], TOKYO]

    turn, _ = asked(run, script, structure=City, structure_repair=True, tools=[look])

    assert turn.data == City(name="Tokyo", people=14)
    assert (turn.cycles, len(turn.tool_executions)) == (3, 1)


def test_turn_that_ends_with_open_tool_calls_has_no_data(run):
    script = [[{"toolName": "look", "arguments": {"city": "Tokyo"}}]]

    turn, _ = asked(run, script, structure=City, tools=[look], tool_strategy={"max_iterations": 0})

    assert turn.response.has_tool_calls
    assert turn.data is None


def test_model_refusal_gives_a_turn_without_data(run, loopback):
    refusal = {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt",
        "choices": [
            {"index": 0, "finish_reason": "content_filter", "message": {"role": "assistant", "content": "No."}}
        ],
    }
    server = loopback([RawReply(json.dumps(refusal))])
    model = openai("gpt", "completions", base_url=server.base_url, api_key="key")

    turn = run(llm(model=model, structure=City).generate("Go"))

    assert (turn.data, turn.response.text) == (None, "No.")


def test_invalid_schema_is_rejected_before_a_request(run):
    made = llm(model=scripted([TOKYO]), structure={"type": "objekt"})

    with pytest.raises(UPPError, match="structure: .*objekt") as caught:
        run(made.generate("Go"))
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert made.model.requests == []
    with pytest.raises(TypeError, match="structure must be a JSON Schema or a type"):
        llm(model=scripted([]), structure=42)


def chat(server):
    return openai("gpt", "completions", base_url=server.base_url, api_key="key")


def responses(server):
    return openai("gpt", base_url=server.base_url, api_key="key")


def messages(server):
    return anthropic("claude", base_url=server.base_url, api_key="key")


def xai_messages(server):
    return xai("grok", "messages", base_url=server.base_url, api_key="key")


def gemini_2(server):
    return google("gemini-2.5-flash", base_url=server.base_url, api_key="key")


def gemini_3(server):
    return google("gemini-3-pro", base_url=server.base_url, api_key="key")


def local(server):
    return ollama("llama3.2", base_url=server.url)


# These models get the schema as a tool: they lack native support, or lack it together with other tools.
BY_TOOL = (messages, xai_messages, gemini_2)


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("make", [chat, responses, messages, xai_messages, gemini_2, gemini_3, local])
def test_structured_answer_follows_the_tool_calls(run, loopback, make, is_streamed):
    def reply(request):
        assert ("json_response" in json.dumps(request.json.get("tools"))) == (make in BY_TOOL)
        if not request.tool_results:
            return [ToolCall("look", {"city": "Tokyo"})]
        return [ToolCall("json_response", json.loads(TOKYO))] if make in BY_TOOL else TOKYO

    server = loopback(reply)
    params = {"max_tokens": 50} if make in (messages, xai_messages) else {}
    made = llm(model=make(server), params=params, tools=[look], structure=City)

    async def main():
        if not is_streamed:
            return await made.generate("Tokyo?")
        stream = made.stream("Tokyo?")
        seen = [stream.partial async for event in stream if event.type == "object_delta"]
        assert seen[-1] == {"name": "Tokyo", "people": 14}
        return await stream.turn

    turn = run(main())

    assert turn.data == City(name="Tokyo", people=14)
    assert [message.type for message in turn.messages] == ["user", "assistant", "tool_result", "assistant"]
    assert not turn.response.has_tool_calls
    assert json.loads(turn.response.text) == json.loads(TOKYO)
    assert [record.tool_name for record in turn.tool_executions] == ["look"]


@pytest.mark.parametrize("structure", [City, list[Place]], ids=["object", "wrapped"])
def test_stream_provides_partial_objects(run, structure):
    text = TOKYO if structure is City else f'{{"value": [{TOKYO}]}}'

    async def main():
        streams = [
            llm(model=scripted([text]), structure=structure).stream("Go"),
            agent(model=scripted([text]), structure=structure).stream("Go"),
        ]
        seen = []
        for stream in streams:
            assert stream.partial is None
            texts, objects = [], []
            steps = []
            async for event in stream:
                event = getattr(event, "upp", event)
                if event is None:
                    continue
                if event.type == "text_delta":
                    texts.append((event.index, event.delta["text"]))
                if event.type == "object_delta":
                    objects.append((event.index, event.delta["text"]))
                    steps.append(stream.partial)
            assert texts == objects
            seen.append(steps)
        return seen

    first, second = run(main())

    whole = {"name": "Tokyo", "people": 14}
    assert first == second
    assert first[-1] == (whole if structure is City else [whole])
    names = [(step if structure is City else (step or [{}])[0]).get("name") for step in first if step]
    known = [name for name in names if name is not None]
    assert known
    assert all("Tokyo".startswith(name) for name in known)
    assert len(set(map(str, first))) > 2


def test_dataclasses_and_typed_dicts_need_no_pydantic():
    program = """
import sys
sys.modules["pydantic"] = None
import dataclasses, typing
from turntree.upp import UPPError, llm, scripted

@dataclasses.dataclass
class Place:
    name: str
    people: int

@dataclasses.dataclass
class Trip:
    places: list[Place]
    mode: typing.Literal["train", "bus"] = "train"

class City(typing.TypedDict):
    name: str

ask = lambda text, structure: llm(model=scripted([text]), structure=structure).generate_sync("Go").data
assert ask('{"places": [{"name": "Tokyo", "people": 14}]}', Trip) == Trip([Place("Tokyo", 14)])
assert ask('{"name": "Tokyo"}', City) == {"name": "Tokyo"}
assert ask('{"value": [{"name": "Tokyo", "people": 1}]}', list[Place]) == [Place("Tokyo", 1)]
try:
    ask('{"places": [{"name": "Tokyo", "people": "x"}]}', Trip)
except UPPError as error:
    assert "/places/0/people" in error.message, error
else:
    raise AssertionError
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr

"""Structured output as each vendor enforces it: types of applications against servers that check schemas."""

import dataclasses
import datetime
import decimal
import enum
import json
import uuid
from typing import Annotated, Any, Literal

import pydantic
import pytest
from typing_extensions import TypedDict

from turntree.testing import Reply, ToolCall, serve
from turntree.upp import ErrorCode, UPPError, anthropic, cerebras, groq, llm, mistral, openai, openrouter, tool, xai


class City(pydantic.BaseModel):
    name: str
    zip: str = "0000"


class Person(pydantic.BaseModel):
    name: Annotated[str, pydantic.Field(min_length=1, max_length=40)]
    home: City = pydantic.Field(description="Where the person lives.")
    email: str | None = None


class Card(pydantic.BaseModel):
    kind: Literal["card"]
    number: str


class Cash(pydantic.BaseModel):
    kind: Literal["cash"]
    tip: int = 0


class Order(pydantic.BaseModel):
    pay: Annotated[Card | Cash, pydantic.Field(discriminator="kind")]
    count: int = pydantic.Field(1, ge=1, le=9)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Car(pydantic.BaseModel):
    colour: Colour = Colour.RED
    built: datetime.date
    id: uuid.UUID
    price: decimal.Decimal


class Node(pydantic.BaseModel):
    label: str
    children: list["Node"] = []


@dataclasses.dataclass
class Place:
    name: str
    people: int = 14
    tags: list[str] = dataclasses.field(default_factory=list)


class Movie(TypedDict, total=False):
    title: str
    year: int


class Pair(pydantic.BaseModel):
    at: tuple[float, float]
    names: set[str] = set()


class Open(pydantic.BaseModel):
    labels: dict[str, int]


class Anything(pydantic.BaseModel):
    value: Any


CAR = {"colour": None, "built": "2026-01-02", "id": str(uuid.UUID(int=7)), "price": "1.50"}
SHAPES = [
    pytest.param(City, {"name": "Oslo", "zip": None}, City(name="Oslo"), id="a default"),
    pytest.param(
        Person,
        {"name": "Ada", "home": {"name": "Oslo", "zip": "1"}, "email": None},
        Person(name="Ada", home=City(name="Oslo", zip="1")),
        id="nested models",
    ),
    pytest.param(list[City], {"value": [{"name": "Oslo", "zip": None}]}, [City(name="Oslo")], id="a list of models"),
    pytest.param(City | None, {"value": None}, None, id="an optional model"),
    pytest.param(
        Order, {"pay": {"kind": "cash", "tip": None}, "count": None}, Order(pay=Cash(kind="cash")), id="a union"
    ),
    pytest.param(
        Card | Cash,
        {"value": {"kind": "card", "number": "1"}},
        Card(kind="card", number="1"),
        id="a union at the root",
    ),
    pytest.param(
        Car,
        CAR,
        Car(built=datetime.date(2026, 1, 2), id=uuid.UUID(int=7), price=decimal.Decimal("1.50")),
        id="dates and numbers",
    ),
    pytest.param(Place, {"name": "Oslo", "people": None, "tags": None}, Place("Oslo"), id="a dataclass"),
    pytest.param(Movie, {"title": "Alien", "year": None}, {"title": "Alien"}, id="a TypedDict"),
    pytest.param(
        Node,
        {"label": "a", "children": [{"label": "b", "children": None}]},
        Node(label="a", children=[Node(label="b")]),
        id="a recursive model",
    ),
    pytest.param(Pair, {"at": [1.0, 2.5], "names": None}, Pair(at=(1.0, 2.5)), id="a tuple and a set"),
    pytest.param(Literal["yes", "no"], {"value": "no"}, "no", id="a choice"),
    pytest.param(int, {"value": 3}, 3, id="a number"),
    pytest.param(Open, {"labels": {"a": 1}}, Open(labels={"a": 1}), id="a dict"),
    pytest.param(Anything, {"value": [1]}, Anything(value=[1]), id="any value"),
]

VENDORS = {
    "openai": lambda url: openai("gpt-5", base_url=url, api_key="key"),
    "openai chat": lambda url: openai("gpt-5", "completions", base_url=url, api_key="key"),
    "xai": lambda url: xai("grok-4", base_url=url, api_key="key"),
    "groq": lambda url: groq("openai/gpt-oss-120b", base_url=url, api_key="key"),
    "cerebras": lambda url: cerebras("gpt-oss-120b", base_url=url, api_key="key"),
    "mistral": lambda url: mistral("mistral-large-latest", base_url=url, api_key="key"),
    "openrouter": lambda url: openrouter("openai/gpt-5", base_url=url, api_key="key"),
    "anthropic": lambda url: anthropic("claude-sonnet-4-5", base_url=url, api_key="key"),
}


def enforced(request):
    """Whether the vendor enforces the schema of a request."""
    body = request.json
    form = body.get("text", {}).get("format") or body.get("response_format", {}).get("json_schema")
    return form["strict"] if form else "output_config" in body


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize(("structure", "answer", "expected"), SHAPES)
def test_vendors_accept_the_schema_and_defaults_are_filled_in(vendor, structure, answer, expected):
    def reply(request):
        if "tools" in request.json:
            from turntree.testing import ToolCall

            return ToolCall("json_response", without_nulls(answer))
        return json.dumps(without_nulls(answer) if vendor == "anthropic" else answer)

    with serve(reply, strict=True) as server:
        model = llm(model=VENDORS[vendor](server.base_url), params={"max_tokens": 50}, structure=structure)
        turn = model.generate_sync("Go")

    assert turn.data == expected
    cannot = (Open, Anything) if vendor != "anthropic" else (Open, Anything, Node)
    assert enforced(server.requests[0]) is (structure not in cannot)


def without_nulls(answer):
    """The answer of a vendor that allows members to be left out."""
    if isinstance(answer, list):
        return [without_nulls(item) for item in answer]
    if not isinstance(answer, dict):
        return answer
    return {name: without_nulls(item) for name, item in answer.items() if item is not None or name == "value"}


@pytest.mark.parametrize("strict", [True, False])
def test_the_application_chooses_whether_schemas_are_enforced(strict):
    with serve('{"labels": {"a": 1}}') as server:
        made = openai("gpt-5", base_url=server.base_url, api_key="key", strict_schemas=strict)
        model = llm(model=made, structure=Open)
        if not strict:
            assert model.generate_sync("Go").data == Open(labels={"a": 1})
            assert server.requests[0].json["text"]["format"]["strict"] is False
            return
        with pytest.raises(UPPError, match=r"/properties/labels allows members without a name") as caught:
            model.generate_sync("Go")

    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert server.requests == []


def test_strict_schemas_must_be_a_bool():
    with pytest.raises(TypeError, match="strict_schemas"):
        openai("gpt-5", strict_schemas="yes")


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "object", "properties": {}}, "additionalProperties"),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}, "required"),
        ({"type": "object", "properties": {}, "additionalProperties": False, "minProperties": 1}, "minProperties"),
        ({"anyOf": []}, "type"),
    ],
)
def test_the_strict_server_refuses_schemas_that_the_vendor_refuses(schema, words):
    import urllib.error
    import urllib.request

    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema, "strict": True}}
    body = {"model": "m", "messages": [{"role": "user", "content": "Go"}], "response_format": form}
    with serve(Reply("ok"), strict=True) as server:
        headers = {"Authorization": "Bearer key", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{server.base_url}/chat/completions", json.dumps(body).encode(), headers)
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request)
        # The server sends the body until it is closed.
        message = caught.value.read().decode()
    assert caught.value.code == 400
    assert words in message


def weather(city: str, days: Annotated[int, pydantic.Field(ge=1)]) -> str:
    """Weather of a city."""
    return f"{city}: {days} sunny days"


def search(text: str, limit: int = 3) -> str:
    """Search."""
    return text * limit


def label(values: dict[str, int]) -> str:
    """Label."""
    return str(values)


def sent_tools(*tools, api="responses", calls=(), strict=None):
    """The tools that OpenAI receives; its server refuses those with `strict` and another schema than it enforces."""
    with serve([list(calls), "ok"] if calls else "ok") as server:
        model = openai("gpt-5", api=api, base_url=server.base_url, api_key="k", strict_schemas=strict)
        turn = llm(model=model, tools=tools).generate_sync("hi")
        return server.requests[0].json["tools"], turn


def test_a_tool_of_responses_is_strict_if_its_arguments_are_the_same_then():
    (strict, optional, open_), _ = sent_tools(weather, search, label)
    assert strict["strict"] is True
    assert strict["parameters"]["additionalProperties"] is False
    assert strict["parameters"]["required"] == ["city", "days"]
    # The vendor's default would oblige the model to fill optional arguments.
    assert (optional["strict"], optional["parameters"]) == (False, tool(search).parameters)
    assert (open_["strict"], open_["parameters"]) == (False, tool(label).parameters)


def test_tools_of_responses_run_with_the_arguments_of_the_model():
    calls = [ToolCall("weather", {"city": "Kyoto", "days": 2}), ToolCall("search", {"text": "a"})]
    _, turn = sent_tools(weather, search, calls=calls)
    # Calls of one answer run at once.
    assert sorted(execution.result for execution in turn.tool_executions) == ["Kyoto: 2 sunny days", "aaa"]


def test_the_strictness_of_a_tool_is_the_callers_choice():
    chosen = tool(weather, metadata={"openai": {"strict": False}})
    (loose,), _ = sent_tools(chosen)
    assert (loose["strict"], loose["parameters"]) == (False, tool(weather).parameters)
    (loose,), _ = sent_tools(weather, strict=False)
    assert (loose["strict"], loose["parameters"]) == (False, tool(weather).parameters)


def test_tools_of_chat_completions_are_not_strict_by_default():
    (sent,), _ = sent_tools(weather, api="completions")
    assert "strict" not in sent["function"]


@pytest.mark.parametrize("api", ["responses", "completions"])
def test_the_loopback_server_refuses_a_strict_tool_with_an_open_schema(api):
    chosen = tool(search, metadata={"openai": {"strict": True}})
    with pytest.raises(UPPError, match="Invalid schema for function 'search'") as caught:
        sent_tools(chosen, api=api)
    assert caught.value.code == ErrorCode.INVALID_REQUEST

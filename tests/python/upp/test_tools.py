"""Tools: schema from the signature, arguments checked before the call, with pydantic and without."""

import dataclasses
import enum
import sys
from typing import Annotated, Any, Literal, Optional, TypedDict

import pytest
from pydantic import BaseModel, Field

from turntree.upp import Tool, tool
from turntree.upp._signature import ArgumentError, Signature


class Unit(enum.Enum):
    CELSIUS = "c"
    FAHRENHEIT = "f"


class Place(TypedDict):
    city: str
    country: str


@dataclasses.dataclass
class Range:
    first: int
    last: int = 3


async def weather(city: str, days: int = 1, unit: Literal["c", "f"] = "c") -> dict[str, Any]:
    """Forecast for a city.

    Args:
        city: Where, in
            plain words.
        days: How many.

    Returns:
        The forecast.
    """
    return {"city": city, "days": days, "unit": unit}


@pytest.fixture(params=["pydantic", "annotations"])
def checker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test with pydantic and as if pydantic were not installed."""
    if request.param == "annotations":
        monkeypatch.setitem(sys.modules, "pydantic", None)
    return request.param


def test_schema_is_built_from_signature_and_docstring(checker: str) -> None:
    made = tool(weather)

    assert made.name == "weather"
    assert made.description == "Forecast for a city."
    assert made.parameters["required"] == ["city"]
    assert made.parameters["additionalProperties"] is False
    properties = made.parameters["properties"]
    assert properties["city"] == {"type": "string", "description": "Where, in plain words."}
    assert (properties["days"]["type"], properties["days"]["default"]) == ("integer", 1)
    assert properties["unit"]["enum"] == ["c", "f"]


async def test_tool_is_still_callable_as_the_function(checker: str) -> None:
    assert await tool(weather)("Tokyo", days=2) == {"city": "Tokyo", "days": 2, "unit": "c"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "city"),
        ({"city": 3}, "city"),
        ({"city": "x", "days": "many"}, "days"),
        ({"city": "x", "unit": "k"}, "unit"),
        ({"city": "x", "moon": 1}, "moon"),
    ],
)
def test_invalid_arguments_raise_a_descriptive_error(checker: str, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match="Invalid arguments.*" + words):
        tool(weather)._call(arguments)


def test_schemas_of_rich_annotations(checker: str) -> None:
    def plan(
        places: list[Place],
        span: Range,
        unit: Unit,
        note: Optional[str] = None,  # noqa: UP045
        ratio: float = 1.0,
        tags: Annotated[dict[str, int], "by name"] = {},  # noqa: B006
    ) -> list[Any]:
        return [places, span, unit, note, ratio, tags]

    result = tool(plan)._call(
        {
            "places": [{"city": "Oslo", "country": "NO"}],
            "span": {"first": 1},
            "unit": "f",
            "ratio": 2,
            "tags": {"a": 1},
        }
    )

    assert result == [[{"city": "Oslo", "country": "NO"}], Range(1), Unit.FAHRENHEIT, None, 2.0, {"a": 1}]
    with pytest.raises(ArgumentError, match="places"):
        tool(plan)._call({"places": [{"city": "Oslo"}], "span": {"first": 1}, "unit": "f"})


def test_pydantic_models_as_parameters() -> None:
    class Query(BaseModel):
        text: str = Field(min_length=2)

    def search(query: Query) -> str:
        """Search."""
        return query.text

    assert tool(search)._call({"query": {"text": "ab"}}) == "ab"
    with pytest.raises(ArgumentError, match=r"query\.text"):
        tool(search)._call({"query": {"text": "a"}})


def test_options_override_the_signature_and_docstring() -> None:
    @tool(name="sum", description="Adds.", metadata={"openai": {"strict": True}}, inline=True)
    def add(a: int, b: int) -> int:
        """Not this."""
        return a + b

    assert (add.name, add.description, add.metadata) == ("sum", "Adds.", {"openai": {"strict": True}})
    assert (add._mode, tool(weather)._mode, tool(lambda: 1)._mode) == ("inline", "async", "thread")


def test_custom_schema_passes_arguments_without_validation() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}, "$defs": {"kept": {}}}
    by_name = Tool("t", "d", schema, lambda x: x)
    by_dict = Tool("t", "d", schema, lambda params: params)

    assert by_name.parameters == schema
    assert by_name._call({"x": "anything"}) == "anything"
    assert by_dict._call({"x": 1}) == {"x": 1}


def test_parameters_that_cannot_be_passed_by_name_are_rejected() -> None:
    def variadic(*values: int) -> int:
        return sum(values)

    with pytest.raises(TypeError, match="cannot be given by name"):
        _ = tool(variadic).parameters
    with pytest.raises(TypeError, match="run must be callable"):
        Tool("t", "d", None, 3)  # type: ignore[arg-type]


def test_annotations_without_a_schema_are_rejected(checker: str) -> None:
    def strange(x: object, y: memoryview) -> None: ...

    with pytest.raises(TypeError, match="JSON Schema"):
        _ = tool(strange).parameters


def test_context_parameter_is_not_in_the_schema() -> None:
    def uses(city: str, context: "ToolContext") -> Any:  # type: ignore[name-defined]  # noqa: F821
        return (city, context)

    uses.__annotations__["context"] = type("ToolContext", (), {})
    signature = Signature(uses, None)

    assert list(signature.schema["properties"]) == ["city"]
    assert signature.call({"city": "Oslo"}, "the context") == ("Oslo", "the context")

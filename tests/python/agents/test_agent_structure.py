"""Structured output of agents."""

import copy
import dataclasses
from typing import TypedDict

import pydantic
import pytest
from agent_support import add, call

from turntree import agent
from turntree.upp import (
    scripted,
)

# Structured output


class City(pydantic.BaseModel):
    name: str
    people: int


@dataclasses.dataclass
class CityData:
    name: str
    people: int


class CityDict(TypedDict):
    name: str
    people: int


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["name", "people"],
}


@pytest.mark.parametrize("structure", [City, CityData, CityDict, SCHEMA])
def test_structure_option_sets_turn_data(run, structure):
    model = scripted(['{"name": "Tokyo", "people": 14000000}'])

    turn = run(agent(model=model, structure=structure).run("Tokyo?"))

    data = turn.data
    if isinstance(data, dict):
        assert data == {"name": "Tokyo", "people": 14000000}
    else:
        assert (data.name, data.people) == ("Tokyo", 14000000)
    properties = model.requests[0].structure["properties"]
    assert {name: schema["type"] for name, schema in properties.items()} == {
        "name": "string",
        "people": "integer",
    }


def test_structure_works_with_tools(run):
    model = scripted([[call(a=1, b=2)], '{"name": "3", "people": 3}'])

    turn = run(agent(model=model, tools=[add], structure=SCHEMA).run("1 + 2?"))

    assert turn.data == {"name": "3", "people": 3}
    assert turn.tool_executions[0].result == 3


def test_without_structure_json_stays_text(run):
    turn = run(agent(model=scripted(["42"])).run("6 x 7?"))

    assert turn.data is None


def test_a_turn_can_be_copied_and_pickled(run):
    import pickle

    turn = run(agent(model=scripted([[call(a=1, b=2)], "3"]), tools=[add]).run("1 + 2?"))

    assert copy.deepcopy(turn) == turn
    assert pickle.loads(pickle.dumps(turn)) == turn

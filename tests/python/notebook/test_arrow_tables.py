"""Tables of turns, usage and executions."""

import asyncio
import json

import pytest

from turntree import agent
from turntree.arrow import table
from turntree.upp import ToolCall, scripted, tool

pa = pytest.importorskip("pyarrow")


@tool
def weather(city: str) -> dict:
    """Return the weather."""
    return {"city": city, "sky": "clear"}


@pytest.fixture(scope="module")
def turns():
    async def run():
        model = scripted([ToolCall("c1", "weather", {"city": "Zürich"}), "Sun.", "Hello."])
        helper = agent(model=model, tools=[weather])
        return [await helper.run("Weather?"), await helper.run("Hi")]

    return asyncio.run(run())


def test_turns_are_rows(turns):
    rows = table(turns).to_pylist()

    assert [row["text"] for row in rows] == ["Sun.", "Hello."]
    assert [row["model_calls"] for row in rows] == [2, 1]
    assert [row["tool_calls"] for row in rows] == [1, 0]
    assert [row["total_tokens"] for row in rows] == [turn.usage.total_tokens for turn in turns]
    assert [row["began"] for row in rows] == [turn.messages[0].timestamp for turn in turns]


def test_usage_and_executions_name_their_turn(turns):
    usage = table(turns, of="usage").to_pylist()
    (execution,) = table(turns, "executions").to_pylist()

    assert [(row["turn"], row["call"]) for row in usage] == [(0, 1), (0, 2), (1, 1)]
    assert sum(row["output_tokens"] for row in usage) == sum(turn.usage.output_tokens for turn in turns)
    assert json.loads(execution["arguments"]) == {"city": "Zürich"}
    assert json.loads(execution["result"]) == {"city": "Zürich", "sky": "clear"}
    assert (execution["turn"], execution["tool_name"], execution["is_error"]) == (0, "weather", False)


@pytest.mark.parametrize("of", ["turns", "usage", "executions"])
def test_the_columns_do_not_depend_on_the_data(turns, of):
    assert table([], of).schema == table(turns, of).schema
    assert table(turns[0], of).schema == table(turns, of).schema


def test_tables_are_read_without_a_copy(turns):
    made = table(turns)
    read = pa.RecordBatchReader.from_stream(made).read_all()

    def addresses(of):
        return [buffer.address for buffer in of["text"].chunk(0).buffers() if buffer]

    assert addresses(read) == addresses(made)


def test_polars_and_pandas_read_a_table(turns):
    polars = pytest.importorskip("polars")

    assert polars.from_arrow(table(turns))["text"].to_list() == ["Sun.", "Hello."]


def test_other_values_are_refused():
    with pytest.raises(TypeError, match=r"turns\[0\] must be a Turn, not int"):
        table([1])
    with pytest.raises(ValueError, match='of must be "turns"'):
        table([], of="rows")

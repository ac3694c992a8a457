"""polars and pandas read tables of turns, and share the memory of columns whose types allow it."""

import pytest
from recipe_environment import python_with, run

pytestmark = pytest.mark.timeout(900)

TABLE = """
import pyarrow as pa
from turntree import agent
from turntree.arrow import table
from turntree.upp import ToolCall, scripted, tool

@tool
def weather(city: str) -> str:
    "The weather."
    return "sunny"

helper = agent(model=scripted([ToolCall("c1", "weather", {"city": "Zürich"}), "Sun.", "Hello."]), tools=[weather])
turns = [helper.run_sync("Weather?"), helper.run_sync("Hi")]
made = table(turns)

def address(array):
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    return [buffer.address for chunk in chunks for buffer in chunk.buffers() if buffer]
"""
POLARS = """
import polars
frame = polars.from_arrow(made)
print(frame["text"].to_list(), frame["total_tokens"].sum() == sum(turn.usage.total_tokens for turn in turns))
print(address(frame["input_tokens"].to_arrow()) == address(made["input_tokens"]))
print(polars.DataFrame(made).shape == frame.shape, polars.from_arrow(table(turns, "executions"))["result"].to_list())
"""
PANDAS = """
import pandas
frame = made.to_pandas(types_mapper=pandas.ArrowDtype)
print(frame["text"].tolist(), int(frame["total_tokens"].sum()) == sum(turn.usage.total_tokens for turn in turns))
print(address(frame["text"].array.__arrow_array__()) == address(made["text"]))
print(str(made.to_pandas()["began"].dtype), table(turns, "executions").to_pandas()["result"].tolist())
"""


def test_polars_reads_and_shares_the_columns(tmp_path):
    said = run(python_with("data-and-traces.txt"), TABLE + POLARS, tmp_path).splitlines()

    assert said == ["['Sun.', 'Hello.'] True", "True", "True ['\"sunny\"']"]


def test_pandas_reads_and_shares_the_columns(tmp_path):
    said = run(python_with("data-and-traces.txt"), TABLE + PANDAS, tmp_path).splitlines()

    assert said == ["['Sun.', 'Hello.'] True", "True", "datetime64[us, UTC] ['\"sunny\"']"]

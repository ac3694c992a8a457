"""A run that is repeated with the records of an earlier execution: the port that all engines implement."""

import importlib
import json
import random
import sys

import pytest
from durable_agents import INPUT, Journal, booking_agent

from turntree import agent
from turntree.durable._agent import Recorded
from turntree.upp import scripted, tool

REQUEST = json.dumps({"input": INPUT, "history": None})


class Killed(BaseException):
    """The process dies."""


class MemoryEngine:
    """Records in memory. The process dies at a step, before or after its function."""

    def __init__(self, records=(), decisions=(), die_before=None, die_after=None):
        self.records = dict(records)
        self.decisions = list(decisions)
        self.die_before, self.die_after = die_before, die_after
        self.executed = []
        self.asked = []

    async def lookup(self, name):
        return self.records.get(name)

    async def step(self, name, function):
        if name in self.records:
            return self.records[name]
        self.executed.append(name)
        if len(self.executed) == self.die_before:
            raise Killed
        record = await function()
        if len(self.executed) == self.die_after:
            raise Killed
        self.records[name] = record
        return record

    async def wait(self, calls, rounds):
        self.asked.append([(call.tool_name, call.reason) for call in calls])
        answers = self.decisions.pop(0)
        return [json.dumps({"call": call.key, "value": None, **answers}) for call in calls]


@pytest.fixture
def booking(tmp_path):
    """A function that executes the booking agent on an engine, and the journal of its effects."""
    journal = Journal(tmp_path / "effects")
    # In every execution the agent is another object, as in another process.
    return lambda engine: Recorded(booking_agent(journal), "assistant", "ask").execute(
        engine, "run-1", REQUEST
    ), journal


async def test_a_complete_record_gives_the_same_turn_and_executes_nothing(booking):
    execute, journal = booking
    engine = MemoryEngine()
    first = await execute(engine)
    effects = journal.lines()

    again = MemoryEngine(engine.records)

    assert await execute(again) == first
    assert again.executed == []
    assert journal.lines() == effects


async def test_the_turn_does_not_depend_on_how_often_the_run_was_interrupted(booking):
    execute, _ = booking
    engine = MemoryEngine()
    first = await execute(engine)
    dice = random.Random(0)

    # Any set of records that a crash can leave: a step is recorded after the steps that it needs.
    names = list(engine.records)
    for count in range(len(names)):
        kept = names[:count]
        extra = [name for name in names[count : count + 3] if "/model/" not in name and dice.random() < 0.5]
        partial = MemoryEngine({name: engine.records[name] for name in [*kept, *extra]}, [{"kind": "retry"}] * 3)
        repeated = await execute(partial)
        assert set(partial.executed).isdisjoint(kept)
        assert ids_of(repeated) == ids_of(first)


def ids_of(text):
    """The ids of the messages that the run makes, and what the turn says."""
    turn = json.loads(text)
    ids = [message["id"] for message in turn["messages"] if message["type"] != "assistant"]
    calls = [(item["toolCallId"], item["result"], item["isError"]) for item in turn["toolExecutions"]]
    return ids, calls, turn["data"], turn["usage"]


@tool
def charge(amount: int) -> str:
    """Charge the customer."""
    return f"charged {amount}"


def charging(in_doubt="ask", replies=None):
    script = replies or [{"toolCallId": "call_1", "toolName": "charge", "arguments": {"amount": 1}}, "done"]
    return Recorded(agent(model=scripted(script), tools=[charge]), "till", in_doubt)


async def killed_in_the_call():
    """The records of a run whose process died after the tool had returned."""
    engine = MemoryEngine(die_after=3)
    with pytest.raises(Killed):
        await charging().execute(engine, "run-1", REQUEST)
    assert [name.split("/")[1] for name in engine.records] == ["model", "tool"]
    return engine.records


@pytest.mark.parametrize(
    ("decision", "result", "is_error"),
    [
        ({"kind": "retry"}, "charged 1", False),
        ({"kind": "result", "value": "charged before"}, "charged before", False),
        (
            {"kind": "error", "value": {"type": "Exception", "message": "the till is closed"}},
            "the till is closed",
            True,
        ),
    ],
)
async def test_a_call_in_doubt_waits_for_a_resolution(decision, result, is_error):
    engine = MemoryEngine(await killed_in_the_call(), [decision])

    turn = json.loads(await charging(replies=["done"]).execute(engine, "run-1", REQUEST))

    assert engine.asked == [[("charge", "in_doubt")]]
    assert (turn["toolExecutions"][0]["result"], turn["toolExecutions"][0]["isError"]) == (result, is_error)


async def test_a_repeated_call_whose_process_dies_is_in_doubt_again():
    engine = MemoryEngine(await killed_in_the_call(), [{"kind": "retry"}], die_after=2)
    with pytest.raises(Killed):
        await charging(replies=["done"]).execute(engine, "run-1", REQUEST)

    again = MemoryEngine(engine.records, [{"kind": "retry"}, {"kind": "retry"}])
    turn = json.loads(await charging(replies=["done"]).execute(again, "run-1", REQUEST))

    assert again.asked == [[("charge", "in_doubt")]] * 2
    assert turn["toolExecutions"][0]["result"] == "charged 1"


async def test_with_repeat_a_call_in_doubt_is_repeated_and_its_start_is_not_recorded():
    engine = MemoryEngine(die_after=2)
    with pytest.raises(Killed):
        await charging("repeat").execute(engine, "run-1", REQUEST)

    again = MemoryEngine(engine.records)
    turn = json.loads(await charging("repeat", ["done"]).execute(again, "run-1", REQUEST))

    assert (again.asked, len(again.executed)) == ([], 2)
    assert turn["toolExecutions"][0]["result"] == "charged 1"


async def test_calls_of_a_toolset_are_recorded():
    class Till:
        async def tools(self, context):
            return [charge]

    def till(replies):
        return Recorded(agent(model=scripted(replies), tools=[Till()]), "till", "ask")

    engine = MemoryEngine(die_after=3)
    with pytest.raises(Killed):
        await till([{"toolCallId": "call_1", "toolName": "charge", "arguments": {"amount": 1}}]).execute(
            engine, "run-1", REQUEST
        )
    again = MemoryEngine(engine.records, [{"kind": "result", "value": "charged before"}])
    turn = json.loads(await till(["done"]).execute(again, "run-1", REQUEST))

    assert again.asked == [[("charge", "in_doubt")]]
    assert turn["toolExecutions"][0]["result"] == "charged before"


async def test_two_runs_have_different_ids():
    turns = [json.loads(await charging().execute(MemoryEngine(), id, REQUEST)) for id in ("run-1", "run-2")]

    assert turns[0]["messages"][2]["id"] != turns[1]["messages"][2]["id"]


@pytest.mark.parametrize(("module", "package", "extra"), [("dbos", "dbos", "dbos"), ("absurd", "absurd_sdk", "absurd")])
def test_a_missing_package_names_the_extra(module, package, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"turntree.durable.{module}", raising=False)

    with pytest.raises(ImportError, match=rf"install turntree\[{extra}\]"):
        importlib.import_module(f"turntree.durable.{module}")

"""What the model and the developer get when a tool fails or its arguments are invalid. UPP-1.2 §10.4."""

import logging
import pickle
import traceback
import weakref

import pytest
from agent_tools_support import asking, call, results

from turntree import StepResult, agent, session
from turntree.execution import loop
from turntree.upp import Tool, llm, scripted, tool


@tool(inline=True)
def look(city: str) -> str:
    return {}[city]


def looking():
    return asking(call("look", city="Oslo"))


# The text for the model


class Unknown(KeyError):
    def __str__(self):
        return "the city is unknown"


@pytest.mark.parametrize(
    ("exception", "text"),
    [
        (KeyError("city"), "KeyError: 'city'"),
        (Unknown("city"), "the city is unknown"),
        (ValueError("no such city"), "no such city"),
        (ValueError(), "ValueError"),
    ],
)
def test_the_model_reads_a_text_that_says_what_failed(exception, text):
    @tool
    def failing() -> None:
        raise exception

    turn = agent(model=asking(call("failing")), tools=[failing]).run_sync("Go")

    assert results(turn) == [(text, True)]


# The exception for the developer


@pytest.mark.parametrize("how", ["agent", "stream", "session", "llm"])
def test_the_turn_has_the_exception_with_its_traceback(run, how):
    async def main():
        if how == "llm":
            return await llm(model=looking(), tools=[look]).generate("Go")
        helper = agent(model=looking(), tools=[look])
        if how == "agent":
            return await helper.run("Go")
        if how == "session":
            return await session(helper).run("Go")
        stream = helper.stream("Go")
        async for _ in stream:
            pass
        return await stream.turn

    (execution,) = run(main()).tool_executions

    assert isinstance(execution.exception, KeyError)
    frames = [frame.name for frame in traceback.extract_tb(execution.exception.__traceback__)]
    assert frames[-1] == "look"


def test_each_execution_has_its_own_exception():
    @tool(inline=True)
    def check(number: int) -> int:
        if number % 2:
            raise ValueError(f"{number} is odd")
        return number

    calls = [call("check", number=number) for number in range(4)]
    turn = agent(model=scripted([calls, "Done."]), tools=[check]).run_sync("Go")

    in_order = sorted(turn.tool_executions, key=lambda one: one.arguments["number"])
    texts = [one.exception and str(one.exception) for one in in_order]
    assert texts == [None, "1 is odd", None, "3 is odd"]


def test_the_exception_is_not_part_of_the_data():
    turn = agent(model=looking(), tools=[look]).run_sync("Go")
    (execution,) = turn.tool_executions

    assert "exception" not in execution.model_dump()
    copy = pickle.loads(pickle.dumps(turn))
    assert copy == turn
    assert copy.tool_executions[0].exception is None


def test_the_exceptions_are_freed_with_the_turn(monkeypatch, is_collected):
    # pytest keeps log records, and these have the exception.
    monkeypatch.setattr(logging.getLogger("turntree.tools"), "disabled", True)

    class Large:
        pass

    held = [Large()]
    alive = weakref.ref(held[0])

    @tool(inline=True)
    def failing() -> None:
        local = held.pop()  # noqa: F841 (the frame refers to it)
        raise ValueError("no")

    helper = agent(model=scripted([[call("failing")], "Done."]), tools=[failing])
    conversation = session(helper)
    turn = conversation.run_sync("Go")
    assert turn.tool_executions[0].exception is not None
    del turn

    assert is_collected(alive)
    assert len(conversation.tree.history()) == 4


def test_the_log_has_the_traceback(caplog):
    with caplog.at_level(logging.WARNING, logger="turntree.tools"):
        agent(model=looking(), tools=[look]).run_sync("Go")

    (record,) = [record for record in caplog.records if record.name == "turntree.tools"]
    assert record.levelno == logging.WARNING
    assert "'look'" in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[0] is KeyError
    assert "return {}[city]" in caplog.text


# Arguments of a tool whose schema the author wrote

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
    "required": ["city"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "city"),
        ({"city": 1}, "/city"),
        ({"city": "Oslo", "days": 0}, "/days"),
        ({"city": "Oslo", "days": "two"}, "/days"),
        ({"city": "Oslo", "country": "NO"}, "country"),
    ],
)
def test_a_tool_with_its_own_schema_is_not_called_with_invalid_arguments(arguments, problem):
    called = []
    forecast = Tool("forecast", "The forecast.", SCHEMA, lambda **given: called.append(given) or "rain")

    turn = agent(model=asking(call("forecast", **arguments)), tools=[forecast]).run_sync("Go")

    ((text, is_error),) = results(turn)
    assert called == []
    assert is_error
    assert text.startswith("Invalid arguments. ")
    assert problem in text


def test_a_tool_with_its_own_schema_is_called_with_valid_arguments():
    called = []
    forecast = Tool("forecast", "The forecast.", SCHEMA, lambda **given: called.append(given) or "rain")

    turn = agent(model=asking(call("forecast", city="Oslo", days=2)), tools=[forecast]).run_sync("Go")

    assert called == [{"city": "Oslo", "days": 2}]
    assert results(turn) == [("rain", False)]


# Hooks


def test_hooks_receive_the_result_of_a_step_as_an_object():
    seen = []
    hooks = {"on_step_end": lambda step, result: seen.append((step, result))}
    helper = agent(model=looking(), tools=[look], hooks=hooks)

    helper.run_sync("Go")

    step, result = seen[0]
    assert step == 1
    assert result.turn.tool_executions[0].exception.args == ("Oslo",)
    assert result.state.step == 1
    assert dict(result) == {"turn": result.turn, "state": result.state}
    assert result == StepResult(result.turn, result.state)
    assert repr(result).startswith("StepResult(turn=")
    with pytest.raises(KeyError):
        result["other"]


def test_messages_of_the_state_are_a_tuple():
    seen = []
    helper = agent(model=looking(), tools=[look], hooks={"on_step_start": lambda _, state: seen.append(state.messages)})

    helper.run_sync("Go")

    assert all(isinstance(messages, tuple) for messages in seen)
    assert [len(messages) for messages in seen] == [1, 3]


def test_a_failure_of_a_tool_does_not_end_the_loop():
    turn = agent(model=looking(), tools=[look], execution=loop(max_iterations=3)).run_sync("Go")

    assert turn.response.text

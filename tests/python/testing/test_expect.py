"""`turntree.testing.expect`: assertions about turns."""

import re

import pytest

from turntree import agent
from turntree.testing import expect
from turntree.upp import ToolCall, Turn, scripted, tool


@tool
def weather(city: str) -> str:
    "Return the weather."
    if city == "Atlantis":
        raise KeyError(city)
    return f"sunny in {city}"


async def run(*cities: str, answer: str = "It is sunny.") -> Turn:
    calls = [ToolCall("c", "weather", {"city": city}) for city in cities]
    replies = [*calls, answer]
    return await agent(model=scripted(replies), tools=[weather]).run("How is the weather?")


async def test_expectations_that_hold_can_be_chained() -> None:
    turn = await run("Tokyo", "Oslo")
    chain = (
        expect(turn)
        .text_equals("It is sunny.")
        .text_contains("sunny", "It")
        .text_excludes("rain")
        .text_matches(r"sun+y\.$")
        .text_matches(re.compile("SUNNY", re.IGNORECASE))
        .called("weather")
        .called("weather", city="Tokyo", times=1)
        .called("weather", times=2)
        .not_called("search")
        .called_in_order("weather", "weather")
        .succeeded()
        .cycles_at_most(3)
        .tokens_at_most(10_000)
    )
    assert chain.turn is turn
    expect(await run()).not_called()


@pytest.mark.parametrize(
    ("check", "problem"),
    [
        (lambda e: e.text_equals("no"), "the answer is not 'no'"),
        (lambda e: e.text_contains("rain", "sunny"), "does not contain 'rain'"),
        (lambda e: e.text_excludes("sunny"), "contains 'sunny'"),
        (lambda e: e.text_matches("^x"), "matches '^x'"),
        (lambda e: e.data_equals({"a": 1}), "the data are None"),
        (lambda e: e.called("search"), 'the tool "search" was not called'),
        (lambda e: e.called("weather", city="Rome"), "was not called with {'city': 'Rome'}"),
        (lambda e: e.called("weather", times=2), "was called 1 times, not 2 times"),
        (lambda e: e.not_called(), "were called: weather"),
        (lambda e: e.called_in_order("weather", "weather"), "not called in the order weather, weather"),
        (lambda e: e.cycles_at_most(1), "the model was called 2 times"),
        (lambda e: e.tokens_at_most(-1), "tokens"),
        (lambda e: e.cost_at_most(1), "cost"),
    ],
)
async def test_a_failed_expectation_tells_the_problem_and_what_the_run_did(check, problem) -> None:
    turn = await run("Tokyo")
    with pytest.raises(AssertionError) as error:
        check(expect(turn))
    message = str(error.value)
    assert problem in message
    assert "weather(city='Tokyo') returned 'sunny in Tokyo'" in message
    assert "2 model calls" in message


async def test_failed_tools_are_found() -> None:
    turn = await run("Atlantis")
    with pytest.raises(AssertionError, match="these tools failed: weather"):
        expect(turn).succeeded()


async def test_large_answers_are_shortened_in_messages() -> None:
    turn = await run(answer="x" * 1_000_000)
    with pytest.raises(AssertionError) as error:
        expect(turn).text_contains("y")
    assert len(str(error.value)) < 5_000


async def test_a_run_that_was_not_awaited_is_explained() -> None:
    coroutine = run()
    with pytest.raises(TypeError, match="await the run first"):
        expect(coroutine)  # type: ignore[arg-type]
    coroutine.close()


async def test_tools_may_be_given_themselves() -> None:
    turn = await run("Tokyo")

    expect(turn).called(weather, city="Tokyo", times=1).called_in_order(weather)
    with pytest.raises(AssertionError, match="these tools were called: weather"):
        expect(turn).not_called(weather)


async def test_wrong_arguments_of_expectations_are_explained() -> None:
    expectation = expect(await run("Tokyo"))
    with pytest.raises(TypeError, match=r"text_contains\(\) takes texts, not list; write text_contains\(\*texts\)"):
        expectation.text_contains(["sunny"])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"text_excludes\(\) takes texts, not int"):
        expectation.text_excludes(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"called\(\) takes names of tools, or tools, not int"):
        expectation.called(5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="times must not be negative, but is -1"):
        expectation.called("weather", times=-1)

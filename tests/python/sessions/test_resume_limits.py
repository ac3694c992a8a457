"""Resuming a run with another agent: limits, answers that do not fit the structure, partial turns."""

import json

import pytest
from pydantic import BaseModel
from session_support import call

from turntree import ApprovalRequired, Session, ToolContext, agent, session
from turntree.execution import loop, plan, react
from turntree.upp import UPPError, scripted, tool


class City(BaseModel):
    name: str
    people: int


@tool(inline=True)
def note(n: int) -> int:
    """Note a number."""
    return n


def calls(count):
    return [[call("note", n=n)] for n in range(count)]


def helper_of(replies, **options):
    model = scripted(replies)
    return agent(model=model, tools=[note], **options), model


def is_closed(messages):
    """True if every call of a history has a result."""
    called = [call.tool_call_id for message in messages for call in (getattr(message, "tool_calls", None) or ())]
    results = [
        result.tool_call_id for message in messages if message.type == "tool_result" for result in message.results
    ]
    return called == results


# Limits


@pytest.mark.parametrize("is_loaded", [False, True])
async def test_run_stopped_by_loop_continues_under_a_higher_limit(is_loaded):
    first, _ = helper_of(calls(3), execution=loop(max_iterations=2))
    sess = session(first)
    with pytest.raises(UPPError, match=r"exceeded maximum iterations \(2\)"):
        await sess.run("Go")
    text = sess.to_json()
    if is_loaded:
        text = Session.from_json(text, first).to_json()
    second, model = helper_of([*calls(5)[3:], "Done."], execution=loop(max_iterations=20))

    turn = await Session.from_json(text, second).resume()

    assert [execution.result for execution in turn.tool_executions] == [0, 1, 2, 3, 4]
    assert turn.response.text == "Done."
    # The model is not asked again for the calls of the third round.
    assert len(model.requests) == 3


async def test_run_resumed_under_the_same_limit_fails_again_without_a_request():
    helper, model = helper_of(calls(3), execution=loop(max_iterations=2))
    sess = session(helper)
    for _ in range(2):
        with pytest.raises(UPPError, match=r"exceeded maximum iterations \(2\)"):
            await (sess.resume() if model.requests else sess.run("Go"))

    assert len(model.requests) == 3


async def test_a_script_of_one_reply_is_named_in_the_singular():
    helper, _ = helper_of(calls(1), execution=loop(max_iterations=9))
    with pytest.raises(UPPError, match="the script has only 1 reply; add a reply"):
        await helper.run("Go")


async def test_run_resumed_under_a_lower_limit_counts_its_earlier_rounds():
    sess = session(helper_of(calls(3), execution=loop(max_iterations=9))[0])
    with pytest.raises(UPPError, match="only 3 replies"):
        await sess.run("Go")
    second, _ = helper_of(calls(1), execution=loop(max_iterations=3))

    with pytest.raises(UPPError, match=r"exceeded maximum iterations \(3\)"):
        await Session.from_json(sess.to_json(), second).resume()


async def test_resumed_react_run_has_the_number_of_steps_of_its_agent():
    thought = "I note a number."
    first, _ = helper_of([thought, *calls(1), thought], execution=react(max_steps=2))
    sess = session(first)
    with pytest.raises(UPPError, match="only 3 replies"):
        await sess.run("Go")
    second, _ = helper_of([*calls(2)[1:], thought, *calls(3)[2:], thought, "Done."], execution=react(max_steps=4))

    turn = await Session.from_json(sess.to_json(), second).resume()

    assert (turn.response.text, len(turn.tool_executions)) == ("Done.", 3)


async def test_resumed_plan_has_the_tool_rounds_of_its_agent():
    steps = [{"id": "1", "description": "Note numbers.", "tool": "note", "dependsOn": []}]
    made = json.dumps({"steps": steps})
    first, _ = helper_of([made, *calls(2)], execution=plan(max_plan_steps=2), tool_strategy={"max_iterations": 1})
    sess = session(first)
    with pytest.raises(UPPError):
        await sess.run("Go")
    second, _ = helper_of([*calls(3)[2:], "Done."], execution=plan(max_plan_steps=2))

    turn = await Session.from_json(sess.to_json(), second).resume()

    assert turn.response.text == "Done."


# Answers that do not fit the structure

FITS = '{"name": "Oslo", "people": 700000}'


@pytest.mark.parametrize("repairs", [False, True])
@pytest.mark.parametrize("invalid", ['{"name": "Oslo", "people": "many"}', "Oslo is a city."])
async def test_answer_that_does_not_fit_is_dropped_and_asked_again_on_resume(repairs, invalid):
    helper, model = helper_of([*calls(1), *[invalid] * (1 + repairs), FITS], structure=City, structure_repair=repairs)
    sess = session(helper)
    with pytest.raises(UPPError, match="does not fit"):
        await sess.run("Go")
    asked = len(model.requests)
    sess = Session.from_json(sess.to_json(), helper)

    turn = await sess.resume()

    assert turn.data == City(name="Oslo", people=700_000)
    assert len(model.requests) == asked + 1
    sent = model.requests[-1].messages
    # Only the answer before the repair remains, because the repair refers to it.
    assert [message.text for message in sent if message.type == "assistant"] == ["", *[invalid] * repairs]
    assert len(turn.tool_executions) == 1
    assert turn.cycles == asked + 1


# Partial turns


async def test_partial_turn_of_an_exceeded_limit_has_a_result_for_each_call():
    helper, _ = helper_of(calls(3), execution=loop(max_iterations=2))

    with pytest.raises(UPPError) as raised:
        await helper.run("Go")

    partial = raised.value.partial
    assert [message.type for message in partial.messages] == ["user", *["assistant", "tool_result"] * 3]
    assert is_closed(partial.messages)
    assert partial.messages[-1].results[0].is_error
    assert len(partial.tool_executions) == 2
    # The partial turn is a valid history.
    turn = await helper_of(["Done."])[0].run([*partial.messages], "Go on")
    assert turn.response.text == "Done."


async def test_partial_turn_of_a_run_that_waits_for_approval_has_a_result_for_each_call():
    @tool(approval="ask")
    def pay() -> str:
        return "paid"

    helper = agent(model=scripted([[call("note", n=1), call("pay")], "Done."]), tools=[note, pay])
    sess = session(helper)
    with pytest.raises(ApprovalRequired) as raised:
        await sess.run("Go")

    partial = raised.value.partial
    assert is_closed(partial.messages)
    assert [result.is_error for result in partial.messages[-1].results] == [False, True]
    # The call itself still waits.
    sess.approve(raised.value.calls[0].tool_call_id)
    turn = await sess.resume()
    assert (turn.response.text, turn.messages[2].results[1].result) == ("Done.", "paid")


async def test_aborted_turn_has_a_result_for_each_call():
    @tool
    async def stop(context: ToolContext) -> str:
        stream.abort()
        return "never"

    helper = agent(model=scripted([[call("stop"), call("note", n=1)], "Done."]), tools=[note, stop])
    stream = helper.stream("Go")
    async for _ in stream:
        pass

    assert is_closed((await stream.turn).messages)

"""The budget middleware."""

from __future__ import annotations

import asyncio
import copy
import pickle

import pytest
from agent_middleware_support import (
    call,
    double,
    hook_object,
    rounds,
    turn_of,
)

from turntree import (
    BudgetExceeded,
    GuardrailError,
    Session,
    TurntreeError,
    agent,
    session,
    store,
)
from turntree.middleware import budget, guardrails, logging, memory
from turntree.upp import (
    ModelResponse,
    TokenUsage,
    ToolCall,
    UPPError,
    create_provider,
    scripted,
    tool,
)


class Vendor:
    """A model whose calls use 10 input and 5 output tokens and cost 0.5 dollars each."""

    def __init__(self, replies):
        self.replies = list(replies)
        self.requests = []

    async def generate(self, request):
        reply = self.replies[len(self.requests)]
        self.requests.append(request)
        if isinstance(reply, Exception):
            raise reply
        usage = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15, "cost": 0.5}
        return ModelResponse(reply, usage=TokenUsage.model_validate(usage))


COUNT = iter(range(10**6))


def sold_by(vendor):
    return create_provider(f"vendor_{next(COUNT)}", vendor)("dear")


def costly(count):
    return Vendor([*(call(f"c{number}") for number in range(count)), "done"])


@pytest.mark.parametrize(
    ("limits", "calls", "limit", "spent"),
    [
        ({"steps": 2}, 2, 2, 2),
        ({"tokens": 40}, 3, 40, 45),
        ({"tokens": 45}, 3, 45, 45),
        ({"cost": 0.9}, 2, 0.9, 1.0),
    ],
)
def test_budget_ends_the_run_before_the_next_model_call(run, limits, calls, limit, spent):
    model = costly(5)

    with pytest.raises(BudgetExceeded) as raised:
        run(agent(model=sold_by(model), tools=[double], middleware=[budget(**limits)]).run("go"))

    error = raised.value
    assert len(model.requests) == calls
    assert (error.resource, error.limit, error.spent) == (next(iter(limits)), limit, spent)
    assert error.partial.cycles == calls
    assert error.partial.messages[-1].type == "tool_result"
    assert isinstance(error, TurntreeError)


def test_budget_of_seconds_ends_a_slow_run(run):
    @tool
    async def wait() -> None:
        await asyncio.sleep(2)  # longer than the budget, in which the model has to be called first

    model = scripted([[ToolCall("c", "wait", {})], "done"])
    with pytest.raises(BudgetExceeded) as raised:
        run(agent(model=model, tools=[wait], middleware=[budget(seconds=1.5)]).run("go"))

    assert raised.value.resource == "seconds"
    assert 1.5 <= raised.value.spent < 60
    assert len(model.requests) == 1


def test_run_within_its_budget_is_not_affected(run):
    helper = agent(
        model=sold_by(costly(2)), tools=[double], middleware=[budget(steps=3, tokens=46, cost=2.0, seconds=60)]
    )

    assert run(helper.run("go")).response.text == "done"


def test_each_run_has_a_separate_budget(run):
    helper = agent(model=scripted(["1", "2", "3"]), middleware=[budget(steps=1)])

    assert [run(helper.run("go")).response.text for _ in range(3)] == ["1", "2", "3"]


def test_budget_ends_a_stream(run):
    helper = agent(model=sold_by(costly(5)), tools=[double], middleware=[budget(steps=2)])

    async def main():
        stream = helper.stream("go")
        with pytest.raises(BudgetExceeded):
            async for _event in stream:
                pass
        with pytest.raises(BudgetExceeded) as raised:
            await stream.turn
        return raised.value

    assert run(main()).partial.cycles == 2


def test_session_budget_is_restored_in_another_process(run):
    kept = store.memory()
    limit = budget(steps=2, per="session")
    helper = agent(model=scripted(["1", "2", "3"]), middleware=[limit])
    sess = session(helper, persistence=kept)
    run(sess.run("a"))

    async def load():
        return await Session.load(kept, sess.id, helper)

    sess = run(load())
    run(sess.run("b"))
    sess = run(load())
    with pytest.raises(BudgetExceeded, match="the budget of the session is used up: 2 of 2 steps") as raised:
        run(sess.run("c"))

    assert raised.value.partial is None
    assert len(sess.tree.history()) == 4
    run(session(helper).run("another session"))


def test_session_budget_counts_failed_and_restored_runs(run):
    limit = budget(tokens=40, per="session")
    vendor = Vendor([call("c"), UPPError("down", "PROVIDER_ERROR"), "done", "more"])
    helper = agent(model=sold_by(vendor), tools=[double], middleware=[limit])
    sess = session(helper)
    with pytest.raises(UPPError):
        run(sess.run("go"))
    run(sess.resume())
    run(sess.restore(sess.checkpoints[0].id))
    run(sess.run("again"))

    with pytest.raises(BudgetExceeded) as raised:
        run(sess.run("and again"))
    assert raised.value.spent == 45


@pytest.mark.parametrize("per", ["run", "session"])
@pytest.mark.parametrize(("first", "second"), [({"steps": 2}, {"steps": 4}), ({"tokens": 25}, {"tokens": 70})])
def test_run_stopped_by_its_budget_continues_under_the_budget_of_another_agent(run, per, first, second):
    vendor = Vendor([call("a"), call("b")])
    sess = session(agent(model=sold_by(vendor), tools=[double], middleware=[budget(per=per, **first)]))
    with pytest.raises(BudgetExceeded):
        run(sess.run("go"))
    richer = Vendor([call("c"), "done"])
    helper = agent(model=sold_by(richer), tools=[double], middleware=[budget(per=per, **second)])

    turn = run(Session.from_json(sess.to_json(), helper).resume())

    assert (turn.response.text, turn.cycles) == ("done", 4)
    assert (len(vendor.requests), len(richer.requests)) == (2, 2)


@pytest.mark.parametrize("per", ["run", "session"])
def test_run_stopped_by_its_budget_fails_again_under_the_same_budget(run, per):
    vendor = Vendor([call("a"), call("b"), "done"])
    helper = agent(model=sold_by(vendor), tools=[double], middleware=[budget(steps=2, per=per)])
    sess = session(helper)
    with pytest.raises(BudgetExceeded):
        run(sess.run("go"))
    loaded = Session.from_json(sess.to_json(), helper)

    for _ in range(2):
        with pytest.raises(BudgetExceeded, match="2 of 2 steps"):
            run(loaded.resume())

    assert len(vendor.requests) == 2


def test_resumed_run_counts_its_earlier_usage(run):
    vendor = Vendor([call("c"), UPPError("down", "PROVIDER_ERROR"), call("d"), "done"])
    sess = session(agent(model=sold_by(vendor), tools=[double], middleware=[budget(steps=2)]))
    with pytest.raises(UPPError):
        run(sess.run("go"))

    with pytest.raises(BudgetExceeded) as raised:
        run(sess.resume())

    assert (raised.value.spent, raised.value.partial.cycles) == (2, 2)


def test_unknown_cost_ends_the_run_unless_ignored(run):
    with pytest.raises(UPPError, match="1 call has no known cost; add the model's price") as raised:
        run(agent(model=rounds(2), tools=[double], middleware=[budget(cost=1.0)]).run("go"))
    assert raised.value.partial.cycles == 1

    helper = agent(model=rounds(2), tools=[double], middleware=[budget(cost=1.0, unknown_cost="ignore")])
    assert run(helper.run("go")).response.text == "done"


def test_on_error_can_return_the_partial_turn_of_an_exceeded_budget(run):
    def on_error(context, error):
        assert isinstance(error, BudgetExceeded)
        return error.partial

    helper = agent(model=rounds(5), tools=[double], middleware=[hook_object(on_error=on_error), budget(steps=2)])

    turn = run(helper.run("go"))

    assert turn.cycles == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "budget needs a limit"),
        ({"tokens": 0}, "tokens must be more than 0"),
        ({"cost": -1.0}, "cost must be more than 0"),
        ({"seconds": float("nan")}, "seconds must be more than 0"),
        ({"steps": 1, "per": "week"}, 'per must be "run" or "session"'),
        ({"cost": 1.0, "unknown_cost": "guess"}, 'unknown_cost must be "error" or "ignore"'),
    ],
)
def test_budget_options_are_validated(options, words):
    with pytest.raises(ValueError, match=words):
        budget(**options)


@pytest.mark.parametrize("middleware", [logging(), guardrails("x"), memory(max_turns=1), budget(steps=1)])
def test_builtin_middleware_has_a_name_and_a_short_repr(middleware):
    assert middleware.name in {"logging", "guardrails", "memory", "budget"}
    assert repr(middleware).startswith("AgentMiddleware(")
    assert len(repr(middleware)) < 300


def test_errors_can_be_pickled_and_copied():
    exceeded = BudgetExceeded("used up", resource="steps", limit=2, spent=2, partial=turn_of("x"))
    rejected = GuardrailError("no", rule="r", place="input", reason="why", text="t")

    for error in (exceeded, rejected):
        for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            assert (str(again), again.__dict__) == (str(error), error.__dict__)

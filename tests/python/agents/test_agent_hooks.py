"""The hooks of an agent's runs. UAP-1.0 §11."""

import asyncio

import pytest
from agent_support import add, call, calls_for_ever, types

from turntree import AgentHooks, AgentStrategy, agent
from turntree.execution import loop
from turntree.upp import (
    scripted,
)

# Hooks, UAP-1.0 §11


@pytest.mark.parametrize("is_async", [False, True])
def test_hooks_are_called_in_order(run, is_async):
    heard = []

    def hook(name, answer=None):
        def sync_hook(*arguments):
            heard.append((name, *arguments))
            return answer

        async def async_hook(*arguments):
            await asyncio.sleep(0)
            return sync_hook(*arguments)

        return async_hook if is_async else sync_hook

    strategy = AgentStrategy(
        stop_condition=hook("stop_condition", False),
        on_step_start=hook("on_step_start"),
        on_step_end=hook("on_step_end"),
        on_complete=hook("on_complete"),
    )
    model = scripted([[call(a=1, b=2)], "3"])

    turn = run(agent(model=model, tools=[add], strategy=strategy).run("1 + 2?"))

    assert [name for name, *_ in heard] == [
        "on_step_start",
        "on_step_end",
        "stop_condition",
        "on_step_start",
        "on_step_end",
        "stop_condition",
        "on_complete",
    ]
    assert [entry[1] for entry in heard if entry[0].startswith("on_step")] == [1, 1, 2, 2]
    first_end = heard[1][2]
    assert types(first_end["turn"]) == ["user", "assistant", "tool_result"]
    assert first_end["state"].step == 1
    assert len(first_end["state"].messages) == 3
    assert heard[-1][1] == turn


def test_stop_condition_ends_the_run_after_the_tools(run):
    model = scripted(calls_for_ever)
    helper = agent(model=model, tools=[add], strategy={"stopCondition": lambda state: state.step >= 2})

    turn = run(helper.run("Go"))

    assert turn.cycles == 2
    assert types(turn)[-1] == "tool_result"
    assert turn.response.has_tool_calls
    assert len(turn.tool_executions) == 2


def test_on_error_can_return_a_replacement_turn(run):
    other = agent(model=scripted(["Sorry."])).run_sync("Hi")
    seen, completed = [], []

    async def on_error(error, state):
        seen.append((error, state.step))
        return other

    helper = agent(
        model=scripted([ValueError("broken")]),
        strategy=AgentStrategy(on_error=on_error, on_complete=completed.append),
    )

    turn = run(helper.run("Hi"))

    assert turn.response.text == "Sorry."
    assert isinstance(seen[0][0], ValueError)
    assert seen[0][1] == 1
    assert completed == [turn]


def test_error_is_raised_when_on_error_returns_none(run):
    error = ValueError("broken")

    with pytest.raises(ValueError, match="broken") as caught:
        run(agent(model=scripted([error]), strategy={"on_error": lambda *_: None}).run("Hi"))

    assert caught.value is error


def test_exception_from_on_error_is_raised(run):
    second = KeyError("second")

    def on_error(_error, _state):
        raise second

    with pytest.raises(KeyError) as caught:
        run(agent(model=scripted([ValueError()]), strategy={"on_error": on_error}).run("Hi"))

    assert caught.value is second


def test_on_error_receives_the_limit_error(run):
    other = agent(model=scripted(["Enough."])).run_sync("Hi")
    errors = []

    def on_error(error, _state):
        errors.append(error)
        return other

    helper = agent(
        model=scripted(calls_for_ever),
        tools=[add],
        execution=loop(1),
        strategy={"on_error": on_error},
    )

    assert run(helper.run("Go")).response.text == "Enough."
    assert errors[0].partial.cycles == 2


@pytest.mark.parametrize("name", ["on_step_start", "on_step_end", "stop_condition", "on_complete"])
def test_exception_from_a_hook_reaches_the_caller_unchanged(run, name):
    raised = LookupError(name)

    def hook(*_):
        raise raised

    with pytest.raises(LookupError) as caught:
        run(agent(model=scripted(["x"]), strategy={name: hook}).run("Hi"))

    assert caught.value is raised


def test_on_error_must_return_a_turn_or_none(run):
    with pytest.raises(TypeError, match="on_error"):
        run(agent(model=scripted([ValueError()]), strategy={"on_error": lambda *_: 42}).run("Hi"))


def test_hooks_run_in_run_sync_too():
    heard = []

    async def on_step_start(step, _state):
        heard.append(step)

    agent(model=scripted(["x"]), strategy={"on_step_start": on_step_start}).run_sync("Hi")

    assert heard == [1]


def test_hooks_is_an_alias_of_strategy(run):
    completed, replaced = [], []
    helper = agent(model=scripted(["a", "b"]), hooks=AgentHooks(on_complete=completed.append))

    first = run(helper.run("Hi"))
    second = run(helper.with_(hooks={"onComplete": replaced.append}).run("Hi"))

    assert AgentHooks is AgentStrategy
    assert (completed, replaced) == ([first], [second])
    assert "hooks" not in helper.options
    with pytest.raises(TypeError, match="hooks and strategy are two names of one option"):
        agent(model=scripted([]), hooks=AgentHooks(), strategy=AgentStrategy())


def test_a_hook_that_is_not_a_function_is_refused_when_it_is_given():
    for wrong in (3, "print", {}):
        with pytest.raises(TypeError, match=f"on_complete must be a function, not {type(wrong).__name__}"):
            AgentStrategy(on_complete=wrong)

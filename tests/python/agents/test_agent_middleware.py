"""Hooks of agent middleware: order and errors. UAP-1.0 §10."""

from __future__ import annotations

import pytest
from agent_middleware_support import (
    double,
    hook_object,
    recorder,
    turn_of,
    with_tool,
)

import turntree.middleware
from turntree import (
    AgentStrategy,
    agent,
)
from turntree.upp import (
    ToolCall,
    UPPError,
    scripted,
    tool,
)

# Order and errors


@pytest.mark.parametrize("is_async", [False, True])
def test_before_hooks_run_in_order_and_after_hooks_in_reverse(run, is_async):
    log = []
    middleware = [recorder(log, name, is_async=is_async) for name in "abc"]

    turn = run(agent(model=scripted(["Hi."]), middleware=middleware).run("Hello"))

    assert turn.response.text == "Hi."
    assert log == ["a:before", "b:before", "c:before", "c:after", "b:after", "a:after"]


@pytest.mark.parametrize("is_async", [False, True])
def test_sync_runs_use_middleware_also_inside_a_running_event_loop(run, is_async):
    log = []
    helper = agent(model=scripted(["1", "2", "3"]), middleware=[recorder(log, "a", is_async=is_async)])

    async def in_a_cell():
        return helper.run_sync("Hello")

    assert helper.run_sync("Hello").response.text == "1"
    assert run(in_a_cell()).response.text == "2"
    assert helper.stream_sync("Hello").turn.response.text == "3"
    assert log == ["a:before", "a:after"] * 3


@pytest.mark.parametrize("is_async", [False, True])
def test_failed_run_calls_on_error_in_reverse_order_and_raises(run, is_async):
    log = []
    failing = scripted([UPPError("down", "PROVIDER_ERROR")])
    middleware = [recorder(log, name, is_async=is_async) for name in "ab"]

    with pytest.raises(UPPError, match="down"):
        run(agent(model=failing, middleware=middleware).run("Hello"))

    assert log == ["a:before", "b:before", "b:on_error", "a:on_error"]


@pytest.mark.parametrize("is_async", [False, True])
def test_first_turn_returned_by_on_error_is_the_result(run, is_async):
    log, turn = [], turn_of("recovered")
    middleware = [
        recorder(log, "a", is_async=is_async),
        recorder(log, "b", recovers=turn, is_async=is_async),
        recorder(log, "c", is_async=is_async),
    ]
    helper = agent(model=scripted([UPPError("down", "PROVIDER_ERROR")] * 2), middleware=middleware)

    assert run(helper.run("Hello")) == turn
    assert log == ["a:before", "b:before", "c:before", "c:on_error", "b:on_error"]

    async def streamed():
        stream = helper.stream("Hello")
        return [event async for event in stream], await stream.turn

    events, given = run(streamed())
    assert given == turn
    assert events


@pytest.mark.parametrize("is_async", [False, True])
def test_error_in_before_calls_on_error_of_middleware_already_started(run, is_async):
    log, error = [], LookupError("mine")
    middleware = [
        recorder(log, "a", is_async=is_async),
        recorder(log, "b", fails_in="before", error=error, is_async=is_async),
        recorder(log, "c", is_async=is_async),
    ]
    model = scripted(["never"])

    with pytest.raises(LookupError) as raised:
        run(agent(model=model, middleware=middleware).run("Hello"))

    assert raised.value is error
    assert log == ["a:before", "b:before", "b:on_error", "a:on_error"]
    assert model.requests == []


@pytest.mark.parametrize("is_async", [False, True])
def test_error_in_after_calls_on_error_of_all_middleware(run, is_async):
    log, error = [], LookupError("mine")
    middleware = [
        recorder(log, "a", is_async=is_async),
        recorder(log, "b", fails_in="after", error=error, is_async=is_async),
    ]

    with pytest.raises(LookupError) as raised:
        run(agent(model=scripted(["Hi."]), middleware=middleware).run("Hello"))

    assert raised.value is error
    assert log == ["a:before", "b:before", "b:after", "b:on_error", "a:on_error"]


@pytest.mark.parametrize("is_async", [False, True])
def test_error_in_on_error_replaces_the_error_of_the_run(run, is_async):
    log, seen, error = [], [], LookupError("mine")
    outer = hook_object(on_error=lambda context, error: seen.append(error))
    middleware = [outer, recorder(log, "b", fails_in="on_error", error=error, is_async=is_async)]

    with pytest.raises(LookupError) as raised:
        run(agent(model=scripted([UPPError("down", "PROVIDER_ERROR")]), middleware=middleware).run("Hello"))

    assert raised.value is error
    assert seen == [error]


@pytest.mark.parametrize("is_async", [False, True])
def test_an_error_in_on_event_ends_the_run(run, is_async):
    error, log = LookupError("mine"), []

    def fail(context, event):
        raise error

    async def fail_later(context, event):
        raise error

    middleware = [recorder(log, "a"), hook_object(on_event=fail_later if is_async else fail)]
    with pytest.raises(LookupError) as raised:
        run(agent(model=with_tool(), tools=[double], middleware=middleware).run("Hello"))

    assert raised.value is error
    assert log == ["a:before", "a:on_error"]


def test_error_in_on_event_for_a_tool_event_is_raised(run):
    error = LookupError("mine")

    def fail(context, event):
        if event.upp is not None and event.upp.type == "tool_execution_start":
            raise error

    with pytest.raises(LookupError) as raised:
        run(agent(model=with_tool(), tools=[double], middleware=[hook_object(on_event=fail)]).run("Hello"))

    assert raised.value is error


def test_keyboard_interrupt_in_a_hook_skips_on_error(run):
    log = []

    def stop(context):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        agent(model=scripted(["x"]), middleware=[recorder(log, "a"), hook_object(before=stop)]).run_sync("Hello")

    assert log == ["a:before"]


def test_keyboard_interrupt_in_a_tool_skips_on_error(run):
    log = []

    @tool
    async def stop() -> None:
        raise KeyboardInterrupt

    model = scripted([[ToolCall("c", "stop", {})]])
    with pytest.raises(KeyboardInterrupt):
        agent(model=model, tools=[stop], middleware=[recorder(log, "a")]).run_sync("Hello")

    assert log == ["a:before"]


def test_strategy_on_error_runs_before_middleware_on_error(run):
    log = []
    strategy = AgentStrategy(on_error=lambda error, state: turn_of("by the strategy"))
    helper = agent(
        model=scripted([UPPError("down", "PROVIDER_ERROR")]), strategy=strategy, middleware=[recorder(log, "a")]
    )

    assert run(helper.run("Hello")).response.text == "by the strategy"
    assert log == ["a:before", "a:after"]


def test_the_repr_of_a_middleware_is_the_call_that_creates_it():
    assert repr(turntree.middleware.budget(steps=1)) == "AgentMiddleware(budget(steps=1))"
    assert repr(turntree.middleware.logging("debug", print)).startswith(
        "AgentMiddleware(logging(level='debug', logger="
    )
    assert "GuardrailRule('x', action='reject')" in repr(turntree.middleware.guardrails("x"))

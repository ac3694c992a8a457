"""Middleware around the runs of agents: hooks, order, endings, and the four that come with turntree. UAP-1.0 §10."""

from __future__ import annotations

import asyncio
import copy
import gc
import logging as stdlib
import pickle
import re
import sys
import threading
import weakref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turntree import (
    AgentStrategy,
    BudgetExceeded,
    GuardrailError,
    Session,
    TurntreeError,
    agent,
    ask,
    query,
    session,
    store,
)
from turntree.middleware import budget, guardrails, logging, memory, rule
from turntree.upp import (
    AssistantMessage,
    Image,
    ModelResponse,
    Reply,
    Text,
    TokenUsage,
    ToolCall,
    ToolResult,
    ToolResultMessage,
    Turn,
    UPPError,
    UserMessage,
    create_provider,
    llm,
    scripted,
    tool,
)

HOOKS = ["before", "after", "on_error"]


def recorder(log, name, *, fails_in=None, error=None, recovers=None, is_async=False):
    """A middleware with the three hooks of the specification; writes down what is called."""

    def told(hook, arguments):
        log.append(f"{name}:{hook}")
        if hook == fails_in:
            raise error
        if hook == "after":
            return arguments[1]
        return recovers if hook == "on_error" else None

    def sync_hook(hook):
        return lambda *arguments: told(hook, arguments)

    def async_hook(hook):
        async def call(*arguments):
            await asyncio.sleep(0)
            return told(hook, arguments)

        return call

    make = async_hook if is_async else sync_hook
    return type("Recorder", (), {"name": name, **{hook: staticmethod(make(hook)) for hook in HOOKS}})()


@tool
def double(x: int) -> int:
    """Double it."""
    return 2 * x


def with_tool(answer="Eight."):
    return scripted([[ToolCall("c", "double", {"x": 4})], answer])


def turn_of(text, asked="asked"):
    messages = [UserMessage(asked).to_dict(), AssistantMessage(text).to_dict()]
    return Turn.model_validate({"messages": messages})


def texts(messages):
    return [message.text for message in messages]


def hook_object(**hooks):
    return type("Hooked", (), {"name": "hooked", **{name: staticmethod(hook) for name, hook in hooks.items()}})()


# Order and endings


@pytest.mark.parametrize("is_async", [False, True])
def test_before_runs_in_order_and_after_in_reverse(run, is_async):
    log = []
    middleware = [recorder(log, name, is_async=is_async) for name in "abc"]

    turn = run(agent(model=scripted(["Hi."]), middleware=middleware).run("Hello"))

    assert turn.response.text == "Hi."
    assert log == ["a:before", "b:before", "c:before", "c:after", "b:after", "a:after"]


@pytest.mark.parametrize("is_async", [False, True])
def test_sync_runs_have_middleware_too_also_inside_a_running_loop(run, is_async):
    log = []
    helper = agent(model=scripted(["1", "2", "3"]), middleware=[recorder(log, "a", is_async=is_async)])

    async def in_a_cell():
        return helper.run_sync("Hello")

    assert helper.run_sync("Hello").response.text == "1"
    assert run(in_a_cell()).response.text == "2"
    assert helper.stream_sync("Hello").turn.response.text == "3"
    assert log == ["a:before", "a:after"] * 3


@pytest.mark.parametrize("is_async", [False, True])
def test_a_failed_run_tells_on_error_in_reverse_and_raises(run, is_async):
    log = []
    failing = scripted([UPPError("down", "PROVIDER_ERROR")])
    middleware = [recorder(log, name, is_async=is_async) for name in "ab"]

    with pytest.raises(UPPError, match="down"):
        run(agent(model=failing, middleware=middleware).run("Hello"))

    assert log == ["a:before", "b:before", "b:on_error", "a:on_error"]


@pytest.mark.parametrize("is_async", [False, True])
def test_the_first_turn_of_on_error_is_the_runs(run, is_async):
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
def test_an_error_in_before_is_told_to_those_that_ran_and_to_itself(run, is_async):
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
def test_an_error_in_after_is_told_to_all(run, is_async):
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
def test_an_error_in_on_error_takes_the_place_of_the_runs(run, is_async):
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


def test_an_error_of_a_tool_event_comes_out_too(run):
    error = LookupError("mine")

    def fail(context, event):
        if event.upp is not None and event.upp.type == "tool_execution_start":
            raise error

    with pytest.raises(LookupError) as raised:
        run(agent(model=with_tool(), tools=[double], middleware=[hook_object(on_event=fail)]).run("Hello"))

    assert raised.value is error


def test_a_keyboard_interrupt_in_a_hook_asks_nobody(run):
    log = []

    def stop(context):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        agent(model=scripted(["x"]), middleware=[recorder(log, "a"), hook_object(before=stop)]).run_sync("Hello")

    assert log == ["a:before"]


def test_a_keyboard_interrupt_in_a_tool_asks_nobody(run):
    log = []

    @tool
    async def stop() -> None:
        raise KeyboardInterrupt

    model = scripted([[ToolCall("c", "stop", {})]])
    with pytest.raises(KeyboardInterrupt):
        agent(model=model, tools=[stop], middleware=[recorder(log, "a")]).run_sync("Hello")

    assert log == ["a:before"]


def test_a_strategy_recovers_before_middleware_hears(run):
    log = []
    strategy = AgentStrategy(on_error=lambda error, state: turn_of("by the strategy"))
    helper = agent(
        model=scripted([UPPError("down", "PROVIDER_ERROR")]), strategy=strategy, middleware=[recorder(log, "a")]
    )

    assert run(helper.run("Hello")).response.text == "by the strategy"
    assert log == ["a:before", "a:after"]


# What may be replaced


@pytest.mark.parametrize("how", ["set", "replace"])
def test_a_replaced_input_is_what_the_model_sees_and_the_turn_begins_with(run, how):
    def shout(context):
        if how == "set":
            context.input = context.input.text.upper()
            return None
        return context.replace(input=context.input.text.upper())

    seen = []
    model = scripted(["Hi."])
    middleware = [hook_object(before=shout), hook_object(before=lambda context: seen.append(context.input.text))]

    turn = run(agent(model=model, middleware=middleware).run("hello"))

    assert seen == ["HELLO"]
    assert texts(model.requests[0].messages) == ["HELLO"]
    assert texts(turn.messages) == ["HELLO", "Hi."]


@pytest.mark.parametrize("how", ["set", "in place", "replace"])
def test_a_replaced_history_flows_downstream_and_changes_nothing_of_the_callers(run, how):
    def drop_first(context):
        if how == "set":
            context.history = context.history[1:]
        elif how == "in place":
            del context.history[0]
        else:
            return context.replace(history=context.history[1:])
        return context

    seen = []
    history = [UserMessage("one"), AssistantMessage("two")]
    model = scripted(["Hi."])
    middleware = [
        hook_object(before=drop_first),
        hook_object(before=lambda context: seen.extend(texts(context.history))),
    ]

    turn = run(agent(model=model, middleware=middleware).run(history, "hello"))

    assert seen == ["two"]
    assert texts(model.requests[0].messages) == ["two", "hello"]
    assert texts(turn.messages) == ["hello", "Hi."]
    assert texts(history) == ["one", "two"]


def test_a_new_context_is_the_one_that_all_later_hooks_get(run):
    seen = []

    def before(context):
        seen.append(context.replace(input="other"))
        context.metadata["kept"] = 1
        return seen[0]

    def after(context, turn):
        assert context is seen[0]
        assert context.metadata == {"kept": 1}
        return turn

    turn = run(agent(model=scripted(["x"]), middleware=[hook_object(before=before, after=after)]).run("hello"))

    assert turn.messages[0].text == "other"


def test_what_is_set_after_the_run_began_has_no_effect(run):
    def late(context, event):
        context.input = "late"
        context.history.append(UserMessage("late"))

    model = with_tool()
    turn = run(agent(model=model, tools=[double], middleware=[hook_object(on_event=late)]).run("hello"))

    assert turn.messages[0].text == "hello"
    assert texts(model.requests[1].messages)[0] == "hello"


@pytest.mark.parametrize(
    ("value", "error"), [(3, "before must give a MiddlewareContext or None, not int"), ({}, "not dict")]
)
def test_before_must_give_a_context_or_none(run, value, error):
    with pytest.raises(TypeError, match=error):
        run(agent(model=scripted(["x"]), middleware=[hook_object(before=lambda context: value)]).run("hello"))


def test_an_input_of_the_wrong_type_is_refused_where_it_is_set(run):
    def wrong(context):
        context.input = 3

    with pytest.raises(TypeError):
        run(agent(model=scripted(["x"]), middleware=[hook_object(before=wrong)]).run("hello"))


def test_a_history_that_holds_no_messages_is_refused(run):
    def wrong(context):
        context.history = ["no message"]

    with pytest.raises((TypeError, ValueError), match=r"context\.history\[0\]"):
        run(agent(model=scripted(["x"]), middleware=[hook_object(before=wrong)]).run("hello"))


def test_after_may_give_another_turn(run):
    other = turn_of("another")

    turn = run(agent(model=scripted(["x"]), middleware=[hook_object(after=lambda context, turn: other)]).run("hello"))

    assert turn == other


@pytest.mark.parametrize("value", [None, "text", 3])
def test_after_must_give_a_turn(run, value):
    with pytest.raises(TypeError, match="after must give a Turn; add `return turn`, not"):
        run(agent(model=scripted(["x"]), middleware=[hook_object(after=lambda context, turn: value)]).run("hello"))


def test_a_dict_of_a_turn_is_a_turn_and_one_of_something_else_is_refused(run):
    def with_after(give):
        return agent(model=scripted(["x"]), middleware=[hook_object(after=lambda context, turn: give(turn))])

    assert run(with_after(lambda turn: turn.to_dict()).run("hello")).response.text == "x"
    with pytest.raises(ValueError, match="at least one assistant message"):
        run(with_after(lambda turn: {"messages": []}).run("hello"))


def test_on_error_must_give_a_turn_or_none(run):
    middleware = [hook_object(on_error=lambda context, error: "text")]
    with pytest.raises(TypeError, match="on_error must give a Turn or None, not str"):
        run(agent(model=scripted([UPPError("down", "PROVIDER_ERROR")]), middleware=middleware).run("hello"))


def test_media_that_middleware_puts_in_is_checked(run):
    def picture(context):
        context.input = ["see", Image.from_bytes(b"\x89PNG", "image/png")]

    model = scripted(["x"])
    turn = run(agent(model=model, middleware=[hook_object(before=picture)]).run("hello"))

    assert len(turn.messages[0].images) == 1


# What hooks see


def test_the_context_tells_of_the_run(run):
    seen = []

    def before(context):
        seen.append((context.agent, context.input, context.history, context.metadata, context.session))

    helper = agent(model=scripted(["x", "y"]), middleware=[hook_object(before=before)])
    turn = run(helper.run([UserMessage("before")], "hello"))

    owner, said, history, metadata, in_session = seen[0]
    assert owner is helper
    assert said == turn.messages[0]
    assert texts(history) == ["before"]
    assert metadata == {}
    assert in_session is None
    sess = session(helper)
    run(sess.run("again"))
    assert seen[1][4] is sess


def test_metadata_may_hold_anything_and_belongs_to_one_run(run):
    seen = []

    def before(context):
        assert context.metadata == {}
        context.metadata["lock"] = threading.Lock()

    def after(context, turn):
        seen.append(context.metadata["lock"])
        return turn

    helper = agent(model=scripted(["x", "y"]), middleware=[hook_object(before=before, after=after)])
    run(helper.run("1"))
    run(helper.run("2"))

    assert seen[0] is not seen[1]


def test_events_of_a_run_without_a_listener_are_those_of_steps_and_tools(run):
    kinds = []

    async def on_event(context, event):
        await asyncio.sleep(0)
        kinds.append(event.uap.type if event.uap else event.upp.type)

    model = with_tool()
    run(agent(model=model, tools=[double], middleware=[hook_object(on_event=on_event)]).run("hello"))

    assert kinds == [
        "step_start",
        "action",
        "tool_execution_start",
        "tool_execution_end",
        "observation",
        "step_end",
        "step_start",
        "step_end",
    ]


def test_events_of_a_stream_are_what_its_listener_hears(run):
    heard = []
    helper = agent(
        model=with_tool(),
        tools=[double],
        middleware=[hook_object(on_event=lambda context, event: heard.append(event))],
    )

    async def main():
        return [event async for event in helper.stream("hello")]

    events = run(main())

    assert events == heard
    assert any(event.upp is not None and event.upp.type == "text_delta" for event in events)


def test_what_is_sent_to_the_model_may_be_replaced_for_one_call(run):
    seen = []

    async def on_model_request(context, request):
        seen.append(len(request.messages))
        return [UserMessage("(be kind)"), *request.messages]

    model = with_tool()
    turn = run(
        agent(model=model, tools=[double], middleware=[hook_object(on_model_request=on_model_request)]).run("hello")
    )

    assert seen == [1, 3]
    assert texts(model.requests[1].messages)[:2] == ["(be kind)", "hello"]
    assert turn.messages[0].text == "hello"
    assert len(turn.messages) == 4


def test_messages_for_one_call_must_be_messages(run):
    middleware = [hook_object(on_model_request=lambda context, request: 3)]
    with pytest.raises(TypeError, match="the messages of on_model_request must be a Thread or a list"):
        run(agent(model=scripted(["x"]), middleware=middleware).run("hello"))


def test_typed_data_is_what_after_sees(run):
    seen = []

    def after(context, turn):
        seen.append(turn.data)
        return turn

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    turn = run(
        agent(model=scripted(['{"n": 1}']), structure=schema, middleware=[hook_object(after=after)]).run("hello")
    )

    assert seen == [{"n": 1}]
    assert turn.data == {"n": 1}


# Streams


def test_a_stream_runs_before_when_it_is_read_and_after_before_the_turn(run):
    log = []
    helper = agent(model=scripted(["Hi."]), middleware=[recorder(log, "a")])

    async def main():
        stream = helper.stream("Hello")
        await asyncio.sleep(0)
        assert log == []
        async for _event in stream:
            assert log[0] == "a:before"
        assert log == ["a:before", "a:after"]
        return await stream.turn, await stream.turn

    first, second = run(main())
    assert first == second
    assert log == ["a:before", "a:after"]


def test_an_aborted_stream_gives_its_partial_turn_through_after(run):
    seen = []

    def after(context, turn):
        seen.append(turn.response.metadata["uap"])
        return turn

    helper = agent(model=scripted([Reply("one two three four", pace=0.02)]), middleware=[hook_object(after=after)])

    async def main():
        stream = helper.stream("Hello")
        async for event in stream:
            if event.upp is not None and event.upp.type == "text_delta":
                stream.abort()
        return await stream.turn

    turn = run(main())

    assert turn.response.metadata["uap"] == {"aborted": True}
    assert seen == [{"aborted": True}]


def test_a_stream_that_is_aborted_in_before_sends_nothing(run):
    log, model = [], scripted(["x"])
    helper = None

    async def wait(context):
        log.append("waits")
        await asyncio.sleep(60)

    helper = agent(model=model, middleware=[recorder(log, "a"), hook_object(before=wait), recorder(log, "c")])

    async def main():
        stream = helper.stream("Hello")
        reading = asyncio.ensure_future(anext(aiter(stream), None))
        while "waits" not in log:
            await asyncio.sleep(0)
        stream.abort()
        await reading
        return await stream.turn

    turn = run(main())

    assert turn.response.metadata["uap"] == {"aborted": True}
    assert model.requests == []
    assert log == ["a:before", "waits", "a:after"]


def test_a_stream_that_is_left_tells_on_error(run):
    errors = []
    helper = agent(
        model=scripted([Reply("one two three", pace=0.02)]),
        middleware=[hook_object(on_error=lambda context, error: errors.append(error))],
    )

    async def main():
        async with helper.stream("Hello") as stream:
            async for event in stream:
                if event.upp is not None:
                    break
        await asyncio.sleep(0.01)

    run(main())

    assert [error.code for error in errors] == ["CANCELLED"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_run_that_is_cancelled_tells_on_error(run, is_async):
    errors, begun = [], []

    async def on_error_async(context, error):
        await asyncio.sleep(0)
        errors.append((error.code, context.metadata))

    def on_error(context, error):
        errors.append((error.code, context.metadata))

    @tool
    async def wait() -> None:
        begun.append(1)
        await asyncio.sleep(60)

    helper = agent(
        model=scripted([[ToolCall("c", "wait", {})]]),
        tools=[wait],
        middleware=[
            hook_object(
                before=lambda context: context.metadata.update(x=1),
                on_error=on_error_async if is_async else on_error,
            )
        ],
    )

    async def main():
        task = asyncio.ensure_future(helper.run("Hello"))
        while not begun:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for _ in range(10):
            await asyncio.sleep(0)

    run(main())

    assert errors == [("CANCELLED", {"x": 1})]


# Sessions, sub-agents, ask and query


def test_a_session_stores_the_replaced_input_and_all_of_its_history(run):
    def shout(context):
        context.input = context.input.text.upper()
        context.history = []

    model = scripted(["1", "2"])
    sess = session(agent(model=model, middleware=[hook_object(before=shout)]))
    run(sess.run("one"))
    run(sess.run("two"))

    assert texts(sess.tree.history()) == ["ONE", "1", "TWO", "2"]
    assert texts(model.requests[1].messages) == ["TWO"]


def test_a_session_that_failed_resumes_through_its_middleware(run):
    log, state = [], {"down": True}

    def reply(request):
        if state["down"] and len(request.messages) > 1:
            raise UPPError("down", "PROVIDER_ERROR")
        return [ToolCall("c", "double", {"x": 4})] if len(request.messages) == 1 else "Eight."

    def shout(context):
        log.append(context.input.text)
        context.input = context.input.text + "!"

    sess = session(agent(model=scripted(reply), tools=[double], middleware=[hook_object(before=shout)]))
    with pytest.raises(UPPError):
        run(sess.run("go"))
    state["down"] = False
    turn = run(sess.resume())

    assert log == ["go", "go!"]
    assert texts(turn.messages)[0] == "go!"
    assert texts(sess.tree.history())[0] == "go!"


def test_a_recovered_turn_is_in_the_session(run):
    turn = turn_of("recovered", "hello")
    middleware = [hook_object(on_error=lambda context, error: turn)]
    sess = session(agent(model=scripted([UPPError("down", "PROVIDER_ERROR")]), middleware=middleware))

    assert run(sess.run("hello")) == turn
    assert texts(sess.tree.history()) == ["hello", "recovered"]


def test_a_hook_that_runs_its_own_session_is_refused_instead_of_waiting_for_ever(run):
    async def again(context):
        await context.session.run("again")

    sess = session(agent(model=scripted(["x"]), middleware=[hook_object(before=again)]))

    with pytest.raises(TurntreeError, match="inside a run of its own"):
        run(asyncio.wait_for(sess.run("hello"), 10))


def test_ask_and_query_go_through_middleware(run):
    log = []
    helper = agent(model=scripted(["1", "2"]), middleware=[recorder(log, "a")])

    run(ask(helper, "Hello"))
    run(query(helper, "Hello"))

    assert log == ["a:before", "a:after"] * 2


def test_an_agent_inside_a_tool_has_its_own_middleware(run):
    log = []
    inner = agent(model=scripted(["inner"]), middleware=[recorder(log, "inner")])

    @tool
    async def consult() -> str:
        return (await inner.run("question")).response.text

    outer = agent(
        model=scripted([[ToolCall("c", "consult", {})], "done"]), tools=[consult], middleware=[recorder(log, "outer")]
    )
    run(outer.run("Hello"))

    assert log == ["outer:before", "inner:before", "inner:after", "outer:after"]


def test_runs_at_once_do_not_share_contexts(run):
    async def before(context):
        context.metadata["mine"] = context.input.text
        await asyncio.sleep(0)

    async def after(context, turn):
        await asyncio.sleep(0)
        assert context.metadata["mine"] == context.input.text == turn.messages[0].text
        return turn

    helper = agent(
        model=scripted(lambda request: request.messages[-1].text[::-1]),
        middleware=[hook_object(before=before, after=after), guardrails(output=["never"]), memory(max_turns=1)],
    )

    async def main():
        return await asyncio.gather(*(helper.run(f"run {number}") for number in range(100)))

    turns = run(main())

    assert [turn.response.text for turn in turns] == [f"run {number}"[::-1] for number in range(100)]


def test_runs_in_threads_do_not_share_contexts():
    failures = []
    helper = agent(
        model=scripted(lambda request: request.messages[-1].text),
        middleware=[hook_object(before=lambda context: context.metadata.update(x=context.input.text))],
    )

    def work(number):
        for _ in range(20):
            if helper.run_sync(f"thread {number}").response.text != f"thread {number}":
                failures.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]

    assert failures == []


# Middleware as an option


@pytest.mark.parametrize(
    ("middleware", "words"),
    [
        (3, "middleware must be a list"),
        (logging(), "put a single one into brackets"),
        ([3], r"middleware\[0\] has none of the hooks; int must have one of before, after"),
        ([hook_object(before=3)], r"before of middleware\[0\] must be a function, not int"),
        ([type("Named", (), {"name": 3, "before": print})()], r"middleware\[0\]\.name must be a str, not int"),
    ],
)
def test_what_is_no_middleware_is_refused_by_name(middleware, words):
    with pytest.raises(TypeError, match=words):
        agent(model=scripted([]), middleware=middleware)


def test_options_of_an_agent_hold_its_middleware(run):
    log = []
    helper = agent(model=scripted(["1", "2"]), middleware=iter([recorder(log, "a")]))

    assert [one.name for one in helper.middleware] == ["a"]
    run(helper.with_(system="Be brief.").run("x"))
    assert log == ["a:before", "a:after"]
    assert agent(model=scripted([])).middleware == ()


def test_an_agent_is_there_for_its_middleware_when_only_a_stream_is_left(run):
    ids = []

    async def main():
        helper = agent(
            model=scripted(["Hi."]), middleware=[hook_object(before=lambda context: ids.append(context.agent.id))]
        )
        stream, known = helper.stream("Hello"), helper.id
        del helper
        gc.collect()
        await stream
        return known

    known = run(main())
    assert ids == [known]


def test_an_agent_and_its_middleware_are_collected(run):
    class Kept:
        name = "kept"
        agent = None

        def before(self, context):
            self.context = context

    async def main():
        middleware = Kept()
        middleware.agent = agent(model=scripted(["x"]), middleware=[middleware, guardrails(input=[lambda text: True])])
        await middleware.agent.run("hello")
        return weakref.ref(middleware), weakref.ref(middleware.agent)

    gone = run(main())
    gc.collect()

    assert [ref() for ref in gone] == [None, None]


# logging


def test_logging_says_what_the_specification_says(run):
    lines = []
    helper = agent(model=scripted(["Hello there."]), middleware=[logging("debug", lines.append)])

    run(helper.run("Hello"))

    assert lines[0] == f"[INFO] Agent {helper.id} starting execution"
    assert lines[1] == '[DEBUG] Input: "Hello"'
    assert re.fullmatch(rf"\[INFO\] Agent {helper.id} completed in (\d+ms|\d+\.\ds) \(\d+ tokens\)", lines[-1])


def test_logging_tells_of_steps_and_tools_at_debug(run):
    lines = []
    helper = agent(model=with_tool(), tools=[double], middleware=[logging("debug", lines.append)])

    run(helper.run("Hello"))

    about = [line.replace(f"Agent {helper.id} ", "") for line in lines]
    assert "[DEBUG] step 1 started" in about
    assert '[DEBUG] calls tool double with {"x":4}' in about
    assert "[DEBUG] tool double answered 8" in about
    assert any(re.fullmatch(r"\[DEBUG\] step 2 ended \(\d+ tokens\)", line) for line in about)


@pytest.mark.parametrize(("level", "count"), [("info", 2), ("warn", 0), ("warning", 0), ("error", 0)])
def test_logging_writes_what_matters_enough(run, level, count):
    lines = []

    run(agent(model=scripted(["x"]), middleware=[logging(level, lines.append)]).run("Hello"))

    assert len(lines) == count


def test_logging_shows_no_more_than_a_preview_unless_it_is_told_to(run):
    secret = "word " * 30 + "SECRET"
    for level, include in [("debug", False), ("info", False)]:
        lines = []
        helper = agent(model=scripted([secret]), middleware=[logging(level, lines.append, include)])
        run(helper.run(secret))
        assert "SECRET" not in "".join(lines)
    lines = []
    run(agent(model=scripted([secret]), middleware=[logging(logger=lines.append, include_messages=True)]).run(secret))
    assert next(line for line in lines if "SECRET" in line).startswith('[INFO] Input: "word word')
    assert sum("SECRET" in line for line in lines) == 2


def test_logging_says_how_a_run_failed_and_where_at_debug(run):
    lines = []
    failing = scripted([UPPError("down", "PROVIDER_ERROR")])
    helper = agent(model=failing, middleware=[logging("debug", lines.append, include_timing=False)])

    with pytest.raises(UPPError):
        run(helper.run("Hello"))

    assert f"[ERROR] Agent {helper.id} failed: down" in lines
    assert lines[-1].startswith("[DEBUG] ")
    assert "UPPError" in lines[-1]


def test_logging_leaves_times_out(run):
    lines = []

    run(agent(model=scripted(["x"]), middleware=[logging(logger=lines.append, include_timing=False)]).run("Hello"))

    assert re.search(r"completed \(\d+ tokens\)$", lines[-1])


def test_logging_goes_to_the_logger_of_the_package(run, caplog):
    caplog.set_level(stdlib.DEBUG, logger="turntree")

    run(agent(model=scripted(["x"]), middleware=[logging("debug")]).run("Hello"))

    records = [(record.name, record.levelname) for record in caplog.records]
    assert records[0] == ("turntree", "INFO")
    assert ("turntree", "DEBUG") in records


def test_a_logger_that_fails_ends_nothing(run, monkeypatch):
    raised = []
    monkeypatch.setattr(sys, "unraisablehook", raised.append)

    def fail(line):
        raise OSError("disk full")

    assert run(agent(model=scripted(["x"]), middleware=[logging(logger=fail)]).run("Hello")).response.text == "x"
    assert raised


def test_options_of_logging_are_checked():
    with pytest.raises(ValueError, match='level must be one of "debug", "info", "warning", "error", not "loud"'):
        logging("loud")
    with pytest.raises(TypeError, match=r"logger must be a logging\.Logger or a function, not int"):
        logging(logger=3)


# guardrails


def ends_with_stop(text):
    return text.endswith(".")


async def no_secret(text):
    await asyncio.sleep(0)
    return "it tells a secret" if "secret" in text else None


@pytest.mark.parametrize(
    ("what", "bad", "good", "reason"),
    [
        ("secret", "the secret", "fine", "it matches the pattern"),
        (re.compile("SECRET", re.IGNORECASE), "the secret", "fine", "it matches the pattern"),
        (ends_with_stop, "no stop", "a stop.", "it does not pass"),
        (no_secret, "the secret", "fine", "it tells a secret"),
        (lambda text: no_secret(text), "the secret", "fine", "it tells a secret"),
        ({"type": "object", "required": ["a"]}, '{"b": 1}', '{"a": 1}', '"a" is a required property'),
        ({"type": "object"}, "no json", "{}", "it is not JSON"),
    ],
)
@pytest.mark.parametrize("place", ["input", "output"])
def test_a_rule_rejects_what_breaks_it(run, what, bad, good, reason, place):
    def helper(said):
        model = scripted([said if place == "output" else "fine."])
        return agent(model=model, middleware=[guardrails(**{place: [rule(what, name="mine")]})])

    def said(text):
        return text if place == "input" else "hello"

    with pytest.raises(GuardrailError) as raised:
        run(helper(bad).run(said(bad)))
    error = raised.value
    assert (error.rule, error.place, error.text) == ("mine", place, bad)
    assert reason in error.reason
    assert bad not in str(error)
    assert isinstance(error, TurntreeError)
    assert run(helper(good).run(said(good))).response.text


def test_rejected_input_reaches_nobody(run):
    log, model = [], scripted(["x"])

    with pytest.raises(GuardrailError):
        run(agent(model=model, middleware=[guardrails("bad"), recorder(log, "b")]).run("bad"))

    assert (log, model.requests) == ([], [])


@pytest.mark.parametrize(
    ("made", "left"),
    [
        (rule(r"\d+", action="rewrite"), "call [removed] or [removed]"),
        (rule(r"(\d)\d+", action="rewrite", replacement=r"\1…"), "call 1… or 2…"),
        (rule(str.upper, action="rewrite"), "CALL 123 OR 234"),
        (rule(lambda text: False, action="rewrite", name="all", replacement="-"), "-"),
    ],
)
@pytest.mark.parametrize("place", ["input", "output"])
def test_a_rule_rewrites(run, made, left, place):
    model = scripted(["call 123 or 234"])
    helper = agent(model=model, middleware=[guardrails(**{place: made})])

    turn = run(helper.run("call 123 or 234"))

    assert texts(turn.messages)[0 if place == "input" else 1] == left
    if place == "input":
        assert texts(model.requests[0].messages) == [left]


def test_rules_run_in_order_each_on_what_the_last_left(run):
    rules = [rule("b", action="rewrite", replacement="c"), rule("c", name="no c")]

    with pytest.raises(GuardrailError) as raised:
        run(agent(model=scripted(["x"]), middleware=[guardrails(rules)]).run("abd"))

    assert (raised.value.rule, raised.value.text) == ("no c", "acd")


def test_every_text_of_an_input_is_seen_and_what_is_no_text_stays(run):
    model = scripted(["x"])
    picture = Image.from_bytes(b"\x89PNG", "image/png")
    helper = agent(model=model, middleware=[guardrails(rule("bad", action="rewrite"))])

    run(helper.run([Text("bad one"), picture, Text("bad two")]))

    content = model.requests[0].messages[0].content
    assert [block.text for block in content if block.type == "text"] == ["[removed] one", "[removed] two"]
    assert content[1] == picture


def test_what_a_model_says_between_tools_is_held_to_the_rules_too(run):
    model = scripted([["the secret", ToolCall("c", "double", {"x": 4})], "fine"])

    with pytest.raises(GuardrailError) as raised:
        run(agent(model=model, tools=[double], middleware=[guardrails(output="secret")]).run("hello"))

    assert raised.value.partial is None
    assert len(model.requests) == 1


def test_a_rewritten_answer_is_what_is_sent_on(run):
    model = scripted([["the secret", ToolCall("c", "double", {"x": 4})], "fine"])
    helper = agent(model=model, tools=[double], middleware=[guardrails(output=rule("secret", action="rewrite"))])

    turn = run(helper.run("hello"))

    assert texts(model.requests[1].messages)[1] == "the [removed]"
    assert texts(turn.messages)[1] == "the [removed]"
    assert turn.tool_executions[0].result == 8


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["safe ", "sec", "ret ", "secret ", "\N{SNOWMAN} ", "secre"]), min_size=1, max_size=8))
def test_no_text_is_streamed_that_a_rule_would_take_out(words):
    said = "".join(words)

    async def main():
        helper = agent(model=scripted([said or "-"]), middleware=[guardrails(output=rule("secret", action="rewrite"))])
        stream = helper.stream("hello")
        heard = "".join(
            [event.upp.delta["text"] async for event in stream if event.upp and event.upp.type == "text_delta"]
        )
        return heard, (await stream.turn).response.text

    heard, text = asyncio.run(main())
    assert heard == text == said.replace("secret", "[removed]")


def test_a_rejected_answer_is_not_streamed(run):
    helper = agent(model=scripted(["one two secret"]), middleware=[guardrails(output="secret")])
    heard = []

    async def main():
        async for event in helper.stream("hello"):
            heard.append(event.upp.type if event.upp else event.uap.type)

    with pytest.raises(GuardrailError):
        run(main())
    assert heard == ["step_start"]


def test_without_hold_a_stream_is_heard_as_it_comes_and_the_turn_is_rewritten(run):
    rules = rule("two", action="rewrite")
    helper = agent(model=scripted(["one two"]), middleware=[guardrails(output=rules, hold=False)])

    async def main():
        stream = helper.stream("hello")
        heard = [event.upp.delta["text"] async for event in stream if event.upp and event.upp.type == "text_delta"]
        return "".join(heard), (await stream.turn).response.text

    assert run(main()) == ("one two", "one [removed]")


def test_what_an_aborted_stream_had_is_held_to_the_rules(run):
    helper = agent(
        model=scripted([Reply("my secret is long and goes on", pace=0.02)]),
        middleware=[guardrails(output=rule("secret", action="rewrite"), hold=False)],
    )

    async def main():
        stream = helper.stream("hello")
        said = ""
        async for event in stream:
            if event.upp and event.upp.type == "text_delta":
                said += event.upp.delta["text"]
                if "secret" in said:
                    stream.abort()
        return await stream.turn

    turn = run(main())

    assert "secret" not in turn.response.text
    assert "[removed]" in turn.response.text


def test_structured_answers_are_held_to_schemas_and_texts(run):
    structure = {"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}}
    small = {"properties": {"n": {"maximum": 3}}}

    def helper(answer, output):
        return agent(model=scripted([answer]), structure=structure, middleware=[guardrails(output=output)])

    with pytest.raises(GuardrailError, match="rejected the output: /n"):
        run(helper('{"n": 4}', small).run("x"))
    assert run(helper('{"n": 3}', small).run("x")).data == {"n": 3}
    turn = run(helper('{"s": "a secret"}', rule("secret", action="rewrite")).run("x"))
    assert turn.data == {"s": "a [removed]"}


def test_a_rejected_answer_can_be_recovered(run):
    recovered = turn_of("I cannot say that.")

    def on_error(context, error):
        return recovered if isinstance(error, GuardrailError) else None

    helper = agent(
        model=scripted(["the secret"]), middleware=[hook_object(on_error=on_error), guardrails(output="secret")]
    )

    assert run(helper.run("hello")) == recovered


def test_what_a_rule_raises_comes_out_as_the_same_object(run):
    error = LookupError("mine")

    def broken(text):
        raise error

    with pytest.raises(LookupError) as raised:
        run(agent(model=scripted(["x"]), middleware=[guardrails(broken)]).run("hello"))

    assert raised.value is error


def test_a_rule_that_gives_something_else_is_told_so(run):
    with pytest.raises(TypeError, match="a rule must give True, False, None or a str, not int"):
        run(agent(model=scripted(["x"]), middleware=[guardrails(lambda text: 3)]).run("hello"))


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: rule("("), ValueError, "is no regular expression"),
        (lambda: rule(3), TypeError, "a rule is a regular expression, a function or a JSON Schema, not int"),
        (lambda: rule(re.compile(b"x")), TypeError, "must be of text"),
        (lambda: rule({}, action="rewrite"), TypeError, "can reject, not rewrite"),
        (lambda: rule("x", action="drop"), ValueError, 'action must be "reject" or "rewrite"'),
        (lambda: guardrails({"type": 3}), ValueError, "correct the JSON Schema"),
    ],
)
def test_rules_are_checked_when_they_are_made(make, error, words):
    with pytest.raises(error, match=words):
        make()


# memory


def count_words(text):
    return len(text.split())


def history_of(turns):
    messages = []
    for number in range(turns):
        messages += [UserMessage(f"question {number}"), AssistantMessage(f"answer {number}")]
    return messages


def test_memory_sends_the_last_turns_and_keeps_the_rest(run):
    model = scripted(["1", "2", "3"])
    sess = session(agent(model=model, middleware=[memory(max_turns=2)]))
    for text in ["a", "b", "c"]:
        run(sess.run(text))

    assert [texts(request.messages) for request in model.requests] == [["a"], ["a", "1", "b"], ["b", "2", "c"]]
    assert texts(sess.tree.history()) == ["a", "1", "b", "2", "c", "3"]


def test_memory_counts_everything_that_is_sent(run):
    def sent(**options):
        model = scripted(["{}"])
        limit = memory(max_tokens=40, counter=count_words)
        run(agent(model=model, middleware=[limit], **options).run(history_of(10), "now"))
        return len(model.requests[0].messages)

    plain = sent()
    assert plain < 21
    assert sent(system="word " * 15) < plain
    assert sent(tools=[double]) < plain
    assert sent(structure={"type": "object", "description": "word " * 15}) < plain


def test_memory_counts_pictures(run):
    model = scripted(["x"])
    history = [
        UserMessage(["look", Image.from_bytes(b"\x89PNG", "image/png")]),
        AssistantMessage("nice"),
        *history_of(1),
    ]

    run(agent(model=model, middleware=[memory(max_tokens=1000)]).run(history, "now"))

    assert texts(model.requests[0].messages) == ["question 0", "answer 0", "now"]


def test_memory_cuts_more_while_a_loop_of_tools_grows(run):
    @tool
    def read() -> str:
        return "word " * 30

    rounds = [[ToolCall(f"c{number}", "read", {})] for number in range(3)]
    model = scripted([*rounds, "done"])
    helper = agent(model=model, tools=[read], middleware=[memory(max_tokens=220, counter=count_words)])

    turn = run(helper.run(history_of(10), "go"))

    first = [texts(request.messages)[0] for request in model.requests]
    assert first[0] != first[-1]
    assert [request.messages[-1].type for request in model.requests][1:] == ["tool_result"] * 3
    assert turn.response.text == "done"


def test_a_turn_that_does_not_fit_ends_the_run_or_is_sent(run):
    model = scripted(["x"])
    long = "word " * 100
    history = history_of(3)

    with pytest.raises(UPPError, match="the last turn has 104 tokens") as raised:
        run(agent(model=model, middleware=[memory(max_tokens=50, counter=count_words)]).run(history, long))
    assert raised.value.code == "CONTEXT_LENGTH_EXCEEDED"
    assert model.requests == []

    limit = memory(max_tokens=50, counter=count_words, overflow="send")
    run(agent(model=model, middleware=[limit]).run(history, long))
    assert len(model.requests[0].messages) == 1


def test_memory_never_parts_a_result_from_its_call(run):
    call = AssistantMessage("", [ToolCall("c", "double", {"x": 1})])
    history = [
        UserMessage("a"),
        call,
        UserMessage("meanwhile"),
        ToolResultMessage([ToolResult("c", 2)]),
        AssistantMessage("two"),
    ]
    model = scripted(["x"])

    run(agent(model=model, tools=[double], middleware=[memory(max_turns=2)]).run(history, "now"))

    assert [message.type for message in model.requests[0].messages][:2] == ["user", "assistant"]
    assert len(model.requests[0].messages) == 6


@pytest.mark.parametrize("is_async", [False, True])
def test_what_is_cut_is_summed_up_once(run, is_async):
    given = []

    def summarize(text):
        given.append(text)
        return f"summary {len(given)}"

    async def summarize_async(text):
        await asyncio.sleep(0)
        return summarize(text)

    model = scripted(lambda request: "ok")
    window = memory(
        max_tokens=200,
        counter=count_words,
        summary_tokens=20,
        summarize=summarize_async if is_async else summarize,
    )
    sess = session(agent(model=model, middleware=[window]))
    for number in range(40):
        run(sess.run(f"question {number}"))

    first = model.requests[-1].messages[0]
    assert first.text.startswith("Summary of the earlier conversation:\nsummary")
    assert first.metadata == {"turntree": {"summary": True}}
    assert model.requests[-1].messages[1].type == "user"
    # Cut in one go and then left for some turns.
    assert 1 <= len(given) <= 6
    assert given[0].startswith("User: question 0\nAssistant: ok\n")
    assert all(f"Summary so far: summary {place}" in text for place, text in enumerate(given[1:], 1))
    assert "Summary of" not in "".join(texts(sess.tree.history()))


def test_a_summary_goes_with_its_session(run):
    given = []

    def helper():
        window = memory(max_turns=2, summarize=lambda text: given.append(text) or f"sum {len(given)}", name="window")
        return agent(model=scripted(lambda request: "ok"), middleware=[window])

    sess = session(helper())
    for number in range(4):
        run(sess.run(f"question {number}"))
    count = len(given)
    again = Session.from_json(sess.to_json(), helper())
    run(again.run("one more"))

    assert len(given) == count + 1
    assert given[-1].startswith(f"Summary so far: sum {count}\n")


def test_an_agent_or_an_llm_can_sum_up(run):
    for make in (lambda model: agent(model=model), lambda model: llm(model=model)):
        teller, model = scripted(["They said hello."]), scripted(["x"])
        window = memory(max_turns=1, summarize=make(teller))

        run(agent(model=model, middleware=[window]).run(history_of(2), "now"))

        assert "User: question 0" in teller.requests[0].messages[0].text
        assert texts(model.requests[0].messages) == [
            "Summary of the earlier conversation:\nThey said hello.",
            "now",
        ]


def test_what_the_summarizer_is_given_and_gives_is_bounded(run):
    given, model = [], scripted(["x"])
    window = memory(
        max_turns=1,
        summarize=lambda text: given.append(text) or "blah " * 1000,
        summary_tokens=30,
        summary_input_tokens=100,
    )

    run(agent(model=model, middleware=[window]).run(history_of(200), "now"))

    assert len(given[0]) <= 500
    assert "answer 199" in given[0]
    assert "(the beginning is left out)" in given[0]
    assert len(model.requests[0].messages[0].text) <= 30 * 4


def test_a_summarizer_that_fails_ends_the_run(run):
    error = LookupError("mine")

    def broken(text):
        raise error

    with pytest.raises(LookupError) as raised:
        run(agent(model=scripted([]), middleware=[memory(max_turns=1, summarize=broken)]).run(history_of(2), "now"))
    assert raised.value is error
    with pytest.raises(TypeError, match="summarize must give a str, not int"):
        run(
            agent(model=scripted([]), middleware=[memory(max_turns=1, summarize=lambda text: 3)]).run(
                history_of(2), "now"
            )
        )


def test_a_counter_that_gives_no_number_is_told_so(run):
    with pytest.raises(TypeError, match="counter must give a number of tokens, not 'x'"):
        run(agent(model=scripted([]), middleware=[memory(max_tokens=9, counter=lambda text: "x")]).run("now"))


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({}, ValueError, "memory needs a limit"),
        ({"max_tokens": 0}, ValueError, "max_tokens must be more than 0"),
        ({"max_turns": -1}, ValueError, "max_turns must be more than 0"),
        ({"max_turns": 1, "overflow": "drop"}, ValueError, 'overflow must be "error" or "send"'),
        ({"max_turns": 1, "summarize": 3}, TypeError, "summarize must be an agent"),
        ({"max_turns": 1, "counter": no_secret}, TypeError, "counter must be a function"),
    ],
)
def test_options_of_memory_are_checked(options, error, words):
    with pytest.raises(error, match=words):
        memory(**options)


# budget


def rounds(count):
    return scripted([*([ToolCall(f"c{number}", "double", {"x": 1})] for number in range(count)), "done"])


class Vendor:
    """A model whose calls cost 10 + 5 tokens and half a dollar each."""

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


def call(name):
    return [ToolCall(name, "double", {"x": 1})]


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
def test_a_budget_stops_before_the_next_call(run, limits, calls, limit, spent):
    model = costly(5)

    with pytest.raises(BudgetExceeded) as raised:
        run(agent(model=sold_by(model), tools=[double], middleware=[budget(**limits)]).run("go"))

    error = raised.value
    assert len(model.requests) == calls
    assert (error.resource, error.limit, error.spent) == (next(iter(limits)), limit, spent)
    assert error.partial.cycles == calls
    assert error.partial.messages[-1].type == "tool_result"
    assert isinstance(error, TurntreeError)


def test_a_budget_of_seconds_stops_a_slow_run(run):
    @tool
    async def wait() -> None:
        await asyncio.sleep(0.05)

    model = scripted([[ToolCall("c", "wait", {})], "done"])
    with pytest.raises(BudgetExceeded) as raised:
        run(agent(model=model, tools=[wait], middleware=[budget(seconds=0.03)]).run("go"))

    assert raised.value.resource == "seconds"
    assert 0.03 <= raised.value.spent < 5
    assert len(model.requests) == 1


def test_a_run_within_its_budget_ends_as_without_one(run):
    helper = agent(
        model=sold_by(costly(2)), tools=[double], middleware=[budget(steps=3, tokens=46, cost=2.0, seconds=60)]
    )

    assert run(helper.run("go")).response.text == "done"


def test_each_run_has_a_budget_of_its_own(run):
    helper = agent(model=scripted(["1", "2", "3"]), middleware=[budget(steps=1)])

    for _ in range(3):
        run(helper.run("go"))


def test_a_stream_stops_at_its_budget_too(run):
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


def test_a_budget_of_a_session_outlives_its_process(run):
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


def test_a_failed_run_has_spent_and_a_restored_one_too(run):
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


def test_a_resumed_run_counts_what_it_had_spent(run):
    vendor = Vendor([call("c"), UPPError("down", "PROVIDER_ERROR"), call("d"), "done"])
    sess = session(agent(model=sold_by(vendor), tools=[double], middleware=[budget(steps=2)]))
    with pytest.raises(UPPError):
        run(sess.run("go"))

    with pytest.raises(BudgetExceeded) as raised:
        run(sess.resume())

    assert (raised.value.spent, raised.value.partial.cycles) == (2, 2)


def test_a_cost_that_is_not_known_ends_the_run_unless_it_is_ignored(run):
    with pytest.raises(UPPError, match="calls have no known cost; add the model's price") as raised:
        run(agent(model=rounds(2), tools=[double], middleware=[budget(cost=1.0)]).run("go"))
    assert raised.value.partial.cycles == 1

    helper = agent(model=rounds(2), tools=[double], middleware=[budget(cost=1.0, unknown_cost="ignore")])
    assert run(helper.run("go")).response.text == "done"


def test_a_used_up_budget_can_be_recovered_with_what_there_is(run):
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
def test_options_of_budget_are_checked(options, words):
    with pytest.raises(ValueError, match=words):
        budget(**options)


@pytest.mark.parametrize("middleware", [logging(), guardrails("x"), memory(max_turns=1), budget(steps=1)])
def test_what_comes_with_turntree_has_a_name_and_a_short_repr(middleware):
    assert middleware.name in {"logging", "guardrails", "memory", "budget"}
    assert repr(middleware).startswith("AgentMiddleware(")
    assert len(repr(middleware)) < 300


def test_errors_can_be_pickled_and_copied():
    exceeded = BudgetExceeded("used up", resource="steps", limit=2, spent=2, partial=turn_of("x"))
    rejected = GuardrailError("no", rule="r", place="input", reason="why", text="t")

    for error in (exceeded, rejected):
        for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            assert (str(again), again.__dict__) == (str(error), error.__dict__)

"""What agent middleware reads and replaces: input, history, messages, turn."""

from __future__ import annotations

import asyncio
import threading

import pytest
from agent_middleware_support import (
    double,
    hook_object,
    texts,
    turn_of,
    with_tool,
)

from turntree import (
    agent,
    session,
)
from turntree.upp import (
    AssistantMessage,
    Image,
    UPPError,
    UserMessage,
    scripted,
)


def ids_of(context):
    """The ids that the metadata of a root run starts with."""
    return {"agentId": context.agent.id, "turnId": context.metadata["turnId"]}


# Replacing input, history and turn


@pytest.mark.parametrize("how", ["set", "replace"])
def test_replaced_input_is_sent_to_the_model_and_starts_the_turn(run, how):
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
def test_replaced_history_reaches_later_middleware_and_not_the_callers_list(run, how):
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


def test_context_returned_by_before_is_passed_to_all_later_hooks(run):
    seen = []

    def before(context):
        seen.append(context.replace(input="other"))
        context.metadata["kept"] = 1
        return seen[0]

    def after(context, turn):
        assert context is seen[0]
        assert context.metadata == {**ids_of(context), "kept": 1}
        return turn

    turn = run(agent(model=scripted(["x"]), middleware=[hook_object(before=before, after=after)]).run("hello"))

    assert turn.messages[0].text == "other"


def test_context_changes_after_the_start_of_the_run_have_no_effect(run):
    def late(context, event):
        context.input = "late"
        context.history.append(UserMessage("late"))

    model = with_tool()
    turn = run(agent(model=model, tools=[double], middleware=[hook_object(on_event=late)]).run("hello"))

    assert turn.messages[0].text == "hello"
    assert texts(model.requests[1].messages)[0] == "hello"


@pytest.mark.parametrize(
    ("value", "error"), [(3, "before must return a MiddlewareContext or None, not int"), ({}, "not dict")]
)
def test_before_must_return_a_context_or_none(run, value, error):
    with pytest.raises(TypeError, match=error):
        run(agent(model=scripted(["x"]), middleware=[hook_object(before=lambda context: value)]).run("hello"))


def test_setting_an_input_of_the_wrong_type_raises(run):
    def wrong(context):
        context.input = 3

    with pytest.raises(TypeError):
        run(agent(model=scripted(["x"]), middleware=[hook_object(before=wrong)]).run("hello"))


def test_history_of_non_messages_is_rejected(run):
    def wrong(context):
        context.history = ["no message"]

    with pytest.raises((TypeError, ValueError), match=r"context\.history\[0\]"):
        run(agent(model=scripted(["x"]), middleware=[hook_object(before=wrong)]).run("hello"))


def test_after_may_return_another_turn(run):
    other = turn_of("another")

    turn = run(agent(model=scripted(["x"]), middleware=[hook_object(after=lambda context, turn: other)]).run("hello"))

    assert turn == other


@pytest.mark.parametrize("value", [None, "text", 3])
def test_after_must_return_a_turn(run, value):
    with pytest.raises(TypeError, match="after must return a Turn; add `return turn`, not"):
        run(agent(model=scripted(["x"]), middleware=[hook_object(after=lambda context, turn: value)]).run("hello"))


def test_after_accepts_a_turn_dict_and_rejects_other_dicts(run):
    def with_after(give):
        return agent(model=scripted(["x"]), middleware=[hook_object(after=lambda context, turn: give(turn))])

    assert run(with_after(lambda turn: turn.to_dict()).run("hello")).response.text == "x"
    with pytest.raises(ValueError, match="at least one assistant message"):
        run(with_after(lambda turn: {"messages": []}).run("hello"))


def test_on_error_must_return_a_turn_or_none(run):
    middleware = [hook_object(on_error=lambda context, error: "text")]
    with pytest.raises(TypeError, match="on_error must return a Turn or None, not str"):
        run(agent(model=scripted([UPPError("down", "PROVIDER_ERROR")]), middleware=middleware).run("hello"))


def test_media_added_by_middleware_is_validated(run):
    def picture(context):
        context.input = ["see", Image.from_bytes(b"\x89PNG", "image/png")]

    model = scripted(["x"])
    turn = run(agent(model=model, middleware=[hook_object(before=picture)]).run("hello"))

    assert len(turn.messages[0].images) == 1


# Content of the context


def test_context_describes_the_run(run):
    seen = []

    def before(context):
        seen.append((context.agent, context.input, context.history, context.metadata, context.session))

    helper = agent(model=scripted(["x", "y"]), middleware=[hook_object(before=before)])
    turn = run(helper.run([UserMessage("before")], "hello"))

    owner, said, history, metadata, in_session = seen[0]
    assert owner is helper
    assert said == turn.messages[0]
    assert texts(history) == ["before"]
    assert metadata == {"agentId": owner.id, "turnId": metadata["turnId"]}
    assert in_session is None
    sess = session(helper)
    run(sess.run("again"))
    assert seen[1][4] is sess


def test_metadata_accepts_any_value_and_is_separate_for_each_run(run):
    seen = []

    def before(context):
        assert context.metadata == ids_of(context)
        context.metadata["lock"] = threading.Lock()

    def after(context, turn):
        seen.append(context.metadata["lock"])
        return turn

    helper = agent(model=scripted(["x", "y"]), middleware=[hook_object(before=before, after=after)])
    run(helper.run("1"))
    run(helper.run("2"))

    assert seen[0] is not seen[1]


def test_run_without_a_stream_emits_only_step_and_tool_events(run):
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


def test_on_event_receives_the_same_events_as_the_stream_reader(run):
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


def test_messages_can_be_replaced_for_one_model_call(run):
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


def test_replaced_messages_of_one_call_are_validated(run):
    middleware = [hook_object(on_model_request=lambda context, request: 3)]
    with pytest.raises(TypeError, match="the messages of on_model_request must be a Thread or a list"):
        run(agent(model=scripted(["x"]), middleware=middleware).run("hello"))


def test_after_receives_the_structured_data(run):
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


def test_metadata_starts_with_the_ids_of_the_run():
    seen = []

    class Recorder:
        name = "recorder"

        def before(self, context):
            seen.append(dict(context.metadata))

    inner = agent(model=scripted(["inner"]), middleware=[Recorder()], name="inner")
    call = {"toolName": f"agent_{inner.id}", "arguments": {"task": "look"}}
    outer = agent(model=scripted([[call], "outer"]), tools=[inner], middleware=[Recorder()])

    outer.run_sync("Go")

    of_outer, of_inner = seen
    assert of_outer["agentId"] == outer.id
    assert set(of_outer) == {"agentId", "turnId"}
    assert of_inner["agentId"] == inner.id
    assert (of_inner["parentAgentId"], of_inner["parentTurnId"]) == (outer.id, of_outer["turnId"])
    assert of_inner["turnId"] != of_outer["turnId"]

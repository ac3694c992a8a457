"""Agents: run methods, histories, inputs, turns, limits and options. UAP-1.0 §4, §5, §11."""

import asyncio
import uuid

import pytest
from agent_support import add, call, calls_for_ever, types

from turntree import Agent, ValidationError, agent
from turntree.execution import loop
from turntree.upp import (
    AssistantMessage,
    ErrorCode,
    Image,
    Text,
    Thread,
    TokenUsage,
    ToolUseStrategy,
    UPPError,
    UserMessage,
    scripted,
)

# Run methods


def test_run_returns_a_turn(run):
    helper = agent(model=scripted(["Hello."]))

    turn = run(helper.run("Hi"))

    assert turn.response.text == "Hello."
    assert types(turn) == ["user", "assistant"]
    assert turn.messages[0].text == "Hi"
    assert (turn.cycles, turn.tool_executions, turn.data) == (1, [], None)


def test_run_sync_works_without_an_event_loop():
    turn = agent(model=scripted([[call(a=1, b=2)], "3"]), tools=[add]).run_sync("1 + 2?")

    assert turn.response.text == "3"


def test_run_sync_works_inside_a_running_event_loop(run):
    async def cell():
        return agent(model=scripted([[call(a=1, b=2)], "3"]), tools=[add]).run_sync("1 + 2?")

    assert run(cell()).response.text == "3"


def test_all_four_run_methods_return_the_same_messages(run):
    def fresh():
        return agent(model=scripted([[call(a=1, b=2)], "It is 3."]), tools=[add])

    async def streamed():
        return await fresh().stream("1 + 2?").turn

    turns = [
        run(fresh().run("1 + 2?")),
        fresh().run_sync("1 + 2?"),
        run(streamed()),
        fresh().stream_sync("1 + 2?").turn,
    ]

    shapes = [
        [
            (message.type, message.text if message.type != "tool_result" else message.results)
            for message in turn.messages
        ]
        for turn in turns
    ]
    assert all(shape == shapes[0] for shape in shapes)
    assert all(turn.usage == turns[0].usage for turn in turns)


@pytest.mark.parametrize("arguments", [(), ("a", "b", "c"), ([], "b", "c")])
def test_wrong_argument_count_raises_type_error(run, arguments):
    helper = agent(model=scripted([]))

    with pytest.raises(TypeError, match="input"):
        run(helper.run(*arguments))
    with pytest.raises(TypeError, match="input"):
        helper.run_sync(*arguments)
    with pytest.raises(TypeError, match="input"):
        helper.stream(*arguments)


# Histories


def history():
    return [UserMessage("I am Ada."), AssistantMessage("Hello Ada.")]


@pytest.mark.parametrize("form", [list, tuple, Thread, lambda it: Thread(it).messages])
def test_every_form_of_history_is_sent_and_not_modified(run, form):
    model = scripted(["Ada."])
    messages = history()
    given = form(messages)
    before = list(given)

    turn = run(agent(model=model).run(given, "Who am I?"))

    assert list(given) == before
    assert [message.text for message in model.requests[0].messages] == [
        "I am Ada.",
        "Hello Ada.",
        "Who am I?",
    ]
    assert [message.text for message in turn.messages] == ["Who am I?", "Ada."]


def test_turns_extend_a_thread(run):
    model = scripted(["One.", "Two."])
    helper = agent(model=model)
    thread = Thread()

    async def talk():
        thread.append(await helper.run(thread, "First"))
        thread.append(await helper.run(thread, "Second"))

    run(talk())

    assert [message.text for message in thread] == ["First", "One.", "Second", "Two."]
    assert [message.text for message in model.requests[1].messages] == ["First", "One.", "Second"]


def test_object_with_messages_attribute_is_accepted_as_history(run):
    class Conversation:
        messages = history()

    model = scripted(["Ada."])

    run(agent(model=model).run(Conversation(), "Who am I?"))

    assert len(model.requests[0].messages) == 3


@pytest.mark.parametrize("wrong", [42, "text", [1], [object()], object()])
def test_invalid_history_error_names_the_argument(run, wrong):
    with pytest.raises((TypeError, ValueError), match="history"):
        run(agent(model=scripted(["x"])).run(wrong, "Hi"))


def test_empty_history_is_accepted(run):
    turn = run(agent(model=scripted(["x"])).run([], "Hi"))

    assert types(turn) == ["user", "assistant"]


# Inputs


def test_message_as_input_is_sent_unchanged(run):
    message = UserMessage("Hi", metadata={"app": {"n": 1}})

    turn = run(agent(model=scripted(["x"])).run(message))

    assert turn.messages[0] == message
    assert turn.messages[0].id == message.id


def test_blocks_and_lists_become_one_message(run):
    model = scripted(["x", "x", "x"])
    helper = agent(model=model)
    picture = Image.from_bytes(b"\x89PNG", "image/png")

    async def ask():
        await helper.run(Text("Look"))
        await helper.run(["Look:", picture])
        await helper.run({"type": "text", "text": "Look"})

    run(ask())

    contents = [request.messages for request in model.requests]
    assert [len(messages) for messages in contents] == [1, 1, 1]
    assert [block.type for block in contents[1][0].content] == ["text", "image"]
    assert contents[0][0].text == contents[2][0].text == "Look"


@pytest.mark.parametrize("wrong", [42, None, object(), [42], [[]], b"bytes", {"text": "typeless"}])
def test_invalid_input_error_names_the_argument(run, wrong):
    with pytest.raises((TypeError, ValueError), match="input"):
        run(agent(model=scripted(["x"])).run(wrong))


def test_unencodable_text_raises_an_error(run):
    with pytest.raises(ValidationError, match="input: the character at index 0 is a lone surrogate"):
        run(agent(model=scripted(["x"])).run("\ud800"))


# Content of a turn


def test_turn_with_tools_contains_each_message_once(run):
    model = scripted([[call(a=1, b=2), call(a=3, b=4)], [call(a=5, b=6)], "Done."])

    turn = run(agent(model=model, tools=[add]).run("Add."))

    assert types(turn) == [
        "user",
        "assistant",
        "tool_result",
        "assistant",
        "tool_result",
        "assistant",
    ]
    assert turn.cycles == 3
    assert [result.result for result in turn.messages[2].results] == [3, 7]
    assert turn.response == turn.messages[-1]
    assert [done.result for done in turn.tool_executions if done.tool_call_id.startswith("call_2")] == [11]
    assert not any(done.is_error for done in turn.tool_executions)


def test_usage_is_the_sum_of_the_calls(loopback, run):
    from turntree.testing import Reply, ToolCall
    from turntree.upp import openai

    server = loopback(
        [
            Reply(tool_calls=[ToolCall("add", {"a": 1, "b": 2})], input_tokens=10, output_tokens=5),
            Reply("3", input_tokens=20, output_tokens=7, cached_tokens=4),
        ]
    )
    model = openai("gpt", "completions", base_url=server.base_url, api_key="key")

    turn = run(agent(model=model, tools=[add]).run("1 + 2?"))

    assert isinstance(turn.usage, TokenUsage)
    assert (turn.usage.input_tokens, turn.usage.output_tokens) == (30, 12)
    assert turn.usage.total_tokens == 42
    assert turn.usage.cache_read_tokens == 4
    assert [cycle.input_tokens for cycle in turn.usage.cycles] == [10, 20]


def test_tool_executions_are_ordered_by_completion(run):
    quick_ran = asyncio.Event()

    async def slow() -> str:
        await asyncio.wait_for(quick_ran.wait(), 10)
        await asyncio.sleep(0.1)  # the duration that is asserted below
        return "slow"

    async def quick() -> str:
        quick_ran.set()
        return "quick"

    model = scripted([[call("slow"), call("quick")], "Done."])

    turn = run(agent(model=model, tools=[slow, quick]).run("Go"))

    assert [done.tool_name for done in turn.tool_executions] == ["quick", "slow"]
    assert [result.result for result in turn.messages[2].results] == ["slow", "quick"]
    assert turn.tool_executions[1].duration >= 90


def test_tool_calls_end_a_run_of_an_agent_without_tools(run):
    turn = run(agent(model=scripted([[call(a=1, b=2)]])).run("Hi"))

    assert turn.response.has_tool_calls
    assert turn.tool_executions == []


# Limits, UPP-1.2 §10.3


@pytest.mark.parametrize(("limit", "model_calls", "rounds"), [(1, 2, 1), (2, 3, 2), (10, 11, 10)])
def test_run_fails_at_the_limit_of_tool_rounds(run, limit, model_calls, rounds):
    model = scripted(calls_for_ever)
    reached = []
    helper = agent(
        model=model,
        tools=[add],
        execution=loop(limit),
        tool_strategy=ToolUseStrategy(on_max_iterations=reached.append),
    )

    with pytest.raises(UPPError) as caught:
        run(helper.run("Go"))

    error = caught.value
    assert error.code == ErrorCode.INVALID_REQUEST
    assert error.message == f"Tool execution exceeded maximum iterations ({limit})"
    assert len(model.requests) == model_calls
    assert reached == [limit]
    assert error.partial is not None
    assert error.partial.cycles == model_calls
    assert len(error.partial.tool_executions) == rounds
    assert error.partial.messages[0].text == "Go"
    assert error.partial.usage.total_tokens > 0


def test_limit_of_zero_disables_tool_execution(run):
    model = scripted(calls_for_ever)
    reached = []
    helper = agent(
        model=model,
        tools=[add],
        execution=loop(0),
        tool_strategy={"onMaxIterations": reached.append},
    )

    turn = run(helper.run("Go"))

    assert turn.response.has_tool_calls
    assert (turn.cycles, turn.tool_executions, reached) == (1, [], [])
    assert model.requests[0].tools


def test_limit_of_the_tool_strategy_applies_without_an_execution_strategy(run):
    model = scripted(calls_for_ever)

    with pytest.raises(UPPError, match=r"maximum iterations \(1\)"):
        run(agent(model=model, tools=[add], tool_strategy={"maxIterations": 1}).run("Go"))


def test_limit_of_tool_rounds_applies_to_streams(run):
    async def listen():
        stream = agent(model=scripted(calls_for_ever), tools=[add], execution=loop(1)).stream("Go")
        with pytest.raises(UPPError, match="maximum iterations") as caught:
            async for _ in stream:
                pass
        with pytest.raises(UPPError, match="maximum iterations"):
            await stream.turn
        return caught.value

    assert run(listen()).partial.cycles == 2


@pytest.mark.parametrize("wrong", [-1, 2**32])
def test_loop_rejects_a_limit_out_of_range(wrong):
    with pytest.raises(ValueError, match="max_iterations"):
        loop(wrong)


@pytest.mark.parametrize("wrong", [1.0, "1", True, None])
def test_loop_rejects_a_limit_that_is_not_a_number(wrong):
    with pytest.raises(TypeError, match="max_iterations"):
        loop(wrong)


# Construction


def test_error_of_a_missing_model_names_the_agent(run):
    with pytest.raises(UPPError, match="Ada") as caught:
        run(agent(name="Ada").run("Hi"))

    assert caught.value.code == ErrorCode.INVALID_REQUEST


def test_duplicate_tool_names_are_rejected_at_definition():
    with pytest.raises(ValueError, match="two tools are named 'add'"):
        agent(model=scripted(["x"]), tools=[add, add])


def test_ids_are_new_uuids_unless_given():
    given = str(uuid.uuid4())

    first, second = agent(), agent()

    assert uuid.UUID(first.id).version == 4
    assert first.id != second.id
    assert agent(id=given).id == given


def test_with_method_changes_options_and_id():
    base = agent(model=scripted([]), system="Be short.", name="base", tools=[add])

    derived = base.with_(system="Be long.")

    assert isinstance(derived, Agent)
    assert (derived.system, base.system) == ("Be long.", "Be short.")
    assert derived.model is base.model
    assert derived.tools == base.tools
    assert derived.id != base.id


def test_options_returns_a_copy():
    helper = agent(name="Ada")

    helper.options["name"] = "Bob"

    assert helper.name == "Ada"


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("model", "gpt-4o"),
        ("execution", 5),
        ("tools", [42]),
        ("params", [1]),
        ("config", 3),
        ("system", 42),
        ("structure", 42),
        ("strategy", 42),
        ("tool_strategy", 42),
        ("strategy", {"on_nothing": print}),
        ("strategy", {"on_step_start": 42}),
    ],
)
def test_invalid_option_error_names_the_option(option, wrong):
    with pytest.raises((TypeError, ValueError)) as caught:
        agent(**{option: wrong})

    named = "on_" if isinstance(wrong, dict) else option
    assert named in str(caught.value)


def test_system_and_params_reach_the_model(run):
    model = scripted(["x"])

    run(agent(model=model, system="Be short.", params={"temperature": 0.5}).run("Hi"))

    assert model.requests[0].system == "Be short."
    assert model.requests[0].params == {"temperature": 0.5}


def test_agent_repr_is_short():
    text = repr(agent(model=scripted([]), name="Ada", tools=[add], system="x" * 1000))

    assert "Ada" in text
    assert "add" in text
    assert len(text) < 200

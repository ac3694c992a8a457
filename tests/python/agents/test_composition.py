"""Strategies that run other agents: `sequence`, `parallel` and `route`."""

import asyncio

import pytest
from strategy_support import call, search, texts

from turntree import ApprovalRequired, LimitExceeded, Limits, Session, ToolContext, agent, session
from turntree.execution import fallback, loop, parallel, route, select, sequence
from turntree.upp import ToolCall, UPPError, scripted, tool


def says(*replies, name=None, **options):
    return agent(model=scripted(list(replies)), name=name, **options)


def echo(name):
    return agent(model=scripted(lambda request: f"{name}:{request.messages[-1].text}"), name=name)


async def test_each_agent_of_a_sequence_receives_the_text_before_it():
    writer = scripted(["done"])
    turn = await agent(execution=sequence(says("notes"), agent(model=writer))).run("go")

    assert turn.text == "done"
    assert texts(turn.messages) == ["go", "notes", "done"]
    assert texts(writer.requests[0].messages) == ["go", "notes"]
    assert [message.type for message in writer.requests[0].messages] == ["user", "user"]
    assert turn.cycles == 2
    assert turn.usage.total_tokens == sum(
        cycle["inputTokens"] + cycle["outputTokens"] for cycle in turn.model_dump()["usage"]["cycles"]
    )


async def test_the_third_agent_of_a_sequence_sees_the_first_response_once():
    last = scripted(["end"])
    turn = await agent(execution=sequence(says("one"), says("two"), agent(model=last))).run("go")

    assert texts(last.requests[0].messages) == texts(turn.messages)[:3] == ["go", "one", "two"]


@pytest.mark.parametrize(
    ("combine", "names"),
    [
        (sequence, ["first", "second"]),
        (parallel, ["first", "second"]),
        (lambda *agents: route(lambda _: "second", agents), ["second"]),
    ],
)
async def test_usage_by_agent_names_the_agents_of_a_strategy(combine, names):
    turn = await agent(execution=combine(says("one", name="first"), says("two words", name="second"))).run("go")

    assert sorted(turn.usage.by_agent) == names
    assert sum(usage.output_tokens for usage in turn.usage.by_agent.values()) == turn.usage.output_tokens > 0


async def test_usage_of_nested_strategies_has_every_agent():
    inner = agent(execution=sequence(says("x", name="a"), says("y", name="b")), name="inner")
    turn = await agent(execution=sequence(inner, says("z", name="c"))).run("go")

    assert sorted(turn.usage.by_agent) == ["a", "b", "c", "inner"]


@pytest.mark.parametrize("combine", [sequence, parallel])
async def test_limits_count_the_agents_of_a_strategy(combine):
    desk = agent(execution=combine(says("one"), says("two")))

    assert (await desk.run("go", limits=Limits(requests=2))).cycles == 2
    with pytest.raises(LimitExceeded):
        await agent(execution=combine(says("one"), says("two"))).run("go", limits=Limits(requests=1))


async def test_agents_in_a_custom_strategy_are_sub_runs():
    seen = []

    @tool
    def look(context: ToolContext) -> str:
        seen.append((context.parent_agent_id, context.deps))
        return ""

    helper = agent(tools=[look], name="helper")

    class Twice:
        name = "twice"

        async def execute(self, context):
            await helper.run("first")
            return await helper.run("second")

    replies = [[call("look")], "a", [call("look")], "b"]
    outer = agent(execution=Twice(), model=scripted(replies), name="outer")
    turn = await outer.run("go", deps="mine")

    assert seen == [(outer.id, "mine")] * 2
    assert turn.text == "b"
    assert len(turn.usage.by_agent["helper"].cycles) == 4


async def test_agents_of_strategies_that_call_each_other_end_at_the_depth_limit():
    class Again:
        name = "again"

        async def execute(self, context):
            return await context.agent.run("deeper")

    with pytest.raises(UPPError, match="agents deep"):
        await agent(execution=Again(), model=scripted([])).run("go")


async def test_sequence_keeps_tool_records_and_the_last_structured_answer():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    first = says([call("search", query="x")], "found", tools=[search])
    turn = await agent(execution=sequence(first, says('{"n": 1}', structure=schema))).run("go")

    assert [record.tool_name for record in turn.tool_executions] == ["search"]
    assert turn.data == {"n": 1}


async def test_sequence_keeps_the_usage_of_sub_agents_by_name():
    def chief():
        return says([call("helper", task="x")], "done", tools=[says("hi", name="worker").to_tool("helper")])

    alone = (await chief().run("go")).usage.by_agent["worker"].output_tokens
    turn = await agent(execution=sequence(chief(), chief())).run("go")

    assert turn.usage.by_agent["worker"].output_tokens == 2 * alone > 0


async def test_sequence_streams_the_text_of_every_agent():
    stream = agent(execution=sequence(says("one"), says("two"))).stream("go")
    pieces = [event.upp.delta["text"] async for event in stream if event.upp and event.upp.type == "text_delta"]

    assert "".join(pieces) == "onetwo"
    assert (await stream.turn).text == "two"


async def test_parallel_agents_run_at_the_same_time_and_are_merged_in_order():
    both = asyncio.Barrier(2) if hasattr(asyncio, "Barrier") else None
    met = []

    @tool
    async def meet() -> str:
        met.append(1)
        if both is not None:
            await both.wait()
        return "met"

    one = says([call("meet")], "a", tools=[meet])
    other = says([call("meet")], "b", tools=[meet])
    turn = await agent(execution=parallel(one, other, merge=lambda turns: "+".join(t.text for t in turns))).run("go")

    assert texts(turn.messages) == ["go", "a+b"]
    assert len(met) == len(turn.tool_executions) == 2
    assert turn.cycles == 4


async def test_parallel_without_merge_names_the_agents():
    turn = await agent(execution=parallel(says("x", name="one"), says("y", name="two"))).run("go")

    assert turn.text == "one: x\n\ntwo: y"


async def test_stream_of_parallel_agents_has_the_merged_text_only():
    async def merge(turns):
        return "merged"

    stream = agent(execution=parallel(says("x"), says("y"), merge=merge)).stream("go")
    events = [event async for event in stream]

    pieces = [event.upp.delta["text"] for event in events if event.upp and event.upp.type == "text_delta"]
    assert "".join(pieces) == "merged"
    assert (await stream.turn).text == "merged"


async def test_an_error_of_one_parallel_agent_cancels_the_others():
    ended = asyncio.Event()
    began = asyncio.Event()

    @tool
    async def wait() -> str:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    @tool
    async def after() -> str:
        await began.wait()
        return ""

    failing = agent(model=scripted([[call("after")], UPPError("no", code="RATE_LIMITED")]), tools=[after])
    slow = says([call("wait")], tools=[wait])
    with pytest.raises(UPPError, match="no"):
        await agent(execution=parallel(slow, failing)).run("go")
    assert ended.is_set()


@pytest.mark.parametrize("merge", [lambda turns: 1, lambda turns: turns])
async def test_merge_must_return_text(merge):
    with pytest.raises(TypeError, match="merge must return the text of the answer"):
        await agent(execution=parallel(says("x"), says("y"), merge=merge)).run("go")


async def test_route_runs_the_agent_that_the_function_returns_or_names():
    sales, support = echo("sales"), echo("support")

    async def choose(context):
        return "sales" if "buy" in context.input.text else support

    desk = agent(execution=route(choose, [sales, support]))

    assert (await desk.run("buy")).text == "sales:buy"
    assert (await desk.run("help")).text == "support:help"
    with pytest.raises(ValueError, match="choose returned 'x'"):
        await agent(execution=route(lambda context: "x", [sales])).run("go")


async def test_an_agent_whose_strategy_only_runs_agents_needs_no_model():
    class Asks:
        name = "asks"

        async def execute(self, context):
            return await agent(model=scripted(["Hello"])).run(context.input)

    for execution in (route(lambda context: agent(model=scripted(["Hello"]))), Asks()):
        desk = agent(execution=execution)
        assert (await desk.run("hi")).text == "Hello"
        assert (await session(desk).run("hi")).text == "Hello"
        assert (await desk.stream("hi")).text == "Hello"


@pytest.mark.parametrize(
    "execution", [select(lambda context: loop()), sequence(agent(name="writer"))], ids=["own call", "call of an agent"]
)
async def test_a_call_without_any_model_names_the_agent_that_needs_one(execution):
    with pytest.raises(UPPError, match="agent 'desk' has no model; give it one"):
        await agent(name="desk", execution=execution).run("hi")


async def test_agents_without_a_model_inherit_that_of_the_agent_whose_strategy_runs_them():
    inner = agent(name="inner", execution=route(lambda context: agent(name="writer")))
    model = scripted([call("inner", task="x"), "written", "done"])

    turn = await agent(model=model, tools=[inner.to_tool("inner")]).run("Go")

    assert (turn.tool_executions[0].result, turn.text) == ("written", "done")


async def test_agents_of_a_strategy_receive_the_dependencies_of_the_run():
    seen = []

    @tool
    def look(context: ToolContext) -> str:
        seen.append(context.deps)
        return ""

    await agent(execution=sequence(says([call("look")], "done", tools=[look]))).run("go", deps="mine")

    assert seen == ["mine"]


async def test_session_stores_the_turn_of_a_sequence_with_a_checkpoint():
    desk = agent(execution=sequence(echo("one"), echo("two")))
    talk = session(desk)
    await talk.run("go")

    again = Session.from_json(talk.to_json(), desk)
    turn = await again.run("more")

    assert texts(again.tree.history())[:3] == ["go", "one:go", "two:one:go"]
    assert turn.text == "two:one:more"
    assert talk.checkpoints[-1].step == 2


@pytest.mark.parametrize("make", [lambda: sequence("x"), lambda: parallel(says("a"), 1), lambda: route(str, [1])])
def test_other_objects_than_agents_are_refused(make):
    with pytest.raises(TypeError, match="must be an Agent"):
        make()


@tool(approval="ask")
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def cashier(*replies, name="cashier"):
    return agent(model=scripted(list(replies)), tools=[pay], name=name)


def asks(call_id, amount):
    return ToolCall(call_id, "pay", {"amount": amount})


async def test_a_sequence_waits_for_an_approval_and_goes_on_after_it():
    first, last = says("notes", name="first"), says("done", name="last")
    middle = cashier(asks("p1", 5), "paid it")
    desk = agent(execution=sequence(first, middle, last))
    chat = session(desk)

    with pytest.raises(ApprovalRequired) as waiting:
        await chat.run("go")

    assert [call.tool_call_id for call in waiting.value.calls] == ["p1"]
    assert [call.arguments for call in chat.pending] == [{"amount": 5}]
    assert chat.is_unfinished

    chat.approve("p1", arguments={"amount": 4})
    turn = await chat.resume()

    assert texts(turn.messages)[-1] == "done"
    assert [record.result for record in turn.tool_executions] == ["paid 4"]
    assert len(first.model.requests) == 1
    assert len(middle.model.requests) == 2
    assert sorted(turn.usage.by_agent) == ["cashier", "first", "last"]
    assert turn.cycles == 4
    assert not chat.pending


async def test_a_waiting_strategy_resumes_in_another_process():
    chat = session(agent(execution=sequence(says("notes"), cashier(asks("p1", 5)))))
    with pytest.raises(ApprovalRequired):
        await chat.run("go")

    first, middle = says(), cashier("paid it")
    again = Session.from_json(chat.to_json(), agent(execution=sequence(first, middle)))
    assert [call.tool_call_id for call in again.pending] == ["p1"]
    again.deny("p1", "too much")
    turn = await again.resume()

    assert turn.text == "paid it"
    assert turn.tool_executions[0].is_error
    assert len(first.model.requests) == 0


async def test_parallel_agents_wait_together():
    one, other = cashier(asks("a", 1), "one", name="one"), cashier(asks("b", 2), "two", name="two")
    plain = says("three", name="plain")
    chat = session(agent(execution=parallel(one, other, plain)))

    with pytest.raises(ApprovalRequired) as waiting:
        await chat.run("go")
    assert sorted(call.tool_call_id for call in waiting.value.calls) == ["a", "b"]
    chat.approve_all()
    turn = await chat.resume()

    assert turn.text == "one: one\n\ntwo: two\n\nplain: three"
    assert len(plain.model.requests) == 1


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_custom_strategy_waits_for_the_approval_of_an_agent_that_it_runs(streamed):
    helper, inner = says("advice"), cashier(asks("p1", 5), "paid it")

    class Careful:
        name = "careful"

        async def execute(self, context):
            advice = await helper.run(context.input)
            return await inner.run(advice.text)

    chat = session(agent(execution=Careful(), model=scripted([])))

    async def run(start):
        if not streamed:
            return await start()
        stream = chat.stream("go") if start == chat.run else chat.resume_stream()
        async for _ in stream:
            pass
        return await stream.turn

    with pytest.raises(ApprovalRequired):
        await (run(chat.run) if streamed else chat.run("go"))
    chat.approve("p1")
    turn = await run(chat.resume)

    assert turn.text == "paid it"
    assert len(helper.model.requests) == 1


async def test_nested_strategies_wait_at_any_depth():
    inner = agent(execution=sequence(says("a"), cashier(asks("p1", 5), "b")), name="inner")
    chat = session(agent(execution=sequence(inner, says("c"))))
    with pytest.raises(ApprovalRequired):
        await chat.run("go")

    assert [call.tool_call_id for call in chat.pending] == ["p1"]
    chat.approve("p1")

    assert (await chat.resume()).text == "c"


async def test_a_strategy_makes_a_checkpoint_after_each_agent():
    chat = session(agent(execution=sequence(says("one"), says("two"), says("three"))))
    stream = chat.stream("go")
    made = [event.uap.data["checkpointId"] async for event in stream if event.uap and event.uap.type == "checkpoint"]

    steps = [checkpoint.step for checkpoint in chat.checkpoints]
    assert steps == [1, 2, 3, 3]
    assert len(chat.checkpoints[1].sub_agent_states) == 2
    assert set(made) <= {checkpoint.id for checkpoint in chat.checkpoints}
    assert len(made) == 4


async def test_a_failed_strategy_resumes_with_the_agent_that_failed():
    first = says("notes")
    flaky = agent(model=scripted([UPPError("down", code="PROVIDER_ERROR"), "fine"]))
    chat = session(agent(execution=sequence(first, flaky)))
    with pytest.raises(UPPError, match="down"):
        await chat.run("go")

    turn = await chat.resume()

    assert texts(turn.messages) == ["go", "notes", "fine"]
    assert len(first.model.requests) == 1


async def test_limits_count_the_agents_that_ended_before_a_resume():
    first, second = says("one"), cashier(asks("p1", 5), "two")
    chat = session(agent(execution=sequence(first, second)))
    with pytest.raises(ApprovalRequired):
        await chat.run("go")
    chat.approve("p1")

    with pytest.raises(LimitExceeded):
        await chat.resume(limits=Limits(requests=2))


async def test_a_session_with_a_strategy_runs_again_after_a_waiting_run():
    chat = session(agent(execution=sequence(says("x", "y"), cashier(asks("p1", 5), "paid", "more"))))
    with pytest.raises(ApprovalRequired):
        await chat.run("go")
    chat.approve("p1")
    await chat.resume()
    turn = await chat.run("again")

    assert texts(turn.messages) == ["again", "y", "more"]
    assert texts(chat.tree.history()) == ["go", "x", "", "paid 5", "paid", "again", "y", "more"]


async def test_without_a_session_a_waiting_strategy_says_that_it_needs_one():
    with pytest.raises(ApprovalRequired, match="run the agent in a session"):
        await agent(execution=sequence(cashier(asks("p1", 5)))).run("go")


async def test_on_approval_of_the_run_decides_about_the_agents_of_a_strategy():
    seen = []

    async def decide(pending):
        seen.append(pending.tool_call_id)
        return True

    turn = await agent(execution=sequence(cashier(asks("p1", 5), "paid"))).run("go", on_approval=decide)

    assert seen == ["p1"]
    assert turn.tool_executions[0].result == "paid 5"


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_chosen_strategy_waits_for_an_approval_of_the_agents_own_tool(streamed):
    model = scripted([asks("p1", 5), asks("p2", 6), "paid both"])
    chat = session(agent(model=model, tools=[pay], execution=fallback(select(lambda context: loop()), loop())))

    async def go(start):
        if not streamed:
            return await start()
        stream = chat.stream("go") if start is begin else chat.resume_stream()
        async for _ in stream:
            pass
        return await stream.turn

    def begin():
        return chat.run("go")

    with pytest.raises(ApprovalRequired):
        await go(begin)
    chat.approve("p1")
    with pytest.raises(ApprovalRequired):
        await go(chat.resume)
    again = Session.from_json(chat.to_json(), chat.agent)
    assert [call.tool_call_id for call in again.pending] == ["p2"]
    again.deny("p2")
    turn = await again.resume()

    assert turn.text == "paid both"
    assert [record.is_error for record in turn.tool_executions] == [False, True]
    assert len(model.requests) == 3


@pytest.mark.parametrize("make", [sequence, parallel])
def test_a_list_of_agents_says_how_to_pass_them(make):
    with pytest.raises(TypeError, match=rf"must be an Agent, not list; write {make.__name__}\(\*agents\)"):
        make([says("a"), says("b")])


def test_two_agents_of_a_route_cannot_have_one_name():
    with pytest.raises(ValueError, match="two agents are named 'a'.*rename one"):
        route(lambda context: "a", [agent(model=scripted(["1"]), name="a"), agent(model=scripted(["2"]), name="a")])


async def test_a_limit_keeps_the_turns_of_the_agents_that_have_ended():
    one, two = agent(name="one", model=scripted(["1"] * 3)), agent(name="two", model=scripted(["2"] * 3))

    with pytest.raises(LimitExceeded) as error:
        await agent(execution=sequence(one, two, one)).run("Go.", limits=Limits(requests=2))

    assert [message.text for message in error.value.partial.messages] == ["Go.", "1", "2"]
    assert error.value.partial.cycles == 2

    with pytest.raises(LimitExceeded) as error:
        await agent(execution=parallel(one, two, two)).run("Go.", limits=Limits(requests=2))
    assert [message.text for message in error.value.partial.messages] == ["Go.", "one: 1\n\ntwo: 2"]
    assert error.value.partial.cycles == 2


async def test_a_limit_within_an_agent_keeps_its_incomplete_turn():
    one, two = says("1"), agent(name="two", model=scripted([call("search", query="x")] * 3), tools=[search])

    with pytest.raises(LimitExceeded) as error:
        await agent(execution=sequence(one, two)).run("Go.", limits=Limits(requests=2))

    assert [message.type for message in error.value.partial.messages] == [
        "user",
        "assistant",
        "assistant",
        "tool_result",
    ]
    assert [record.tool_name for record in error.value.partial.tool_executions] == ["search"]


def test_strategies_of_agents_are_equal_and_hashable_by_their_agents():
    one, other = says(name="one"), says(name="other")

    def choose(context):
        return one

    same = [
        (sequence(one, other), sequence(one, other)),
        (parallel(one, other, merge=str), parallel(one, other, merge=str)),
        (route(choose, [one, other]), route(choose, [one, other])),
    ]
    different = [
        sequence(one, other),
        sequence(other, one),
        sequence(one),
        parallel(one, other),
        parallel(one, other, merge=str),
        parallel(one),
        route(choose, [one]),
        route(choose, [other]),
        route(str, [one]),
    ]

    assert all(first == second and hash(first) == hash(second) for first, second in same)
    assert len(set(different)) == len(different)
    assert fallback(sequence(one), loop()) == fallback(sequence(one), loop()) != fallback(sequence(other), loop())


def test_functions_that_cannot_be_hashed_do_not_prevent_the_hash_of_a_strategy():
    class Chooses(list):
        def __call__(self, *_):
            return self[0]

    one = says(name="one")

    assert hash(route(Chooses([one]), [one])) == hash(route(Chooses([one]), [one]))
    assert route(Chooses([one]), [one]) == route(Chooses([one]), [one])
    assert hash(parallel(one, merge=Chooses())) == hash(parallel(one, merge=Chooses()))


def test_reprs_of_strategies_show_their_agents():
    one, other = says(name="one"), says(name="other")
    first, second = repr(one), repr(other)

    assert repr(sequence(one, other)) == f"sequence({first}, {second})"
    assert repr(parallel(one, other)) == f"parallel({first}, {second})"
    assert repr(parallel(one, merge=str)) == f"parallel({first}, merge=<class 'str'>)"
    assert repr(route(str, [one, other])) == f"route(<class 'str'>, [{first}, {second}])"
    assert repr(sequence(*[one] * 12)).endswith(f"{first}, … 2 more)")
    assert len(repr(sequence(*[says(name="x" * 10_000, system="y" * 10_000)] * 100))) < 3_000

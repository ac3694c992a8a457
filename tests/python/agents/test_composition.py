"""Strategies that run other agents: `sequence`, `parallel` and `route`."""

import asyncio

import pytest
from strategy_support import call, search, texts

from turntree import Session, ToolContext, agent, session
from turntree.execution import parallel, route, sequence
from turntree.upp import UPPError, scripted, tool


def says(*replies, name=None, **options):
    return agent(model=scripted(list(replies)), name=name, **options)


def echo(name):
    return agent(model=scripted(lambda request: f"{name}:{request.messages[-1].text}"), name=name)


async def test_each_agent_of_a_sequence_receives_the_text_before_it():
    writer = scripted(["done"])
    turn = await agent(execution=sequence(says("notes"), agent(model=writer))).run("go")

    assert turn.text == "done"
    assert texts(turn.messages) == ["go", "notes", "notes", "done"]
    assert texts(writer.requests[0].messages) == ["go", "notes", "notes"]
    assert turn.cycles == 2
    assert turn.usage.total_tokens == sum(
        cycle["inputTokens"] + cycle["outputTokens"] for cycle in turn.model_dump()["usage"]["cycles"]
    )


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

    assert texts(again.tree.history())[:4] == ["go", "one:go", "one:go", "two:one:go"]
    assert turn.text == "two:one:more"
    assert talk.checkpoints[-1].step == 2


@pytest.mark.parametrize("make", [lambda: sequence("x"), lambda: parallel(says("a"), 1), lambda: route(str, [1])])
def test_other_objects_than_agents_are_refused(make):
    with pytest.raises(TypeError, match="must be an Agent"):
        make()

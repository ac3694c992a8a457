"""Agents as tools of other agents: models lent, places counted, work stopped."""

import asyncio
import gc
import itertools
import threading
import time
import weakref

import pytest
from support.sub_agent_family import call, calling, chain, echo, kept_places, once, results

from turntree import ToolContext, agent, query, session
from turntree.upp import Reply, Tool, UPPError, llm, scripted, tool

# The tool


def test_a_tool_made_of_an_agent_has_the_specified_shape():
    helper = agent(model=scripted(["x"]), system="You explore code. Never tell anyone about the vault.")

    made = helper.to_tool()

    assert isinstance(made, Tool)
    assert made.name == f"agent_{helper.id}"
    assert made.description == "You explore code."
    assert made.parameters == {
        "type": "object",
        "properties": {"task": {"type": "string", "description": "The task for the sub-agent to perform"}},
        "required": ["task"],
    }


@pytest.mark.parametrize(
    ("system", "description"),
    [
        (None, "Hands a task to another agent and gives its answer."),
        ("   ", "Hands a task to another agent and gives its answer."),
        ("Version 1.5 of the helper! Secret.", "Version 1.5 of the helper!"),
        ("Title line\nSecret second line.", "Title line"),
        ([{"type": "text", "text": "Blocks are read. Secret."}], "Blocks are read."),
        ("ä" * 500, "ä" * 199 + "…"),
    ],
)
def test_the_description_is_the_first_sentence_of_the_system_prompt(system, description):
    assert agent(system=system).to_tool().description == description


def test_a_named_agent_without_a_system_prompt_is_described_by_its_name():
    assert "'scout'" in agent(name="scout").to_tool().description


def test_name_description_and_schema_may_be_given():
    schema = {"type": "object", "properties": {"question": {"type": "string"}}, "required": ["question"]}

    made = agent().to_tool("ask_expert", "Knows it all.", schema)

    assert (made.name, made.description, made.parameters) == ("ask_expert", "Knows it all.", schema)


@pytest.mark.parametrize("wrong", [["a", "list"], "text", 3])
def test_a_schema_that_is_no_dict_is_refused(wrong):
    with pytest.raises(TypeError, match="parameter_schema"):
        agent().to_tool(parameter_schema=wrong)


@pytest.mark.parametrize(
    ("arguments", "task"),
    [
        ({"task": "this"}, "this"),
        ({"task": "this", "else": "that"}, "this"),
        ({"question": "why?"}, "why?"),
        ({"topic": "tea", "depth": 3}, '{"topic":"tea","depth":3}'),
        ({"depth": 3}, '{"depth":3}'),
        ({}, "{}"),
    ],
)
def test_the_task_is_what_the_arguments_name(run, arguments, task):
    helper = agent(model=scripted(echo)).to_tool("helper", parameter_schema={"type": "object"})
    lead = agent(model=calling("helper", **arguments), tools=[helper])

    assert results(run(lead.run("go"))) == [f"did {task}"]
    assert run(helper.run(**arguments)) == f"did {task}"


def test_an_agent_among_the_tools_becomes_one(run):
    helper = agent(model=scripted(echo), system="Helps.")
    lead = agent(model=calling(f"agent_{helper.id}", task="count"), tools=[helper])

    turn = run(lead.run("go"))

    assert [made.name for made in lead.tools] == [f"agent_{helper.id}"]
    assert turn.response.text == "did count"
    assert lead.with_(system="other").run_sync("go").response.text == "did count"


def test_a_structured_answer_comes_as_data(run):
    helper = agent(
        model=scripted(['{"n": 3}']),
        structure={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    )
    lead = agent(model=calling("count", task="t"), tools=[helper.to_tool("count")])

    assert results(run(lead.run("go"))) == [{"n": 3}]


def test_arguments_that_break_the_schema_are_told_to_the_model(run):
    helper = agent(model=scripted(echo))
    lead = agent(model=calling("helper", job="t"), tools=[helper.to_tool("helper")])

    turn = run(lead.run("go"))

    assert turn.tool_executions[0].is_error
    assert '"task" is a required property' in results(turn)[0]


def test_two_agents_of_one_name_are_refused_when_the_run_starts(run):
    tools = [agent(model=scripted(["x"])).to_tool("helper") for _ in range(2)]

    with pytest.raises(UPPError, match="two tools are named 'helper'") as caught:
        run(agent(model=scripted(["x"]), tools=tools).run("go"))

    assert caught.value.code == "INVALID_REQUEST"


def test_what_is_no_tool_is_refused():
    with pytest.raises(TypeError, match="functions, Tool objects or agents"):
        agent(tools=[3])


# Models lent


def test_a_helper_without_a_model_borrows_that_of_whoever_calls_it(run):
    helper = agent(system="I help.")

    def reply(request):
        if request.system == "I help.":
            return f"{request.params['tone']} help"
        return str(request.messages[-1].results[0].result) if len(request.messages) > 1 else call("helper", task="t")

    leads = [
        agent(model=scripted(reply, model_id=name), params={"tone": name}, tools=[helper.to_tool("helper")])
        for name in ("dry", "warm")
    ]

    async def main():
        return await asyncio.gather(*(lead.run("go") for lead in leads))

    assert [turn.response.text for turn in run(main())] == ["dry help", "warm help"]


def test_a_helper_keeps_its_own_params_on_a_borrowed_model(run):
    def reply(request):
        if request.system == "I help.":
            return str(dict(request.params))
        return str(request.messages[-1].results[0].result) if len(request.messages) > 1 else call("helper", task="t")

    helper = agent(system="I help.", params={"top": 1})
    lead = agent(model=scripted(reply), params={"tone": "dry"}, tools=[helper.to_tool("helper")])

    assert run(lead.run("go")).response.text == "{'top': 1}"


def test_a_helper_with_a_model_uses_it_and_gets_nothing_of_the_other(run):
    own = scripted([Reply("mine")])
    helper = agent(model=own)
    lead = agent(model=calling("helper", task="t"), params={"key": "secret"}, tools=[helper.to_tool("helper")])

    assert run(lead.run("go")).response.text == "mine"
    assert not own.requests[0].params


def test_models_are_lent_through_agents_that_have_none(run):
    leaf = agent(system="leaf")
    middle = agent(system="middle", tools=[leaf.to_tool("leaf")])

    def reply(request):
        if request.system == "leaf":
            return "from the leaf"
        if request.messages[-1].type == "tool_result":
            return str(request.messages[-1].results[0].result)
        return call("leaf" if request.system == "middle" else "middle", task="t")

    lead = agent(model=scripted(reply), tools=[middle.to_tool("middle")])

    assert run(lead.run("go")).response.text == "from the leaf"


def test_a_helper_outside_any_run_is_refused_by_name(run):
    helper = agent(name="scout")

    for start in (lambda: helper.run("go"), lambda: query(helper, "go")):
        with pytest.raises(UPPError, match="agent 'scout' has no model") as caught:
            run(start())
        assert caught.value.code == "INVALID_REQUEST"


async def by_hand(helper):
    return (await helper.run("t")).response.text


async def by_stream(helper):
    return (await helper.stream("t")).response.text


async def by_query(helper):
    return (await query(helper, "t")).turn.response.text


async def by_session(helper):
    return (await session(helper).run("t")).response.text


async def by_task(helper):
    return (await asyncio.create_task(helper.run("t"))).response.text


async def by_thread(helper):
    return (await asyncio.to_thread(helper.run_sync, "t")).response.text


async def by_map(helper):
    (turn,) = [turn async for turn in helper.map(["t"])]
    return turn.response.text


@pytest.mark.parametrize("way", [by_hand, by_stream, by_query, by_session, by_task, by_thread, by_map])
def test_a_run_by_hand_in_a_tool_is_inside_of_the_run(run, way):
    place, places = kept_places()
    helper = agent(system="I help.", tools=[place])

    @tool
    async def delegate() -> str:
        return await way(helper)

    def reply(request):
        if request.messages[-1].type == "tool_result":
            return "done"
        return call("place") if request.system == "I help." else call("delegate")

    lead = agent(model=scripted(reply), tools=[delegate])

    assert run(lead.run("go")).response.text == "done"
    assert places[0].agent_id == helper.id
    assert places[0].parent_agent_id == lead.id
    assert places[0].parent_turn_id
    assert places[0].depth == 1


@pytest.mark.parametrize("inline", [False, True])
def test_a_run_by_hand_in_a_synchronous_tool_is_inside_of_the_run(run, inline):
    helper = agent(system="I help.")

    @tool(inline=inline)
    def delegate() -> str:
        return helper.run_sync("t").response.text

    def reply(request):
        if request.system == "I help.":
            return "helped"
        return "done" if request.messages[-1].type == "tool_result" else call("delegate")

    lead = agent(model=scripted(reply), tools=[delegate])

    assert results(run(lead.run("go"))) == ["helped"]
    assert results(lead.run_sync("go")) == ["helped"]
    assert [event.upp.delta["result"] for event in lead.stream_sync("go") if event.upp and "result" in event.upp.delta]


def test_after_the_tool_nobody_is_inside_of_the_run(run):
    helper = agent(system="I help.")

    @tool(inline=True)
    def nothing() -> str:
        return "x"

    async def main():
        await agent(model=calling("nothing"), tools=[nothing]).run("go")
        with pytest.raises(UPPError, match="has no model"):
            await helper.run("t")

    run(main())


def test_a_bare_llm_lends_nothing_but_what_it_is_inside_of(run):
    helper = agent(system="I help.")

    def reply(request):
        if request.system == "I help.":
            return "helped"
        return str(request.messages[-1].results[0].result) if len(request.messages) > 1 else call("helper", task="t")

    alone = llm(model=scripted(reply), tools=[helper.to_tool("helper")])
    turn = run(alone.generate("go"))
    assert turn.tool_executions[0].is_error
    assert "has no model" in results(turn)[0]

    @tool
    async def think() -> str:
        return (await llm(model=scripted(reply), tools=[helper.to_tool("helper")]).generate("go")).response.text

    lead_model = scripted(lambda request: reply(request) if request.system else once(request, "think"))
    assert results(run(agent(model=lead_model, tools=[think]).run("go"))) == ["helped"]


# Places


def test_three_deep_each_run_knows_its_parent(run):
    place, places = kept_places()
    names = ["lead", "first", "second", "third"]
    made = agent(system=names[3], model=scripted(lambda request: once(request, "place")), tools=[place])
    agents = [made]
    for depth in (2, 1, 0):
        inner = made.to_tool(names[depth + 1])
        model = scripted(
            lambda request, inner=inner: (
                "done" if request.messages[-1].type == "tool_result" else [call("place"), call(inner.name, task="down")]
            )
        )
        made = agent(system=names[depth], model=model, tools=[place, inner])
        agents.append(made)
    agents.reverse()

    run(made.run("go"))

    places.sort(key=lambda place: place.depth)
    assert [place.depth for place in places] == [0, 1, 2, 3]
    assert [place.agent_id for place in places] == [each.id for each in agents]
    assert (places[0].parent_agent_id, places[0].parent_turn_id) == (None, None)
    for outer, inner in itertools.pairwise(places):
        assert (inner.parent_agent_id, inner.parent_turn_id) == (outer.agent_id, outer.turn_id)
    assert len({place.turn_id for place in places}) == 4


def circle(limit=None):
    """Two agents that call each other for ever, and how often each ran."""
    ran = []
    both = {}

    def ask(name):
        @tool(name=f"ask_{name}")
        async def ask_it() -> str:
            return (await both[name].run("again")).response.text

        return ask_it

    def model(name):
        def reply(request):
            last = request.messages[-1]
            if last.type == "tool_result":
                return str(last.results[0].result)
            ran.append(name)
            return call(f"ask_{'b' if name == 'a' else 'a'}")

        return scripted(reply)

    for name, other in ("ab", "ba"):
        both[name] = agent(name=name, model=model(name), tools=[ask(other)], max_sub_agent_depth=limit)
    return both["a"], ran


@pytest.mark.parametrize(("limit", "runs"), [(None, 9), (2, 3), (0, 1), (16, 17)])
def test_a_circle_ends_at_the_depth_limit(run, limit, runs):
    lead, ran = circle(limit)

    turn = run(lead.run("go"))

    assert len(ran) == runs
    assert "look for agents that call each other in a circle" in turn.response.text
    assert f"{runs} agents deep" in turn.response.text


def test_agents_given_as_tools_end_at_the_depth_limit_too(run):
    assert run(chain(9).run("go")).response.text == "bottom"
    assert "9 agents deep, and 8 is the most" in run(chain(10).run("go")).response.text


def test_the_outermost_agent_may_let_more_in(run):
    assert run(chain(17, max_sub_agent_depth=16).run("go")).response.text == "bottom"
    assert chain(17, max_sub_agent_depth=16).run_sync("go").response.text == "bottom"
    assert run(session(chain(17, max_sub_agent_depth=16)).run("go")).response.text == "bottom"


@pytest.mark.parametrize("limit", [-1, 17, 1 << 40])
def test_a_depth_out_of_range_is_refused(limit):
    with pytest.raises(ValueError, match="max_sub_agent_depth must be from 0 to 16"):
        agent(max_sub_agent_depth=limit)


@pytest.mark.parametrize("limit", ["8", 8.0, True])
def test_a_depth_of_the_wrong_type_is_refused(limit):
    with pytest.raises(TypeError, match="max_sub_agent_depth must be an int"):
        agent(max_sub_agent_depth=limit)


# Work and failures


def test_calls_of_one_helper_run_atonce(run):
    running, most = 0, 0
    everyone = asyncio.Event()

    @tool
    async def meet() -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 5:
            everyone.set()
        await asyncio.wait_for(everyone.wait(), 10)
        return "met"

    helper = agent(model=scripted(lambda request: once(request, "meet")), tools=[meet])
    model = scripted(
        lambda request: (
            "all done"
            if request.messages[-1].type == "tool_result"
            else [call("helper", task=str(n)) for n in range(5)]
        )
    )
    lead = agent(model=model, tools=[helper.to_tool("helper")])

    turn = run(lead.run("go"))

    assert most == 5
    assert results(turn) == ["done"] * 5


def test_a_failure_is_an_error_result_and_usage_stays_with_its_agent(run):
    broken = agent(model=scripted([UPPError("it is down", "PROVIDER_ERROR")])).to_tool("broken")
    wordy = agent(model=scripted(["many words " * 100])).to_tool("wordy")

    def reply(request):
        last = request.messages[-1]
        return "done" if last.type == "tool_result" else [call("broken", task="t"), call("wordy", task="t")]

    turn = run(agent(model=scripted(reply), tools=[broken, wordy]).run("go"))
    alone = run(
        agent(model=scripted(reply), tools=[tool(name=n)(lambda task: "x") for n in ("broken", "wordy")]).run("go")
    )

    assert {record.tool_name: record.is_error for record in turn.tool_executions} == {"broken": True, "wordy": False}
    assert "it is down" in results(turn)[0]
    assert turn.usage.cycles is not None
    assert len(turn.usage.cycles) == len(alone.usage.cycles) == 2


def test_what_a_tool_of_a_helper_raises_stays_inside(run):
    @tool
    async def bad() -> str:
        raise ValueError("inner trouble")

    helper = agent(
        model=scripted(
            lambda request: str(request.messages[-1].results[0].result) if len(request.messages) > 1 else call("bad")
        ),
        tools=[bad],
    )
    lead = agent(model=calling("helper", task="t"), tools=[helper.to_tool("helper")])

    assert run(lead.run("go")).response.text == "inner trouble"


class Stop(BaseException):
    """What is no Exception."""


def test_what_is_no_exception_ends_all_runs():
    @tool(inline=True)
    def stop() -> str:
        raise Stop

    helper = agent(model=scripted(lambda request: once(request, "stop")), tools=[stop])
    lead = agent(model=calling("helper", task="t"), tools=[helper.to_tool("helper")])

    with pytest.raises(Stop):
        lead.run_sync("go")


@pytest.mark.parametrize(("answer", "text"), [(True, "wiped"), (False, "Tool execution denied by approval handler")])
def test_a_helpers_own_tools_ask_their_own_approval(run, answer, text):
    asked = []

    def approve(arguments):
        asked.append(arguments)
        return answer

    @tool(approval=approve)
    async def wipe(disk: str) -> str:
        return "wiped"

    helper = agent(model=calling("wipe", disk="c"), tools=[wipe])
    lead = agent(model=calling("helper", task="t"), tools=[helper.to_tool("helper")])

    assert run(lead.run("go")).response.text == text
    assert asked == [{"disk": "c"}]


def test_the_call_of_a_helper_may_need_approval_too(run):
    ran = []
    helper = agent(model=scripted(lambda request: ran.append(1) or "x")).to_tool("helper")
    helper.approval = lambda arguments: arguments["task"] != "harm"
    lead = agent(model=calling("helper", task="harm"), tools=[helper])

    assert "denied" in run(lead.run("go")).response.text
    assert not ran


def sleepy_family(started, stopped):
    """An agent in an agent whose tool sleeps for ever."""

    @tool
    async def sleep() -> str:
        started.set()
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            stopped.append("async")
            raise
        return "woke"

    helper = agent(model=scripted(lambda request: once(request, "sleep")), tools=[sleep])
    return agent(model=calling("helper", task="t"), tools=[helper.to_tool("helper")])


def test_cancelling_the_run_cancels_what_is_inside_of_it(run):
    stopped = []

    async def main():
        started = asyncio.Event()
        running = asyncio.create_task(sleepy_family(started, stopped).run("go"))
        await started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await asyncio.sleep(0.01)

    run(main())
    assert stopped == ["async"]


def test_aborting_the_stream_stops_what_is_inside_of_it(run):
    stopped = []

    async def main():
        started = asyncio.Event()
        stream = sleepy_family(started, stopped).stream("go")

        async def listen():
            return [event async for event in stream]

        listening = asyncio.create_task(listen())
        await started.wait()
        stream.abort()
        assert await listening
        turn = await stream.turn
        assert turn.response.metadata["uap"]["aborted"] is True
        await asyncio.sleep(0.01)

    run(main())
    assert stopped == ["async"]


def test_threads_of_helpers_hear_that_nobody_waits(run):
    begun, heard = threading.Event(), threading.Event()

    @tool
    def work(context: ToolContext) -> str:
        begun.set()
        while not context.cancelled:
            time.sleep(0.002)
        heard.set()
        return "stopped"

    helper = agent(model=scripted(lambda request: once(request, "work")), tools=[work])
    lead = agent(model=calling("helper", task="t"), tools=[helper.to_tool("helper")])

    async def main():
        running = asyncio.create_task(lead.run("go"))
        await asyncio.to_thread(begun.wait, 10)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    run(main())
    assert heard.wait(10)


def test_a_synchronous_run_in_a_thread_is_stopped_with_the_run_it_is_inside_of(run):
    begun, over = threading.Event(), threading.Event()

    @tool
    async def sleep() -> str:
        begun.set()
        await asyncio.sleep(1000)
        return "woke"

    helper = agent(model=scripted(lambda request: once(request, "sleep")), tools=[sleep])

    @tool
    def delegate() -> str:
        turn = helper.run_sync("t")
        assert turn.response.metadata["uap"]["aborted"] is True
        over.set()
        return "x"

    async def main():
        running = asyncio.create_task(agent(model=calling("delegate"), tools=[delegate]).run("go"))
        await asyncio.to_thread(begun.wait, 10)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    run(main())
    assert over.wait(10)


def test_runs_of_families_leave_nothing_behind(run):
    class Marker:
        pass

    def family():
        marker = Marker()

        @tool
        async def keep(context: ToolContext) -> str:
            context.metadata["seen"] = 1
            return type(marker).__name__

        helper = agent(model=scripted(lambda request: once(request, "keep")), tools=[keep])
        lead = agent(model=calling("helper", task="t"), tools=[helper.to_tool("helper")])
        run(session(lead).run("go"))
        return weakref.ref(marker)

    gone = family()
    gc.collect()
    assert gone() is None

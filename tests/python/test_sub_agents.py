"""Agents as tools of other agents: models lent, places counted, work stopped, sessions kept, events told."""

import asyncio
import contextlib
import gc
import itertools
import json
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import pytest

from turntree import Session, SubAgentRun, ToolContext, agent, query, session
from turntree.upp import Reply, Tool, UPPError, UserMessage, llm, scripted, tool


def call(name, /, **arguments):
    """A tool call as a script writes it."""
    return {"toolName": name, "arguments": arguments}


def calling(name, /, **arguments):
    """A model that calls a tool once and then says what the tool said."""

    def reply(request):
        last = request.messages[-1]
        return str(last.results[0].result) if last.type == "tool_result" else call(name, **arguments)

    return scripted(reply)


def echo(request):
    return f"did {request.messages[-1].text}"


def results(turn):
    """What the tools of a turn said, in the order of their calls."""
    return [result.result for message in turn.messages if message.type == "tool_result" for result in message.results]


def kept_places():
    """A tool that keeps its contexts, and the list it keeps them in."""
    places = []

    @tool
    def place(context: ToolContext) -> str:
        places.append(context)
        return "noted"

    return place, places


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

    lead_model = scripted(lambda request: reply(request) if request.system else _once(request, "think"))
    assert results(run(agent(model=lead_model, tools=[think]).run("go"))) == ["helped"]


def _once(request, name):
    return "done" if request.messages[-1].type == "tool_result" else call(name)


# Places


def test_three_deep_each_run_knows_its_parent(run):
    place, places = kept_places()
    names = ["lead", "first", "second", "third"]
    made = agent(system=names[3], model=scripted(lambda request: _once(request, "place")), tools=[place])
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


def chain(length, **options):
    """Agents each of which is a tool of the next; the last one given runs all."""
    made = agent(model=scripted(["bottom"]))
    for _ in range(length - 1):
        made = agent(model=calling("down", task="t"), tools=[made.to_tool("down")])
    return made.with_(**options)


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


def test_calls_of_one_helper_run_at_once(run):
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

    helper = agent(model=scripted(lambda request: _once(request, "meet")), tools=[meet])
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

    helper = agent(model=scripted(lambda request: _once(request, "stop")), tools=[stop])
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

    helper = agent(model=scripted(lambda request: _once(request, "sleep")), tools=[sleep])
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

    helper = agent(model=scripted(lambda request: _once(request, "work")), tools=[work])
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

    helper = agent(model=scripted(lambda request: _once(request, "sleep")), tools=[sleep])

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

        helper = agent(model=scripted(lambda request: _once(request, "keep")), tools=[keep])
        lead = agent(model=calling("helper", task="t"), tools=[helper.to_tool("helper")])
        run(session(lead).run("go"))
        return weakref.ref(marker)

    gone = family()
    gc.collect()
    assert gone() is None


# Listening


def test_events_of_helpers_are_not_forwarded_unless_asked_for(run):
    helper = agent(model=scripted(["inner words"]))
    lead = agent(model=calling("helper", task="t"), tools=[helper.to_tool("helper")])

    async def main():
        return [event async for event in lead.stream("go")]

    events = run(main())
    assert all(event.sub_agent is None for event in events)
    assert {event.uap.agent_id for event in events if event.uap} == {lead.id}


def listened(family, run, start=None):
    async def main():
        stream = (start or family.stream)("go", sub_agent_events=True)
        events = [event async for event in stream]
        return events, await stream.turn

    return run(main())


def test_events_of_helpers_come_with_whose_they_are(run):
    leaf = agent(model=scripted(["leaf words"]))
    middle = agent(model=calling("leaf", task="t"), tools=[leaf.to_tool("leaf")])
    lead = agent(model=calling("middle", task="t"), tools=[middle.to_tool("middle")])

    events, turn = listened(lead, run)

    of = {None: lead.id, "middle": middle.id, "leaf": leaf.id}
    for event in events:
        run_of = event.sub_agent
        if event.uap:
            assert event.uap.agent_id == of[run_of.tool_name if run_of else None]
        if run_of:
            assert isinstance(run_of, SubAgentRun)
            assert run_of.agent_id == of[run_of.tool_name]
            assert run_of.depth == {"middle": 1, "leaf": 2}[run_of.tool_name]
    runs = {event.sub_agent.tool_name: event.sub_agent for event in events if event.sub_agent}
    assert runs["leaf"].parent_turn_id == runs["middle"].turn_id
    assert runs["middle"].parent_agent_id == lead.id
    order = [
        (event.sub_agent.tool_name if event.sub_agent else "lead", event.uap.type)
        for event in events
        if event.uap and event.uap.type in ("step_start", "action", "observation", "step_end")
    ]
    assert order.index(("lead", "action")) < order.index(("middle", "step_start")) < order.index(("leaf", "step_start"))
    assert (
        order.index(("leaf", "step_end"))
        < order.index(("middle", "observation"))
        < order.index(("lead", "observation"))
    )
    words = "".join(
        event.upp.delta["text"]
        for event in events
        if event.sub_agent == runs["leaf"] and event.upp and event.upp.type == "text_delta"
    )
    assert words == "leaf words"
    assert turn.response.text == "leaf words"


def test_events_of_helpers_come_from_sessions_and_synchronous_streams_too(run):
    helper = agent(model=scripted(["inner"] * 3))
    lead = agent(model=calling("helper", task="t"), tools=[helper.to_tool("helper")])

    events, _ = listened(lead, run, session(lead).stream)
    assert any(event.sub_agent for event in events)
    assert any(event.uap and event.uap.type == "checkpoint" and event.sub_agent for event in events)
    assert any(event.sub_agent for event in lead.stream_sync("go", sub_agent_events=True))
    assert any(event.sub_agent for event in session(lead).stream_sync("go", sub_agent_events=True))
    assert not any(event.sub_agent for event in session(lead.with_(model=calling("none"))).stream_sync("go"))


def test_a_structured_answer_so_far_is_that_of_the_agent_alone(run):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    helper = agent(model=scripted(['{"n": 1}']), structure=schema)

    def reply(request):
        return '{"n": 2}' if request.messages[-1].type == "tool_result" else call("helper", task="t")

    lead = agent(model=scripted(reply), structure=schema, tools=[helper.to_tool("helper")])

    async def main():
        stream = lead.stream("go", sub_agent_events=True)
        seen = [stream.partial async for _ in stream]
        return seen, (await stream.turn).data

    seen, data = run(main())
    assert data == {"n": 2}
    assert {"n": 1} not in seen


# Progress


def told(events):
    return [
        event.upp.delta["progress"] for event in events if event.upp and event.upp.type == "tool_execution_progress"
    ]


@pytest.mark.parametrize("kind", ["async", "thread", "inline"])
def test_a_tool_tells_how_far_it_is(run, kind):
    def work(context: ToolContext) -> str:
        for done in range(3):
            context.report({"done": done, "of": 3})
        return "done"

    async def async_work(context: ToolContext) -> str:
        return work(context)

    made = Tool("work", "", {"type": "object"}, async_work if kind == "async" else work, inline=kind == "inline")
    lead = agent(model=calling("work"), tools=[made])

    async def main():
        return [event async for event in lead.stream("go")]

    events = run(main())
    assert told(events) == [{"done": done, "of": 3} for done in range(3)]
    kinds = [event.upp.type for event in events if event.upp and event.upp.type.startswith("tool_execution")]
    assert kinds == ["tool_execution_start", *["tool_execution_progress"] * 3, "tool_execution_end"]
    progress = next(event.upp for event in events if event.upp and event.upp.type == "tool_execution_progress")
    assert progress.index == 0
    assert progress.delta["toolName"] == "work"
    assert progress.delta["toolCallId"]
    assert isinstance(progress.delta["timestamp"], int)
    assert told(lead.stream_sync("go")) == told(events)


def test_progress_comes_while_the_tool_runs(run):
    """The listener is woken though nothing of the run itself has happened."""

    async def main():
        heard = asyncio.Event()

        @tool
        async def work(context: ToolContext) -> str:
            await asyncio.sleep(0.01)
            context.report("half")
            await asyncio.wait_for(heard.wait(), 10)
            return "done"

        async for event in agent(model=calling("work"), tools=[work]).stream("go"):
            if event.upp and event.upp.type == "tool_execution_progress":
                heard.set()

    run(main())


def test_progress_from_a_thread_comes_while_the_tool_runs(run):
    heard = threading.Event()

    @tool
    def work(context: ToolContext) -> str:
        time.sleep(0.01)
        context.report("half")
        assert heard.wait(10)
        return "done"

    async def main():
        async for event in agent(model=calling("work"), tools=[work]).stream("go"):
            if event.upp and event.upp.type == "tool_execution_progress":
                heard.set()

    run(main())


def test_progress_without_a_listener_and_after_the_call_is_nothing(run):
    place, places = kept_places()
    lead = agent(model=calling("place"), tools=[place])
    run(lead.run("go"))
    places[0].report("late")

    async def main():
        events = []
        async for event in lead.stream("go"):
            events.append(event)
            if places[1:]:
                places[1].report("late")
        return events

    events = run(main())
    ended = next(n for n, event in enumerate(events) if event.upp and event.upp.type == "tool_execution_end")
    assert told(events[ended:]) == []


def test_progress_that_is_no_json_is_refused(run):
    @tool
    async def work(context: ToolContext) -> str:
        context.report({"what": object()})
        return "x"

    turn = run(agent(model=calling("work"), tools=[work]).run("go"))
    assert turn.tool_executions[0].is_error
    assert "progress" in results(turn)[0]


def test_a_flood_of_progress_keeps_the_last_of_it(run):
    @tool(inline=True)
    def flood(context: ToolContext) -> str:
        for n in range(100_000):
            context.report(n)
        return "done"

    events = list(agent(model=calling("flood"), tools=[flood]).stream_sync("go"))

    assert told(events)[-1] == 99_999
    assert len(events) < 400


def test_progress_of_helpers_is_heard_with_their_events(run):
    @tool
    async def work(context: ToolContext) -> str:
        context.report(1)
        return "done"

    helper = agent(model=calling("work"), tools=[work])
    lead = agent(model=calling("helper", task="t"), tools=[helper.to_tool("helper")])

    events, _ = listened(lead, run)
    heard = [event for event in events if event.upp and event.upp.type == "tool_execution_progress"]
    assert [event.sub_agent.tool_name for event in heard] == ["helper"]
    assert told(lead.stream_sync("go")) == []


# Sessions


def test_the_session_of_a_helper_stands_in_the_checkpoints(run):
    place, places = kept_places()
    helper = agent(model=calling("place"), tools=[place])
    lead = agent(model=calling("helper", task="look"), tools=[helper.to_tool("helper")])
    sess = session(lead)

    run(sess.run("go"))

    first, last = sess.checkpoints
    (key,) = first.sub_agent_states
    state = first.sub_agent_states[key]
    assert key == first.state.messages[1].tool_calls[0].tool_call_id
    assert last.sub_agent_states.keys() == {key}
    assert state["version"] == "1.0.0"
    assert state["agentId"] == helper.id
    facts = state["metadata"]
    assert (facts["agentId"], facts["toolName"], facts["toolCallId"]) == (helper.id, "helper", key)
    assert facts["parentAgentId"] == lead.id
    assert facts["parentTurnId"] == places[0].parent_turn_id
    assert (facts["turnId"], facts["depth"], facts["status"]) == (places[0].turn_id, 1, "completed")
    assert len(state["checkpoints"]) == 2
    child = Session.from_json(state, helper)
    assert child.tree.history()[0].text == "look"
    assert places[0].session_id == state["id"] != sess.id
    assert Session.from_json(sess.to_json(), lead).to_json() == sess.to_json()
    assert sess.sub_agent_states.keys() == {key}


def test_sessions_of_helpers_nest_and_keep_the_interval(run):
    leaf = agent(model=scripted(["x"] * 2))
    middle = agent(model=calling("leaf", task="t"), tools=[leaf.to_tool("leaf")])
    lead = agent(model=calling("middle", task="t"), tools=[middle.to_tool("middle")])

    sess = session(lead, checkpoint_interval="turn")
    run(sess.run("go"))

    (outer,) = sess.checkpoints[0].sub_agent_states.values()
    (checkpoint,) = outer["checkpoints"]
    (inner,) = checkpoint["subAgentStates"].values()
    assert (outer["metadata"]["depth"], inner["metadata"]["depth"]) == (1, 2)
    assert inner["metadata"]["parentTurnId"] == outer["metadata"]["turnId"]
    assert len(inner["checkpoints"]) == 1
    assert Session.from_json(sess.to_json(), lead).to_json() == sess.to_json()


def test_deep_sessions_are_written_in_little(run):
    lead = chain(17, max_sub_agent_depth=16)
    sess = session(lead)

    run(sess.run("go"))

    text = sess.to_json()
    assert len(text) < 400_000
    assert text.count('"depth":16') == 2
    assert Session.from_json(text, lead).to_json() == text


def test_ids_that_repeat_do_not_hide_a_session(run):
    """Some vendors number their calls anew in each answer."""

    def reply(request):
        rounds = sum(message.type == "tool_result" for message in request.messages)
        return (
            "done"
            if rounds == 2
            else {"toolName": "helper", "toolCallId": "helper_0", "arguments": {"task": str(rounds)}}
        )

    helper = agent(model=scripted(echo))
    sess = session(agent(model=scripted(reply), tools=[helper.to_tool("helper")]))

    run(sess.run("go"))

    states = sess.checkpoints[-1].sub_agent_states
    assert len(states) == 2
    assert all(state["metadata"]["toolCallId"] == "helper_0" for state in states.values())
    assert {key for key, state in states.items() if key != "helper_0"} == {
        state["id"] for key, state in states.items() if key != "helper_0"
    }


class World:
    """A lead with a helper with tools that write down that they ran; the gate holds the second tool up."""

    def __init__(self, log):
        self.log = log
        self.gate = None
        self.reached = None

        @tool
        async def first() -> str:
            self.log.append("first")
            return "one"

        @tool
        async def second() -> str:
            if self.gate is not None:
                self.reached.set()
                await self.gate.wait()
            self.log.append("second")
            return "two"

        def inner(request):
            self.log.append("inner model")
            rounds = sum(message.type == "tool_result" for message in request.messages)
            return [call("first"), call("second"), "inner answer"][rounds]

        def outer(request):
            self.log.append("outer model")
            return _once(request, "middle") if len(request.messages) > 1 else [call("middle", task="t"), call("first")]

        leaf = agent(model=scripted(inner), tools=[first, second])
        self.middle = agent(model=calling("leaf", task="t"), tools=[leaf.to_tool("leaf")])
        self.lead = agent(model=scripted(outer), tools=[self.middle.to_tool("middle"), first])

    async def interrupted(self, sess):
        """Runs until the second tool of the innermost agent runs, and cancels."""
        self.gate, self.reached = asyncio.Event(), asyncio.Event()
        running = asyncio.create_task(sess.run("go"))
        await self.reached.wait()
        before = sess.to_json()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        return before, sess.to_json()


@pytest.mark.parametrize("saved", ["while it ran", "after it was stopped", "never"])
def test_resuming_goes_on_inside_of_the_helper_that_was_stopped(run, saved):
    log = []
    world = World(log)

    async def main():
        sess = session(world.lead)
        before, after = await world.interrupted(sess)
        if saved == "while it ran":
            assert next(iter(json.loads(before)["metadata"]["turntree"]["unfinished"]["subAgentStates"].values()))
        if saved != "never":
            sess = Session.from_json(before if saved == "while it ran" else after, World(log).lead)
            assert sess.to_json() == (before if saved == "while it ran" else after)
        (state,) = sess.sub_agent_states.values()
        assert state["metadata"]["status"] == ("running" if saved == "while it ran" else "interrupted")
        done = list(log)
        world.gate = None
        turn = await sess.resume()
        return sess, turn, done, log[len(done) :]

    sess, turn, done, rest = run(main())

    assert sorted(done) == sorted(["outer model", "first", "inner model", "first", "inner model"])
    assert rest == ["second", "inner model", "outer model"]
    assert results(turn)[0] == "inner answer"
    (state,) = sess.checkpoints[-1].sub_agent_states.values()
    assert state["metadata"]["status"] == "completed"
    assert sess.state is None


def test_a_finished_helper_is_not_run_again_after_a_restore(run):
    log = []
    world = World(log)

    async def main():
        sess = session(world.lead)
        await sess.run("go")
        del log[:]
        again = Session.from_json(sess.to_json(), World(log).lead)
        await again.restore(again.checkpoints[0].id)
        return await again.resume()

    turn = run(main())
    assert log == ["outer model"]
    assert results(turn)[0] == "inner answer"


def test_a_helper_whose_answer_was_on_its_way_is_not_run_again(run):
    """Stopped between the end of the helper and the model that asked."""
    ran = []

    async def main():
        reached = asyncio.Event()
        hold = True

        async def after(made, params, result):
            if hold:
                reached.set()
                await asyncio.sleep(1000)

        helper = agent(model=scripted(lambda request: ran.append(1) or "the answer"))
        lead = agent(
            model=calling("helper", task="t"),
            tools=[helper.to_tool("helper")],
            tool_strategy={"on_after_call": after},
        )
        sess = session(lead)
        running = asyncio.create_task(sess.run("go"))
        await reached.wait()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        hold = False
        return await Session.from_json(sess.to_json(), lead).resume()

    assert run(main()).response.text == "the answer"
    assert ran == [1]


def test_a_helper_that_failed_is_told_to_the_model_and_kept(run):
    helper = agent(model=scripted([UPPError("down", "PROVIDER_ERROR")]))
    sess = session(agent(model=calling("helper", task="t"), tools=[helper.to_tool("helper")]))

    turn = run(sess.run("go"))

    assert "down" in turn.response.text
    (state,) = sess.checkpoints[0].sub_agent_states.values()
    assert state["metadata"]["status"] == "failed"


def test_what_a_helper_kept_with_its_run_is_there_when_it_goes_on(run):
    seen = []

    async def main():
        reached = asyncio.Event()
        gate = asyncio.Event()

        @tool
        async def note(context: ToolContext) -> str:
            context.metadata["noted"] = 7
            return "x"

        @tool
        async def read(context: ToolContext) -> str:
            reached.set()
            await gate.wait()
            seen.append(dict(context.metadata))
            return "x"

        def inner(request):
            rounds = sum(message.type == "tool_result" for message in request.messages)
            return [call("note"), call("read"), "x"][rounds]

        helper = agent(model=scripted(inner), tools=[note, read])
        lead = agent(model=calling("helper", task="t"), tools=[helper.to_tool("helper")])
        sess = session(lead)
        running = asyncio.create_task(sess.run("go"))
        await reached.wait()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        gate.set()
        await Session.from_json(sess.to_json(), lead).resume()

    run(main())
    assert seen == [{"noted": 7}]


CHILD_PROCESS = """
    import asyncio, os, sys
    sys.path.insert(0, sys.argv[2])
    from test_sub_agents import World
    from turntree import session

    class Log(list):
        def append(self, line):
            print(line, flush=True)

    async def main():
        world = World(Log())
        world.gate, world.reached = asyncio.Event(), asyncio.Event()
        sess = session(world.lead)
        running = asyncio.create_task(sess.run("go"))
        await world.reached.wait()
        with open(sys.argv[1], "w") as file:
            file.write(sess.to_json())
        os.kill(os.getpid(), 9)

    asyncio.run(main())
"""


def test_a_killed_process_loses_nothing_that_was_saved(run, tmp_path, root):
    saved = tmp_path / "session.json"
    folder = str(root / "tests" / "python")
    killed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CHILD_PROCESS), str(saved), folder],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert killed.returncode == -9, killed.stderr
    assert sorted(killed.stdout.split("\n")[:-1]) == sorted(
        ["outer model", "first", "inner model", "first", "inner model"]
    )

    log = []
    turn = run(Session.from_json(saved.read_text(), World(log).lead).resume())

    assert log == ["second", "inner model", "outer model"]
    assert results(turn)[0] == "inner answer"


@pytest.mark.parametrize("change", ["version", "truncated"])
def test_a_broken_session_of_a_helper_is_refused_with_its_place(run, change):
    helper = agent(model=scripted(echo))
    lead = agent(model=calling("helper", task="t"), tools=[helper.to_tool("helper")])
    sess = session(lead)
    run(sess.run("go"))
    document = sess.to_dict()
    states = document["checkpoints"][0]["subAgentStates"]
    (key,) = states
    if change == "version":
        states[key]["version"] = "9.0.0"
    else:
        del states[key]["threadTree"]

    with pytest.raises(ValueError, match=f"checkpoints/0/subAgentStates/{key}"):
        Session.from_json(document, lead)


# Many inputs


def test_map_gives_turns_in_the_order_of_the_inputs_and_runs_some_at_once(run):
    running, most = 0, 0

    async def reply(request):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02 if request.messages[-1].text in "02" else 0.001)
        running -= 1
        return echo(request)

    helper = agent(model=scripted(reply))

    async def main():
        return [turn.response.text async for turn in helper.map(map(str, range(9)), concurrency=3)]

    assert run(main()) == [f"did {n}" for n in range(9)]
    assert most == 3


def test_map_takes_inputs_only_as_turns_are_taken(run):
    taken = []

    async def endless():
        n = 0
        while True:
            taken.append(n)
            yield UserMessage(str(n))
            n += 1

    async def main():
        seen = []
        async with contextlib.aclosing(agent(model=scripted(echo)).map(endless(), concurrency=2)) as turns:
            async for turn in turns:
                seen.append(turn.response.text)
                await asyncio.sleep(0.005)
                assert len(taken) <= len(seen) + 2
                if len(seen) == 5:
                    break
        return seen

    assert run(main()) == [f"did {n}" for n in range(5)]


def test_map_cancels_the_rest_when_the_consumer_stops(run):
    cancelled = []

    async def reply(request):
        if request.messages[-1].text == "0":
            return "first"
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            cancelled.append(request.messages[-1].text)
            raise

    async def main():
        async with contextlib.aclosing(agent(model=scripted(reply)).map("0123", concurrency=4)) as turns:
            async for _ in turns:
                await asyncio.sleep(0.01)
                break
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left

    run(main())


def failing_at_two(request):
    if request.messages[-1].text == "2":
        raise UPPError("no twos", "INVALID_REQUEST")
    return echo(request)


def test_map_raises_in_the_place_of_the_turn(run):
    async def main():
        seen = []
        with pytest.raises(UPPError, match="no twos"):
            async for turn in agent(model=scripted(failing_at_two)).map("0123", concurrency=4):
                seen.append(turn.response.text)
        return seen

    assert run(main()) == ["did 0", "did 1"]


def test_map_gives_exceptions_when_asked_to(run):
    async def main():
        turns = agent(model=scripted(failing_at_two)).map("0123", concurrency=2, return_exceptions=True)
        return [str(turn) if isinstance(turn, UPPError) else turn.response.text async for turn in turns]

    seen = run(main())
    assert "no twos" in seen.pop(2)
    assert seen == ["did 0", "did 1", "did 3"]


def test_map_raises_what_the_inputs_raise_after_the_turns_before(run):
    def inputs():
        yield "0"
        raise OSError("the file ends here")

    async def main():
        seen = []
        with pytest.raises(OSError, match="ends here"):
            async for turn in agent(model=scripted(echo)).map(inputs()):
                seen.append(turn.response.text)
        return seen

    assert run(main()) == ["did 0"]


def test_map_of_nothing_is_nothing(run):
    async def main():
        return [turn async for turn in agent(model=scripted(echo)).map([])]

    assert run(main()) == []


def test_map_refuses_what_it_cannot_do():
    helper = agent(model=scripted(echo))
    with pytest.raises(ValueError, match="concurrency must be at least 1"):
        helper.map(["x"], concurrency=0)
    with pytest.raises(TypeError, match="inputs must be iterable"):
        helper.map(3)

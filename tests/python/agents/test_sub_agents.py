"""Agents as tools of other agents: schemas, arguments and inherited models."""

import asyncio

import pytest
from support.sub_agent_family import call, calling, echo, kept_places, once, results

from turntree import agent, query, session
from turntree.upp import Reply, Tool, UPPError, llm, scripted, tool

# The tool


def test_agent_tool_has_the_specified_shape():
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


def test_description_of_an_agent_without_a_system_prompt_is_its_name():
    assert "'scout'" in agent(name="scout").to_tool().description


def test_agent_tool_accepts_name_description_and_schema():
    schema = {"type": "object", "properties": {"question": {"type": "string"}}, "required": ["question"]}

    made = agent().to_tool("ask_expert", "Knows it all.", schema)

    assert (made.name, made.description, made.parameters) == ("ask_expert", "Knows it all.", schema)


@pytest.mark.parametrize("wrong", [["a", "list"], "text", 3])
def test_schema_that_is_not_a_dict_is_rejected(wrong):
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
def test_sub_agent_input_is_the_task_argument(run, arguments, task):
    helper = agent(model=scripted(echo)).to_tool("helper", parameter_schema={"type": "object"})
    lead = agent(model=calling("helper", **arguments), tools=[helper])

    assert results(run(lead.run("go"))) == [f"did {task}"]
    assert run(helper.run(**arguments)) == f"did {task}"


def test_agent_in_the_tool_list_becomes_a_tool(run):
    helper = agent(model=scripted(echo), system="Helps.")
    lead = agent(model=calling(f"agent_{helper.id}", task="count"), tools=[helper])

    turn = run(lead.run("go"))

    assert [made.name for made in lead.tools] == [f"agent_{helper.id}"]
    assert turn.response.text == "did count"
    assert lead.with_(system="other").run_sync("go").response.text == "did count"


def test_structured_answer_of_a_sub_agent_is_returned_as_data(run):
    helper = agent(
        model=scripted(['{"n": 3}']),
        structure={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    )
    lead = agent(model=calling("count", task="t"), tools=[helper.to_tool("count")])

    assert results(run(lead.run("go"))) == [{"n": 3}]


def test_arguments_that_violate_the_schema_return_an_error_result(run):
    helper = agent(model=scripted(echo))
    lead = agent(model=calling("helper", job="t"), tools=[helper.to_tool("helper")])

    turn = run(lead.run("go"))

    assert turn.tool_executions[0].is_error
    assert '"task" is a required property' in results(turn)[0]


def test_two_agents_with_one_name_are_rejected_when_the_agent_is_created():
    tools = [agent(model=scripted(["x"])).to_tool("helper") for _ in range(2)]

    with pytest.raises(ValueError, match="two tools are named 'helper'"):
        agent(model=scripted(["x"]), tools=tools)


def test_object_that_is_not_a_tool_is_rejected():
    with pytest.raises(TypeError, match="functions, Tool objects or agents"):
        agent(tools=[3])


# Inherited models


def test_sub_agent_without_a_model_uses_the_model_of_its_caller(run):
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


def test_sub_agent_uses_its_own_params_with_the_callers_model(run):
    def reply(request):
        if request.system == "I help.":
            return str(dict(request.params))
        return str(request.messages[-1].results[0].result) if len(request.messages) > 1 else call("helper", task="t")

    helper = agent(system="I help.", params={"top": 1})
    lead = agent(model=scripted(reply), params={"tone": "dry"}, tools=[helper.to_tool("helper")])

    assert run(lead.run("go")).response.text == "{'top': 1}"


def test_sub_agent_with_a_model_does_not_use_the_callers_params(run):
    own = scripted([Reply("mine")])
    helper = agent(model=own)
    lead = agent(model=calling("helper", task="t"), params={"key": "secret"}, tools=[helper.to_tool("helper")])

    assert run(lead.run("go")).response.text == "mine"
    assert not own.requests[0].params


def test_model_is_inherited_through_agents_without_one(run):
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


def test_agent_without_a_model_outside_a_run_raises_an_error_with_its_name(run):
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
def test_run_started_by_a_tool_is_nested_in_the_outer_run(run, way):
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
def test_run_started_by_a_sync_tool_is_nested_in_the_outer_run(run, inline):
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


def test_run_after_the_outer_run_inherits_no_model(run):
    helper = agent(system="I help.")

    @tool(inline=True)
    def nothing() -> str:
        return "x"

    async def main():
        await agent(model=calling("nothing"), tools=[nothing]).run("go")
        with pytest.raises(UPPError, match="has no model"):
            await helper.run("t")

    run(main())


def test_llm_passes_on_only_the_model_of_the_surrounding_run(run):
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

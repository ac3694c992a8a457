"""UAP-1.0 §8 and §16.1, point by point. The number in a name is that of the point in our checklist."""

import asyncio
import json
import uuid

import pytest

from turntree import Session, ToolContext, agent, session
from turntree.testing import ToolCall, serve
from turntree.upp import Tool, UPPError, openai, scripted, tool


def call(name, /, **arguments):
    return {"toolName": name, "arguments": arguments}


def calls_once(name, /, **arguments):
    """A model that calls a tool and then repeats the result of the tool."""

    def reply(request):
        last = request.messages[-1]
        return str(last.results[0].result) if last.type == "tool_result" else call(name, **arguments)

    return scripted(reply)


def is_v4(text):
    parsed = uuid.UUID(text)
    return parsed.version == 4 and str(parsed) == text


# 8.1, 8.2


async def test_uap_39_an_agent_in_tools_becomes_a_upp_tool():
    explorer = agent(model=scripted(lambda request: f"explored {request.messages[-1].text}"), system="You explore.")

    coder = agent(model=calls_once(f"agent_{explorer.id}", task="the tests"), tools=[explorer])

    (made,) = coder.tools
    assert isinstance(made, Tool)
    assert made.name == f"agent_{explorer.id}"
    assert made.description == "You explore."
    assert made.parameters["type"] == "object"
    assert made.parameters["properties"]["task"]["type"] == "string"
    assert made.parameters["required"] == ["task"]
    assert (await coder.run("go")).response.text == "explored the tests"


async def test_uap_39_to_tool_accepts_name_description_and_schema():
    schema = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    expert = agent(model=scripted(lambda request: request.messages[-1].text))

    made = expert.to_tool(name="ask", description="Asks.", parameter_schema=schema)

    assert (made.name, made.description, made.parameters) == ("ask", "Asks.", schema)
    assert (await agent(model=calls_once("ask", query="why"), tools=[made]).run("go")).response.text == "why"


async def test_uap_39_the_tool_can_be_called_directly():
    expert = agent(model=scripted(["because"]))

    assert await expert.to_tool().run(task="why?") == "because"


# 8.3


async def test_uap_40_an_explicit_model_is_used():
    own = scripted(["mine"])
    researcher = agent(model=own)
    lead = calls_once("research", task="t")

    await agent(model=lead, tools=[researcher.to_tool("research")]).run("go")

    assert len(own.requests) == 1
    assert len(lead.requests) == 2


async def test_uap_41_a_missing_model_is_inherited_from_the_parent():
    helper = agent(system="I help.")

    def reply(request):
        if request.system == "I help.":
            return "helped"
        return "done" if request.messages[-1].type == "tool_result" else call("help", task="t")

    model = scripted(reply)
    turn = await agent(model=model, tools=[helper.to_tool("help")]).run("go")

    assert turn.messages[2].results[0].result == "helped"
    assert len(model.requests) == 3
    assert helper.model is None


async def test_uap_42_the_model_is_resolved_when_the_call_is_made():
    """One helper, defined once, runs under two parents at the same time."""
    helper = agent(system="I help.")
    both = asyncio.Barrier(2) if hasattr(asyncio, "Barrier") else None

    def named(name):
        async def reply(request):
            if request.system == "I help.":
                if both is not None:
                    await asyncio.wait_for(both.wait(), 10)
                return f"helped by {name}"
            last = request.messages[-1]
            return str(last.results[0].result) if last.type == "tool_result" else call("help", task="t")

        return agent(model=scripted(reply), tools=[helper.to_tool("help")])

    turns = await asyncio.gather(named("one").run("go"), named("two").run("go"))

    assert [turn.response.text for turn in turns] == ["helped by one", "helped by two"]


async def test_uap_43_the_configuration_is_inherited_with_the_model(loopback_keys):
    helper = agent(system="I help.")
    model, keys = loopback_keys

    await agent(model=model, config={"api_key": "the parent's"}, tools=[helper.to_tool("help", "Helps.")]).run("go")

    assert keys == ["Bearer the parent's"] * 3


async def test_uap_43_an_explicit_model_never_receives_the_key_of_the_parent(loopback_keys):
    model, keys = loopback_keys
    helper = agent(system="I help.", model=model, config={"api_key": "the child's"})

    await agent(model=model, config={"api_key": "the parent's"}, tools=[helper.to_tool("help", "Helps.")]).run("go")

    assert keys == ["Bearer the parent's", "Bearer the child's", "Bearer the parent's"]


@pytest.fixture
def loopback_keys():
    """A model with a loopback server, and the list of API keys that the server received."""
    keys = []

    def answer(request):
        keys.append(request.headers["authorization"])
        done = request.tool_results or "I help." in json.dumps(request.json)
        return "done" if done else [ToolCall("help", {"task": "t"})]

    with serve(answer) as server:
        yield openai("gpt", "completions", base_url=server.base_url), keys


async def test_uap_41_the_error_of_a_run_without_a_model_names_the_agent():
    with pytest.raises(UPPError, match="scout") as caught:
        await agent(name="scout").run("go")
    assert caught.value.code == "INVALID_REQUEST"


# 8.4


async def test_uap_44_agent_turn_and_parent_are_tracked():
    places = []

    @tool
    async def place(context: ToolContext) -> str:
        places.append(context)
        return "x"

    inner = agent(model=calls_once("place"), tools=[place])

    def reply(request):
        return "done" if request.messages[-1].type == "tool_result" else [call("place"), call("inner", task="t")]

    outer = agent(model=scripted(reply), tools=[place, inner.to_tool("inner")])
    await outer.run("go")
    await outer.run("go")

    for root, child in (
        sorted(places[:2], key=lambda place: place.depth),
        sorted(places[2:], key=lambda place: place.depth),
    ):
        assert (root.agent_id, root.parent_agent_id, root.parent_turn_id) == (outer.id, None, None)
        assert (child.agent_id, child.parent_agent_id, child.parent_turn_id) == (inner.id, outer.id, root.turn_id)
    turns = {place.turn_id for place in places}
    assert len(turns) == 4
    assert all(is_v4(turn) for turn in turns)


# 8.5


async def test_uap_45_sub_agents_run_at_the_same_time():
    meeting = []
    everyone = asyncio.Event()

    async def reply(request):
        meeting.append(request.messages[-1].text)
        if len(meeting) == 4:
            everyone.set()
        await asyncio.wait_for(everyone.wait(), 10)
        return f"did {request.messages[-1].text}"

    explorer, researcher = (agent(model=scripted(reply)).to_tool(name) for name in ("explorer", "researcher"))

    def lead(request):
        if request.messages[-1].type == "tool_result":
            return "done"
        return [call(name, task=f"{name} {n}") for name in ("explorer", "researcher") for n in (1, 2)]

    turn = await agent(model=scripted(lead), tools=[explorer, researcher]).run("go")

    assert [result.result for result in turn.messages[2].results] == [
        "did explorer 1",
        "did explorer 2",
        "did researcher 1",
        "did researcher 2",
    ]


# 13.3, 13.6


async def test_uap_76_checkpoints_contain_the_sessions_of_sub_agents():
    leaf = agent(model=scripted(["x"]))
    helper = agent(model=calls_once("leaf", task="t"), tools=[leaf.to_tool("leaf")])
    lead = agent(model=calls_once("help", task="look"), tools=[helper.to_tool("help")])
    sess = session(lead)

    await sess.run("go")

    (checkpoint, _) = json.loads(sess.to_json())["checkpoints"]
    ((key, state),) = checkpoint["subAgentStates"].items()
    assert key == checkpoint["state"]["messages"][1]["toolCalls"][0]["toolCallId"]
    assert {
        "version",
        "id",
        "agentId",
        "createdAt",
        "updatedAt",
        "threadTree",
        "checkpoints",
        "metadata",
    } <= state.keys()
    assert is_v4(state["id"])
    expected = {"agentId", "toolName", "toolCallId", "parentAgentId", "parentTurnId", "turnId", "depth"}
    assert expected <= state["metadata"].keys()
    (inner,) = state["checkpoints"][-1]["subAgentStates"].values()
    assert inner["agentId"] == leaf.id
    again = Session.from_json(sess.to_json(), lead)
    assert again.to_json() == sess.to_json()
    assert again.checkpoints[0].sub_agent_states == sess.checkpoints[0].sub_agent_states


async def test_uap_76_a_finished_sub_agent_is_not_run_again():
    ran = []
    helper = agent(model=scripted(lambda request: ran.append(1) or "once"))
    lead = agent(model=calls_once("help", task="t"), tools=[helper.to_tool("help")])
    sess = session(lead)
    await sess.run("go")

    again = Session.from_json(sess.to_json(), lead)
    await again.restore(again.checkpoints[0].id)

    assert (await again.resume()).response.text == "once"
    assert ran == [1]


# 16.1


@pytest.mark.parametrize("answer", [True, False])
async def test_uap_81_approval_of_a_sub_agents_tools_is_respected(answer):
    asked, wiped = [], []

    @tool(approval=lambda arguments: asked.append(arguments) or answer)
    async def wipe() -> str:
        wiped.append(1)
        return "wiped"

    helper = agent(model=calls_once("wipe"), tools=[wipe])
    lead = agent(
        model=calls_once("help", task="t"),
        tools=[helper.to_tool("help")],
        # A permission of the parent does not apply to the tools of the sub-agent.
        tool_strategy={"on_before_call": lambda tool, arguments: True},
    )

    turn = await lead.run("go")

    assert asked == [{}]
    assert wiped == ([1] if answer else [])
    assert ("denied" in turn.response.text) is not answer
    assert ("wiped" in turn.response.text) is answer


async def test_uap_81_the_approval_handler_of_the_sub_agent_decides():
    asked, wiped = [], []

    @tool
    async def wipe(path: str) -> str:
        wiped.append(path)
        return "wiped"

    def refuse(tool, arguments):
        asked.append((tool.name, arguments))
        return False

    helper = agent(model=calls_once("wipe", path="/"), tools=[wipe], tool_strategy={"on_before_call": refuse})
    lead = agent(model=calls_once("help", task="t"), tools=[helper.to_tool("help")])

    await lead.run("go")

    assert (asked, wiped) == ([("wipe", {"path": "/"})], [])


async def test_uap_84_the_depth_is_limited():
    both, started = {}, []

    def asking(name, other):
        @tool
        async def ask() -> str:
            started.append(name)
            return (await both[other].run("again")).response.text

        both[name] = agent(name=name, model=calls_once("ask"), tools=[ask])

    asking("a", "b")
    asking("b", "a")

    turn = await both["a"].run("go")

    # The ninth agent is refused as the result of the tool that would have started it; the eight above it end as usual.
    assert "9 agents deep, and 8 is the most" in turn.response.text
    assert started == list("ababababa")
    assert [done.is_error for done in turn.tool_executions] == [False]

    started.clear()
    limited = await both["a"].with_(max_sub_agent_depth=1).run("go")
    assert limited.response.text.count("2 agents deep, and 1 is the most") == 1
    assert started == ["a", "b"]

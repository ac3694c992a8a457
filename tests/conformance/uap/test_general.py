"""UAP-1.0 §15.3: all recommendations in one run. The number in a name is that of the point in our checklist."""

import asyncio
import json

import pytest

from turntree import agent
from turntree.execution import loop, plan, react
from turntree.upp import scripted, tool

STEPS = {"steps": [{"id": "look", "description": "Look it up", "tool": "helper", "dependsOn": []}]}


def call(name, /, **arguments):
    return {"toolName": name, "arguments": arguments}


BOTH = [call("weather", city="Oslo"), call("helper", task="Rome")]


def model_for(strategy, calls=BOTH, *within):
    """A model that calls tools once and then ends. `within` are the replies to sub-agents that inherit the model."""
    before = {"loop": [], "react": ["I think."], "plan": [json.dumps(STEPS)]}[strategy.name]
    between = ["I see."] if strategy.name == "react" else []
    return scripted([*before, calls, *within, *between, "done"])


@pytest.mark.parametrize("strategy", [loop(), react(), plan()], ids=lambda strategy: strategy.name)
async def test_uap_85_strategies_tools_sub_agents_and_usage_work_together(strategy):
    meeting = asyncio.Barrier(2)
    models = []

    async def meet():
        async with asyncio.timeout(10):
            await meeting.wait()

    @tool
    async def weather(city: str) -> str:
        await meet()
        return f"sunny in {city}"

    async def helped(request):
        models.append(len(request.tools))
        await meet()
        return "helped"

    # The sub-agent needs its own model: an inherited scripted model would use the script of the parent.
    helper = agent(name="helper", model=scripted(helped)).to_tool(name="helper")
    turn = await agent(model=model_for(strategy), tools=[weather, helper], execution=strategy).run("go")

    assert turn.response.text == "done"
    assert {done.tool_name: done.result for done in turn.tool_executions} == {
        "weather": "sunny in Oslo",
        "helper": "helped",
    }
    # The sub-agent has its own model and no tool of its parent.
    assert models == [0]
    assert len(turn.usage.cycles) == turn.cycles
    assert turn.usage.input_tokens == sum(cycle.input_tokens for cycle in turn.usage.cycles) > 0
    assert turn.usage.output_tokens == sum(cycle.output_tokens for cycle in turn.usage.cycles) > 0
    assert turn.cycles == {"loop": 2, "react": 4, "plan": 3}[strategy.name]


@pytest.mark.parametrize("strategy", [loop(), react(), plan()], ids=lambda strategy: strategy.name)
async def test_uap_85_a_sub_agent_inherits_the_model_in_every_strategy(strategy):
    model = model_for(strategy, [call("helper", task="Rome")], "helped")
    helper = agent(name="helper").to_tool(name="helper")

    turn = await agent(model=model, tools=[helper], execution=strategy).run("go")

    assert {done.tool_name: done.result for done in turn.tool_executions} == {"helper": "helped"}
    (inherited,) = [request for request in model.requests if request.messages[0].text == "Rome"]
    assert list(inherited.tools) == []
    assert turn.response.text == "done"

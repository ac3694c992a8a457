"""UAP-1.0 §15.3, the recommendations all at once. The number in a name is that of the point in our checklist."""

import asyncio
import json

import pytest

from turntree import agent
from turntree.execution import loop, plan, react
from turntree.upp import scripted, tool

STEPS = {"steps": [{"id": "look", "description": "Look it up", "tool": "weather", "dependsOn": []}]}


def call(name, /, **arguments):
    return {"toolName": name, "arguments": arguments}


def model_for(strategy):
    """A model whose last answer comes after one round of two tools, whatever is asked before."""
    rounds = [[call("weather", city="Oslo"), call("helper", task="Rome")], "done"]
    before = {"loop": [], "react": ["I think."], "plan": [json.dumps(STEPS)]}[strategy.name]
    between = ["I see."] if strategy.name == "react" else []
    return scripted([*before, rounds[0], *between, rounds[1]])


@pytest.mark.parametrize("strategy", [loop(), react(), plan()], ids=lambda strategy: strategy.name)
async def test_uap_85_strategies_tools_sub_agents_and_usage_go_together(strategy):
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

    # A model of its own: a scripted one would take its answers from the parent's script.
    helper = agent(name="helper", model=scripted(helped)).to_tool(name="helper")
    turn = await agent(model=model_for(strategy), tools=[weather, helper], execution=strategy).run("go")

    assert turn.response.text == "done"
    assert {done.tool_name: done.result for done in turn.tool_executions} == {
        "weather": "sunny in Oslo",
        "helper": "helped",
    }
    assert models == [0]
    assert turn.usage.total_tokens > 0
    assert turn.cycles == {"loop": 2, "react": 4, "plan": 3}[strategy.name]

"""Our client at servers of the official SDK."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp_support import TRANSPORTS, connected, model_events

from turntree import agent, mcp
from turntree.upp import Image, ToolCall, scripted


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_an_agent_calls_tools(transport: str):
    calls = [
        [{"toolName": "add", "arguments": {"a": 2, "b": 3}}],
        [{"toolName": "fail", "arguments": {"reason": "no luck"}}],
        [{"toolName": "picture", "arguments": {}}],
        "Done.",
    ]

    async with connected(transport) as server:
        turn = await agent(model=scripted(calls), tools=[server]).run("Go.")

    added, failed, drawn = turn.tool_executions
    assert added.result == {"result": 5}
    assert failed.is_error
    assert "Error executing tool fail" in str(failed.result)
    assert drawn.result == ["a dot", Image.from_base64("MTIzNDU2", "image/png").to_dict()]


async def reports_of(server: mcp.McpServer) -> list[int]:
    """The progress of a call."""
    model = scripted([[{"toolName": "count", "arguments": {"to": 2}}], "Counted."])
    events = [event async for event in agent(model=model, tools=[server]).stream("Count!")]
    return [event.delta["progress"]["progress"] for event in model_events(events, "tool_execution_progress")]


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_questions_are_answered_and_progress_is_reported(transport: str):
    questions: list[mcp.Elicitation] = []

    async def answer(question: mcp.Elicitation) -> dict[str, str]:
        questions.append(question)
        return {"color": "red"}

    async with connected(transport, on_elicitation=answer) as server:
        asked = await server.call("ask")
        reports = await reports_of(server)

    assert asked["content"][0]["text"] == "accept: red"
    assert questions[0].message == "Which color?"
    assert list(questions[0].schema["properties"]) == ["color"]
    assert reports == [1, 2]


@pytest.mark.parametrize(
    ("decision", "answered"), [({"color": "blue"}, "accept: blue"), (False, "decline"), ("ask", "cancel")]
)
async def test_on_approval_of_the_run_answers_questions(decision: Any, answered: str):
    questions: list[mcp.Elicitation] = []

    async def decide(question: mcp.Elicitation) -> Any:
        questions.append(question)
        return decision

    model = scripted([ToolCall("c1", "my_ask", {}), "Done."])
    async with connected("stdio", on_elicitation="approval", prefix="my_") as server:
        turn = await agent(model=model, tools=[server]).run("Go.", on_approval=decide)
        alone = await server.call("ask")

    assert turn.tool_executions[0].result == answered
    (question,) = questions
    assert isinstance(question, mcp.Elicitation)
    assert (question.tool_name, question.tool_call_id, question.message) == ("my_ask", "c1", "Which color?")
    assert alone["content"][0]["text"] == "cancel"


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_new_tools_are_seen_at_the_next_step(transport: str):
    async with connected(transport) as server:
        before = [tool.name for tool in await server.tools()]
        await server.call("grow")
        while "fresh" not in (names := [tool.name for tool in await server.tools()]):
            await asyncio.sleep(0)

    assert "fresh" not in before
    assert set(names) - set(before) == {"fresh"}


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_resources_and_prompts(transport: str):
    async with connected(transport) as server:
        resources = [resource["uri"] for resource in await server.resources()]
        contents = await server.read_resource("note://today")
        prompts = [prompt["name"] for prompt in await server.prompts()]
        messages = await server.get_prompt("greet", name="Ann")

    assert resources == ["note://today"]
    assert contents[0]["text"] == "Buy bread."
    assert prompts == ["greet", "favorite"]
    assert messages[0]["content"]["text"] == "Greet Ann."

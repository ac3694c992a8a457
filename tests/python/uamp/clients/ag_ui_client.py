"""The event classes of `ag-ui-protocol`: they accept the events of served agents, and their input is accepted."""

from __future__ import annotations

from typing import Any

import httpx
from _scenarios import run
from ag_ui.core import AssistantMessage, Event, FunctionCall, RunAgentInput, Tool, ToolCall, ToolMessage, UserMessage
from pydantic import TypeAdapter

EVENT: TypeAdapter[Any] = TypeAdapter(Event)
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def events(url: str, agent: str, messages: list[Any], **members: Any) -> list[Any]:
    """Run an agent and parse all events."""
    given = RunAgentInput(
        thread_id="thread",
        run_id="run",
        state={},
        messages=messages,
        context=[],
        forwarded_props={},
        tools=members.pop("tools", []),
        **members,
    )
    body = given.model_dump_json(by_alias=True, exclude_none=True)
    headers = {"authorization": "Bearer secret", "content-type": "application/json", "accept": "text/event-stream"}
    found = httpx.post(f"{url}/agents/{agent}/ag-ui", content=body, headers=headers, timeout=30)
    found.raise_for_status()
    lines = [line.removeprefix("data: ") for line in found.text.splitlines() if line.startswith("data: ")]
    return [EVENT.validate_json(line) for line in lines]


def kinds(found: list[Any]) -> list[str]:
    """The kinds of events, without repetitions."""
    names = [event.type.value for event in found]
    return [name for place, name in enumerate(names) if place == 0 or names[place - 1] != name]


def text(url: str) -> Any:
    """A message."""
    found = events(url, "echo", [UserMessage(id="1", content="hello")])
    said = "".join(event.delta for event in found if event.type.value == "TEXT_MESSAGE_CONTENT")
    return [kinds(found), said]


def reasoning(url: str) -> Any:
    """Reasoning before the answer."""
    found = events(url, "thinker", [UserMessage(id="1", content="hello")])
    return [name for name in kinds(found) if name.startswith("REASONING")]


def server_tool(url: str) -> Any:
    """A tool of the server."""
    found = events(url, "worker", [UserMessage(id="1", content="hello")])
    results = [event.content for event in found if event.type.value == "TOOL_CALL_RESULT"]
    return [[name for name in kinds(found) if name.startswith("TOOL_CALL")], results]


def client_tool(url: str) -> Any:
    """A tool of the front end: two requests."""
    question = UserMessage(id="1", content="weather?")
    tools = [Tool(name="weather", description="Weather", parameters=CITY)]
    found = events(url, "caller", [question], tools=tools)
    (start,) = [event for event in found if event.type.value == "TOOL_CALL_START"]
    arguments = "".join(event.delta for event in found if event.type.value == "TOOL_CALL_ARGS")
    call = ToolCall(id=start.tool_call_id, function=FunctionCall(name=start.tool_call_name, arguments=arguments))
    asked = AssistantMessage(id="2", tool_calls=[call])
    result = ToolMessage(id="3", tool_call_id=start.tool_call_id, content="sunny")
    again = events(url, "caller", [question, asked, result], tools=tools)
    said = "".join(event.delta for event in again if event.type.value == "TEXT_MESSAGE_CONTENT")
    return [start.tool_call_name, arguments, said]


def failure(url: str) -> Any:
    """A run that fails."""
    return kinds(events(url, "broken", [UserMessage(id="1", content="hello")]))


if __name__ == "__main__":
    run([text, reasoning, server_tool, client_tool, failure])

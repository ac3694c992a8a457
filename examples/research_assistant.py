"""A research assistant: a lead agent asks two specialists concurrently and returns a typed report. Runs offline.

For real models, replace each `scripted(…)` by a model such as `openai("gpt-4o-mini")`.
"""

import asyncio
import json
from dataclasses import dataclass

from turntree import agent
from turntree.upp import ModelReference, ModelRequest, Reply, ToolCall, ToolResultMessage, scripted, tool

LIBRARY = {
    "tides": "The Moon raises two bulges of water; the Earth turns below them once a day.",
    "harbours": "Ships with a deep keel enter a shallow harbour at high water only.",
}


@dataclass
class Report:
    """The answer of the lead."""

    title: str
    findings: list[str]


@tool
async def look_up(subject: str) -> str:
    """Return what the library says about a subject.

    Args:
        subject: One word, such as tides.
    """
    return LIBRARY.get(subject, f"nothing about {subject}")


def play_specialist(subject: str) -> ModelReference:
    """Return a scripted model that looks up its subject and repeats what it found."""

    def answer(request: ModelRequest) -> Reply:
        last = request.messages[-1]
        if isinstance(last, ToolResultMessage):
            return Reply(str(last.results[0].result))
        return Reply(ToolCall("look-up", "look_up", {"subject": subject}))

    return scripted(answer)


def play_lead(request: ModelRequest) -> Reply:
    """Ask both specialists in one response, then write the report from their results."""
    last = request.messages[-1]
    if isinstance(last, ToolResultMessage):
        report = {"title": "Why ships wait", "findings": [result.result for result in last.results]}
        return Reply(json.dumps(report))
    return Reply(
        [
            ToolCall("call-1", "ask_oceanographer", {"task": "What makes the tides?"}),
            ToolCall("call-2", "ask_pilot", {"task": "When can ships enter?"}),
        ]
    )


oceanographer = agent(model=play_specialist("tides"), tools=[look_up], system="You know the sea.")
pilot = agent(model=play_specialist("harbours"), tools=[look_up], system="You know harbours.")
lead = agent(
    model=scripted(play_lead),
    tools=[oceanographer.to_tool("ask_oceanographer"), pilot.to_tool("ask_pilot")],
    structure=Report,
    system="Ask the specialists, then write a report.",
)


async def main() -> None:
    """Print the work of the agents as it happens, then the report."""
    stream = lead.stream("Why do ships wait outside the harbour?", sub_agent_events=True)
    async for event in stream:
        if event.uap and event.uap.type == "action":
            print(f"{event.sub_agent.tool_name if event.sub_agent else 'lead'}: calls a tool")
    turn = await stream.turn
    print(f"\n{turn.data.title}")
    for finding in turn.data.findings:
        print(f"- {finding}")


if __name__ == "__main__":
    asyncio.run(main())

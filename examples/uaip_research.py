"""A research workflow in three stages, in the style of classes and over HTTP. Runs offline with a scripted agent.

The agent collects sources, takes notes, and can write the report only when it has notes.
"""

import asyncio
from typing import ClassVar

from pydantic import BaseModel
from schema_tokens import report

from turntree import agent
from turntree.uaip import State, TaskError, construct, serve, stage, task, toolset, workflow, workflow_of
from turntree.upp import ToolCall, scripted

LIBRARY = {
    "tides": "The moon and the sun move the water of the sea.",
    "moon": "The moon goes around the earth in 27 days.",
}


@construct()
class Notes(BaseModel):
    """What the report is made of."""

    notes: list[str]


@stage()
class Collect:
    """Find sources."""

    @task(description="Search the library for sources.")
    def search(self, state: State, words: str) -> list[str]:
        """Return the names of sources."""
        found = [name for name, text in LIBRARY.items() if words in name or words in text]
        state.set("sources", sorted({*state.get("sources", []), *found}))
        return found


@stage(prerequisites=["sources"])
class Read:
    """Read sources and take notes."""

    @task()
    def read(self, state: State, source: str) -> str:
        """Read a source that was found."""
        if source not in state.get("sources"):
            raise TaskError(f"{source!r} was not found; search for it")
        return LIBRARY[source]

    @task()
    def take_note(self, state: State, note: str) -> int:
        """Add a note. Returns the number of notes."""
        state.set("notes", [*state.get("notes", []), note])
        return len(state.get("notes"))


@stage(prerequisites=[Notes])
class Write:
    """Write the report."""

    @task()
    async def write(self, state: State, title: str) -> str:
        """Write a report of all notes."""
        return "\n".join([title, *(f"- {note}" for note in state.get("notes"))])


@workflow(name="research")
class Research:
    """Answers a question with sources."""

    collect = Collect
    read = Read
    write = Write
    transitions: ClassVar = {collect: [read], read: [collect, write]}


def call(name: str, **arguments: object) -> ToolCall:
    """Return a call of the scripted model."""
    return ToolCall(tool_call_id=f"call-{name}", tool_name=name, arguments=arguments)


async def main() -> None:
    """Serve the workflow, and let a scripted agent walk through it by its URL."""
    model = scripted(
        [
            call("search", words="moon"),
            call("transition_stage", target_stage="read"),
            call("read", source="tides"),
            call("take_note", note="The moon and the sun cause the tides."),
            call("transition_stage", target_stage="write"),
            call("write", title="Tides"),
            "The moon and the sun cause the tides.",
        ]
    )
    async with serve(Research) as server:
        turn = await agent(model=model, tools=[toolset(server.url)]).run("What causes the tides?")
    for execution in turn.tool_executions:
        print(f"{execution.tool_name}({execution.arguments}) -> {execution.result}")
    print(turn.response.text)
    print(report(workflow_of(Research), model.requests))


if __name__ == "__main__":
    asyncio.run(main())

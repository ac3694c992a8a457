"""The agent of the crash tests. Its tools record their effects in a file that survives any crash."""

import asyncio
import os
from pathlib import Path

from turntree import Agent, ToolContext, agent
from turntree.upp import scripted, tool

INPUT = {
    "id": "5b1a2c3d-0000-4000-8000-000000000001",
    "type": "user",
    "content": [{"type": "text", "text": "Book two seats."}],
    "timestamp": "2026-01-01T00:00:00.000Z",
}

STRUCTURE = {
    "type": "object",
    "properties": {"seats": {"type": "array", "items": {"type": "string"}}},
    "required": ["seats"],
}


class Journal:
    """A file with one line for each effect, written to the disk before `add` returns."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, *words: str) -> None:
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, (" ".join(words) + "\n").encode())
            os.fsync(file)
        finally:
            os.close(file)

    def lines(self) -> list[list[str]]:
        return [line.split(" ") for line in self.path.read_text().splitlines()] if self.path.exists() else []


def call(id, name, **arguments):
    return {"toolCallId": f"call_{id}", "toolName": name, "arguments": arguments}


def reply(request, journal):
    """Answer by the number of messages, so that a process that continues a run gets the same answers."""
    done = len(request.messages)
    names = {tool["name"] for tool in request.tools}
    journal.add("model", "expert" if "look_up" in names else "assistant", str(done))
    if "look_up" in names:
        return call(1, "look_up", seat=request.messages[0].text) if done == 1 else f"{request.messages[0].text} is free"
    if done == 1:
        return [
            call(1, "book", seat="12A"),
            call(2, "expert", task="12B"),
            call(3, "remind", day=3),
            call(4, "expert", task="12C"),
        ]
    if done == 3:
        return [call(5, "fail"), call(6, "book", seat="12B")]
    return '{"seats": ["12A", "12B"]}'


def booking_agent(journal: Journal, checkpoint=lambda place: None) -> Agent:
    """Return the agent. `checkpoint` is called inside the tools, before and after their effects."""

    @tool
    async def book(context: ToolContext, seat: str) -> dict[str, str]:
        """Book a seat. A repeated call books it twice."""
        checkpoint(f"before the effect of book {seat}")
        journal.add("book", seat, context.idempotency_key)
        checkpoint(f"after the effect of book {seat}")
        await asyncio.sleep(0.02)
        return {"seat": seat, "state": "booked"}

    @tool(idempotent=True)
    def remind(context: ToolContext, day: int) -> str:
        """Set a reminder."""
        checkpoint("before the effect of remind")
        journal.add("remind", str(day), context.idempotency_key)
        checkpoint("after the effect of remind")
        return "set"

    @tool(idempotent=True)
    async def fail(context: ToolContext) -> str:
        """Fail."""
        journal.add("fail", "-", context.idempotency_key)
        message = "no such seat"
        raise LookupError(message)

    @tool(idempotent=True)
    async def look_up(context: ToolContext, seat: str) -> str:
        """Look up a seat."""
        await asyncio.sleep(0.01 if seat == "12B" else 0)
        journal.add("look_up", seat, context.idempotency_key)
        return "free"

    model = scripted(lambda request: reply(request, journal))
    expert = agent(model=model, tools=[look_up], name="expert").to_tool(name="expert", description="Knows seats.")
    return agent(model=model, tools=[book, remind, fail, expert], structure=STRUCTURE, name="assistant")

"""Helpers of the tests of agent streams."""

from turntree.upp import tool

WORDS = "one two three four five six seven eight nine ten"


def call(name, /, **arguments):
    """A tool call as a script writes it."""
    return {"toolName": name, "arguments": arguments}


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def listen(stream):
    return [event async for event in stream]


def kinds(events):
    return [event.uap.type if event.uap else event.upp.type for event in events]


def text_of(events):
    return "".join(event.upp.delta["text"] for event in events if event.upp and event.upp.type == "text_delta")

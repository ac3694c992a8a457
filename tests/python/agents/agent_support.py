"""Helpers of the tests of agents."""


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def call(name="add", **arguments):
    """A tool call as a script writes it."""
    return {"toolName": name, "arguments": arguments}


def calls_for_ever(_request):
    return [call(a=1, b=1)]


def types(turn):
    return [message.type for message in turn.messages]

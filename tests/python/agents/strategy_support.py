"""Helpers of the tests of strategies."""

from turntree.upp import tool


def call(name, /, **arguments):
    return {"toolName": name, "arguments": arguments}


def step(id, *depends_on, tool=None):
    return {"id": id, "description": f"do {id}", "tool": tool, "dependsOn": list(depends_on)}


@tool
def search(query: str) -> str:
    """Search."""
    return f"found {query}"


def texts(messages):
    return [message.text for message in messages]

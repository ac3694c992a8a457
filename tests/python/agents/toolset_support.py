"""Toolsets, and what models were offered and tools returned."""

import asyncio
import json

from turntree.upp import Tool, tool


def call(name, id=None, /, **arguments):
    """A tool call as a script writes it."""
    return {"toolName": name, "arguments": arguments, **({"toolCallId": id} if id else {})}


def offered(model):
    """The names of the tools in each request."""
    return [[tool["name"] for tool in request.tools] for request in model.requests]


def made(steps):
    """A plan as a model returns it."""
    return json.dumps({"steps": steps})


def results(turn):
    return [(call.tool_name, call.result, call.is_error) for call in turn.tool_executions]


def named(name, result="ok", **options):
    return Tool(name, f"The tool {name}.", {"type": "object", "properties": {}}, lambda: result, **options)


class Shop:
    """A toolset with two stages: `enter` leads from the first to the second."""

    name = "shop"

    def __init__(self):
        self.stage = "street"
        self.contexts = []

    def enter(self):
        """Enter the shop."""
        self.stage = "shop"
        return "inside"

    def buy(self):
        """Buy something."""
        return "bought"

    async def tools(self, context):
        self.contexts.append(context)
        return [self.enter] if self.stage == "street" else [self.buy]


class Fixed:
    """A sync toolset that returns what it was made with."""

    def __init__(self, *tools):
        self.returned = list(tools)

    def tools(self, context):
        return self.returned


@tool
def own() -> str:
    """The agent's own tool."""
    return "own"


class Slow:
    """A toolset that does not return; it says when it is asked and when it is cancelled."""

    def __init__(self):
        self.asked = asyncio.Event()
        self.cancelled = False
        self.context = None

    async def tools(self, context):
        self.context = context
        self.asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise

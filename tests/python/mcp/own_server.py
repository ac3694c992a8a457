"""Tools and an agent of turntree as an MCP server over standard streams."""

import asyncio

from turntree import ModelRetry, ToolContext, agent, mcp
from turntree.upp import scripted


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def city(name: str) -> dict[str, str]:
    """Look up a city."""
    if name != "Oulu":
        raise ModelRetry("only Oulu is known")
    return {"name": name, "country": "Finland"}


async def count(to: int, context: ToolContext) -> str:
    """Count."""
    for number in range(1, to + 1):
        context.report({"progress": number, "total": to})
    return f"counted to {to}"


helper = agent(name="helper", model=scripted(lambda request: f"You said: {request.messages[-1].text}"), system="Helps.")

if __name__ == "__main__":
    asyncio.run(mcp.serve(add, city, count, helper, name="own"))

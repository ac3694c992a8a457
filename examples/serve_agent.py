"""An agent on a server, and a client of it. Runs offline with a scripted agent.

The server keeps the conversation; the tool `local_time` runs in the client. To serve an agent of your own for good:
``turntree serve app:helper --port 8000``.
"""

import asyncio

from turntree import agent, uamp
from turntree.upp import ModelRequest, ToolCall, ToolResultMessage, scripted


def stock(product: str) -> int:
    """How many packets of a product are in stock."""
    return {"tea": 12, "coffee": 0}.get(product, 0)


def local_time() -> str:
    """The time where the user is."""
    return "12:30"


def reply(request: ModelRequest) -> str | ToolCall:
    """Stand in for a model: call a tool for each question, then say what it returned."""
    last = request.messages[-1]
    if isinstance(last, ToolResultMessage):
        return f"It says {last.results[0].result}."
    is_time = "time" in last.text
    name, arguments = ("local_time", {}) if is_time else ("stock", {"product": "tea"})
    return ToolCall(tool_call_id=f"call_{len(request.messages)}", tool_name=name, arguments=arguments)


async def main() -> None:
    """Serve the agent and talk to it."""
    shop = agent(name="shop", model=scripted(reply), tools=[stock], system="You sell tea.")
    async with uamp.serve(shop, store="memory://") as server, uamp.connect(server.url) as client:
        session = await client.session("shop")
        async for event in session.run("How much tea is there?"):
            print(event.text, end="")
        print()
        print(await session.run("What time is it?", tools=[local_time]).text())


if __name__ == "__main__":
    asyncio.run(main())

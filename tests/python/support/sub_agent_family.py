"""Helpers for tests of sub-agents: models that call a tool once, tools that record their contexts, agent trees."""

from turntree import ToolContext, agent
from turntree.upp import scripted, tool


def call(name, /, **arguments):
    """A tool call as a script writes it."""
    return {"toolName": name, "arguments": arguments}


def calling(name, /, **arguments):
    """A model that calls a tool once and then repeats the result of the tool."""

    def reply(request):
        last = request.messages[-1]
        return str(last.results[0].result) if last.type == "tool_result" else call(name, **arguments)

    return scripted(reply)


def echo(request):
    return f"did {request.messages[-1].text}"


def results(turn):
    """The results of the tools of a turn, in the order of their calls."""
    return [result.result for message in turn.messages if message.type == "tool_result" for result in message.results]


def kept_places():
    """A tool that records its contexts, and the list of the contexts."""
    places = []

    @tool
    def place(context: ToolContext) -> str:
        places.append(context)
        return "noted"

    return place, places


def once(request, name):
    return "done" if request.messages[-1].type == "tool_result" else call(name)


def chain(length, **options):
    """Agents, each of which is a tool of the next one; the last one is the root."""
    made = agent(model=scripted(["bottom"]))
    for _ in range(length - 1):
        made = agent(model=calling("down", task="t"), tools=[made.to_tool("down")])
    return made.with_(**options)


def listened(family, run, start=None):
    async def main():
        stream = (start or family.stream)("go", sub_agent_events=True)
        events = [event async for event in stream]
        return events, await stream.turn

    return run(main())

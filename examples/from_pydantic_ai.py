"""Moves a conversation from Pydantic AI to turntree, continues it, and takes it back. Runs offline.

The history of Pydantic AI becomes a ThreadProtocol document, which loses nothing: the first messages come back as equal
objects. The agent of turntree reads the same history, with its tool calls.
"""

import asyncio

from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

import turntree
from turntree import thread_protocol as tp
from turntree.upp import ModelRequest, ToolResultMessage, scripted

old = Agent(TestModel(custom_output_text="It is 18 degrees in Tokyo."), system_prompt="Be brief.")


@old.tool_plain
def degrees(city: str) -> int:
    """Return the temperature of a city."""
    return 18 if city else 0


def play_model(request: ModelRequest) -> str:
    """Answer from the tool result of the old conversation."""
    results = [message.results[0] for message in request.messages if isinstance(message, ToolResultMessage)]
    return f"At {results[0].result} degrees, a light jacket."


new = turntree.agent(model=scripted(play_model), system="Be brief.")


async def main() -> None:
    """Run the old agent, convert, run the new one on the same conversation, convert back."""
    history = (await old.run("How warm is Tokyo?")).all_messages()
    document = tp.from_pydantic_ai(history)
    print(f"{len(history)} messages of Pydantic AI are {len(document)} actions of ThreadProtocol")
    print(f"equal objects come back: {document.to_pydantic_ai() == history}")

    turn = await new.run(document.to_upp(), "What should I wear?")
    print(turn.text)

    everything = tp.from_upp([*document.to_upp(), *turn.messages]).to_pydantic_ai()
    print(f"{len(everything)} messages for Pydantic AI, the last one: {type(everything[-1]).__name__}")


if __name__ == "__main__":
    asyncio.run(main())

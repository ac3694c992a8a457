"""Classifies many texts concurrently, each run with a budget; what fails is named with its input. Runs offline.

`Agent.map` takes an input only when a place is free, so the inputs may be a file of any size.
"""

import asyncio
import json
from typing import Literal, TypedDict

from turntree import BudgetExceeded, agent
from turntree.middleware import budget
from turntree.upp import ModelRequest, Reply, ToolCall, Turn, scripted, tool

REVIEWS = [
    "The kettle boils in a minute. I like it.",
    "It broke after two days.",
    "The colour is blue.",
    "Ask me again about this one.",
] * 50


class Review(TypedDict):
    """What the agent finds out."""

    mood: Literal["good", "bad", "neutral"]


@tool
def look_again() -> str:
    """Read the review once more."""
    return "It says the same."


def play_model(request: ModelRequest) -> Reply:
    """Classify by words; one review makes the model call its tool for ever."""
    text = request.messages[0].text
    if "again" in text:
        return Reply(ToolCall("look", "look_again", {}))
    mood = "good" if "like" in text else "bad" if "broke" in text else "neutral"
    return Reply(json.dumps({"mood": mood}))


classifier = agent(
    model=scripted(play_model),
    tools=[look_again],
    structure=Review,
    middleware=[budget(steps=3)],
)


async def main() -> None:
    """Print how often each mood was found, and what was left out."""
    counts: dict[str, int] = {}
    stopped = tokens = 0
    number = -1
    async for result in classifier.map(REVIEWS, concurrency=16, return_exceptions=True):
        number += 1
        if isinstance(result, Turn):
            mood = result.data["mood"]
            counts[mood] = counts.get(mood, 0) + 1
            tokens += result.usage.total_tokens
        elif isinstance(result, BudgetExceeded):
            stopped += 1
            if stopped == 1:
                print(f"first over budget: number {number}, {REVIEWS[number]!r}")
        else:
            raise result
    print(f"{counts}, {stopped} over budget, {tokens} tokens")


if __name__ == "__main__":
    asyncio.run(main())

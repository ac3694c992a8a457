"""Classifies many texts concurrently, with a budget for each run and limits for all of them. Runs offline.

`Agent.map` takes an input only when a place is free, so the inputs may be a file of any size.
"""

import asyncio
import json
import sys
import traceback
from collections import Counter
from typing import Literal, TypedDict

from turntree import BudgetExceeded, Limits, agent
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


classifier = agent(model=scripted(play_model), tools=[look_again], structure=Review, middleware=[budget(steps=3)])


async def main() -> None:
    """Print how often each mood was found, and what was left out."""
    moods: Counter[str] = Counter()
    over_budget: list[BudgetExceeded] = []
    tokens = 0
    # Each run has its own budget of steps; the limits count all runs together.
    runs = classifier.map(REVIEWS, concurrency=16, return_exceptions=True, limits=Limits(total_tokens=1_000_000))
    async for result in runs:
        if isinstance(result, Turn):
            moods[result.data["mood"]] += 1
            tokens += result.usage.total_tokens
        elif isinstance(result, BudgetExceeded):
            over_budget.append(result)
        else:
            raise result
    print(f"{dict(moods)}, {len(over_budget)} over budget, {tokens} tokens")
    # The exception has a note with the index and the start of the input, which tracebacks show.
    traceback.print_exception(over_budget[0], limit=0, file=sys.stdout)


if __name__ == "__main__":
    asyncio.run(main())

"""Two agents argue, and a third one judges. Each sees the conversation from its own side. Runs offline.

A round is two runs. The history of each run is made of the lines said so far: what the speaker said itself are its
answers, and what the other said is its input.
"""

import asyncio
import json
from typing import Literal, TypedDict

from turntree import agent
from turntree.upp import AssistantMessage, Message, ModelRequest, UserMessage, scripted

ARGUMENTS = {
    "tea": ["Tea wakes a person gently.", "Tea needs water and leaves, and nothing else."],
    "coffee": ["Coffee wakes a person at once.", "Coffee brings people together."],
}


def play_judge(request: ModelRequest) -> str:
    """Return the side with the longer arguments."""
    lines = request.messages[-1].text.splitlines()
    lengths = {side: sum(len(line) for line in lines if line.startswith(f"{side}:")) for side in ARGUMENTS}
    winner = max(lengths, key=lambda side: lengths[side])
    return json.dumps({"winner": winner, "reason": f"{winner} has said more"})


class Verdict(TypedDict):
    """The decision of the judge."""

    winner: Literal["tea", "coffee"]
    reason: str


speakers = {
    side: agent(model=scripted(ARGUMENTS[side]), system=f"You argue for {side}. One sentence.") for side in ARGUMENTS
}
judge = agent(model=scripted(play_judge), structure=Verdict, system="Decide who has argued better.")


def seen_by(side: str, said: list[tuple[str, str]]) -> list[Message]:
    """Return the debate as one speaker sees it: its own lines as answers, the others as input."""
    return [AssistantMessage(text) if who == side else UserMessage(text) for who, text in said]


async def main() -> None:
    """Two rounds, then the verdict."""
    said = [("moderator", "What should an office offer?")]
    for _ in range(2):
        for side, speaker in speakers.items():
            *history, last = seen_by(side, said)
            turn = await speaker.run(history, last)
            said.append((side, turn.text))
            print(f"{side}: {turn.text}")
    verdict = (await judge.run("\n".join(f"{who}: {text}" for who, text in said))).data
    print(f"\nThe judge: {verdict['winner']}, because {verdict['reason']}.")


if __name__ == "__main__":
    asyncio.run(main())

"""Tries two ideas on branches of one conversation at a time, keeps the better one, and merges the other. Runs offline.

The session is in SQLite. After the program has ended, `turntree tree --store URL --session trip` shows its tree.
"""

import asyncio
import tempfile
from pathlib import Path

from turntree import Session, agent
from turntree.upp import ModelRequest, scripted

PLANS = {
    "plan": "Three days in Norway, with one night on the way.",
    "train": "By train: 14 hours, two changes, the whole coast.",
    "plane": "By plane: 2 hours, and a day more in the city.",
    "summary": "Fly there, and take the train back along the coast.",
}


def play_model(request: ModelRequest) -> str:
    """Answer by the last word of the question."""
    return PLANS[request.messages[-1].text.rstrip("?.").split()[-1]]


planner = agent(model=scripted(play_model), name="planner")


async def explore(store: str) -> None:
    """Branch, run on each branch, compare, merge, and load the session again."""
    trip = await Session.open(store, "trip", planner)
    await trip.run("Make a plan.")
    start = trip.tree.current.id

    ideas: dict[str, str] = {}
    for idea in ("train", "plane"):
        ideas[idea] = trip.fork(start)
        trip.tree[ideas[idea]].name = idea
        trip.tree.checkout(ideas[idea])
        await trip.run(f"And by {idea}?")

    difference = trip.tree.diff(ideas["train"], ideas["plane"])
    print(f"{difference.common} messages in common")
    print(f"train: {difference.only_a[-1].text}")
    print(f"plane: {difference.only_b[-1].text}\n")

    trip.tree.merge(ideas["train"], ideas["plane"])
    turn = await trip.run("Write a summary.")
    await trip.save()
    print(turn.text, end="\n\n")

    again = await Session.load(store, "trip", planner)
    print(again.tree)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="turntree-") as folder:
        asyncio.run(explore(f"sqlite:///{Path(folder) / 'trips.db'}"))

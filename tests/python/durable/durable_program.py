"""Runs the booking agent as a workflow and prints its turn; dies by SIGKILL at the given place.

Arguments: the engine, the URL of its database, the folder, and the number of the place to die at, or 0.
"""

import asyncio
import json
import os
import signal
import sys
import threading
from pathlib import Path

from durable_agents import INPUT, Journal, booking_agent

from turntree.durable._steps import Run

ENGINE, URL, FOLDER, DIE_AT = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
ID = "booking-1"

effects = Journal(FOLDER / "effects")
steps = Journal(FOLDER / "steps")
places = 0
counting = threading.Lock()  # a tool counts in a thread of its own


def place(_: str) -> None:
    """Die here if this is the place to die at."""
    global places
    with counting:
        places += 1
        here = places
    if here == DIE_AT:
        os.kill(os.getpid(), signal.SIGKILL)


def watch_steps() -> None:
    """Write down which steps were executed and recorded, with a place to die before and after each."""
    record = Run.record

    async def watched(run, name, function):
        async def executed():
            steps.add("executed", name)
            place(f"at the start of {name}")
            text = await function()
            place(f"before the record of {name}")
            return text

        text = await record(run, name, executed)
        steps.add("recorded", name)
        place(f"after the record of {name}")
        return text

    Run.record = watched


def settled(call):
    """What the application says about a call in doubt: it looks whether the effect happened."""
    if any(line[0] == call.tool_name and line[2] == call.key for line in effects.lines()):
        return {"result": {"seat": call.arguments["seat"], "state": "booked"}}
    return {"retry": True}


async def turn_of(handle):
    """Return the turn, after decisions about the calls in doubt."""
    turn = asyncio.ensure_future(handle.turn())
    decided = set()
    while not turn.done():
        for call in await handle.pending():
            if call.key not in decided:
                decided.add(call.key)
                await handle.resolve(call, **settled(call))
        await asyncio.wait({turn}, timeout=0.05)
    return turn.result()


async def run_dbos() -> dict:
    from dbos import DBOS

    from turntree.durable.dbos import DurableAgent

    DBOS(
        config={
            "name": "booking",
            "system_database_url": URL,
            "log_level": "ERROR",
            "run_admin_server": False,
            "notification_listener_polling_interval_sec": 0.05,
            "application_version": "1",
        }
    )
    durable = DurableAgent(booking_agent(effects, place), name="assistant")
    DBOS.launch()
    # A workflow that exists is not started again: its recovery has started with `launch`.
    handle = await durable.start(INPUT, id=ID)
    return (await turn_of(handle)).model_dump(mode="json")


async def run_absurd() -> dict:
    from absurd_sdk import AsyncAbsurd

    from turntree.durable.absurd import DurableAgent

    app = AsyncAbsurd(URL)
    durable = DurableAgent(booking_agent(effects, place), app, name="assistant", heartbeat=0.3)
    worker = asyncio.create_task(app.start_worker(claim_timeout=1, poll_interval=0.02))
    handle = await durable.start(INPUT, id=ID)
    turn = await turn_of(handle)
    app.stop_worker()
    await worker
    return turn.model_dump(mode="json")


watch_steps()
turn = asyncio.run(run_dbos() if ENGINE.startswith("dbos") else run_absurd())
print(json.dumps({"turn": turn, "places": places}), flush=True)
# Without the seconds that DBOS waits for its threads.
os._exit(0)

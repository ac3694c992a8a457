"""A program that the tests of calls in doubt start and kill: ``killed_program.py DIRECTORY run|resume [resolution]``.

It runs or resumes the session "s" in a store of files, and prints a JSON object. The tools append their calls to the
file ``effects``; while the file ``deadly`` exists, `pay` then kills the process.
"""

import json
import os
import signal
import sys
from pathlib import Path
from urllib.parse import quote

from turntree import ApprovalRequired, Session, ToolContext, agent
from turntree.upp import scripted, tool

FOLDER = Path(sys.argv[1])


class Files:
    """A store of one file for each key. A file is replaced as a whole."""

    def save(self, key, data):
        new = FOLDER / "new"
        new.write_text(data)
        new.rename(FOLDER / quote(key, safe=""))

    def load(self, key):
        path = FOLDER / quote(key, safe="")
        return path.read_text() if path.exists() else None

    def delete(self, key):
        (FOLDER / quote(key, safe="")).unlink(missing_ok=True)


def record(name, context):
    with (FOLDER / "effects").open("a") as effects:
        effects.write(json.dumps([name, context.idempotency_key]) + "\n")
        effects.flush()
        os.fsync(effects.fileno())
    if name != "look" and (FOLDER / "deadly").exists():
        os.kill(os.getpid(), signal.SIGKILL)


def call(name, **arguments):
    return {"toolName": name, "arguments": arguments}


def pay(context: ToolContext) -> str:
    """Pay."""
    stored = Files().load("session:s")
    assert stored is not None
    assert "toolCalls" in stored, "the response is saved before its tools start"
    record("pay", context)
    return "paid"


@tool
def look(context: ToolContext) -> str:
    """Look."""
    record("look", context)
    return "seen"


def answer(request):
    done = sum(message.type == "tool_result" for message in request.messages)
    if done:
        stored = Files().load("session:s")
        assert "seen" in stored, "a result is saved before the next model call"
    return [call("look"), call("pay"), "done"][done]


def build(kind):
    payer = tool(idempotent=kind == "idempotent")(pay)
    if kind != "nested":
        return agent(model=scripted(answer), tools=[look, payer])
    helper = agent(model=scripted(answer), tools=[look, payer])
    outer = [call("helper", task="pay"), "done"]
    return agent(model=scripted(lambda request: outer[len(request.messages) > 1]), tools=[helper.to_tool("helper")])


async def main():
    command, kind, *rest = sys.argv[2:]
    store = Files()
    if command == "run":
        await (await Session.open(store, "s", build(kind), save_interval="tool")).run("go")
        return {}
    session = await Session.load(store, "s", build(kind), save_interval="tool")
    found = {"unfinished": session.is_unfinished, "in_doubt": [call.tool_name for call in session.in_doubt]}
    if rest:
        for call in session.in_doubt:
            session.resolve(call, **json.loads(rest[0]))
        await session.save()
        session = await Session.load(store, "s", build(kind), save_interval="tool")
        found["left"] = len(session.in_doubt)
    try:
        turn = await session.resume()
    except ApprovalRequired as required:
        return {**found, "required": [call.tool_name for call in required.calls], "message": str(required)}
    records = [[call.tool_name, call.result, call.is_error] for call in turn.tool_executions]
    return {**found, "records": records, "text": turn.response.text}


if __name__ == "__main__":
    import asyncio

    print(json.dumps(asyncio.run(main())))

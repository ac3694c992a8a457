"""The sessions of the crash tests: a deterministic script of operations, tools with side effects outside of the store,
and how an application continues a session after a crash.

A session executes the operations of `operations(name)` in order. ``metadata["operation"]`` is the number of the newest
operation that its state contains, so that a program which loads the session knows where to continue.
"""

import os
import random
from pathlib import Path

from turntree import Session, ToolContext, agent
from turntree.upp import ModelRequest, scripted, tool

_TURNS = 6


class OutsideLog:
    """A text file with a line for each event. A line that was added survives the process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def add(self, line: str) -> None:
        """Add a line, and return when it is on disk."""
        os.write(self._file, f"{line}\n".encode())
        os.fsync(self._file)

    def lines(self) -> list[str]:
        """Return all lines."""
        return self._path.read_text().splitlines()


def operations(name: str) -> list[str]:
    """Return the operations of a session: turns, and in some sessions a branch, a restored checkpoint, a merge."""
    chosen = random.Random(name)
    listed = [f"turn {number}" for number in range(_TURNS)]
    for operation in ("branch", "restore", "merge"):
        if chosen.random() < 0.5:
            listed.insert(chosen.randrange(2, len(listed)), operation)
    return listed


def save_interval(name: str) -> str:
    """Return the save interval of a session."""
    return ("tool", "step", "turn")[int(name.rpartition("-")[2]) % 3]


def make_agent(outside: OutsideLog):
    """Return the agent. Its model replies from the request alone; its tools add a line to the log."""

    @tool
    def charge(order: str) -> str:
        """Charge once."""
        outside.add(f"charge {order}")
        return f"charged {order}"

    @tool(idempotent=True)
    def notify(order: str, context: ToolContext) -> str:
        """Notify, possibly repeatedly."""
        outside.add(f"notify {order} {context.idempotency_key}")
        return f"notified {order}"

    return agent(id="5d7a2b0c-6c0e-4f57-9f0a-0e2f5f7f1a11", model=scripted(_reply), tools=[charge, notify])


def _reply(request: ModelRequest):
    """Call two tools in the first step of a turn, one in the second, and then answer with all results of the turn."""
    start = max(index for index, message in enumerate(request.messages) if message.type == "user")
    order, steps, results = request.messages[start].text, 0, []
    for message in request.messages[start:]:
        if message.type == "tool_result":
            steps += 1
            results += [str(result.result) for result in message.results]

    def call(kind: str, number: int):
        return {
            "toolCallId": f"{order}/{number}",
            "toolName": kind,
            "arguments": {"order": f"{order}/{number}"},
        }

    if steps == 0:
        return [call("charge", 0), call("notify", 1)]
    return [call("charge", 2)] if steps == 1 else f"{order}: {len(request.messages)} messages, {', '.join(results)}"


async def open_session(store, name: str, outside: OutsideLog) -> Session:
    """Open the session of this name, new or with the state that the store has."""
    return await Session.open(store, name, make_agent(outside), save_interval=save_interval(name))


async def advance(session: Session, outside: OutsideLog, acknowledge=lambda _line: None) -> None:
    """Continue a session at its place and execute what is left of its script.

    `acknowledge` is called for each operation and checkpoint that the session has reported.
    """
    if session.is_unfinished:
        for call in session.in_doubt:
            if f"charge {call.arguments['order']}" in outside.lines():
                session.resolve(call, result=f"charged {call.arguments['order']}")
            else:
                session.resolve(call, retry=True)
        await session.resume()
        acknowledge(f"operation {session.id} {session.metadata['operation']}")
    for number, operation in enumerate(operations(session.id)):
        if number <= session.metadata.get("operation", -1):
            continue
        session.metadata["operation"] = number
        if operation.startswith("turn"):
            async with session.stream(f"{session.id} {operation}") as events:
                async for event in events:
                    if event.uap and event.uap.type == "checkpoint":
                        acknowledge(f"checkpoint {session.id} {event.uap.data['checkpointId']}")
        else:
            await _change_tree(session, operation)
            await session.save()
        acknowledge(f"operation {session.id} {number}")


async def _change_tree(session: Session, operation: str) -> None:
    tree = session.tree
    if operation == "branch":
        tree.checkout(tree.branch(tree.root.id, name="branch"))
    elif operation == "restore":
        # The last one of the first turn, whose text names the turn.
        first = next(one for one in reversed(session.checkpoints) if _is_end_of_first_turn(one, session))
        await session.restore(first.id)
    else:
        leaves = [node.id for node in tree.leaves() if node.id != tree.current.id]
        if leaves:
            tree.merge(tree.current.id, leaves[0])


def _is_end_of_first_turn(checkpoint, session: Session) -> bool:
    return checkpoint.state.messages[-1].text.startswith(f"{session.id} turn 0:")


def shape(session: Session) -> list[object]:
    """Return all that a session contains without generated ids and times: equal for equal histories."""
    nodes = session.tree.nodes
    order = {id: index for index, id in enumerate(nodes)}
    return [
        order[session.tree.current.id],
        session.metadata["operation"],
        *(
            (
                node.name,
                order.get(node.parent_id),
                node.branch_point,
                [order[child] for child in node.children],
                [content_of(message) for message in node.thread.messages],
            )
            for node in nodes.values()
        ),
    ]


def content_of(message) -> object:
    """Return a message as plain data without its id and time."""
    plain = message.model_dump(mode="json")
    for name in ("id", "timestamp"):
        plain.pop(name, None)
    return plain


async def uninterrupted(name: str, folder: Path) -> list[object]:
    """Return the shape of a session whose program was not killed."""
    outside = OutsideLog(folder / f"uninterrupted-{name}.log")
    session = await open_session("memory://uninterrupted", name, outside)
    await advance(session, outside)
    return shape(session)

"""A coding helper that reads freely and asks a person before it writes. Runs offline with a scripted model.

The first edit is denied with a reason, which the model reads; the second one is approved.
"""

import asyncio
import tempfile
from pathlib import Path

from turntree import ApprovalRequired, Session, agent, session
from turntree.upp import ToolCall, scripted, tool

PROJECT = tempfile.TemporaryDirectory(prefix="turntree-")
FOLDER = Path(PROJECT.name)


@tool
def read_file(path: str) -> str:
    """Return the text of a file of the project."""
    return inside(path).read_text()


@tool(approval="ask")
def write_file(path: str, text: str) -> str:
    """Replace the text of a file of the project."""
    return f"wrote {inside(path).write_text(text)} characters"


def inside(path: str) -> Path:
    """Return the path in the project. The model reads the error of a path outside."""
    found = (FOLDER / path).resolve()
    if not found.is_relative_to(FOLDER.resolve()):
        raise ValueError(f"{path} is outside the project")
    return found


def decide(task: Session, call: ToolCall) -> None:
    """Approve or deny a call. A real program would ask a person here."""
    if "# tested" in call.arguments["text"]:
        print(f"{call.tool_name} {call.arguments['path']}: approved")
        task.approve(call)
    else:
        print(f"{call.tool_name} {call.arguments['path']}: denied")
        task.deny(call, "mark the file with '# tested' after you have run it")


model = scripted(
    [
        {"toolName": "read_file", "arguments": {"path": "greet.py"}},
        {"toolName": "write_file", "arguments": {"path": "greet.py", "text": "print('Hello')\n"}},
        {"toolName": "write_file", "arguments": {"path": "greet.py", "text": "print('Hello')  # tested\n"}},
        "The greeting has its capital letter.",
    ]
)


async def main() -> None:
    """Run the task; decide about each call that waits."""
    (FOLDER / "greet.py").write_text("print('hello')\n")
    task = session(agent(model=model, tools=[read_file, write_file]))
    run = task.run("Start the greeting with a capital letter.")
    while True:
        try:
            turn = await run
            break
        except ApprovalRequired as waiting:
            for call in waiting.calls:
                decide(task, call)
            run = task.resume()
    print(turn.text)
    print((FOLDER / "greet.py").read_text(), end="")
    PROJECT.cleanup()


if __name__ == "__main__":
    asyncio.run(main())

"""What ``turntree chat`` prints: text for people, or one JSON object per line for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from turntree._cli._events import print_event
from turntree._cli._parts import node_counts
from turntree._cli._terminal import print_error, printable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO

    from turntree._core import AgentStreamEvent, Message, ThreadTree, Turn
    from turntree._session import Session

# Characters of the message of an exception that are printed.
_LONGEST = 2_000

HELP = """\
/history          show the conversation
/branches         draw the branches
/branch [NAME]    start a branch at the end of the current one, and go there
/checkout NAME    go to a branch, by its name or id
/resume           continue a run that was stopped
/discard          drop a run that was stopped, and its message; the conversation goes on without it
/quit             end; Ctrl-D does the same, Ctrl-C stops a run or discards a line"""
COMMANDS = [line.split()[0] for line in HELP.splitlines()]


class Output(Protocol):
    """Where a chat prints."""

    def start(self, session: Session[Any, Any], *, is_person: bool) -> None:
        """Print the beginning."""
        ...

    def help(self) -> None:
        """Print the commands."""
        ...

    def history(self, messages: Iterable[Message]) -> None:
        """Print messages."""
        ...

    def branches(self, tree: ThreadTree) -> None:
        """Print the nodes of a tree."""
        ...

    def event(self, event: AgentStreamEvent) -> None:
        """Print what happened in a run."""
        ...

    def turn(self, turn: Turn) -> None:
        """Print the end of a run."""
        ...

    def discarded(self) -> None:
        """Say that the unfinished run was discarded."""
        ...

    def question(self, calls: list[Any]) -> None:
        """Say that calls wait for an approval, before each of them is asked about."""
        ...

    def prompt(self, call: Any) -> str:
        """Return the question about one call."""
        ...

    def error(self, message: str, error: BaseException | None = None, place: str = "") -> None:
        """Print an error, of an exception or of a command."""
        ...


class TextOutput:
    """Text; what comes from the model and from the application is escaped."""

    def __init__(self, *, colours: bool) -> None:
        self._colours = colours

    def start(self, session: Session[Any, Any], *, is_person: bool) -> None:
        if is_person:
            print(self._dim("/help lists the commands"))

    def help(self) -> None:
        print(HELP)

    def history(self, messages: Iterable[Message]) -> None:
        for message in messages:
            print(f"{message.type}: {printable(message.text)}")

    def branches(self, tree: ThreadTree) -> None:
        print("\n".join(printable(line) for line in str(tree).splitlines()))

    def event(self, event: AgentStreamEvent) -> None:
        if event.upp is not None and event.upp.type == "text_delta":
            print("\n".join(map(printable, event.upp.delta["text"].split("\n"))), end="", flush=True)
        elif event.uap is not None and event.uap.type == "action":
            for call in event.uap.data["toolCalls"]:
                print(self._dim(f"\n[{printable(call['toolName'])}({printable(str(call['arguments']))})]"))

    def turn(self, turn: Turn) -> None:
        print(f"\n{self._dim(f'[{turn.usage.total_tokens} tokens]')}")

    def discarded(self) -> None:
        print("the run was dropped; the conversation is as it was before it")

    def question(self, calls: list[Any]) -> None:
        print()

    def prompt(self, call: Any) -> str:
        return printable(f"Allow {call.tool_name}({call.arguments})? [y/N] ")

    def error(self, message: str, error: BaseException | None = None, place: str = "") -> None:
        if error is None:
            print_error(message, None)
        elif isinstance(error, (KeyboardInterrupt, EOFError)):
            if isinstance(error, KeyboardInterrupt):
                print()
            print_error(message, 1)
        else:
            print_error(f"{type(error).__name__}: {message[:_LONGEST] if place else message}{place}", 1)

    def _dim(self, text: str) -> str:
        return f"\x1b[2m{text}\x1b[0m" if self._colours else text


class JsonOutput:
    """One JSON object per line: session, event, turn, discarded, approval, message, node, help or error."""

    def __init__(self, output: TextIO) -> None:
        self._output = output

    def _print(self, kind: str, values: dict[str, Any]) -> None:
        print_event(kind, values, self._output)

    def start(self, session: Session[Any, Any], *, is_person: bool) -> None:
        self._print("session", {"session": session.id, "agent": session.agent.id, "name": session.agent.name})

    def help(self) -> None:
        lines = HELP.replace(" [NAME]", "").replace(" NAME", "").splitlines()
        commands = {command: does.strip() for command, _, does in (line.partition(" ") for line in lines)}
        self._print("help", {"commands": commands})

    def history(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self._print("message", {"message": json.loads(message.model_dump_json())})

    def branches(self, tree: ThreadTree) -> None:
        for values in node_counts(tree):
            self._print("node", values)

    def event(self, event: AgentStreamEvent) -> None:
        self._print("event", {"event": json.loads(event.to_json())})

    def turn(self, turn: Turn) -> None:
        self._print("turn", {"text": turn.text, "turn": json.loads(turn.model_dump_json())})

    def discarded(self) -> None:
        self._print("discarded", {})

    def question(self, calls: list[Any]) -> None:
        self._print("approval", {"calls": [json.loads(call.model_dump_json()) for call in calls]})

    def prompt(self, call: Any) -> str:
        return ""

    def error(self, message: str, error: BaseException | None = None, place: str = "") -> None:
        # A failed run is the exit status of the chat, unless a later run succeeds.
        name, status = (None, None) if error is None else (type(error).__name__, 1)
        self._print("error", {"error": name, "message": message[:_LONGEST] + place, "status": status})

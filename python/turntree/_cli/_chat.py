"""The command ``turntree chat``: a conversation with an agent in the terminal."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from turntree._cli._objects import load_object
from turntree._cli._stores import add_store, open_store
from turntree._cli._terminal import CliError, print_error, printable, wants_colours
from turntree.exceptions import ApprovalRequired, TurntreeError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from turntree._agent import Agent
    from turntree._session import Session

HELP = """\
/history          show the conversation
/branches         draw the branches
/branch [NAME]    start a branch at the end of the current one, and go there
/checkout NAME    go to a branch, by its name or id
/resume           continue a run that was stopped
/quit             end; Ctrl-D does the same, Ctrl-C stops a run"""


def add(commands: Any) -> None:
    """Add the command to a parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "chat",
        help="talk with an agent in the terminal",
        description="Talks with an agent in the terminal. Variables in the file .env of the current folder are set "
        "before the agent is imported, unless they are set already. /help lists the commands.",
        epilog="example: turntree chat app.agents:assistant --store sqlite:///sessions.db --session trip",
        allow_abbrev=False,
    )
    parser.add_argument("agent", metavar="MODULE:AGENT", help="where the agent is, such as app.agents:assistant")
    add_store(parser)
    parser.add_argument("--session", metavar="ID", help="open or create this session in the store")
    parser.add_argument("--env", metavar="FILE", help="the file with variables (default: .env, if it exists)")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="use of colours")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Talk until the input ends, and return the exit status: 1 if the last run has failed."""
    from turntree._agent import Agent

    if options.session is not None and options.store is None:
        raise CliError("--session needs a store; pass its URL with --store", 2)
    load_env(options.env)
    found = load_object(options.agent, "an agent", "app.agents:assistant")
    if not isinstance(found, Agent):
        message = f"{options.agent!r} is not an agent but {type(found).__name__}"
        raise CliError(message, 2)
    with ExitStack() as stack:
        session = _session(options, cast("Agent[Any, Any]", found), stack)
        return _Chat(session, colours=wants_colours(options.color)).talk()


def _session(options: argparse.Namespace, agent: Agent[Any, Any], stack: ExitStack) -> Session[Any, Any]:
    from turntree._session import Session, session

    if options.store is None:
        return session(agent)
    import asyncio

    opened = stack.enter_context(open_store(options.store))
    if options.session is None:
        return session(agent, persistence=opened)
    return asyncio.run(Session.open(opened, options.session, agent))


def load_env(file: str | None) -> None:
    """Set the variables of a file ``.env`` that are not set.

    Raises:
        CliError: The file was named and does not exist, or a line is not ``NAME=VALUE``.
    """
    path = Path(file or ".env")
    if not path.is_file():
        if file is not None:
            raise CliError(f"{file}: there is no such file", 2)
        return
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        text = line.strip().removeprefix("export ").strip()
        if not text or text.startswith("#"):
            continue
        name, separator, value = text.partition("=")
        if not separator or not name.strip().replace("_", "a").isalnum():
            raise CliError(f"{path}:{number}: must be NAME=VALUE", 2)
        value = value.strip()
        if len(value) > 1 and value[0] in "\"'" and value[-1] == value[0]:
            value = value[1:-1]
        else:
            value = value.partition(" #")[0].rstrip()
        os.environ.setdefault(name.strip(), value)


class _Chat:
    """Reads lines, runs the session and prints."""

    def __init__(self, session: Session[Any, Any], *, colours: bool) -> None:
        self._session = session
        self._colours = colours
        self._is_person = sys.stdin.isatty()
        self._status = 0

    def talk(self) -> int:
        if self._is_person:
            import importlib.util

            if importlib.util.find_spec("readline"):
                importlib.import_module("readline")  # input() then has a history and can be edited
            print(self._dim("/help lists the commands"))
        for line in self._lines():
            if line == "/quit":
                break
            if line.startswith("/"):
                self._command(*line[1:].split(maxsplit=1))
            elif line:
                self._run(line)
        return self._status

    def _lines(self) -> Iterator[str]:
        while True:
            try:
                yield input("> " if self._is_person else "").strip()
            except EOFError:
                return

    def _command(self, name: str = "", argument: str = "") -> None:
        tree = self._session.tree
        if name == "help":
            print(HELP)
        elif name == "history":
            for message in tree.history():
                print(f"{message.type}: {printable(message.text)}")
        elif name == "branches":
            print("\n".join(printable(line) for line in str(tree).splitlines()))
        elif name == "branch":
            tree.checkout(tree.branch(tree.current.id, argument or None))
        elif name == "checkout":
            self._checkout(argument)
        elif name == "resume":
            self._run(None)
        else:
            print_error(f"there is no command /{name}; /help lists them")

    def _checkout(self, name: str) -> None:
        tree = self._session.tree
        found = [
            id for id, node in tree.nodes.items() if name in (id, node.name) or (name == "main" and id == tree.root.id)
        ]
        if len(found) != 1:
            print_error(f"{len(found)} branches are called {name!r}; /branches lists them")
            return
        tree.checkout(found[0])

    def _run(self, message: str | None) -> None:
        """Run with a message, or continue a run; ask about calls until the turn is complete."""
        self._status = 1
        try:
            while True:
                session = self._session
                stream = session.resume_stream_sync() if message is None else session.stream_sync(message)
                try:
                    self._print(stream)
                    self._status = 0
                    return
                except ApprovalRequired as required:
                    self._decide(required)
                    message = None
        except KeyboardInterrupt:
            print()
            print_error("stopped; /resume continues the run")
        except EOFError:
            print_error("calls wait for approval; /resume continues the run")
        except (TurntreeError, ValueError, OSError) as error:
            print_error(f"{type(error).__name__}: {error}")

    def _print(self, stream: Any) -> None:
        for event in stream:
            if event.upp is not None and event.upp.type == "text_delta":
                print("\n".join(map(printable, event.upp.delta["text"].split("\n"))), end="", flush=True)
            elif event.uap is not None and event.uap.type == "action":
                for call in event.uap.data["toolCalls"]:
                    print(self._dim(f"\n[{printable(call['toolName'])}({printable(str(call['arguments']))})]"))
        usage = stream.turn.usage
        print(f"\n{self._dim(f'[{usage.total_tokens} tokens]')}")

    def _decide(self, required: ApprovalRequired) -> None:
        print()
        for call in list(self._session.pending):
            question = f"Allow {call.tool_name}({call.arguments})? [y/N] "
            if input(printable(question)).strip().lower() in ("y", "yes"):
                self._session.approve(call)
            else:
                self._session.deny(call, "a person denied it")
        if not required.calls:
            raise required

    def _dim(self, text: str) -> str:
        return f"\x1b[2m{text}\x1b[0m" if self._colours else text

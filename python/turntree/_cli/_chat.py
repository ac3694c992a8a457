"""The command ``turntree chat``: a conversation with an agent in the terminal."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, cast

from turntree._cli._chat_output import COMMANDS, JsonOutput, TextOutput
from turntree._cli._environment import add_env, load_env
from turntree._cli._events import add_json, event_output
from turntree._cli._objects import load_object
from turntree._cli._parts import nodes_called
from turntree._cli._stores import add_store, open_store
from turntree._cli._terminal import CliError, wants_colours
from turntree.exceptions import ApprovalRequired, SessionError, TurntreeError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from turntree._agent import Agent
    from turntree._cli._chat_output import Output
    from turntree._session import Session


def add(commands: Any) -> None:
    """Add the command to a parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "chat",
        help="talk with an agent in the terminal",
        description="Talks with an agent in the terminal. Variables in the file .env of the current folder are set "
        "before the agent is imported, unless they are set already. /help lists the commands.",
        allow_abbrev=False,
    )
    parser.add_argument("agent", metavar="MODULE:AGENT", help="where the agent is, such as app.agents:assistant")
    add_store(parser)
    parser.add_argument("--session", metavar="ID", help="open or create this session in the store")
    add_env(parser)
    add_json(
        parser,
        "print one JSON object per line: the session, each event and turn, calls that wait for an approval, errors. "
        "Input is the same: a message or command per line, and y or n for each call",
    )
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="use of colours")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Talk until the input ends, and return the exit status: 1 if the last run has failed."""
    if options.session is not None and options.store is None:
        raise CliError("--session needs a store; pass its URL with --store", 2)
    with event_output(as_json=options.json) as stdout:
        return _run(options, JsonOutput(stdout) if options.json else TextOutput(colours=wants_colours(options.color)))


def _run(options: argparse.Namespace, output: Output) -> int:
    from turntree._agent import Agent

    load_env(options.env)
    found = load_object(options.agent, "an agent", "app.agents:assistant")
    if not isinstance(found, Agent):
        message = f"{options.agent!r} is not an agent but {type(found).__name__}"
        raise CliError(message, 2)
    with ExitStack() as stack:
        session = _session(options, cast("Agent[Any, Any]", found), stack)
        return _Chat(session, output, prompts=not options.json and sys.stdin.isatty()).talk()


def _session(options: argparse.Namespace, agent: Agent[Any, Any], stack: ExitStack) -> Session[Any, Any]:
    from turntree._session import Session, session

    if options.store is None:
        return session(agent)
    import asyncio

    opened = stack.enter_context(open_store(options.store))
    if options.session is None:
        return session(agent, persistence=opened)
    return asyncio.run(Session.open(opened, options.session, agent))


def _place(error: Exception) -> str:
    """Return the line that raised an exception, to find it."""
    from traceback import extract_tb

    frames = extract_tb(error.__traceback__)
    return f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""


def _edit_lines(session: Session[Any, Any]) -> None:
    """Let `input` have a history, be edited, and complete commands and the names of branches, where readline exists."""
    import importlib.util

    if importlib.util.find_spec("readline") is None:
        return
    readline: Any = importlib.import_module("readline")

    def complete(word: str, number: int) -> str | None:
        before = readline.get_line_buffer()[: readline.get_begidx()].strip()
        words = {"": COMMANDS, "/checkout": [node.name or id for id, node in session.tree.nodes.items()]}.get(
            before, []
        )
        found = [f"{each} " for each in words if each.startswith(word)] if before or word.startswith("/") else []
        return found[number] if number < len(found) else None

    readline.set_completer(complete)
    readline.set_completer_delims(" ")
    is_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")


class _Chat:
    """Reads lines, runs the session and prints."""

    def __init__(self, session: Session[Any, Any], output: Output, *, prompts: bool) -> None:
        self._session = session
        self._output = output
        self._is_person = prompts
        self._status = 0

    def talk(self) -> int:
        if self._is_person:
            _edit_lines(self._session)
        self._output.start(self._session, is_person=self._is_person)
        for line in self._lines():
            if line == "/quit":
                break
            if line.startswith("/"):
                self._command(*line[1:].split(maxsplit=1))
            elif line:
                self._run(line)
        return self._status

    def _lines(self) -> Iterator[str]:
        was_interrupted = False
        while True:
            try:
                line = input("> " if self._is_person else "").strip()
            except EOFError:
                if self._is_person:
                    print()  # the prompt of the shell begins on a line of its own
                return
            except KeyboardInterrupt as error:
                # A person may want to discard the line, or stop a run that has just ended: the conversation goes on.
                if was_interrupted or not self._is_person:
                    message = "interrupted"
                    raise CliError(message, 130) from error
                was_interrupted = True
                self._output.error("Ctrl-C again ends, as Ctrl-D and /quit do", error)
                continue
            was_interrupted = False
            yield line

    def _command(self, name: str = "", argument: str = "") -> None:
        tree = self._session.tree
        if name == "help":
            self._output.help()
        elif name == "history":
            self._output.history(tree.history())
        elif name == "branches":
            self._output.branches(tree)
        elif name == "branch":
            tree.checkout(tree.branch(tree.current.id, argument or None))
        elif name == "checkout":
            self._checkout(argument)
        elif name == "resume":
            self._run(None)
        elif name == "discard":
            self._discard()
        else:
            self._output.error(f"there is no command /{name}; /help lists them")

    def _checkout(self, name: str) -> None:
        tree = self._session.tree
        found = nodes_called(tree, name)
        if len(found) != 1:
            self._output.error(f"{len(found)} branches are called {name!r}; /branches lists them")
            return
        tree.checkout(found[0])

    def _discard(self) -> None:
        """Drop the unfinished run, also in the store."""
        if not self._session.discard():
            self._output.error("there is no run to drop")
            return
        import asyncio

        asyncio.run(self._session.save())
        self._output.discarded()

    def _run(self, message: str | None) -> None:
        """Run with a message, or continue a run; ask about calls until the turn is complete."""
        self._status = 1
        try:
            while True:
                session = self._session
                stream = session.resume_stream_sync() if message is None else session.stream_sync(message)
                try:
                    for event in stream:
                        self._output.event(event)
                    self._output.turn(stream.turn)
                    self._status = 0
                    return
                except ApprovalRequired as required:
                    self._decide(required)
                    message = None
        except KeyboardInterrupt as error:
            self._output.error("stopped; /resume continues the run, /discard drops it", error)
        except EOFError as error:
            self._output.error("calls wait for approval; /resume continues the run, /discard drops it", error)
        except SessionError as error:
            remedy = "; /resume continues the run, /discard drops it" if self._session.is_unfinished else ""
            self._output.error(f"{error}{remedy}", error)
        except (TurntreeError, ValueError, OSError) as error:
            self._output.error(str(error), error)
        except Exception as error:
            # The code of the application failed, such as a strategy: the conversation can go on.
            self._output.error(str(error), error, _place(error))

    def _decide(self, required: ApprovalRequired) -> None:
        calls = list(self._session.pending)
        self._output.question(calls)
        for call in calls:
            if input(self._output.prompt(call)).strip().lower() in ("y", "yes"):
                self._session.approve(call)
            else:
                self._session.deny(call, "a person denied it")
        if not required.calls:
            raise required

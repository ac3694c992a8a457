"""The command ``turntree acp``."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from turntree._cli._environment import add_env, load_env
from turntree._cli._events import add_json, start_log
from turntree._cli._objects import load_object, load_store
from turntree._cli._serve import _on_signals
from turntree._cli._terminal import CliError

if TYPE_CHECKING:
    import argparse

    from turntree.uamp._acp import ProtocolStreams


def add(commands: Any) -> None:
    """Add the command to a parser."""
    acp: argparse.ArgumentParser = commands.add_parser(
        "acp",
        help="serve an agent to an editor over standard input and output",
        description="Serves an agent by ACP, the Agent Client Protocol, until the editor closes standard input or "
        "sends SIGTERM. What the agent prints goes to standard error.",
        allow_abbrev=False,
    )
    acp.add_argument("agent", metavar="MODULE:AGENT", help="the agent, such as app.agents:helper")
    acp.add_argument(
        "--store",
        metavar="STORE",
        help="where conversations are stored: a URL such as sqlite:///conversations.db, or MODULE:STORE "
        "(default: in memory)",
    )
    add_json(acp, "write the log to standard error as JSON; standard output has the protocol's JSON in any case")
    add_env(acp)
    acp.set_defaults(run=run_acp)


def run_acp(options: argparse.Namespace) -> int:
    """Serve until the client has gone, and return the exit status."""
    from turntree.uamp._acp import ProtocolStreams

    start_log(logging.WARNING, as_json=options.json)
    load_env(options.env)
    # Before the application is imported: it may print.
    with ProtocolStreams() as streams:
        found = load_object(options.agent, "an agent", "app.agents:helper")
        store = load_store(options.store) if options.store else None
        return asyncio.run(_serve(streams, found, store, options.agent))


async def _serve(streams: ProtocolStreams, found: Any, store: Any, place: str) -> int:
    from turntree import Agent

    if not isinstance(found, Agent):
        message = f"{place!r} is not an agent but {type(found).__name__}; make one with turntree.agent()"
        raise CliError(message, 2)
    _on_signals(streams.stop)
    await streams.serve(found, store)
    return 0

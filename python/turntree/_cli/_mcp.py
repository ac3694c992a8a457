"""The command ``turntree mcp``."""

from __future__ import annotations

import asyncio
import logging
import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

from turntree._cli._environment import add_env, load_env
from turntree._cli._events import add_json, print_event, start_log
from turntree._cli._objects import load_object
from turntree._cli._serve import _on_signals, _token_check
from turntree._cli._terminal import CliError

if TYPE_CHECKING:
    import argparse


def add(commands: Any) -> None:
    """Add the command to a parser."""
    mcp: argparse.ArgumentParser = commands.add_parser(
        "mcp",
        help="serve agents, tools and functions to MCP clients",
        description="Serves objects of an application as tools by MCP, the Model Context Protocol: over standard input "
        "and output until the input ends, or over HTTP until SIGINT or SIGTERM. Over HTTP it prints the address as its "
        "first line. What the application prints goes to standard error.",
        allow_abbrev=False,
    )
    mcp.add_argument("objects", nargs="+", metavar="MODULE:OBJECT", help="what to serve, such as app.agents:helper")
    mcp.add_argument("--transport", choices=("stdio", "http"), default="stdio", help="(default: stdio)")
    mcp.add_argument("--host", help="with http: the address to listen on (default: 127.0.0.1)")
    mcp.add_argument("--port", type=int, help="with http: the port; 0 chooses a free one (default: 8000)")
    mcp.add_argument(
        "--auth-token-env",
        metavar="NAME",
        help="with http: the environment variable with the bearer token that requests need; required for other hosts",
    )
    add_json(
        mcp,
        "with http: print the address as a JSON object, and another one at the end; write the log to standard error as "
        "JSON",
    )
    add_env(mcp)
    mcp.set_defaults(run=run_mcp)


def run_mcp(options: argparse.Namespace) -> int:
    """Serve, and return the exit status."""
    given = [name for name in ("host", "port", "auth_token_env") if getattr(options, name) is not None]
    if options.transport == "stdio" and given:
        message = f"--{given[0].replace('_', '-')} needs --transport http"
        raise CliError(message, 2)
    load_env(options.env)
    auth = _token_check(options.auth_token_env) if options.auth_token_env else None
    start_log(logging.WARNING, as_json=options.json)
    output: Any = sys.stdout
    # Standard output belongs to the protocol.
    with redirect_stdout(sys.stderr):
        found: list[Any] = [load_object(place, "an object", "app.agents:helper") for place in options.objects]
        for place, item in zip(options.objects, found, strict=True):
            if item is None:
                message = f"{place!r} names nothing; give a name of the module, such as app.agents:helper"
                raise CliError(message, 2)
        return asyncio.run(_serve(found, options, auth, output))


async def _serve(found: list[Any], options: argparse.Namespace, auth: Any, output: Any) -> int:
    from turntree import mcp

    serving: Any
    try:
        if options.transport == "stdio":
            serving = mcp.serve(*found)
        else:
            port = 8000 if options.port is None else options.port
            serving = mcp.serve(*found, transport="http", host=options.host or "127.0.0.1", port=port, auth=auth)
    except TypeError as error:
        message = f"{' '.join(options.objects)}: {error}"
        raise CliError(message, 2) from error
    stopped = asyncio.Event()
    _on_signals(stopped.set)
    if options.transport == "http":
        async with serving as server:
            if options.json:
                print_event("started", {"url": server.url, "objects": options.objects}, output)
            else:
                print(server.url, file=output, flush=True)
            await stopped.wait()
        if options.json:
            print_event("stopped", {"reason": "signal"}, output)
        return 0
    waiting: list[asyncio.Future[Any]] = [asyncio.ensure_future(serving), asyncio.ensure_future(stopped.wait())]
    done, others = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in others:
        task.cancel()
    try:
        for task in done:
            task.result()
    except mcp.McpError as error:
        reason = error.message.partition("cannot connect to the MCP server: ")[2]
        message = f"no client has connected: {reason}" if reason else error.message
        raise CliError(message) from error
    return 0

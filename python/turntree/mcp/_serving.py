"""Agents and tools as an MCP server."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable
from typing import Any, Literal, overload

from turntree._core import ToolContext, __version__, mcp_server, mcp_stdio
from turntree._server import Server
from turntree.mcp._results import result_of
from turntree.mcp._server_options import check_text
from turntree.upp._signature import ArgumentError
from turntree.upp._tools import Tool, as_tool

_INVALID_PARAMS = -32602


@overload
def serve(
    *agents_or_tools: Any,
    transport: Literal["stdio"] = "stdio",
    host: str = "127.0.0.1",
    port: int = 0,
    auth: Callable[[str], Any] | None = None,
    name: str = "turntree",
    instructions: str | None = None,
) -> Awaitable[None]: ...
@overload
def serve(
    *agents_or_tools: Any,
    transport: Literal["http"],
    host: str = "127.0.0.1",
    port: int = 0,
    auth: Callable[[str], Any] | None = None,
    name: str = "turntree",
    instructions: str | None = None,
) -> Server: ...
def serve(
    *agents_or_tools: Any,
    transport: Literal["stdio", "http"] = "stdio",
    host: str = "127.0.0.1",
    port: int = 0,
    auth: Callable[[str], Any] | None = None,
    name: str = "turntree",
    instructions: str | None = None,
) -> Awaitable[None] | Server:
    """Serve agents, tools and functions as the tools of an MCP server.

    An agent is a tool with the argument ``task``; its name is the agent's name. Reports of `ToolContext` are progress.

    Args:
        *agents_or_tools: Agents, `Tool` objects and functions. Their names must differ.
        transport: ``"stdio"``: one client over the standard streams of this process; await the result, which ends
            with the input. ``"http"``: Streamable HTTP; the result is a server for ``async with`` that has a ``url``.
        host: For ``"http"``: the address to listen on. Any other than the loopback interface needs `auth`.
        port: For ``"http"``: the port; 0 for a free one.
        auth: For ``"http"``: a function of the bearer token that returns the principal, or None to refuse.
        name: The name of the server.
        instructions: How the tools are used, for the model of the client.

    Raises:
        TypeError: An item is neither an agent, a tool nor a function, or `name` or `instructions` is no str.
        ValueError: Two tools have one name, a tool asks for approval, which MCP has no message for, or a tool is a
            handoff.
    """
    check_text("name", name)
    if instructions is not None:
        check_text("instructions", instructions)
    tools = _tools(agents_or_tools)
    served = {
        "name": name,
        "version": __version__,
        "instructions": instructions,
        "tools": [json.dumps(_definition(tool)) for tool in tools.values()],
        "validated": [tool._agent is not None or tool._has_custom_schema for tool in tools.values()],
    }

    async def call(tool: str, arguments: dict[str, Any], context: ToolContext) -> Any:
        return await _perform(tools.get(tool), tool, arguments, context)

    if transport == "http":
        return Server(mcp_server(served, call, host, port, auth))
    if transport == "stdio":
        return _over_stdio(served, call)
    message = f'transport must be "stdio" or "http", not {transport!r}'
    raise ValueError(message)


async def _over_stdio(served: dict[str, Any], call: Any) -> None:
    await mcp_stdio(served, call)


def _tools(items: tuple[Any, ...]) -> dict[str, Tool[..., Any]]:
    if not items:
        message = "pass the agents, tools or functions to serve"
        raise TypeError(message)
    tools: dict[str, Tool[..., Any]] = {}
    for item in items:
        named = getattr(item, "name", None)
        as_named: Any = getattr(item, "to_tool", None)
        tool: Tool[..., Any] = as_named(name=named) if as_named is not None and named else as_tool(item)
        if tool.name in tools:
            message = f"two tools are named '{tool.name}'; names of tools must differ: rename one with @tool(name=…)"
            raise ValueError(message)
        if tool.approval is not None:
            message = (
                f"tool '{tool.name}' asks for approval, which MCP clients do themselves; serve it without approval="
            )
            raise ValueError(message)
        if tool._handoff is not None:
            message = (
                f"tool '{tool.name}' hands a conversation over, and MCP clients have no conversation here; serve the "
                "agent itself"
            )
            raise ValueError(message)
        tools[tool.name] = tool
    return tools


def _definition(tool: Tool[..., Any]) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "inputSchema": tool.parameters}


async def _perform(tool: Tool[..., Any] | None, name: str, arguments: dict[str, Any], context: ToolContext) -> Any:
    import asyncio
    import logging

    from turntree.exceptions import ModelRetry

    if tool is None:
        return None, (_INVALID_PARAMS, f"there is no tool '{name}'")
    try:
        if tool._agent is not None:
            value = tool.run(**arguments)
        elif tool._mode == "thread":
            value = await asyncio.to_thread(tool._call, arguments, context)
        else:
            value = tool._call(arguments, context)
        if inspect.isawaitable(value):
            value = await value
    except (ArgumentError, ModelRetry) as error:
        return result_of(str(error), is_error=True), None
    except Exception as error:
        logging.getLogger("turntree.tools").warning("tool %s failed", name, exc_info=error)
        return result_of(f"{type(error).__name__}: {error}", is_error=True), None
    return result_of(value, is_error=False), None

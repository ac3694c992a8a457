"""Tools of MCP servers for agents, and agents and tools as an MCP server: the Model Context Protocol.

`stdio`, `http` and `sse` return toolsets::

    from turntree import agent, mcp

    async with mcp.stdio("uvx", "mcp-server-git") as git:
        turn = await agent(model=model, tools=[git]).run("What changed yesterday?")
"""

from __future__ import annotations

from turntree._public_names import set_public_module
from turntree.mcp._client import McpServer, http, sse, stdio
from turntree.mcp._elicitation import Elicitation
from turntree.mcp._errors import McpError
from turntree.mcp._oauth import OAuth, TokenStore, oauth
from turntree.mcp._serving import serve

__all__ = ["Elicitation", "McpError", "McpServer", "OAuth", "TokenStore", "http", "oauth", "serve", "sse", "stdio"]

set_public_module("turntree.mcp", globals())

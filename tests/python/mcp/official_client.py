"""A client of the official SDK: calls the tools of a server and prints what it sees as JSON."""

import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client


async def main() -> None:
    if sys.argv[1] == "stdio":
        transport = stdio_client(StdioServerParameters(command=sys.argv[2], args=sys.argv[3:]))
    else:
        transport = streamable_http_client(sys.argv[2])
    async with transport as streams, ClientSession(streams[0], streams[1]) as session:
        await session.initialize()
        tools = await session.list_tools()
        added = await session.call_tool("add", {"a": 2, "b": 3})
        refused = await session.call_tool("city", {"name": "Rome"})
        found = await session.call_tool("city", {"name": "Oulu"})
        print(
            json.dumps(
                {
                    "tools": [tool.name for tool in tools.tools],
                    "added": added.content[0].text,
                    "refused": [refused.is_error, refused.content[0].text],
                    "found": found.structured_content,
                }
            )
        )


asyncio.run(main())

"""An MCP server of the official SDK. The argument is the transport; over HTTP it prints its port."""

import base64
import socket
import sys

from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ImageContent, TextContent
from pydantic import BaseModel

server = MCPServer("official")


class Answer(BaseModel):
    color: str


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(structured_output=False)
def fail(reason: str) -> str:
    """Fail."""
    raise ValueError(reason)


@server.tool(structured_output=False)
def picture() -> list[TextContent | ImageContent]:
    """Draw."""
    data = base64.b64encode(b"123456").decode()
    return [TextContent(type="text", text="a dot"), ImageContent(type="image", data=data, mime_type="image/png")]


@server.tool(structured_output=False)
async def count(to: int, ctx: Context) -> str:
    """Count."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, f"at {number}")
    return f"counted to {to}"


@server.tool(structured_output=False)
async def ask(ctx: Context) -> str:
    """Ask the user."""
    result = await ctx.elicit("Which color?", Answer)
    return f"{result.action}: {result.data.color}" if result.action == "accept" else result.action


@server.tool(structured_output=False)
async def grow(ctx: Context) -> str:
    """Add a tool."""
    server.add_tool(lambda: "fresh", name="fresh", description="New.")
    await ctx.session.send_tool_list_changed()
    return "grown"


@server.resource("note://today")
def note() -> str:
    """Today's note."""
    return "Buy bread."


@server.prompt()
def greet(name: str) -> str:
    """Greet someone."""
    return f"Greet {name}."


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        import uvicorn

        listener = socket.create_server(("127.0.0.1", 0))
        print(listener.getsockname()[1], flush=True)
        application = server.sse_app() if sys.argv[1] == "sse" else server.streamable_http_app()
        uvicorn.Server(uvicorn.Config(application, log_level="error")).run(sockets=[listener])

"""An MCP server of the official SDK. The argument is the transport; over HTTP it prints its port."""

import asyncio
import base64
import socket
import sys

from mcp.server.mcpserver import Context, MCPServer
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
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


@server.tool(structured_output=True)
def sketch() -> list[ImageContent]:
    """Draw. The SDK repeats the image in the structured content."""
    return [ImageContent(type="image", data=base64.b64encode(b"123456").decode(), mime_type="image/png")]


def embedded(uri: str, mime_type: str, data: bytes) -> EmbeddedResource:
    blob = base64.b64encode(data).decode()
    return EmbeddedResource(type="resource", resource=BlobResourceContents(uri=uri, mime_type=mime_type, blob=blob))


@server.tool(structured_output=False)
def everything() -> list[TextContent | ImageContent | AudioContent | EmbeddedResource | ResourceLink]:
    """Return one block of each type."""
    return [
        AudioContent(type="audio", data=base64.b64encode(b"RIFF").decode(), mime_type="audio/wav"),
        embedded("file:///a.pdf", "application/pdf", b"%PDF"),
        embedded("file:///a.png", "image/png", b"123456"),
        embedded("file:///a.csv", "text/csv", b"a,b"),
        embedded("file:///a.zip", "application/zip", b"PK"),
        EmbeddedResource(
            type="resource", resource=TextResourceContents(uri="note://a", mime_type="text/plain", text="Buy bread.")
        ),
        ResourceLink(type="resource_link", uri="note://today", name="today", mime_type="text/plain"),
    ]


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


present = 0


@server.tool(structured_output=False)
async def vote(voters: int, ctx: Context) -> str:
    """Ask the user when this number of calls is open."""
    global present
    present += 1
    while present < voters:
        await asyncio.sleep(0.01)
    return await ask(ctx)


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


@server.prompt()
async def favorite(ctx: Context) -> str:
    """Ask the user for the prompt, when a call of `vote` is open."""
    while not present:
        await asyncio.sleep(0.01)
    return await ask(ctx)


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        import uvicorn

        listener = socket.create_server(("127.0.0.1", 0))
        print(listener.getsockname()[1], flush=True)
        application = server.sse_app() if sys.argv[1] == "sse" else server.streamable_http_app()
        uvicorn.Server(uvicorn.Config(application, log_level="error")).run(sockets=[listener])

"""Media in the results of MCP tools: what the model gets, and what our server sends."""

from __future__ import annotations

import base64
import inspect
import json
from typing import Any

import pytest
from mcp_support import TRANSPORTS, connected

from turntree import agent, mcp
from turntree.testing import Reply, ToolCall, serve
from turntree.upp import (
    Audio,
    Binary,
    Document,
    Image,
    Text,
    ToolResultMessage,
    UPPError,
    Video,
    anthropic,
    ollama,
    openai,
    scripted,
)

PNG = Image.from_base64("MTIzNDU2", "image/png")
PDF = Document.from_base64("JVBERg==", "application/pdf", title="plan")
WAV = Audio.from_base64("UklGRg==", "audio/wav")


def media_tool(value: Any) -> Any:
    def draw() -> Any:
        """Draw."""
        return value

    return draw


async def seen_by_the_model(server: mcp.McpServer, name: str) -> Any:
    """The result of a call, as the next request of the model has it."""
    model = scripted([[{"toolName": name, "arguments": {}}], "Done."])
    await agent(model=model, tools=[server]).run("Go.")
    message = model.requests[-1].messages[-1]
    assert isinstance(message, ToolResultMessage)
    return message.results[0].result


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_images_reach_the_model_as_images(transport: str):
    async with connected(transport) as server:
        drawn = await seen_by_the_model(server, "picture")
        sketched = await seen_by_the_model(server, "sketch")

    assert drawn == ["a dot", PNG.to_dict()]
    assert sketched == [PNG.to_dict()]


async def test_every_type_of_content_reaches_the_model():
    async with connected("stdio") as server:
        seen = await seen_by_the_model(server, "everything")

    assert seen == [
        WAV.to_dict(),
        Document.from_base64("JVBERg==", "application/pdf").to_dict(),
        PNG.to_dict(),
        "a,b",
        "[resource file:///a.zip, application/zip, 2 bytes]",
        "Buy bread.",
        "[resource note://today: today, text/plain]",
    ]


@pytest.mark.parametrize(
    ("media", "kinds"),
    [((), []), (["image"], ["image"]), (["document", "audio"], ["audio", "document"])],
)
async def test_media_that_the_model_does_not_get_are_named(media: Any, kinds: list[str]):
    async with connected("stdio", media=media) as server:
        seen = await seen_by_the_model(server, "everything")
        drawn = await seen_by_the_model(server, "picture")

    parts = seen.splitlines() if isinstance(seen, str) else seen
    assert [part["type"] for part in parts if isinstance(part, dict)] == kinds
    assert ("[audio, audio/wav, 4 bytes]" in parts) == ("audio" not in media)
    assert ("[resource file:///a.pdf, application/pdf, 4 bytes]" in parts) == ("document" not in media)
    assert drawn == (["a dot", PNG.to_dict()] if "image" in media else "a dot\n[image, image/png, 6 bytes]")


def test_unknown_kinds_of_media_are_refused():
    with pytest.raises(ValueError, match="media: unknown kind 'picture'; the kinds are image, document, audio, video"):
        mcp.http("http://127.0.0.1:1/mcp", media=["picture"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"write media=\['image'\]"):
        mcp.http("http://127.0.0.1:1/mcp", media="image")
    assert inspect.signature(mcp.stdio).parameters["media"].default == ("image", "document", "audio", "video")


@pytest.mark.parametrize(
    ("returned", "seen"),
    [
        (PNG, PNG.to_dict()),
        (["a dot", PNG], ["a dot", PNG.to_dict()]),
        ((Text("a dot"), PNG, {"x": 1}), ["a dot", PNG.to_dict(), '{"x": 1}']),
        (WAV, WAV.to_dict()),
        (PDF, Document.from_base64("JVBERg==", "application/pdf").to_dict()),
        (Video.from_base64("AAAA", "video/mp4"), Video.from_base64("AAAA", "video/mp4").to_dict()),
        ([Document.from_text("Hello", title="a b"), PNG], ["Hello", PNG.to_dict()]),
        (
            Image.from_url("https://example.com/a.png"),
            "[resource https://example.com/a.png: a.png, image/png]",
        ),
        (Binary(b"PK", "application/zip"), "[resource attachment:binary, application/zip, 2 bytes]"),
        ([], "[]"),
        (["a", 1], '["a", 1]'),
    ],
)
async def test_media_of_our_server_reach_the_model_of_our_client(returned: Any, seen: Any):
    async with mcp.serve(media_tool(returned), transport="http") as server, mcp.http(server.url) as client:
        assert await seen_by_the_model(client, "draw") == seen


async def test_our_server_sends_the_content_blocks_of_the_specification():
    returned = [PNG, WAV, PDF, "text"]
    async with mcp.serve(media_tool(returned), transport="http") as server, mcp.http(server.url) as client:
        result = await client.call("draw")

    assert result["content"] == [
        {"type": "image", "data": "MTIzNDU2", "mimeType": "image/png"},
        {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
        {
            "type": "resource",
            "resource": {"uri": "attachment:plan", "mimeType": "application/pdf", "blob": "JVBERg=="},
        },
        {"type": "text", "text": "text"},
    ]
    assert "structuredContent" not in result


# A server without an SDK, which sends structured content beside an image, and data that are not base64.
RAW = """
import json, sys
image = {"type": "image", "data": "MTIzNDU2", "mimeType": "image/png"}
results = {
    "both": {"content": [{"type": "text", "text": "{}"}, image], "structuredContent": {"x": 1}},
    "plain": {"content": [{"type": "text", "text": "{}"}], "structuredContent": {"x": 1}},
    "broken": {"content": [{**image, "data": "#"}]},
    "failed": {"content": [{"type": "text", "text": "no ink"}, image], "isError": True},
}
for line in sys.stdin:
    request = json.loads(line)
    method, params = request["method"], request.get("params", {})
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "raw", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in results]}
    elif method == "tools/call":
        result = results[params["name"]]
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("both", [{"x": 1}, PNG.to_dict()]),
        ("plain", {"x": 1}),
        ("broken", "[image, image/png, 0 bytes]"),
    ],
)
async def test_structured_content_stays_what_it_is(name: str, seen: Any):
    import sys

    async with mcp.stdio(sys.executable, "-c", RAW) as server:
        assert await seen_by_the_model(server, name) == seen


async def test_media_in_errors_are_named():
    import sys

    async with mcp.stdio(sys.executable, "-c", RAW) as server:
        assert "no ink\n[image, image/png, 6 bytes]" in await seen_by_the_model(server, "failed")


async def run_at_a_vendor(make: Any, url: str, **options: Any) -> Any:
    """Run an agent with a tool that draws at the loopback server. Returns the body of the second request."""
    script = [Reply(tool_calls=[ToolCall("draw")]), Reply("Done.")]
    async with (
        mcp.serve(media_tool(["a dot", PNG]), transport="http") as tools,
        mcp.http(tools.url, **options) as client,
    ):
        with serve(script) as server:
            model = make(base_url=server.base_url + url)
            await agent(model=model, tools=[client]).run("Draw.")
            return server.requests[-1].json


async def test_anthropic_gets_an_image_in_the_tool_result():
    body = await run_at_a_vendor(lambda base_url: anthropic("claude-sonnet-4-5", base_url=base_url, api_key="none"), "")

    (result,) = body["messages"][-1]["content"]
    assert result["type"] == "tool_result"
    assert [part["type"] for part in result["content"]] == ["text", "image"]
    assert base64.b64decode(result["content"][1]["source"]["data"]) == b"123456"


async def test_openai_gets_an_image_in_the_output_of_the_call():
    body = await run_at_a_vendor(lambda base_url: openai("gpt-5", base_url=base_url, api_key="none"), "")

    output = body["input"][-1]["output"]
    assert [part["type"] for part in output] == ["input_text", "input_image"]


async def test_a_vendor_without_media_in_results_answers_as_for_other_tools():
    def make(base_url: str) -> Any:
        return ollama("llama3.2", base_url=base_url)

    with pytest.raises(UPPError, match="does not take this image as the result of a tool"):
        await run_at_a_vendor(make, "")
    body = await run_at_a_vendor(make, "", media=())
    assert json.dumps(body["messages"]).count("[image, image/png, 6 bytes]") == 1

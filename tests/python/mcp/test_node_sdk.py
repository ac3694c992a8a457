"""The official TypeScript SDK and the reference server "everything" of npm against our client and server.

The packages are those of ``tests/node/package-lock.json``; ``make test`` installs them. Without Node.js or the packages
the tests are skipped and name the reason; with CI=1 or TURNTREE_REQUIRE_NODE=1 that is a failure.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp_support import OWN_SERVER, ROOT, model_events
from support.ports import reserved_port

from turntree import agent, mcp
from turntree.upp import scripted

pytestmark = pytest.mark.timeout(300)

HERE = ROOT / "tests" / "node"
MODULES = HERE / "node_modules" / "@modelcontextprotocol"
EVERYTHING = MODULES / "server-everything" / "dist" / "index.js"
REQUIRED = any(os.environ.get(name, "") not in ("", "0") for name in ("CI", "TURNTREE_REQUIRE_NODE"))
SCRIPT = HERE / "mcp.mjs"
PATHS = {"streamableHttp": "mcp", "sse": "sse"}
TRANSPORTS = ["stdio", *PATHS]


@pytest.fixture(scope="module")
def node() -> str:
    """The path of Node.js. Skips the tests without it or the packages."""
    missing = [name for name in ("sdk", "server-everything") if not (MODULES / name / "package.json").exists()]
    program = shutil.which("node")
    if program is not None and not missing:
        return program
    reason = "Node.js is missing" if program is None else f"tests/node lacks the packages {', '.join(missing)}"
    message = f"NOT TESTED with the TypeScript SDK of MCP: {reason}; run make node"
    print(message)
    if REQUIRED:
        pytest.fail(message)
    pytest.skip(message)


@contextmanager
def listening(node: str, transport: str) -> Iterator[str]:
    """The reference server at a free port. It says when it listens."""
    with reserved_port() as port:
        process = subprocess.Popen(
            [node, str(EVERYTHING), transport],
            env={**os.environ, "PORT": str(port)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if "port" in line:
                    break
            yield f"http://127.0.0.1:{port}/{PATHS[transport]}"
        finally:
            process.kill()
            process.communicate()


@asynccontextmanager
async def everything(node: str, transport: str, **options: Any) -> AsyncIterator[mcp.McpServer]:
    if transport == "stdio":
        async with mcp.stdio(node, str(EVERYTHING), "stdio", **options) as server:
            yield server
        return
    make = mcp.sse if transport == "sse" else mcp.http
    with listening(node, transport) as url:
        async with make(url, **options) as server:
            yield server


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_an_agent_uses_the_reference_server(node: str, transport: str):
    calls = [
        [{"toolName": "get-sum", "arguments": {"a": 2, "b": 3}}],
        [{"toolName": "trigger-long-running-operation", "arguments": {"duration": 0.2, "steps": 3}}],
        "Done.",
    ]

    async with everything(node, transport) as server:
        stream = agent(model=scripted(calls), tools=[server]).stream("Go.")
        events = [event async for event in stream]
        turn = await stream.turn
        structured = await server.call("get-structured-content", location="Chicago")
        picture = await server.call("get-tiny-image")
        resources = await server.resources()
        read = await server.read_resource(resources[0]["uri"])
        prompts = [prompt["name"] for prompt in await server.prompts()]
        messages = await server.get_prompt("args-prompt", city="Oulu")

    added, _ = turn.tool_executions
    reports = [event.delta["progress"]["progress"] for event in model_events(events, "tool_execution_progress")]
    assert "5" in str(added.result)
    assert reports == [1, 2, 3]
    assert set(structured["structuredContent"]) == {"temperature", "conditions", "humidity"}
    assert [block["type"] for block in picture["content"]] == ["text", "image", "text"]
    assert read[0]["uri"] == resources[0]["uri"]
    assert "args-prompt" in prompts
    assert "Oulu" in messages[0]["content"]["text"]


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_sampling_elicitation_and_roots_are_answered(node: str, transport: str, tmp_path: Path):
    model = scripted(["From our model."])
    questions: list[mcp.Elicitation] = []

    def answer(question: mcp.Elicitation) -> dict[str, Any]:
        questions.append(question)
        return {"name": "Ann"}

    options: dict[str, Any] = {"on_sampling": model, "on_elicitation": answer, "roots": [tmp_path]}
    async with everything(node, transport, **options) as server:
        # The server registers the tools that need these abilities after the handshake.
        names: list[str] = []
        while "get-roots-list" not in names:
            names = [tool.name for tool in await server.tools()]
            await asyncio.sleep(0.01)
        sampled = await server.call("trigger-sampling-request", prompt="Say something.", maxTokens=50)
        elicited = await server.call("trigger-elicitation-request")
        rooted = await server.call("get-roots-list")

    assert "From our model." in json.dumps(sampled)
    assert "Say something." in str(model.requests[0].messages[-1].text)
    assert len(questions) == 1
    assert "Ann" in json.dumps(elicited)
    assert tmp_path.as_uri() in json.dumps(rooted)


async def test_an_agent_uses_a_server_of_the_typescript_sdk(node: str):
    calls = [
        [{"toolName": "add", "arguments": {"a": 2, "b": 3}}],
        [{"toolName": "fail", "arguments": {}}],
        "Done.",
    ]

    async with mcp.stdio(node, str(SCRIPT), "serve") as server:
        turn = await agent(model=scripted(calls), tools=[server]).run("Go.")

    added, failed = turn.tool_executions
    assert added.result == {"sum": 5}
    assert failed.is_error
    assert "no luck" in str(failed.result)


SEEN = {
    "tools": ["add", "city", "count", "helper"],
    "added": "5",
    "refused": [True, "only Oulu is known"],
    "found": {"name": "Oulu", "country": "Finland"},
}


async def test_the_typescript_client_uses_our_server_over_stdio(node: str):
    assert await client(node, "stdio", sys.executable, str(OWN_SERVER)) == SEEN


async def test_the_typescript_client_uses_our_server_over_http(node: str):
    from own_server import add, city, count, helper

    async with mcp.serve(add, city, count, helper, transport="http") as server:
        assert await client(node, "http", server.url) == SEEN


async def client(node: str, *arguments: str) -> object:
    process = await asyncio.create_subprocess_exec(node, str(SCRIPT), *arguments, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    return json.loads(output)

"""``turntree mcp``: agents, tools and functions for MCP clients, over standard streams and HTTP."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from turntree import mcp

APPLICATION = '''
from turntree import agent
from turntree.upp import scripted

print("the application starts")


def add(a: int, b: int) -> int:
    """Add two numbers."""
    print("adding")
    return a + b


helper = agent(name="helper", model=scripted(lambda request: f"You said: {request.messages[-1].text}"))
number = 7
'''

COMMAND = [sys.executable, "-m", "turntree", "mcp"]


@pytest.fixture
def application(tmp_path: Path) -> Path:
    (tmp_path / "served_by_mcp.py").write_text(APPLICATION)
    return tmp_path


async def test_objects_are_served_over_standard_streams(application: Path):
    arguments = ["served_by_mcp:add", "served_by_mcp:helper"]

    async with mcp.stdio(*COMMAND, *arguments, cwd=application) as server:
        names = [tool.name for tool in await server.tools()]
        added = await server.call("add", a=2, b=3)
        said = await server.call("helper", task="Hello!")

    assert names == ["add", "helper"]
    assert added["content"][0]["text"] == "5"
    assert said["content"][0]["text"] == "You said: Hello!"


def test_an_input_that_ends_before_a_client_has_connected_is_an_error_of_one_line(application: Path):
    done = subprocess.run([*COMMAND, "served_by_mcp:add"], cwd=application, input=b"", capture_output=True, timeout=50)

    assert done.returncode == 1
    assert done.stderr.decode().splitlines() == [
        "the application starts",
        "turntree: cannot serve the MCP client: standard input ended before its first message; a client starts this "
        "program and writes to it",
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM for other processes")
async def test_objects_are_served_over_http_with_a_token_until_sigterm(application: Path):
    options = ["--transport", "http", "--port", "0", "--auth-token-env", "MCP_TOKEN"]
    process = subprocess.Popen(
        [*COMMAND, "served_by_mcp:add", *options],
        cwd=application,
        env={**os.environ, "MCP_TOKEN": "t1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        with pytest.raises(mcp.McpError) as refused:
            async with mcp.http(url, auth="t2"):
                pass
        async with mcp.http(url, auth="t1") as server:
            added = await server.call("add", a=2, b=3)
        process.send_signal(signal.SIGTERM)
        status = process.wait(60)
    finally:
        process.kill()
        process.communicate()

    assert refused.value.kind == "unauthorized"
    assert added["content"][0]["text"] == "5"
    assert status == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["served_by_mcp:number"], "served_by_mcp:number"),
        (["served_by_mcp:missing"], "'served_by_mcp:missing' names nothing"),
        (["served_by_mcp:add", "--port", "8000"], "--port needs --transport http"),
        (["served_by_mcp"], "expected MODULE:OBJECT"),
    ],
)
def test_what_cannot_be_served_is_said(application: Path, arguments: list[str], message: str):
    done = subprocess.run([*COMMAND, *arguments], cwd=application, capture_output=True, text=True, timeout=120)

    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""

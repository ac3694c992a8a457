"""Names of tools that vendors refuse."""

import sys

import pytest

from turntree import agent, mcp
from turntree.mcp._client import names_for_models
from turntree.upp import ToolCall, scripted

# A server without an SDK, so that its names are free.
SERVER = """
import json, sys
NAMES = ["files.read/all", "files_read_all", "plain", "déjà vu"]
for line in sys.stdin:
    request = json.loads(line)
    method, params = request["method"], request.get("params", {})
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "raw", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in NAMES]}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": params["name"]}]}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""


async def test_models_see_names_that_vendors_take_and_the_server_its_own():
    calls = [
        ToolCall("1", "x-files_read_all_2", {}),
        ToolCall("2", "x-files_read_all", {}),
        ToolCall("3", "x-d_j__vu", {}),
    ]
    async with mcp.stdio(sys.executable, "-c", SERVER, prefix="x-", deny=["plain"]) as server:
        turn = await agent(model=scripted([calls, "Done."]), tools=[server]).run("Go.")
        whole = await server.call("files.read/all")

    # Calls end in any order.
    assert {call.result for call in turn.tool_executions} == {"files.read/all", "files_read_all", "déjà vu"}
    assert whole["content"][0]["text"] == "files.read/all"


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["a.b", "a_b", "a/b"], ["a_b_2", "a_b", "a_b_3"]),
        (["", "日本"], ["_", "__"]),
        (["n" * 64, "n" * 65, "n" * 66], ["n" * 64, "n" * 62 + "_2", "n" * 62 + "_3"]),
    ],
)
def test_names_for_models_are_short_and_differ(names, shown):
    assert names_for_models(names) == shown

"""Requests of MCP servers for messages of a model."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from turntree import mcp
from turntree.upp import Audio, Image, Text, scripted

# A server without an SDK: its tool asks for a message, and returns the answer as text.
SERVER = """
import json, sys
asked = {
    "systemPrompt": "Be brief.",
    "maxTokens": 50,
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Look."},
                                     {"type": "image", "data": "MTIzNDU2", "mimeType": "image/png"}]},
        {"role": "assistant", "content": {"type": "text", "text": "I see."}},
        {"role": "user", "content": {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}},
    ],
}
def send(message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params", {})
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "raw", "version": "1"}}
    elif method == "tools/call":
        waiting = message["id"]
        send({"id": 900, "method": "sampling/createMessage", "params": asked})
        continue
    elif message.get("id") == 900:
        text = {"type": "text", "text": json.dumps(message.get("result") or message.get("error"))}
        send({"id": waiting, "result": {"content": [text]}})
        continue
    else:
        continue
    send({"id": message["id"], "result": result})
"""


async def answered_by(answerer: Any) -> dict[str, Any]:
    async with mcp.stdio(sys.executable, "-c", SERVER, on_sampling=answerer) as server:
        result = await server.call("ask")
    return json.loads(result["content"][0]["text"])


async def test_a_model_gets_the_messages_with_their_media_and_the_limit_of_tokens():
    model = scripted(["A bell."])

    answer = await answered_by(model)

    (request,) = model.requests
    first, second, third = request.messages
    assert first.content == [Text("Look."), Image.from_base64("MTIzNDU2", "image/png")]
    assert (second.type, second.text) == ("assistant", "I see.")
    assert third.content == [Audio.from_base64("UklGRg==", "audio/wav")]
    assert request.params["turntree:max_tokens"] == 50
    assert answer["content"] == {"type": "text", "text": "A bell."}
    assert answer["stopReason"] == "endTurn"


@pytest.mark.parametrize(
    "answer", ["Yes.", {"role": "assistant", "content": {"type": "text", "text": "Yes."}, "model": "m"}]
)
async def test_a_function_gets_the_parameters(answer: Any):
    asked: list[dict[str, Any]] = []

    def answerer(params: dict[str, Any]) -> Any:
        asked.append(params)
        return answer

    assert (await answered_by(answerer))["content"]["text"] == "Yes."
    assert asked[0]["maxTokens"] == 50

"""Validates the responses of the mock server with the official SDK: all bodies against its types, all cases with its
client. `compare.py` runs it in the environment of the peer `openai` before the measurements.
"""

from __future__ import annotations

import asyncio
import json
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any

from cases import DELTAS, PLAIN_ANSWER, PROMPT, TOOL_ANSWER, TOOL_PROMPT
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from peers.openai import ADD
from pydantic import TypeAdapter

MODELS = ("plain", "tool", "stream-500", "stream-500-paced")
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
USER = {"role": "user", "content": PROMPT}
TOOL_RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "5"}
TOOL_OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "5"}
RESPONSES_ADD = {"type": "function", **ADD["function"], "strict": True}  # type: ignore[dict-item]


def check_types(url: str) -> None:
    """Validate each body with the pydantic models of the SDK."""
    for model in MODELS:
        for extra in ([], [TOOL_RESULT]):
            body = {"model": model, "messages": [USER, *extra]}
            ChatCompletion.model_validate_json(_post(f"{url}/chat/completions", body))
            for options in ({}, {"stream_options": {"include_usage": True}}):
                for data in _events(_post(f"{url}/chat/completions", {**body, "stream": True, **options})):
                    ChatCompletionChunk.model_validate_json(data)
        for extra in ([], [TOOL_OUTPUT]):
            body = {"model": model, "input": [USER, *extra]}
            Response.model_validate_json(_post(f"{url}/responses", body))
            for data in _events(_post(f"{url}/responses", {**body, "stream": True})):
                EVENT.validate_json(data)


async def check_responses(url: str) -> None:
    """Validate Responses with the client. The cases cover Chat Completions."""
    client = AsyncOpenAI(base_url=url, api_key="x", max_retries=0)
    responses: Any = client.responses
    response = await responses.create(model="plain", input=PROMPT)
    _expect(response.output_text, PLAIN_ANSWER)

    items: list[Any] = [{"role": "user", "content": TOOL_PROMPT}]
    async with responses.stream(model="tool", input=items, tools=[RESPONSES_ADD]) as stream:
        call = (await stream.get_final_response()).output[0]
    _expect((call.name, json.loads(call.arguments)), ("add", {"a": 2, "b": 3}))
    items += [call.to_dict(), {"type": "function_call_output", "call_id": call.call_id, "output": "5"}]
    _expect((await responses.create(model="tool", input=items)).output_text, TOOL_ANSWER)

    deltas = 0
    async for event in await responses.create(model="stream-500", input=PROMPT, stream=True):
        deltas += event.type == "response.output_text.delta"
    _expect(deltas, DELTAS)


def _post(url: str, body: dict[str, Any]) -> bytes:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return response.read()


def _events(body: bytes) -> Iterator[bytes]:
    data = [line.removeprefix(b"data: ") for line in body.split(b"\n") if line.startswith(b"data: ")]
    yield from (item for item in data if item != b"[DONE]")


def _expect(found: object, expected: object) -> None:
    if found != expected:
        raise SystemExit(f"the mock server answered {found!r}, expected {expected!r}")


if __name__ == "__main__":
    check_types(sys.argv[1])
    asyncio.run(check_responses(sys.argv[1]))

"""The official OpenAI SDK with a handwritten tool loop: the minimum for a Python program."""

from __future__ import annotations

import json
from typing import Any

from cases import PROMPT, TOOL_PROMPT, add

PACKAGES = ["openai"]
VERSIONS = ["openai"]
IMPORT = "from openai import AsyncOpenAI"
UNSUPPORTED = {"build": "the SDK has no agents"}

ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two integers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
            "additionalProperties": False,
        },
    },
}


def _client(url: str) -> Any:
    from openai import AsyncOpenAI

    return AsyncOpenAI(base_url=url, api_key="x", max_retries=0)


def plain(url: str) -> Any:
    return history(url, [])


def history(url: str, past: list[tuple[str, str]]) -> Any:
    client = _client(url)
    messages = [{"role": role, "content": text} for role, text in past]

    async def once() -> str:
        response = await client.chat.completions.create(
            model="plain", messages=[*messages, {"role": "user", "content": PROMPT}]
        )
        return response.choices[0].message.content

    return once


def tool(url: str) -> Any:
    client = _client(url)
    functions = {"add": add}

    async def once() -> str:
        messages: list[Any] = [{"role": "user", "content": TOOL_PROMPT}]
        while True:
            response = await client.chat.completions.create(model="tool", messages=messages, tools=[ADD])
            message = response.choices[0].message
            if not message.tool_calls:
                return message.content
            messages.append(message)
            for call in message.tool_calls:
                result = await functions[call.function.name](**json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": str(result)})

    return once


def stream(url: str, model: str) -> Any:
    client = _client(url)

    async def once() -> int:
        deltas = 0
        chunks = await client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": PROMPT}], stream=True
        )
        async for chunk in chunks:
            if chunk.choices and chunk.choices[0].delta.content:
                deltas += 1
        return deltas

    return once

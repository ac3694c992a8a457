"""Requests of MCP servers for messages of a model."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from turntree.upp import Message


async def sample(answerer: Any, params: dict[str, Any]) -> dict[str, Any]:
    """Answer ``sampling/createMessage`` with a model or a function."""
    from turntree.upp import ModelReference

    if isinstance(answerer, ModelReference):
        return await _ask(answerer, params)
    answer = answerer(params)
    if inspect.isawaitable(answer):
        answer = await answer
    if isinstance(answer, dict):
        return cast("dict[str, Any]", answer)
    return _result(str(answer), "application")


async def _ask(model: Any, params: dict[str, Any]) -> dict[str, Any]:
    from turntree.upp import llm

    most = params.get("maxTokens")
    settings = {} if most is None else {"max_tokens": most}
    asked = llm(model=model, system=params.get("systemPrompt"), settings=settings)
    messages: list[dict[str, Any]] = params.get("messages") or [{}]
    *history, last = [_message(message) for message in messages]
    turn = await asked.generate(history, last)
    reason = "maxTokens" if turn.stop_reason == "max_tokens" else "endTurn"
    return _result(turn.response.text, str(model.model_id), reason)


def _result(text: str, model: str, reason: str = "endTurn") -> dict[str, Any]:
    content = {"type": "text", "text": text}
    return {"role": "assistant", "content": content, "model": model, "stopReason": reason}


def _message(message: dict[str, Any]) -> Message:
    from turntree.upp import AssistantMessage, Audio, Image, Text, UserMessage

    content: Any = message.get("content") or []
    parts: list[dict[str, Any]] = cast("Any", content if isinstance(content, list) else [content])
    blocks: list[Any] = []
    for block in parts:
        if block.get("type") == "image":
            blocks.append(Image.from_base64(block["data"], block["mimeType"]))
        elif block.get("type") == "audio":
            blocks.append(Audio.from_base64(block["data"], block["mimeType"]))
        else:
            blocks.append(Text(str(block.get("text", ""))))
    return AssistantMessage(blocks) if message.get("role") == "assistant" else UserMessage(blocks)

"""The agent of `uamp_streams.py` behind FastAPI: chat completions of OpenAI as server-sent events."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from pydantic import BaseModel


class Message(BaseModel):
    """A message of the conversation."""

    role: str
    content: str


class Request(BaseModel):
    """The body of a request."""

    model: str
    messages: list[Message]
    stream: bool = False


def app_of(agent: Any) -> FastAPI:
    """Make the ASGI application."""
    app = FastAPI()

    @app.post("/v1/chat/completions")
    async def complete(body: Request) -> StreamingResponse:
        """Stream the answer of the agent."""
        heading = {
            "id": f"chatcmpl-{uuid4().hex}",
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": body.model,
        }

        def chunk(delta: dict[str, Any], reason: str | None = None) -> str:
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            return f"data: {json.dumps({**heading, 'choices': [choice]})}\n\n"

        async def frames() -> AsyncIterator[str]:
            yield chunk({"role": "assistant", "content": ""})
            async for piece in agent.stream(body.messages[-1].content).text():
                yield chunk({"content": piece})
            yield chunk({}, "stop")
            yield "data: [DONE]\n\n"

        return StreamingResponse(frames(), media_type="text/event-stream")

    return app

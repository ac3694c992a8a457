"""A chat backend for `useChat` of the Vercel AI SDK: load or create the session, run, respond. Runs offline.

    uvicorn chat_server:app        # with OPENAI_API_KEY or another model in the place of `scripted`

Started as a script, it sends itself two requests of one chat, and prints what the browser would show.
"""

import asyncio
import json
from typing import Any

import httpx
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from turntree import Session, agent
from turntree.store import memory
from turntree.thread_protocol import ui_input, ui_response
from turntree.upp import ModelRequest, scripted

CHATS = memory()  # or "sqlite:///chats.db"


def play_model(request: ModelRequest) -> str:
    """Repeat the question, and say how many there were."""
    questions = [message.text for message in request.messages if message.type == "user"]
    return f"Question {len(questions)} was: {questions[-1]}"


helper = agent(model=scripted(play_model), system="You are helpful.", name="helper")
app = FastAPI()


@app.post("/api/chat")
async def answer(request: Request) -> StreamingResponse:
    """Answer the last message of the body. The session knows the earlier ones."""
    chat = ui_input(await request.json())
    session = await Session.open(CHATS, chat.id, helper)
    ui = ui_response(chat.stream(session), reply_to=chat)
    return StreamingResponse(ui, headers=ui.headers)


def shown(body: str) -> str:
    """Return the text of a response, as the browser shows it."""
    chunks: list[dict[str, Any]] = [
        json.loads(line.removeprefix("data: ")) for line in body.splitlines() if line.startswith("data: {")
    ]
    return "".join(chunk["delta"] for chunk in chunks if chunk["type"] == "text-delta")


async def main() -> None:
    """Post two messages of one chat."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://chat") as browser:
        for number, text in enumerate(["Is the sea salty?", "Why?"]):
            message = {"id": f"m{number}", "role": "user", "parts": [{"type": "text", "text": text}]}
            response = await browser.post("/api/chat", json={"id": "chat-1", "messages": [message]})
            response.raise_for_status()
            print(shown(response.text))


if __name__ == "__main__":
    asyncio.run(main())

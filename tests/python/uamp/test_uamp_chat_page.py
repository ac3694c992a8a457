"""The chat page of the examples, in Node with a document of its own."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from uamp_peer import Peer
from uamp_support import under_uvicorn

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[2] / "examples" / "chat.html"


async def chat(url: str, *texts: str) -> Any:
    """What the page shows after these texts, and after it was loaded again."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("NOT TESTED: there is no Node")
    command = (node, "--experimental-websocket", "--no-warnings", str(HERE / "chat_page.mjs"), str(PAGE), url, *texts)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    printed, problems = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, problems.decode()
    return json.loads(printed)


async def test_the_page_shows_an_answer_whose_connection_was_lost() -> None:
    async def answer(peer: Peer, _: str) -> None:
        await peer.send("response.created", response_id="r1")
        await peer.send("thinking", content="hm", is_delta=True, response_id="r1")
        await peer.delta("one ")
        await peer.delta("two", keep=True)
        await peer.done("one two", keep=True)
        await peer.lose()

    async with under_uvicorn(Peer(answer)) as url:
        seen = await chat(url, "hello")

    expected = [
        {"kind": "user", "text": "hello"},
        {"kind": "thinking", "text": "hm"},
        {"kind": "agent", "text": "one two"},
    ]
    assert seen == {"shown": expected, "again": expected}


async def test_the_page_shows_errors() -> None:
    async def answer(peer: Peer, event_id: str) -> None:
        error = {"code": "generation_error", "message": "the model failed"}
        await peer.send("response.error", reply_to=event_id, error=error)

    async with under_uvicorn(Peer(answer)) as url:
        seen = await chat(url, "hello")

    assert seen["shown"][-1] == {"kind": "error", "text": "generation_error: the model failed"}

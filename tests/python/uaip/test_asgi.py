"""The ASGI application as an ASGI server uses it."""

import asyncio
import gc
import weakref

import pytest
from uaip_support import Wire, served, shop

from turntree import uaip


async def test_a_response_of_known_length_says_it():
    pytest.importorskip("uvicorn")
    async with served("asgi", shop()) as url, Wire(url) as wire:
        response = await wire.http.get("/")
        assert response.headers["content-length"] == str(len(response.content))
        assert "transfer-encoding" not in response.headers


async def test_the_garbage_collector_does_not_end_a_lifespan():
    events: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    answers: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    app = uaip.asgi_app(shop())

    async def lifespan():
        await app({"type": "lifespan", "asgi": {"version": "3.0"}}, events.get, answers.put)

    # Servers such as uvicorn do not keep a reference to this task, and asyncio has none either.
    task = weakref.ref(asyncio.create_task(lifespan()))
    await events.put({"type": "lifespan.startup"})
    assert await answers.get() == {"type": "lifespan.startup.complete"}
    gc.collect()
    assert task() is not None
    await events.put({"type": "lifespan.shutdown"})
    assert await answers.get() == {"type": "lifespan.shutdown.complete"}

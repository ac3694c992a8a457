"""Servers of agents for tests, by both faces."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest

from turntree import uamp

FACES = ("native", "asgi")


@contextlib.asynccontextmanager
async def served(face: str, *agents: Any, **options: Any) -> AsyncGenerator[str]:
    """Serve agents by one of the faces, and yield the URL."""
    if face == "native":
        async with uamp.serve(*agents, **options) as server:
            yield server.url
        return
    async with under_uvicorn(uamp.asgi_app(*agents, **options)) as url:
        yield url


@contextlib.asynccontextmanager
async def under_uvicorn(app: Any, lifespan: str = "on", port: int = 0) -> AsyncGenerator[str]:
    """Run an ASGI application under uvicorn, and yield the URL."""
    uvicorn = pytest.importorskip("uvicorn")
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        running = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan=lifespan))
        running.install_signal_handlers = lambda: None
        task = asyncio.create_task(running.serve(sockets=[listener]))
        while not running.started:
            await asyncio.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            running.should_exit = True
            await task


@contextlib.asynccontextmanager
async def http(url: str, **options: Any) -> AsyncGenerator[httpx.AsyncClient]:
    """A client that is not of this package."""
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=30, **options) as client:
        yield client


def frames(body: str) -> list[Any]:
    """The data of server-sent events; JSON is parsed."""
    lines = [line.removeprefix("data: ") for line in body.splitlines() if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]

"""A shop for the tests of workflows, and the faces that serve it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from pydantic import BaseModel
from typing_extensions import Self

from turntree import ToolContext, uaip
from turntree.uaip import State, TaskError, Workflow
from turntree.upp import tool

FACES = ("native", "asgi")


class Address(BaseModel):
    street: str
    number: int


class Line(BaseModel):
    product: str
    count: int


def shop(**options: Any) -> Workflow:
    """Browse, fill the cart, check out."""
    made = Workflow("shop", "Sells things.", private=["total", "secret"], agent_writable=["note"], **options)
    made.stage("browse", on_enter=lambda state: state.set("greeting", "hello"))
    made.stage("cart")
    made.stage("checkout", prerequisites=[Address, "lines"], on_exit=lambda state: state.set("left", True))
    made.stage("done", complete_on_enter=True)
    made.transition("browse", "cart")
    made.transition("cart", "browse")
    made.transition("cart", "checkout", when=lambda state: bool(state.get("lines")))
    made.transition("checkout", "done")

    @made.task(stage="browse")
    def search(query: str, limit: int = 10) -> list[str]:
        """Search the catalogue."""
        return [f"{query} {number}" for number in range(min(limit, 2))]

    @made.task(stage="cart", writes=["lines", "total"])
    async def add(product: str, count: int, state: State) -> Line:
        """Put a product in the cart."""
        lines = state.get("lines", [])
        lines.append({"product": product, "count": count})
        state.update(lines=lines, total=len(lines) * 10)
        await asyncio.sleep(0)
        return Line(product=product, count=count)

    @made.task(stage="cart")
    def fail(state: State, kind: str = "task") -> None:
        """Write the state, then fail."""
        state.set("secret", "written by a task that fails")
        if kind == "task":
            raise TaskError("the product is sold out")
        raise RuntimeError("password=1234")

    @made.task(stage="cart")
    def wrong() -> int:
        """Return what the schema forbids."""
        return "three"  # type: ignore[return-value]

    @made.task(stage="cart", timeout=0.2)
    async def hang(state: State) -> None:
        """Never end."""
        state.set("secret", "written by a task that hangs")
        await asyncio.Event().wait()

    @made.task(stage="cart")
    async def walk(context: ToolContext) -> dict[str, Any]:
        """Report progress."""
        context.report("begins")
        context.report({"step": "one", "message": "half"})
        context.report({"done": 2})
        return {"key": context.idempotency_key, "metadata": context.metadata, "cancelled": context.cancelled}

    @made.task(stage="checkout")
    @tool(approval="ask")
    def pay(amount: int, state: State) -> str:
        """Pay."""
        state.set("total", amount)
        return f"paid {amount}"

    return made


@contextlib.asynccontextmanager
async def served(face: str, *workflows: Any, **options: Any) -> AsyncIterator[str]:
    """Serve workflows by one of the faces, and yield the URL."""
    if face == "native":
        async with uaip.serve(*workflows, **options) as server:
            yield server.url
        return
    uvicorn = pytest.importorskip("uvicorn")
    app = uaip.asgi_app(*workflows, **options)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, log_level="warning", lifespan="on")
        running = uvicorn.Server(config)
        running.install_signal_handlers = lambda: None
        task = asyncio.create_task(running.serve(sockets=[listener]))
        while not running.started:
            await asyncio.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            running.should_exit = True
            await task


class Wire:
    """Requests as a client without this package sends them."""

    def __init__(self, url: str, **options: Any) -> None:
        self.http = httpx.AsyncClient(base_url=url, trust_env=False, timeout=30, **options)
        self.session = ""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()

    async def start(self, name: str = "shop") -> Any:
        answer = await self.http.post("/initialize", json={"workflow_name": name})
        assert answer.status_code == 200, answer.text
        self.session = answer.headers["x-session-id"]
        return answer.json()

    async def execute(self, action: str, headers: dict[str, str] | None = None, **rest: Any) -> httpx.Response:
        body = {"workflow_name": "shop", "action": action, **rest}
        return await self.http.post("/execute", json=body, headers={"x-session-id": self.session, **(headers or {})})

    async def call(self, task: str, headers: dict[str, str] | None = None, **args: Any) -> httpx.Response:
        return await self.execute("method_call", headers, task=task, args=args)

    async def go(self, stage: str) -> httpx.Response:
        return await self.execute("stage_transition", stage=stage)

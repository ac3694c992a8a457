"""Clients of other packages as processes, and the agents that they talk to."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

from support.client_environment import client_environment
from uamp_support import under_uvicorn

from turntree import agent, uamp
from turntree.testing import LoopbackServer, Reply, Request, serve
from turntree.upp import (
    ModelRequest,
    Reasoning,
    Text,
    Tool,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    openai_compatible,
    scripted,
)

ROOT = Path(__file__).resolve().parents[3]
CLIENTS = Path(__file__).with_name("clients")
# The environment of clients: servers are on the loopback interface, and the package under test is not theirs.
HIDDEN = ("PYTHONPATH",)
PLAIN = {
    name: value for name, value in os.environ.items() if name not in HIDDEN and not name.lower().endswith("_proxy")
}
CITY = {"city": "Oulu", "people": 200000}


def environment() -> str:
    """The Python of an environment with the packages of clients."""
    return client_environment("uamp-clients", "the clients of other packages")


def results_of(command: list[str | Path], url: str) -> dict[str, Any]:
    """Run a client against a server and return the result of each of its scenarios."""
    program = [*map(str, command), url]
    done = subprocess.run(program, capture_output=True, text=True, timeout=240, env=PLAIN, cwd=CLIENTS)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.strip().splitlines()[-1])


def blocks(language: str) -> list[str]:
    """The blocks of the page about clients."""
    text = (ROOT / "docs" / "uamp" / "clients.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@contextlib.contextmanager
def served_to_clients(face: str, **options: Any) -> Generator[str]:
    """Serve `agents` by one of the faces in another thread, and yield the URL."""
    with serve(_unfinished) as vendor:
        if face == "native":
            with uamp.serve_sync(*agents(vendor), **options) as server:
                yield server.url
            return
        with _in_thread(uamp.asgi_app(*agents(vendor), **options)) as url:
            yield url


@contextlib.contextmanager
def _in_thread(app: Any) -> Generator[str]:
    ready, ended, found = threading.Event(), asyncio.Event(), list[Any]()

    async def main() -> None:
        found.append(asyncio.get_running_loop())
        async with under_uvicorn(app) as url:
            found.append(url)
            ready.set()
            await ended.wait()

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    try:
        assert ready.wait(20)
        yield found[1]
    finally:
        found[0].call_soon_threadsafe(ended.set)
        thread.join(20)


def auth(token: str) -> str | None:
    """The principals of the clients."""
    return "anna" if token == "secret" else None


def agents(vendor: LoopbackServer) -> list[Any]:
    """One agent for each thing that clients must understand."""

    def delete() -> str:
        """Delete everything."""
        return "deleted"

    def stock() -> int:
        """How much is in stock."""
        return 12

    async def wait() -> str:
        """Wait until the run is cancelled."""
        await asyncio.Event().wait()
        return "never"

    def failing(_: ModelRequest) -> str:
        raise RuntimeError("the model is broken")

    asks = Tool("delete", "Delete everything.", None, delete, "ask")
    thinking = [Reasoning(text="I think"), Text(text="therefore")]
    models: dict[str, Any] = {
        "echo": scripted(lambda request: f"you said: {_last_user(request)}"),
        "counter": scripted(lambda request: f"{len(request.messages)} messages"),
        "caller": scripted(_calling("weather", city="Oulu")),
        "structured": scripted(lambda _: json.dumps(CITY)),
        "thinker": scripted(lambda _: thinking),
        "broken": scripted(failing),
        "worker": scripted(_calling("stock")),
        "waiter": scripted(_calling("wait")),
        "asker": scripted(_calling("delete")),
        "cut": _of_vendor(vendor, "length"),
        "filtered": _of_vendor(vendor, "content_filter"),
    }
    tools: dict[str, list[Any]] = {"worker": [stock], "waiter": [wait], "asker": [asks]}
    return [agent(name=name, model=model, tools=tools.get(name, [])) for name, model in models.items()]


def _last_user(request: ModelRequest) -> str:
    return [message.text for message in request.messages if isinstance(message, UserMessage)][-1]


def _calling(name: str, **arguments: Any) -> Any:
    """A model that calls a tool and then says its result."""

    def reply(request: ModelRequest) -> Any:
        last = request.messages[-1]
        if isinstance(last, ToolResultMessage):
            return f"it is {last.results[0].result}"
        return ToolCall(tool_call_id=f"call_{len(request.messages)}", tool_name=name, arguments=arguments)

    return reply


def _of_vendor(vendor: LoopbackServer, finish: str) -> Any:
    return openai_compatible(finish, base_url=vendor.base_url, api_key="none")


def _unfinished(request: Request) -> Reply:
    """A reply that ends for the reason by which its model is named."""
    return Reply("half an answ", finish="length" if request.model == "length" else "content_filter")

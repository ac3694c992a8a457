"""A server of `a2a-sdk` for the A2A client: prints its port and serves until its standard input ends.

| path | agent |
|---|---|
| ``/new`` | A2A 1.0, streams |
| ``/plain`` | A2A 1.0, does not stream |
| ``/old`` | A2A 0.3, streams |
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections import Counter
from typing import Any

import uvicorn
from a2a.helpers import new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

# What has happened, for the test: GET /log.
LOG: list[str] = []


class Executor(AgentExecutor):
    """Does what the first word of a message says."""

    def __init__(self) -> None:
        self.counted: Counter[str] = Counter()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Answer one message."""
        assert context.task_id is not None
        assert context.context_id is not None
        if context.current_task is None:
            assert context.message is not None
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        text = context.get_user_input()
        self.counted[context.context_id] += 1
        await updater.start_work(new_text_message("looking"))
        if text == "ask":
            await updater.requires_input(new_text_message("Which city?"))
        elif text == "fail":
            await updater.failed(new_text_message("the shelf is empty"))
        elif text == "reject":
            await updater.reject(new_text_message("not today"))
        elif text == "wait":
            LOG.append("waits")
            await asyncio.Event().wait()
        else:
            pieces = [f"{text} ", "is ", f"number {self.counted[context.context_id]}"]
            for place, piece in enumerate(pieces):
                await updater.add_artifact(
                    [new_text_part(piece)], artifact_id="answer", append=place > 0, last_chunk=place == 2
                )
            await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Cancel a task."""
        assert context.task_id is not None
        assert context.context_id is not None
        LOG.append("cancelled")
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def routes(url: str, name: str, *, streaming: bool, version: str) -> list[Any]:
    """The routes of one agent."""
    card = AgentCard(
        name=f"{name} agent",
        description=f"The {name} one.",
        version="1",
        capabilities=AgentCapabilities(streaming=streaming),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="count", name="count", description="Counts messages.", tags=["numbers"])],
        supported_interfaces=[
            AgentInterface(url=f"{url}/{name}/rpc", protocol_binding="JSONRPC", protocol_version=version)
        ],
    )
    handler = DefaultRequestHandler(agent_executor=Executor(), task_store=InMemoryTaskStore(), agent_card=card)
    found = create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=version == "0.3")
    return [Mount(f"/{name}", routes=[*create_agent_card_routes(card), *found])]


async def main() -> None:
    """Serve until the standard input ends."""

    async def log(_: Any) -> JSONResponse:
        return JSONResponse(LOG)

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        app = Starlette(
            routes=[
                *routes(url, "new", streaming=True, version="1.0"),
                *routes(url, "plain", streaming=False, version="1.0"),
                *routes(url, "old", streaming=True, version="0.3"),
                Route("/log", log),
            ]
        )
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:
            await asyncio.sleep(0.01)
        print(json.dumps({"url": url}), flush=True)
        await asyncio.to_thread(sys.stdin.read)
        server.should_exit = True
        await serving


if __name__ == "__main__":
    asyncio.run(main())

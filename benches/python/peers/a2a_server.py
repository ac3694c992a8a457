"""The agent of `uamp_streams.py` behind the server of a2a-sdk."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from a2a.helpers.proto_helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette


class Executor(AgentExecutor):
    """Streams each piece of text as an artifact update."""

    def __init__(self, agent: Any) -> None:
        self.agent = agent

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Run the agent."""
        task = context.current_task
        if task is None:
            assert context.message is not None
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        artifact = str(uuid4())
        is_first = True
        async for piece in self.agent.stream(context.get_user_input()).text():
            parts = [new_text_part(piece)]
            await updater.add_artifact(parts, artifact_id=artifact, append=not is_first, last_chunk=False)
            is_first = False
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Is not called."""
        raise NotImplementedError


def app_of(agent: Any, url: str) -> Any:
    """Make the ASGI application."""
    card = AgentCard(
        name="bench",
        description="Streams words.",
        version="1",
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        capabilities=AgentCapabilities(streaming=True),
        supported_interfaces=[AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")],
        skills=[AgentSkill(id="words", name="words", description="Streams words.", tags=["bench"])],
    )
    handler = DefaultRequestHandler(agent_executor=Executor(agent), task_store=InMemoryTaskStore(), agent_card=card)
    return Starlette(routes=create_jsonrpc_routes(handler, "/"))

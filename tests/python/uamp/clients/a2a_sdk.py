"""The `a2a-sdk` package as a client of served agents: A2A 1.0 over JSON-RPC and HTTP, and 0.3."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

import httpx
from _scenarios import run
from a2a.client import ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from a2a.helpers import get_artifact_text, get_message_text, new_text_message
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import A2AError

HEADERS = {"authorization": "Bearer secret"}


@contextlib.asynccontextmanager
async def connected(
    url: str, name: str, *, binding: str = "JSONRPC", version: str = "1.0", **options: Any
) -> AsyncGenerator[Any]:
    """A client of one agent over one of the interfaces of its card."""
    async with httpx.AsyncClient(headers=HEADERS, timeout=30) as http:
        card: AgentCard = await A2ACardResolver(http, f"{url}/agents/{name}").get_agent_card()
        interfaces = [
            found
            for found in card.supported_interfaces
            if found.protocol_binding == binding and found.protocol_version == version
        ]
        assert len(interfaces) == 1, card
        del card.supported_interfaces[:]
        card.supported_interfaces.extend(interfaces)
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=[binding], **options)
        yield ClientFactory(config).create(card)


def request(text: str, **members: Any) -> SendMessageRequest:
    """A message of the user."""
    configuration = members.pop("configuration", None)
    message = new_text_message(text, role=Role.ROLE_USER, **members)
    return SendMessageRequest(message=message, configuration=configuration)


async def whole(client: Any, text: str, **members: Any) -> Any:
    """Send a message and return the task at the end."""
    return [event async for event in client.send_message(request(text, **members))][-1].task


async def streamed(client: Any, text: str) -> dict[str, Any]:
    """Send a message; the kinds of the events, the streamed text, and the last state."""
    kinds, pieces, state, last = [], [], "", ""
    async for event in client.send_message(request(text)):
        kind = event.WhichOneof("payload")
        kinds.append(kind)
        if kind == "artifact_update":
            pieces.append(get_artifact_text(event.artifact_update.artifact))
        elif kind == "status_update":
            state = TaskState.Name(event.status_update.status.state)
            last = get_message_text(event.status_update.status.message)
    return {"first": kinds[0], "last": kinds[-1], "text": "".join(pieces), "state": state, "message": last}


async def interface(url: str, **which: Any) -> Any:
    """Send, stream, read and list over one interface."""
    async with connected(url, "counter", streaming=False, **which) as client:
        first = await whole(client, "one")
        second = await whole(client, "two", context_id=first.context_id)
        read = await client.get_task(GetTaskRequest(id=second.id))
        found = [
            TaskState.Name(second.status.state),
            [get_artifact_text(task.artifacts[0]) for task in (first, second, read)],
            first.context_id == second.context_id,
        ]
        if which.get("version") != "0.3":
            listed = await client.list_tasks(ListTasksRequest(context_id=first.context_id))
            found.append(len(listed.tasks))
    async with connected(url, "echo", **which) as client:
        found.append(await streamed(client, "hello"))
    return found


async def json_rpc(url: str) -> Any:
    """1.0 over JSON-RPC."""
    return await interface(url)


async def rest(url: str) -> Any:
    """1.0 over HTTP."""
    return await interface(url, binding="HTTP+JSON")


async def compatible(url: str) -> Any:
    """0.3 over JSON-RPC, as the SDK's compatibility layer speaks it."""
    return await interface(url, version="0.3")


async def working(stream: Any) -> None:
    """Read a stream until the agent works on the task."""
    while (await anext(stream)).status_update.status.state != TaskState.TASK_STATE_WORKING:
        pass


async def cancels(url: str, **which: Any) -> Any:
    """Follow a task from a second stream while another request cancels it."""
    async with connected(url, "waiter", **which) as client:
        stream = aiter(client.send_message(request("wait")))
        task = (await anext(stream)).task
        await working(stream)
        second = aiter(client.subscribe(SubscribeToTaskRequest(id=task.id)))
        joined = (await anext(second)).WhichOneof("payload")
        cancelled = await client.cancel_task(CancelTaskRequest(id=task.id))
        ends = []
        for reader in (stream, second):
            events = [event async for event in reader]
            ends.append(TaskState.Name(events[-1].status_update.status.state))
        try:
            await client.cancel_task(CancelTaskRequest(id=task.id))
        except A2AError as error:
            refused = type(error).__name__
        else:
            refused = "nothing"
    return [joined, TaskState.Name(cancelled.status.state), ends, refused]


async def cancel(url: str) -> Any:
    """Cancel and subscribe over JSON-RPC."""
    return await cancels(url)


async def cancel_rest(url: str) -> Any:
    """Cancel and subscribe over HTTP."""
    return await cancels(url, binding="HTTP+JSON")


async def cancel_compatible(url: str) -> Any:
    """Cancel and subscribe over 0.3."""
    return await cancels(url, version="0.3")


async def approval(url: str) -> Any:
    """The task waits for a decision, and continues with it."""
    async with connected(url, "asker", streaming=False) as client:
        waiting = await whole(client, "delete it")
        done = await whole(client, "approve", context_id=waiting.context_id, task_id=waiting.id)
    states = [TaskState.Name(task.status.state) for task in (waiting, done)]
    return [*states, get_artifact_text(done.artifacts[0])]


async def webhooks(url: str) -> Any:
    """Webhooks of a task: created, read, listed, deleted; private addresses are refused."""
    async with connected(url, "waiter") as client:
        stream = aiter(client.send_message(request("wait")))
        task = (await anext(stream)).task
        # Nothing is sent to the webhook: the state does not change while it exists.
        await working(stream)
        hook = TaskPushNotificationConfig(task_id=task.id, id="one", url="https://1.1.1.1/hook", token="t")
        made = await client.create_task_push_notification_config(hook)
        read = await client.get_task_push_notification_config(
            GetTaskPushNotificationConfigRequest(task_id=task.id, id="one")
        )
        listing = ListTaskPushNotificationConfigsRequest(task_id=task.id)
        listed = await client.list_task_push_notification_configs(listing)
        await client.delete_task_push_notification_config(
            DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="one")
        )
        rest = await client.list_task_push_notification_configs(listing)
        private = TaskPushNotificationConfig(task_id=task.id, url="http://127.0.0.1:9/hook")
        try:
            await client.create_task_push_notification_config(private)
            refused = "nothing"
        except A2AError as error:
            refused = type(error).__name__
        await client.cancel_task(CancelTaskRequest(id=task.id))
    return [made.id, read.token, len(listed.configs), len(rest.configs), refused]


async def errors(url: str) -> Any:
    """Errors are the exceptions of the SDK."""
    found = {}

    async def raises(name: str, call: Any) -> None:
        try:
            await call
            found[name] = "nothing"
        except A2AError as error:
            found[name] = type(error).__name__

    for name, which in {"json_rpc": {}, "rest": {"binding": "HTTP+JSON"}, "0.3": {"version": "0.3"}}.items():
        async with connected(url, "echo", streaming=False, **which) as client:
            await raises(f"{name} get", client.get_task(GetTaskRequest(id="none")))
            await raises(f"{name} cancel", client.cancel_task(CancelTaskRequest(id="none")))
            await raises(f"{name} continue", whole(client, "hi", task_id="none"))
    async with httpx.AsyncClient(timeout=30) as http:
        try:
            await A2ACardResolver(http, f"{url}/agents/nobody").get_agent_card()
        except A2AError as error:
            found["card"] = type(error).__name__
    async with connected(url, "broken", streaming=False) as client:
        found["broken"] = TaskState.Name((await whole(client, "hi")).status.state)
    return found


async def concurrent(url: str) -> Any:
    """Many tasks at once over one client."""
    async with connected(url, "echo", streaming=False) as client:
        done = await asyncio.gather(*(whole(client, f"number {n}") for n in range(20)))
    return [get_artifact_text(task.artifacts[0]) for task in done] == [f"you said: number {n}" for n in range(20)]


if __name__ == "__main__":
    run(
        [
            json_rpc,
            rest,
            compatible,
            cancel,
            cancel_rest,
            cancel_compatible,
            approval,
            webhooks,
            errors,
            concurrent,
        ]
    )

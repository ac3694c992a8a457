"""The NLI skill of `webagents`: an agent of that package sends messages to a served agent by UAMP."""

from __future__ import annotations

import os
import types
from typing import Any

os.environ.setdefault("DO_NOT_TRACK", "1")

from _scenarios import run
from webagents.agents.skills.robutler.nli import NLISkill


async def send(url: str, agent: str, text: str) -> str:
    """Send a message with the transport `uamp`."""
    skill = NLISkill({"transport": "uamp", "timeout": 30, "agent_base_url": url})
    await skill.initialize(types.SimpleNamespace(name="caller", api_key=None))
    return str(await skill._send_via_uamp(f"{url}/agents/{agent}", text, {}, None, 30))


async def message(url: str) -> Any:
    """A message and its answer."""
    return await send(url, "echo", "hello")


async def tool(url: str) -> Any:
    """An agent that calls a tool of its own before it answers."""
    return await send(url, "worker", "hello")


async def error(url: str) -> Any:
    """The exception has the message of the server."""
    return await send(url, "broken", "hello")


if __name__ == "__main__":
    run([message, tool, error])

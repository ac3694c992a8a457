"""Agents of other servers as tools, by A2A."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from turntree import _core
from turntree._core import ToolContext
from turntree.upp._tools import Tool

# Above it, the conversations that were used least recently are forgotten; their next message begins a new one.
_MAX_CONVERSATIONS = 10_000

_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "message": {
            "type": "string",
            "description": "What to say to the agent. It knows only what it is told here and what it was told before.",
        }
    },
    "required": ["message"],
    "additionalProperties": False,
}


def a2a_agent(
    url: str, token: str | None = None, name: str | None = None, description: str | None = None
) -> Tool[..., Any]:
    """Return a tool that sends messages to an agent of another server, by A2A 1.0 or 0.3 over JSON-RPC.

    Calls of one session continue one conversation with the agent; without a session, those of one run. Pieces of the
    answer are reported as the progress of the call. If the run is cancelled, the task of the agent is cancelled too.
    If the agent asks for input, the result says so, and the next call answers the question. A message is sent once. A
    lost stream is continued, and a task whose stream cannot be continued is read until it ends.

    Without `name` or `description` the card is read now, which blocks this thread; with both, in the first call.

    Args:
        url: The URL of the agent, whose card is at ``{url}/.well-known/agent-card.json``, or that of a card, if it
            ends in ``.json``.
        token: The bearer token. It is sent to the origin of `url` only, also if the card names another one.
        name: The name of the tool. Default: the name of the card.
        description: The description of the tool for the model. Default: that of the card with its skills.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `url` is not an HTTP URL.
        UampError: The card cannot be read. In a call: the agent cannot be reached or refuses the message
            (``connection_failed``, ``unauthorized``, ``task_not_found``, …), or its task ends without an answer
            (``task_failed``, ``task_rejected``, ``task_canceled``, ``auth_required``).
    """
    for argument, value in (("url", url), ("token", token), ("name", name), ("description", description)):
        given: object = value
        if not isinstance(given, str) and (given is not None or argument == "url"):
            message = f"{argument} must be a str, not {type(given).__name__}"
            raise TypeError(message)
    core = _core.A2aClientCore(url, token)
    if name is None or description is None:
        card: dict[str, Any] = core.card(blocking=True)
        name = name or _tool_name(str(card.get("name")))
        description = description or _description(card)
    return Tool(name, description, _PARAMETERS, _sending(core))


def _sending(core: _core.A2aClientCore) -> Callable[..., Awaitable[str]]:
    conversations: OrderedDict[str, tuple[str | None, str | None]] = OrderedDict()

    async def send(message: str, context: ToolContext) -> str:
        key = context.session_id or context.turn_id
        context_id, task_id = conversations.get(key, (None, None))
        answer = await core.send(message, context_id, task_id, context.report)
        conversations[key] = (answer["context_id"], answer["waiting_task_id"])
        conversations.move_to_end(key)
        while len(conversations) > _MAX_CONVERSATIONS:
            conversations.popitem(last=False)
        text: str = answer["text"]
        if answer["waiting_task_id"] is not None:
            return f"The agent has not finished. It needs input: {text}\nCall this tool again with the input."
        return text

    return send


def _tool_name(name: str) -> str:
    """The name of a card as the name of a tool: vendors allow letters, digits, ``_`` and ``-``."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_")[:64] or "agent"


def _description(card: Mapping[str, Any]) -> str:
    lines = [str(card.get("description") or f"The agent {card.get('name')}.")]
    skills = cast("list[dict[str, Any]]", card.get("skills") or [])
    said = {lines[0], card.get("name")}
    for skill in skills:
        text = str(skill.get("description") or skill.get("name") or "")
        if text and text not in said:
            said.add(text)
            lines.append(f"- {skill['name']}: {text}" if skill.get("name") else f"- {text}")
    return "\n".join(lines)

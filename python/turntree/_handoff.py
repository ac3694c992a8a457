"""Handoffs: tools that give the conversation to another agent."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

from turntree._agent import Agent
from turntree._argument_errors import explain_arguments
from turntree._callbacks import check_callback
from turntree._core import Message
from turntree._peer_arguments import HANDOFF
from turntree._public_names import publish
from turntree._texts import encoded
from turntree.upp._tools import Tool

InputFilter = Callable[[list[Message]], list[Message]]

_NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}


class _Handoff(Tool[..., Any]):
    """A tool that gives the conversation to another agent."""

    __slots__ = ("_input_filter",)

    _input_filter: InputFilter | None

    def _filter_input(self, messages: list[Message]) -> list[Message]:
        """Return the messages that the agent receives. The native core calls it when the agent takes over."""
        import inspect

        filtered: Any = cast("InputFilter", self._input_filter)(messages)
        if inspect.isawaitable(filtered):
            close = getattr(filtered, "close", None)
            if close is not None:
                close()
            message = "input_filter must be a function without async"
            raise TypeError(message)
        if not isinstance(filtered, list) or not filtered:
            message = "input_filter must return a list of messages that is not empty"
            raise TypeError(message)
        return cast("list[Message]", filtered)

    def _handoff_target(self) -> Any:
        """Return the native half of the agent. The native core calls it when the agent takes over."""
        known: Any = self._agent
        made: Any = known() if not isinstance(known, Agent) else cast("Any", known)
        if not isinstance(made, Agent):
            message = (
                f"the function of the handoff to {self._handoff!r} must return an agent, not {type(made).__name__}"
            )
            raise TypeError(message)
        return cast("Any", made)._native


@explain_arguments(HANDOFF)
def handoff(
    agent: Agent[Any, Any] | Callable[[], Agent[Any, Any]],
    description: str | None = None,
    *,
    name: str | None = None,
    tool_name: str | None = None,
    input_filter: InputFilter | None = None,
) -> Tool[..., Any]:
    """Create a tool that gives the conversation to another agent.

    When the model calls it, the run goes on with the other agent: with all messages, and with its own system prompt,
    tools, model, strategy and structure. That agent answers the user, ``turn.agent`` is its name, and the next run of
    the session starts with it. To get an answer back instead, use the agent itself as a tool.

    Args:
        agent: The agent that takes over; it has a name. Or a function without parameters that returns it, so that two
            agents can hand the conversation to each other: ``handoff(lambda: triage, name="triage")``.
        description: When to hand over, for the model. Default: a sentence with the agent's name.
        name: The agent's name. Needed for a function only.
        tool_name: Name of the tool. Default: ``transfer_to_`` and the agent's name.
        input_filter: A function that takes the messages up to the handoff, a list, and returns those that the agent's
            model receives instead. The turn and the session keep all of them. Default: all messages.

    One run is handed over at most ten times, and one response to one agent: further calls get an error result. The
    other calls of the response are executed first.

    Raises:
        ValueError: The agent has no name, or another one than `name`; or `agent` is a function and `name` is missing.
        TypeError: `agent` is neither an agent nor a function, `input_filter` is not a function, or a text is no str.
    """
    given: list[tuple[str, object]] = [("description", description), ("name", name), ("tool_name", tool_name)]
    for argument, text in given:
        if text is not None and not isinstance(text, str):
            message = f"handoff(): {argument} must be a str or None, not {type(text).__name__}"
            raise TypeError(message)
        if text is not None:
            encoded(text, argument)
    if isinstance(agent, Agent):
        target = agent.name
        if target is None:
            message = "an agent that takes over a conversation needs a name: agent(name=…)"
            raise ValueError(message)
        if name is not None and name != target:
            message = f"name is {name!r}, but the agent has the name {target!r}; leave name= out"
            raise ValueError(message)
    elif callable(agent):
        if not name:
            message = 'handoff() with a function needs the name of its agent: handoff(lambda: triage, name="triage")'
            raise ValueError(message)
        target = name
    else:
        message = f"agent must be an agent, or a function that returns one, not {type(agent).__name__}"
        raise TypeError(message)

    if input_filter is not None and not callable(input_filter):
        message = f"input_filter must be a function, not {type(input_filter).__name__}"
        raise TypeError(message)

    if input_filter is not None:
        check_callback("input_filter of handoff()", input_filter, ("messages",))

    async def run() -> str:
        return f"The conversation is handed over to {target}."

    tool = _Handoff(
        tool_name or "transfer_to_" + re.sub(r"[^A-Za-z0-9_-]", "_", target),
        description or f"Hand the conversation over to the agent {target}, which then answers the user.",
        _NO_ARGUMENTS,
        run,
    )
    tool._handoff = target
    tool._agent = agent
    tool._input_filter = input_filter
    if isinstance(agent, Agent):
        tool._sub_agent = agent._native
    return tool


publish(__name__, globals())

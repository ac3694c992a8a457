"""Questions of MCP servers to the user: which run they belong to, and who answers."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from turntree._core import ToolContext

OnElicitation = Callable[["Elicitation"], Any] | Literal["approval"]

_INVALID_REQUEST = -32600

_AMBIGUOUS = (
    "calls of several runs are open on this connection, and it does not say which of them asks. Give each run a "
    "connection of its own, connect over Streamable HTTP, or pass a function as on_elicitation="
)


@dataclass(frozen=True)
class Elicitation:
    """A question of a server to the user, for `on_elicitation`.

    Attributes:
        message: The question.
        schema: JSON Schema of the answer: an object of plain values. Empty if the server sends the user to `url`.
        url: The page to open, or None.
        tool_name: The tool whose call asks, with its prefix. Empty if no run of an agent calls it, or if several calls
            are open and the connection does not say which of them asks. On standard streams and `sse`, the only open
            call counts as the one that asks: a question that a server sends after the result of its tool cannot be told
            from one of that call.
        tool_call_id: Id of that call, or empty.
        arguments: Arguments of that call.
    """

    message: str
    schema: dict[str, Any] = field(default_factory=dict[str, Any])
    url: str | None = None
    tool_name: str = ""
    tool_call_id: str = ""
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class RunCall:
    """The call of a tool by a run of an agent, with the functions that decide about the calls of that run."""

    name: str
    arguments: dict[str, Any]
    context: ToolContext
    approvers: tuple[Any, ...]
    # The variables of the run's code, which a function that decides may read.
    variables: contextvars.Context = field(default_factory=contextvars.copy_context)

    def is_of_the_run_of(self, other: RunCall | None) -> bool:
        """Whether both calls belong to one run, or to its sub-agents, and the same functions decide about them."""
        return other is not None and _run(self) == _run(other) and self.approvers == other.approvers


def _run(call: RunCall) -> str:
    return call.context.parent_turn_id or call.context.turn_id


async def answer(
    server: str, ask: OnElicitation, params: dict[str, Any], calls: Mapping[int, RunCall | None], key: int | None
) -> tuple[Any, tuple[int, str] | None]:
    """Answer ``elicitation/create``: the result, or the code and the message of an error.

    Args:
        server: The name of the server, for the log.
        ask: Who answers.
        params: The parameters of the request.
        calls: The open calls of the connection: of runs, or None for others.
        key: The call on whose stream the server asks, or None if the transport does not tell.
    """
    question = Elicitation(params.get("message", ""), params.get("requestedSchema") or {}, params.get("url"))
    candidates = list(calls.values()) if key is None else [calls.get(key)]
    call = candidates[-1] if candidates else None
    if len(candidates) == 1 and call is not None:
        asking = call.context.tool_call_id or ""
        question = replace(question, tool_name=call.name, tool_call_id=asking, arguments=call.arguments)
    elif len(candidates) > 1:
        is_of_one_run = call is not None and all(call.is_of_the_run_of(other) for other in candidates)
        if not callable(ask) and not is_of_one_run and any(candidates):
            logging.getLogger("turntree.mcp").warning("a question of the server %r is refused: %s", server, _AMBIGUOUS)
            return None, (_INVALID_REQUEST, _AMBIGUOUS)
        call = call if is_of_one_run else None
    askers: Sequence[Any] = (ask,) if callable(ask) else call.approvers if call is not None else ()
    return _result(await _first_decision(askers, question, call)), None


async def _first_decision(askers: Sequence[Any], question: Elicitation, call: RunCall | None) -> Any:
    for asker in askers:
        decision = await _ask(asker, question, call)
        # A function that leaves the decision to a person; the next one is asked.
        if decision != "ask":
            return decision
    return None


async def _ask(asker: Any, question: Elicitation, call: RunCall | None) -> Any:
    """Call a function with the variables of the call that asks."""
    variables = contextvars.copy_context() if call is None else call.variables.copy()
    decision: Any = variables.run(asker, question)
    if inspect.isawaitable(decision):
        decision = await variables.run(asyncio.ensure_future, decision)
    return decision


def _result(decision: Any) -> dict[str, Any]:
    if isinstance(decision, dict):
        return {"action": "accept", "content": cast("dict[str, Any]", decision)}
    if decision is True:
        return {"action": "accept", "content": {}}
    return {"action": "cancel" if decision is None else "decline"}


__all__ = ["Elicitation", "OnElicitation", "RunCall", "answer"]

"""The runs of a store's queue: the arguments that enqueue one, and what the store returns about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol, cast

from turntree import _core

RunStatus = Literal["queued", "running", "waiting", "done", "failed"]

__all__ = ["Run", "RunPage", "RunStatus", "new_run", "run_from", "run_page"]


class Run(NamedTuple):
    """A run that was enqueued with `Store.enqueue`."""

    id: str
    """The run's id, which is also the id of its input message."""
    session: str
    """The session's id."""
    status: RunStatus
    """"queued": it waits for a worker or its next attempt; "running"; "waiting": tool calls wait for approval; "done";
    "failed": it was given up."""
    turn: _core.Turn | None
    """The turn of a run that is done; None for a resumption with nothing to resume."""
    error: str | None
    """The error of the last attempt that failed, or what a waiting run waits for."""
    attempts: int
    """The number of times that a worker has started the run or taken it over since it was enqueued or waited last."""
    agent: str | None
    """The name or id of the agent that executes the run; None for the agent of any worker."""
    created_at: datetime
    """The time when the run was enqueued, in UTC."""
    updated_at: datetime
    """The time of the last change, in UTC."""


class RunPage(list[Run]):
    """A page of runs.

    Attributes:
        next: The position of the next page, for the argument `after` of `Store.runs`; None for the last page.
    """

    def __init__(self, runs: Iterable[Run], next: str | None) -> None:
        super().__init__(runs)
        self.next = next


class Identified(Protocol):
    """An agent."""

    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str | None: ...


# Stores have priorities as numbers of 32 bits.
_LOWEST_PRIORITY, _HIGHEST_PRIORITY = -(2**31), 2**31 - 1


def new_run(
    session_id: str,
    input: str | _core.UserMessage | Sequence[Any] | None,
    agent: Identified | str | None,
    not_before: datetime | None,
    priority: int,
) -> tuple[str, str, str | None, str | None, datetime | None, int]:
    """Return the arguments of `StoreCore.enqueue`. The id of the session was checked."""
    name = _agent_name(agent)
    if not _LOWEST_PRIORITY <= priority <= _HIGHEST_PRIORITY:
        error = f"priority must be from {_LOWEST_PRIORITY} to {_HIGHEST_PRIORITY}, not {priority}"
        raise ValueError(error)
    if input is None:
        from uuid import uuid4  # not part of the import of turntree

        return str(uuid4()), session_id, None, name, not_before, priority
    if isinstance(input, _core.UserMessage):
        message = input
    elif isinstance(input, _core.Message):
        error = f"input must be a user message, not {type(input).__name__}"
        raise TypeError(error)
    else:
        content: Any = input if isinstance(input, (str, list)) else [input]
        message = _core.UserMessage(content)
    return message.id, session_id, message.model_dump_json(), name, not_before, priority


def _agent_name(agent: object) -> str | None:
    """Return the name that workers compare with those of their agents, or else the id."""
    if agent is None or isinstance(agent, str):
        return agent
    try:
        return cast("Identified", agent).name or cast("Identified", agent).id
    except AttributeError:
        error = f"agent must be an agent, its name or its id, not {type(agent).__name__}"
        raise TypeError(error) from None


def run_from(id: str, row: Any) -> Run:
    """Return a run from its row.

    Raises:
        KeyError: There is no row.
    """
    if row is None:
        raise KeyError(id)
    return _run_of(row)


def _run_of(row: Any) -> Run:
    id, session, status, turn, error, attempts, _input, agent, created_at, updated_at = row
    parsed = None if turn is None else _core.Turn.model_validate_json(turn)
    return Run(id, session, status, parsed, error, attempts, agent, created_at, updated_at)


def run_page(answer: Any) -> RunPage:
    """Return a page of runs from its rows."""
    rows, next = answer
    return RunPage((_run_of(row) for row in rows), next)

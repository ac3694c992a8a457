"""Calls of tasks that wait for the decision of a person."""

from __future__ import annotations

import inspect
import json
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

# Above it, the oldest grants are forgotten: the agent then asks again.
_MAX_GRANTS = 10_000


class Approval(NamedTuple):
    """A call that waits for a decision."""

    id: str
    """The id for `Workflow.approve` and `Workflow.deny`; agents see it too."""
    task: str
    """The name of the task."""
    arguments: dict[str, Any]
    """The arguments."""


class ApprovalNeeded(Exception):
    """Raised by a task that a person must approve first. The service stores the call and tells the client its id."""


class Grants:
    """Calls that the agent layer of this process has approved and makes next. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._granted: OrderedDict[str, None] = OrderedDict()

    def grant(self, session_id: str, task: str, arguments: dict[str, Any]) -> None:
        """Grant the next call of a task with these arguments in a session."""
        with self._lock:
            self._granted[_key(session_id, task, arguments)] = None
            while len(self._granted) > _MAX_GRANTS:
                self._granted.popitem(last=False)

    def take(self, session_id: str, task: str, arguments: dict[str, Any]) -> bool:
        """Return whether a call was granted. A grant is for one call."""
        key = _key(session_id, task, arguments)
        with self._lock:
            if key not in self._granted:
                return False
            del self._granted[key]
            return True


def _key(session_id: str, task: str, arguments: dict[str, Any]) -> str:
    return json.dumps([session_id, task, arguments], sort_keys=True, separators=(",", ":"))


async def answer_of(approval: Callable[[dict[str, Any]], Any] | str, arguments: dict[str, Any]) -> bool | str:
    """Return what the ``approval`` of a tool says about a call: True, False or "ask".

    Raises:
        TypeError: It says something else.
    """
    if isinstance(approval, str):
        return approval
    if inspect.iscoroutinefunction(approval):
        answer: Any = await approval(arguments)
    else:
        import asyncio

        answer = await asyncio.to_thread(approval, arguments)
        if inspect.isawaitable(answer):
            answer = await answer
    if isinstance(answer, str) and answer != "ask":
        message = f'approval must return True, False or "ask", not {answer!r}'
        raise TypeError(message)
    return answer if answer == "ask" else bool(answer)

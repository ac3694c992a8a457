"""What the handles of runs of all engines do with pending calls."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any

from turntree.durable._steps import PendingCall, jsonable


class Decisions(ABC):
    """Sends the decisions of the application about pending calls to a run."""

    async def approve(self, call: PendingCall | str) -> None:
        """Approve a pending call. The tool is called.

        Args:
            call: A call from `pending`, or its key.
        """
        await self._decide(call, "approve")

    async def deny(self, call: PendingCall | str) -> None:
        """Deny a pending call. The model receives an error result.

        Args:
            call: A call from `pending`, or its key.
        """
        await self._decide(call, "deny")

    async def resolve(
        self, call: PendingCall | str, *, result: Any = ..., retry: bool = False, error: str | None = None
    ) -> None:
        """Say what happened to a call in doubt, or that it is to be repeated. Takes exactly one of the three.

        Args:
            call: A call from `pending`, or its key.
            result: What the tool has returned (JSON). The tool is not called again.
            retry: True calls the tool again, with the same `ToolContext.idempotency_key`.
            error: The text of an error result for the model. The tool is not called again.

        Raises:
            TypeError: Not exactly one of `result`, `retry` and `error` is given.
        """
        kind, value = _resolution(result, retry=retry, error=error)
        await self._decide(call, kind, value)

    async def _decide(self, call: PendingCall | str, kind: str, value: Any = None) -> None:
        key = call.key if isinstance(call, PendingCall) else call
        await self._send(key, json.dumps({"call": key, "kind": kind, "value": value}))

    @abstractmethod
    async def _send(self, key: str, decision: str) -> None:
        """Send a decision, as JSON text, about the call with this key."""


def _resolution(result: Any, *, retry: bool, error: str | None) -> tuple[str, Any]:
    """Return the kind and the value of the decision about a call in doubt. A `result` of ``...`` is not given.

    Raises:
        TypeError: Not exactly one is given, or it has the wrong type.
    """
    if not isinstance(retry, bool) or not (error is None or isinstance(error, str)):
        message = "retry must be a bool and error a str"
        raise TypeError(message)
    if (result is not ...) + retry + (error is not None) != 1:
        message = "resolve takes exactly one of result, retry=True and error"
        raise TypeError(message)
    if result is not ...:
        return "result", jsonable(result)
    return ("retry", None) if retry else ("error", {"type": "Exception", "message": error})

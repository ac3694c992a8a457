"""The tool calls of a session that need a decision: they wait for approval, or may have been executed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, overload

from turntree import _core

# The default of an argument that can be None.
_NOT_GIVEN: Any = object()


class SessionCalls:
    """The part of a session that decides about tool calls."""

    __slots__ = ("_native",)

    _native: _core.SessionCore

    @property
    def pending(self) -> list[_core.ToolCall]:
        """The tool calls that wait for approval, in call order, with the arguments that the tools would receive."""
        return self._native.pending

    @property
    def pending_by_id(self) -> dict[str, _core.ToolCall]:
        """The pending calls by an id that only one of them has. `approve` and `deny` take these ids.

        It is the id of the call. If another call has the same one, as calls of two sub-agents may have, it is the
        `ToolContext.idempotency_key` of the call.
        """
        waiting = self._native.pending_by_key
        return {key if shares_id else call.tool_call_id: call for key, _, shares_id, call in waiting}

    def approve(self, call: str | _core.ToolCall, *, arguments: Mapping[str, Any] | None = None) -> None:
        """Approve a pending call. The tool runs on `resume`, not before; approval hooks are not called again.

        Args:
            call: A call from `pending`, or its id, or its id in `pending_by_id`.
            arguments: Arguments that replace those from the model.

        Raises:
            SessionError: No pending call has this id, several have it, the call is already approved or denied, or a
                run is active.
            TypeError: `arguments` is not a dict, or contains a value that JSON does not support.
        """
        self._native.approve(call, arguments)

    def deny(self, call: str | _core.ToolCall, reason: str | None = None) -> None:
        """Deny a pending call. The model receives an error result on `resume`.

        Args:
            call: A call from `pending`, or its id, or its id in `pending_by_id`.
            reason: The text of the error result for the model.

        Raises:
            SessionError: As `approve`.
        """
        self._native.deny(call, reason)

    def approve_all(self) -> list[_core.ToolCall]:
        """Approve all pending calls, and return them.

        Raises:
            SessionError: A run is active.
        """
        calls = self.pending
        for call in calls:
            self.approve(call)
        return calls

    def deny_all(self, reason: str | None = None) -> list[_core.ToolCall]:
        """Deny all pending calls, and return them.

        Raises:
            SessionError: A run is active.
        """
        calls = self.pending
        for call in calls:
            self.deny(call, reason)
        return calls

    @property
    def in_doubt(self) -> list[_core.ToolCall]:
        """The tool calls that may have been executed before the process of their run ended, without a known result.

        The calls of a run that the stored session shows as active, and that had no result then. Calls of tools with
        ``idempotent=True`` are not in doubt: `resume` repeats them with the same `ToolContext.idempotency_key`. Neither
        are calls of sub-agents, whose runs continue; their calls in doubt are listed after those of the session.

        `resume` raises `ApprovalRequired` until each of them is resolved.
        """
        return self._native.in_doubt

    @overload
    def resolve(self, call: str | _core.ToolCall, *, result: Any) -> None: ...

    @overload
    def resolve(self, call: str | _core.ToolCall, *, retry: Literal[True]) -> None: ...

    @overload
    def resolve(self, call: str | _core.ToolCall, *, error: str) -> None: ...

    def resolve(
        self, call: str | _core.ToolCall, *, result: Any = _NOT_GIVEN, retry: bool = False, error: str | None = None
    ) -> None:
        """Say what happened to a call in doubt, or that it is to be repeated. It takes effect on `resume`.

        Takes exactly one of `result`, `retry` and `error`. `save` saves the resolution.

        Args:
            call: A call from `in_doubt`, or its id.
            result: What the tool has returned (JSON). The tool is not called again.
            retry: True calls the tool again, with the same `ToolContext.idempotency_key`.
            error: The text of an error result for the model. The tool is not called again.

        Raises:
            SessionError: No call in doubt has this id, the call is already resolved, or a run is active.
            TypeError: Not exactly one of `result`, `retry` and `error` is given, or it has the wrong type.
        """
        id, has_result = id_of(call), result is not _NOT_GIVEN
        if not isinstance(retry, bool) or not (error is None or isinstance(error, str)):
            message = "retry must be a bool and error a str"
            raise TypeError(message)
        if has_result + retry + (error is not None) != 1:
            message = "resolve takes exactly one of result, retry=True and error"
            raise TypeError(message)
        if has_result:
            self._native.resolve(id, "result", result)
        else:
            self._native.resolve(id, "retry" if retry else "error", error)

    def discard(self) -> bool:
        """Discard the unfinished run with its pending calls and calls in doubt. The tree does not change.

        Returns:
            True if there was an unfinished run.

        Raises:
            SessionError: A run is active.
        """
        return self._native.discard()


def id_of(call: str | _core.ToolCall) -> str:
    """Return the id of a call."""
    if isinstance(call, (str, _core.ToolCall)):
        return call if isinstance(call, str) else call.tool_call_id
    message = f"call must be a ToolCall or the id of one, not {type(call).__name__}"
    raise TypeError(message)

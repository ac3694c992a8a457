"""The exceptions of workflows."""

from __future__ import annotations

from typing import Any

from turntree.exceptions import TurntreeError


class DefinitionError(TurntreeError, ValueError):
    """A workflow cannot be served: the message has the place, the rule and the remedy."""


class TaskError(TurntreeError):
    """Raise it in a task or a hook to tell the agent why the action failed; what the action has written is discarded.

    The agent reads only the messages of this exception. Any other exception is logged in ``turntree.uaip`` with an id,
    and the agent receives the id.
    """


class UaipError(TurntreeError):
    """A server has refused a request.

    Attributes:
        code: What is wrong, such as ``"task_not_in_stage"``; None if the answer has no code.
        status: The status of the HTTP response; None without a response.
        detail: What the server says.
        body: The whole answer. It can contain ``tools`` and ``current_stage``, ``allowed``, ``missing`` and ``errors``.
    """

    def __init__(self, detail: str, code: str | None, status: int | None, body: dict[str, Any] | None = None) -> None:
        super().__init__(f"{code}: {detail}" if code else detail)
        self.detail = detail
        self.code = code
        self.status = status
        self.body: dict[str, Any] = body if body is not None else {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.detail, self.code, self.status, self.body)

"""The exceptions of clients."""

from __future__ import annotations

from typing import Any

from turntree.exceptions import TurntreeError


class UampError(TurntreeError):
    """A server has refused a session or a response, or it cannot be reached.

    Attributes:
        code: What is wrong: a code of the server, such as ``"agent_not_found"``, or ``"unauthorized"``,
            ``"connection_failed"``, ``"session_lost"``, ``"session_closed"`` or ``"response_in_progress"``.
        message: The code in words.
        details: What the server adds for programs; None if it adds nothing.
    """

    def __init__(self, message: str, code: str, details: Any = None) -> None:
        super().__init__(f"{code}: {message}")
        self.message = message
        self.code = code
        self.details = details

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.code, self.details)

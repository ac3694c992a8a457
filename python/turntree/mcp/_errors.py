"""The errors of MCP connections."""

from __future__ import annotations

from typing import Any

from turntree.exceptions import TurntreeError


class McpError(TurntreeError):
    """A connection to an MCP server, or a request of it, has failed.

    Attributes:
        kind: ``"connect"`` (the server cannot be started or reached), ``"unauthorized"``, ``"refused"`` (the server
            answered with an error), ``"timeout"``, ``"closed"``, ``"invalid"`` or ``"protocol"``.
        code: The code of JSON-RPC if the server refused; else None.
        data: The data of the server's error.
    """

    def __init__(self, message: str, kind: str = "protocol", code: int | None = None, data: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.code = code
        self.data = data

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.kind, self.code, self.data)

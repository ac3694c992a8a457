"""Connections to MCP servers, and MCP servers."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, final

from turntree._core._agents import ToolContext
from turntree._core._server import ServerCore

@final
class McpClientCore:
    """The native half of a connection of ``turntree.mcp``. Operations return a coroutine."""

    @staticmethod
    def stdio(
        command: list[str],
        environment: Mapping[str, str],
        directory: str | None,
        settings: Mapping[str, Any],
        answer: Callable[[str, Any, int | None], Any],
    ) -> object:
        """Starts a program and connects to it. ``answer`` takes the method and parameters of the server's requests.

        Its third argument is the key of the call on whose stream a request arrives, or None if that is not known.
        """

    @staticmethod
    def http(
        url: str,
        headers: list[tuple[str, str]],
        token: str | None,
        sse: bool,
        settings: Mapping[str, Any],
        answer: Callable[[str, Any, int | None], Any],
    ) -> object:
        """Connects over Streamable HTTP; with ``sse``, over the HTTP transport of 2024."""

    @property
    def server(self) -> dict[str, Any]:
        """What the server said of itself."""

    @property
    def closed(self) -> bool:
        """Whether the connection has ended."""

    def call(
        self,
        method: str,
        params: Mapping[str, Any],
        on_progress: Callable[[dict[str, Any]], Any] | None,
        key: int | None = None,
    ) -> object:
        """Sends a request, calls ``on_progress`` with each report, and returns the result.

        ``answer`` receives ``key`` with the requests of the server that this call causes.
        """

    def close(self) -> object:
        """Ends the connection."""

def mcp_server(
    served: Mapping[str, Any],
    call: Callable[[str, dict[str, Any], ToolContext[Any]], Any],
    host: str,
    port: int,
    auth: Callable[[str], Any] | None,
) -> ServerCore:
    """A native server of tools over Streamable HTTP."""

def mcp_stdio(
    served: Mapping[str, Any], call: Callable[[str, dict[str, Any], ToolContext[Any]], Any]
) -> Awaitable[None]:
    """Serves tools over the standard streams until the input ends."""

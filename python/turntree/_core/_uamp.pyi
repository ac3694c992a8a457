"""Servers and clients of agents."""

from collections.abc import Callable, Mapping
from typing import Any, final

from turntree._core._agents import AgentCore
from turntree._core._async import Coroutine
from turntree._core._server import AsgiCore, ServerCore

def uamp_server(
    agents: list[AgentCore],
    store: object,
    settings: Mapping[str, Any],
    host: str,
    port: int,
    auth: Callable[..., Any] | None,
    drain: float | None,
) -> ServerCore:
    """A native server of agents."""

def uamp_asgi(
    agents: list[AgentCore], store: object, settings: Mapping[str, Any], auth: Callable[..., Any] | None
) -> AsgiCore:
    """An ASGI application of agents."""

@final
class AcpStdio:
    """The standard streams of the process as streams of a protocol.

    They are copied when this is made: what is connected to the descriptors 0 and 1 later does not matter.
    """

    def __new__(cls) -> AcpStdio: ...
    def serve(self, agents: list[AgentCore], store: object, settings: Mapping[str, Any]) -> Coroutine[None]:
        """Return a coroutine that serves the only agent of a list until the input ends, or until ``stop``."""

    def stop(self) -> None:
        """End the coroutine as if the input had ended. It may be called from any thread."""

@final
class UampClientCore:
    """The native half of ``turntree.uamp.Client``."""

    @staticmethod
    def connect(url: str, token: str | None, reconnect_for: float) -> Coroutine[UampClientCore]:
        """Return a coroutine that connects to a server and returns the client."""

    def session(self, agent: str | None) -> Coroutine[UampSessionCore]:
        """Return a coroutine that opens a session and returns it."""

    def close(self) -> Coroutine[None]:
        """Return a coroutine that closes the connection."""

@final
class UampSessionCore:
    """The native half of ``turntree.uamp.Session``."""

    @property
    def id(self) -> str:
        """The id."""

    @property
    def agent(self) -> str | None:
        """The name of the agent, if the server says it."""

    def run(
        self,
        text: str,
        options: Mapping[str, Any] | None,
        response_format: Mapping[str, Any] | None,
        convert: Callable[[dict[str, Any]], Any],
    ) -> object:
        """Ask for a response and return the stream of its events, as ``convert`` makes them of dicts."""

    def resolve(self, call_id: str, result: object, is_error: bool) -> None:
        """Give the result of a tool that the server has called."""

    def cancel(self) -> None:
        """Cancel the response."""

    def end(self) -> None:
        """End the session."""

def uamp_verify(
    token: str, text: str, messages: list[dict[str, Any]] | None, jwks: Mapping[str, Any], now: int
) -> dict[str, Any]:
    """Check the signature of a response and return its claims."""

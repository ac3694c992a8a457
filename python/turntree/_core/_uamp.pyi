"""Servers and clients of agents."""

from collections.abc import Callable, Mapping
from typing import Any, final

from typing_extensions import Self

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
    agents: list[AgentCore],
    store: object,
    settings: Mapping[str, Any],
    auth: Callable[..., Any] | None,
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
class UampDaemonCore:
    """The native half of ``turntree.uamp.Daemon``."""

    def __new__(
        cls,
        agents: list[AgentCore],
        store: object,
        settings: Mapping[str, Any],
        url: str,
        token: str | None,
    ) -> Self: ...
    def start(self) -> Coroutine[None]:
        """Return a coroutine that connects to the router, and waits until all agents have sessions."""

    def wait(self) -> Coroutine[None]:
        """Return a coroutine that waits until the daemon ends."""

    def close(self) -> Coroutine[None]:
        """Return a coroutine that ends the sessions and the connection."""

@final
class UampClientCore:
    """The native half of ``turntree.uamp.Client``.

    With ``blocking=False``, operations return a coroutine.
    """

    @staticmethod
    def connect(url: str, token: str | None, reconnect_for: float, blocking: bool) -> object:
        """Connect to a server and return the client."""

    def session(self, agent: str | None, blocking: bool) -> object:
        """Open a session and return it."""

    def close(self, blocking: bool) -> object:
        """Close the connection."""

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

@final
class A2aClientCore:
    """The native half of ``turntree.uamp.a2a_agent``."""

    def __new__(cls, url: str, token: str | None) -> A2aClientCore: ...
    def card(self, blocking: bool) -> Any:
        """Read the agent card, as a dict. With ``blocking=False``, return a coroutine."""

    def send(
        self, text: str, context_id: str | None, task_id: str | None, report: Callable[[str], object]
    ) -> Coroutine[dict[str, Any]]:
        """Return a coroutine that sends a message and returns the answer.

        ``report`` is called with pieces of it. It is a dict with ``text``, ``context_id`` and ``waiting_task_id``.
        """

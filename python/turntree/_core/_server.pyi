"""Servers of protocols."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Literal, final, overload

from turntree._core._async import Coroutine

@final
class ServerCore:
    """The native half of ``turntree._server.Server``.

    With ``blocking=False``, operations return a coroutine.
    """

    @property
    def url(self) -> str:
        """The address, ``http://host:port``. Raises RuntimeError unless the server runs."""

    @overload
    def start(self, blocking: Literal[True]) -> None: ...
    @overload
    def start(self, blocking: Literal[False]) -> Coroutine[None]:
        """Listens and starts to answer requests."""
    @overload
    def stop(self, blocking: Literal[True]) -> None: ...
    @overload
    def stop(self, blocking: Literal[False]) -> Coroutine[None]:
        """Stops listening, waits for open requests up to the drain limit, and closes what is left."""

@final
class AsgiCore:
    """The native half of ``turntree._server.AsgiApplication``."""

    def serve(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> Coroutine[None]:
        """Serves one connection: a lifespan, an HTTP request or a WebSocket."""

"""Servers of protocols: a native one, its synchronous twin, and an ASGI application.

``turntree.uaip.serve`` and others make them. The work is done in Rust.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, MutableMapping
from types import TracebackType
from typing import Any

from turntree._core import AsgiCore, ServerCore
from turntree._typing import Self

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

__all__ = ["AsgiApplication", "Server", "SyncServer"]


class Server:
    """A server that runs inside ``async with``.

    Functions of the application run on the event loop that entered the server; those that are not async run in threads.
    """

    def __init__(self, core: ServerCore) -> None:
        """Take the native server."""
        self._core = core
        self._end_watch: Callable[[], None] | None = None

    @property
    def url(self) -> str:
        """The address, ``http://host:port``. Raises RuntimeError unless the server runs."""
        return self._core.url

    async def start(self) -> None:
        """Listen and start to answer requests. ``async with`` does it.

        Raises:
            OSError: The address cannot be used.
            ValueError: Other machines could reach the server, and it has no ``auth``.
        """
        await self._core.start(blocking=False)
        if "ipykernel" in sys.modules and self._end_watch is None:
            from turntree._interrupts import watch_signals

            self._end_watch = watch_signals()

    async def aclose(self) -> None:
        """Stop listening, wait for open requests, and close what is left after the drain limit."""
        end_watch, self._end_watch = self._end_watch, None
        try:
            await self._core.stop(blocking=False)
        finally:
            if end_watch is not None:
                end_watch()

    async def __aenter__(self) -> Self:
        """Start the server."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the server."""
        await self.aclose()

    def __repr__(self) -> str:
        """The class with the address."""
        return _text_of(self)


class SyncServer:
    """A server that runs inside ``with``. Async functions of the application run on an event loop in another thread."""

    def __init__(self, core: ServerCore) -> None:
        """Take the native server."""
        self._core = core

    @property
    def url(self) -> str:
        """The address, ``http://host:port``. Raises RuntimeError unless the server runs."""
        return self._core.url

    def start(self) -> None:
        """Listen and start to answer requests. ``with`` does it.

        Raises:
            OSError: The address cannot be used.
            ValueError: Other machines could reach the server, and it has no ``auth``.
        """
        self._core.start(blocking=True)

    def close(self) -> None:
        """Stop listening, wait for open requests, and close what is left after the drain limit."""
        self._core.stop(blocking=True)

    def __enter__(self) -> Self:
        """Start the server."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the server."""
        self.close()

    def __repr__(self) -> str:
        """The class with the address."""
        return _text_of(self)


class AsgiApplication:
    """An ASGI 3 application: run it with uvicorn, hypercorn or granian, or mount it in FastAPI or Starlette."""

    def __init__(self, core: AsgiCore) -> None:
        """Take the native application."""
        self._core = core

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        await self._core.serve(scope, receive, send)


def _text_of(server: Server | SyncServer) -> str:
    name = type(server).__name__
    try:
        return f"<turntree {name} {server.url}>"
    except RuntimeError:
        return f"<turntree {name}, not running>"

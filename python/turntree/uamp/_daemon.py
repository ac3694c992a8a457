"""Agents of this process at a router."""

from __future__ import annotations

from types import TracebackType

from turntree import Agent, _core
from turntree._recipes import shown_url
from turntree._typing import Self
from turntree.store import PersistenceAdapter
from turntree.uamp._payments import PaymentGate
from turntree.uamp._serving import _natives, _settings, _store


class Daemon:
    """Agents of this process at a router, for ``async with``. Created by `dial`.

    Tools of the agents run on the event loop that entered the daemon; those that are not async run in threads.
    """

    def __init__(self, core: _core.UampDaemonCore, url: str) -> None:
        """Take the native daemon."""
        self._core, self._url = core, url

    async def start(self) -> None:
        """Connect, and open a session for each agent. ``async with`` does it.

        Raises:
            UampError: The router cannot be reached, or it refuses the connection or an agent.
            ValueError: The URL is not one of a server.
        """
        await self._core.start()

    async def wait(self) -> None:
        """Wait until the daemon ends: it was closed, or the router refuses it for good.

        Raises:
            UampError: The router refuses the connection or an agent, for example with ``unauthorized``.
            RuntimeError: The daemon does not run.
        """
        await self._core.wait()

    async def aclose(self) -> None:
        """End the sessions with ``session.end``, cancel their responses, and close the connection."""
        await self._core.close()

    async def __aenter__(self) -> Self:
        """Connect."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the sessions and close the connection."""
        await self.aclose()

    def __repr__(self) -> str:
        """The class with the address."""
        return f"<turntree.uamp.Daemon at {shown_url(self._url)}>"


def dial(
    url: str,
    *agents: Agent,
    token: str | None = None,
    store: PersistenceAdapter | str | None = None,
    payment_gate: PaymentGate | None = None,
    resume_window: float = 60,
) -> Daemon:
    """Offer agents of this process to a router, over one connection that this process makes.

    For processes that cannot be reached from outside. Each agent has a session at the router, which asks for responses
    with ``input.text``; no ``response.create`` follows. Requests of one session run one after the other, at most 16
    wait. A conversation that the router sends whole (``messages``) is not stored. A lost connection is made again with
    growing pauses of 0.1 s to 30 s, and responses continue meanwhile for `resume_window` seconds.

    Args:
        url: The URL of the router: ``http://``, ``https://``, ``ws://`` or ``wss://``.
        *agents: The agents. Their names must differ; an agent without a name is ``agent``.
        token: The bearer token, for the connection and for each session.
        store: Where other conversations are stored, as for `serve`. Default: the memory of this process.
        payment_gate: Decides about payments, as for `serve`.
        resume_window: How long, in seconds, sessions continue without a connection.

    Raises:
        TypeError: There are no agents, or an argument has the wrong type; the message names it.
        ValueError: Two agents have one name, or a setting is invalid.

    Spec: UAMP-1.0 §10.2
    """
    settings = _settings(None, None, resume_window, strict_openai=False, payment_gate=payment_gate)
    core = _core.UampDaemonCore(_natives(agents), _store(store), settings, url, token)
    return Daemon(core, url)

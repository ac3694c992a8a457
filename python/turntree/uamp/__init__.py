"""Agents on the wires that clients speak: UAMP 1.0, the Universal Agentic Message Protocol.

One agent is served on all wires at once::

    from turntree import agent, uamp
    from turntree.upp import anthropic

    helper = agent(name="helper", model=anthropic("claude-sonnet-4-5"))

    async with uamp.serve(helper, port=8000) as server:
        ...  # clients connect to server.url
"""

from __future__ import annotations

from turntree import _servables
from turntree._agent import Agent
from turntree._core import (
    Capabilities,
    ClientEvent,
    ContentItem,
    JwtAuthenticator,
    ServerEvent,
    SessionConfig,
    SystemEvent,
    UsageStats,
)
from turntree._core import UampMessage as Message
from turntree._public_names import set_public_module
from turntree.uamp._a2a import a2a_agent
from turntree.uamp._acp import acp_stdio
from turntree.uamp._client import (
    Client,
    Event,
    Response,
    Session,
    SyncClient,
    SyncResponse,
    SyncSession,
    connect,
    connect_sync,
    verify,
)
from turntree.uamp._daemon import Daemon, dial
from turntree.uamp._errors import UampError
from turntree.uamp._payments import PaymentError, PaymentGate, PaymentRequest
from turntree.uamp._serving import asgi_app, serve, serve_sync

__all__ = [
    # servers
    "serve",
    "serve_sync",
    "asgi_app",
    "acp_stdio",
    "JwtAuthenticator",
    "PaymentGate",
    "PaymentRequest",
    "PaymentError",
    # clients
    "connect",
    "connect_sync",
    "a2a_agent",
    "Client",
    "SyncClient",
    "Session",
    "SyncSession",
    "Response",
    "SyncResponse",
    "Event",
    "verify",
    # agents at a router
    "dial",
    "Daemon",
    "UampError",
    # events as data
    "ClientEvent",
    "ServerEvent",
    "SystemEvent",
    "ContentItem",
    "Message",
    "SessionConfig",
    "Capabilities",
    "UsageStats",
]

set_public_module("turntree.uamp", globals())

_servables.register(_servables.Servable("agent", lambda value: isinstance(value, Agent), serve))

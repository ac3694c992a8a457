"""Agents as servers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from turntree import _core
from turntree._agent import Agent
from turntree._server import AsgiApplication, Server, SyncServer
from turntree._session_store import store_of
from turntree.store import PersistenceAdapter
from turntree.uamp._payments import PaymentGate

Authenticate = Callable[[str], Any]


def serve(
    *agents: Agent,
    host: str = "127.0.0.1",
    port: int = 0,
    store: PersistenceAdapter | str | None = None,
    auth: Authenticate | None = None,
    payment_gate: PaymentGate | None = None,
    signing_key: str | Mapping[str, Any] | None = None,
    public_url: str | None = None,
    resume_window: float = 60,
    strict_openai: bool = False,
) -> Server:
    """Make a server of agents on all wires, which runs inside ``async with`` and has a ``url``.

    An agent is served below ``/agents/{name}``; an agent without a name is ``agent``. If there is one agent, it is also
    served at the root. Async tools run on the event loop that entered the server, others in threads.

    Args:
        *agents: The agents. Their names must differ.
        host: The address to listen on. Any other than the loopback interface needs `auth`.
        port: The port; 0 chooses a free one.
        store: Where conversations are stored: a store of `turntree.store`, its URL, or an object with the methods
            ``save``, ``load`` and ``delete``. Default: the memory of this process. A conversation is a `Session`.
        auth: A function of the bearer token, sync or async, that returns the principal: its id, or a dict with ``id``;
            None refuses the request with 401. Or a `JwtAuthenticator`. A conversation belongs to the principal who
            began it.
        payment_gate: Decides whether responses must be paid, and checks payments: an object with the methods of
            `PaymentGate`. It applies to all wires. Default: responses are free.
        signing_key: The private key that signs complete responses, with Ed25519 or RSA: PEM text, or a JWK as text or
            dict. The public key is at ``/.well-known/jwks.json``; see `verify`. Default: responses are not signed.
        public_url: The URL under which clients reach the server, for the addresses in its answers. Default: that of the
            request. Without `auth`, the server answers to its host, to ``localhost`` and to addresses only, and only to
            web pages of these.
        resume_window: How long, in seconds, a response continues while its client is not connected.
        strict_openai: Whether the paths of OpenAI refuse requests without ``model``, as OpenAI does.

    Raises:
        TypeError: There are no agents, or an argument has the wrong type; the message names it.
        ValueError: Two agents have one name, a name cannot be a path, or a setting is invalid.
    """
    settings = _settings(signing_key, public_url, resume_window, strict_openai, payment_gate)
    natives, native_store = _natives(agents), _store(store)
    return Server(_core.uamp_server(natives, native_store, settings, host, port, _auth(auth), None))


def serve_sync(
    *agents: Agent,
    host: str = "127.0.0.1",
    port: int = 0,
    store: PersistenceAdapter | str | None = None,
    auth: Authenticate | None = None,
    payment_gate: PaymentGate | None = None,
    signing_key: str | Mapping[str, Any] | None = None,
    public_url: str | None = None,
    resume_window: float = 60,
    strict_openai: bool = False,
) -> SyncServer:
    """Like `serve`, for ``with``. Async tools run on an event loop in another thread."""
    settings = _settings(signing_key, public_url, resume_window, strict_openai, payment_gate)
    natives, native_store = _natives(agents), _store(store)
    return SyncServer(_core.uamp_server(natives, native_store, settings, host, port, _auth(auth), None))


def asgi_app(
    *agents: Agent,
    store: PersistenceAdapter | str | None = None,
    auth: Authenticate | None = None,
    payment_gate: PaymentGate | None = None,
    signing_key: str | Mapping[str, Any] | None = None,
    public_url: str | None = None,
    resume_window: float = 60,
    strict_openai: bool = False,
) -> AsgiApplication:
    """Return an ASGI 3 application that answers as `serve`.

    Run it with uvicorn, hypercorn or granian, or mount it in FastAPI or Starlette. A response continues on the event
    loop of the server when its client has gone, for `resume_window` seconds.
    """
    settings = _settings(signing_key, public_url, resume_window, strict_openai, payment_gate)
    return AsgiApplication(_core.uamp_asgi(_natives(agents), _store(store), settings, _auth(auth)))


def _natives(agents: tuple[Any, ...]) -> list[_core.AgentCore]:
    if not agents:
        message = "there are no agents to serve; pass at least one"
        raise TypeError(message)
    for index, agent in enumerate(agents):
        if not isinstance(agent, Agent):
            message = f"agents[{index}]: expected an agent, got {type(agent).__name__}; make one with turntree.agent()"
            raise TypeError(message)
    return [agent._native for agent in agents]


def _store(store: PersistenceAdapter | str | None) -> PersistenceAdapter:
    try:
        return store_of(store)
    except TypeError as error:
        message = str(error).replace("persistence", "store", 1)
        raise TypeError(message) from None


def _auth(auth: Authenticate | None) -> Authenticate | None:
    given: object = auth
    if given is not None and not callable(given):
        message = f"auth must be a function of the bearer token, not {type(auth).__name__}"
        raise TypeError(message)
    return auth


def _settings(
    signing_key: Any, public_url: Any, resume_window: Any, strict_openai: Any, payment_gate: Any = None
) -> dict[str, Any]:
    if isinstance(signing_key, Mapping):
        signing_key = json.dumps(dict(cast("Mapping[str, Any]", signing_key)))
    if signing_key is not None and not isinstance(signing_key, str):
        message = f"signing_key must be a private key as PEM or JWK, not {type(signing_key).__name__}"
        raise TypeError(message)
    if public_url is not None and not isinstance(public_url, str):
        message = f"public_url must be a str, not {type(public_url).__name__}"
        raise TypeError(message)
    if public_url is not None and not public_url.startswith(("http://", "https://")):
        message = f"public_url must start with http:// or https://, not {public_url!r}"
        raise ValueError(message)
    if not isinstance(resume_window, (int, float)) or isinstance(resume_window, bool):
        message = f"resume_window must be a number of seconds, not {type(resume_window).__name__}"
        raise TypeError(message)
    if not isinstance(strict_openai, bool):
        message = f"strict_openai must be a bool, not {type(strict_openai).__name__}"
        raise TypeError(message)
    return {
        "signing_key": signing_key,
        "public_url": public_url,
        "resume_window": resume_window,
        "strict_openai": strict_openai,
        "payment_gate": payment_gate,
    }

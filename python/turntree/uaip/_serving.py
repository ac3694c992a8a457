"""Workflows as servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from turntree import _core
from turntree._server import AsgiApplication, Server, SyncServer
from turntree.store import Store, from_url, memory
from turntree.uaip._decorators import workflow_of
from turntree.uaip._workflow import Workflow

Profile = Literal["strict", "reference"]
Authenticate = Callable[[str], Any]

_SETTINGS: dict[str, Any] = {
    "profile": "strict",
    "idle_ttl": 86400,
    "absolute_ttl": 604800,
    "queue_depth": 64,
    "task_timeout": 60,
}


def store_of(store: Store | str | None) -> Store:
    """Return the store of an argument ``store``; by default one in memory.

    Raises:
        TypeError: It is neither a store nor a URL.
    """
    if store is None:
        return memory()
    if isinstance(store, str):
        return from_url(store)
    if isinstance(store, Store):
        return store
    message = (
        f"store must be a store of turntree.store or its URL, not {type(store).__name__}; workflows need transactions, "
        "which objects with save and load do not have"
    )
    raise TypeError(message)


def service_settings(options: dict[str, Any]) -> dict[str, Any]:
    """Return all settings of a service, with those that were given.

    Raises:
        TypeError: A setting is unknown, or its value has a wrong type.
    """
    unknown = [name for name in options if name not in _SETTINGS]
    if unknown:
        message = f"unknown option {unknown[0]!r}; the options are {', '.join(_SETTINGS)}"
        raise TypeError(message)
    settings = {**_SETTINGS, **options}
    for name, value in settings.items():
        expected: Any = str if name == "profile" else int if name == "queue_depth" else (int, float)
        if not isinstance(value, expected) or isinstance(value, bool):
            kind = "a str" if name == "profile" else "an int" if name == "queue_depth" else "a number of seconds"
            message = f"{name} must be {kind}, not {type(value).__name__}"
            raise TypeError(message)
    if settings["queue_depth"] < 1:
        message = f"queue_depth must be at least 1, not {settings['queue_depth']}"
        raise ValueError(message)
    return settings


def _natives(workflows: tuple[Any, ...]) -> list[_core.WorkflowCore]:
    if not workflows:
        message = "there are no workflows to serve; pass at least one"
        raise TypeError(message)
    return [workflow_of(workflow)._native() for workflow in workflows]


def serve(
    *workflows: Workflow | type[Any],
    host: str = "127.0.0.1",
    port: int = 0,
    store: Store | str | None = None,
    auth: Authenticate | None = None,
    profile: Profile = "strict",
    idle_ttl: float = 86400,
    absolute_ttl: float = 604800,
    queue_depth: int = 64,
    task_timeout: float = 60,
) -> Server:
    """Make a server of workflows over HTTP, which runs inside ``async with`` and has a ``url``.

    Tasks run on the event loop that entered the server, those that are not async in threads. Each action is one
    transaction: if it fails, nothing has changed.

    Args:
        *workflows: The workflows, or classes that `workflow` has decorated.
        host: The address to listen on. Any other than the loopback interface needs `auth`.
        port: The port; 0 chooses a free one.
        store: Where sessions are stored: a store of `turntree.store` or its URL, of memory, SQLite or PostgreSQL.
            Default: the memory of this process.
        auth: A function of the bearer token, sync or async, that returns the principal: its id, or a dict with ``id``;
            None refuses the request with 401. Or a `JwtAuthenticator`. A session belongs to the principal who opened
            it.
        profile: "strict" follows the specification; "reference" answers as servers of version 0.4, for their clients.
            A request can choose with the header ``X-UAIP-Profile``.
        idle_ttl: How long a session is kept after its last action, in seconds.
        absolute_ttl: How long a session is kept after its creation, in seconds.
        queue_depth: How many actions of a session may wait for the one that runs.
        task_timeout: How long a task may run, in seconds. Tasks with a ``timeout`` have their own limit.

    Raises:
        DefinitionError: A workflow has an error.
        ValueError: A setting is invalid, two workflows have one name, or the store cannot store workflows.
    """
    return Server(
        _server(
            workflows,
            host,
            port,
            store,
            auth,
            {
                "profile": profile,
                "idle_ttl": idle_ttl,
                "absolute_ttl": absolute_ttl,
                "queue_depth": queue_depth,
                "task_timeout": task_timeout,
            },
        )
    )


def serve_sync(
    *workflows: Workflow | type[Any],
    host: str = "127.0.0.1",
    port: int = 0,
    store: Store | str | None = None,
    auth: Authenticate | None = None,
    profile: Profile = "strict",
    idle_ttl: float = 86400,
    absolute_ttl: float = 604800,
    queue_depth: int = 64,
    task_timeout: float = 60,
) -> SyncServer:
    """Like `serve`, for ``with``. Async tasks run on an event loop in another thread."""
    return SyncServer(
        _server(
            workflows,
            host,
            port,
            store,
            auth,
            {
                "profile": profile,
                "idle_ttl": idle_ttl,
                "absolute_ttl": absolute_ttl,
                "queue_depth": queue_depth,
                "task_timeout": task_timeout,
            },
        )
    )


def _server(
    workflows: tuple[Any, ...],
    host: str,
    port: int,
    store: Store | str | None,
    auth: Authenticate | None,
    options: dict[str, Any],
) -> _core.ServerCore:
    settings = service_settings(options)
    return _core.uaip_server(_natives(workflows), store_of(store)._native, settings, host, port, auth, None)


def asgi_app(
    *workflows: Workflow | type[Any],
    store: Store | str | None = None,
    auth: Authenticate | None = None,
    profile: Profile = "strict",
    idle_ttl: float = 86400,
    absolute_ttl: float = 604800,
    queue_depth: int = 64,
    task_timeout: float = 60,
) -> AsgiApplication:
    """Return an ASGI 3 application that answers as `serve`.

    Run it with uvicorn, hypercorn or granian, or mount it in FastAPI or Starlette.
    """
    settings = service_settings(
        {
            "profile": profile,
            "idle_ttl": idle_ttl,
            "absolute_ttl": absolute_ttl,
            "queue_depth": queue_depth,
            "task_timeout": task_timeout,
        }
    )
    return AsgiApplication(_core.uaip_asgi(_natives(workflows), store_of(store)._native, settings, auth))


def openapi(*workflows: Workflow | type[Any]) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of a server of workflows, as ``/openapi.json`` has it."""
    return _core.uaip_openapi(_natives(workflows))

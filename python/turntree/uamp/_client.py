"""Clients of agents on servers."""

from __future__ import annotations

import asyncio
import contextvars
import json
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, cast

from turntree import _core
from turntree._recipes import shown_url
from turntree._streams import BaseStream
from turntree._typing import Self
from turntree.upp._structure import structure_of
from turntree.upp._tools import Tool, as_tool


class Event(dict[str, Any]):
    """An event of a response: a dict with the members of the protocol."""

    @property
    def type(self) -> str:
        """The type, such as ``response.delta``."""
        return str(self.get("type", ""))

    @property
    def text(self) -> str:
        """The piece of text of a ``response.delta``; empty for other events."""
        delta = self.get("delta")
        if self.type != "response.delta" or not isinstance(delta, dict):
            return ""
        found = cast("dict[str, Any]", delta)
        return str(found.get("text", "")) if found.get("type") == "text" else ""


class Response(BaseStream[Event, dict[str, Any]]):
    """The events of a response, for ``async for``; awaited, the complete response. Created by `Session.run`.

    The events end with ``response.done`` or ``response.cancelled``. A response that fails raises `UampError`. Leaving
    the loop before the end cancels the response. A lost connection is made again, and no event is missing or repeated.
    """

    __slots__ = ("_last", "_running", "_session", "_tools")

    def __init__(
        self,
        session: _core.UampSessionCore,
        text: str,
        tools: dict[str, Tool[..., Any]],
        options: dict[str, Any] | None,
        response_format: dict[str, Any] | None,
    ) -> None:
        self._session = session
        self._tools = tools
        self._running: set[asyncio.Task[None]] = set()
        self._last: dict[str, Any] = {}
        super().__init__(_Native(session.run(text, options, response_format, self._receive)))

    def _outcome(self) -> Awaitable[dict[str, Any]]:
        return self._complete()

    async def _complete(self) -> dict[str, Any]:
        async for _ in self:
            pass
        return self._last

    async def text(self) -> str:
        """Wait for the end and return the text of the response."""
        return text_of(await self)

    def _receive(self, members: dict[str, Any]) -> Event:
        """Make the event, and start the tool that it calls. Called by the native stream on the event loop."""
        event = Event(members)
        if event.type == "tool.call":
            task = asyncio.get_running_loop().create_task(
                self._call(event["call_id"], event["name"], event["arguments"])
            )
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        self._last = _outcome_of(event) or self._last
        if event.type in {"response.done", "response.cancelled", "response.error"}:
            for task in self._running:
                task.cancel()
        return event

    async def _call(self, call_id: str, name: str, arguments: str) -> None:
        tool = self._tools.get(name)
        if tool is None:
            self._session.resolve(call_id, f"the client has no tool {name!r}", is_error=True)
            return
        try:
            given = json.loads(arguments or "{}")
            if tool._mode == "thread":
                result: Any = await asyncio.to_thread(tool._call, given)
            else:
                result = tool._call(given)
            if asyncio.iscoroutine(result):
                result = await cast("Awaitable[Any]", result)
            self._session.resolve(call_id, result, is_error=False)
        except Exception as error:
            self._session.resolve(call_id, f"{type(error).__name__}: {error}", is_error=True)


def _outcome_of(event: Event) -> dict[str, Any] | None:
    """The response, if the event is its end."""
    if event.type == "response.done":
        return event.get("response") or {}
    if event.type == "response.cancelled":
        output: list[Any] = event.get("partial_output") or []
        return {"id": event.get("response_id"), "status": "cancelled", "output": output}
    return None


class SyncResponse:
    """Like `Response`, for a loop with ``for``. Created by `SyncSession.run`.

    Tools of the client run in threads while the events are read.
    """

    def __init__(
        self,
        session: _core.UampSessionCore,
        text: str,
        tools: dict[str, Tool[..., Any]],
        options: dict[str, Any] | None,
        response_format: dict[str, Any] | None,
    ) -> None:
        """Ask for the response."""
        self._session = session
        self._tools = tools
        self._last: dict[str, Any] = {}
        self._events: Any = session.run(text, options, response_format, self._receive)
        self._iteration: Iterator[Event] | None = None

    def __repr__(self) -> str:
        """What to do with it."""
        return f"<{type(self).__name__}: read its events with for, or call result()>"

    def __iter__(self) -> Iterator[Event]:
        """Start a loop over the events. Leaving the loop before the end cancels the response."""
        return cast("Iterator[Event]", self._events.iterate_sync())

    def __next__(self) -> Event:
        """Return the next event."""
        if self._iteration is None:
            self._iteration = iter(self)
        return next(self._iteration)

    def result(self) -> dict[str, Any]:
        """Wait for the end and return the complete response.

        Raises:
            UampError: The response has failed.
        """
        for _ in self:
            pass
        return self._last

    def text(self) -> str:
        """Wait for the end and return the text of the response."""
        return text_of(self.result())

    def close(self) -> None:
        """Cancel the response if it has not ended."""
        self._events.close()

    def _receive(self, members: dict[str, Any]) -> Event:
        """Make the event, and start the tool that it calls."""
        event = Event(members)
        if event.type == "tool.call":
            called = (event["call_id"], event["name"], event["arguments"])
            context = contextvars.copy_context()
            threading.Thread(target=context.run, args=(self._call, *called), daemon=True).start()
        self._last = _outcome_of(event) or self._last
        return event

    def _call(self, call_id: str, name: str, arguments: str) -> None:
        tool = self._tools.get(name)
        if tool is None:
            self._session.resolve(call_id, f"the client has no tool {name!r}", is_error=True)
            return
        try:
            result: Any = tool._call(json.loads(arguments or "{}"))
            if asyncio.iscoroutine(result):
                result = asyncio.run(result)
            self._session.resolve(call_id, result, is_error=False)
        except Exception as error:
            self._session.resolve(call_id, f"{type(error).__name__}: {error}", is_error=True)


class _Native:
    """What the base class of streams needs of a native stream."""

    __slots__ = ("events",)

    def __init__(self, events: Any) -> None:
        self.events = events


class _AnySession:
    """What both kinds of sessions share."""

    def __init__(self, core: _core.UampSessionCore) -> None:
        """Take the native session."""
        self._core = core

    @property
    def id(self) -> str:
        """The id. The server continues the conversation under it."""
        return self._core.id

    @property
    def agent(self) -> str | None:
        """The name of the agent, if the server says it."""
        return self._core.agent

    def __repr__(self) -> str:
        """The class with the id and the agent."""
        return f"<turntree.uamp.{type(self).__name__} {self.id!r} with {self.agent!r}>"


class Session(_AnySession):
    """A conversation with an agent. Created by `Client.session`."""

    def run(
        self,
        text: str,
        *,
        tools: Iterable[Tool[..., Any] | Callable[..., Any]] = (),
        instructions: str | None = None,
        structure: Any = None,
    ) -> Response:
        """Ask for a response.

        A session has one response at a time. The history is on the server.

        Args:
            text: What the user says.
            tools: Tools that run here, when the agent calls them: functions or `Tool` objects, as for an agent. They
                run only while the events of the response are read.
            instructions: Added to the system prompt of the agent for this response.
            structure: The type of the output, as for an agent; the text of the response is then JSON.

        Raises:
            TypeError: An argument has the wrong type.
        """
        return Response(self._core, *_request(text, tools, instructions, structure))

    async def cancel(self) -> None:
        """Cancel the response. Its events end with ``response.cancelled``."""
        self._core.cancel()

    async def end(self) -> None:
        """End the session."""
        self._core.end()


class SyncSession(_AnySession):
    """Like `Session`, for callers without an event loop. Created by `SyncClient.session`."""

    def run(
        self,
        text: str,
        *,
        tools: Iterable[Tool[..., Any] | Callable[..., Any]] = (),
        instructions: str | None = None,
        structure: Any = None,
    ) -> SyncResponse:
        """Ask for a response; see `Session.run`."""
        return SyncResponse(self._core, *_request(text, tools, instructions, structure))

    def cancel(self) -> None:
        """Cancel the response. Its events end with ``response.cancelled``."""
        self._core.cancel()

    def end(self) -> None:
        """End the session."""
        self._core.end()


def _request(
    text: str,
    tools: Iterable[Tool[..., Any] | Callable[..., Any]],
    instructions: str | None,
    structure: Any,
) -> tuple[str, dict[str, Tool[..., Any]], dict[str, Any] | None, dict[str, Any] | None]:
    """The text, the tools, the options and the form of the output of a request for a response."""
    given: object = text
    if not isinstance(given, str):
        message = f"text must be a str, not {type(given).__name__}"
        raise TypeError(message)
    by_name = {tool.name: tool for tool in map(as_tool, tools)}
    for tool in by_name.values():
        if tool._takes_context:
            message = f"tool {tool.name!r} has a parameter ToolContext, which only tools of agents can have"
            raise TypeError(message)
    options: dict[str, Any] = {}
    if by_name:
        options["tools"] = [_definition(tool) for tool in by_name.values()]
    if instructions is not None:
        options["instructions"] = instructions
    schema, _ = structure_of(structure)
    form = None
    if schema is not None:
        form = {"type": "json_schema", "json_schema": {"name": "output", "schema": schema, "strict": True}}
    return text, by_name, options or None, form


class Client:
    """A connection to a server, for ``async with``. Created by `connect`."""

    def __init__(self, url: str, token: str | None, reconnect_for: float) -> None:
        """Take the address; `start` connects."""
        self._url, self._token, self._reconnect_for = url, token, reconnect_for
        self._core: _core.UampClientCore | None = None

    def __repr__(self) -> str:
        """The class with the address, without secrets."""
        return f"{type(self).__name__}({shown_url(self._url)!r})"

    async def start(self) -> None:
        """Connect. ``async with`` does it.

        Raises:
            UampError: The server cannot be reached, or it refuses the connection.
            ValueError: The URL is not one of a server.
        """
        connecting = _core.UampClientCore.connect(self._url, self._token, self._reconnect_for, blocking=False)
        self._core = await cast("Any", connecting)

    async def session(self, agent: str | None = None) -> Session:
        """Open a session.

        Args:
            agent: The name of the agent. Default: the only agent of the server, or that of the URL.

        Raises:
            UampError: The server refuses it, for example ``agent_not_found`` or ``unauthorized``.
            RuntimeError: The client is not connected.
        """
        if self._core is None:
            message = "the client is not connected; use it in `async with`"
            raise RuntimeError(message)
        return Session(await cast("Any", self._core.session(agent, blocking=False)))

    async def aclose(self) -> None:
        """Close the connection. Responses that run are cancelled on this side; conversations stay on the server."""
        if self._core is not None:
            await cast("Any", self._core.close(blocking=False))

    async def __aenter__(self) -> Self:
        """Connect."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the connection."""
        await self.aclose()


class SyncClient:
    """Like `Client`, for ``with``; its methods block. Created by `connect_sync`."""

    def __init__(self, url: str, token: str | None, reconnect_for: float) -> None:
        """Take the address; `start` connects."""
        self._url, self._token, self._reconnect_for = url, token, reconnect_for
        self._core: _core.UampClientCore | None = None

    def __repr__(self) -> str:
        """The class with the address, without secrets."""
        return f"{type(self).__name__}({shown_url(self._url)!r})"

    def start(self) -> None:
        """Connect; see `Client.start`. ``with`` does it."""
        core = _core.UampClientCore.connect(self._url, self._token, self._reconnect_for, blocking=True)
        self._core = cast("_core.UampClientCore", core)

    def session(self, agent: str | None = None) -> SyncSession:
        """Open a session; see `Client.session`."""
        if self._core is None:
            message = "the client is not connected; use it in `with`"
            raise RuntimeError(message)
        return SyncSession(cast("Any", self._core.session(agent, blocking=True)))

    def close(self) -> None:
        """Close the connection; see `Client.aclose`."""
        if self._core is not None:
            self._core.close(blocking=True)

    def __enter__(self) -> Self:
        """Connect."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()


def connect(url: str, token: str | None = None, *, reconnect_for: float = 60) -> Client:
    """Connect to agents by UAMP over WebSocket.

    A lost connection is made again, and running responses continue where they were: no event is lost or repeated.

    Args:
        url: The URL of a server or of one agent: ``http://``, ``https://``, ``ws://`` or ``wss://``.
        token: The bearer token.
        reconnect_for: How long, in seconds, a lost connection is made again before responses fail.
    """
    return Client(url, token, reconnect_for)


def connect_sync(url: str, token: str | None = None, *, reconnect_for: float = 60) -> SyncClient:
    """Like `connect`, for callers without an event loop."""
    return SyncClient(url, token, reconnect_for)


def verify(
    token: str,
    response: str | Mapping[str, Any],
    messages: Iterable[Mapping[str, Any]] | None,
    jwks: Mapping[str, Any],
) -> dict[str, Any]:
    """Check that a server has signed a response, and return the claims of the signature.

    Args:
        token: The ``signature`` of ``response.done``.
        response: The text of the response, or the response itself.
        messages: The messages of the request; None does not check them.
        jwks: The document at ``/.well-known/jwks.json`` of the server.

    Raises:
        ValueError: The signature does not prove the response; the message says why.
    """
    text = response if isinstance(response, str) else text_of(response)
    checked = None if messages is None else [dict(message) for message in messages]
    return _core.uamp_verify(token, text, checked, dict(jwks), int(time.time()))


def text_of(response: Mapping[str, Any]) -> str:
    """The text of a response: its text items, one after the other."""
    items = cast("list[dict[str, Any]]", response.get("output") or [])
    return "".join(str(item.get("text", "")) for item in items if item.get("type") == "text")


def _definition(tool: Tool[..., Any]) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}

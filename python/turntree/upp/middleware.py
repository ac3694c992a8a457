"""Middleware around the calls of a model: what comes with turntree, and what your own hooks see.

A middleware of your own is any object with some of these methods, sync or async (`on_stream_event` must be sync):

====================================================  ===========================================================
``on_start(context)``, ``on_request(context)``        the call begins; the request may be changed
``on_response(context)``, ``on_turn(turn, context)``  the answer is there, the turn is whole; in reverse order
``on_end(context)``                                   the call has succeeded; in reverse order
``on_error(error, context)``                          it has failed
``on_abort(error, context)``                          a stream was aborted, or left before its end
``on_stream_event(event, context)``                   gives the event, another, a list of events, or None
``on_stream_end(context)``                            no more events come
``on_tool_call(tool, params, context)``               the model wants a tool called
``on_tool_result(tool, result, context)``             a tool has answered
====================================================  ===========================================================

What a hook raises comes out of the call as the same object. Middleware of agents is another thing:
`turntree.middleware`.

Spec: UPP-1.2 §17.
"""

from __future__ import annotations

import logging as _logging
from typing import TYPE_CHECKING, Any, Protocol

from turntree._core import (
    CallContext,
    CallRequest,
    CallResponse,
    CallState,
    MemoryPubsub,
    Middleware,
)
from turntree._public_names import set_public_module as _set_public_module

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator

    from typing_extensions import Self

    from turntree import _core

    Logger = _logging.Logger | _logging.LoggerAdapter[Any] | Callable[[str, str, dict[str, Any]], object]

__all__ = [
    "CallContext",
    "CallRequest",
    "CallResponse",
    "CallState",
    "MemoryPubsub",
    "Middleware",
    "PersistenceAdapter",
    "Subscription",
    "SyncSubscription",
    "logging",
    "memory_pubsub",
    "parsed_object",
    "persistence",
    "pubsub",
    "subscribe",
    "subscribe_sync",
]

_LEVELS = {
    "debug": _logging.DEBUG,
    "info": _logging.INFO,
    "warning": _logging.WARNING,
    "error": _logging.ERROR,
}


class PersistenceAdapter(Protocol):
    """Where one conversation is kept: what `persistence` takes. Both methods may be async."""

    @property
    def id(self) -> str:
        """The conversation's name."""
        ...

    def load(self, id: str, /) -> Any:
        """Give the conversation: a `turntree.upp.Thread`, its dict, a list of messages, or None when there is none."""
        ...

    def save(self, id: str, thread: _core.Thread, /) -> Any:
        """Store the whole conversation in the place of what is there."""
        ...


def logging(
    level: str = "info",
    logger: Logger | None = None,
    *,
    prefix: str = "[turntree]",
    log_stream_events: bool = False,
    log_tool_calls: bool = True,
    log_contents: bool = False,
) -> Middleware:
    """Say what happens: when calls begin and end, how long they take, which tools are called.

    Args:
        level: Lines of less weight are not written: "debug", "info", "warning" or "error".
        logger: A logger of the standard library, or a function of level, message and data (a dict). The logger
            ``turntree`` when not given; data are then in the record's attribute ``turntree``.
        prefix: What every line starts with.
        log_stream_events: Log every event of streams, at "debug".
        log_tool_calls: Log which tools are called, at "info".
        log_contents: Put into the data what is said: messages, arguments, results, events. Keys are never logged.

    Raises:
        ValueError: An unknown level.
        TypeError: A logger that is neither.

    Spec: UPP-1.2 §17.
    """
    if logger is None:
        logger = _logging.getLogger("turntree")
    return Middleware.logging(
        level=level,
        logger=_writer(logger),
        prefix=prefix,
        log_stream_events=log_stream_events,
        log_tool_calls=log_tool_calls,
        log_contents=log_contents,
    )


def _writer(logger: Any) -> Callable[[str, str, dict[str, Any]], object]:
    log = getattr(logger, "log", None)
    if log is None:
        if not callable(logger):
            message = f"logger must be a logging.Logger or a function, not {type(logger).__name__}"
            raise TypeError(message)
        function: Callable[[str, str, dict[str, Any]], object] = logger
        return function

    def write(level: str, message: str, data: dict[str, Any]) -> None:
        log(_LEVELS[level], "%s", message, extra={"turntree": data})

    return write


def parsed_object(*, parse_objects: bool = True, parse_tool_calls: bool = True) -> Middleware:
    """Add what the JSON of a stream says so far: ``event.delta["parsed"]``.

    Args:
        parse_objects: Read structured answers, in events ``object_delta``.
        parse_tool_calls: Read arguments of tools, in events ``tool_call_delta``.

    Spec: UPP-1.2 §17.
    """
    return Middleware.parsed_object(parse_objects=parse_objects, parse_tool_calls=parse_tool_calls)


def persistence(adapter: PersistenceAdapter) -> Middleware:
    """Keep a conversation in a store: put what is stored before each request, and store each turn.

    Messages are told apart by their ids. Calls at once of one conversation are safe within one process.

    Args:
        adapter: An object with `id`, ``load(id)`` and ``save(id, thread)``, sync or async.

    Raises:
        TypeError: The adapter lacks one of the three. Of a call: `UPPError` when it cannot be loaded (nothing is sent
            then) or saved (``error.partial`` is the turn, and ``error.cause`` what the adapter raised).

    Spec: UPP-1.2 §17.
    """
    return Middleware.persistence(adapter)


def memory_pubsub(*, max_streams: int = 1000) -> MemoryPubsub:
    """Make a place for streams in the memory of this process, for `pubsub` and `subscribe`.

    Each event is held once, however many subscribe. Streams that are over are kept, to be replayed, until more than
    `max_streams` are held; then those that ended first are let go. A stream that runs is never let go.

    Args:
        max_streams: How many streams are kept; 0 keeps none after its end.
    """
    return MemoryPubsub(max_streams=max_streams)


_default_pubsub: MemoryPubsub | None = None


def _adapter(adapter: MemoryPubsub | None) -> MemoryPubsub:
    global _default_pubsub
    if adapter is not None:
        return adapter
    if _default_pubsub is None:
        _default_pubsub = memory_pubsub()
    return _default_pubsub


def pubsub(adapter: MemoryPubsub | None = None, *, stream_id: str | None = None) -> Middleware:
    """Publish streams, so that others may read them too, at any time and from their start.

    Put it last: what it publishes is what the middlewares before it left. When the first reader aborts the stream or
    leaves it, the call stops, and subscribers get what had come and then `UPPError` CANCELLED.

    Args:
        adapter: Where to publish; one place of this process when not given.
        stream_id: The stream's name. When not given, each call takes the one that a middleware before this one put
            under ``context.state["pubsub:streamId"]``, else a fresh one, which is then found there.

    Raises:
        UPPError: Of a call: INVALID_REQUEST, while another stream of this name runs.

    Spec: UPP-1.2 §17.
    """
    return Middleware.pubsub(_adapter(adapter), stream_id)


def subscribe(stream_id: str, adapter: MemoryPubsub | None = None) -> Subscription:
    """Read a published stream: from its start, then what comes. From any task, event loop or thread.

    A stream that has not begun is waited for. Leaving the iteration stops nobody else, and not the call.

    Args:
        stream_id: The stream's name.
        adapter: Where it is published; one place of this process when not given.
    """
    return Subscription(_adapter(adapter)._subscribe(stream_id))  # pyright: ignore[reportPrivateUsage]


def subscribe_sync(stream_id: str, adapter: MemoryPubsub | None = None) -> SyncSubscription:
    """Read a published stream without an event loop, with ``for``.

    Args:
        stream_id: As `subscribe`.
        adapter: As `subscribe`.
    """
    return SyncSubscription(_adapter(adapter)._subscribe(stream_id))  # pyright: ignore[reportPrivateUsage]


class Subscription:
    """A published stream as it is read: an async iterator of events, and the turn.

    Ends when the stream ends; raises the stream's `UPPError` when it failed.

    Spec: UPP-1.2 §17.
    """

    __slots__ = ("__weakref__", "_native")

    def __init__(self, native: _core.SubscriptionCore) -> None:
        self._native = native

    def __aiter__(self) -> AsyncIterator[_core.StreamEvent]:
        """Give the events."""
        return self._native.events

    async def __anext__(self) -> _core.StreamEvent:
        """Give the next event."""
        return await self._native.events.__anext__()

    @property
    def turn(self) -> Awaitable[_core.Turn | None]:
        """The turn: ``await subscription.turn``; None where no language model was called. Takes no event away."""
        return _Turn(self._native)

    def __await__(self) -> Generator[Any, Any, _core.Turn | None]:
        """Give the turn."""
        return self.turn.__await__()

    async def aclose(self) -> None:
        """Leave the stream."""
        await self._native.events.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.aclose()


class _Turn:
    """An awaitable that may be awaited again."""

    __slots__ = ("_native",)

    def __init__(self, native: _core.SubscriptionCore) -> None:
        self._native = native

    def __await__(self) -> Generator[Any, Any, _core.Turn | None]:
        return self._native.turn().__await__()


class SyncSubscription:
    """A published stream as it is read without an event loop: an iterator of events, and the turn."""

    __slots__ = ("__weakref__", "_events", "_native")

    def __init__(self, native: _core.SubscriptionCore) -> None:
        self._native = native
        self._events: Iterator[_core.StreamEvent] = native.blocking()

    def __iter__(self) -> Iterator[_core.StreamEvent]:
        """Give the events."""
        return self._events

    def __next__(self) -> _core.StreamEvent:
        """Give the next event."""
        return next(self._events)

    @property
    def turn(self) -> _core.Turn | None:
        """The turn, waited for; None where no language model was called."""
        turn: _core.Turn | None = self._native.turn_sync()
        return turn

    def close(self) -> None:
        """Leave the stream."""
        self._native.events.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


_set_public_module(__name__, globals())

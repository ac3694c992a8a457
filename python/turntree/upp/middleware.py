"""Middleware for model calls: the built-in middlewares, and the interface of your own.

Your own middleware is any object with some of these methods, sync or async (`on_stream_event` must be sync):

====================================================  ===========================================================
``on_start(context)``, ``on_request(context)``        called at the start of the call; may change the request
``on_response(context)``, ``on_turn(turn, context)``  called after a response and with the turn, in reverse order
``on_end(context)``                                   called if the call succeeds, in reverse order
``on_error(error, context)``                          called if the call fails
``on_abort(error, context)``                          called if a stream is aborted or closed before its end
``on_stream_event(event, context)``                   returns the event, another one, a list of events, or None
``on_stream_end(context)``                            called after the last event
``on_tool_call(tool, params, context)``               called when the model requests a tool
``on_tool_result(tool, result, context)``             called after a tool
====================================================  ===========================================================

If a hook raises an exception, the call raises the same exception object. For middleware of agents, see
`turntree.middleware`.

Spec: UPP-1.2 §17.
"""

from __future__ import annotations

import logging as _logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

from turntree import _core
from turntree._core import (
    CallContext,
    CallRequest,
    CallResponse,
    CallState,
    MemoryPubsub,
    Middleware,
)
from turntree._public_names import set_public_module as _set_public_module
from turntree._streams import BaseStream as _BaseStream
from turntree._streams import BaseSyncStream as _BaseSyncStream
from turntree._streams import RepeatableAwaitable as _RepeatableAwaitable

if TYPE_CHECKING:
    _Adapter = _logging.LoggerAdapter[Any]
else:
    _Adapter = _logging.LoggerAdapter  # Python 3.10 cannot subscript it.

Logger = _logging.Logger | _Adapter | Callable[[str, str, dict[str, Any]], object]

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
    """The store of one conversation, for `persistence`. Both methods may be sync or async."""

    @property
    def id(self) -> str:
        """The id of the conversation."""
        ...

    def load(self, id: str, /) -> Any:
        """Return the conversation: a `turntree.upp.Thread`, its dict or a list of messages; None if there is none."""
        ...

    def save(self, id: str, thread: _core.Thread, /) -> Any:
        """Store the whole conversation. Replaces the stored one."""
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
    """Log model calls: start, end, duration and tool calls.

    Args:
        level: The minimum level: "debug", "info", "warning" or "error".
        logger: A `logging.Logger`, or a function of the level, the message and the data (a dict). A logger gets the
            data in the attribute ``turntree`` of the record. Default: the logger ``turntree``.
        prefix: The prefix of each message.
        log_stream_events: Log each event of a stream, at "debug".
        log_tool_calls: Log each tool call, at "info".
        log_contents: Include messages, arguments, results and events in the data. Keys are never logged.

    Raises:
        ValueError: The level is unknown.
        TypeError: `logger` is neither a logger nor a function.

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
    """Parse the partial JSON of a stream and add the value to its events: ``event.delta["parsed"]``.

    Args:
        parse_objects: Parse structured answers, in events ``object_delta``.
        parse_tool_calls: Parse the arguments of tool calls, in events ``tool_call_delta``.

    Spec: UPP-1.2 §17.
    """
    return Middleware.parsed_object(parse_objects=parse_objects, parse_tool_calls=parse_tool_calls)


def persistence(adapter: PersistenceAdapter) -> Middleware:
    """Save a conversation in a store: add the stored messages before each request, and store each turn.

    Messages are identified by their ids. Concurrent calls of one conversation are safe within one process.

    Args:
        adapter: An object with `id`, ``load(id)`` and ``save(id, thread)``, sync or async.

    Raises:
        TypeError: The adapter does not have all three.
        UPPError: Raised by a call if loading fails (then no request is sent) or saving fails (``error.partial`` is the
            turn). ``error.cause`` is the adapter's exception.

    Spec: UPP-1.2 §17.
    """
    return Middleware.persistence(adapter)


def memory_pubsub(*, max_streams: int = 1000) -> MemoryPubsub:
    """Create a channel in the memory of this process, for `pubsub` and `subscribe`.

    All subscribers share the events. Finished streams stay in memory, so that they can be read again, until there are
    more than `max_streams`; then those that finished first are removed. Active streams are never removed.

    Args:
        max_streams: The maximum number of streams in memory; 0 removes each stream when it ends.
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
    """Publish the events of streams. Subscribers may read them at any time, from their start.

    Put this middleware last: it publishes the events that the other middlewares return. If the caller aborts or closes
    the stream, the call stops; subscribers receive the events so far, and then `UPPError` CANCELLED.

    Args:
        adapter: The channel. Default: one channel for this process.
        stream_id: The id of the stream. Default: the id that an earlier middleware stored in
            ``context.state["pubsub:streamId"]``, else a new id, which is stored there.

    Raises:
        UPPError: INVALID_REQUEST, raised by a call: a stream with this id is active.

    Spec: UPP-1.2 §17.
    """
    return Middleware.pubsub(_adapter(adapter), stream_id)


def subscribe(stream_id: str, adapter: MemoryPubsub | None = None) -> Subscription:
    """Read a published stream from its start, in any task, event loop or thread.

    Waits for the stream if it has not started. Stopping the iteration affects neither other subscribers nor the call.

    Args:
        stream_id: The id of the stream.
        adapter: The channel. Default: the channel of this process.
    """
    return Subscription(_adapter(adapter)._subscribe(stream_id))  # pyright: ignore[reportPrivateUsage]


def subscribe_sync(stream_id: str, adapter: MemoryPubsub | None = None) -> SyncSubscription:
    """Like `subscribe`, but without an event loop: for a ``for`` loop.

    Args:
        stream_id: As `subscribe`.
        adapter: As `subscribe`.
    """
    return SyncSubscription(_adapter(adapter)._subscribe(stream_id))  # pyright: ignore[reportPrivateUsage]


class Subscription(_BaseStream["_core.StreamEvent", "_core.Turn | None"]):
    """A subscription to a published stream: an async iterator of events, and the turn.

    The iteration ends with the stream. If the stream failed, it raises the stream's `UPPError`.

    Spec: UPP-1.2 §17.
    """

    __slots__ = ()

    _native: _core.SubscriptionCore

    def _outcome(self) -> Awaitable[_core.Turn | None]:
        return self._native.turn()

    @property
    def turn(self) -> Awaitable[_core.Turn | None]:
        """The turn: ``await subscription.turn``. None if the call has no turn. Does not consume events."""
        return _RepeatableAwaitable(self._outcome)

    async def aclose(self) -> None:
        """End the subscription. The stream continues."""
        await super().aclose()


class SyncSubscription(_BaseSyncStream["_core.StreamEvent"]):
    """A subscription to a published stream without an event loop: an iterator of events, and the turn."""

    __slots__ = ()

    _native: _core.SubscriptionCore

    @property
    def turn(self) -> _core.Turn | None:
        """The turn; None if the call has no turn. Blocks until the stream ends."""
        turn: _core.Turn | None = self._native.turn_sync()
        return turn

    def close(self) -> None:
        """End the subscription. The stream continues."""
        super().close()


_set_public_module(__name__, globals())

"""The common base of all streams: iteration over events, awaiting the result, closing.

Subclasses: `turntree.AgentStream`, `turntree.upp.StreamResult`, and the streams of embeddings and images.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from types import TracebackType
from typing import Any, Generic, NoReturn, TypeVar

from turntree import _core
from turntree._core import AgentStreamCore
from turntree._typing import Self

EventT = TypeVar("EventT")
ResultT = TypeVar("ResultT")
ItemT = TypeVar("ItemT")


class RepeatableAwaitable(Generic[ResultT]):
    """An awaitable that can be awaited several times. Each time it asks the stream for its result."""

    __slots__ = ("_start",)

    def __init__(self, start: Callable[[], Awaitable[ResultT]]) -> None:
        self._start = start

    def __await__(self) -> Generator[Any, Any, ResultT]:
        return self._start().__await__()

    def __repr__(self) -> str:
        return "<the turn of a stream: await it>"

    def __getattr__(self, name: str) -> NoReturn:
        """Explain a missing ``await``."""
        hint = "" if name.startswith("_") else f": await it first, as (await stream.turn).{name}"
        message = f"the turn of a stream has no attribute '{name}'{hint}"
        raise AttributeError(message)


class LoopIterator(Generic[ItemT]):
    """Items of a stream. Leaving a loop over them stops the work, also while a variable holds this object.

    Each loop has an iterator of its own, which only the loop holds: dropping that before the end stops the work.
    """

    __slots__ = ("_own", "_start")

    def __init__(self, start: Callable[[], AsyncIterator[ItemT]]) -> None:
        self._start = start
        self._own: AsyncIterator[ItemT] | None = None

    def __aiter__(self) -> AsyncIterator[ItemT]:
        return self._start()

    def __anext__(self) -> Awaitable[ItemT]:
        if self._own is None:
            self._own = self._start()
        return self._own.__anext__()

    def __repr__(self) -> str:
        return "<items of a stream: read them with async for>"


class SyncLoopIterator(Generic[ItemT]):
    """`LoopIterator` without an event loop."""

    __slots__ = ("_own", "_start")

    def __init__(self, start: Callable[[], Iterator[ItemT]]) -> None:
        self._start = start
        self._own: Iterator[ItemT] | None = None

    def __iter__(self) -> Iterator[ItemT]:
        return self._start()

    def __next__(self) -> ItemT:
        if self._own is None:
            self._own = self._start()
        return next(self._own)

    def __repr__(self) -> str:
        return "<items of a stream: read them with for>"


class TextLoop:
    """The pieces of text of one loop over a stream. Dropping it before the end stops the work."""

    __slots__ = ("_events",)

    def __init__(self, events: AsyncIterator[Any]) -> None:
        self._events = events

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        async for event in self._events:
            if text := _text_of(event):
                return text
        raise StopAsyncIteration


def sync_texts(events: Iterator[Any]) -> Iterator[str]:
    """Return the pieces of text of one loop. Dropping this before the end stops the work.

    Iterators of C, which have no frames: Ctrl-C may arrive between two pieces, and its traceback, which notebooks keep,
    would keep the frame of a Python iterator and with it the work.
    """
    return filter(None, map(_text_of, events))


def _text_of(event: Any) -> str:
    """The text of an event of a model; empty for others, and for those of sub-agents."""
    if getattr(event, "sub_agent", None) is not None:
        return ""
    delta = getattr(event, "upp", event)
    if delta is None or delta.type != "text_delta":
        return ""
    text: str = delta.delta["text"]
    return text


class BaseStream(Generic[EventT, ResultT]):
    """An async iterator of events that can be awaited for its result and closed."""

    __slots__ = ("__weakref__", "_native")

    _native: Any

    def __init__(self, native: Any) -> None:
        self._native = native

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: read its events with async for, or await its result>"

    def _outcome(self) -> Awaitable[ResultT]:
        raise NotImplementedError

    def _loop(self, items: AsyncIterator[ItemT]) -> AsyncIterator[ItemT]:
        """Return the iterator of a loop over the native items. Subclasses may wrap it."""
        return items

    def __aiter__(self) -> AsyncIterator[EventT]:
        """Start a loop over the events. Leaving the loop before the end stops the work.

        Events that are ready are returned without a trip through the event loop.
        """
        return self._loop(self._native.events.iterate())

    def __iter__(self) -> NoReturn:
        """Raise TypeError: the stream is asynchronous."""
        message = "this stream is asynchronous: write `async for`, or use stream_sync() for a loop with `for`"
        raise TypeError(message)

    async def __anext__(self) -> EventT:
        """Return the next event."""
        event: EventT = await self._native.events.__anext__()
        return event

    def __await__(self) -> Generator[Any, Any, ResultT]:
        """Return the result."""
        return self._outcome().__await__()

    async def aclose(self) -> None:
        """Stop the work, release its connection and wait until cancelled functions have ended."""
        await self._native.events.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


class BaseSyncStream(Generic[EventT]):
    """An iterator of events without an event loop, which can be closed."""

    __slots__ = ("__weakref__", "_events", "_native")

    _native: Any

    def __init__(self, native: Any) -> None:
        self._native = native
        self._events: Iterator[EventT] = native.blocking()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: read its events with for>"

    def __iter__(self) -> Iterator[EventT]:
        """Start a loop over the events. Leaving the loop before the end stops the work."""
        return self._loop(self._native.events.iterate_sync())

    def _loop(self, items: Iterator[ItemT]) -> Iterator[ItemT]:
        """Return the iterator of a loop over the native items. Subclasses may wrap it."""
        return items

    def __aiter__(self) -> NoReturn:
        """Raise TypeError: the stream is synchronous."""
        message = "this stream is synchronous: write `for`, or use stream() for a loop with `async for`"
        raise TypeError(message)

    def __next__(self) -> EventT:
        """Return the next event."""
        return next(self._events)

    def close(self) -> None:
        """Stop the work, release its connection and wait until cancelled functions have ended."""
        self._native.events.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class TurnStream(BaseStream[EventT, "_core.Turn"]):
    """A stream whose result is a turn."""

    __slots__ = ()

    _native: AgentStreamCore[EventT]

    def batches(self, limit: int = 256) -> AsyncIterator[list[EventT]]:
        """Iterate over lists of all events that are ready, up to `limit`. For consumers of many events."""
        return LoopIterator(lambda: self._loop(self._native.events.batches(limit)))

    def text(self) -> AsyncIterator[str]:
        """Iterate over the pieces of the answer's text: ``async for text in stream.text()``.

        Reasoning, tools, structured output and sub-agents are left out. Leaving the loop early stops the work.
        """
        events = self._native.events
        return LoopIterator(lambda: TextLoop(self._loop(events.iterate())))

    @property
    def partial(self) -> Any:
        """The structured answer so far as plain data, from the events that were read. None before the first data."""
        return self._native.partial

    def _outcome(self) -> Awaitable[_core.Turn]:
        return self._native.turn()


class SyncTurnStream(BaseSyncStream[EventT]):
    """A stream without an event loop whose result is a turn."""

    __slots__ = ()

    _native: AgentStreamCore[EventT]

    def text(self) -> Iterator[str]:
        """Iterate over the pieces of the answer's text. Leaving the loop early stops the work."""
        events = self._native.events
        return SyncLoopIterator(lambda: sync_texts(self._loop(events.iterate_sync())))

    @property
    def partial(self) -> Any:
        """The structured answer so far as plain data, from the events that were read. None before the first data."""
        return self._native.partial

    @property
    def turn(self) -> _core.Turn:
        """The turn. Runs to the end if the run is not over."""
        return self._native.turn_sync()

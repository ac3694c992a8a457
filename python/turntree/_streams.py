"""The common base of all streams: iteration over events, awaiting the result, closing.

Subclasses: `turntree.AgentStream`, `turntree.upp.StreamResult`, and the streams of embeddings and images.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
    from types import TracebackType

    from typing_extensions import Self

    from turntree import _core
    from turntree._core import AgentStreamCore

EventT = TypeVar("EventT")
ResultT = TypeVar("ResultT")


class RepeatableAwaitable(Generic[ResultT]):
    """An awaitable that can be awaited several times. Each time it asks the stream for its result."""

    __slots__ = ("_start",)

    def __init__(self, start: Callable[[], Awaitable[ResultT]]) -> None:
        self._start = start

    def __await__(self) -> Generator[Any, Any, ResultT]:
        return self._start().__await__()


class BaseStream(Generic[EventT, ResultT]):
    """An async iterator of events that can be awaited for its result and closed."""

    __slots__ = ("__weakref__", "_native")

    _native: Any

    def __init__(self, native: Any) -> None:
        self._native = native

    def _outcome(self) -> Awaitable[ResultT]:
        raise NotImplementedError

    def __aiter__(self) -> AsyncIterator[EventT]:
        """Return the events. Events that are ready are returned without a trip through the event loop."""
        events: AsyncIterator[EventT] = self._native.events
        return events

    async def __anext__(self) -> EventT:
        """Return the next event."""
        event: EventT = await self._native.events.__anext__()
        return event

    def __await__(self) -> Generator[Any, Any, ResultT]:
        """Return the result."""
        return self._outcome().__await__()

    async def aclose(self) -> None:
        """Stop the work and release its connection."""
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

    def __iter__(self) -> Iterator[EventT]:
        """Return the events."""
        return self._events

    def __next__(self) -> EventT:
        """Return the next event."""
        return next(self._events)

    def close(self) -> None:
        """Stop the work and release its connection."""
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
        return self._native.events.batches(limit)

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

    @property
    def partial(self) -> Any:
        """The structured answer so far as plain data, from the events that were read. None before the first data."""
        return self._native.partial

    @property
    def turn(self) -> _core.Turn:
        """The turn. Runs to the end if the run is not over."""
        return self._native.turn_sync()

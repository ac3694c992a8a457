"""Streams that end with a result: what embeddings and images have in common. UPP-1.2 §15 and §16."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator
    from types import TracebackType

    from typing_extensions import Self

    from turntree._core import ResultStreamCore

EventT = TypeVar("EventT")
ResultT = TypeVar("ResultT")


class ResultStream(Generic[EventT, ResultT]):
    """Work that is listened to: an async iterator of events, and the result.

    Nothing is sent before the first event or the result is awaited. Use it as ``async with`` to stop the work when you
    leave early.
    """

    __slots__ = ("__weakref__", "_native")

    def __init__(self, native: ResultStreamCore[EventT, ResultT]) -> None:
        self._native = native

    def __aiter__(self) -> AsyncIterator[EventT]:
        """Give the events."""
        return self._native.events

    async def __anext__(self) -> EventT:
        """Give the next event."""
        return await self._native.events.__anext__()

    @property
    def result(self) -> Result[EventT, ResultT]:
        """The result: ``await stream.result``. The work goes on while it is awaited, whether or not events are read.

        Awaiting it again gives the same result. Raises `UPPError`; CANCELLED for an aborted or closed stream.
        """
        return Result(self._native)

    def __await__(self) -> Generator[Any, Any, ResultT]:
        """Give the result."""
        return self.result.__await__()

    def abort(self) -> None:
        """Stop the work: iteration and `result` raise `UPPError` CANCELLED. No effect when it is over."""
        self._native.abort()

    async def aclose(self) -> None:
        """Drop the work and everything behind it."""
        await self._native.events.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


class Result(Generic[EventT, ResultT]):
    """An awaitable that may be awaited again: each time it asks the stream for its result."""

    __slots__ = ("_native",)

    def __init__(self, native: ResultStreamCore[EventT, ResultT]) -> None:
        self._native = native

    def __await__(self) -> Generator[Any, Any, ResultT]:
        return self._native.result().__await__()


class SyncResultStream(Generic[EventT, ResultT]):
    """Work that is listened to without an event loop: an iterator of events, and the result.

    Use it as ``with`` to stop the work when you leave early.
    """

    __slots__ = ("__weakref__", "_events", "_native")

    def __init__(self, native: ResultStreamCore[EventT, ResultT]) -> None:
        self._native = native
        self._events: Iterator[EventT] = native.blocking()

    def __iter__(self) -> Iterator[EventT]:
        """Give the events."""
        return self._events

    def __next__(self) -> EventT:
        """Give the next event."""
        return next(self._events)

    @property
    def result(self) -> ResultT:
        """The result; works to the end if it is not over. Raises `UPPError`."""
        result: ResultT = self._native.result_sync()
        return result

    def abort(self) -> None:
        """Stop the work: iteration and `result` raise `UPPError` CANCELLED. No effect when it is over."""
        self._native.abort()

    def close(self) -> None:
        """Drop the work and everything behind it."""
        self._native.events.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

"""Coroutines, event streams and result streams of the core."""

import collections.abc
from collections.abc import AsyncIterator, Awaitable, Iterator
from types import TracebackType
from typing import Any, Generic, TypeVar, final, type_check_only

from typing_extensions import Self

_T_co = TypeVar("_T_co", covariant=True)

@final
@type_check_only
class Coroutine(collections.abc.Coroutine[Any, Any, _T_co]):
    """A native coroutine for ``await``, ``create_task``, ``gather``, ``wait_for``, task groups and ``asyncio.run``.

    If its task is cancelled, the Rust future is dropped before the task continues.
    """

    __name__: str
    __qualname__: str
    @property
    def cr_running(self) -> bool:
        """True while it is polled."""

    def __await__(self) -> collections.abc.Generator[Any, Any, _T_co]: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Any: ...
    def send(self, _value: object) -> Any:
        """Polls once: returns a future for the event loop, or raises `StopIteration` with the result."""

    def throw(
        self,
        kind: type[BaseException] | BaseException,
        value: BaseException | object = None,
        traceback: TracebackType | None = None,
    ) -> Any:
        """Stops waiting and raises the exception, after cancelled functions have ended."""

    def close(self) -> None:
        """Stops the Rust future."""

@final
@type_check_only
class _NextEvents(Awaitable[_T_co]):
    """The awaitable of `__anext__`. It can be awaited repeatedly."""

    def __await__(self) -> collections.abc.Generator[Any, Any, _T_co]: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Any: ...
    def send(self, _value: object) -> Any:
        """Polls once: returns a future for the event loop, or raises `StopIteration` with the result."""

    def throw(
        self,
        kind: type[BaseException] | BaseException,
        value: BaseException | object = None,
        traceback: TracebackType | None = None,
    ) -> Any:
        """Stops waiting and raises the exception, after cancelled functions have ended."""

    def close(self) -> None:
        """Stops waiting."""

@final
@type_check_only
class _EventIteration(AsyncIterator[_T_co]):
    """The asynchronous iterator of one loop over a stream. Dropping it before the end stops the source."""

    def __aiter__(self) -> Self: ...
    def __anext__(self) -> _NextEvents[_T_co]: ...

@final
@type_check_only
class _SyncEventIteration(Iterator[_T_co]):
    """The iterator of one loop on the calling thread. Dropping it before the end stops the source."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> _T_co: ...

@final
@type_check_only
class EventStream(AsyncIterator[_T_co]):
    """An asynchronous iterator of events, for one reader at a time.

    Events that are ready are returned without a trip through the event loop. A cancelled ``anext`` loses no event.
    Closing or dropping the stream stops its source. A second reader gets a ``RuntimeError``.
    """

    def __aiter__(self) -> Self: ...
    def __anext__(self) -> _NextEvents[_T_co]: ...
    def iterate(self) -> _EventIteration[_T_co]:
        """Return the iterator of one loop over the events. Dropping it before the end stops the source."""

    def iterate_sync(self) -> _SyncEventIteration[_T_co]:
        """Return the iterator of one loop on this thread. Dropping it before the end stops the source."""

    def batches(self, limit: int = 256) -> _EventIteration[list[_T_co]]:
        """Return the iterator of one loop over lists of the events that are ready.

        Args:
            limit: The maximum number of events in a list, above 0.
        """

    def close(self) -> None:
        """Stops the source and waits on this thread until it has ended. Readers see the end of the stream."""

    def aclose(self) -> Coroutine[None]:
        """A coroutine that stops the source and waits until it has ended."""

    def __aenter__(self) -> Coroutine[Self]: ...
    def __aexit__(self, *_exception: object) -> Coroutine[None]: ...

@final
@type_check_only
class BlockingEvents(Iterator[_T_co]):
    """Synchronous iterator of events. The calling thread drives the source and releases the GIL while it waits."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> _T_co: ...
    def close(self) -> None:
        """Stops the source and waits on this thread until it has ended."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_exception: object) -> None: ...

_EventT = TypeVar("_EventT")

_ResultT = TypeVar("_ResultT")

@final
class ResultStreamCore(Generic[_EventT, _ResultT]):
    """The native half of streams with a result."""

    @classmethod
    def __class_getitem__(cls, item: Any, /) -> Any:
        """Return an annotation with the types of the events and the result, for type checkers."""

    @property
    def events(self) -> EventStream[_EventT]:
        """The asynchronous iterator over events; always the same object."""

    def blocking(self) -> BlockingEvents[_EventT]:
        """Return the synchronous iterator over the same events."""

    def result(self) -> Coroutine[_ResultT]:
        """A coroutine that returns the result. It drives the stream while it is awaited."""

    def result_sync(self) -> _ResultT:
        """Blocks until the result is there and returns it."""

    def abort(self) -> None:
        """Aborts the call, which ends with CANCELLED."""

"""Streams that end with a result other than a turn: the common base of embedding and image streams.

Spec: UPP-1.2 §15, §16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from turntree._streams import BaseStream, BaseSyncStream, EventT, RepeatableAwaitable, ResultT

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from turntree._core import ResultStreamCore


class ResultStream(BaseStream[EventT, ResultT]):
    """A call that streams progress: an async iterator of events, and the result.

    The request is sent when the first event or the result is awaited. Use ``async with`` to stop the call when you
    leave the block early.
    """

    __slots__ = ()

    _native: ResultStreamCore[EventT, ResultT]

    def _outcome(self) -> Awaitable[ResultT]:
        return self._native.result()

    @property
    def result(self) -> RepeatableAwaitable[ResultT]:
        """The result: ``await stream.result``. The call continues while it is awaited, whether or not events are read.

        Awaiting it again returns the same result. Raises `UPPError`; CANCELLED for an aborted or closed stream.
        """
        return RepeatableAwaitable(self._outcome)

    def abort(self) -> None:
        """Stop the call: iteration and `result` raise `UPPError` CANCELLED. No effect if the call is over."""
        self._native.abort()


class SyncResultStream(BaseSyncStream[EventT], Generic[EventT, ResultT]):
    """A call that streams progress without an event loop: an iterator of events, and the result.

    Use ``with`` to stop the call when you leave the block early.
    """

    __slots__ = ()

    _native: ResultStreamCore[EventT, ResultT]

    @property
    def result(self) -> ResultT:
        """The result. Runs to the end if the call is not over. Raises `UPPError`."""
        result: ResultT = self._native.result_sync()
        return result

    def abort(self) -> None:
        """Stop the call: iteration and `result` raise `UPPError` CANCELLED. No effect if the call is over."""
        self._native.abort()

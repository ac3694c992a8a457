"""Streams of the events of an agent's run."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Generic

from turntree import _core
from turntree._generics import DataT
from turntree._streams import RepeatableAwaitable, SyncTurnStream, TurnStream
from turntree.exceptions import ApprovalRequired

if TYPE_CHECKING:
    from turntree._session import Session


class AgentStream(TurnStream[_core.AgentStreamEvent], Generic[DataT]):
    """A streamed run: an async iterator of events, and the turn.

    Leaving a loop over it early (``break``, an exception, a timeout, a cancellation) stops the run: the request is
    closed, the tools are cancelled, and the turn raises CANCELLED. A session can then start its next run or `resume`
    this one. ``await stream.aclose()`` and ``async with`` also wait until the cancelled tools have ended.
    ``anext(stream)`` reads one event and does not stop the run.

    Spec: UAP-1.0 §12.
    """

    __slots__ = ("_session",)

    def __init__(
        self, native: _core.AgentStreamCore[_core.AgentStreamEvent], session: Session[Any, Any] | None = None
    ) -> None:
        super().__init__(native)
        self._session = session

    if TYPE_CHECKING:

        def __await__(self) -> Generator[Any, Any, _core.Turn[DataT]]: ...

    async def _outcome(self) -> _core.Turn[DataT]:
        try:
            return await self._native.turn()
        except ApprovalRequired as required:
            required.session = self._session
            raise

    @property
    def turn(self) -> RepeatableAwaitable[_core.Turn[DataT]]:
        """The turn: ``await stream.turn``. The run continues while it is awaited, whether or not events are read.

        Awaiting it again returns the same turn. Raises `UPPError` as `Agent.run`; CANCELLED for a closed stream. If a
        run of a session waits for approvals, the stream ends normally and this raises `ApprovalRequired`.
        """
        return RepeatableAwaitable(self._outcome)

    def abort(self) -> None:
        """Stop the run: iteration ends, and the turn is partial, marked ``metadata["uap"]["aborted"]``.

        The request is closed and the tools are cancelled immediately. `turn` returns after the tools have ended.
        """
        self._native.abort()


class SyncAgentStream(SyncTurnStream[_core.AgentStreamEvent], Generic[DataT]):
    """A streamed run without an event loop: an iterator of events, and the turn.

    Leaving a loop over it early stops the run, as with `AgentStream`, and waits until cancelled tools have ended.
    """

    __slots__ = ("_session",)

    def __init__(
        self, native: _core.AgentStreamCore[_core.AgentStreamEvent], session: Session[Any, Any] | None = None
    ) -> None:
        super().__init__(native)
        self._session = session

    @property
    def turn(self) -> _core.Turn[DataT]:
        """The turn. Runs to the end if the run is not over."""
        try:
            return self._native.turn_sync()
        except ApprovalRequired as required:
            required.session = self._session
            raise

    def abort(self) -> None:
        """Stop the run: iteration ends, and the turn is partial."""
        self._native.abort()

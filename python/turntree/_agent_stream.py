"""Streams of the events of an agent's run."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from turntree import _core
from turntree._generics import DataT
from turntree._public_names import LateClass, explain_attributes, publish
from turntree._session_state import SessionState
from turntree._streams import RepeatableAwaitable, SyncTurnStream, TurnStream
from turntree.exceptions import ApprovalRequired

if TYPE_CHECKING:
    from turntree._session import Session
else:
    Session = LateClass("turntree._session", "Session")

ItemT = TypeVar("ItemT")


def _frame(name: str, data: str) -> bytes:
    """Return a server-sent event. The data is JSON, which has no line breaks."""
    return f"event: {name}\ndata: {data}\n\n".encode("utf-8", "replace")


class AgentStream(TurnStream[_core.AgentStreamEvent], Generic[DataT]):
    """A streamed run: an async iterator of events, and the turn.

    Leaving a loop over it early (``break``, an exception, a timeout, a cancellation) stops the run: the request is
    closed, the tools are cancelled, and the turn raises CANCELLED. A session can then start its next run or `resume`
    this one. ``await stream.aclose()`` and ``async with`` also wait until the cancelled tools have ended, and so does
    a loop whose task is cancelled (see `cleanup_timeout` of `agent`). ``anext(stream)`` reads one event and does not
    stop the run, also if it is cancelled. ``anext(aiter(stream))`` is a step of a loop: its cancellation stops the run.

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

    def _loop(self, items: AsyncIterator[ItemT]) -> AsyncIterator[ItemT]:
        return items if self._session is None or not _is_in_kernel() else _ExplainedLoop(items, self._session)

    async def _outcome(self) -> _core.Turn[DataT]:
        try:
            return await self._native.turn()
        except BaseException as error:
            complete_exception(error, self._session)
            raise

    @property
    def turn(self) -> RepeatableAwaitable[_core.Turn[DataT]]:
        """The turn: ``await stream.turn``. The run continues while it is awaited, whether or not events are read.

        Awaiting it again returns the same turn. Raises `UPPError` as `Agent.run`; CANCELLED for a closed stream. If a
        run of a session waits for approvals, the stream ends normally and this raises `ApprovalRequired`.
        """
        return RepeatableAwaitable(self._outcome)

    async def sse(self, *, on_error: Callable[[Exception], str] | None = None) -> AsyncGenerator[bytes]:
        """Iterate over the events as server-sent events, for a front end of your own.

        The name of an event is its type, such as ``text_delta`` or ``step_start``, and its data is the event as JSON.
        The last event is ``turn`` with the turn, ``approval`` with the calls that wait, or ``error`` with a message.
        Leaving the loop early, as a server does when its client disconnects, stops the run.

        Args:
            on_error: Returns the message for the client. Default: a text without details, because an exception may
                name internals; the exception is logged to ``turntree.sse``.
        """
        import json

        try:
            async for event in self:
                value = event.uap or event.upp
                yield _frame("event" if value is None else value.type, event.to_json())
            yield _frame("turn", (await self.turn).model_dump_json())
        except ApprovalRequired as required:
            calls = [json.loads(call.model_dump_json()) for call in required.calls]
            yield _frame("approval", json.dumps({"calls": calls}))
        except Exception as error:
            if on_error is None:
                import logging

                logging.getLogger("turntree.sse").error("the streamed run failed", exc_info=error)
            message = "An error occurred." if on_error is None else on_error(error)
            yield _frame("error", json.dumps({"message": message}))

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

    def _loop(self, items: Iterator[ItemT]) -> Iterator[ItemT]:
        return items if self._session is None or not _is_in_kernel() else _explained([items], self._session)

    @property
    def turn(self) -> _core.Turn[DataT]:
        """The turn. Runs to the end if the run is not over."""
        try:
            return self._native.turn_sync()
        except BaseException as error:
            complete_exception(error, self._session)
            raise

    def abort(self) -> None:
        """Stop the run: iteration ends, and the turn is partial."""
        self._native.abort()


class _ExplainedLoop(Generic[ItemT]):
    """One loop over a stream of a session in a notebook: an exception that stops it says how to continue."""

    __slots__ = ("_items", "_session")

    def __init__(self, items: AsyncIterator[ItemT], session: SessionState) -> None:
        self._items = items
        self._session = session

    def __aiter__(self) -> AsyncIterator[ItemT]:
        return self

    async def __anext__(self) -> ItemT:
        try:
            return await self._items.__anext__()
        except BaseException as error:
            complete_exception(error, self._session)
            raise


def _explained(items: list[Iterator[ItemT]], session: SessionState) -> Generator[ItemT]:
    """`_ExplainedLoop` without an event loop, of one iterator.

    Only the loop in here holds the iterator: the traceback of Ctrl-C between two items keeps this frame, and does not
    keep the run.
    """
    try:
        yield from items.pop()
    except GeneratorExit:
        from turntree._stops import note_left_loop

        note_left_loop(session)
        raise
    except BaseException as error:
        complete_exception(error, session)
        raise


def complete_exception(error: BaseException, session: Any) -> None:
    """Add the session to an exception that ended a run."""
    if isinstance(error, ApprovalRequired):
        error.session = session
    elif not isinstance(error, Exception) and _is_in_kernel():
        explain_stop(error, session)


def _is_in_kernel() -> bool:
    """Whether this is a kernel of IPython."""
    kernels = sys.modules.get("ipykernel.kernelapp")
    return kernels is not None and bool(kernels.IPKernelApp.initialized())


def explain_stop(error: BaseException, session: SessionState | None) -> None:
    """Shorten a cancellation in a notebook, and add how to continue. Python 3.10 has no notes."""
    from turntree._stops import HINT, shorten

    shorten(error)
    add = getattr(error, "add_note", None)
    if add is not None and session is not None and session.is_unfinished:
        add(HINT)


publish(__name__, globals())
explain_attributes(AgentStream, "STREAM")
explain_attributes(SyncAgentStream, "SYNC_STREAM")

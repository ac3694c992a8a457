"""The sessions whose runs contain the current code: a tool, a hook or an approval."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

from turntree._session_state import SessionState

_T = TypeVar("_T")

# Outermost first, with the tickets of the runs.
_running: ContextVar[tuple[tuple[SessionState, int], ...]] = ContextVar("turntree_running_sessions", default=())


def enter_run(session: SessionState, start: Callable[[int, bool], _T]) -> _T:
    """Start a run, with its ticket and whether it is inside another run of the session. Its code finds the session."""
    ticket = session._native.ticket()
    outer = _running.get()
    inside = bool(outer) and is_running(session)
    token = _running.set((*outer, (session, ticket)))
    try:
        return start(ticket, inside)
    finally:
        _running.reset(token)


def is_running(session: SessionState) -> bool:
    """Whether a run of the session contains the current code."""
    return any(each is session and session._native.is_running(ticket) for each, ticket in _running.get())


def running_session() -> SessionState | None:
    """Return the innermost session whose run contains the current code."""
    inside = [session for session, ticket in _running.get() if session._native.is_running(ticket)]
    return inside[-1] if inside else None


def session_in_context(id: str) -> SessionState | None:
    """Return the session with this id if its run contains the current code. The Rust core calls it for middleware."""
    inside = [session for session, _ in _running.get() if session.id == id]
    return inside[-1] if inside else None

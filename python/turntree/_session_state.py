"""What a session is and has: its ids, its conversation, its checkpoints, and its unfinished run."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from turntree import _core
from turntree._session_calls import SessionCalls


class SessionState(SessionCalls):
    """The part of a session that can be read."""

    __slots__ = ("_tree",)

    _tree: _core.ThreadTree

    def __reduce__(self) -> Any:
        """Refuse to be pickled."""
        message = (
            "a session cannot be pickled: give its id, and write Session.open(store, id, agent) in the other process"
        )
        raise TypeError(message)

    @property
    def id(self) -> str:
        """The session's id: a UUIDv4, unless the application or the loaded document has another one."""
        return self._native.id

    @property
    def tree(self) -> _core.ThreadTree:
        """The conversation: always the same mutable tree. You can branch it, check out nodes and merge."""
        return self._tree

    @property
    def thread_tree(self) -> _core.ThreadTree:
        """An alias of `tree`, the name in the specification.

        Spec: UAP-1.0 §6.1.
        """
        return self._tree

    @property
    def checkpoints(self) -> list[_core.Checkpoint]:
        """All checkpoints, oldest first; a new list."""
        return self._native.checkpoints

    @property
    def current_checkpoint(self) -> _core.Checkpoint | None:
        """The latest or most recently restored checkpoint."""
        return self._native.current_checkpoint

    @property
    def metadata(self) -> dict[str, Any]:
        """Application data: a mutable dict of JSON data that is saved with the session."""
        return self._native.metadata

    @property
    def created_at(self) -> datetime:
        """The creation time, in UTC."""
        return self._native.created_at

    @property
    def updated_at(self) -> datetime:
        """The time of the last change (run, fork, restore or checkout), in UTC."""
        return self._native.updated_at

    @property
    def is_unfinished(self) -> bool:
        """Whether `resume` has a run to continue: one that is active, failed, was cancelled or restored, or waits."""
        return self._native.is_unfinished

    @property
    def state(self) -> _core.ExecutionState | None:
        """The state of the unfinished run (active, failed, cancelled or restored), which `resume` continues."""
        return self._native.state

    @property
    def sub_agent_states(self) -> dict[str, dict[str, Any]]:
        """The sessions of the sub-agents of the unfinished run, as plain data, keyed by tool call id.

        Includes completed, stopped and active sub-agents; ``metadata["status"]`` distinguishes them.
        `Session.from_json` reads each of them. Those of completed runs are in ``checkpoint.sub_agent_states``.
        """
        return self._native.sub_agent_states

    @property
    def restored(self) -> list[_core.Message]:
        """The messages of a restored run that are not in the tree yet; the next run sees them after the history."""
        return self._native.restored

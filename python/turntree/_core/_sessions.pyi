"""Sessions."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, final

from typing_extensions import Self

from turntree._core._agent_events import AgentStreamEvent, Checkpoint, ExecutionState
from turntree._core._agents import AgentCore, MessageInput
from turntree._core._async import Coroutine
from turntree._core._data import Json
from turntree._core._messages import Message, Thread, ToolCall, Turn
from turntree._core._store import StoreProgress
from turntree._core._tree import ThreadTree
from turntree._core._upp import AgentStreamCore
from turntree.store import PersistenceAdapter

@final
class SessionCore:
    """The native half of ``turntree.Session``."""

    def __new__(
        cls,
        agent: AgentCore,
        metadata: dict[str, Any],
        store: PersistenceAdapter,
        saves: str | None,
        id: str | None,
        interval: str,
    ) -> Self: ...
    @staticmethod
    def from_json(
        data: str | bytes | Mapping[str, Any],
        agent: AgentCore,
        store: PersistenceAdapter,
        saves: str | None,
        strict: bool,
    ) -> SessionCore:
        """Create a session from its JSON.

        Raises:
            ValidationError: Invalid JSON, an exceeded limit, another version, or a wrong structure; with the path.
        """

    @staticmethod
    def load(
        store: PersistenceAdapter, id: str, agent: AgentCore, saves: str, progress: StoreProgress | None
    ) -> Coroutine[SessionCore | None]:
        """Load a session from a store of turntree. Returns a coroutine that returns the session, or None.

        `progress` counts the entries that are read.

        Raises:
            CorruptDataError: The stored session is invalid.
            StoreError: The store cannot be read.
        """

    def reload(self, rebase: bool) -> Coroutine[None]:
        """Take the state of the store; `rebase` adds the changes of this session to it. Returns a coroutine."""

    @property
    def id(self) -> str:
        """The id of the session."""

    @property
    def agent_id(self) -> str:
        """The id of the agent that the session was created with."""

    @property
    def tree(self) -> ThreadTree:
        """The conversation."""

    @property
    def metadata(self) -> dict[str, Any]:
        """The application's metadata: the dict itself."""

    @property
    def created_at(self) -> datetime:
        """When the session was created, in UTC."""

    @property
    def updated_at(self) -> datetime:
        """When the session last changed, in UTC."""

    @property
    def checkpoints(self) -> list[Checkpoint]:
        """All checkpoints, oldest first."""

    @property
    def current_checkpoint(self) -> Checkpoint | None:
        """The newest checkpoint, or the one that was restored last."""

    @property
    def is_unfinished(self) -> bool:
        """Whether `resume` has a run to continue."""

    @property
    def state(self) -> ExecutionState | None:
        """The state of the unfinished run, or None."""

    @property
    def sub_agent_states(self) -> dict[str, dict[str, Any]]:
        """The sessions of the sub-agents of the active or unfinished run, as plain data by tool call id."""

    @property
    def restored(self) -> list[Message]:
        """Messages of a restored checkpoint that are not in the tree. The next run sees them after the history."""

    @property
    def pending(self) -> list[ToolCall]:
        """The calls that wait for approval, in order."""

    @property
    def pending_by_key(self) -> list[tuple[str, str, bool, ToolCall]]:
        """The calls that wait for approval, in order, each with its key."""

    def approve(self, call: str | ToolCall, arguments: Mapping[str, Any] | None) -> None:
        """Approve a pending call, given as an object or by its id. `arguments` replaces its arguments if given."""

    def deny(self, call: str | ToolCall, reason: str | None) -> None:
        """Deny a pending call, given as an object or by its id."""

    @property
    def in_doubt(self) -> list[ToolCall]:
        """The calls that may have been executed before their process ended."""

    def resolve(self, call_id: str, kind: str, value: object) -> None:
        """Resolve a call in doubt: `kind` is "result", "error" or "retry", `value` the result or the error's text."""

    def discard(self) -> bool:
        """Discard the unfinished run. Return whether there was one."""

    def ticket(self) -> int:
        """Return a number that identifies one run."""

    def is_running(self, ticket: int) -> bool:
        """Return whether the run with this ticket is active."""

    def run(
        self, input: MessageInput, ticket: int, inside: bool, options: dict[str, Any] | None = None
    ) -> Coroutine[Turn]:
        """Start a run on the caller's event loop and return a coroutine that returns the turn.

        Args:
            input: The new input.
            ticket: From `ticket`.
            inside: Whether the call comes from inside a run of this session, which is rejected.
            options: The options of this run, or None.
        """

    def run_sync(self, input: MessageInput, ticket: int, inside: bool, options: dict[str, Any] | None = None) -> Turn:
        """Run on this thread, without an event loop, and return the turn."""

    def stream(
        self,
        input: MessageInput,
        ticket: int,
        inside: bool,
        on_loop: bool,
        sub_agent_events: bool,
        options: dict[str, Any] | None = None,
    ) -> AgentStreamCore[AgentStreamEvent]:
        """Start a streamed run."""

    def resume(self, ticket: int, inside: bool, options: dict[str, Any] | None = None) -> Coroutine[Turn]:
        """Resume the unfinished run and return a coroutine that returns the turn."""

    def resume_sync(self, ticket: int, inside: bool, options: dict[str, Any] | None = None) -> Turn:
        """Resume the unfinished run on this thread and return the turn."""

    def resume_stream(
        self, ticket: int, inside: bool, on_loop: bool, options: dict[str, Any] | None = None
    ) -> AgentStreamCore[AgentStreamEvent]:
        """Resume the unfinished run as a stream."""

    def restore(self, checkpoint_id: str) -> Coroutine[None]:
        """Restore a checkpoint; returns a coroutine."""

    def fork(self, node_id: str) -> str:
        """Start a branch at a node and return the new node's id. The current node does not change."""

    def add_thread(self, thread: Thread, metadata: Mapping[str, Json]) -> str:
        """Add a thread under the root, with a history of its own, and return the new node's id."""

    def save(self) -> Coroutine[None]:
        """Save the session; returns a coroutine."""

    def to_json(self) -> str:
        """Return the session as JSON."""

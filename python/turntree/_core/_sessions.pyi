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
        """Make a session from its JSON.

        Raises:
            ValidationError: Not JSON, over a limit, of another version, or of another shape; with the place.
        """

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def agent_id(self) -> str:
        """The id of the agent that it was made with."""

    @property
    def tree(self) -> ThreadTree:
        """The conversation."""

    @property
    def metadata(self) -> dict[str, Any]:
        """The application's facts: the dict itself."""

    @property
    def created_at(self) -> datetime:
        """When it was made, in UTC."""

    @property
    def updated_at(self) -> datetime:
        """When it last changed, in UTC."""

    @property
    def checkpoints(self) -> list[Checkpoint]:
        """All checkpoints, oldest first."""

    @property
    def current_checkpoint(self) -> Checkpoint | None:
        """The latest checkpoint, or the one that was restored."""

    @property
    def state(self) -> ExecutionState | None:
        """The state of the run that is not finished; None where there is none."""

    @property
    def sub_agent_states(self) -> dict[str, dict[str, Any]]:
        """Sessions of the sub-agents of the run that is under way or not finished, as plain data by tool calls."""

    @property
    def restored(self) -> list[Message]:
        """Messages that were restored and are not in the tree: the next run sees them after the history."""

    @property
    def pending(self) -> list[ToolCall]:
        """The calls that wait for a decision, in their order."""

    def approve(self, call_id: str, arguments: Mapping[str, Any] | None) -> None:
        """Let a pending call run, with other arguments where some are given."""

    def deny(self, call_id: str, reason: str | None) -> None:
        """Refuse a pending call."""

    def discard(self) -> bool:
        """Give up the run that is not finished; whether there was one."""

    def ticket(self) -> int:
        """Give a number for one run."""

    def is_running(self, ticket: int) -> bool:
        """Whether the run with this ticket is under way."""

    def run(self, input: MessageInput, ticket: int, inside: bool) -> Coroutine[Turn]:
        """Start a run on the caller's event loop; the coroutine gives its turn.

        Args:
            input: What is said.
            ticket: From `ticket`.
            inside: Whether it is asked for from inside a run of this session, which is refused.
        """

    def run_sync(self, input: MessageInput, ticket: int, inside: bool) -> Turn:
        """Run on this thread, without an event loop."""

    def stream(
        self, input: MessageInput, ticket: int, inside: bool, on_loop: bool, sub_agent_events: bool
    ) -> AgentStreamCore[AgentStreamEvent]:
        """Start a run that is listened to."""

    def resume(self, ticket: int, inside: bool) -> Coroutine[Turn]:
        """Go on with the run that is not finished; the coroutine gives its turn."""

    def resume_sync(self, ticket: int, inside: bool) -> Turn:
        """As `resume`, on this thread."""

    def resume_stream(self, ticket: int, inside: bool, on_loop: bool) -> AgentStreamCore[AgentStreamEvent]:
        """As `resume`, listened to."""

    def restore(self, checkpoint_id: str) -> Coroutine[None]:
        """Go back to a checkpoint."""

    def fork(self, node_id: str) -> str:
        """Start a branch at a node, without moving to it; gives the new node's id."""

    def plant(self, thread: Thread, metadata: Mapping[str, Json]) -> str:
        """Keep a thread under the root, apart from its history; gives the new node's id."""

    def save(self) -> Coroutine[None]:
        """Save the session."""

    def to_json(self) -> str:
        """Give its JSON."""

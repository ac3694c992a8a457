"""Sessions: an agent with a conversation that it remembers, and checkpoints to go back to. UAP-1.0 §6 and §13."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from turntree import _core
from turntree._agent import Agent, AgentStream, SyncAgentStream
from turntree.exceptions import ApprovalRequired, CorruptDataError, SessionError, ValidationError
from turntree.store import memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from typing_extensions import Self

    from turntree._types import Input
    from turntree.store import PersistenceAdapter

    SaveInterval = Literal["turn", "step", "tool"]

_T = TypeVar("_T")

# The sessions in whose runs this code is, outermost first, with the tickets of the runs.
_running: ContextVar[tuple[tuple[Session, int], ...]] = ContextVar("turntree_running_sessions", default=())


def running_session() -> Session | None:
    """Give the innermost session in whose run this code is: in a tool, a hook or an approval."""
    inside = [session for session, ticket in _running.get() if session._native.is_running(ticket)]
    return inside[-1] if inside else None


def session_in_context(id: str) -> Session | None:
    """Give the session of this id in whose run this code is. Called natively, for middleware."""
    inside = [session for session, _ in _running.get() if session.id == id]
    return inside[-1] if inside else None


def session(
    agent: Agent,
    *,
    id: str | None = None,
    checkpoints: bool = True,
    checkpoint_interval: Literal["step", "turn"] = "step",
    persistence: PersistenceAdapter | None = None,
    save_interval: SaveInterval = "turn",
    metadata: Mapping[str, Any] | None = None,
) -> Session:
    """Make a session. UAP-1.0 §6.1.

    Args:
        agent: Who answers.
        id: A UUIDv4. Default: a new one.
        checkpoints: Whether checkpoints are made.
        checkpoint_interval: "step" makes one after every step, "turn" one after every run.
        persistence: Where the session is saved after every run: an object with ``save(key, data)``, ``load(key)`` and
            ``delete(key)``, sync or async. Default: in memory, when `Session.save` is called.
        save_interval: When it is saved there while it runs, beside at the end of each run. "turn": not at all; "step":
            when a run begins and after every step; "tool": also after every model answer that wants tools and after
            every tool, so that a process that is killed repeats no tool whose result was saved. What people decide
            about pending calls is saved before it is carried out, and an approved call after it, in any case.
        metadata: Facts of yours, JSON data; ``session.metadata`` is a dict to change.

    Raises:
        ValidationError: `id` is not a UUIDv4, or `metadata` has the key "turntree", which the session writes.
        ValueError: Another interval.
        TypeError: An option of the wrong type, named.
    """
    if not isinstance(agent, Agent):
        message = f"agent must be an Agent, not {type(agent).__name__}"
        raise TypeError(message)
    if checkpoint_interval not in ("step", "turn"):
        message = f'checkpoint_interval must be "step" or "turn", not {checkpoint_interval!r}'
        raise ValueError(message)
    interval = checkpoint_interval if checkpoints else "off"
    store, saves = _store(persistence), _saves(persistence, save_interval)
    native = _core.SessionCore(agent._native, dict(metadata or {}), store, saves, id, interval)
    return Session(native, agent, store)


class Session:
    """An agent with a conversation that it remembers. Made by `session`, `Session.from_json` and `Session.load`.

    Runs, `resume` and `restore` come one after the other, in the order they were asked for. Everything else may be done
    at any time and from any thread, also while a run is under way: a run goes on from what was said when it began, and
    its turn is added to the node that was current then. UAP-1.0 §6.1.
    """

    __slots__ = ("__weakref__", "_agent", "_native", "_persistence", "_tree")

    def __init__(self, native: _core.SessionCore, agent: Agent, persistence: PersistenceAdapter) -> None:
        self._native = native
        self._agent = agent
        self._persistence = persistence
        self._tree = native.tree

    @property
    def id(self) -> str:
        """Its id, a UUIDv4 (or what the document said that it was read from)."""
        return self._native.id

    @property
    def agent(self) -> Agent:
        """Who answers."""
        return self._agent

    @property
    def tree(self) -> _core.ThreadTree:
        """The conversation: always the same live tree. Branch it, check out nodes, merge."""
        return self._tree

    @property
    def thread_tree(self) -> _core.ThreadTree:
        """The same as `tree`, by the name that UAP-1.0 §6.1 gives it."""
        return self._tree

    @property
    def checkpoints(self) -> list[_core.Checkpoint]:
        """All checkpoints, oldest first, in a list of its own."""
        return self._native.checkpoints

    @property
    def current_checkpoint(self) -> _core.Checkpoint | None:
        """The latest checkpoint, or the one that was restored."""
        return self._native.current_checkpoint

    @property
    def metadata(self) -> dict[str, Any]:
        """Facts of yours: a dict to change in place. It is written with the session, so it holds JSON data."""
        return self._native.metadata

    @property
    def created_at(self) -> datetime:
        """When it was made, in UTC."""
        return self._native.created_at

    @property
    def updated_at(self) -> datetime:
        """When it last changed, in UTC: by a run, a fork, a restore or a checkout."""
        return self._native.updated_at

    @property
    def persistence(self) -> PersistenceAdapter:
        """Where `save` puts it."""
        return self._persistence

    @property
    def state(self) -> _core.ExecutionState | None:
        """The state of the run that is not finished: under way, failed, cancelled or restored; for `resume`."""
        return self._native.state

    @property
    def sub_agent_states(self) -> dict[str, dict[str, Any]]:
        """Sessions of the agents that the unfinished run has called as tools, by the tool calls: plain data.

        Those that have ended, were stopped, or run now; ``metadata["status"]`` tells which. `Session.from_json` reads
        each of them. Those of runs that are over are in ``checkpoint.sub_agent_states``.
        """
        return self._native.sub_agent_states

    @property
    def restored(self) -> list[_core.Message]:
        """What a restored run had said, which is not in the tree yet; the next run sees it after the history."""
        return self._native.restored

    @property
    def pending(self) -> list[_core.ToolCall]:
        """The tool calls that wait for a decision, in their order, with the arguments that the tools would get."""
        return self._native.pending

    def approve(self, call: str | _core.ToolCall, *, arguments: Mapping[str, Any] | None = None) -> None:
        """Let a pending call run when the run is resumed. Nothing runs before that; no hook is asked again.

        Args:
            call: From `pending`, or its id.
            arguments: What the tool gets instead of the arguments that the model gave.

        Raises:
            SessionError: No call of this id waits, somebody has decided about it before, or a run is under way.
            TypeError: `arguments` is no dict, or holds what JSON cannot.
        """
        self._native.approve(_id_of(call), arguments)

    def deny(self, call: str | _core.ToolCall, reason: str | None = None) -> None:
        """Refuse a pending call: the model gets an error result when the run is resumed.

        Args:
            call: From `pending`, or its id.
            reason: What the model is told; it may try something else.

        Raises:
            SessionError: As `approve`.
        """
        self._native.deny(_id_of(call), reason)

    def approve_all(self) -> list[_core.ToolCall]:
        """Let all pending calls run when the run is resumed, and give them.

        Raises:
            SessionError: A run is under way.
        """
        calls = self.pending
        for call in calls:
            self.approve(call)
        return calls

    def deny_all(self, reason: str | None = None) -> list[_core.ToolCall]:
        """Refuse all pending calls, and give them.

        Raises:
            SessionError: A run is under way.
        """
        calls = self.pending
        for call in calls:
            self.deny(call, reason)
        return calls

    def discard(self) -> bool:
        """Give up the run that is not finished, and its pending calls. Nothing of it was in the tree.

        Returns:
            Whether there was one.

        Raises:
            SessionError: A run is under way.
        """
        return self._native.discard()

    async def run(self, input: Input) -> _core.Turn:
        """Run the agent with the history, and add the turn to the current node. UAP-1.0 §6.1.

        Waits for runs that were asked for before. A run that fails or is cancelled adds nothing; `resume` goes on with
        it.

        Args:
            input: As `Agent.run` takes it.

        Returns:
            The turn: everything new, starting with the input.

        Raises:
            ApprovalRequired: Tool calls wait for a decision; `resume` goes on after it.
            UPPError: The model call failed.
            SessionError: Asked from inside a run of this session, which it would wait for for ever; or calls of an
                earlier run wait for a decision.
            StoreError: The turn is in the tree, but saving failed; its ``turn`` is the turn, and `save` tries again.
            asyncio.CancelledError: The awaiting task was cancelled.
        """
        try:
            return await self._enter(lambda ticket, inside: self._native.run(input, ticket, inside))
        except ApprovalRequired as required:
            required.session = self
            raise

    def run_sync(self, input: Input) -> _core.Turn:
        """Run on this thread; works inside a running event loop too, as in a notebook.

        Args:
            input: As `Agent.run` takes it.

        Raises:
            ApprovalRequired: As `run`.
            UPPError: As `run`.
            SessionError: As `run`; or a run of this session is under way on the event loop of this thread, which could
                not go on while this one waits for it.
        """
        try:
            return self._enter(lambda ticket, inside: self._native.run_sync(input, ticket, inside))
        except ApprovalRequired as required:
            required.session = self
            raise

    def stream(self, input: Input, *, sub_agent_events: bool = False) -> AgentStream:
        """Run with somebody listening: ``async for event in session.stream("…")``.

        The turn is in the tree when the stream has ended or was aborted; then what there is of it. A stream that was
        left in the middle holds the session up until it is closed: use ``async with``, or ``abort``. Where tool calls
        wait for a decision the stream ends, and ``await stream.turn`` raises `ApprovalRequired`.

        Args:
            input: As `Agent.run` takes it.
            sub_agent_events: As `Agent.stream`.

        Raises:
            SessionError: As `run`.
        """
        native = self._enter(
            lambda ticket, inside: self._native.stream(
                input, ticket, inside, on_loop=True, sub_agent_events=sub_agent_events
            )
        )
        return AgentStream(native, self)

    def stream_sync(self, input: Input, *, sub_agent_events: bool = False) -> SyncAgentStream:
        """Run with somebody listening, without an event loop: ``for event in session.stream_sync("…")``.

        Args:
            input: As `Agent.run` takes it.
            sub_agent_events: As `Agent.stream`.

        Raises:
            SessionError: As `run_sync`.
        """
        native = self._enter(
            lambda ticket, inside: self._native.stream(
                input, ticket, inside, on_loop=False, sub_agent_events=sub_agent_events
            )
        )
        return SyncAgentStream(native, self)

    async def resume(self) -> _core.Turn:
        """Go on with the run that failed, was cancelled, was restored or waits for decisions.

        Nothing that has succeeded is done again: neither a model call whose answer is there, nor a tool that has
        answered. Decisions are carried out; where calls still wait after that, `ApprovalRequired` is raised again. The
        turn is that of the whole run. An agent that ran as a tool goes on where it was stopped.

        Raises:
            SessionError: There is no such run; or as `run`.
            ApprovalRequired: As `run`.
            UPPError: As `run`.
        """
        try:
            return await self._enter(self._native.resume)
        except ApprovalRequired as required:
            required.session = self
            raise

    def resume_sync(self) -> _core.Turn:
        """As `resume`, on this thread."""
        try:
            return self._enter(self._native.resume_sync)
        except ApprovalRequired as required:
            required.session = self
            raise

    def resume_stream(self) -> AgentStream:
        """As `resume`, with somebody listening, as in `stream`. Events of what had happened before do not come again.

        Raises:
            SessionError: As `resume`; raised where the stream is read.
        """
        native = self._enter(lambda ticket, inside: self._native.resume_stream(ticket, inside, on_loop=True))
        return AgentStream(native, self)

    def resume_stream_sync(self) -> SyncAgentStream:
        """As `resume_stream`, without an event loop, as in `stream_sync`."""
        native = self._enter(lambda ticket, inside: self._native.resume_stream(ticket, inside, on_loop=False))
        return SyncAgentStream(native, self)

    async def restore(self, checkpoint_id: str) -> None:
        """Go back to a checkpoint, once the runs that were asked for before are over. UAP-1.0 §6.5.

        Its node is current again and has the messages that it had then; what came after becomes a branch of it, and
        checkpoints made there stay good. What the checkpoint's run had said and was not in the tree is in `restored`:
        the next run sees it, and `resume` goes on with that run.

        Args:
            checkpoint_id: From `checkpoints`.

        Raises:
            SessionError: No checkpoint has this id, or its messages were taken out of the tree; or asked from inside a
                run of this session.
        """
        if self._inside():
            raise SessionError(_REENTRANT.format(self.id))
        await self._native.restore(checkpoint_id)

    def fork(self, node_id: str) -> str:
        """Start a branch at a node, without moving to it; ``session.tree.checkout`` moves.

        Args:
            node_id: From the tree.

        Returns:
            The new node's id.

        Raises:
            KeyError: No node has this id.
        """
        return self._native.fork(node_id)

    async def save(self) -> None:
        """Save the session under ``session:<id>``. Saves come one after the other, whoever asks.

        Raises:
            Exception: What the store raised.
            TypeError: Something in `metadata` is not JSON, named by its place.
        """
        await self._native.save()

    def to_json(self) -> str:
        """Give its JSON: all that is needed to go on in another process. UAP-1.0 §13.1.

        Raises:
            TypeError: Something in `metadata` is not JSON, named by its place.
        """
        return self._native.to_json()

    def to_dict(self) -> dict[str, Any]:
        """Give its JSON as plain data."""
        import json

        plain: dict[str, Any] = json.loads(self.to_json())
        return plain

    @classmethod
    def from_json(
        cls,
        data: str | bytes | Mapping[str, Any],
        agent: Agent,
        *,
        persistence: PersistenceAdapter | None = None,
        save_interval: SaveInterval = "turn",
        strict: bool = False,
    ) -> Self:
        """Make a session from its JSON; it goes on as the one that was written would have.

        The agent's id need not be the one that was written: it differs from process to process.

        Args:
            data: What `to_json` or `to_dict` gave, here or elsewhere.
            agent: Who answers from now on.
            persistence: As in `session`.
            save_interval: As in `session`.
            strict: Whether all ids must be UUIDv4.

        Raises:
            ValidationError: Not JSON, too large or too deep, of another version, or of another shape; with the place.
        """
        if not isinstance(agent, Agent):
            message = f"agent must be an Agent, not {type(agent).__name__}"
            raise TypeError(message)
        store, saves = _store(persistence), _saves(persistence, save_interval)
        native = _core.SessionCore.from_json(data, agent._native, store, saves, strict)
        return cls(native, agent, store)

    @classmethod
    async def load(
        cls, adapter: PersistenceAdapter, id: str, agent: Agent, *, save_interval: SaveInterval = "turn"
    ) -> Self:
        """Load a session that was saved; it is saved there again after every run.

        Args:
            adapter: The store.
            id: The session's id.
            agent: Who answers from now on.
            save_interval: As in `session`.

        Raises:
            SessionError: No session is saved under this id.
            CorruptDataError: What is saved there cannot be read; the error says where and why.
        """
        data = await _asked(_store(adapter).load, f"session:{id}")
        if data is None:
            message = f'no session is saved under the id "{id}"'
            raise SessionError(message)
        try:
            return cls.from_json(data, agent, persistence=adapter, save_interval=save_interval)
        except ValidationError as error:
            message = f'session "{id}" cannot be read: {error}'
            raise CorruptDataError(message) from error

    def __repr__(self) -> str:
        messages, checkpoints = len(self._tree.history()), len(self.checkpoints)
        return f"Session(id={self.id!r}, messages={messages}, checkpoints={checkpoints})"

    def _repr_html_(self) -> str:
        return self._tree._repr_html_()

    def _inside(self) -> bool:
        return any(session is self and self._native.is_running(ticket) for session, ticket in _running.get())

    def _enter(self, start: Callable[[int, bool], _T]) -> _T:
        """Start a run whose tools and hooks know that they are inside of it."""
        ticket = self._native.ticket()
        inside = self._inside()
        token = _running.set((*_running.get(), (self, ticket)))
        try:
            return start(ticket, inside)
        finally:
            _running.reset(token)


_REENTRANT = (
    'session "{}" cannot start a run from inside its own run, which it would wait for forever; use `query`, another '
    "session, or `fork`"
)


def _store(persistence: PersistenceAdapter | None) -> PersistenceAdapter:
    if persistence is None:
        return memory()
    missing = [name for name in ("save", "load", "delete") if not callable(getattr(persistence, name, None))]
    if missing:
        message = f"persistence must have the methods save, load and delete; {missing[0]} is missing"
        raise TypeError(message)
    return persistence


def _saves(persistence: PersistenceAdapter | None, interval: str) -> str | None:
    """When runs are saved; None where there is no store of the caller's."""
    if interval not in ("turn", "step", "tool"):
        message = f'save_interval must be "turn", "step" or "tool", not {interval!r}'
        raise ValueError(message)
    return interval if persistence is not None else None


def _id_of(call: str | _core.ToolCall) -> str:
    if isinstance(call, (str, _core.ToolCall)):
        return call if isinstance(call, str) else call.tool_call_id
    message = f"call must be a ToolCall or the id of one, not {type(call).__name__}"
    raise TypeError(message)


async def _asked(method: Callable[..., Any], key: str) -> str | None:
    """Call a method of a store: in a thread where it is sync, since it may block."""
    import asyncio
    import inspect

    if inspect.iscoroutinefunction(method):
        answer = await method(key)
    else:
        answer = await asyncio.to_thread(method, key)
        if inspect.isawaitable(answer):
            answer = await cast("Any", answer)
    if answer is not None and not isinstance(answer, (str, bytes)):
        message = f"load must give a str or None, not {type(answer).__name__}"
        raise TypeError(message)
    return cast("str | None", answer)

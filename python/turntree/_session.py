"""Sessions: an agent with a persistent conversation and checkpoints.

Spec: UAP-1.0 §6 and §13.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Generic, Literal, cast

from turntree import _core
from turntree._agent import Agent
from turntree._agent_stream import AgentStream, SyncAgentStream, complete_exception
from turntree._argument_errors import explain_arguments
from turntree._branch_run import branch_run
from turntree._called_as import called_as
from turntree._generics import DataT, DepsT, GivenDataT, GivenDepsT
from turntree._inputs import checked_input
from turntree._inspector import Inspector, inspect
from turntree._options import check_name
from turntree._peer_arguments import SESSION
from turntree._public_names import explain_attributes, publish
from turntree._run_options import OnApproval, RunOptions, approver, dict_of, native_options
from turntree._running_sessions import enter_run, is_running
from turntree._saved_session import SavedSession
from turntree._session_id import check_id
from turntree._session_store import SaveInterval, call_store, given_store, load_core, parse, save_interval_of, store_of
from turntree._types import Input
from turntree._typing import Unpack
from turntree.exceptions import CorruptDataError, SessionError, ValidationError
from turntree.store import PersistenceAdapter, Store, key_of


@explain_arguments(SESSION)
def session(
    agent: Agent[DepsT, DataT],
    *,
    id: str | None = None,
    checkpoints: bool = True,
    checkpoint_interval: Literal["step", "turn"] = "step",
    persistence: PersistenceAdapter | str | None = None,
    save_interval: SaveInterval | None = None,
    metadata: Mapping[str, Any] | None = None,
    on_approval: OnApproval | None = None,
) -> Session[DepsT, DataT]:
    """Create a session.

    Args:
        agent: The agent that executes the runs.
        id: A text of 1 to 200 printable characters (`str.isprintable`). Default: a new UUIDv4.
        checkpoints: Whether to create checkpoints.
        checkpoint_interval: "step" creates a checkpoint after every step, "turn" after every run.
        persistence: The store that the session is saved in after every run: an object with ``save(key, data)``,
            ``load(key)`` and ``delete(key)``, sync or async. Default: in memory, only when `Session.save` is called.
        save_interval: When to save during a run, in addition to its end. "turn": never; "step": at the start of a run
            and after every step; "tool": also after every response with tool calls and after every tool, so that a
            restarted process does not repeat a tool whose result was saved. In all cases, approvals and denials are
            saved before they are executed, and an approved call is saved after it. Default: "tool" for stores that save
            only what is new, "turn" for objects with ``save``, ``load`` and ``delete``, which save the whole session.
        metadata: Application data (JSON); ``session.metadata`` is a mutable dict.
        on_approval: As in `agent`, for the runs of this session, instead of the agent's. It is not saved.

    Raises:
        ValidationError: `id` is empty, too long or not printable, or `metadata` has the reserved key "turntree".
        ValueError: An interval is unknown.
        TypeError: An option has the wrong type; the message names it.

    Spec: UAP-1.0 §6.1.
    """
    _check_agent(agent, "session(agent(model=…))")
    if id is not None:
        check_id(id)
    if checkpoint_interval not in ("step", "turn"):
        message = f'checkpoint_interval must be "step" or "turn", not {checkpoint_interval!r}'
        raise ValueError(message)
    interval = checkpoint_interval if checkpoints else "off"
    store, saves = store_of(persistence), save_interval_of(persistence, save_interval)
    initial = {} if metadata is None else dict_of("metadata", metadata)
    native = _core.SessionCore(agent._native, initial, store, saves, id, interval)
    # Without the frame that explains missing arguments.
    created: Session[DepsT, DataT] = Session.__new__(Session)
    created._start(native, agent, store, on_approval, saves is not None)
    return created


class Session(SavedSession, Generic[DepsT, DataT]):
    """An agent with a persistent conversation.

    Created by `session`, `Session.open`, `Session.load` and `Session.from_json`.

    Calls of `run`, `resume` and `restore` are queued and execute one at a time, in call order. All other methods may be
    called at any time and from any thread, even during a run: a run uses the history at its start, and its turn is
    added to the node that was current at that time.

    Spec: UAP-1.0 §6.1.
    """

    __slots__ = ("__weakref__", "_agent", "_on_approval", "_persistence", "_saves")

    def __init__(
        self,
        native: _core.SessionCore,
        agent: Agent[DepsT, DataT],
        persistence: PersistenceAdapter,
        on_approval: OnApproval | None = None,
        *,
        saves: bool = True,
    ) -> None:
        self._start(native, agent, persistence, on_approval, saves)

    def _start(
        self,
        native: _core.SessionCore,
        agent: Agent[DepsT, DataT],
        persistence: PersistenceAdapter,
        on_approval: OnApproval | None,
        saves: bool,  # noqa: FBT001
    ) -> None:
        self._native = native
        self._tree = native.tree
        self._agent = agent
        self._persistence = persistence
        self._on_approval = on_approval if on_approval is None else approver("the session", on_approval)
        # Whether runs are saved.
        self._saves = saves

    @property
    def agent(self) -> Agent[DepsT, DataT]:
        """The agent that executes the runs."""
        return self._agent

    @property
    def persistence(self) -> PersistenceAdapter:
        """The store that `save` writes to."""
        return self._persistence

    async def run(
        self, input: Input, *, at: str | _core.ThreadNode | None = None, **options: Unpack[RunOptions[DepsT]]
    ) -> _core.Turn[DataT]:
        """Run the agent with the history, and add the turn to the current node.

        Waits for earlier calls of `run`, `resume` and `restore`. A failed or cancelled run adds nothing to the tree;
        `resume` continues it.

        Args:
            input: As `Agent.run` takes it.
            at: A node of the tree, or its id: the run has the history of this node and adds its turn there. The current
                node does not change. If it is not the current one, the run does not wait for others, so that several
                branches can run at once. It has no checkpoints and cannot be resumed: it adds its turn or nothing.
            **options: As `Agent.run`. None of them is saved.

        Returns:
            The turn: all new messages, starting with the input.

        Raises:
            ApprovalRequired: Tool calls wait for approval; approve or deny them, then call `resume`.
            UPPError: The model call failed.
            SessionError: Called from inside a run of this session (a deadlock), or calls of an earlier run wait for
                approval or are in doubt.
            StoreError: The turn is in the tree, but saving failed. The error's ``turn`` is the turn; `save` retries. A
                `ConflictError` if another writer has changed the stored session; load it again then.
            KeyError: No node has the id `at`.
            asyncio.CancelledError: The awaiting task was cancelled.

        Spec: UAP-1.0 §6.1.
        """
        native = self._options_of("Session.run", options)
        if at is not None and (branch := branch_run(self, at, options, native)) is not None:
            return await branch.run(input)
        try:
            return await enter_run(
                self, lambda ticket, inside: self._native.run(checked_input(input), ticket, inside, native)
            )
        except BaseException as error:
            complete_exception(error, self)
            raise

    def run_sync(
        self, input: Input, *, at: str | _core.ThreadNode | None = None, **options: Unpack[RunOptions[DepsT]]
    ) -> _core.Turn[DataT]:
        """Run the agent and block until the turn is complete; also works inside a running event loop (notebooks).

        Args:
            input: As `Agent.run` takes it.
            at: As `run`.
            **options: As `run`.

        Raises:
            ApprovalRequired: As `run`.
            UPPError: As `run`.
            SessionError: As `run`; or a run of this session is active on this thread's event loop, which the call would
                block.
        """
        native = self._options_of("Session.run_sync", options)
        if at is not None and (branch := branch_run(self, at, options, native)) is not None:
            return branch.run_sync(input)
        try:
            return enter_run(
                self, lambda ticket, inside: self._native.run_sync(checked_input(input), ticket, inside, native)
            )
        except BaseException as error:
            complete_exception(error, self)
            raise

    def stream(
        self,
        input: Input,
        *,
        sub_agent_events: bool = False,
        at: str | _core.ThreadNode | None = None,
        **options: Unpack[RunOptions[DepsT]],
    ) -> AgentStream[DataT]:
        """Run the agent and stream its events: ``async for event in session.stream("…")``.

        The turn is added to the tree at the end of the stream; an aborted stream adds its partial turn. A stream that
        is not read to the end blocks the next run until it is closed: use ``async with`` or ``abort``. If tool calls
        wait for approval, the stream ends and ``await stream.turn`` raises `ApprovalRequired`.

        Args:
            input: As `Agent.run` takes it.
            sub_agent_events: As `Agent.stream`.
            at: As `run`.
            **options: As `run`.

        Raises:
            SessionError: As `run`.
        """
        of_run = self._options_of("Session.stream", options)
        if at is not None and (branch := branch_run(self, at, options, of_run)) is not None:
            return branch.stream(input, sub_agent_events=sub_agent_events)
        native = enter_run(
            self,
            lambda ticket, inside: self._native.stream(
                checked_input(input), ticket, inside, on_loop=True, sub_agent_events=sub_agent_events, options=of_run
            ),
        )
        return AgentStream(native, self)

    def stream_sync(
        self,
        input: Input,
        *,
        sub_agent_events: bool = False,
        at: str | _core.ThreadNode | None = None,
        **options: Unpack[RunOptions[DepsT]],
    ) -> SyncAgentStream[DataT]:
        """Run the agent and stream its events without an event loop: ``for event in session.stream_sync("…")``.

        Args:
            input: As `Agent.run` takes it.
            sub_agent_events: As `Agent.stream`.
            at: As `run`.
            **options: As `run`.

        Raises:
            SessionError: As `run_sync`.
        """
        of_run = self._options_of("Session.stream_sync", options)
        if at is not None and (branch := branch_run(self, at, options, of_run)) is not None:
            return branch.stream_sync(input, sub_agent_events=sub_agent_events)
        try:
            native = enter_run(
                self,
                lambda ticket, inside: self._native.stream(
                    checked_input(input),
                    ticket,
                    inside,
                    on_loop=False,
                    sub_agent_events=sub_agent_events,
                    options=of_run,
                ),
            )
        except TypeError as error:
            called_as(error, "Session.stream", "Session.stream_sync")
            raise
        return SyncAgentStream(native, self)

    async def resume(self, **options: Unpack[RunOptions[DepsT]]) -> _core.Turn[DataT]:
        """Continue the run that failed, was cancelled, was restored, waits for approval, or whose process ended.

        Completed model calls and tools are not repeated. Approved calls run, and denied calls get an error result. If
        calls are still pending after that, `ApprovalRequired` is raised again. The turn contains the whole run.
        Sub-agents continue where they stopped.

        Args:
            **options: As `run`. The options of the unfinished run were not saved: pass them again. ``limits`` count
                what the run has used before, except seconds.

        Raises:
            SessionError: There is no unfinished run; or as `run`.
            ApprovalRequired: As `run`; or calls are `in_doubt`. `resolve` them first. Nothing runs then.
            UPPError: As `run`.
        """
        native = self._options_of("Session.resume", options)
        try:
            return await enter_run(self, lambda ticket, inside: self._native.resume(ticket, inside, native))
        except BaseException as error:
            complete_exception(error, self)
            raise

    def resume_sync(self, **options: Unpack[RunOptions[DepsT]]) -> _core.Turn[DataT]:
        """Like `resume`, but blocks until the turn is complete."""
        native = self._options_of("Session.resume_sync", options)
        try:
            return enter_run(self, lambda ticket, inside: self._native.resume_sync(ticket, inside, native))
        except BaseException as error:
            complete_exception(error, self)
            raise

    def resume_stream(self, **options: Unpack[RunOptions[DepsT]]) -> AgentStream[DataT]:
        """Like `resume`, but streams the events, as `stream` does. Earlier events are not repeated.

        Raises:
            SessionError: As `resume`; raised when the stream is read.
        """
        of_run = self._options_of("Session.resume_stream", options)
        native = enter_run(
            self, lambda ticket, inside: self._native.resume_stream(ticket, inside, on_loop=True, options=of_run)
        )
        return AgentStream(native, self)

    def resume_stream_sync(self, **options: Unpack[RunOptions[DepsT]]) -> SyncAgentStream[DataT]:
        """Like `resume_stream`, but without an event loop, as `stream_sync` does."""
        of_run = self._options_of("Session.resume_stream_sync", options)
        native = enter_run(
            self, lambda ticket, inside: self._native.resume_stream(ticket, inside, on_loop=False, options=of_run)
        )
        return SyncAgentStream(native, self)

    async def restore(self, checkpoint_id: str) -> None:
        """Restore a checkpoint. Waits for earlier calls of `run`, `resume` and `restore`.

        The checkpoint's node becomes the current node, with the messages it had at that time. Later messages move to a
        branch of it, and checkpoints on that branch remain valid. Messages of the checkpoint's run that were not in the
        tree are in `restored`: the next run sees them, and `resume` continues that run.

        Args:
            checkpoint_id: The id of a checkpoint in `checkpoints`.

        Raises:
            SessionError: No checkpoint has this id, its messages were removed from the tree, or the method is called
                from inside a run of this session.

        Spec: UAP-1.0 §6.5.
        """
        if is_running(self):
            raise SessionError(_REENTRANT.format(self.id))
        check_name(checkpoint_id, "checkpoint_id")
        await self._native.restore(checkpoint_id)

    def fork(self, node_id: str) -> str:
        """Create a branch at a node. The current node does not change; use ``session.tree.checkout`` to change it.

        Args:
            node_id: The id of a node of the tree.

        Returns:
            The new node's id.

        Raises:
            KeyError: No node has this id.
        """
        return self._native.fork(node_id)

    @classmethod
    def from_json(
        cls,
        data: str | bytes | Mapping[str, Any],
        agent: Agent[GivenDepsT, GivenDataT],
        *,
        persistence: PersistenceAdapter | str | None = None,
        save_interval: SaveInterval | None = None,
        on_approval: OnApproval | None = None,
        strict: bool = False,
    ) -> Session[GivenDepsT, GivenDataT]:
        """Create a session from its JSON; its state equals that of the serialized session.

        The agent's id may differ from the serialized one, since a new agent gets a new id.

        Args:
            data: The result of `to_json` or `to_dict`.
            agent: The agent that executes the runs.
            persistence: As in `session`.
            save_interval: As in `session`.
            on_approval: As in `session`.
            strict: Whether all ids must be UUIDv4.

        Raises:
            ValidationError: The data is not JSON, is too large or too deep, or has an unknown version or an invalid
                structure; the message names the path.
        """
        _check_agent(agent)
        store, saves = store_of(persistence), save_interval_of(persistence, save_interval)
        try:
            native = _core.SessionCore.from_json(data, agent._native, store, saves, strict)
        except ValidationError:
            raise
        except (TypeError, ValueError) as error:
            # Values without a JSON form, such as NaN or an object.
            raise ValidationError(str(error)) from error
        create = cast("type[Session[GivenDepsT, GivenDataT]]", cls)
        return create(native, agent, store, on_approval, saves=saves is not None)

    @classmethod
    async def open(
        cls,
        store: PersistenceAdapter | str,
        id: str,
        agent: Agent[GivenDepsT, GivenDataT],
        *,
        metadata: Mapping[str, Any] | None = None,
        save_interval: SaveInterval | None = None,
        on_approval: OnApproval | None = None,
        checkpoints: bool = True,
        checkpoint_interval: Literal["step", "turn"] = "step",
        progress: bool = False,
    ) -> Session[GivenDepsT, GivenDataT]:
        """Load a session from a store, or create it if the store does not have it.

        The session is saved to the store after every run. A new session is in the store after its first run or `save`.

        Args:
            store: The store.
            id: The session's id, as in `session`.
            agent: The agent that executes the runs.
            metadata: As in `session`; for a new session only.
            save_interval: As in `session`.
            on_approval: As in `session`.
            checkpoints: As in `session`; for a new session only.
            checkpoint_interval: As in `session`; for a new session only.
            progress: As in `load`.

        Raises:
            CorruptDataError: As `load`.
            TypeError: An argument has the wrong type; the message names it.
            ValueError: `id` is empty, longer than 200 characters or not printable, or an interval is unknown.
        """
        _check_order(store, id)
        _check_agent(agent)
        found = await cls._find(store, id, agent, save_interval, progress)
        if found is not None:
            found._on_approval = approver("the session", on_approval)
            return found
        return session(
            agent,
            id=id,
            checkpoints=checkpoints,
            checkpoint_interval=checkpoint_interval,
            persistence=store,
            save_interval=save_interval,
            metadata=metadata,
            on_approval=on_approval,
        )

    @classmethod
    async def load(
        cls,
        adapter: PersistenceAdapter | str,
        id: str,
        agent: Agent[GivenDepsT, GivenDataT],
        *,
        save_interval: SaveInterval | None = None,
        on_approval: OnApproval | None = None,
        progress: bool = False,
    ) -> Session[GivenDepsT, GivenDataT]:
        """Load a session from a store; it is saved to the same store after every run.

        Args:
            adapter: The store.
            id: The session's id.
            agent: The agent that executes the runs.
            save_interval: As in `session`.
            on_approval: As in `session`.
            progress: Whether to show a bar while the entries of a large session are read from a store of turntree.

        Raises:
            SessionError: The store has no session with this id.
            CorruptDataError: The stored data is invalid or has another id; the message names the path and the reason.
            TypeError: `adapter` is not a store, or `id` is not text.
            ValueError: `id` is empty, longer than 200 characters or not printable.
        """
        _check_order(adapter, id)
        _check_agent(agent)
        found = await cls._find(adapter, id, agent, save_interval, progress)
        if found is None:
            message = f'no session is saved under the id "{id}"'
            raise SessionError(message)
        found._on_approval = approver("the session", on_approval)
        return found

    @classmethod
    async def _find(
        cls,
        adapter: PersistenceAdapter | str,
        id: str,
        agent: Agent[Any, Any],
        save_interval: SaveInterval | None,
        progress: bool,  # noqa: FBT001
    ) -> Session[Any, Any] | None:
        """Return the session that a store has, or None."""
        check_id(id)
        store = given_store(adapter)
        if isinstance(store, Store):
            native = await load_core(store, id, agent._native, save_interval, progress)
            return None if native is None else cls(native, agent, store)
        data = await call_store(store.load, key_of(id))
        if data is None:
            return None
        found = await parse(cls._read, data, store, id, agent, save_interval)
        if hasattr(store, "compare_and_save"):
            # Remembers the stored text, which the next save compares.
            await found._native.reload(rebase=False)
        return found

    @classmethod
    def _read(
        cls,
        data: str,
        adapter: PersistenceAdapter,
        id: str,
        agent: Agent[Any, Any],
        save_interval: SaveInterval | None,
    ) -> Session[Any, Any]:
        try:
            session = cls.from_json(data, agent, persistence=adapter, save_interval=save_interval)
        except ValidationError as error:
            message = f'session "{id}" cannot be read: {error}'
            raise CorruptDataError(message) from error
        if session.id != id:
            message = f'session "{id}" cannot be read: /id: the store returned the session "{session.id}"'
            raise CorruptDataError(message)
        return session

    def inspect(self) -> Inspector:
        """Serve a page that shows this session in a browser, as `turntree.notebook.inspect` does."""
        return inspect(self)

    def __repr__(self) -> str:
        messages, checkpoints = len(self._tree.history()), len(self.checkpoints)
        return f"Session(id={self.id!r}, messages={messages}, checkpoints={checkpoints})"

    def _repr_html_(self) -> str:
        from turntree.notebook._graph import session_html

        return session_html(self)

    def __rich_repr__(self) -> Iterable[Any]:
        yield self.id
        yield "messages", len(self._tree.history())
        yield "checkpoints", len(self.checkpoints)

    def _options_of(self, function: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the options of a run for the native core, with those of the session."""
        native = native_options(function, options) if options else None
        if self._on_approval is None:
            return native
        return {"on_approval": self._on_approval, **(native or {})}


_REENTRANT = (
    'session "{}" cannot start a run from inside its own run, since this would deadlock; use `query`, another '
    "session, or `fork`"
)


def _check_agent(agent: object, remedy: str = "agent(model=…)") -> None:
    if isinstance(agent, Agent):
        return
    is_model = isinstance(agent, (_core.ModelReference, str))
    message = f"agent must be an Agent, not {type(agent).__name__}{f'; write {remedy}' if is_model else ''}"
    raise TypeError(message)


def _check_order(adapter: object, id: object) -> None:
    """Raise an error for swapped arguments of `Session.open` and `Session.load`."""
    if isinstance(adapter, str) and hasattr(id, "load"):
        message = "the store comes before the id: write (store, id, agent)"
        raise TypeError(message)


publish(__name__, globals())
explain_attributes(Session, "SESSION")

"""Runs of a session on another node than the current one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from turntree import _core
from turntree._agent import Agent
from turntree._agent_stream import AgentStream, SyncAgentStream
from turntree._called_as import called_as
from turntree._strategies import ExecutionStrategy
from turntree.exceptions import ApprovalRequired, StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from turntree._session import Session
    from turntree._strategies import ExecutionContext
    from turntree._types import Input


def branch_run(
    session: Session[Any, Any],
    at: str | _core.ThreadNode,
    options: Mapping[str, Any],
    native: dict[str, Any] | None,
) -> BranchRun | None:
    """Return a run at the node of the argument ``at``, or None if that is the current node.

    Raises:
        TypeError: `at` is neither a node nor an id.
        KeyError: No node has this id.
    """
    node = at if isinstance(at, str) else getattr(at, "id", None)
    if not isinstance(node, str):
        message = f"at must be a node of the session's tree or the id of one, not {type(at).__name__}"
        raise TypeError(message)
    return None if node == session.tree.current.id else BranchRun(session, node, options, native)


class BranchRun:
    """One run of the session's agent with the history of a node. Its turn is appended to the node and saved.

    Streams run the agent inside an agent whose strategy is `_Inner`, so that they end after the turn is saved.
    """

    __slots__ = ("_agent", "_events", "_history", "_native", "_node", "_options", "_session")

    def __init__(
        self, session: Session[Any, Any], node: str, options: Mapping[str, Any], native: dict[str, Any] | None
    ) -> None:
        self._session = session
        self._agent = session.agent
        self._node = node
        self._history = session.tree.history(node)
        self._options: dict[str, Any] = {"on_approval": session._on_approval, **options}
        self._native = native
        self._events = False

    async def run(self, input: Input) -> _core.Turn[Any]:
        """Run and return the turn."""
        if _has_other_agent(self._agent, self._history):
            return await self._kept(await self._with_other_agent(input))
        try:
            turn: _core.Turn[Any] = await self._agent._native.run(self._history, input, None, self._native)
        except TypeError as error:
            called_as(error, "Agent.run", "Session.run")
            raise
        return await self._kept(turn)

    def run_sync(self, input: Input) -> _core.Turn[Any]:
        """Run and block until the turn is saved."""
        try:
            return self._agent._native.typed_turn(self._outer().run_sync(input))
        except TypeError as error:
            called_as(error, "Agent.run_sync", "Session.run_sync")
            raise

    def stream(self, input: Input, *, sub_agent_events: bool) -> AgentStream[Any]:
        """Run as a stream."""
        self._events = sub_agent_events
        try:
            stream = self._outer().stream(input)
        except TypeError as error:
            called_as(error, "Agent.stream", "Session.stream")
            raise
        return _BranchStream(self._agent, stream._native, self._session)

    def stream_sync(self, input: Input, *, sub_agent_events: bool) -> SyncAgentStream[Any]:
        """Run as a stream without an event loop."""
        self._events = sub_agent_events
        try:
            stream = self._outer().stream_sync(input)
        except TypeError as error:
            called_as(error, "Agent.stream_sync", "Session.stream_sync")
            raise
        return _SyncBranchStream(self._agent, stream._native, self._session)

    async def execute(self, context: ExecutionContext) -> _core.Turn[Any]:
        """Run the agent; pass on its events if the outer run is streamed."""
        has_other = _has_other_agent(self._agent, self._history)
        if not context._native.is_streamed:
            if has_other:
                return await self._kept(await self._with_other_agent(context.input))
            return await self._kept(await self._agent.run(self._history, context.input, **self._options))
        options: dict[str, Any] = {"sub_agent_events": self._events, **self._options}
        stream = (
            self._conversation().stream(context.input, **options)
            if has_other
            else self._agent.stream(self._history, context.input, **options)
        )
        async with stream:
            async for event in stream:
                await context.emit(event)
            return await self._kept(await stream.turn)

    async def _with_other_agent(self, input: Input) -> _core.Turn[Any]:
        try:
            return await self._conversation().run(input, **self._options)
        except ApprovalRequired as error:
            names = ", ".join(f"{call.tool_name} ({call.tool_call_id})" for call in error.calls)
            message = f"calls wait for approval: {names}; a run with at= cannot be resumed: decide with on_approval="
            raise ApprovalRequired(message, error.calls, error.partial) from error

    def _conversation(self) -> Session[Any, Any]:
        """Return a session for this run only: a session starts with the agent that answered last, an agent does not."""
        from turntree._session import session

        conversation = session(self._agent, checkpoints=False)
        conversation.tree.current.thread.push(*self._history)
        return conversation

    def _outer(self) -> Agent[Any, Any]:
        return Agent(model=self._options.get("model") or self._agent.model, execution=cast("Any", _Inner(self)))

    async def _kept(self, turn: _core.Turn[Any]) -> _core.Turn[Any]:
        self._session.tree[self._node].thread.append(turn)
        try:
            if self._session._saves:
                await self._session.save()
        except StoreError as error:
            error.turn = turn
            raise
        return turn


def _has_other_agent(agent: Agent[Any, Any], history: Sequence[_core.Message]) -> bool:
    """Return whether another agent than this one answered last, after a handoff."""
    if all(tool._handoff is None for tool in agent.tools):
        return False
    for message in reversed(history):
        ours: Any = (message.metadata or {}).get("turntree")
        name: Any = cast("dict[str, Any]", ours).get("agent") if isinstance(ours, dict) else None
        if isinstance(name, str):
            return name != agent.name
    return False


class _Inner(ExecutionStrategy):
    """The strategy that executes a branch run."""

    __slots__ = ("_run",)

    name = "branch"

    def __init__(self, run: BranchRun) -> None:
        self._run = run

    async def execute(self, context: ExecutionContext) -> _core.Turn[Any]:
        return await self._run.execute(context)


class _BranchStream(AgentStream[Any]):
    """A stream whose turn has data of the agent's type."""

    __slots__ = ("_agent",)

    def __init__(self, agent: Agent[Any, Any], native: Any, session: Session[Any, Any]) -> None:
        super().__init__(native, session)
        self._agent = agent

    async def _outcome(self) -> _core.Turn[Any]:
        return self._agent._native.typed_turn(await super()._outcome())


class _SyncBranchStream(SyncAgentStream[Any]):
    """A stream without an event loop whose turn has data of the agent's type."""

    __slots__ = ("_agent",)

    def __init__(self, agent: Agent[Any, Any], native: Any, session: Session[Any, Any]) -> None:
        super().__init__(native, session)
        self._agent = agent

    @property
    def turn(self) -> _core.Turn[Any]:
        """The turn. Runs to the end if the run is not over."""
        return self._agent._native.typed_turn(super().turn)

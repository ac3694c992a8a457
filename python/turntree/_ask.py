"""`ask` and `query`: run an agent in a given thread, or in a thread of its own.

Spec: UAP-1.0 §9.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic

from turntree import _core
from turntree._agent import Agent
from turntree._called_as import called_as
from turntree._core import Thread
from turntree._generics import DataT, DepsT
from turntree._public_names import publish
from turntree._run_options import RunOptions
from turntree._running_sessions import running_session
from turntree._session import Session
from turntree._types import Input
from turntree._typing import Unpack


async def ask(
    agent: Agent[DepsT, DataT],
    input: Input,
    thread: _core.Thread | None = None,
    **options: Unpack[RunOptions[DepsT]],
) -> _core.Turn[DataT]:
    """Run an agent with a thread as its history, and append the turn to the thread.

    Args:
        agent: The agent.
        input: As `Agent.run` takes it.
        thread: The history; the turn is appended to it. The thread of a tree's node is accepted. Default: a new thread.
        **options: As for `Agent.run`.

    Returns:
        The turn.

    Raises:
        UPPError: The run failed; the thread is unchanged.
        TypeError: `thread` is not a `Thread`, or an option is unknown.

    Spec: UAP-1.0 §9.1.
    """
    _check_agent("ask", agent)
    if thread is None:
        thread = Thread()
    if not isinstance(thread, Thread):
        remedy = "; write Thread(messages)" if isinstance(thread, list) else ""
        message = f"thread must be a Thread, not {type(thread).__name__}{remedy}"
        raise TypeError(message)
    try:
        turn = await agent.run(thread, input, **options)
    except TypeError as error:
        called_as(error, "Agent.run", "ask")
        raise
    thread.append(turn)
    return turn


async def query(
    agent: Agent[DepsT, DataT],
    input: Input,
    *,
    session: Session | None = None,
    **options: Unpack[RunOptions[DepsT]],
) -> QueryResult[DataT]:
    """Run an agent in a new, separate thread that the result can continue.

    Inside a run of a session (in a tool or a hook), or with `session`, the thread is stored in that session: as a node
    under the root of its tree, with the metadata ``{"kind": "query", "agentId": …}``. It is part of no other history.

    Args:
        agent: The agent.
        input: As `Agent.run` takes it.
        session: The session that stores the thread. Default: the session whose run calls this function.
        **options: As for `Agent.run`.

    Raises:
        UPPError: The run failed; nothing is stored.
        TypeError: An argument has the wrong type. The agent does not run.

    Spec: UAP-1.0 §9.2.
    """
    _check_agent("query", agent)
    home = session if session is not None else running_session()
    if home is not None and not hasattr(home, "_native"):
        message = f"session must be a Session, not {type(home).__name__}"
        raise TypeError(message)
    thread = Thread()
    try:
        turn = await ask(agent, input, thread, **options)
    except TypeError as error:
        called_as(error, "ask", "query")
        raise
    if home is not None:
        node = home._native.add_thread(thread, {"kind": "query", "agentId": agent.id})
        thread = home.tree[node].thread
    return QueryResult(agent, turn, thread)


def _check_agent(function: str, agent: object) -> None:
    name = type(agent).__name__
    if isinstance(agent, (str, _core.Message, _core.ModelReference)) or not hasattr(agent, "run"):
        message = f"agent must be an Agent, not {name}; write {function}(agent, input)"
        raise TypeError(message)


class QueryResult(Generic[DataT]):
    """The result of `query`: the turn, and the thread to continue.

    Spec: UAP-1.0 §9.2.
    """

    __slots__ = ("__weakref__", "_agent", "_thread", "_turn")

    def __init__(self, agent: Agent[Any, DataT], turn: _core.Turn[DataT], thread: _core.Thread) -> None:
        self._agent = agent
        self._turn = turn
        self._thread = thread

    @property
    def turn(self) -> _core.Turn[DataT]:
        """The turn of this query."""
        return self._turn

    @property
    def thread_id(self) -> str:
        """The id of the thread."""
        return self._thread.id

    @property
    def thread(self) -> _core.Thread:
        """The thread of the query, with all continuations."""
        return self._thread

    async def continue_(self, input: Input, **options: Unpack[RunOptions[Any]]) -> QueryResult[DataT]:
        """Run the agent again in the same thread. ``getattr(result, "continue")`` is the same method.

        Args:
            input: As `Agent.run` takes it.
            **options: As for `Agent.run`. Those of the earlier run are not repeated.

        Returns:
            A result with the same thread. Continuing an earlier result also appends at the end of the thread.

        Raises:
            UPPError: The run failed; the thread is as before.
        """
        try:
            turn = await ask(self._agent, input, self._thread, **options)
        except TypeError as error:
            called_as(error, "ask", "QueryResult.continue_")
            raise
        return QueryResult(self._agent, turn, self._thread)

    def to_dict(self) -> dict[str, Any]:
        """Return the turn and the thread as a dict with the keys of the specification.

        Spec: UAP-1.0 §9.2.
        """
        return {"turn": self._turn.to_dict(), "threadId": self.thread_id, "thread": self._thread.to_dict()}

    def to_json(self) -> str:
        """Return the turn and the thread as JSON."""
        turn, thread = self._turn.to_json(), self._thread.to_json()
        import json

        return f'{{"turn":{turn},"threadId":{json.dumps(self.thread_id)},"thread":{thread}}}'

    def __getattr__(self, name: str) -> Any:
        # The specification calls the method `continue`, which is a Python keyword.
        if name == "continue":
            return self.continue_
        message = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(message)

    def __repr__(self) -> str:
        return f"QueryResult(thread_id={self.thread_id!r}, messages={len(self._thread)})"

    def _repr_html_(self) -> str:
        from turntree.notebook._conversation import turn_html

        return turn_html(self._turn)

    def _repr_markdown_(self) -> str:
        from turntree.notebook._conversation import turn_markdown

        return turn_markdown(self._turn)

    def __rich_repr__(self) -> Iterable[Any]:
        yield self._turn
        yield "thread_id", self.thread_id
        yield "messages", len(self._thread)


publish(__name__, globals())

"""Asking agents: in a thread of the caller's, or aside. UAP-1.0 §9."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turntree._core import Thread
from turntree._session import running_session

if TYPE_CHECKING:
    from turntree import _core
    from turntree._agent import Agent
    from turntree._session import Session
    from turntree._types import Input


async def ask(agent: Agent, input: Input, thread: _core.Thread | None = None) -> _core.Turn:
    """Run an agent after what a thread says, and add the turn to the thread. UAP-1.0 §9.1.

    Args:
        agent: Who answers.
        input: As `Agent.run` takes it.
        thread: What was said before, and where the turn goes; that of a tree's node too. Default: a new one.

    Returns:
        The turn.

    Raises:
        UPPError: The run failed; the thread is as before.
        TypeError: `thread` is no thread.
    """
    if thread is None:
        thread = Thread()
    if not isinstance(thread, Thread):
        message = f"thread must be a Thread, not {type(thread).__name__}"
        raise TypeError(message)
    turn = await agent.run(thread, input)
    thread.append(turn)
    return turn


async def query(agent: Agent, input: Input, *, session: Session | None = None) -> QueryResult:
    """Ask an agent aside: in a thread of its own that can be continued and that nobody else sees. UAP-1.0 §9.2.

    Inside a run of a session (in a tool, a hook), or with `session`, the thread is kept with that session: as a node
    under the root of its tree with the metadata ``{"kind": "query", "agentId": …}``, apart from every other history.

    Args:
        agent: Who answers.
        input: As `Agent.run` takes it.
        session: Whose tree keeps the thread. Default: the session in whose run this is called.

    Raises:
        UPPError: The run failed; nothing is kept.
    """
    thread = Thread()
    turn = await ask(agent, input, thread)
    home = session if session is not None else running_session()
    if home is not None:
        node = home._native.plant(thread, {"kind": "query", "agentId": agent.id})
        thread = home.tree[node].thread
    return QueryResult(agent, turn, thread)


class QueryResult:
    """What `query` gives: the turn, and a thread to go on with. UAP-1.0 §9.2."""

    __slots__ = ("__weakref__", "_agent", "_thread", "_turn")

    def __init__(self, agent: Agent, turn: _core.Turn, thread: _core.Thread) -> None:
        self._agent = agent
        self._turn = turn
        self._thread = thread

    @property
    def turn(self) -> _core.Turn:
        """What this question brought."""
        return self._turn

    @property
    def thread_id(self) -> str:
        """The id of the thread."""
        return self._thread.id

    @property
    def thread(self) -> _core.Thread:
        """The query's thread: this question and all that continued it."""
        return self._thread

    async def continue_(self, input: Input) -> QueryResult:
        """Ask on in the same thread; ``getattr(result, "continue")`` is the same.

        Args:
            input: As `Agent.run` takes it.

        Returns:
            A result on the same thread. Continuing an earlier result goes on at the end of the thread all the same.

        Raises:
            UPPError: The run failed; the thread is as before.
        """
        return QueryResult(self._agent, await ask(self._agent, input, self._thread), self._thread)

    def to_dict(self) -> dict[str, Any]:
        """Give turn and thread as plain data, keys as UAP-1.0 §9.2 names them."""
        return {"turn": self._turn.to_dict(), "threadId": self.thread_id, "thread": self._thread.to_dict()}

    def to_json(self) -> str:
        """Give turn and thread as JSON."""
        turn, thread = self._turn.to_json(), self._thread.to_json()
        import json

        return f'{{"turn":{turn},"threadId":{json.dumps(self.thread_id)},"thread":{thread}}}'

    def __getattr__(self, name: str) -> Any:
        # The specification's name for it is a keyword of Python.
        if name == "continue":
            return self.continue_
        message = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(message)

    def __repr__(self) -> str:
        return f"QueryResult(thread_id={self.thread_id!r}, messages={len(self._thread)})"

"""Static types of sessions. Checked, never run."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from typing_extensions import assert_type

from turntree import (
    Agent,
    AgentStream,
    ApprovalRequired,
    Checkpoint,
    ExecutionState,
    PlanStep,
    QueryResult,
    Session,
    ThreadTree,
    ask,
    query,
    session,
)
from turntree.store import Store, memory
from turntree.upp import Message, Thread, ToolCall, Turn


class Files:
    """A custom store with one sync method and two async methods."""

    def save(self, key: str, data: str) -> None: ...
    async def load(self, key: str) -> str | None: ...
    async def delete(self, key: str) -> None: ...


async def sessions(helper: Agent) -> None:
    talk = session(helper, checkpoint_interval="turn", persistence=Files(), metadata={"user": "ann"})
    assert_type(talk, Session)
    assert_type(await talk.run("hi"), Turn)
    assert_type(talk.run_sync("hi"), Turn)
    assert_type(talk.stream("hi"), AgentStream)
    assert_type(talk.resume_stream(), AgentStream)
    assert_type(talk.pending, list[ToolCall])
    assert_type(talk.restored, list[Message])
    talk.approve(talk.pending[0], arguments={"n": 1})
    talk.deny("call_1", "no")
    assert_type(talk.approve_all(), list[ToolCall])
    assert_type(talk.deny_all("no"), list[ToolCall])
    assert_type(talk.discard(), bool)
    durable = session(helper, persistence=Files(), save_interval="tool")
    try:
        await durable.resume()
    except ApprovalRequired as required:
        assert_type(required.calls, list[ToolCall])
        assert_type(required.session, Session | None)
        assert_type(required.partial, Turn | None)
    assert_type(await talk.resume(), Turn)
    assert_type(await talk.restore("x"), None)
    assert_type(talk.fork("x"), str)
    assert_type(talk.tree, ThreadTree)
    assert_type(talk.checkpoints, list[Checkpoint])
    assert_type(talk.current_checkpoint, Checkpoint | None)
    assert_type(talk.state, ExecutionState | None)
    assert_type(talk.metadata, dict[str, Any])
    assert_type(talk.updated_at, datetime)
    assert_type(memory(), Store)
    assert_type(Session.from_json(talk.to_json(), helper, strict=True), Session)
    assert_type(await Session.load(memory(), talk.id, helper), Session)
    session(helper, checkpoint_interval="day")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    session(helper, persistence=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def states(checkpoint: Checkpoint) -> None:
    assert_type(checkpoint.state, ExecutionState)
    assert_type(checkpoint.timestamp, datetime)
    assert_type(checkpoint.sub_agent_states, dict[str, dict[str, Any]])
    assert_type(checkpoint.state.reasoning, list[str] | None)
    assert_type(checkpoint.state.plan, list[PlanStep] | None)


async def aside(helper: Agent) -> None:
    assert_type(await ask(helper, "hi", Thread()), Turn)
    result = await query(helper, "hi")
    assert_type(result, QueryResult)
    assert_type(await result.continue_("on"), QueryResult)
    assert_type(result.thread, Thread)

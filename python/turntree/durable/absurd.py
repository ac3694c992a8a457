"""Agents as tasks of Absurd. Requires the extra ``absurd``.

::

    from absurd_sdk import AsyncAbsurd
    from turntree.durable.absurd import DurableAgent

    app = AsyncAbsurd("postgresql://…")
    assistant = DurableAgent(agent(model=…, tools=[…]), app, name="assistant")

    handle = await assistant.start("Book a seat.")
    await app.start_worker()  # in this process or in others

Each model call and each tool call is a step of the task ``assistant``. See ``docs/durable.md``.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, cast

from turntree import _core
from turntree._public_names import set_public_module as _set_public_module
from turntree.durable._agent import Recorded, request_of
from turntree.durable._decisions import Decisions
from turntree.durable._steps import PendingCall, RetryLater, error_fields
from turntree.exceptions import ErrorCode, TurntreeError, UPPError

try:
    from absurd_sdk import AsyncAbsurd, StepHandle
except ImportError as _error:
    raise ImportError("turntree.durable.absurd needs the package absurd-sdk; install turntree[absurd]") from _error

from collections.abc import Awaitable, Callable, Mapping, Sequence

from turntree._agent import Agent
from turntree._types import History, Input
from turntree.durable._steps import InDoubt

if TYPE_CHECKING:
    from absurd_sdk import AsyncTaskContext

__all__ = ["DurableAgent", "PendingCall", "RunHandle"]

_PENDING = "turntree/pending"
_ERROR = "turntree/error"


class DurableAgent:
    """An agent whose runs are Absurd tasks.

    Create it with the same name and queue in the processes that start runs and in the workers.

    Args:
        agent: The agent. Its sub-agents need fixed names: pass ``agent.to_tool(name=…)`` among its tools.
        app: The client of Absurd. Its queue must exist.
        name: The name of the task; the names of its steps start with it.
        in_doubt: What happens to a call that was running when its process died, if its tool is not ``idempotent``:
            "ask" waits for `RunHandle.resolve`, as sessions do; "repeat" calls the tool again, as Absurd does with
            steps. With "ask", the start of each such call is recorded too.
        heartbeat: How often a run extends the claim of its worker, in seconds. The ``claim_timeout`` of the workers
            must be longer; it is also the time until a dead worker is replaced.

    Raises:
        TypeError: An argument has the wrong type, or the agent has an execution strategy that is written in Python.
        ValueError: An option is out of range, the agent has no model, or a sub-agent has no fixed name.
    """

    def __init__(
        self, agent: Agent, app: AsyncAbsurd, *, name: str, in_doubt: InDoubt = "ask", heartbeat: float = 10.0
    ) -> None:
        if not isinstance(app, AsyncAbsurd):
            message = f"app must be an AsyncAbsurd, not {type(app).__name__}"
            raise TypeError(message)
        if not heartbeat > 0:
            message = f"heartbeat must be positive, not {heartbeat}"
            raise ValueError(message)
        self._recorded = Recorded(agent, name, in_doubt)
        self._app = app
        self._heartbeat = heartbeat
        self.name: str = name
        app.register_task(name)(self._execute)

    @property
    def agent(self) -> Agent:
        """The agent that the task runs: a copy that records its calls."""
        return self._recorded.agent

    async def run(self, input: Input, *, history: History | None = None, id: str | None = None) -> _core.Turn:
        """Start a run and wait for its turn. A worker of the queue executes it.

        Args:
            input: As `Agent.run` takes it.
            history: The earlier messages.
            id: An idempotency key: if a run with this key exists, it is not started again.

        Raises:
            UPPError: The model call failed, and Absurd has given the task up; or the run was cancelled.
            TurntreeError: The run failed for another reason.
        """
        return await (await self.start(input, history=history, id=id)).turn()

    async def start(self, input: Input, *, history: History | None = None, id: str | None = None) -> RunHandle:
        """Put a run into the queue and return at once.

        Args:
            input: As `Agent.run` takes it.
            history: The earlier messages.
            id: An idempotency key: if a run with this key exists, it is not started again.
        """
        request = {"request": request_of(input, history)}
        spawned = await self._app.spawn(self.name, request, idempotency_key=id)
        return RunHandle(self._recorded, self._app, str(spawned["task_id"]))

    async def handle(self, id: str) -> RunHandle:
        """Return the handle of a run that was started earlier, in any process.

        Args:
            id: The id of the task: `RunHandle.id`.

        Raises:
            KeyError: There is no task with this id.
        """
        if await self._app.fetch_task_result(id) is None:
            message = f"there is no task {id!r} in the queue"
            raise KeyError(message)
        return RunHandle(self._recorded, self._app, id)

    async def _execute(self, params: Any, context: AsyncTaskContext) -> Any:
        engine = _Engine(context)
        run = asyncio.create_task(self._recorded.execute(engine, str(context.task_id), params["request"]))
        beat = asyncio.create_task(_extend_claim(context, self._heartbeat))
        try:
            await asyncio.wait({run, beat}, return_when=asyncio.FIRST_COMPLETED)
            if not run.done():
                # The claim is lost or the task is cancelled: raises the exception that says so.
                await beat
            return await run
        except UPPError as error:
            fields = json.dumps(error_fields(error))
            await context.complete_step(StepHandle(_ERROR, _ERROR, done=False), fields)
            raise
        finally:
            run.cancel()
            beat.cancel()
            await asyncio.gather(run, beat, return_exceptions=True)

    def __repr__(self) -> str:
        return f"DurableAgent(name={self.name!r}, agent={self.agent!r})"


class RunHandle(Decisions):
    """A run of a `DurableAgent`. Created by `DurableAgent.start` and `DurableAgent.handle`."""

    def __init__(self, recorded: Recorded, app: AsyncAbsurd, id: str) -> None:
        self._recorded = recorded
        self._app = app
        self.id: str = id
        """The id of the task."""

    async def status(self) -> str:
        """Return the state: ``pending``, ``running``, ``sleeping``, ``completed``, ``failed`` or ``cancelled``.

        A run that waits for decisions is ``sleeping``.
        """
        found = await self._app.fetch_task_result(self.id)
        return "unknown" if found is None else found.state

    async def turn(self) -> _core.Turn:
        """Wait for the turn.

        Raises:
            UPPError: The model call failed, and Absurd has given the task up; or the run was cancelled.
            TurntreeError: The run failed for another reason.
        """
        final = await self._app.await_task_result(self.id)
        if final.state == "completed":
            return self._recorded.turn(str(final.result))
        if final.state == "cancelled":
            message = f"the run {self.id} was cancelled"
            raise UPPError(message, ErrorCode.CANCELLED)
        if (text := await self._checkpoint(_ERROR)) is not None:
            raise UPPError(**json.loads(text))
        failure = cast("Mapping[str, Any]", final.failure if isinstance(final.failure, dict) else {})
        message = f"the run {self.id} failed: {failure.get('name')}: {failure.get('message')}"
        raise TurntreeError(message)

    async def pending(self) -> list[PendingCall]:
        """Return the tool calls that wait for a decision of the application. The run continues after the decisions."""
        waiting = json.loads(await self._checkpoint(_PENDING) or "{}")
        if await self.status() != "sleeping":
            return []
        return [PendingCall(**call) for call in waiting.get("calls", ())]

    async def cancel(self) -> None:
        """Cancel the run. A worker that executes it stops at its next step or heartbeat."""
        await self._app.cancel_task(self.id)

    async def _send(self, key: str, decision: str) -> None:
        waiting = json.loads(await self._checkpoint(_PENDING) or "{}")
        event = _event(self.id, key, waiting.get("rounds", {}).get(key, 0))
        await self._app.emit_event(event, decision)

    async def _checkpoint(self, name: str) -> str | None:
        # The client has no function for it.
        await self._app._ensure_connected()  # pyright: ignore[reportPrivateUsage]
        connection = self._app._conn  # pyright: ignore[reportPrivateUsage]
        queue = self._app._queue_name  # pyright: ignore[reportPrivateUsage]
        assert connection is not None
        cursor = await connection.execute(
            "SELECT state FROM absurd.get_task_checkpoint_state(%s, %s, %s)", (queue, self.id, name)
        )
        row = await cursor.fetchone()
        return None if row is None else str(row[0])

    def __repr__(self) -> str:
        return f"RunHandle(id={self.id!r})"


class _Engine:
    """One execution of a task. Absurd finds the records of steps by their names."""

    def __init__(self, context: AsyncTaskContext) -> None:
        self._context = context
        self._handles: dict[str, StepHandle] = {}
        self._rounds: dict[str, int] = {}

    async def _handle(self, name: str) -> StepHandle:
        # A second `begin_step` of one name would begin another step.
        if (handle := self._handles.get(name)) is None:
            handle = self._handles[name] = await self._context.begin_step(name)
        return handle

    async def lookup(self, name: str) -> str | None:
        handle = await self._handle(name)
        return cast("str", handle.state) if handle.done else None

    async def step(self, name: str, function: Callable[[], Awaitable[str]]) -> str:
        handle = await self._handle(name)
        if handle.done:
            return cast("str", handle.state)
        try:
            record = await function()
        except RetryLater as later:
            # Absurd repeats the task.
            raise later from later.error
        return await self._context.complete_step(handle, record)

    async def wait(self, calls: Sequence[PendingCall], rounds: int) -> Sequence[str]:
        del rounds
        numbers = {call.key: self._rounds.get(call.key, 0) for call in calls}
        waiting = json.dumps({"calls": [call.to_dict() for call in calls], "rounds": numbers})
        await self._context.complete_step(StepHandle(_PENDING, _PENDING, done=False), waiting)
        call = calls[0]
        # Suspends the task by an exception if there is no decision. Its next execution comes here again.
        decided = await self._context.await_event(_event(str(self._context.task_id), call.key, numbers[call.key]))
        self._rounds[call.key] = numbers[call.key] + 1
        return [cast("str", decided)]


def _event(id: str, key: str, number: int) -> str:
    """Return the name of the event with the decision about a call. Absurd keeps the first event of a name only."""
    return f"turntree/{id}/{key}/{number}"


async def _extend_claim(context: AsyncTaskContext, interval: float) -> None:
    while True:
        await asyncio.sleep(interval)
        await context.heartbeat()


_set_public_module(__name__, globals())

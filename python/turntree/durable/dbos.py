"""Agents as workflows of DBOS. Requires the extra ``dbos``.

::

    from dbos import DBOS
    from turntree.durable.dbos import DurableAgent

    DBOS(config={"name": "shop", "system_database_url": "postgresql://…"})
    assistant = DurableAgent(agent(model=…, tools=[…]), name="assistant")
    DBOS.launch()  # continues the runs of processes that have died

    turn = await assistant.run("Book a seat.")

Each model call and each tool call is a step of the workflow ``assistant``. See ``docs/durable.md``.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, cast

from turntree import _core
from turntree._agent import Agent
from turntree._public_names import set_public_module as _set_public_module
from turntree._types import History, Input
from turntree.durable._agent import Recorded, request_of
from turntree.durable._decisions import Decisions
from turntree.durable._steps import InDoubt, PendingCall, RetryLater

try:
    from dbos import DBOS, SetWorkflowID, StepInfo, StepOptions, WorkflowHandleAsync
except ImportError as _error:
    raise ImportError("turntree.durable.dbos needs the package dbos; install turntree[dbos]") from _error

__all__ = ["DurableAgent", "PendingCall", "RunHandle"]

_DECISIONS = "turntree.decisions"
_PENDING = "turntree.pending"
# A wait is repeated after this time.
_WAIT_SECONDS = 86_400.0
_NEEDED = "reserve_step"


class DurableAgent:
    """An agent whose runs are DBOS workflows.

    Create it before ``DBOS.launch()``, under the same name in all processes: DBOS continues a run by the name of its
    workflow.

    Args:
        agent: The agent. Its sub-agents need fixed names: pass ``agent.to_tool(name=…)`` among its tools.
        name: The name of the workflow; the names of its steps start with it.
        in_doubt: What happens to a call that was running when its process died, if its tool is not ``idempotent``:
            "ask" waits for `RunHandle.resolve`, as sessions do; "repeat" calls the tool again, as DBOS does with
            steps. With "ask", the start of each such call is recorded too.
        max_attempts: How often a model call is tried that fails with RATE_LIMITED, NETWORK_ERROR, TIMEOUT or
            PROVIDER_ERROR.
        interval: Seconds before the second attempt.
        backoff: The factor of each further pause.

    Raises:
        ImportError: DBOS is too old.
        TypeError: An argument has the wrong type, or the agent has an execution strategy that is written in Python.
        ValueError: An option is out of range, the agent has no model, or a sub-agent has no fixed name.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        name: str,
        in_doubt: InDoubt = "ask",
        max_attempts: int = 3,
        interval: float = 1.0,
        backoff: float = 2.0,
    ) -> None:
        if not hasattr(DBOS, _NEEDED):
            message = "turntree.durable.dbos needs dbos 3.4 or newer; install turntree[dbos]"
            raise ImportError(message)
        if max_attempts < 1 or not interval >= 0 or not backoff >= 1:
            message = (
                "max_attempts and backoff must be at least 1 and interval not negative; "
                f"got {max_attempts}, {backoff} and {interval}"
            )
            raise ValueError(message)
        self._recorded = Recorded(agent, name, in_doubt)
        self._retries = StepOptions(
            retries_allowed=max_attempts > 1,
            max_attempts=max_attempts,
            interval_seconds=interval,
            backoff_rate=backoff,
            should_retry=_is_retryable,
            preemptible=True,
        )
        self.name: str = name

        async def execute(request: str) -> str:
            id = cast("str", DBOS.workflow_id)
            engine = _Engine(await _steps_of(id), self._retries, max_attempts)
            return await self._recorded.execute(engine, id, request)

        self._workflow: Callable[[str], Coroutine[Any, Any, str]] = DBOS.workflow(name=name)(execute)

    @property
    def agent(self) -> Agent:
        """The agent that the workflow runs: a copy that records its calls."""
        return self._recorded.agent

    async def run(self, input: Input, *, history: History | None = None, id: str | None = None) -> _core.Turn:
        """Run the agent as a workflow and wait for its turn.

        Inside another workflow, the run is a child workflow.

        Args:
            input: As `Agent.run` takes it.
            history: The earlier messages.
            id: The id of the workflow. A workflow that exists is not started again. Default: a new one.

        Raises:
            UPPError: As `Agent.run`.
        """
        return await (await self.start(input, history=history, id=id)).turn()

    async def start(self, input: Input, *, history: History | None = None, id: str | None = None) -> RunHandle:
        """Start a run in this process and return at once.

        Args:
            input: As `Agent.run` takes it.
            history: The earlier messages.
            id: The id of the workflow. A workflow that exists is not started again. Default: a new one.
        """
        request = request_of(input, history)
        if id is None:
            return RunHandle(self._recorded, await DBOS.start_workflow_async(self._workflow, request))
        with SetWorkflowID(id):
            return RunHandle(self._recorded, await DBOS.start_workflow_async(self._workflow, request))

    async def handle(self, id: str) -> RunHandle:
        """Return the handle of a run that was started earlier, in any process.

        Raises:
            DBOSNonExistentWorkflowError: There is no workflow with this id.
        """
        found: WorkflowHandleAsync[Any] = await DBOS.retrieve_workflow_async(id)
        return RunHandle(self._recorded, found)

    def __repr__(self) -> str:
        return f"DurableAgent(name={self.name!r}, agent={self.agent!r})"


class RunHandle(Decisions):
    """A run of a `DurableAgent`. Created by `DurableAgent.start` and `DurableAgent.handle`."""

    def __init__(self, recorded: Recorded, workflow: WorkflowHandleAsync[str]) -> None:
        self._recorded = recorded
        self._workflow = workflow

    @property
    def id(self) -> str:
        """The id of the workflow."""
        return self._workflow.workflow_id

    async def status(self) -> str:
        """Return the status of the workflow, such as ``PENDING``, ``SUCCESS``, ``ERROR`` or ``CANCELLED``."""
        return (await self._workflow.get_status()).status

    async def turn(self) -> _core.Turn:
        """Wait for the turn.

        Raises:
            UPPError: The model call failed.
            DBOSAwaitedWorkflowCancelledError: The run was cancelled.
        """
        return self._recorded.turn(await self._workflow.get_result())

    async def pending(self) -> list[PendingCall]:
        """Return the tool calls that wait for a decision of the application. The run continues after the decisions."""
        text = await DBOS.get_event_async(self.id, _PENDING, timeout_seconds=0)
        return [PendingCall(**call) for call in json.loads(text or "[]")]

    async def cancel(self) -> None:
        """Cancel the run: the running model call and async tools are cancelled, and no step starts any more."""
        await DBOS.cancel_workflow_async(self.id)

    async def _send(self, key: str, decision: str) -> None:
        await DBOS.send_async(self.id, decision, topic=_DECISIONS)

    def __repr__(self) -> str:
        return f"RunHandle(id={self.id!r})"


class _Engine:
    """One execution of a workflow.

    DBOS numbers the steps of a workflow in the order in which they start, and finds the record of a step by its
    number. Tool calls and sub-agents that run concurrently start in a different order each time. So the recorded
    steps are read at the start, found by their names, and their numbers are skipped: new steps get the numbers after
    them.
    """

    def __init__(self, recorded: Sequence[StepInfo], options: StepOptions, max_attempts: int) -> None:
        self._records: dict[str, str] = {}
        self._errors: dict[str, Exception] = {}
        self._decisions: list[str] = []
        self._options = options
        self._max_attempts = max_attempts
        for step in recorded:
            name, output, error = step["function_name"], step["output"], step["error"]
            if error is not None:
                self._errors[name] = error
            elif name == "DBOS.recv" and output is not None:
                self._decisions.append(output)
            elif isinstance(output, str):
                self._records[name] = output
        last = max((step["function_id"] for step in recorded), default=0)
        while last > 0 and DBOS.reserve_step().step_id < last:
            pass

    async def lookup(self, name: str) -> str | None:
        return self._records.get(name)

    async def step(self, name: str, function: Callable[[], Awaitable[str]]) -> str:
        if (record := self._records.get(name)) is not None:
            return record
        if (error := self._errors.get(name)) is not None:
            raise error
        attempts = 0

        async def attempt() -> str:
            nonlocal attempts
            attempts += 1
            try:
                return await function()
            except RetryLater as later:
                if attempts < self._max_attempts:
                    raise
                if later.final is None:
                    raise later.error from None
                return later.final

        options: StepOptions = {**self._options, "name": name}
        return await DBOS.run_step_async(options, attempt)

    async def wait(self, calls: Sequence[PendingCall], rounds: int) -> Sequence[str]:
        if self._decisions:
            decisions, self._decisions = self._decisions, []
            return decisions
        await DBOS.set_event_async(_PENDING, json.dumps([call.to_dict() for call in calls]))
        text = None
        while text is None:
            text = await DBOS.recv_async(_DECISIONS, timeout_seconds=_WAIT_SECONDS)
        decided = json.loads(text)["call"]
        await DBOS.set_event_async(_PENDING, json.dumps([call.to_dict() for call in calls if call.key != decided]))
        return [text]


async def _steps_of(id: str) -> list[StepInfo]:
    """Return the recorded steps of a workflow. Called outside of it, so that the call is not a step itself."""
    start = asyncio.get_running_loop().create_task
    return await contextvars.Context().run(start, DBOS.list_workflow_steps_async(id))


def _is_retryable(error: BaseException) -> bool:
    return isinstance(error, RetryLater)


_set_public_module(__name__, globals())

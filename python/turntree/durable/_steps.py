"""The core that all durable engines share: one execution of a run, whose model calls and tool calls are recorded steps.

An execution starts at the input. Steps that an earlier execution has recorded return their recorded results, so the run
reaches the point where that execution has ended, and continues there. Ids are computed from the id of the run, and
times are part of the records: the turn is the same, however often the run was interrupted.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Literal, Protocol

from turntree import _core
from turntree.exceptions import ErrorCode, UPPError

InDoubt = Literal["ask", "repeat"]

current_run: ContextVar[Run | None] = ContextVar("turntree_durable_run", default=None)
"""The run that contains the current code."""

RETRYABLE = frozenset({ErrorCode.RATE_LIMITED, ErrorCode.NETWORK_ERROR, ErrorCode.TIMEOUT, ErrorCode.PROVIDER_ERROR})
"""The errors of model calls that the retries of the engine may repeat."""

_RESPONSE = ',"response":'

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class PendingCall:
    """A tool call that waits for a decision of the application.

    Attributes:
        key: Identifies the call among all calls of all runs: its `ToolContext.idempotency_key`.
        tool_name: The name of the tool.
        arguments: The arguments that the tool would receive.
        reason: ``approval``: the tool requires approval. ``in_doubt``: the process died during the call, which may have
            been executed or not.
    """

    key: str
    tool_name: str
    arguments: dict[str, Any]
    reason: Literal["approval", "in_doubt"]

    def to_dict(self) -> dict[str, Any]:
        """Return the call as plain data."""
        return asdict(self)


class RetryLater(Exception):
    """A step failed with an error that a repetition may not have.

    Attributes:
        error: The error.
        final: The record of the error, for the last attempt; None if the error cannot be recorded.
    """

    def __init__(self, error: Exception, final: str | None) -> None:
        super().__init__(str(error))
        self.error = error
        self.final = final


class Engine(Protocol):
    """What a durable engine does for one execution of a run. Names of steps are unique within a run."""

    async def lookup(self, name: str) -> str | None:
        """Return the record of a step; None if there is none."""
        ...

    async def step(self, name: str, function: Callable[[], Awaitable[str]]) -> str:
        """Return the record of a step. If there is none, call the function and record what it returns.

        The function may raise `RetryLater`. An engine that repeats single steps does so, and records `RetryLater.final`
        after the last attempt. Other engines raise it, and the run is repeated later.
        """
        ...

    async def wait(self, calls: Sequence[PendingCall], rounds: int) -> Sequence[str]:
        """Wait until the application has decided about at least one of the calls; return decisions as JSON texts.

        Decisions are recorded: a repeated execution receives the same ones. `rounds` counts the earlier waits.
        """
        ...


class RecordedTool(Protocol):
    """A tool whose calls are recorded."""

    name: str
    idempotent: bool
    path: str
    """The name that the names of the steps of its calls start with."""

    async def execute(self, arguments: dict[str, Any], context: _core.ToolContext) -> Any:
        """Call the function of the tool."""
        ...

    async def ask(self, arguments: dict[str, Any]) -> bool | Literal["ask"]:
        """Call the approval function of the tool."""
        ...


class Run:
    """One execution of a run.

    Args:
        engine: The engine.
        in_doubt: What happens to a call that was running when its process died, if its tool is not idempotent.
        agent_id: The id of the agent.
    """

    def __init__(self, engine: Engine, in_doubt: InDoubt, agent_id: str) -> None:
        self._engine = engine
        self._agent_id = agent_id
        self._in_doubt: InDoubt = in_doubt
        self._records: dict[str, str] = {}
        self._uses: dict[str, int] = {}
        self._started: set[str] = set()
        self._decisions: dict[str, list[dict[str, Any]]] = {}
        self._pending: dict[str, tuple[int, PendingCall]] = {}
        self._failure: BaseException | None = None
        self._model_started: dict[str, int] = {}
        # The places of the calls in the responses of models.
        self._places: dict[str, int] = {}
        self._tools: dict[str, list[dict[str, Any]]] = {}

    async def complete(self, start: Callable[[], Awaitable[_core.Turn]]) -> dict[str, Any]:
        """Execute the run until it ends, and return the turn as plain data.

        Calls that need a decision stop the run. After the decisions the run is repeated, and returns the recorded
        results up to the calls.
        """
        rounds = 0
        while True:
            self._uses.clear()
            self._pending.clear()
            self._tools.clear()
            turn, error = await self._attempt(start)
            if self._failure is not None:
                raise self._failure
            if self._pending:
                await self._decide(rounds)
                rounds += 1
            elif turn is not None:
                return self._with_recorded_times(turn.model_dump(mode="json"))
            elif error is not None:
                raise error

    async def _attempt(self, start: Callable[[], Awaitable[_core.Turn]]) -> tuple[_core.Turn | None, Exception | None]:
        token = current_run.set(self)
        try:
            return await start(), None
        except Exception as error:
            return None, error
        finally:
            current_run.reset(token)

    async def _decide(self, rounds: int) -> None:
        in_order = sorted(self._pending.items(), key=lambda item: item[1][0])
        missing = {key: call for key, (_, call) in in_order}
        while missing:
            for text in await self._engine.wait(list(missing.values()), rounds):
                decision = json.loads(text)
                if missing.pop(decision["call"], None) is not None:
                    self._decisions.setdefault(decision["call"], []).append(decision)

    async def record(self, name: str, function: Callable[[], Awaitable[str]]) -> str:
        """Return the record of a step, from this or an earlier execution, or make it."""
        if (known := self._records.get(name)) is not None:
            return known
        if self._failure is not None:
            raise _stopped(self._failure) from self._failure
        try:
            record = await self._engine.step(name, function)
        except asyncio.CancelledError:
            raise
        except RetryLater as later:
            self._failure = later.error
            raise later.error from None
        except BaseException as error:
            # Of the engine: the run cannot continue, whatever its hooks do with the exception.
            self._failure = error
            raise
        self._records[name] = record
        return record

    async def _known(self, name: str) -> str | None:
        if (known := self._records.get(name)) is None:
            known = await self._engine.lookup(name)
            if known is not None:
                self._records[name] = known
        return known

    async def model_call(self, path: str, call: _core.ModelCall) -> str:
        """Return the response to a model call, as `ModelCall.run` does."""
        if self._pending:
            # A sub-agent has stopped. Its calling run stops too, before the model sees an error result.
            message = "tool calls wait for a decision"
            raise UPPError(message, ErrorCode.CANCELLED)
        name = self._unique(f"{path}/model/{call.last_message_id or 'start'}")
        raised: Exception | None = None

        async def function() -> str:
            nonlocal raised
            started = _now()
            try:
                return f'{{"started":{started}{_RESPONSE}{await call.run()}}}'
            except UPPError as error:
                raised = error
                record = json.dumps({"started": started, "error": error_fields(error)})
                if error.code in RETRYABLE:
                    raise RetryLater(error, record) from error
                return record
            except Exception as error:
                raise RetryLater(error, None) from error

        record = await self.record(name, function)
        fields = json.loads(record)
        if "error" in fields:
            raise raised or UPPError(**fields["error"])
        message = fields["response"]["message"]
        self._model_started[message["id"]] = fields["started"]
        for tool_call in message.get("toolCalls") or ():
            self._places[tool_call["toolCallId"]] = len(self._places)
        # The text of the response is not parsed and written again: its numbers stay as they are.
        return record[record.index(_RESPONSE) + len(_RESPONSE) : -1]

    def _unique(self, name: str) -> str:
        uses = self._uses.get(name, 0) + 1
        self._uses[name] = uses
        return name if uses == 1 else f"{name}/{uses}"

    async def approve(
        self, tool: RecordedTool, arguments: dict[str, Any], context: _core.ToolContext
    ) -> bool | Literal["ask"]:
        """Return whether a call is approved; ``"ask"`` stops the run until there is a decision."""
        key = context.idempotency_key
        for decision in self._decisions.get(key, ()):
            if decision["kind"] in ("approve", "deny"):
                return bool(decision["kind"] == "approve")
        name = f"{tool.path}/{key}/approval"
        record = await self._known(name)
        if record is None:
            answer = json.dumps(await tool.ask(arguments))

            async def function() -> str:
                return answer

            record = await self.record(name, function)
        approved = json.loads(record)
        if approved == "ask":
            self._stop_for(PendingCall(key, tool.name, arguments, "approval"), context)
            return "ask"
        return bool(approved)

    async def tool_call(self, tool: RecordedTool, arguments: dict[str, Any], context: _core.ToolContext) -> Any:
        """Return the result of a tool call, or raise its error."""
        key = context.idempotency_key
        name = f"{tool.path}/{key}"
        raised: Exception | None = None

        async def function() -> str:
            nonlocal raised
            began = time.perf_counter()
            outcome: dict[str, Any]
            try:
                outcome = {"result": jsonable(await tool.execute(arguments, context))}
            except Exception as error:
                raised = error
                outcome = {"error": {"type": type(error).__name__, "message": str(error)}}
            duration = round((time.perf_counter() - began) * 1000)
            return json.dumps({"at": _now(), "duration": duration, **outcome})

        record = await self._known(name)
        if record is None:
            settled: Callable[[], Awaitable[str]] | None = None
            if not tool.idempotent and self._in_doubt == "ask":
                settled = await self._mark_started(name, PendingCall(key, tool.name, arguments, "in_doubt"), context)
            record = await self.record(name, settled or function)
        fields = json.loads(record)
        if context.agent_id == self._agent_id:
            self._tools.setdefault(context.tool_call_id, []).append(fields)
        if "error" in fields:
            raise raised or _tool_error(**fields["error"])
        return fields["result"]

    def _stop_for(self, call: PendingCall, context: _core.ToolContext) -> None:
        self._pending[call.key] = (self._places.get(context.tool_call_id, 0), call)

    async def _mark_started(
        self, name: str, call: PendingCall, context: _core.ToolContext
    ) -> Callable[[], Awaitable[str]] | None:
        """Record that a call starts. Return a function with the result of a call in doubt that has been resolved.

        Raises:
            RuntimeError: The call is in doubt.
        """
        resolutions = [item for item in self._decisions.get(call.key, ()) if item["kind"] not in ("approve", "deny")]
        if resolutions and resolutions[-1]["kind"] != "retry":
            outcome = {resolutions[-1]["kind"]: resolutions[-1]["value"]}

            async def settled() -> str:
                return json.dumps({"at": _now(), "duration": 0, **outcome})

            return settled
        # Each repetition has a mark of its own: if its process dies too, the call is in doubt again.
        mark = f"{name}/started/{len(resolutions)}"
        if mark not in self._started and await self._known(mark) is not None:
            self._stop_for(call, context)
            message = f"the call of tool '{call.tool_name}' is in doubt"
            raise RuntimeError(message)

        async def function() -> str:
            return json.dumps(_now())

        await self.record(mark, function)
        self._started.add(mark)
        return None

    def _with_recorded_times(self, turn: dict[str, Any]) -> dict[str, Any]:
        """Return the turn with the times of the records, and its executions in the order of the calls."""
        messages, executions = turn["messages"], list(turn["toolExecutions"])
        ordered: list[dict[str, Any]] = []
        for index, message in enumerate(messages):
            if index == 0 or message["type"] != "tool_result":
                continue
            calls = [result["toolCallId"] for result in message["results"]]
            records = {id: self._tools[id].pop(0) for id in calls if self._tools.get(id)}
            following = messages[index + 1]["id"] if index + 1 < len(messages) else ""
            began = _milliseconds(messages[index - 1]["timestamp"])
            ended = self._model_started.get(following, max([began, *(record["at"] for record in records.values())]))
            message["timestamp"] = _timestamp(ended)
            # One round: as many executions as calls, in the order in which they ended.
            of_round, executions = executions[: len(calls)], executions[len(calls) :]
            of_round.sort(key=lambda execution: calls.index(execution["toolCallId"]))
            for execution in of_round:
                if (record := records.get(execution["toolCallId"])) is not None:
                    execution["duration"] = record["duration"]
                else:
                    # A sub-agent, whose own steps are recorded; or a call that was not made, which is an error.
                    execution["duration"] = 0 if execution["isError"] else max(0, ended - began)
            ordered += of_round
        return {**turn, "toolExecutions": [*ordered, *executions]}


def jsonable(value: Any) -> Any:
    """Return a tool's result as JSON data, as the native core converts it.

    Raises:
        TypeError: The value is not JSON data; the message names the path.
    """
    return json.loads(_core.ToolResult("", value).model_dump_json())["result"]


def error_fields(error: UPPError) -> dict[str, Any]:
    """Return the arguments of an equal error."""
    return {
        "message": error.message,
        "code": error.code.value,
        "provider": error.provider,
        "modality": error.modality,
        "status_code": error.status_code,
        "retry_after": error.retry_after,
        "request_id": error.request_id,
        "cause": None if error.cause is None else str(error.cause),
    }


def _tool_error(type: str, message: str) -> Exception:
    """Return an exception that the native core treats as the recorded one: of a type with this name."""
    import builtins

    known = getattr(builtins, type, None)
    if isinstance(known, builtins.type) and issubclass(known, Exception):
        try:
            error = known(message)
        except TypeError:
            error = None
        if error is not None and str(error) == message:
            return error
    recorded: builtins.type[Exception] = builtins.type(type, (Exception,), {"__module__": "turntree.durable"})
    return recorded(message) if message else recorded()


def _stopped(failure: BaseException) -> UPPError:
    return UPPError(f"the run has stopped: {failure}", ErrorCode.CANCELLED)


def _now() -> int:
    return time.time_ns() // 1_000_000


def _milliseconds(timestamp: str) -> int:
    moment = datetime.fromisoformat(timestamp.replace("Z", "+00:00"))
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def _timestamp(milliseconds: int) -> str:
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

"""Events of agents, and the plain data of their state."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, final

from typing_extensions import Self

from turntree._core._data import Data
from turntree._core._messages import Message
from turntree._core._stream_events import StreamEvent

@final
class PlanStep(Data):
    """A step of a plan.

    Args:
        id: Unique in its plan.
        description: The task of the step.
        tool: The tool for the step, if the plan names one.
        depends_on: The ids of the steps that must be completed before.
        status: The status of the step.

    Raises:
        ValueError: The status is unknown.

    Spec: UAP-1.0 §13.4.
    """

    def __new__(
        cls,
        id: str,
        description: str,
        tool: str | None = None,
        depends_on: list[str] = ...,
        status: Literal["pending", "in_progress", "completed", "failed"] = "pending",
    ) -> Self: ...
    @property
    def id(self) -> str:
        """The id, unique in its plan."""

    @property
    def description(self) -> str:
        """The task of the step."""

    @property
    def tool(self) -> str | None:
        """The tool for the step, if the plan names one."""

    @property
    def depends_on(self) -> list[str]:
        """The ids of the steps that must be completed before."""

    @property
    def status(self) -> Literal["pending", "in_progress", "completed", "failed"]:
        """The status of the step."""

@final
class ExecutionState(Data):
    """The state of a run that hooks and stop conditions receive, at the time of the call.

    Spec: UAP-1.0 §5.1, §13.4.
    """

    def __new__(cls, **fields: Any) -> Self: ...
    @property
    def step(self) -> int:
        """The current step, from 1."""

    @property
    def messages(self) -> Sequence[Message]:
        """The input, followed by all new messages, in order.

        A hook receives a tuple, because it cannot change the messages of an active run; a checkpoint returns a new
        list.
        """

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the run, JSON data.

        A hook receives the run's own dict: values that hooks and tools add are present in all later steps, in
        checkpoints, and when the run is resumed. A run starts with an empty dict.
        """

    @property
    def reasoning(self) -> list[str] | None:
        """The reasoning of the model, one text per step; None if the strategy has no reasoning phase."""

    @property
    def plan(self) -> list[PlanStep] | None:
        """The steps of the plan; None if the strategy creates none."""

@final
class Checkpoint(Data):
    """A point of a run that a session can be restored to. Created by sessions.

    Spec: UAP-1.0 §6.4, §13.3.
    """

    def __new__(cls, **fields: Any) -> Self: ...
    @property
    def id(self) -> str:
        """The id: a UUIDv4, or any text if the session was read from JSON."""

    @property
    def session_id(self) -> str:
        """The id of the session."""

    @property
    def timestamp(self) -> datetime:
        """When the checkpoint was created, in UTC."""

    @property
    def step(self) -> int:
        """The step of the run. Each run counts from 1."""

    @property
    def thread_id(self) -> str:
        """The id of the node that the run started from."""

    @property
    def state(self) -> ExecutionState:
        """The state of the run."""

    @property
    def sub_agent_states(self) -> dict[str, dict[str, Any]]:
        """The sessions of the run's sub-agents as plain data, by tool call id. ``Session.from_json`` reads one."""

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the checkpoint, as a new dict."""

@final
class UapEvent(Data):
    """An event of an agent.

    ==================  ============================================================================
    `type`              `data`
    ==================  ============================================================================
    ``step_start``      ``{"stepNumber"}``; ``"stepId"`` if the step has an id; ``"planStepId"``, ``"plan"`` with `plan`
    ``step_end``        ``{"stepNumber", "usage"}`` and the ids; the usage of this step alone
    ``reasoning``       ``{"text"}``
    ``action``          ``{"toolCalls"}``: calls as dicts
    ``observation``     ``{"results"}``: results as dicts, in the order of the calls
    ``checkpoint``      ``{"checkpointId"}``
    ==================  ============================================================================

    Spec: UAP-1.0 §12.2.
    """

    def __new__(cls, **fields: Any) -> Self: ...
    @property
    def type(self) -> Literal["step_start", "step_end", "reasoning", "action", "observation", "checkpoint"]:
        """The type of the event, such as ``step_start``."""

    @property
    def step(self) -> int:
        """The step, from 1."""

    @property
    def agent_id(self) -> str:
        """The id of the agent, a UUIDv4."""

    @property
    def data(self) -> dict[str, Any]:
        """The data of the event, with the keys of the specification."""

@final
class AgentStreamEvent(Data):
    """One event of a streamed run: of the agent, of the model or of a tool.

    Exactly one of `uap` and `upp` is set::

        if event.upp and event.upp.type == "text_delta":
            print(event.upp.delta["text"], end="")

    Spec: UAP-1.0 §12.2.
    """

    def __new__(cls, **fields: Any) -> Self: ...
    @property
    def source(self) -> Literal["uap", "upp"]:
        """The source of the event: "uap" for the agent, "upp" for the model or a tool."""

    @property
    def uap(self) -> UapEvent | None:
        """The event of the agent, or None."""

    @property
    def upp(self) -> StreamEvent | None:
        """The event of the model or a tool, or None."""

    @property
    def sub_agent(self) -> SubAgentRun | None:
        """The sub-agent run that the event belongs to, or None. Set only with ``sub_agent_events=True``."""

@final
class SubAgentRun(Data):
    """One run of an agent as a tool of another agent. Part of events.

    Spec: UAP-1.0 §8.4.
    """

    def __new__(cls, **fields: Any) -> Self: ...
    @property
    def agent_id(self) -> str:
        """The id of the agent, a UUIDv4."""

    @property
    def turn_id(self) -> str:
        """The id of this run, a UUIDv4."""

    @property
    def parent_agent_id(self) -> str | None:
        """The id of the agent that called it; None if a model without an agent called it."""

    @property
    def parent_turn_id(self) -> str | None:
        """The id of the run that called it; None if a model without an agent called it."""

    @property
    def tool_name(self) -> str:
        """The name of the tool."""

    @property
    def tool_call_id(self) -> str:
        """The id of the call, as the model assigned it."""

    @property
    def depth(self) -> int:
        """The number of runs that contain this run, from 1."""

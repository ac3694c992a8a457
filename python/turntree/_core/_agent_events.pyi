"""Events of agents, and the plain data of their state."""

from datetime import datetime
from typing import Any, ClassVar, Literal, final

from typing_extensions import Self

from turntree._core._data import Data
from turntree._core._messages import Message, StreamEvent

@final
class PlanStep(Data):
    """A step of a plan. UAP-1.0 §13.4.

    Args:
        id: Unique in its plan.
        description: What is to be done.
        tool: The tool to do it with, where the plan names one.
        depends_on: Ids of the steps that have to be done before.
        status: How far it is.

    Raises:
        ValueError: Another status.
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
        """Unique in its plan."""

    @property
    def description(self) -> str:
        """What is to be done."""

    @property
    def tool(self) -> str | None:
        """The tool to do it with, where the plan names one."""

    @property
    def depends_on(self) -> list[str]:
        """Ids of the steps that have to be done before."""

    @property
    def status(self) -> Literal["pending", "in_progress", "completed", "failed"]:
        """How far it is."""

@final
class ExecutionState(Data):
    """What hooks and stop conditions see of a run, as it was when they were called. UAP-1.0 §5.1 and §13.4."""

    @property
    def step(self) -> int:
        """The step that runs, from 1."""

    @property
    def messages(self) -> list[Message]:
        """The input, then everything new, in order."""

    @property
    def metadata(self) -> dict[str, Any]:
        """What the application keeps with the run, JSON data.

        Given to a hook it is the run's own dict: what hooks and tools put into it is there in all later steps, in
        checkpoints, and when the run is taken up again. A run starts with an empty one.
        """

    @property
    def reasoning(self) -> list[str] | None:
        """What the model thought, one text a step; None where the strategy does not have it think."""

    @property
    def plan(self) -> list[PlanStep] | None:
        """The steps of the plan; None where the strategy makes none."""

@final
class Checkpoint(Data):
    """A point of a run that a session can go back to. Made by sessions. UAP-1.0 §6.4 and §13.3."""

    @property
    def id(self) -> str:
        """A UUIDv4, or what the document said that the session was read from."""

    @property
    def session_id(self) -> str:
        """The session."""

    @property
    def timestamp(self) -> datetime:
        """When it was made, in UTC."""

    @property
    def step(self) -> int:
        """The step of the run, from 1; each run counts anew."""

    @property
    def thread_id(self) -> str:
        """The node of the tree that was current."""

    @property
    def state(self) -> ExecutionState:
        """The state of the run."""

    @property
    def sub_agent_states(self) -> dict[str, dict[str, Any]]:
        """Sessions of the run's sub-agents as plain data, by the ids of tool calls; ``Session.from_json`` reads one."""

    @property
    def metadata(self) -> dict[str, Any]:
        """Facts about it, in a dict of its own."""

@final
class UapEvent:
    """An event of the agent. UAP-1.0 §12.2.

    ==================  ============================================================================
    `type`              `data`
    ==================  ============================================================================
    ``step_start``      ``{"stepNumber"}``, and ``"stepId"`` where the step has one; ``"planStepId"`` in `plan`
    ``step_end``        ``{"stepNumber", "usage"}``, and the ids; the usage is of this step alone
    ``reasoning``       ``{"text"}``
    ``action``          ``{"toolCalls"}``: calls as dicts
    ``observation``     ``{"results"}``: results as dicts, in the order of the calls
    ``checkpoint``      ``{"checkpointId"}``
    ==================  ============================================================================
    """

    @property
    def type(self) -> Literal["step_start", "step_end", "reasoning", "action", "observation", "checkpoint"]:
        """What happened, as ``step_start``."""

    @property
    def step(self) -> int:
        """The step, from 1."""

    @property
    def agent_id(self) -> str:
        """The agent, a UUIDv4."""

    @property
    def data(self) -> dict[str, Any]:
        """The event's data, keys as the specification spells them."""

    def __eq__(self, other: object, /) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]  # pyright: ignore[reportIncompatibleMethodOverride]

@final
class AgentStreamEvent:
    """One event of a streamed run: of the agent, or of the model or a tool. UAP-1.0 §12.2.

    Exactly one of `uap` and `upp` is there::

        if event.upp and event.upp.type == "text_delta":
            print(event.upp.delta["text"], end="")
    """

    @property
    def source(self) -> Literal["uap", "upp"]:
        """Whose event: "uap" of the agent, "upp" of the model or a tool."""

    @property
    def uap(self) -> UapEvent | None:
        """The agent's event, or None."""

    @property
    def upp(self) -> StreamEvent | None:
        """The model's or the tool's event, or None."""

    @property
    def sub_agent(self) -> SubAgentRun | None:
        """Whose event it is where that is an agent that runs as a tool; only with ``sub_agent_events=True``."""

    def __eq__(self, other: object, /) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]  # pyright: ignore[reportIncompatibleMethodOverride]

@final
class SubAgentRun:
    """One run of an agent as the tool of another one. UAP-1.0 §8.4. Given by events, not made by hand."""

    @property
    def agent_id(self) -> str:
        """The agent, a UUIDv4."""

    @property
    def turn_id(self) -> str:
        """This run of it, a UUIDv4."""

    @property
    def parent_agent_id(self) -> str | None:
        """The agent whose tool it is; None in a call of a bare model."""

    @property
    def parent_turn_id(self) -> str | None:
        """The run whose tool it is; None in a call of a bare model."""

    @property
    def tool_name(self) -> str:
        """What the tool is called."""

    @property
    def tool_call_id(self) -> str:
        """The call, as the vendor names it."""

    @property
    def depth(self) -> int:
        """How many runs it is inside of, from 1."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

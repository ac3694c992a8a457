"""Agents, their strategies and middleware, and the context of tools."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeAlias, final

from typing_extensions import Self, TypeVar

from turntree._agent import Agent
from turntree._core._agent_events import AgentStreamEvent
from turntree._core._async import Coroutine
from turntree._core._data import Json
from turntree._core._messages import ContentBlock, Message, Thread, Turn
from turntree._core._models import ModelReference
from turntree._core._provider_config import ProviderConfig
from turntree._core._stream_events import StreamEvent
from turntree._core._upp import AgentStreamCore, LlmCore
from turntree._recipes import Recipe
from turntree._session import Session
from turntree.upp._structure import AnswerType
from turntree.upp._tools import Tool
from turntree.upp.native import NativeTool

_DepsT_co = TypeVar("_DepsT_co", default=Any, covariant=True)

@final
class ToolContext(Generic[_DepsT_co]):
    """The context of one tool call.

    A parameter of a tool that is annotated ``ToolContext`` receives it and is not part of the tool's schema.
    Created by the run.

    Spec: UAP-1.0 §8.4.
    """

    @classmethod
    def __class_getitem__(cls, item: Any) -> Any:
        """Return an annotation with the type of `deps`, for type checkers."""

    @property
    def deps(self) -> _DepsT_co:
        """The dependencies: the object that the application passed to the run as ``deps``, or None.

        A run inside a tool, and a sub-agent, has those of the run that contains it, unless it has its own.
        """

    @property
    def agent_id(self) -> str:
        """The id of the agent that runs, a UUIDv4; the principal of the request in a task of a workflow."""

    @property
    def turn_id(self) -> str:
        """The id of the run, a UUIDv4. In a task of a workflow, the id of the call."""

    @property
    def parent_agent_id(self) -> str | None:
        """The id of the agent that called this agent as a tool, or None."""

    @property
    def parent_turn_id(self) -> str | None:
        """The id of the run that called this agent as a tool, or None."""

    @property
    def tool_call_id(self) -> str:
        """The id of the call, as the model assigned it. In a task of a workflow, the id of the call in the log."""

    @property
    def idempotency_key(self) -> str:
        """A UUID as text that identifies the call among all calls of all runs.

        A call that `resume` repeats, in this process or in another one, has the same key: send it to services that know
        idempotency keys. In a task of a workflow, the key of the request if it has one.
        """

    @property
    def session_id(self) -> str | None:
        """The id of the session, or None. That of a workflow is a secret: do not log it."""

    @property
    def principal(self) -> str | None:
        """The id of the principal who asked a server for the run.

        It is what the server's ``auth`` found; None without a server or ``auth``.
        """

    @property
    def claims(self) -> dict[str, Any]:
        """The members of the dict that ``auth`` returned for the principal.

        Empty if it returned an id, and in a task of a workflow.
        """

    @property
    def depth(self) -> int:
        """The number of runs that contain this run. 0 if no agent started it."""

    def report(self, progress: Json) -> None:
        """Report the progress of the tool to the run's stream.

        The stream yields a ``tool_execution_progress`` event between the start and the end of the call. Its `delta`
        has ``toolCallId``, ``toolName``, ``progress`` and ``timestamp``. Without a stream, or after the call,
        nothing happens. May be called from any thread. In a task of a workflow, the client that asked for a stream
        receives it as a ``progress`` event.

        Args:
            progress: JSON data such as ``{"done": 3, "of": 10}``.

        Raises:
            TypeError: The value is not JSON data; the message names the path.
        """

    @property
    def cancelled(self) -> bool:
        """Whether the run was aborted. Work that continues in a thread should stop."""

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the run: a dict that hooks see as ``state.metadata``. May be changed."""

@final
class RunContext(Generic[_DepsT_co]):
    """A run, for the functions that it asks: toolsets, the function of the system prompt, and validators of the output.

    Created by the run for each call. ``ToolsetContext`` is the same class.
    """

    @classmethod
    def __class_getitem__(cls, item: Any) -> Any:
        """Return an annotation with the type of `deps`, for type checkers."""

    @property
    def deps(self) -> _DepsT_co:
        """The dependencies: the object that the application passed to the run as ``deps``, or None."""

    @property
    def agent_id(self) -> str:
        """The id of the agent that runs, a UUIDv4."""

    @property
    def agent_name(self) -> str | None:
        """The name of the agent that runs, or None."""

    @property
    def turn_id(self) -> str:
        """The id of the run, a UUIDv4."""

    @property
    def parent_agent_id(self) -> str | None:
        """The id of the agent that called this agent as a tool, or None."""

    @property
    def parent_turn_id(self) -> str | None:
        """The id of the run that called this agent as a tool, or None."""

    @property
    def session_id(self) -> str | None:
        """The id of the session, or None."""

    @property
    def step(self) -> int:
        """The step of the run, from 1. 0 before the first step, when `plan` makes a plan."""

    @property
    def messages(self) -> list[Message]:
        """The history and the messages of the run so far, as a new list."""

    @property
    def cancelled(self) -> bool:
        """Whether the run was aborted. Work that continues in a thread should stop."""

    @property
    def depth(self) -> int:
        """The number of runs that contain this run. 0 if no agent started it."""

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the run: a dict that hooks see as ``state.metadata``. May be changed."""

HistoryInput: TypeAlias = Thread | Iterable[Message | Mapping[str, Json]]

MessageInput: TypeAlias = str | Message | ContentBlock | Mapping[str, Json] | list[Any]

@final
class AgentCore:
    """The native half of ``turntree.Agent``. Any number of runs can run at the same time."""

    def __new__(
        cls,
        *,
        model: ModelReference | None,
        params: Mapping[str, Any] | None,
        config: ProviderConfig | Mapping[str, Any] | None,
        execution: dict[str, Any],
        execute: Callable[..., Any] | None,
        max_iterations: int | None,
        tools: list[Tool[..., Any] | NativeTool],
        toolsets: list[tuple[str, Callable[..., Any]]],
        system: str | Sequence[Mapping[str, Any]] | None,
        structure: Any,
        structure_repair: bool,
        output_retries: int | None,
        answer: AnswerType | None,
        middleware: Iterable[object],
        hooks: dict[str, Callable[..., Any] | None],
        id: str | None,
        name: str | None,
        max_sub_agent_depth: int | None,
        cleanup_timeout: float | None,
    ) -> Self: ...
    @property
    def id(self) -> str:
        """The id of the agent, a UUIDv4."""

    def tool_definition(
        self, name: str | None, description: str | None, parameter_schema: Mapping[str, Any] | None
    ) -> tuple[str, str, dict[str, Any]]:
        """Return the name, the description and the parameters of the agent as a tool.

        Raises:
            TypeError: The schema is not a dict.

        Spec: UAP-1.0 §8.2.
        """

    @staticmethod
    def task_of(arguments: dict[str, Any]) -> str:
        """Return the task from the arguments of a tool call."""

    def typed_turn(self, turn: Turn) -> Turn:
        """Return the turn of a run, with its data as the type of the agent's structure."""

    @staticmethod
    def result_of(turn: Turn) -> Any:
        """Return the tool result for a turn, as plain data."""
    def set_owner(self, owner: Callable[[], Agent]) -> None:
        """Set the function that returns the Python agent, for middleware."""

    def run(
        self,
        history: HistoryInput | None,
        input: MessageInput,
        seed: str | None = None,
        options: dict[str, Any] | None = None,
    ) -> Coroutine[Turn]:
        """Start a run on the caller's event loop and return a coroutine that returns the turn.

        Args:
            history: The earlier messages.
            input: The new input.
            seed: If given, the ids of the run are computed from this text: a repeated run has the same ids.
            options: The options of this run, or None.

        Raises:
            UPPError: The model does not support a requested feature. Raised immediately.
            TypeError: An argument has the wrong type; the message names it.
        """

    def run_sync(
        self, history: HistoryInput | None, input: MessageInput, options: dict[str, Any] | None = None
    ) -> Turn:
        """Run on this thread, without an event loop, and return the turn.

        Raises:
            UPPError: As `run`, or the model call failed.
        """

    def stream(
        self,
        history: HistoryInput | None,
        input: MessageInput,
        on_loop: bool,
        sub_agent_events: bool,
        options: dict[str, Any] | None = None,
    ) -> AgentStreamCore[AgentStreamEvent]:
        """Start a streamed run.

        Args:
            history: The earlier messages.
            input: The new input.
            on_loop: Whether tools run on the caller's event loop. Otherwise they run on a loop in a background
                thread.
            sub_agent_events: Whether the stream includes the events of sub-agents.
            options: The options of this run, or None.

        Raises:
            UPPError: As `run`.
        """

@final
class StrategyContext:
    """The native half of ``turntree.execution.ExecutionContext``. Valid for one run.

    Raises:
        RuntimeError: The run is over. Raised by everything except `metadata` and `ended`.
    """

    @property
    def history(self) -> list[Message]:
        """The earlier messages, as a new list."""

    @property
    def input(self) -> list[Message]:
        """The messages of the input."""

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the run."""

    @property
    def deps(self) -> Any:
        """The dependencies of the run."""

    @property
    def is_streamed(self) -> bool:
        """True if the run is streamed."""

    @property
    def ended(self) -> bool:
        """Whether the run is over: it ended or was aborted."""

    def llm(self) -> LlmCore:
        """Return the agent's model with the agent's tools, without the hooks of steps."""

    def run(
        self, execution: dict[str, Any], history: HistoryInput | None, input: MessageInput | None
    ) -> Coroutine[Turn]:
        """Run a built-in strategy as part of this run and return a coroutine that returns the turn."""

    def pass_on(self, event: AgentStreamEvent | StreamEvent) -> Coroutine[None]:
        """Add an event of another stream to the run's stream."""

    def emit(self, kind: str, step: int, data: Any) -> Coroutine[None]:
        """Add an event of this run to the run's stream.

        Raises:
            ValueError: The event does not have this data.
        """

@final
class UsageMeter:
    """Counts what one or more runs use together, and ends them at a limit."""

    def __new__(
        cls,
        *,
        requests: int | None,
        input_tokens: int | None,
        output_tokens: int | None,
        total_tokens: int | None,
        tool_calls: int | None,
        cost: float | None,
        seconds: float | None,
    ) -> Self: ...

GuardrailRule: TypeAlias = tuple[str, Callable[[str], Any] | None, Any]

@final
class AgentMiddleware:
    """A built-in middleware of agents, as returned by `logging`, `guardrails`, `memory` and `budget`."""

    @staticmethod
    def logging(
        *,
        level: str,
        logger: Callable[[str, str, BaseException | None], object],
        include_messages: bool,
        include_timing: bool,
        recipe: Recipe | None = None,
    ) -> AgentMiddleware:
        """Log runs through a function of level, message and exception.

        Raises:
            ValueError: The level is unknown.
        """

    @staticmethod
    def guardrails(
        *,
        name: str,
        input: list[GuardrailRule],
        output: list[GuardrailRule],
        hold: bool,
        recipe: Recipe | None = None,
    ) -> AgentMiddleware:
        """Check inputs and outputs with rules: each a name, a function of a text or None, and a JSON Schema.

        Raises:
            ValueError: A schema is not a valid JSON Schema.
        """

    @staticmethod
    def memory(
        *,
        name: str,
        max_tokens: int | None,
        max_turns: int | None,
        counter: Callable[[str], int] | None,
        summarize: Callable[[str], Any] | None,
        summary_tokens: int,
        summary_input_tokens: int,
        sends_overflow: bool,
        recipe: Recipe | None = None,
    ) -> AgentMiddleware:
        """Limit the messages that are sent to a window."""

    @staticmethod
    def budget(
        *,
        name: str,
        tokens: int | None,
        cost: float | None,
        steps: int | None,
        seconds: float | None,
        by_session: bool,
        ignore_unpriced: bool,
        recipe: Recipe | None = None,
    ) -> AgentMiddleware:
        """Stop runs that exceed a limit of tokens, cost, steps or time."""

    def __reduce__(self) -> Recipe:
        """Pickle the middleware by the arguments of its function."""

    @property
    def name(self) -> str:
        """The name of the middleware."""

@final
class MiddlewareContext:
    """One run of an agent. All middleware hooks of the run receive the same object.

    Spec: UAP-1.0 §10.1.
    """

    @property
    def agent(self) -> Agent:
        """The agent that runs."""

    @property
    def input(self) -> Message:
        """The input of the run, as a message. `before` may set it to any input that `Agent.run` accepts."""

    @input.setter
    def input(self, value: MessageInput) -> None: ...
    @property
    def history(self) -> list[Message]:
        """The earlier messages, a list. `before` may change or replace it. Stored messages do not change."""

    @history.setter
    def history(self, value: HistoryInput) -> None: ...
    @property
    def metadata(self) -> dict[str, Any]:
        """A dict for values of any type that the middleware of a run shares. It is not saved.

        It starts with the ids of the run: `agentId`, `turnId`, and for a sub-agent `parentAgentId` and `parentTurnId`.
        """

    @property
    def session(self) -> Session | None:
        """The session of the run, or None."""

    def replace(self, *, input: MessageInput | None = None, history: HistoryInput | None = None) -> MiddlewareContext:
        """Return another context of the same run, for `before` to return, with another input or history.

        Raises:
            TypeError: The input is not one that `Agent.run` accepts.
        """

def _approvers() -> tuple[Any, ...]:
    """Return the functions that decide about calls of the run whose tool runs here, innermost first."""

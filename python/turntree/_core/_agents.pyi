"""Agents, their strategies and middleware, and the context of tools."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, final

from typing_extensions import Self

from turntree._agent import Agent
from turntree._core._agent_events import AgentStreamEvent
from turntree._core._async import Coroutine
from turntree._core._data import Json
from turntree._core._messages import ContentBlock, Message, StreamEvent, Thread, Turn
from turntree._core._models import ModelReference
from turntree._core._provider_config import ProviderConfig
from turntree._core._upp import AgentStreamCore, LlmCore
from turntree._session import Session
from turntree.upp._structure import AnswerType
from turntree.upp._tools import Tool
from turntree.upp.native import NativeTool

@final
class ToolContext:
    """What a tool may know of its call. UAP-1.0 §8.4.

    A tool's parameter that is annotated ``ToolContext`` receives it and is no part of the tool's schema. Given by
    the run, not made by hand.
    """

    @property
    def agent_id(self) -> str:
        """The agent that runs, a UUIDv4."""

    @property
    def turn_id(self) -> str:
        """This run of it, a UUIDv4."""

    @property
    def parent_agent_id(self) -> str | None:
        """The agent whose tool this agent is, where it is one."""

    @property
    def parent_turn_id(self) -> str | None:
        """The run whose tool this run is, where it is one."""

    @property
    def tool_call_id(self) -> str:
        """The call, as the vendor names it."""

    @property
    def session_id(self) -> str | None:
        """The session, where there is one."""

    @property
    def depth(self) -> int:
        """How many runs the run is inside of: 0 where no agent has started it."""

    def report(self, progress: Json) -> None:
        """Tell whoever listens to the run how far the tool is.

        A stream gives an event ``tool_execution_progress`` between the start and the end of the call: its `delta` has
        ``toolCallId``, ``toolName``, ``progress`` and ``timestamp``. Without a listener, and after the call, nothing
        happens. May be called from any thread.

        Args:
            progress: JSON data, as ``{"done": 3, "of": 10}``.

        Raises:
            TypeError: It is not JSON data; named by its place.
        """

    @property
    def cancelled(self) -> bool:
        """Whether the run was aborted: work that goes on in a thread should stop."""

    @property
    def metadata(self) -> dict[str, Any]:
        """What the application keeps with the run: a dict that hooks see as ``state.metadata``; may be changed."""

HistoryInput: TypeAlias = Thread | Iterable[Message | Mapping[str, Json]]

MessageInput: TypeAlias = str | Message | ContentBlock | Mapping[str, Json] | list[Any]

@final
class AgentCore:
    """The native half of ``turntree.Agent``. One serves any number of runs at once."""

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
        system: str | Sequence[Mapping[str, Any]] | None,
        structure: Any,
        structure_repair: bool,
        answer: AnswerType | None,
        middleware: Iterable[object],
        hooks: dict[str, Callable[..., Any] | None],
        id: str | None,
        name: str | None,
        max_sub_agent_depth: int | None,
    ) -> Self: ...
    @property
    def id(self) -> str:
        """The agent's id, a UUIDv4."""

    def tool_definition(
        self, name: str | None, description: str | None, parameter_schema: Mapping[str, Any] | None
    ) -> tuple[str, str, dict[str, Any]]:
        """Give name, description and parameters of the tool that the agent is.

        Raises:
            TypeError: The schema is not a dict.
        """

    @staticmethod
    def task_of(arguments: dict[str, Any]) -> str:
        """Give the task that arguments name."""

    @staticmethod
    def result_of(turn: Turn) -> Any:
        """Give what the tool answers for a turn."""
    def belong_to(self, owner: Callable[[], Agent]) -> None:
        """Say who gives the agent of Python, which middleware sees."""

    def run(self, history: HistoryInput | None, input: MessageInput) -> Coroutine[Turn]:
        """Start a run on the caller's event loop; the coroutine gives its turn.

        Raises:
            UPPError: Something is asked of the model that it cannot do; raised at once.
            TypeError: An argument of the wrong type, named.
        """

    def run_sync(self, history: HistoryInput | None, input: MessageInput) -> Turn:
        """Run on this thread, without an event loop.

        Raises:
            UPPError: As `run`, or the model call failed.
        """

    def stream(
        self, history: HistoryInput | None, input: MessageInput, on_loop: bool, sub_agent_events: bool
    ) -> AgentStreamCore[AgentStreamEvent]:
        """Start a run that is listened to.

        Args:
            history: What was said before.
            input: What is said now.
            on_loop: Whether tools run on the caller's event loop; else on a loop in a thread of its own.
            sub_agent_events: Whether the events of agents that run as tools are given too.

        Raises:
            UPPError: As `run`.
        """

@final
class StrategyContext:
    """The native half of ``turntree.execution.ExecutionContext``; serves one run.

    Raises:
        RuntimeError: The run is over; from everything but `metadata` and `ended`.
    """

    @property
    def history(self) -> list[Message]:
        """What was said before, in a list of its own."""

    @property
    def input(self) -> list[Message]:
        """What is to be answered."""

    @property
    def metadata(self) -> dict[str, Any]:
        """The run's own dict."""

    @property
    def listened(self) -> bool:
        """Whether somebody listens to the run."""

    @property
    def ended(self) -> bool:
        """Whether the run is over, by its end or by an abort."""

    def llm(self) -> LlmCore:
        """The agent's model with the agent's tools, and without its hooks of steps."""

    def run(
        self, execution: dict[str, Any], history: HistoryInput | None, input: MessageInput | None
    ) -> Coroutine[Turn]:
        """Run one of our strategies as a part of this run; the coroutine gives its turn."""

    def pass_on(self, event: AgentStreamEvent | StreamEvent) -> Coroutine[None]:
        """Tell an event of a stream to whoever listens."""

    def emit(self, kind: str, step: int, data: Any) -> Coroutine[None]:
        """Tell an event of this run to whoever listens.

        Raises:
            ValueError: Data that the event does not have.
        """

GuardrailRule: TypeAlias = tuple[str, Callable[[str], Any] | None, Any]

@final
class AgentMiddleware:
    """A middleware of agents that comes with turntree: what `logging`, `guardrails`, `memory` and `budget` give."""

    @staticmethod
    def logging(
        *,
        level: str,
        logger: Callable[[str, str, BaseException | None], object],
        include_messages: bool,
        include_timing: bool,
    ) -> AgentMiddleware:
        """Log runs to a function of level, message and exception.

        Raises:
            ValueError: An unknown level.
        """

    @staticmethod
    def guardrails(
        *, name: str, input: list[GuardrailRule], output: list[GuardrailRule], hold: bool
    ) -> AgentMiddleware:
        """Hold inputs and outputs to rules: each a name, and a function of a text or None and a JSON Schema.

        Raises:
            ValueError: A schema that breaks the rules of JSON Schema.
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
    ) -> AgentMiddleware:
        """Keep what is sent within a window."""

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
    ) -> AgentMiddleware:
        """Stop runs that have spent too much."""

    @property
    def name(self) -> str:
        """Its name."""

@final
class MiddlewareContext:
    """One run of an agent, as its middleware sees it. All hooks of a run get the same object. UAP-1.0 §10.1."""

    @property
    def agent(self) -> Agent:
        """The agent that runs."""

    @property
    def input(self) -> Message:
        """What the agent is asked: a message. `before` may set it, to whatever `Agent.run` takes."""

    @input.setter
    def input(self, value: MessageInput) -> None: ...
    @property
    def history(self) -> list[Message]:
        """What was said before, a list. `before` may change it or set another; what is stored stays as it is."""

    @history.setter
    def history(self, value: HistoryInput) -> None: ...
    @property
    def metadata(self) -> dict[str, Any]:
        """What middlewares keep with the run: a dict of anything, which all of them share. It is not saved."""

    @property
    def session(self) -> Session | None:
        """The session, when the agent runs in one."""

    def replace(self, *, input: MessageInput | None = None, history: HistoryInput | None = None) -> MiddlewareContext:
        """Give another context of the same run, for `before` to return: with another input, another history, or both.

        Raises:
            TypeError: An input that `Agent.run` does not take.
        """

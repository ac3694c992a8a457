"""Execution strategies: the built-in ones, the interface and context of custom ones, and combinators."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast, runtime_checkable

from turntree import _core
from turntree._agent_hooks import AgentStrategy
from turntree._argument_errors import PLAN, REACT, STRATEGY, explain_arguments
from turntree._callbacks import check_callback
from turntree._public_names import LateClass
from turntree._types import History, Input
from turntree.upp._tools import Tool

if TYPE_CHECKING:
    from turntree._agent import Agent
    from turntree.upp._llm import LLM
else:
    Agent = LateClass("turntree._agent", "Agent")
    LLM = LateClass("turntree.upp._llm", "LLM")

ObservationFormat = Literal["markdown", "json", "text"]

_MAX_COUNT = 2**32 - 1


@runtime_checkable
class CustomStrategy(Protocol):
    """The interface of custom strategies for ``execution=``.

    An optional method ``stream(context)`` is called instead of `execute` when the run is streamed. It returns an async
    iterator of events that yields the turn last, or an async iterator of events with an awaitable ``turn``, such as
    `AgentStream`. Without it, `execute` is called, and the stream yields the events of `ExecutionContext.llm` and
    `ExecutionContext.run`.

    Spec: UAP-1.0 §5.5.
    """

    name: str

    async def execute(self, context: ExecutionContext) -> _core.Turn:
        """Execute the run and return the turn."""
        ...


class ExecutionStrategy:
    """The base class of the strategies of this module. Immutable; strategies with equal options are equal."""

    __slots__: tuple[str, ...] = ()

    name: str = ""

    async def execute(self, context: ExecutionContext) -> _core.Turn:
        """Execute this strategy as a part of another strategy's run.

        Args:
            context: The context of the other strategy.

        Returns:
            The turn: all new messages, starting with ``context.input``.

        Raises:
            UPPError: As `Agent.run`. The hooks ``on_error`` and ``on_complete`` are not called for a nested strategy.

        Spec: UAP-1.0 §5.1.
        """
        return await context.run(self)

    def _options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    def __repr__(self) -> str:
        from turntree._reprs import literal

        options = ", ".join(f"{name}={literal(value)}" for name, value in self._options().items())
        return f"{self.name}({options})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._options() == self._options()

    def __hash__(self) -> int:
        return hash((self.name, repr(self._options())))


class LoopStrategy(ExecutionStrategy):
    """The strategy that `loop` creates.

    Spec: UAP-1.0 §5.2.
    """

    __slots__ = ("max_iterations",)

    name = "loop"

    def __init__(self, max_iterations: int) -> None:
        self.max_iterations: int = max_iterations


class ReactStrategy(ExecutionStrategy):
    """The strategy that `react` creates.

    Spec: UAP-1.0 §5.3.
    """

    __slots__ = ("max_steps", "observation_format", "reasoning_prompt")

    name = "react"

    def __init__(self, max_steps: int, reasoning_prompt: str | None, observation_format: ObservationFormat) -> None:
        self.max_steps: int = max_steps
        self.reasoning_prompt: str | None = reasoning_prompt
        self.observation_format: ObservationFormat = observation_format


class PlanStrategy(ExecutionStrategy):
    """The strategy that `plan` creates.

    Spec: UAP-1.0 §5.4.
    """

    __slots__ = ("allow_replan", "max_plan_steps", "max_replans", "plan_schema")

    name = "plan"

    def __init__(
        self,
        max_plan_steps: int,
        allow_replan: bool,  # noqa: FBT001
        plan_schema: Mapping[str, Any] | None,
        max_replans: int,
    ) -> None:
        self.max_plan_steps: int = max_plan_steps
        self.allow_replan: bool = allow_replan
        self.plan_schema: Mapping[str, Any] | None = plan_schema
        self.max_replans: int = max_replans


@explain_arguments(STRATEGY)
def loop(max_iterations: int = 10) -> LoopStrategy:
    """Call the model and run the requested tools, and repeat until the model requests no tools.

    Args:
        max_iterations: The maximum number of tool rounds. A maximum of M allows M + 1 model calls; if the last one
            requests tools too, `UPPError` INVALID_REQUEST is raised. 0 disables tool execution: the turn ends with
            the tool calls.

    Raises:
        TypeError: `max_iterations` is not an int.
        ValueError: `max_iterations` is below 0.

    Spec: UAP-1.0 §5.2.
    """
    return LoopStrategy(_count("max_iterations", max_iterations, 0))


@explain_arguments(REACT)
def react(
    max_steps: int = 10,
    reasoning_prompt: str | None = None,
    observation_format: ObservationFormat = "markdown",
) -> ReactStrategy:
    """Alternate reasoning and action: the model reasons, calls tools, and then reasons about the results.

    A step consists of two model calls. The reasoning call declares the tools but runs none; the hook ``on_reason`` and
    the event ``reasoning`` report its text. The action call is followed by one round of tools. The run ends when an
    action call requests no tools, when `stop_condition` returns True, or, without an error, after `max_steps`.
    Reasoning prompts and texts are sent to the model but are not in the turn; ``turn.usage`` includes all calls.

    Args:
        max_steps: The maximum number of steps.
        reasoning_prompt: The prompt at the end of each reasoning request. Default: a built-in prompt.
        observation_format: The format of tool results in the next prompt: "markdown" (a heading for each result),
            "json" (a list) or "text" (lines).

    Raises:
        TypeError: An argument has the wrong type; the message names it.
        ValueError: `max_steps` is below 1, or `observation_format` is unknown.

    Spec: UAP-1.0 §5.3.
    """
    if reasoning_prompt is not None and not isinstance(reasoning_prompt, str):
        message = f"reasoning_prompt must be a str or None, not {type(reasoning_prompt).__name__}"
        raise TypeError(message)
    if observation_format not in ("markdown", "json", "text"):
        message = f'observation_format must be "markdown", "json" or "text", not {observation_format!r}'
        raise ValueError(message)
    return ReactStrategy(_count("max_steps", max_steps, 1), reasoning_prompt, observation_format)


@explain_arguments(PLAN)
def plan(
    max_plan_steps: int = 10,
    allow_replan: bool = True,  # noqa: FBT001, FBT002
    plan_schema: Any = None,
    max_replans: int = 3,
) -> PlanStrategy:
    """Request a plan from the model, then execute its steps in the order of their dependencies.

    The plan is structured output, so the model must support it. An invalid plan (cycles, unknown or duplicate ids,
    unknown tools) is requested once more; a second invalid plan raises `UPPError` INVALID_RESPONSE. A step fails if its
    model call fails, or if the last call of the step's tool fails; then the remaining steps are planned again, and
    completed steps are not repeated. Hooks and stop conditions read the plan from ``state.plan``. A plan without steps
    is followed by one model call.

    Args:
        max_plan_steps: The maximum number of steps in a plan. A longer plan is sorted by dependencies and truncated.
        allow_replan: Whether to request a new plan after a failed step. If False, steps that do not depend on the
            failed one still run, and a failed model call ends the run.
        plan_schema: The JSON Schema of a plan, or a type as for ``structure=``: an object with ``steps``, each with
            ``id``, ``description``, ``tool`` and ``dependsOn``. Additional members are stored with the steps. Default:
            a schema generated from the tools.
        max_replans: The maximum number of plans after the first.

    Raises:
        TypeError: An argument has the wrong type; the message names it.
        ValueError: `max_plan_steps` is below 1, or `max_replans` is below 0.

    Spec: UAP-1.0 §5.4.
    """
    if not isinstance(allow_replan, bool):
        message = f"allow_replan must be a bool, not {type(allow_replan).__name__}"
        raise TypeError(message)
    schema = plan_schema
    if schema is not None:
        from turntree.upp._structure import structure_of

        try:
            schema, _ = structure_of(plan_schema)
        except TypeError as error:
            message = str(error).replace("structure", "plan_schema", 1)
            raise TypeError(message) from error
    limit = _count("max_plan_steps", max_plan_steps, 1)
    return PlanStrategy(limit, allow_replan, schema, _count("max_replans", max_replans, 0))


def _count(name: str, value: int, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        message = f"{name} must be an int, not {type(value).__name__}"
        raise TypeError(message)
    if not least <= value <= _MAX_COUNT:
        message = f"{name} must be from {least} to {_MAX_COUNT}, not {value}"
        raise ValueError(message)
    return value


class FallbackStrategy(ExecutionStrategy):
    """The strategy that `fallback` creates."""

    __slots__ = ("strategies",)

    name = "fallback"

    def __init__(self, strategies: tuple[CustomStrategy | ExecutionStrategy, ...]) -> None:
        self.strategies: tuple[CustomStrategy | ExecutionStrategy, ...] = strategies

    async def execute(self, context: ExecutionContext) -> _core.Turn:
        """Return the turn of the first strategy that succeeds; raise the last one's error if all fail."""
        from turntree.exceptions import UPPError

        *others, last = self.strategies
        for strategy in others:
            try:
                return await strategy.execute(context)
            except UPPError:
                context.state.reset()
        return await last.execute(context)


def fallback(
    first: CustomStrategy | ExecutionStrategy,
    second: CustomStrategy | ExecutionStrategy,
    *more: CustomStrategy | ExecutionStrategy,
) -> FallbackStrategy:
    """Try strategies in order: if one raises a `UPPError`, the next one starts from the beginning.

    ``fallback(plan(), loop())`` also supports models without structured output. The next strategy does not reuse tool
    results of the failed one, so a tool may run twice.

    Args:
        first: A strategy of this module, or a custom strategy.
        second: As `first`.
        *more: As `first`.

    Raises:
        TypeError: An argument is not a strategy.
    """
    strategies = (first, second, *more)
    for strategy in strategies:
        checked(strategy)
    return FallbackStrategy(strategies)


class SelectStrategy(ExecutionStrategy):
    """The strategy that `select` creates."""

    __slots__ = ("choose",)

    name = "select"

    def __init__(self, choose: Callable[[ExecutionContext], Any]) -> None:
        self.choose: Callable[[ExecutionContext], Any] = choose

    async def execute(self, context: ExecutionContext) -> _core.Turn:
        """Execute the chosen strategy and return its turn."""
        import inspect

        chosen = self.choose(context)
        if inspect.isawaitable(chosen):
            chosen = await chosen
        checked(chosen)
        turn: _core.Turn = await chosen.execute(context)
        return turn


def select(
    choose: Callable[
        [ExecutionContext],
        CustomStrategy | ExecutionStrategy | Awaitable[CustomStrategy | ExecutionStrategy],
    ],
) -> SelectStrategy:
    """Choose a strategy for each run: ``select(lambda context: plan() if len(context.input.text) > 500 else loop())``.

    Args:
        choose: A function that takes the context and returns a strategy; sync or async.

    Raises:
        TypeError: `choose` is not a function.
    """
    if not callable(choose):
        message = f"choose must be a function, not {type(choose).__name__}"
        raise TypeError(message)
    check_callback("choose of select()", choose, ("context",))
    return SelectStrategy(choose)


def checked(strategy: Any) -> None:
    """Raise TypeError if the object is not an execution strategy."""
    if isinstance(strategy, ExecutionStrategy):
        return
    name = getattr(strategy, "name", None)
    if isinstance(strategy, type) or not isinstance(name, str) or not name:
        found = strategy.__name__ if isinstance(strategy, type) else type(strategy).__name__
        message = f"execution must be a strategy as loop(), or an object with `name` and `execute`, not {found}"
        called = strategy if isinstance(strategy, str) else getattr(strategy, "__name__", None)
        if called is not None:
            message += f"; write execution={called}()"
        raise TypeError(message)
    import inspect

    if not inspect.iscoroutinefunction(getattr(strategy, "execute", None)):
        message = f"strategy {name!r} must have `async def execute(self, context)`"
        raise TypeError(message)
    if not callable(getattr(strategy, "stream", checked)):
        message = f"`stream` of strategy {name!r} must be a function that takes the context"
        raise TypeError(message)


class AbortSignal:
    """Reports if the run has been aborted. For work in threads; async code is cancelled instead."""

    __slots__ = ("_native",)

    def __init__(self, native: _core.StrategyContext) -> None:
        self._native = native

    @property
    def aborted(self) -> bool:
        """True if the run is aborted, cancelled or complete."""
        return self._native.ended

    def __repr__(self) -> str:
        return f"AbortSignal(aborted={self.aborted})"


class StrategyState:
    """The state of a run, written by a custom strategy; hooks read it as `ExecutionState`.

    The final values of `step`, `reasoning` and `plan` are saved in the run's checkpoint.

    Spec: UAP-1.0 §5.1.
    """

    __slots__ = ("_input", "messages", "metadata", "plan", "reasoning", "step")

    def __init__(self, input: _core.Message, metadata: dict[str, Any]) -> None:
        self._input = input
        self.metadata: dict[str, Any] = metadata
        self.reset()

    def reset(self) -> None:
        """Reset everything except `metadata`."""
        self.step: int = 0
        self.messages: list[_core.Message] = [self._input]
        self.reasoning: list[str] | None = None
        self.plan: list[_core.PlanStep] | None = None

    def __repr__(self) -> str:
        return f"StrategyState(step={self.step}, messages={len(self.messages)})"


class ExecutionContext:
    """The context of a strategy; valid for one run.

    Spec: UAP-1.0 §5.1.
    """

    __slots__ = ("_native", "agent", "history", "input", "llm", "signal", "state", "strategy", "tools")

    def __init__(
        self, native: _core.StrategyContext, agent: Agent[Any, Any], hooks: AgentStrategy, llm: LLM[Any]
    ) -> None:
        self._native = native
        self.agent: Agent = agent
        """The agent that runs."""
        self.llm: LLM = llm
        """The agent's model with its tools, parameters, system prompt and structure; it calls no step hooks."""
        self.input: _core.Message = native.input[-1]
        """The input message."""
        self.history: list[_core.Message] = native.history
        """The messages before the input; a new list."""
        self.tools: Sequence[Tool[..., Any]] = agent.tools
        """The agent's tools."""
        self.strategy: AgentStrategy = hooks
        """The agent's hooks. The strategy calls the step hooks; turntree calls ``on_complete`` and ``on_error``."""
        self.signal: AbortSignal = AbortSignal(native)
        """Reports if the run has been aborted."""
        self.state: StrategyState = StrategyState(self.input, native.metadata)
        """The state that the strategy writes; its `metadata` is the dict that hooks and tools share."""

    async def run(
        self,
        execution: CustomStrategy | ExecutionStrategy,
        *,
        history: History | None = None,
        input: Input | None = None,
    ) -> _core.Turn:
        """Execute another strategy as a part of this run, with the agent's tools and step hooks.

        Args:
            execution: A strategy of this module, or a custom strategy, which receives this context.
            history: The messages before the input; only for `loop`, `react` and `plan`. Default: `self.history`.
            input: The input, as for `Agent.run`; only for `loop`, `react` and `plan`. Default: `self.input`.

        Returns:
            The turn: all new messages, starting with the input.

        Raises:
            UPPError: As `Agent.run`.
            TypeError: `execution` is not a strategy, or it does not support `history` and `input`.
        """
        checked(execution)
        if not isinstance(execution, (LoopStrategy, ReactStrategy, PlanStrategy)):
            if history is not None or input is not None:
                message = f"strategy {execution.name!r} reads history and input from the context; do not pass them"
                raise TypeError(message)
            return await execution.execute(self)
        turn: _core.Turn = await self._native.run(native_execution(execution, 10), history, input)
        return turn

    async def emit(self, event: str | _core.AgentStreamEvent | _core.StreamEvent, data: Any = None) -> None:
        """Send an event to the run's stream; does nothing if the run is not streamed. Waits for a slow consumer.

        Args:
            event: An event of another stream, sent unchanged; or the type of a new event, such as ``"reasoning"``.
            data: The data of a new event, such as ``{"text": "…"}``.

        Raises:
            ValueError: The data does not match the event type.
        """
        if isinstance(event, str):
            await self._native.emit(event, self.state.step, {} if data is None else data)
        else:
            await self._native.pass_on(event)

    def __repr__(self) -> str:
        return f"ExecutionContext(agent={self.agent!r}, history={len(self.history)} messages)"


def native_execution(execution: CustomStrategy | ExecutionStrategy, max_iterations: int) -> dict[str, Any]:
    """Convert a strategy to the options that the Rust core reads."""
    if isinstance(execution, (LoopStrategy, ReactStrategy)):
        return {"name": execution.name, **execution._options()}
    if isinstance(execution, PlanStrategy):
        return {"name": execution.name, "max_iterations": max_iterations, **execution._options()}
    return {"name": "custom", "custom_name": execution.name}


class StrategyRunner:
    """Executes a custom strategy for the Rust core."""

    __slots__ = ("_agent", "_hooks", "_strategy")

    def __init__(
        self, agent: Agent[Any, Any], hooks: AgentStrategy, strategy: CustomStrategy | ExecutionStrategy
    ) -> None:
        self._agent = agent
        self._hooks = hooks
        self._strategy = strategy

    async def __call__(
        self, native: _core.StrategyContext
    ) -> tuple[_core.Turn, int, list[str] | None, list[_core.PlanStep] | None]:
        """Execute the strategy; return the turn, the last step, the reasoning texts and the plan."""
        from turntree.upp._llm import LLM, ForwardingLLM

        stream = getattr(self._strategy, "stream", None) if native.is_streamed else None
        model: LLM
        if native.is_streamed and stream is None:
            model = ForwardingLLM._of(native.llm(), self._agent).forwarding_to(native.pass_on)
        else:
            model = LLM._of(native.llm(), self._agent)
        context = ExecutionContext(native, self._agent, self._hooks, model)
        turn = await self._strategy.execute(context) if stream is None else await self._streamed(stream, context)
        self._check(turn)
        state = context.state
        return turn, max(state.step, 1), state.reasoning, state.plan

    async def _streamed(self, stream: Callable[[ExecutionContext], Any], context: ExecutionContext) -> Any:
        import inspect

        from turntree._core import Turn

        events = stream(context)
        if inspect.iscoroutine(events):
            events = await events
        if not hasattr(events, "__aiter__"):
            found = type(events).__name__
            message = f"stream of strategy {self._strategy.name!r} must return an async iterator of events, not {found}"
            raise TypeError(message)
        turn: Any = None
        try:
            async for event in events:
                if isinstance(event, Turn):
                    turn = cast("Any", event)
                else:
                    await context.emit(event)
            if turn is None and hasattr(events, "turn"):
                turn = events.turn
                if inspect.isawaitable(turn):
                    turn = await turn
        finally:
            # Close the iterator now; otherwise the garbage collector would close it later.
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()
        if turn is None:
            message = (
                f"stream of strategy {self._strategy.name!r} ended without a turn; yield it last, or return a "
                "stream with a `turn` to await"
            )
            raise TypeError(message)
        return turn

    def _check(self, turn: Any) -> None:
        from turntree._core import Turn

        if not isinstance(turn, Turn):
            message = f"execute of strategy {self._strategy.name!r} must return a Turn, not {type(turn).__name__}"
            raise TypeError(message)

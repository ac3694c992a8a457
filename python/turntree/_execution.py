"""Strategies of ours as options, those of the application with what they work with, and ways to combine them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from turntree import _core
    from turntree._agent import Agent
    from turntree._agent_hooks import AgentStrategy
    from turntree._types import History, Input
    from turntree.upp._llm import LLM
    from turntree.upp._tools import Tool

    ObservationFormat = Literal["markdown", "json", "text"]

_MOST = 2**32 - 1


@runtime_checkable
class CustomStrategy(Protocol):
    """What ``execution=`` takes beside the strategies of this module. UAP-1.0 §5.5.

    It may also have ``stream(context)``, which is called instead of `execute` when the run is streamed: an async
    iterator of events that yields the turn last, or any async iterator of events with a ``turn`` to await, as
    `AgentStream`. Without it, `execute` is called, and whoever listens hears what `ExecutionContext.llm` and
    `ExecutionContext.run` hear.
    """

    name: str

    async def execute(self, context: ExecutionContext) -> _core.Turn:
        """Run to the end and give the turn."""
        ...


class ExecutionStrategy:
    """What `loop`, `react`, `plan` and the combinators make. Immutable; equal when made alike."""

    __slots__: tuple[str, ...] = ()

    name: str = ""

    async def execute(self, context: ExecutionContext) -> _core.Turn:
        """Run to the end as a part of another strategy's run. UAP-1.0 §5.1.

        Args:
            context: What the other strategy was given.

        Returns:
            The turn: everything new, starting with ``context.input``.

        Raises:
            UPPError: As `Agent.run`. Neither ``on_error`` nor ``on_complete`` is called for a part.
        """
        return await context.run(self)

    def _options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self._options().items())
        return f"{self.name}({options})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._options() == self._options()

    def __hash__(self) -> int:
        return hash((self.name, repr(self._options())))


class LoopStrategy(ExecutionStrategy):
    """The strategy `loop` makes. UAP-1.0 §5.2."""

    __slots__ = ("max_iterations",)

    name = "loop"

    def __init__(self, max_iterations: int) -> None:
        self.max_iterations: int = max_iterations


class ReactStrategy(ExecutionStrategy):
    """The strategy `react` makes. UAP-1.0 §5.3."""

    __slots__ = ("max_steps", "observation_format", "reasoning_prompt")

    name = "react"

    def __init__(self, max_steps: int, reasoning_prompt: str | None, observation_format: ObservationFormat) -> None:
        self.max_steps: int = max_steps
        self.reasoning_prompt: str | None = reasoning_prompt
        self.observation_format: ObservationFormat = observation_format


class PlanStrategy(ExecutionStrategy):
    """The strategy `plan` makes. UAP-1.0 §5.4."""

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


def loop(max_iterations: int = 10) -> LoopStrategy:
    """Call the model, run the tools it asks for, and again until it asks for none. UAP-1.0 §5.2.

    Args:
        max_iterations: Most tool rounds. With M of them up to M + 1 model calls are made; one more round wanted
            raises ``UPPError`` (INVALID_REQUEST). 0 turns tool execution off: the turn ends with the calls.

    Raises:
        TypeError: Not an int.
        ValueError: Below 0.
    """
    return LoopStrategy(_count("max_iterations", max_iterations, 0))


def react(
    max_steps: int = 10,
    reasoning_prompt: str | None = None,
    observation_format: ObservationFormat = "markdown",
) -> ReactStrategy:
    """Have the model think before it acts, and think again about what its tools gave. UAP-1.0 §5.3.

    A step is two model calls: one to think (tools are declared and not run; the hook ``on_reason`` and the event
    ``reasoning`` tell the text), one to act, with one round of tools. It ends when the model acts without tools, by
    `stop_condition`, or after `max_steps`: then with what there is, which is no error. Prompts and thoughts are sent to
    the model and are not in the turn; ``turn.usage`` counts all calls.

    Args:
        max_steps: Most steps.
        reasoning_prompt: What the model is told when it is to think; it ends that request. Default: a prompt of ours.
        observation_format: How results of tools are told in the next prompt: a heading for each, a JSON list, or lines.

    Raises:
        TypeError: An argument of the wrong type, named.
        ValueError: `max_steps` below 1, or another format.
    """
    if reasoning_prompt is not None and not isinstance(reasoning_prompt, str):
        message = f"reasoning_prompt must be a str or None, not {type(reasoning_prompt).__name__}"
        raise TypeError(message)
    if observation_format not in ("markdown", "json", "text"):
        message = f'observation_format must be "markdown", "json" or "text", not {observation_format!r}'
        raise ValueError(message)
    return ReactStrategy(_count("max_steps", max_steps, 1), reasoning_prompt, observation_format)


def plan(
    max_plan_steps: int = 10,
    allow_replan: bool = True,  # noqa: FBT001, FBT002
    plan_schema: Any = None,
    max_replans: int = 3,
) -> PlanStrategy:
    """Have the model make a plan, then carry out its steps in the order of their dependencies. UAP-1.0 §5.4.

    The plan is a structured answer. One that cannot be carried out (cycles, unknown or repeated ids, unknown tools) is
    asked for once more, and then raises `UPPError` INVALID_RESPONSE. A step fails when its model call fails or the last
    call of the tool that the plan names for it did; then the rest is planned anew, with what is completed kept. Hooks
    and stop conditions see the plan as ``state.plan``. A plan without steps is followed by one answer. The model must
    have structured output.

    Args:
        max_plan_steps: Most steps of a plan; what is beyond is cut off after they were put in order.
        allow_replan: Whether a step that failed leads to a new plan. Without, steps that do not depend on it still run,
            and a model call that failed ends the run.
        plan_schema: JSON Schema of a plan, or a type as ``structure=`` takes it: an object with ``steps``, each with
            ``id``, ``description``, ``tool`` and ``dependsOn``; other members are kept with the steps. Default: a
            schema made of the tools.
        max_replans: Most plans after the first.

    Raises:
        TypeError: An argument of the wrong type, named.
        ValueError: `max_plan_steps` below 1, or `max_replans` below 0.
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
    if not least <= value <= _MOST:
        message = f"{name} must be from {least} to {_MOST}, not {value}"
        raise ValueError(message)
    return value


class FallbackStrategy(ExecutionStrategy):
    """The strategy `fallback` makes."""

    __slots__ = ("strategies",)

    name = "fallback"

    def __init__(self, strategies: tuple[CustomStrategy | ExecutionStrategy, ...]) -> None:
        self.strategies: tuple[CustomStrategy | ExecutionStrategy, ...] = strategies

    async def execute(self, context: ExecutionContext) -> _core.Turn:
        """Give the turn of the first that succeeds; the error of the last where none does."""
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
    """Try strategies in turn: the next one begins anew where one fails with a `UPPError`.

    ``fallback(plan(), loop())`` serves models without structured output too. Tools that ran in the one that failed run
    again if the next one wants them.

    Args:
        first: A strategy of this module, or one of your own.
        second: As `first`.
        *more: As `first`.

    Raises:
        TypeError: Something that is no strategy.
    """
    strategies = (first, second, *more)
    for strategy in strategies:
        checked(strategy)
    return FallbackStrategy(strategies)


class SelectStrategy(ExecutionStrategy):
    """The strategy `select` makes."""

    __slots__ = ("choose",)

    name = "select"

    def __init__(self, choose: Callable[[ExecutionContext], Any]) -> None:
        self.choose: Callable[[ExecutionContext], Any] = choose

    async def execute(self, context: ExecutionContext) -> _core.Turn:
        """Give the turn of the strategy that was chosen."""
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
        choose: Sees the context and gives a strategy; sync or async.

    Raises:
        TypeError: Not a function.
    """
    if not callable(choose):
        message = f"choose must be a function, not {type(choose).__name__}"
        raise TypeError(message)
    return SelectStrategy(choose)


def checked(strategy: Any) -> None:
    """Refuse what cannot be an execution strategy."""
    if isinstance(strategy, ExecutionStrategy):
        return
    name = getattr(strategy, "name", None)
    if isinstance(strategy, type) or not isinstance(name, str) or not name:
        found = strategy.__name__ if isinstance(strategy, type) else type(strategy).__name__
        message = f"execution must be a strategy as loop(), or an object with `name` and `execute`, not {found}"
        raise TypeError(message)
    import inspect

    if not inspect.iscoroutinefunction(getattr(strategy, "execute", None)):
        message = f"strategy {name!r} must have `async def execute(self, context)`"
        raise TypeError(message)
    if not callable(getattr(strategy, "stream", checked)):
        message = f"`stream` of strategy {name!r} must be a function that takes the context"
        raise TypeError(message)


class AbortSignal:
    """Whether the run is still wanted; for work in threads. Async code is cancelled instead."""

    __slots__ = ("_native",)

    def __init__(self, native: _core.StrategyContext) -> None:
        self._native = native

    @property
    def aborted(self) -> bool:
        """Whether the run was aborted, cancelled, or is over."""
        return self._native.ended

    def __repr__(self) -> str:
        return f"AbortSignal(aborted={self.aborted})"


class StrategyState:
    """The state of a run that a strategy of the application writes; hooks read it as `ExecutionState`. UAP-1.0 §5.1.

    What `step`, `reasoning` and `plan` hold at the end is in the checkpoint of the run.
    """

    __slots__ = ("_input", "messages", "metadata", "plan", "reasoning", "step")

    def __init__(self, input: _core.Message, metadata: dict[str, Any]) -> None:
        self._input = input
        self.metadata: dict[str, Any] = metadata
        self.reset()

    def reset(self) -> None:
        """Forget everything but `metadata`, which the run keeps."""
        self.step: int = 0
        self.messages: list[_core.Message] = [self._input]
        self.reasoning: list[str] | None = None
        self.plan: list[_core.PlanStep] | None = None

    def __repr__(self) -> str:
        return f"StrategyState(step={self.step}, messages={len(self.messages)})"


class ExecutionContext:
    """What a strategy works with; serves one run. UAP-1.0 §5.1."""

    __slots__ = ("_native", "agent", "history", "input", "llm", "signal", "state", "strategy", "tools")

    def __init__(self, native: _core.StrategyContext, agent: Agent, hooks: AgentStrategy, llm: LLM) -> None:
        self._native = native
        self.agent: Agent = agent
        """The agent that runs."""
        self.llm: LLM = llm
        """Its model with its tools, parameters, system prompt and structure; it calls none of the hooks of steps."""
        self.input: _core.Message = native.input[-1]
        """What is to be answered."""
        self.history: list[_core.Message] = native.history
        """What was said before; a list of its own."""
        self.tools: Sequence[Tool[..., Any]] = agent.tools
        """The agent's tools."""
        self.strategy: AgentStrategy = hooks
        """The hooks of the agent. Those of steps are the strategy's to call; ``on_complete`` and ``on_error`` are
        called for it."""
        self.signal: AbortSignal = AbortSignal(native)
        """Whether the run is still wanted."""
        self.state: StrategyState = StrategyState(self.input, native.metadata)
        """The state that it writes; `metadata` is the dict that hooks and tools share."""

    async def run(
        self,
        execution: CustomStrategy | ExecutionStrategy,
        *,
        history: History | None = None,
        input: Input | None = None,
    ) -> _core.Turn:
        """Run another strategy as a part of this run, with the agent's tools and its hooks of steps.

        Args:
            execution: A strategy of this module, or one of your own, which gets this context.
            history: What was said before; only for `loop`, `react` and `plan`. Default: `self.history`.
            input: What is to be answered, as `Agent.run` takes it; only for those too. Default: `self.input`.

        Returns:
            The turn: everything new, starting with the input.

        Raises:
            UPPError: As `Agent.run`.
            TypeError: Something that is no strategy, or an argument that this strategy does not take.
        """
        checked(execution)
        if not isinstance(execution, (LoopStrategy, ReactStrategy, PlanStrategy)):
            if history is not None or input is not None:
                message = f"{execution.name} gets this context with its history and input; it takes no others"
                raise TypeError(message)
            return await execution.execute(self)
        turn: _core.Turn = await self._native.run(native_execution(execution, 10), history, input)
        return turn

    async def emit(self, event: str | _core.AgentStreamEvent | _core.StreamEvent, data: Any = None) -> None:
        """Tell an event to whoever streams the run; nobody hears it where nobody does. Waits for a slow listener.

        Args:
            event: An event of a stream, passed on as it is; or the type of one of this run's own, as ``"reasoning"``.
            data: The data of an own event, as ``{"text": "…"}``.

        Raises:
            ValueError: Data that the event does not have.
        """
        if isinstance(event, str):
            await self._native.emit(event, self.state.step, {} if data is None else data)
        else:
            await self._native.pass_on(event)

    def __repr__(self) -> str:
        return f"ExecutionContext(agent={self.agent!r}, history={len(self.history)} messages)"


def native_execution(execution: CustomStrategy | ExecutionStrategy, max_iterations: int) -> dict[str, Any]:
    """The strategy as the native core is told it."""
    if isinstance(execution, (LoopStrategy, ReactStrategy)):
        return {"name": execution.name, **execution._options()}
    if isinstance(execution, PlanStrategy):
        return {"name": execution.name, "max_iterations": max_iterations, **execution._options()}
    return {"name": "own", "own_name": execution.name}


class Performer:
    """Runs a strategy of the application for the native core."""

    __slots__ = ("_agent", "_hooks", "_strategy")

    def __init__(self, agent: Agent, hooks: AgentStrategy, strategy: CustomStrategy | ExecutionStrategy) -> None:
        self._agent = agent
        self._hooks = hooks
        self._strategy = strategy

    async def __call__(
        self, native: _core.StrategyContext
    ) -> tuple[_core.Turn, int, list[str] | None, list[_core.PlanStep] | None]:
        """Run; give the turn, the last step, thoughts and plan."""
        from turntree.upp._llm import LLM, HeardLLM

        stream = getattr(self._strategy, "stream", None) if native.listened else None
        model: LLM
        if native.listened and stream is None:
            model = HeardLLM._of(native.llm(), self._agent).telling(native.pass_on)
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
            message = f"stream of strategy {self._strategy.name!r} must give an async iterator of events, not {found}"
            raise TypeError(message)
        turn = None
        try:
            async for event in events:
                if isinstance(event, Turn):
                    turn = event
                else:
                    await context.emit(event)
            if turn is None and hasattr(events, "turn"):
                turn = events.turn
                if inspect.isawaitable(turn):
                    turn = await turn
        finally:
            # Left in the middle, it is to end now and not when the garbage collector comes.
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()
        if turn is None:
            message = (
                f"stream of strategy {self._strategy.name!r} ended without a turn; yield it last, or give a stream "
                "with a `turn` to await"
            )
            raise TypeError(message)
        return turn

    def _check(self, turn: Any) -> None:
        from turntree._core import Turn

        if not isinstance(turn, Turn):
            message = f"execute of strategy {self._strategy.name!r} must give a Turn, not {type(turn).__name__}"
            raise TypeError(message)

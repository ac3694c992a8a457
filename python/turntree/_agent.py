"""Agents: a model, tools, and a strategy that says how to use them. UAP-1.0 §4 and §12."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

from turntree import _core
from turntree._agent_hooks import native_hooks, strategy_of
from turntree._execution import LoopStrategy, Performer, PlanStrategy, ReactStrategy, checked, loop, native_execution
from turntree._streams import RepeatableAwaitable, SyncTurnStream, TurnStream
from turntree.exceptions import ApprovalRequired
from turntree.upp._structure import structure_of
from turntree.upp._tool_use import tool_strategy_of
from turntree.upp._tools import Tool, as_tool

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterable,
        Callable,
        Iterable,
        Mapping,
        Sequence,
    )

    from typing_extensions import Unpack

    from turntree._agent_hooks import AgentStrategy
    from turntree._execution import CustomStrategy, ExecutionStrategy
    from turntree._session import Session
    from turntree._types import History, Input, Middleware
    from turntree.upp._tool_use import ToolUseStrategy
    from turntree.upp.native._tool import NativeTool


# As the native core counts; agents that are tools are polled inside one another, on one stack.
_GREATEST_DEPTH = 16


class AgentOptions(TypedDict, total=False):
    """The keyword options of `agent`."""

    model: _core.ModelReference | str | None
    params: Mapping[str, Any] | None
    config: _core.ProviderConfig | Mapping[str, Any] | None
    execution: CustomStrategy | ExecutionStrategy | None
    tools: Iterable[Tool[..., Any] | NativeTool | Callable[..., Any] | Agent]
    system: str | Sequence[Mapping[str, Any]] | None
    structure: Any
    structure_repair: bool
    middleware: Iterable[Middleware]
    hooks: AgentStrategy | Mapping[str, Callable[..., Any]] | None
    strategy: AgentStrategy | Mapping[str, Callable[..., Any]] | None
    tool_strategy: ToolUseStrategy | Mapping[str, Any] | None
    id: str | None
    name: str | None
    max_sub_agent_depth: int | None


def agent(
    *,
    model: _core.ModelReference | str | None = None,
    params: Mapping[str, Any] | None = None,
    config: _core.ProviderConfig | Mapping[str, Any] | None = None,
    execution: CustomStrategy | ExecutionStrategy | None = None,
    tools: Iterable[Tool[..., Any] | NativeTool | Callable[..., Any] | Agent] = (),
    system: str | Sequence[Mapping[str, Any]] | None = None,
    structure: Any = None,
    structure_repair: bool = False,
    middleware: Iterable[Middleware] = (),
    hooks: AgentStrategy | Mapping[str, Callable[..., Any]] | None = None,
    strategy: AgentStrategy | Mapping[str, Callable[..., Any]] | None = None,
    tool_strategy: ToolUseStrategy | Mapping[str, Any] | None = None,
    id: str | None = None,
    name: str | None = None,
    max_sub_agent_depth: int | None = None,
) -> Agent:
    """Make an agent. UAP-1.0 §4.

    Args:
        model: From a provider's factory, as ``anthropic("claude-sonnet-4-5")``, or named as
            ``"anthropic:claude-sonnet-4-5"``.
        params: The model's own parameters, passed on as they are.
        config: How to reach the provider; goes over what the model's factory was given.
        execution: How it runs: ``loop()``, ``react()``, ``plan()``, a combination of them, or an object of your own
            with ``name`` and ``async execute(context)``; see `turntree.execution`. Default ``loop()``.
        tools: Tools or plain functions, the vendor's own tools, and other agents (as `Agent.to_tool` makes them);
            names must differ.
        system: The system prompt, a text or a list of blocks.
        structure: What the answer must look like: a JSON Schema (``turn.data`` is plain data), a pydantic model, a
            dataclass, a TypedDict, or any type that annotations may name (``turn.data`` is of that type). An answer
            that does not fit raises `UPPError` INVALID_RESPONSE.
        structure_repair: Ask the model once more, with what is wrong, before an answer that does not fit raises.
        middleware: What stands around each run, the first outermost: from `turntree.middleware`, or your own objects
            with some of ``before``, ``after``, ``on_error``, ``on_event`` and ``on_model_request``. UAP-1.0 §10.
        hooks: Functions that are called while the agent runs; see `AgentStrategy`.
        strategy: The same as `hooks`, by the specification's name. Give one of the two.
        tool_strategy: Hooks of tool use, and a limit of rounds where `execution` is not given.
        id: A UUIDv4. Default: a new one.
        name: For people, and for errors.
        max_sub_agent_depth: How many agents may run inside one another under this one, 0 to 16. Default: what the
            agents around it leave, and 8 where there are none.

    Raises:
        TypeError: An option of the wrong type, named; or both `hooks` and `strategy`.
        ValueError: `max_sub_agent_depth` is out of range.
    """
    return Agent(
        model=model,
        params=params,
        config=config,
        execution=execution,
        tools=tools,
        system=system,
        structure=structure,
        structure_repair=structure_repair,
        middleware=middleware,
        hooks=hooks,
        strategy=strategy,
        tool_strategy=tool_strategy,
        id=id,
        name=name,
        max_sub_agent_depth=max_sub_agent_depth,
    )


class Agent:
    """A model, tools, and a strategy that says how to use them. Made by `agent`; immutable. UAP-1.0 §4.3.

    One agent serves any number of runs at once, from any number of event loops and threads.
    """

    __slots__ = ("__weakref__", "_native", "_options", "_tools")

    def __init__(self, **options: Unpack[AgentOptions]) -> None:
        options = _with_strategy(options)
        tools = [as_tool(tool) for tool in options.get("tools", ())]
        hooks = strategy_of(options.get("strategy"))
        tool_strategy = tool_strategy_of(options.get("tool_strategy"))
        execution = options.get("execution")
        limit = tool_strategy.max_iterations
        if execution is None:
            execution = loop() if limit is None else loop(limit)
        checked(execution)
        if limit == 0 and isinstance(execution, (ReactStrategy, PlanStrategy)):
            message = f"max_iterations=0 leaves tools to you, which {execution.name}() cannot; use loop(0)"
            raise ValueError(message)
        is_ours = isinstance(execution, (LoopStrategy, ReactStrategy, PlanStrategy))
        model = options.get("model")
        if isinstance(model, str):
            from turntree.upp._registry import model as named

            model = named(model)
            options = {**options, "model": model}
        if model is not None and not isinstance(model, _core.ModelReference):
            message = f'model must come from a provider\'s factory as openai("…"), not {type(model).__name__}'
            raise TypeError(message)
        depth = options.get("max_sub_agent_depth")
        if depth is not None and (isinstance(depth, bool) or not isinstance(depth, int)):
            message = f"max_sub_agent_depth must be an int, not {type(depth).__name__}"
            raise TypeError(message)
        if depth is not None and not 0 <= depth <= _GREATEST_DEPTH:
            message = f"max_sub_agent_depth must be from 0 to {_GREATEST_DEPTH}, not {depth}"
            raise ValueError(message)
        schema, answer = structure_of(options.get("structure"))
        middleware = _sequence(options.get("middleware", ()))
        self._options: AgentOptions = {**options, "tools": tuple(tools), "middleware": middleware}
        self._tools = tuple(tools)
        self._native = _core.AgentCore(
            model=model,
            params=options.get("params"),
            config=options.get("config"),
            execution=native_execution(execution, 10 if limit is None else limit),
            execute=None if is_ours else Performer(self, hooks, execution),
            max_iterations=limit,
            tools=list[Any](tools),
            system=options.get("system"),
            structure=schema,
            structure_repair=options.get("structure_repair", False),
            answer=answer,
            middleware=middleware,
            hooks=native_hooks(hooks, tool_strategy),
            id=options.get("id"),
            name=options.get("name"),
            max_sub_agent_depth=depth,
        )
        if middleware:
            self._native.belong_to(_Owner(self))

    @property
    def id(self) -> str:
        """Its id, a UUIDv4."""
        return self._native.id

    @property
    def name(self) -> str | None:
        """Its name, for people."""
        return self._options.get("name")

    @property
    def model(self) -> _core.ModelReference | None:
        """Its model."""
        model = self._options.get("model")
        # A name became a reference when the agent was made.
        return None if isinstance(model, str) else model

    @property
    def tools(self) -> tuple[Tool[..., Any], ...]:
        """Its tools."""
        return self._tools

    @property
    def system(self) -> str | Sequence[Mapping[str, Any]] | None:
        """Its system prompt."""
        return self._options.get("system")

    @property
    def middleware(self) -> tuple[Middleware, ...]:
        """What stands around its runs, the first outermost."""
        return tuple(self._options.get("middleware", ()))

    @property
    def options(self) -> AgentOptions:
        """All its options, a dict of its own."""
        return {**self._options}

    def to_tool(
        self,
        name: str | None = None,
        description: str | None = None,
        parameter_schema: Mapping[str, Any] | None = None,
    ) -> Tool[..., Any]:
        """Make a tool of this agent, for another one. UAP-1.0 §8.2.

        Called, it runs the agent with the task that the model gives, and answers with the text of the response, or
        with the structured answer where the agent has a `structure`. An agent among the `tools` of another one becomes
        a tool by itself; this is for a name and words of your own.

        Args:
            name: Default: ``agent_`` and the agent's id.
            description: What the other model is told. Default: the first sentence of the system prompt, at most 200
                characters.
            parameter_schema: JSON Schema of the arguments. Default: one text, ``task``. The agent is given the text in
                ``task``; where there is none, the only argument if that is a text; else all arguments as JSON.

        Raises:
            TypeError: `parameter_schema` is not a dict.
        """
        made = self._native.tool_definition(name, description, parameter_schema)

        # The native core runs the agent itself; this is the same for whoever calls the tool by hand.
        async def run(**given: Any) -> Any:
            turn = await self.run(self._native.task_of(given))
            return self._native.result_of(turn)

        tool = Tool[..., Any](*made, run)
        tool._sub_agent = self._native
        return tool

    def with_(self, **options: Unpack[AgentOptions]) -> Agent:
        """Make another agent with some options changed, and an id of its own."""
        kept: AgentOptions = {**self._options}
        kept.pop("id", None)
        changed: AgentOptions = {**kept, **_with_strategy(options)}
        return Agent(**changed)

    @overload
    async def run(self, input: Input, /) -> _core.Turn: ...
    @overload
    async def run(self, history: History, input: Input, /) -> _core.Turn: ...
    async def run(self, *arguments: Any) -> _core.Turn:
        """Run to the end. UAP-1.0 §4.3.

        Args:
            *arguments: The input (a text, a message, a block, or a list of texts and blocks); or a history (a thread
                or a list of messages, which is not changed) and the input.

        Returns:
            The turn: everything new, starting with the input.

        Raises:
            UPPError: The model call failed, or something is asked of the model that it cannot do.
            TypeError: An argument of the wrong type, named.
            asyncio.CancelledError: The awaiting task was cancelled: the request is dropped, tools are cancelled.
        """
        history, given = _arguments(arguments)
        turn: _core.Turn = await self._native.run(history, given)
        return turn

    @overload
    def run_sync(self, input: Input, /) -> _core.Turn: ...
    @overload
    def run_sync(self, history: History, input: Input, /) -> _core.Turn: ...
    def run_sync(self, *arguments: Any) -> _core.Turn:
        """Run to the end on this thread; works inside a running event loop too, as in a notebook.

        Async tools run on an event loop of ours in another thread, with the caller's context variables.

        Args:
            *arguments: As `run`.

        Raises:
            UPPError: As `run`.
        """
        history, given = _arguments(arguments)
        turn: _core.Turn = self._native.run_sync(history, given)
        return turn

    @overload
    def map(
        self,
        inputs: Iterable[Input] | AsyncIterable[Input],
        *,
        concurrency: int = 8,
        return_exceptions: Literal[False] = False,
    ) -> AsyncGenerator[_core.Turn, None]: ...
    @overload
    def map(
        self,
        inputs: Iterable[Input] | AsyncIterable[Input],
        *,
        concurrency: int = 8,
        return_exceptions: bool,
    ) -> AsyncGenerator[_core.Turn | Exception, None]: ...
    def map(
        self,
        inputs: Iterable[Input] | AsyncIterable[Input],
        *,
        concurrency: int = 8,
        return_exceptions: bool = False,
    ) -> AsyncGenerator[Any, None]:
        """Run once for each input, several at once: ``async for turn in agent.map(inputs)``.

        Turns come in the order of the inputs. An input is taken only when fewer than `concurrency` are taken whose
        turns you have not got yet, so inputs may be endless, and come from an iterable or an async iterable. When you
        stop, by ``break``, an error or cancellation, the runs under way are cancelled; to have that done at once, put
        ``contextlib.aclosing`` around it.

        Args:
            inputs: Each as `run` takes it.
            concurrency: Most runs at once.
            return_exceptions: Give the exception of a run that fails in the place of its turn. Default: raise it there,
                and cancel the other runs.

        Raises:
            UPPError: As `run`; after the turns of the inputs before.
            ValueError: `concurrency` is not positive.
            TypeError: `inputs` is neither iterable nor async iterable.
        """
        from turntree._concurrency import map_in_order

        return map_in_order(self.run, inputs, concurrency, return_exceptions=return_exceptions)

    @overload
    def stream(self, input: Input, /, *, sub_agent_events: bool = False) -> AgentStream: ...
    @overload
    def stream(self, history: History, input: Input, /, *, sub_agent_events: bool = False) -> AgentStream: ...
    def stream(self, *arguments: Any, sub_agent_events: bool = False) -> AgentStream:
        """Run with somebody listening: ``async for event in agent.stream("…")``. UAP-1.0 §12.

        Nothing is sent before the first event or the turn is awaited.

        Args:
            *arguments: As `run`.
            sub_agent_events: Give the events too of agents that run as tools, at any depth, in the order in which they
                happen. Those have ``event.sub_agent``, which says whose they are.

        Raises:
            UPPError: Something is asked of the model that it cannot do.
        """
        history, given = _arguments(arguments)
        return AgentStream(self._native.stream(history, given, True, sub_agent_events))  # noqa: FBT003

    @overload
    def stream_sync(self, input: Input, /, *, sub_agent_events: bool = False) -> SyncAgentStream: ...
    @overload
    def stream_sync(self, history: History, input: Input, /, *, sub_agent_events: bool = False) -> SyncAgentStream: ...
    def stream_sync(self, *arguments: Any, sub_agent_events: bool = False) -> SyncAgentStream:
        """Run with somebody listening, without an event loop: ``for event in agent.stream_sync("…")``.

        Args:
            *arguments: As `run`.
            sub_agent_events: As `stream`.

        Raises:
            UPPError: Something is asked of the model that it cannot do.
        """
        history, given = _arguments(arguments)
        return SyncAgentStream(self._native.stream(history, given, False, sub_agent_events))  # noqa: FBT003

    def __repr__(self) -> str:
        name = f"name={self.name!r}, " if self.name else ""
        tools = ", ".join(tool.name for tool in self._tools)
        return f"Agent({name}model={self.model!r}, tools=[{tools}])"


class _Owner:
    """Gives an agent to its own middleware, also when nothing is left of it but a run. Called natively."""

    __slots__ = ("_agent", "_native", "_options", "_tools")

    def __init__(self, agent: Agent) -> None:
        self._agent = weakref.ref(agent)
        self._native = weakref.ref(agent._native)
        self._options = agent._options
        self._tools = agent._tools

    def __call__(self) -> Agent:
        agent, native = self._agent(), self._native()
        if agent is not None:
            return agent
        if native is None:
            message = "the agent has been collected"
            raise ReferenceError(message)
        agent = Agent.__new__(Agent)
        agent._native = native
        agent._options = self._options
        agent._tools = self._tools
        self._agent = weakref.ref(agent)
        return agent


class AgentStream(TurnStream[_core.AgentStreamEvent]):
    """A streamed run: an async iterator of events, and the turn.

    Use ``async with`` to stop the run when you leave the block early.

    Spec: UAP-1.0 §12.
    """

    __slots__ = ("_session",)

    def __init__(self, native: _core.AgentStreamCore[_core.AgentStreamEvent], session: Session | None = None) -> None:
        super().__init__(native)
        self._session = session

    async def _outcome(self) -> _core.Turn:
        try:
            return await self._native.turn()
        except ApprovalRequired as required:
            required.session = self._session
            raise

    @property
    def turn(self) -> RepeatableAwaitable[_core.Turn]:
        """The turn: ``await stream.turn``. The run continues while it is awaited, whether or not events are read.

        Awaiting it again returns the same turn. Raises `UPPError` as `Agent.run`; CANCELLED for a closed stream. If a
        run of a session waits for approvals, the stream ends normally and this raises `ApprovalRequired`.
        """
        return RepeatableAwaitable(self._outcome)

    def abort(self) -> None:
        """Stop the run: iteration ends, and the turn is partial, marked ``metadata["uap"]["aborted"]``."""
        self._native.abort()


class SyncAgentStream(SyncTurnStream[_core.AgentStreamEvent]):
    """A streamed run without an event loop: an iterator of events, and the turn.

    Use ``with`` to stop the run when you leave the block early.
    """

    __slots__ = ("_session",)

    def __init__(self, native: _core.AgentStreamCore[_core.AgentStreamEvent], session: Session | None = None) -> None:
        super().__init__(native)
        self._session = session

    @property
    def turn(self) -> _core.Turn:
        """The turn. Runs to the end if the run is not over."""
        try:
            return self._native.turn_sync()
        except ApprovalRequired as required:
            required.session = self._session
            raise

    def abort(self) -> None:
        """Stop the run: iteration ends, and the turn is partial."""
        self._native.abort()


def _with_strategy(options: AgentOptions) -> AgentOptions:
    """Return the options with `hooks` under the name `strategy`."""
    if "hooks" not in options:
        return options
    if options["hooks"] is not None and options.get("strategy") is not None:
        message = "hooks and strategy are two names of one option; give one of them"
        raise TypeError(message)
    renamed: AgentOptions = {**options}
    hooks = renamed.pop("hooks")
    if hooks is not None or "strategy" not in renamed:
        renamed["strategy"] = hooks
    return renamed


def _sequence(middleware: Any) -> tuple[Any, ...]:
    try:
        return tuple(middleware)
    except TypeError:
        message = "middleware must be a list of middlewares; put a single one into brackets"
        raise TypeError(message) from None


def _arguments(arguments: tuple[Any, ...]) -> tuple[Any, Any]:
    if len(arguments) == 1:
        return None, arguments[0]
    if len(arguments) == 2:
        return arguments
    message = f"give an input, or a history and an input, not {len(arguments)} arguments"
    raise TypeError(message)

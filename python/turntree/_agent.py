"""Agents: a model, tools and an execution strategy.

Spec: UAP-1.0 §4 and §12.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, cast, overload

from turntree import _core
from turntree._agent_arguments import input_of
from turntree._agent_hooks import AgentStrategy, native_hooks, strategy_of
from turntree._agent_options import AgentOptions, CommonOptions, middleware_of, with_strategy
from turntree._agent_repr import AgentRepr
from turntree._agent_stream import AgentStream, SyncAgentStream
from turntree._argument_errors import AGENT, explain_arguments
from turntree._called_as import called_as
from turntree._generics import DataT, DepsT
from turntree._options import check_model, check_name, check_system, cleanup_seconds, repairs_of, retry_count
from turntree._output_validators import check_of, validators_of
from turntree._peer_arguments import TO_TOOL
from turntree._public_names import explain_attributes, publish
from turntree._recipes import portable_config
from turntree._run_options import OnApproval, RunOptions, approver, native_options
from turntree._strategies import (
    CustomStrategy,
    ExecutionStrategy,
    LoopStrategy,
    PlanStrategy,
    ReactStrategy,
    StrategyRunner,
    checked,
    loop,
    native_execution,
)
from turntree._toolsets import Toolset, in_runs, separated, wrapped, wrapped_sources
from turntree._types import History, Input, Middleware
from turntree._typing import Unpack
from turntree.upp._settings import ModelSettings, OnRefusal, params_with
from turntree.upp._structure import structure_of
from turntree.upp._tool_use import ToolUseStrategy, tool_strategy_of
from turntree.upp._tools import Tool
from turntree.upp.native._tool import NativeTool

# The limit of the Rust core: nested sub-agents are polled on one stack.
_MAX_DEPTH = 16


@overload
def agent(
    *, structure: type[DataT], deps_type: type[DepsT], **options: Unpack[CommonOptions]
) -> Agent[DepsT, DataT]: ...


@overload
def agent(
    *, structure: type[DataT], deps_type: None = None, **options: Unpack[CommonOptions]
) -> Agent[None, DataT]: ...


@overload
def agent(
    *, deps_type: type[DepsT], structure: None = None, **options: Unpack[CommonOptions]
) -> Agent[DepsT, None]: ...


@overload
def agent(*, deps_type: None = None, structure: None = None, **options: Unpack[CommonOptions]) -> Agent[None, None]: ...


@overload
def agent(*, deps_type: type[DepsT], structure: Any, **options: Unpack[CommonOptions]) -> Agent[DepsT, Any]: ...


@overload
def agent(*, structure: Any = None, deps_type: Any = None, **options: Unpack[CommonOptions]) -> Agent[Any, Any]: ...


@explain_arguments(AGENT)
def agent(
    *,
    model: _core.ModelReference | str | None = None,
    params: Mapping[str, Any] | None = None,
    settings: ModelSettings | Mapping[str, Any] | None = None,
    on_refusal: OnRefusal | None = None,
    config: _core.ProviderConfig | Mapping[str, Any] | None = None,
    execution: CustomStrategy | ExecutionStrategy | None = None,
    tools: Iterable[Tool[..., Any] | NativeTool | Callable[..., Any] | Agent[Any, Any] | Toolset] = (),
    system: str | Sequence[Mapping[str, Any]] | Callable[[_core.RunContext[Any]], Any] | None = None,
    structure: Any = None,
    structure_repair: bool | int = False,
    output_validators: Iterable[Callable[..., Any]] = (),
    output_retries: int | None = None,
    deps_type: Any = None,
    middleware: Iterable[Middleware] = (),
    hooks: AgentStrategy | Mapping[str, Callable[..., Any]] | None = None,
    on_approval: OnApproval | None = None,
    strategy: AgentStrategy | Mapping[str, Callable[..., Any]] | None = None,
    tool_strategy: ToolUseStrategy | Mapping[str, Any] | None = None,
    id: str | None = None,
    name: str | None = None,
    max_sub_agent_depth: int | None = None,
    cleanup_timeout: float | None = None,
) -> Agent[Any, Any]:
    """Create an agent.

    Args:
        model: A model from a provider's factory, such as ``anthropic("claude-sonnet-4-5")``, or its name, such as
            ``"anthropic:claude-sonnet-4-5"``.
        params: Parameters of the model, sent unchanged.
        settings: Settings that mean the same for every vendor, such as ``ModelSettings(max_tokens=500)``; `params` take
            precedence.
        on_refusal: ``"raise"``: an answer that the model or a filter refused raises `UPPError` CONTENT_FILTERED.
            ``"return"``: the turn is returned; its `stop_reason` tells it. Default: answers without content raise.
        config: The provider's connection settings; they override those of the model's factory.
        execution: The execution strategy: ``loop()``, ``react()``, ``plan()``, a combination of them, or an object of
            your own with ``name`` and ``async execute(context)``; see `turntree.execution`. Default: ``loop()``.
        tools: Tools, plain functions, provider-native tools, other agents (converted with `Agent.to_tool`), and
            toolsets: objects with a method ``tools(context)`` that is called before each model call; see `Toolset`.
            Names must be unique.
        system: The system prompt: a string, a list of blocks, or a function, sync or async, that takes the `RunContext`
            and returns one of these or None. The function is called before each model call; spans of the call have what
            it returned.
        structure: The type of the structured output: a JSON Schema (``turn.data`` is plain data), a pydantic model, a
            dataclass, a TypedDict, or any other type annotation (``turn.data`` has that type). A response that does
            not match raises `UPPError` INVALID_RESPONSE.
        structure_repair: If the response does not match `structure`, send the validation errors to the model before
            the error is raised: True for once, or a number of times.
        output_validators: Functions, sync or async, that take the output, or the `RunContext` and the output: the data
            if the agent has a `structure`, else the text of the response. A function that raises `ModelRetry` sends its
            text to the model, which answers again. They are called in order, and cannot replace the output. Output
            of a stream was sent before it is validated.
        output_retries: How often in a run the model is asked again for output that does not match `structure` or that a
            validator refused. Default: once for validators, and once for `structure` with `structure_repair`.
        deps_type: The type of ``deps`` of the runs, for type checkers. Not checked at run time.
        middleware: Middleware for each run, outermost first: from `turntree.middleware`, or your own objects with some
            of ``before``, ``after``, ``on_error``, ``on_event`` and ``on_model_request``.
        hooks: Functions that are called while the agent runs; see `AgentStrategy`.
        on_approval: A function, sync or async, that decides about a call whose approval says ``"ask"``, before the run
            stops. It takes the `ToolCall` and returns True, False, ``"ask"`` (a person decides), or a dict of new
            arguments. A session and a run can have their own. What it leaves open in a sub-agent goes to the caller.
        strategy: An alias of `hooks`, the name in the specification. Pass only one of the two.
        tool_strategy: Hooks of tool use, and the maximum number of tool rounds if `execution` is not given.
        id: A UUIDv4. Default: a new one.
        name: A name for logs and error messages.
        max_sub_agent_depth: The maximum nesting depth of sub-agents below this agent, 0 to 16. Default: the remaining
            depth of the calling agents, or 8 for a top-level agent.
        cleanup_timeout: How many seconds a run that ends early waits for its cancelled functions (tools, hooks,
            middleware, the strategy) until their ``finally`` blocks have ended. A sync tool runs in a thread and cannot
            be cancelled: the run waits for its return. After this time the run ends, and a warning of the logger
            ``turntree.tools`` names the function. Runs of sub-agents use the value of the outermost agent. Default: 5;
            0 does not wait.

    Raises:
        TypeError: An option has the wrong type (the message names it), or both `hooks` and `strategy` are given.
        ValueError: `max_sub_agent_depth`, `output_retries` or `cleanup_timeout` is out of range.

    Spec: UAP-1.0 §4.
    """
    return Agent(
        model=model,
        params=params,
        settings=settings,
        on_refusal=on_refusal,
        config=config,
        execution=execution,
        tools=tools,
        system=system,
        structure=structure,
        structure_repair=structure_repair,
        output_validators=output_validators,
        output_retries=output_retries,
        deps_type=deps_type,
        middleware=middleware,
        hooks=hooks,
        on_approval=on_approval,
        strategy=strategy,
        tool_strategy=tool_strategy,
        id=id,
        name=name,
        max_sub_agent_depth=max_sub_agent_depth,
        cleanup_timeout=cleanup_timeout,
    )


class Agent(AgentRepr, Generic[DepsT, DataT]):
    """A model, tools and an execution strategy. Created by `agent`; immutable.

    ``Agent[Deps, Data]`` is an agent for type checkers whose runs take ``deps`` of the first type, and whose turns have
    ``data`` of the second one. One agent can execute any number of runs concurrently, from any number of event loops
    and threads.

    Spec: UAP-1.0 §4.3.
    """

    __slots__ = ("__weakref__", "_native", "_options", "_tools", "_toolsets")

    @explain_arguments(AGENT, AgentOptions.__optional_keys__)
    def __init__(self, **options: Unpack[AgentOptions]) -> None:
        options = with_strategy(options)
        tools, toolsets = separated(options.get("tools", ()))
        hooks = strategy_of(options.get("strategy"))
        tool_strategy = tool_strategy_of(options.get("tool_strategy"))
        execution = options.get("execution")
        limit = tool_strategy.max_iterations
        if execution is None:
            execution = loop() if limit is None else loop(limit)
        checked(execution)
        if limit == 0 and isinstance(execution, (ReactStrategy, PlanStrategy)):
            message = f"max_iterations=0 disables tool execution, which {execution.name}() cannot do; use loop(0)"
            raise ValueError(message)
        is_ours = isinstance(execution, (LoopStrategy, ReactStrategy, PlanStrategy))
        model = options.get("model") or getattr(execution, "model", None)
        if isinstance(model, str):
            from turntree.upp._registry import model as named

            model = named(model)
            options = {**options, "model": model}
        if model is not None:
            model = check_model(model)
        depth = options.get("max_sub_agent_depth")
        if depth is not None and (isinstance(depth, bool) or not isinstance(depth, int)):
            message = f"max_sub_agent_depth must be an int, not {type(depth).__name__}"
            raise TypeError(message)
        if depth is not None and not 0 <= depth <= _MAX_DEPTH:
            message = f"max_sub_agent_depth must be from 0 to {_MAX_DEPTH}, not {depth}"
            raise ValueError(message)
        cleanup_timeout = cleanup_seconds(options.get("cleanup_timeout"))
        schema, answer = structure_of(options.get("structure"))
        repairs, retries = repairs_of(options.get("structure_repair", False))
        given_retries = retry_count("output_retries", options.get("output_retries"))
        validators = validators_of(options.get("output_validators", ()), execution)
        system = check_system(options.get("system"))
        middleware = middleware_of(options.get("middleware", ()))
        self._options: AgentOptions = {**options, "tools": (*tools, *toolsets), "middleware": middleware}
        if validators:
            self._options["output_validators"] = validators
        self._tools = tuple(tools)
        self._toolsets = tuple(toolsets)
        self._native = _core.AgentCore(
            model=model,
            params=params_with(options.get("params"), options.get("settings"), options.get("on_refusal")),
            config=options.get("config"),
            execution=native_execution(execution, 10 if limit is None else limit),
            execute=None if is_ours else StrategyRunner(self, hooks, execution),
            max_iterations=limit,
            tools=wrapped(tools, middleware),
            toolsets=wrapped_sources(toolsets, middleware),
            system=None if callable(system) else system,
            structure=schema,
            structure_repair=repairs,
            output_retries=retries if given_retries is None else given_retries,
            answer=answer,
            middleware=in_runs(middleware),
            hooks={
                **native_hooks(hooks, tool_strategy),
                "system_prompt": system if callable(system) else None,
                "validate_output": check_of(validators),
                "on_approval": approver("agent", options.get("on_approval")),
            },
            id=check_name(options.get("id"), "id"),
            name=check_name(options.get("name")),
            max_sub_agent_depth=depth,
            cleanup_timeout=cleanup_timeout,
        )
        if middleware:
            self._native.set_owner(_Owner(self))

    @property
    def id(self) -> str:
        """The agent's id, a UUIDv4."""
        return self._native.id

    @property
    def name(self) -> str | None:
        """The agent's name, for logs and error messages."""
        return self._options.get("name")

    @property
    def model(self) -> _core.ModelReference | None:
        """The agent's model."""
        model = self._options.get("model")
        # The constructor converts a name to a reference.
        return None if isinstance(model, str) else model

    @property
    def tools(self) -> tuple[Tool[..., Any], ...]:
        """The agent's own tools, without those of its toolsets."""
        return self._tools

    @property
    def toolsets(self) -> tuple[Toolset, ...]:
        """The agent's toolsets, whose tools can change between the steps of a run."""
        return self._toolsets

    @property
    def system(self) -> str | Sequence[Mapping[str, Any]] | Callable[[_core.RunContext[Any]], Any] | None:
        """The agent's system prompt, or the function that returns it."""
        return self._options.get("system")

    @property
    def middleware(self) -> tuple[Middleware, ...]:
        """The agent's middleware, outermost first."""
        return tuple(self._options.get("middleware", ()))

    @property
    def options(self) -> AgentOptions:
        """A copy of the agent's options."""
        return {**self._options}

    def __copy__(self) -> Agent[DepsT, DataT]:
        """Return the agent itself: it does not change."""
        return self

    def __deepcopy__(self, memo: object) -> Agent[DepsT, DataT]:
        """Return the agent itself, with the keys of its models: it does not change."""
        return self

    def __replace__(self, **changes: Any) -> Agent[Any, Any]:
        """Return a copy with other options, as `copy.replace` does. The same as `with_`."""
        return self.with_(**changes)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the agent by its options. Keys are not part of them: the other process reads its environment."""
        config = portable_config(self._options.get("config"))
        return _restored, ({**self._options, "id": self.id, "config": config},)

    @explain_arguments(TO_TOOL)
    def to_tool(
        self,
        name: str | None = None,
        description: str | None = None,
        parameter_schema: Mapping[str, Any] | None = None,
    ) -> Tool[..., Any]:
        """Create a tool that runs this agent, for use by another agent.

        The tool runs the agent with the task from the model. It returns the text of the response, or the structured
        output if the agent has a `structure`. An agent in the `tools` of another agent is converted automatically;
        call this method to set the name and the description.

        Args:
            name: Default: ``agent_`` and the agent's id.
            description: The tool description for the other model. Default: the first sentence of the system prompt, at
                most 200 characters.
            parameter_schema: JSON Schema of the arguments. Default: one string, ``task``. The agent's input is the
                string in ``task``; without it, the only argument if that is a string; else all arguments as JSON.

        Raises:
            TypeError: `parameter_schema` is not a dict.

        Spec: UAP-1.0 §8.2.
        """
        definition = self._native.tool_definition(check_name(name), description, parameter_schema)

        # The Rust core runs the sub-agent directly; this function serves direct calls of the tool.
        async def run(**arguments: Any) -> Any:
            turn = await self.run(self._native.task_of(arguments))
            return self._native.result_of(turn)

        tool = Tool[..., Any](*definition, run)
        tool._agent = self
        tool._sub_agent = self._native
        return tool

    def with_(self, **options: Unpack[AgentOptions]) -> Agent[DepsT, DataT]:
        """Create a copy of the agent with some options changed and a new id."""
        base: AgentOptions = {**self._options}
        base.pop("id", None)
        changed: AgentOptions = {**base, **with_strategy(options)}
        try:
            return cast("Agent[DepsT, DataT]", Agent(**changed))
        except TypeError as error:
            called_as(error, "Agent", "Agent.with_")
            raise

    @overload
    async def run(self, input: Input, /, **options: Unpack[RunOptions[DepsT]]) -> _core.Turn[DataT]: ...
    @overload
    async def run(
        self, history: History, input: Input, /, **options: Unpack[RunOptions[DepsT]]
    ) -> _core.Turn[DataT]: ...
    async def run(self, *arguments: Any, **options: Any) -> _core.Turn[DataT]:
        """Run the agent and return the turn.

        Args:
            *arguments: The input (a string, a message, a block, a list of strings and blocks, or strings and blocks one
                by one); or a history (a thread or a list of messages, which is not modified) and the input.
            **options: For this run only:

                - ``deps``: any object for the functions of the run: `ToolContext.deps` and `RunContext.deps`.
                  Sub-agents, and runs inside tools, have it too, unless they are given their own.
                - ``params``: parameters of the model, added to those of the agent; equal names replace the agent's.
                - ``model``: a model or its name, instead of the agent's, without the agent's ``config``.
                - ``metadata``: a dict that the ``metadata`` of hooks, tools and toolsets starts with.
                - ``timeout``: the maximum duration in seconds. In a session it includes the wait for an earlier run.
                - ``limits``: `Limits` of the run with everything that it starts.
                - ``on_approval``: as in `agent`, for this run, instead of the agent's.

        Returns:
            The turn: all new messages, starting with the input.

        Raises:
            UPPError: The model call failed, the model does not support a requested feature, or the run exceeded its
                ``timeout`` (TIMEOUT; ``partial`` is the incomplete turn).
            LimitExceeded: The run reached one of its ``limits``; ``partial`` is the incomplete turn.
            TypeError: An argument has the wrong type; the message names it.
            ValueError: An option is out of range.
            asyncio.CancelledError: The awaiting task was cancelled. The request and running tools were cancelled too,
                and the tools have ended (see `cleanup_timeout` of `agent`).

        Spec: UAP-1.0 §4.3.
        """
        native = native_options("Agent.run", options) if options else None
        history, given = input_of(arguments)
        turn: _core.Turn[DataT] = await self._native.run(history, given, None, native)
        return turn

    @overload
    def run_sync(self, input: Input, /, **options: Unpack[RunOptions[DepsT]]) -> _core.Turn[DataT]: ...
    @overload
    def run_sync(
        self, history: History, input: Input, /, **options: Unpack[RunOptions[DepsT]]
    ) -> _core.Turn[DataT]: ...
    def run_sync(self, *arguments: Any, **options: Any) -> _core.Turn[DataT]:
        """Run the agent and block until the turn is complete; also works inside a running event loop (notebooks).

        Async tools run on turntree's event loop in another thread, with the caller's context variables.

        Args:
            *arguments: As `run`.
            **options: As `run`.

        Raises:
            UPPError: As `run`.
        """
        native = native_options("Agent.run_sync", options) if options else None
        history, given = input_of(arguments)
        turn: _core.Turn[DataT] = self._native.run_sync(history, given, native)
        return turn

    @overload
    def map(
        self,
        inputs: Iterable[Input] | AsyncIterable[Input],
        *,
        concurrency: int = 8,
        return_exceptions: Literal[False] = False,
        progress: Callable[[int], Any] | bool | None = None,
        **options: Unpack[RunOptions[DepsT]],
    ) -> AsyncGenerator[_core.Turn[DataT], None]: ...
    @overload
    def map(
        self,
        inputs: Iterable[Input] | AsyncIterable[Input],
        *,
        concurrency: int = 8,
        return_exceptions: bool,
        progress: Callable[[int], Any] | bool | None = None,
        **options: Unpack[RunOptions[DepsT]],
    ) -> AsyncGenerator[_core.Turn[DataT] | Exception, None]: ...
    def map(
        self,
        inputs: Iterable[Input] | AsyncIterable[Input],
        *,
        concurrency: int = 8,
        return_exceptions: bool = False,
        progress: Callable[[int], Any] | bool | None = None,
        **options: Any,
    ) -> AsyncGenerator[Any, None]:
        """Run the agent once for each input, concurrently: ``async for turn in agent.map(inputs)``.

        Yields turns in the order of the inputs. The next input is read only when fewer than `concurrency` inputs have
        an unconsumed turn, so `inputs` may be infinite. It may be an iterable or an async iterable. When the iteration
        stops (``break``, an error or cancellation), active runs are cancelled; wrap it in ``contextlib.aclosing`` to
        wait for their end.

        Args:
            inputs: Each as `run` takes it.
            concurrency: The maximum number of concurrent runs.
            return_exceptions: Yield the exception of a failed run in place of its turn. Default: raise it at that
                position and cancel the other runs.
            progress: True shows a bar with rate, tokens, cost and errors from the first run on: of tqdm or rich if one
                of them is installed, else a line on a terminal. Or a function that is called with the number of ended
                runs after each of them, on the event loop.
            **options: As `run`. ``limits`` hold for all runs together.

        Raises:
            UPPError: As `run`; raised after the turns of the previous inputs. A note of each exception names the input.
            ValueError: `concurrency` is not positive.
            TypeError: `inputs` is neither iterable nor async iterable, or `concurrency` is not an int.
        """
        from turntree._concurrency import map_in_order, observed, reporter

        native = native_options("Agent.map", options) if options else None

        async def run(given: Input) -> _core.Turn[DataT]:
            turn: _core.Turn[DataT] = await self._native.run(None, given, None, native)
            return turn

        reports = reporter(progress, inputs)
        call = observed(run, reports.ended)
        return map_in_order(call, inputs, concurrency, return_exceptions=return_exceptions, reports=reports)

    @overload
    def stream(
        self, input: Input, /, *, sub_agent_events: bool = False, **options: Unpack[RunOptions[DepsT]]
    ) -> AgentStream[DataT]: ...
    @overload
    def stream(
        self, history: History, input: Input, /, *, sub_agent_events: bool = False, **options: Unpack[RunOptions[DepsT]]
    ) -> AgentStream[DataT]: ...
    def stream(self, *arguments: Any, sub_agent_events: bool = False, **options: Any) -> AgentStream[DataT]:
        """Run the agent and stream its events: ``async for event in agent.stream("…")``.

        No request is sent until the first event or the turn is awaited.

        Args:
            *arguments: As `run`.
            sub_agent_events: Also yield the events of sub-agents, at any depth, in the order of occurrence.
                ``event.sub_agent`` identifies the sub-agent.
            **options: As `run`. ``timeout`` begins when the stream is first read or awaited.

        Raises:
            UPPError: The model does not support a requested feature.

        Spec: UAP-1.0 §12.
        """
        native = native_options("Agent.stream", options) if options else None
        history, given = input_of(arguments)
        return AgentStream(self._native.stream(history, given, True, sub_agent_events, native))  # noqa: FBT003

    @overload
    def stream_sync(
        self, input: Input, /, *, sub_agent_events: bool = False, **options: Unpack[RunOptions[DepsT]]
    ) -> SyncAgentStream[DataT]: ...
    @overload
    def stream_sync(
        self, history: History, input: Input, /, *, sub_agent_events: bool = False, **options: Unpack[RunOptions[DepsT]]
    ) -> SyncAgentStream[DataT]: ...
    def stream_sync(self, *arguments: Any, sub_agent_events: bool = False, **options: Any) -> SyncAgentStream[DataT]:
        """Run the agent and stream its events without an event loop: ``for event in agent.stream_sync("…")``.

        Args:
            *arguments: As `run`.
            sub_agent_events: As `stream`.
            **options: As `stream`.

        Raises:
            UPPError: The model does not support a requested feature.
        """
        native = native_options("Agent.stream_sync", options) if options else None
        history, given = input_of(arguments)
        try:
            return SyncAgentStream(self._native.stream(history, given, False, sub_agent_events, native))  # noqa: FBT003
        except TypeError as error:
            called_as(error, "Agent.stream", "Agent.stream_sync")
            raise


class _Owner:
    """Returns the agent for its middleware; recreates it if only a run still refers to it. Called by the Rust core."""

    __slots__ = ("_agent", "_native", "_options", "_tools", "_toolsets")

    def __init__(self, agent: Agent[Any, Any]) -> None:
        self._agent = weakref.ref(agent)
        self._native = weakref.ref(agent._native)
        self._options = agent._options
        self._tools = agent._tools
        self._toolsets = agent._toolsets

    def __call__(self) -> Agent[Any, Any]:
        agent, native = self._agent(), self._native()
        if agent is not None:
            return agent
        if native is None:
            message = "the agent has been collected"
            raise ReferenceError(message)
        made: Agent[Any, Any] = Agent.__new__(Agent)
        made._native = native
        made._options = self._options
        made._tools = self._tools
        made._toolsets = self._toolsets
        self._agent = weakref.ref(made)
        return made


def _restored(options: AgentOptions) -> Agent[Any, Any]:
    return Agent(**options)


publish(__name__, globals())
explain_attributes(Agent, "AGENT")

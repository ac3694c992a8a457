"""Agents: a model, tools, and a strategy that says how to use them. UAP-1.0 §4 and §12."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict, overload

from turntree import _core
from turntree._hooks import native_hooks, strategy_of, tool_strategy_of
from turntree.exceptions import ApprovalRequired
from turntree.execution import LoopStrategy, loop
from turntree.upp._structure import structure_of
from turntree.upp._tools import as_tool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from turntree import Session, upp
    from turntree._hooks import AgentStrategy, ToolUseStrategy

    Block = upp.Text | upp.Image | upp.Document | upp.Audio | upp.Video | upp.Binary
    Input = str | upp.Message | Block | Mapping[str, Any] | list[Any]
    History = upp.Thread | Iterable[upp.Message | Mapping[str, Any]]


class AgentOptions(TypedDict, total=False):
    """The keyword options of `agent`."""

    model: _core.ModelReference | str | None
    params: Mapping[str, Any] | None
    config: _core.ProviderConfig | Mapping[str, Any] | None
    execution: LoopStrategy | None
    tools: Iterable[upp.Tool[..., Any] | upp.NativeTool | Callable[..., Any]]
    system: str | Sequence[Mapping[str, Any]] | None
    structure: Any
    structure_repair: bool
    strategy: AgentStrategy | Mapping[str, Callable[..., Any]] | None
    tool_strategy: ToolUseStrategy | Mapping[str, Any] | None
    id: str | None
    name: str | None


def agent(
    *,
    model: _core.ModelReference | str | None = None,
    params: Mapping[str, Any] | None = None,
    config: _core.ProviderConfig | Mapping[str, Any] | None = None,
    execution: LoopStrategy | None = None,
    tools: Iterable[upp.Tool[..., Any] | upp.NativeTool | Callable[..., Any]] = (),
    system: str | Sequence[Mapping[str, Any]] | None = None,
    structure: Any = None,
    structure_repair: bool = False,
    strategy: AgentStrategy | Mapping[str, Callable[..., Any]] | None = None,
    tool_strategy: ToolUseStrategy | Mapping[str, Any] | None = None,
    id: str | None = None,
    name: str | None = None,
) -> Agent:
    """Make an agent. UAP-1.0 §4.

    Args:
        model: From a provider's factory, as ``anthropic("claude-sonnet-4-5")``, or named as
            ``"anthropic:claude-sonnet-4-5"``.
        params: The model's own parameters, passed on as they are.
        config: How to reach the provider; goes over what the model's factory was given.
        execution: How it runs. Default ``loop()``.
        tools: Tools or plain functions, and the vendor's own tools; names must differ.
        system: The system prompt, a text or a list of blocks.
        structure: What the answer must look like: a JSON Schema (``turn.data`` is plain data), a pydantic model, a
            dataclass, a TypedDict, or any type that annotations may name (``turn.data`` is of that type). An answer
            that does not fit raises `UPPError` INVALID_RESPONSE.
        structure_repair: Ask the model once more, with what is wrong, before an answer that does not fit raises.
        strategy: Hooks of the run.
        tool_strategy: Hooks of tool use, and a limit of rounds where `execution` is not given.
        id: A UUIDv4. Default: a new one.
        name: For people, and for errors.

    Raises:
        TypeError: An option of the wrong type, named.
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
        strategy=strategy,
        tool_strategy=tool_strategy,
        id=id,
        name=name,
    )


class Agent:
    """A model, tools, and a strategy that says how to use them. Made by `agent`; immutable. UAP-1.0 §4.3.

    One agent serves any number of runs at once, from any number of event loops and threads.
    """

    __slots__ = ("__weakref__", "_native", "_options", "_tools")

    def __init__(self, **options: Unpack[AgentOptions]) -> None:
        tools = [as_tool(tool) for tool in options.get("tools", ())]
        hooks = strategy_of(options.get("strategy"))
        tool_strategy = tool_strategy_of(options.get("tool_strategy"))
        execution = options.get("execution")
        if execution is None:
            limit = tool_strategy.max_iterations
            execution = loop() if limit is None else loop(limit)
        if not isinstance(execution, LoopStrategy):
            message = f"execution must be a strategy as loop(), not {type(execution).__name__}"
            raise TypeError(message)
        model = options.get("model")
        if isinstance(model, str):
            from turntree.upp._registry import model as named

            model = named(model)
            options = {**options, "model": model}
        if model is not None and not isinstance(model, _core.ModelReference):
            message = f'model must come from a provider\'s factory as openai("…"), not {type(model).__name__}'
            raise TypeError(message)
        schema, answer = structure_of(options.get("structure"))
        self._options: AgentOptions = {**options, "tools": tuple(tools)}
        self._tools = tuple(tools)
        self._native = _core.AgentCore(
            model=model,
            params=options.get("params"),
            config=options.get("config"),
            max_iterations=execution.max_iterations,
            tools=list[Any](tools),
            system=options.get("system"),
            structure=schema,
            structure_repair=options.get("structure_repair", False),
            answer=answer,
            hooks=native_hooks(hooks, tool_strategy),
            id=options.get("id"),
            name=options.get("name"),
        )

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
    def tools(self) -> tuple[upp.Tool[..., Any], ...]:
        """Its tools."""
        return self._tools

    @property
    def system(self) -> str | Sequence[Mapping[str, Any]] | None:
        """Its system prompt."""
        return self._options.get("system")

    @property
    def options(self) -> AgentOptions:
        """All its options, a dict of its own."""
        return {**self._options}

    def with_(self, **options: Unpack[AgentOptions]) -> Agent:
        """Make another agent with some options changed, and an id of its own."""
        kept: AgentOptions = {**self._options}
        kept.pop("id", None)
        changed: AgentOptions = {**kept, **options}
        return Agent(**changed)

    @overload
    async def run(self, input: Input, /) -> upp.Turn: ...
    @overload
    async def run(self, history: History, input: Input, /) -> upp.Turn: ...
    async def run(self, *arguments: Any) -> upp.Turn:
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
        turn: upp.Turn = await self._native.run(history, given)
        return turn

    @overload
    def run_sync(self, input: Input, /) -> upp.Turn: ...
    @overload
    def run_sync(self, history: History, input: Input, /) -> upp.Turn: ...
    def run_sync(self, *arguments: Any) -> upp.Turn:
        """Run to the end on this thread; works inside a running event loop too, as in a notebook.

        Async tools run on an event loop of ours in another thread, with the caller's context variables.

        Args:
            *arguments: As `run`.

        Raises:
            UPPError: As `run`.
        """
        history, given = _arguments(arguments)
        turn: upp.Turn = self._native.run_sync(history, given)
        return turn

    @overload
    def stream(self, input: Input, /) -> AgentStream: ...
    @overload
    def stream(self, history: History, input: Input, /) -> AgentStream: ...
    def stream(self, *arguments: Any) -> AgentStream:
        """Run with somebody listening: ``async for event in agent.stream("…")``. UAP-1.0 §12.

        Nothing is sent before the first event or the turn is awaited.

        Args:
            *arguments: As `run`.

        Raises:
            UPPError: Something is asked of the model that it cannot do.
        """
        history, given = _arguments(arguments)
        return AgentStream(self._native.stream(history, given, True))  # noqa: FBT003

    @overload
    def stream_sync(self, input: Input, /) -> SyncAgentStream: ...
    @overload
    def stream_sync(self, history: History, input: Input, /) -> SyncAgentStream: ...
    def stream_sync(self, *arguments: Any) -> SyncAgentStream:
        """Run with somebody listening, without an event loop: ``for event in agent.stream_sync("…")``.

        Args:
            *arguments: As `run`.

        Raises:
            UPPError: Something is asked of the model that it cannot do.
        """
        history, given = _arguments(arguments)
        return SyncAgentStream(self._native.stream(history, given, False))  # noqa: FBT003

    def __repr__(self) -> str:
        name = f"name={self.name!r}, " if self.name else ""
        tools = ", ".join(tool.name for tool in self._tools)
        return f"Agent({name}model={self.model!r}, tools=[{tools}])"


class AgentStream:
    """A run that is listened to: an async iterator of events, and the turn. UAP-1.0 §12.

    Use it as ``async with`` to stop the run when you leave early.
    """

    __slots__ = ("__weakref__", "_native", "_session")

    def __init__(self, native: _core.AgentStreamCore[_core.AgentStreamEvent], session: Session | None = None) -> None:
        self._native = native
        self._session = session

    def __aiter__(self) -> AsyncIterator[_core.AgentStreamEvent]:
        """Give the events; those that are there already come without a trip through the event loop."""
        return self._native.events

    async def __anext__(self) -> _core.AgentStreamEvent:
        """Give the next event."""
        return await self._native.events.__anext__()

    def batches(self, limit: int = 256) -> AsyncIterator[list[_core.AgentStreamEvent]]:
        """Give lists of all events that are ready, up to `limit`: for heavy consumers."""
        return self._native.events.batches(limit)

    @property
    def partial(self) -> Any:
        """The structured answer so far, by the events that were read: plain data, None before there is anything."""
        return self._native.partial

    @property
    def turn(self) -> _Turn:
        """The turn: ``await stream.turn``. The run goes on while it is awaited, whether or not events are read.

        Awaiting it again gives the same turn. Raises `UPPError` as `Agent.run`; CANCELLED for a closed stream. The
        stream of a session whose run waits for a decision ends like any other, and this raises `ApprovalRequired`.
        """
        return _Turn(self._native, self._session)

    def __await__(self) -> Generator[Any, Any, upp.Turn]:
        """Give the turn."""
        return self.turn.__await__()

    def abort(self) -> None:
        """Stop the run: iteration ends, and the turn is what there is, marked ``metadata["uap"]["aborted"]``."""
        self._native.abort()

    async def aclose(self) -> None:
        """Drop the run and everything behind it."""
        await self._native.events.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


class _Turn:
    """An awaitable that may be awaited again: each time it asks the stream for its turn."""

    __slots__ = ("_native", "_session")

    def __init__(self, native: _core.AgentStreamCore[_core.AgentStreamEvent], session: Session | None) -> None:
        self._native = native
        self._session = session

    def __await__(self) -> Generator[Any, Any, upp.Turn]:
        try:
            return (yield from self._native.turn().__await__())
        except ApprovalRequired as required:
            required.session = self._session
            raise


class SyncAgentStream:
    """A run that is listened to without an event loop: an iterator of events, and the turn.

    Use it as ``with`` to stop the run when you leave early.
    """

    __slots__ = ("__weakref__", "_events", "_native", "_session")

    def __init__(self, native: _core.AgentStreamCore[_core.AgentStreamEvent], session: Session | None = None) -> None:
        self._native = native
        self._session = session
        self._events: Iterator[_core.AgentStreamEvent] = native.blocking()

    def __iter__(self) -> Iterator[_core.AgentStreamEvent]:
        """Give the events."""
        return self._events

    def __next__(self) -> _core.AgentStreamEvent:
        """Give the next event."""
        return next(self._events)

    @property
    def partial(self) -> Any:
        """The structured answer so far, by the events that were read: plain data, None before there is anything."""
        return self._native.partial

    @property
    def turn(self) -> upp.Turn:
        """The turn; runs to the end if the run is not over."""
        try:
            turn: upp.Turn = self._native.turn_sync()
        except ApprovalRequired as required:
            required.session = self._session
            raise
        return turn

    def abort(self) -> None:
        """Stop the run; the turn is what there is."""
        self._native.abort()

    def close(self) -> None:
        """Drop the run and everything behind it."""
        self._native.events.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _arguments(arguments: tuple[Any, ...]) -> tuple[Any, Any]:
    if len(arguments) == 1:
        return None, arguments[0]
    if len(arguments) == 2:
        return arguments
    message = f"give an input, or a history and an input, not {len(arguments)} arguments"
    raise TypeError(message)

"""`llm()`: a model with tools and without an agent.

Spec: UPP-1.2 §10 and §11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from turntree import _core
from turntree._agent_hooks import AgentStrategy, native_hooks
from turntree._streams import RepeatableAwaitable, SyncTurnStream, TurnStream
from turntree.upp._structure import structure_of
from turntree.upp._tool_use import tool_strategy_of
from turntree.upp._tools import as_tool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

    from typing_extensions import Self

    from turntree._types import ModelHistory, ModelInput
    from turntree.upp._tool_use import ToolUseStrategy
    from turntree.upp._tools import Tool


def llm(
    *,
    model: _core.ModelReference,
    params: Mapping[str, Any] | None = None,
    config: _core.ProviderConfig | Mapping[str, Any] | None = None,
    system: str | Sequence[Mapping[str, Any]] | None = None,
    tools: Iterable[Tool[..., Any] | Callable[..., Any]] = (),
    tool_strategy: ToolUseStrategy | Mapping[str, Any] | None = None,
    structure: Any = None,
    structure_repair: bool = False,
    middleware: Iterable[object] = (),
) -> LLM:
    """Make a model ready to be called.

    Args:
        model: From a provider's factory, as ``anthropic("claude-sonnet-4-5")``.
        params: The model's own parameters, passed on as they are.
        config: How to reach the provider; goes over what the model's factory was given.
        system: The system prompt, a text or a list of blocks.
        tools: Tools or plain functions; names must differ.
        tool_strategy: Hooks of tool use, and the limit of tool rounds (default 10).
        structure: What the answer must look like: a JSON Schema (``turn.data`` is plain data), a pydantic model, a
            dataclass, a TypedDict, or any type that annotations may name (``turn.data`` is of that type). An answer
            that does not fit raises `UPPError` INVALID_RESPONSE.
        structure_repair: Ask the model once more, with what is wrong, before an answer that does not fit raises.
        middleware: What is put around each call, the first outermost: from `turntree.upp.middleware`, or your own
            objects with hooks.

    Raises:
        UPPError: INVALID_REQUEST, when the model has no tools or no structured answers and some are wanted.
        TypeError: An option of the wrong type, named.

    Spec: UPP-1.2 §10.
    """
    return LLM(
        model=model,
        params=params,
        config=config,
        system=system,
        tools=tools,
        tool_strategy=tool_strategy,
        structure=structure,
        structure_repair=structure_repair,
        middleware=middleware,
    )


class LLM:
    """A model with its tools, ready to be called. Made by `llm`; immutable.

    One serves any number of calls at once, from any number of event loops and threads.

    Spec: UPP-1.2 §10.
    """

    __slots__ = ("__weakref__", "_model", "_native", "_params", "_system")

    def __init__(
        self,
        *,
        model: _core.ModelReference,
        params: Mapping[str, Any] | None = None,
        config: _core.ProviderConfig | Mapping[str, Any] | None = None,
        system: str | Sequence[Mapping[str, Any]] | None = None,
        tools: Iterable[Tool[..., Any] | Callable[..., Any]] = (),
        tool_strategy: ToolUseStrategy | Mapping[str, Any] | None = None,
        structure: Any = None,
        structure_repair: bool = False,
        middleware: Iterable[object] = (),
    ) -> None:
        if not isinstance(model, _core.ModelReference):
            message = f'model must come from a provider\'s factory as openai("…"), not {type(model).__name__}'
            raise TypeError(message)
        strategy = tool_strategy_of(tool_strategy)
        schema, answer = structure_of(structure)
        self._model = model
        self._params = params
        self._system = system
        self._native = _core.LlmCore(
            model=model,
            params=params,
            config=config,
            max_iterations=strategy.max_iterations,
            tools=[as_tool(tool) for tool in tools],
            system=system,
            structure=schema,
            structure_repair=structure_repair,
            answer=answer,
            hooks=native_hooks(AgentStrategy(), strategy),
            middleware=_core.MiddlewareChain(middleware),
        )

    @classmethod
    def _of(cls, native: _core.LlmCore, owner: Any) -> Self:
        """An LLM around a native one; `owner` is the agent or the LLM whose model it is."""
        made = cls.__new__(cls)
        made._native = native
        made._model = owner.model
        made._system = owner.system
        made._params = owner.params if isinstance(owner, LLM) else owner.options.get("params")
        return made

    @property
    def model(self) -> _core.ModelReference:
        """Its model."""
        return self._model

    @property
    def system(self) -> str | Sequence[Mapping[str, Any]] | None:
        """Its system prompt."""
        return self._system

    @property
    def params(self) -> Mapping[str, Any] | None:
        """The model's own parameters."""
        return self._params

    @property
    def capabilities(self) -> dict[str, bool]:
        """What the model can take and do, by name."""
        return self._model.capabilities

    @overload
    async def generate(self, *inputs: ModelInput) -> _core.Turn: ...
    @overload
    async def generate(self, history: ModelHistory, /, *inputs: ModelInput) -> _core.Turn: ...
    async def generate(self, *arguments: Any) -> _core.Turn:
        """Call the model, and again while it wants tools.

        Args:
            *arguments: Inputs: texts, blocks and messages. Before them may stand a history, which is not changed: a
                thread, anything with a list of ``messages``, or a list of messages. Texts and blocks that follow each
                other become one user's message; messages stay as they are. Without inputs the model goes on from the
                history.

        Returns:
            The turn: everything new, starting with the input.

        Raises:
            UPPError: INVALID_REQUEST for what is no input, for media the model does not take, and for one tool round
                more than the limit; INVALID_RESPONSE for an answer that does not fit the structure; else what the
                model call failed with. ``partial`` holds the turn so far.
            asyncio.CancelledError: The awaiting task was cancelled: the request is dropped, tools are cancelled.

        Spec: UPP-1.2 §10.1 to §10.4.
        """
        turn: _core.Turn = await self._native.generate(arguments)
        return turn

    @overload
    def generate_sync(self, *inputs: ModelInput) -> _core.Turn: ...
    @overload
    def generate_sync(self, history: ModelHistory, /, *inputs: ModelInput) -> _core.Turn: ...
    def generate_sync(self, *arguments: Any) -> _core.Turn:
        """Call the model on this thread; works inside a running event loop too, as in a notebook.

        Args:
            *arguments: As `generate`.

        Raises:
            UPPError: As `generate`.
        """
        turn: _core.Turn = self._native.generate_sync(arguments)
        return turn

    @overload
    def stream(self, *inputs: ModelInput) -> StreamResult: ...
    @overload
    def stream(self, history: ModelHistory, /, *inputs: ModelInput) -> StreamResult: ...
    def stream(self, *arguments: Any) -> StreamResult:
        """Call the model with somebody listening: ``async for event in llm.stream("…")``.

        Nothing is sent before the first event or the turn is awaited.

        Args:
            *arguments: As `generate`.

        Raises:
            UPPError: INVALID_REQUEST, at once: the model cannot stream, or as `generate`.

        Spec: UPP-1.2 §11.
        """
        return StreamResult(self._native.stream(arguments, True))  # noqa: FBT003

    @overload
    def stream_sync(self, *inputs: ModelInput) -> SyncStreamResult: ...
    @overload
    def stream_sync(self, history: ModelHistory, /, *inputs: ModelInput) -> SyncStreamResult: ...
    def stream_sync(self, *arguments: Any) -> SyncStreamResult:
        """Call the model with somebody listening, without an event loop: ``for event in llm.stream_sync("…")``.

        Args:
            *arguments: As `generate`.

        Raises:
            UPPError: As `stream`.
        """
        return SyncStreamResult(self._native.stream(arguments, False))  # noqa: FBT003

    def __repr__(self) -> str:
        return f"LLM(model={self._model!r})"


class HeardLLM(LLM):
    """An LLM of which somebody hears what it answers with `generate` too."""

    __slots__ = ("_tell",)

    def telling(self, tell: Callable[[_core.StreamEvent], Awaitable[None]]) -> Self:
        """Tell every event to `tell`, which may wait."""
        self._tell = tell
        return self

    async def generate(self, *arguments: Any) -> _core.Turn:
        stream = self.stream(*arguments)
        async for event in stream:
            await self._tell(event)
        return await stream.turn


class StreamResult(TurnStream["_core.StreamEvent"]):
    """A streamed call: an async iterator of events, and the turn.

    Leaving the iteration early (``break``, an exception, a timeout) stops the call: the request is dropped and the
    turn raises CANCELLED. Awaiting the turn without iterating runs the call to its end.

    Spec: UPP-1.2 §11.2.
    """

    __slots__ = ()

    def __aiter__(self) -> AsyncIterator[_core.StreamEvent]:
        """Return the events. Events that are ready are returned without a trip through the event loop."""
        return _Events(self._native, super().__aiter__())

    def batches(self, limit: int = 256) -> AsyncIterator[list[_core.StreamEvent]]:
        """Iterate over lists of all events that are ready, up to `limit`. For consumers of many events."""
        return _Events(self._native, super().batches(limit))

    @property
    def turn(self) -> Awaitable[_core.Turn]:
        """The turn: ``await stream.turn``. The call continues while it is awaited, whether or not events are read.

        Awaiting it again returns the same turn. Raises `UPPError` as `LLM.generate`; CANCELLED for a call that was
        stopped, with the partial turn in ``partial``.
        """
        return RepeatableAwaitable(self._outcome)

    def abort(self) -> None:
        """Stop the call: the next event and the turn raise `UPPError` CANCELLED. No effect if the call is over."""
        self._native.leave()

    async def aclose(self) -> None:
        """Stop the call if it is not over."""
        self._native.leave()


class _Events:
    """One iteration over a stream. Dropping it before the end stops the call."""

    __slots__ = ("_advance", "_native")

    def __init__(self, native: _core.AgentStreamCore[Any], events: AsyncIterator[Any]) -> None:
        self._native = native
        self._advance = events.__anext__

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Awaitable[Any]:
        return self._advance()

    def __del__(self) -> None:
        self._native.leave()


class SyncStreamResult(SyncTurnStream["_core.StreamEvent"]):
    """A streamed call without an event loop: an iterator of events, and the turn.

    Leaving the iteration early stops the call, as with `StreamResult`.

    Spec: UPP-1.2 §11.2.
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[_core.StreamEvent]:
        """Return the events."""
        return _SyncEvents(self._native, self._events)

    def abort(self) -> None:
        """Stop the call: the next event and the turn raise `UPPError` CANCELLED. No effect if the call is over."""
        self._native.leave()

    def close(self) -> None:
        """Stop the call if it is not over."""
        self._native.leave()


class _SyncEvents:
    """One iteration over a stream. Dropping it before the end stops the call."""

    __slots__ = ("_events", "_native")

    def __init__(self, native: _core.AgentStreamCore[Any], events: Iterator[Any]) -> None:
        self._native = native
        self._events = events

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return next(self._events)

    def __del__(self) -> None:
        self._native.leave()

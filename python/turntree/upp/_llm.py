"""`llm()`: a language model with tools, without an agent.

Spec: UPP-1.2 §10 and §11.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypedDict, overload

from turntree import _core
from turntree._agent_hooks import AgentStrategy, native_hooks
from turntree._argument_errors import explain_arguments
from turntree._generics import DataT
from turntree._options import check_model, cleanup_seconds, repairs_of
from turntree._peer_arguments import LLM as LLM_WORDS
from turntree._public_names import LateClass, explain_attributes, publish
from turntree._streams import RepeatableAwaitable, SyncTurnStream, TurnStream
from turntree._types import ModelHistory, ModelInput
from turntree._typing import Self, Unpack
from turntree.upp._settings import ModelSettings, OnRefusal, params_with
from turntree.upp._structure import structure_of
from turntree.upp._token_count import TokenCount, captured_request, count
from turntree.upp._tool_use import ToolUseStrategy, tool_strategy_of
from turntree.upp._tools import Tool, as_tool

if TYPE_CHECKING:
    from turntree.upp._batch import Batch
else:
    Batch = LateClass("turntree.upp._batch", "Batch")


class LlmOptions(TypedDict, total=False):
    """The keyword options of `llm`, without those that its type depends on."""

    params: Mapping[str, Any] | None
    settings: ModelSettings | Mapping[str, Any] | None
    on_refusal: OnRefusal | None
    config: _core.ProviderConfig | Mapping[str, Any] | None
    system: str | Sequence[Mapping[str, Any]] | None
    tools: Iterable[Tool[..., Any] | Callable[..., Any]]
    tool_strategy: ToolUseStrategy | Mapping[str, Any] | None
    structure_repair: bool | int
    middleware: Iterable[object]
    cleanup_timeout: float | None


@overload
def llm(*, model: _core.ModelReference | str, structure: type[DataT], **options: Unpack[LlmOptions]) -> LLM[DataT]: ...


@overload
def llm(*, model: _core.ModelReference | str, structure: None = None, **options: Unpack[LlmOptions]) -> LLM[None]: ...


@overload
def llm(*, model: _core.ModelReference | str, structure: Any, **options: Unpack[LlmOptions]) -> LLM[Any]: ...


@explain_arguments(LLM_WORDS)
def llm(
    *,
    model: _core.ModelReference | str,
    params: Mapping[str, Any] | None = None,
    settings: ModelSettings | Mapping[str, Any] | None = None,
    on_refusal: OnRefusal | None = None,
    config: _core.ProviderConfig | Mapping[str, Any] | None = None,
    system: str | Sequence[Mapping[str, Any]] | None = None,
    tools: Iterable[Tool[..., Any] | Callable[..., Any]] = (),
    tool_strategy: ToolUseStrategy | Mapping[str, Any] | None = None,
    structure: Any = None,
    structure_repair: bool | int = False,
    middleware: Iterable[object] = (),
    cleanup_timeout: float | None = None,
) -> LLM[Any]:
    """Bind a language model to its tools, parameters, system prompt and middleware.

    Args:
        model: A model from a provider's factory, such as ``anthropic("claude-sonnet-4-5")``, or its name, such as
            ``"openai:gpt-5"``.
        params: Parameters of the model, sent unchanged.
        settings: Settings that mean the same for every vendor, such as ``ModelSettings(max_tokens=500)``; `params` take
            precedence.
        on_refusal: ``"raise"``: an answer that the model or a filter refused raises `UPPError` CONTENT_FILTERED.
            ``"return"``: the turn is returned; its `stop_reason` tells it. Default: answers without content raise.
        config: The provider's connection settings; they override those of the model's factory.
        system: The system prompt: a text or a list of blocks.
        tools: Tools or plain functions. Names must be unique.
        tool_strategy: Hooks of tool use, and the maximum number of tool rounds (default 10).
        structure: The type of the structured output: a JSON Schema (``turn.data`` is plain data), a pydantic model, a
            dataclass, a TypedDict, or any other type annotation (``turn.data`` has that type). A response that does
            not match raises `UPPError` INVALID_RESPONSE.
        structure_repair: If the response does not match `structure`, send the validation errors to the model before
            the error is raised: True for once, or a number of times.
        middleware: Middleware for each call, outermost first: from `turntree.upp.middleware`, or your own objects with
            hooks.
        cleanup_timeout: How many seconds a call that ends early waits for its cancelled tools. Then a warning of the
            logger ``turntree.tools`` names them. None: 5 seconds.

    Raises:
        UPPError: INVALID_REQUEST: tools or structured output are requested, and the model does not support them.
        TypeError: An option has the wrong type; the message names it.
        ValueError: `cleanup_timeout` is negative or more than a day.

    Spec: UPP-1.2 §10.
    """
    return LLM(
        model=model,
        params=params,
        settings=settings,
        on_refusal=on_refusal,
        config=config,
        system=system,
        tools=tools,
        tool_strategy=tool_strategy,
        structure=structure,
        structure_repair=structure_repair,
        middleware=middleware,
        cleanup_timeout=cleanup_timeout,
    )


class LLM(Generic[DataT]):
    """A language model with its tools. Created by `llm`; immutable.

    ``LLM[Data]`` is a model for type checkers whose turns have ``data`` of that type. Any number of calls can run at
    the same time, from any number of event loops and threads.

    Spec: UPP-1.2 §10.
    """

    __slots__ = ("__weakref__", "_model", "_native", "_options", "_params", "_system")

    def __init__(
        self,
        *,
        model: _core.ModelReference | str,
        params: Mapping[str, Any] | None = None,
        settings: ModelSettings | Mapping[str, Any] | None = None,
        on_refusal: OnRefusal | None = None,
        config: _core.ProviderConfig | Mapping[str, Any] | None = None,
        system: str | Sequence[Mapping[str, Any]] | None = None,
        tools: Iterable[Tool[..., Any] | Callable[..., Any]] = (),
        tool_strategy: ToolUseStrategy | Mapping[str, Any] | None = None,
        structure: Any = None,
        structure_repair: bool | int = False,
        middleware: Iterable[object] = (),
        cleanup_timeout: float | None = None,
    ) -> None:
        self._model = _model_of(model)
        tools = list(tools)
        self._options: dict[str, Any] = {
            "params": params,
            "settings": settings,
            "on_refusal": on_refusal,
            "config": config,
            "system": system,
            "tools": tools,
            "structure": structure,
        }
        strategy = tool_strategy_of(tool_strategy)
        schema, answer = structure_of(structure)
        repairs, retries = repairs_of(structure_repair)
        self._params = params
        self._system = system
        self._native = _core.LlmCore(
            model=self._model,
            params=params_with(params, settings, on_refusal),
            config=config,
            max_iterations=strategy.max_iterations,
            tools=[as_tool(tool) for tool in tools],
            system=system,
            structure=schema,
            structure_repair=repairs,
            output_retries=retries,
            answer=answer,
            hooks=native_hooks(AgentStrategy(), strategy),
            middleware=_core.MiddlewareChain(middleware),
            cleanup_timeout=cleanup_seconds(cleanup_timeout),
        )

    @classmethod
    def _of(cls, native: _core.LlmCore, owner: Any) -> Self:
        """Return an LLM for a native one, with the model, system prompt and parameters of an agent or an LLM."""
        llm = cls.__new__(cls)
        llm._native = native
        llm._model = owner.model
        llm._system = owner.system
        llm._params = owner.params if isinstance(owner, LLM) else owner.options.get("params")
        known = ("params", "config", "tools", "structure")
        options = owner._options if isinstance(owner, LLM) else {name: owner.options.get(name) for name in known}
        llm._options = {**options, "tools": options.get("tools") or (), "system": owner.system}
        return llm

    def __reduce__(self) -> Any:
        """Refuse to be pickled."""
        message = "an LLM cannot be pickled: give its model, and write llm(model=…) in the other process"
        raise TypeError(message)

    @property
    def model(self) -> _core.ModelReference:
        """The reference to the model."""
        return self._model

    @property
    def system(self) -> str | Sequence[Mapping[str, Any]] | None:
        """The system prompt."""
        return self._system

    @property
    def params(self) -> Mapping[str, Any] | None:
        """The model's parameters."""
        return self._params

    @property
    def capabilities(self) -> dict[str, bool]:
        """The capabilities of the model, by name."""
        return self._model.capabilities

    async def count_tokens(self, *arguments: Any) -> TokenCount:
        """Count the input tokens of a call, with its system prompt, tools and structured output, without making it.

        Anthropic, Google, OpenAI (Responses) and Claude at Amazon Bedrock count; for other models the number is an
        estimate by the length of the text, and ``exact`` is False.

        Args:
            *arguments: The inputs, as those of `generate`.

        Returns:
            The number, an int with ``exact``.

        Raises:
            UPPError: The inputs are invalid, or the vendor refused the request.
        """
        options = self._options

        async def call(model: _core.ModelReference) -> object:
            return await LLM(model=model, **options).generate(*arguments)

        made = await captured_request(self._model, call)
        return await count(self._model, options.get("config"), made)

    async def batch(self, inputs: Sequence[Any], /) -> Batch[DataT]:
        """Send many calls to the vendor's batch API, which answers within hours, for less than single calls cost.

        OpenAI, Anthropic and Google have one. Tools are not executed: a turn ends with the calls that the model
        requests. Middleware is not called, and `structure_repair` does not apply.

        Args:
            inputs: The calls: each item is an input of `generate`, or a tuple of its arguments.

        Returns:
            The batch. Its ``id`` is all that `Batch.resume` needs in another process.

        Raises:
            UPPError: INVALID_REQUEST: the vendor has no batch API, or an input is invalid. Any other code: the request
                failed.
            TypeError: `inputs` is not a list.
            ValueError: `inputs` is empty.
        """
        from turntree.upp._batch import create

        return await create(self, inputs)

    @overload
    async def generate(self, *inputs: ModelInput) -> _core.Turn[DataT]: ...
    @overload
    async def generate(self, history: ModelHistory, /, *inputs: ModelInput) -> _core.Turn[DataT]: ...
    async def generate(self, *arguments: Any) -> _core.Turn[DataT]:
        """Call the model and run the requested tools, and repeat until the model requests no tools.

        Args:
            *arguments: The inputs: texts, blocks and messages. The first argument may be a history, which is not
                modified: a thread, an object with a list of ``messages``, or a list of messages. Adjacent texts and
                blocks become one user message; messages are unchanged. Without inputs, the model continues the history.

        Returns:
            The turn: all new messages, starting with the input.

        Raises:
            UPPError: INVALID_REQUEST: an argument is not an input, the model does not support a medium, or the maximum
                of tool rounds is exceeded. INVALID_RESPONSE: the response does not match `structure`. Any other code:
                the model call failed. ``partial`` is the incomplete turn.
            asyncio.CancelledError: The awaiting task was cancelled; the request and running tools are cancelled too.

        Spec: UPP-1.2 §10.1 to §10.4.
        """
        turn: _core.Turn[DataT] = await self._native.generate(arguments)
        return turn

    @overload
    def generate_sync(self, *inputs: ModelInput) -> _core.Turn[DataT]: ...
    @overload
    def generate_sync(self, history: ModelHistory, /, *inputs: ModelInput) -> _core.Turn[DataT]: ...
    def generate_sync(self, *arguments: Any) -> _core.Turn[DataT]:
        """Like `generate`, but blocks until the turn is complete; also works inside a running event loop (notebooks).

        Args:
            *arguments: As `generate`.

        Raises:
            UPPError: As `generate`.
        """
        turn: _core.Turn[DataT] = self._native.generate_sync(arguments)
        return turn

    @overload
    def stream(self, *inputs: ModelInput) -> StreamResult[DataT]: ...
    @overload
    def stream(self, history: ModelHistory, /, *inputs: ModelInput) -> StreamResult[DataT]: ...
    def stream(self, *arguments: Any) -> StreamResult[DataT]:
        """Call the model and stream its events: ``async for event in llm.stream("…")``.

        No request is sent until the first event or the turn is awaited.

        Args:
            *arguments: As `generate`.

        Raises:
            UPPError: INVALID_REQUEST: the model does not support streaming, or as `generate`. Raised immediately.

        Spec: UPP-1.2 §11.
        """
        return StreamResult(self._native.stream(arguments, True))  # noqa: FBT003

    @overload
    def stream_sync(self, *inputs: ModelInput) -> SyncStreamResult[DataT]: ...
    @overload
    def stream_sync(self, history: ModelHistory, /, *inputs: ModelInput) -> SyncStreamResult[DataT]: ...
    def stream_sync(self, *arguments: Any) -> SyncStreamResult[DataT]:
        """Call the model and stream its events without an event loop: ``for event in llm.stream_sync("…")``.

        Args:
            *arguments: As `generate`.

        Raises:
            UPPError: As `stream`.
        """
        return SyncStreamResult(self._native.stream(arguments, False))  # noqa: FBT003

    def __repr__(self) -> str:
        return f"LLM(model={self._model!r})"


def options_of(bound: LLM[Any]) -> dict[str, Any]:
    """Return the options that another LLM with the same requests needs, except the model."""
    return bound._options


def _model_of(model: object) -> _core.ModelReference:
    if isinstance(model, str) and ":" in model:
        from turntree.upp._registry import model as named

        return named(model)
    return check_model(model)


class ForwardingLLM(LLM[Any]):
    """An LLM whose `generate` forwards its events to the stream of a run."""

    __slots__ = ("_forward",)

    def forwarding_to(self, forward: Callable[[_core.StreamEvent], Awaitable[None]]) -> Self:
        """Set the function that receives each event. It may wait for a slow consumer."""
        self._forward = forward
        return self

    async def generate(self, *arguments: Any) -> _core.Turn:
        stream = self.stream(*arguments)
        async for event in stream:
            await self._forward(event)
        return await stream.turn


class StreamResult(TurnStream["_core.StreamEvent"], Generic[DataT]):
    """A streamed call: an async iterator of events, and the turn.

    Leaving the iteration early (``break``, an exception, a timeout) stops the call: the request is dropped and the
    turn raises CANCELLED. Awaiting the turn without iterating runs the call to its end.

    Spec: UPP-1.2 §11.2.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        def __await__(self) -> Generator[Any, Any, _core.Turn[DataT]]: ...

    @property
    def turn(self) -> Awaitable[_core.Turn[DataT]]:
        """The turn: ``await stream.turn``. The call continues while it is awaited, whether or not events are read.

        Awaiting it again returns the same turn. Raises `UPPError` as `LLM.generate`; CANCELLED for a call that was
        stopped, with the partial turn in ``partial``.
        """
        return RepeatableAwaitable(self._outcome)

    def abort(self) -> None:
        """Stop the call: the next event and the turn raise `UPPError` CANCELLED. No effect if the call is over."""
        self._native.abort()


class SyncStreamResult(SyncTurnStream["_core.StreamEvent"], Generic[DataT]):
    """A streamed call without an event loop: an iterator of events, and the turn.

    Leaving the iteration early stops the call, as with `StreamResult`.

    Spec: UPP-1.2 §11.2.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def turn(self) -> _core.Turn[DataT]: ...

    def abort(self) -> None:
        """Stop the call: the next event and the turn raise `UPPError` CANCELLED. No effect if the call is over."""
        self._native.abort()


publish(__name__, globals())
explain_attributes(LLM, "LLM")
explain_attributes(StreamResult, "STREAM")
explain_attributes(SyncStreamResult, "SYNC_STREAM")

"""Providers written in Python: `create_provider`.

Spec: UPP-1.2 §9.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict, cast

from turntree._core import AssistantMessage, EmbeddingResult, custom_model
from turntree.upp import _registry

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from turntree._core import EventSink, Image, ModelReference, ModelRequest, TokenUsage


class Capabilities(TypedDict, total=False):
    """What a model can take and do; what is not given is as `create_provider` says.

    Spec: UPP-1.2 §10.
    """

    streaming: bool
    tools: bool
    structured_output: bool
    image_input: bool
    document_input: bool
    video_input: bool
    audio_input: bool


_DEFAULTS: Capabilities = {"streaming": True, "tools": True, "structured_output": True}


class ModelResponse:
    """What a model of `create_provider` answered.

    Args:
        content: A text, a block, a tool call, or a list of them. None at the end of a stream: what was streamed.
        usage: Tokens, with their cost where it is known.
        stop_reason: One of ``end_turn``, ``max_tokens``, ``stop_sequence``, ``tool_use``, ``pause_turn``,
            ``content_filter`` and ``error``. Default: by whether there are tool calls.
        data: The structured answer. Default: the text, read as JSON, where one was asked for.
        metadata: Facts for the provider's namespace of the message.
        id: Of the message. Default: a new UUIDv4.
    """

    __slots__ = ("content", "data", "id", "metadata", "stop_reason", "usage")

    def __init__(
        self,
        content: Any = None,
        *,
        usage: TokenUsage | None = None,
        stop_reason: str | None = None,
        data: Any = None,
        metadata: Mapping[str, Any] | None = None,
        id: str | None = None,
    ) -> None:
        self.content: Any = content
        self.usage: TokenUsage | None = usage
        self.stop_reason: str | None = stop_reason
        self.data: Any = data
        self.metadata: Mapping[str, Any] | None = metadata
        self.id: str | None = id

    def __repr__(self) -> str:
        return f"ModelResponse({self.content!r}, usage={self.usage!r}, stop_reason={self.stop_reason!r})"


class EmbeddingRequest:
    """What ``embed`` of an own provider is asked.

    Args:
        inputs: Texts, and pictures where the capabilities have ``image_input``.
        params: The model's own parameters.
        input_type: What the vectors are for: ``document``, ``query``, or None where nobody says.

    Spec: UPP-1.2 §15.
    """

    __slots__ = ("input_type", "inputs", "params")

    def __init__(self, inputs: list[str | Image], params: dict[str, Any], input_type: str | None) -> None:
        self.inputs: list[str | Image] = inputs
        self.params: dict[str, Any] = params
        self.input_type: str | None = input_type

    def __repr__(self) -> str:
        return f"EmbeddingRequest({len(self.inputs)} inputs)"


class ImageRequest:
    """What ``generate_image`` and ``edit`` of an own provider are asked.

    Args:
        prompt: What to draw, or what to change.
        params: The model's own parameters.
        image: The picture to change; None for ``generate_image``.
        mask: Where to change it; None for everywhere.

    Spec: UPP-1.2 §16.
    """

    __slots__ = ("image", "mask", "params", "prompt")

    def __init__(self, prompt: str, params: dict[str, Any], image: Image | None, mask: Image | None) -> None:
        self.prompt: str = prompt
        self.params: dict[str, Any] = params
        self.image: Image | None = image
        self.mask: Image | None = mask

    def __repr__(self) -> str:
        return f"ImageRequest({self.prompt!r})"


class Provider:
    """A provider written in Python; made by `create_provider`. Called with a model's name, it gives a reference."""

    __slots__ = ("_capabilities", "_llm", "name", "version")

    def __init__(self, name: str, llm: Any, capabilities: Capabilities, version: str) -> None:
        self.name: str = name
        self.version: str = version
        self._llm = llm
        self._capabilities = capabilities

    def __call__(self, model: str, **options: Any) -> ModelReference:
        """Refer to a model of this provider.

        Args:
            model: Its name.
            **options: Passed on to ``bind``, where the implementation has it.
        """
        if not isinstance(model, str) or not model:
            message = "model must be a str that is not empty"
            raise TypeError(message)
        llm = self._llm
        bind = getattr(llm, "bind", None)
        if bind is not None:
            llm = bind(model, **options)
        elif options:
            message = f"{self.name} takes no options: its implementation has no bind(model, **options)"
            raise TypeError(message)
        functions = _functions(self.name, llm)
        generate, stream = functions.get("generate"), functions.get("stream")
        media: dict[str, Any] = {}
        if "embed" in functions:
            media["embed"] = _asking(EmbeddingRequest, functions["embed"], _vectors)
            batch_size = getattr(llm, "batch_size", None)
            if batch_size is not None:
                media["batch_size"] = batch_size
        for name in ("generate_image", "edit"):
            if name in functions:
                media[name] = _asking(ImageRequest, functions[name], _as_it_is)
        return custom_model(
            self.name,
            model,
            {**_DEFAULTS, **self._capabilities},
            None if generate is None else _generating(self.name, generate),
            None if stream is None else _streaming(self.name, stream),
            media,
        )

    def __repr__(self) -> str:
        return f'Provider(name="{self.name}")'


def create_provider(
    name: str, llm: Any, *, capabilities: Capabilities | None = None, version: str = "1.0.0"
) -> Provider:
    """Make a provider out of an object of yours.

    The object has ``generate(request)``, ``stream(request)``, or both; either may be sync or async:

    - ``generate`` gives what was answered: a text, a block, a `ToolCall`, a list of them, an `AssistantMessage`, or a
      `ModelResponse` with usage and the like;
    - ``stream`` gives an iterator of `StreamEvent`, as an (async) generator; its last item may be a `ModelResponse`.
      Without one the answer is what the events add up to.

    With one of them alone, the other is made of it. Beside them, or instead, it may serve other modalities, sync or
    async too:

    - ``embed(request)`` makes vectors of an `EmbeddingRequest`: a list of them in the order of the inputs, or an
      `EmbeddingResult`. An attribute ``batch_size`` says how many inputs one call takes at most;
    - ``generate_image(request)`` makes pictures of an `ImageRequest`: an `Image`, a list of them, or an `ImageResult`;
      ``edit(request)`` changes one. What a stream of pictures shows are the finished ones.

    Instead of all it may have ``bind(model, **options)``, which gives such an object for each reference. What it raises
    reaches the caller as the same exception. When a run is stopped, an async function is cancelled where it waits; a
    sync generator is closed at its next event.

    Args:
        name: Unique in the process; ``"name:model"`` then names its models.
        llm: The object.
        capabilities: What its models can take and do. Default: streams, tools, structured answers, no media.
        version: Of the provider.

    Raises:
        ValueError: The name is taken, empty, or has a colon.
        TypeError: The object has none of the functions.

    Spec: UPP-1.2 §9.
    """
    if getattr(llm, "bind", None) is None:
        _functions(name, llm)
    provider = Provider(name, llm, capabilities or {}, version)
    _registry.add(name, provider)
    return provider


def _functions(name: str, llm: Any) -> dict[str, Any]:
    found = {known: getattr(llm, known, None) for known in ("generate", "stream", "embed", "generate_image", "edit")}
    functions = {known: function for known, function in found.items() if function is not None}
    if not functions:
        message = (
            f"the implementation of {name} needs generate(request), stream(request), embed(request), "
            "generate_image(request), edit(request), or bind(model)"
        )
        raise TypeError(message)
    return functions


def _asking(
    request: Callable[..., Any], function: Callable[[Any], Any], read: Callable[[Any], Any]
) -> Callable[..., Any]:
    """The function as the native half calls it, with the members of its request."""
    import inspect

    if _is_async(function):

        async def ask(*members: Any) -> Any:
            return read(await function(request(*members)))

        return ask

    def ask_in_thread(*members: Any) -> Any:
        given = function(request(*members))
        if inspect.isawaitable(given):

            async def later() -> Any:
                return read(await given)

            return later()
        return read(given)

    return ask_in_thread


def _as_it_is(given: Any) -> Any:
    return given


def _vectors(given: Any) -> Any:
    """An `EmbeddingResult`, or its JSON from a list of vectors."""
    if isinstance(given, EmbeddingResult | dict):
        return cast("Any", given)
    vectors: list[list[float]] = [[float(number) for number in vector] for vector in given]
    embeddings = [{"vector": vector, "dimensions": len(vector), "index": index} for index, vector in enumerate(vectors)]
    return {"embeddings": embeddings, "usage": {"totalTokens": 0}}


def _answer(provider: str, given: Any) -> tuple[Any, ...]:
    """What the native half reads: items, usage, stop reason, data, metadata, id."""
    if isinstance(given, AssistantMessage):
        return [*given.content, *(given.tool_calls or ())], None, None, None, given.metadata, given.id
    if not isinstance(given, ModelResponse):
        given = ModelResponse(given)
    response: Any = given
    items: Any = response.content
    if isinstance(items, AssistantMessage):
        message = items
        facts = {**(message.metadata or {})}
        if given.metadata is not None:
            facts[provider] = {**facts.get(provider, {}), **given.metadata}
        items = [*message.content, *(message.tool_calls or ())]
        identity = given.id or message.id
        return cast("tuple[Any, ...]", (items, given.usage, given.stop_reason, given.data, facts, identity))
    if isinstance(items, tuple):
        items = list(cast("tuple[Any, ...]", items))
    elif items is not None and not isinstance(items, list):
        items = [items]
    metadata: Any = None if response.metadata is None else {provider: dict(response.metadata)}
    return cast("tuple[Any, ...]", (items, response.usage, response.stop_reason, response.data, metadata, response.id))


def _is_async(function: Any) -> bool:
    import inspect

    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _generating(provider: str, function: Callable[[ModelRequest], Any]) -> Callable[..., Any]:
    import inspect

    if _is_async(function):

        async def generate(request: ModelRequest) -> Any:
            return _answer(provider, await function(request))

        return generate

    def generate_in_thread(request: ModelRequest) -> Any:
        given = function(request)
        if inspect.isawaitable(given):

            async def later() -> Any:
                return _answer(provider, await given)

            return later()
        return _answer(provider, given)

    return generate_in_thread


def _streaming(provider: str, function: Callable[[ModelRequest], Any]) -> Callable[..., Any]:
    import inspect

    is_async = inspect.isasyncgenfunction(function) or _is_async(function)
    if is_async or not inspect.isgeneratorfunction(function):

        async def stream(request: ModelRequest, sink: EventSink) -> Any:
            events = function(request)
            if inspect.isawaitable(events):
                events = await events
            if hasattr(events, "__aiter__"):
                return await _pump(provider, events, sink)
            import asyncio

            return await asyncio.to_thread(_pump_in_thread, provider, events, sink)

        return stream

    def stream_in_thread(request: ModelRequest, sink: EventSink) -> Any:
        return _pump_in_thread(provider, function(request), sink)

    return stream_in_thread


async def _pump(provider: str, events: Any, sink: EventSink) -> Any:
    import asyncio

    end: Any = ModelResponse()
    loop = asyncio.get_running_loop()
    try:
        async for event in events:
            if isinstance(event, ModelResponse | AssistantMessage):
                end = event
            elif not sink.push(event):
                room = loop.create_future()
                sink.when_room(partial(_wake, loop, room))
                await room
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()
    return _answer(provider, end)


def _wake(loop: asyncio.AbstractEventLoop, room: asyncio.Future[None]) -> None:
    def wake() -> None:
        if not room.done():
            room.set_result(None)

    try:
        loop.call_soon_threadsafe(wake)
    except RuntimeError:
        # The loop may be closed by the time that nobody reads any more.
        return


def _pump_in_thread(provider: str, events: Any, sink: EventSink) -> Any:
    end: Any = ModelResponse()
    try:
        for event in events:
            if isinstance(event, ModelResponse | AssistantMessage):
                end = event
            elif not sink.push(event):
                sink.wait()
    finally:
        close = getattr(events, "close", None)
        if close is not None:
            close()
    return _answer(provider, end)

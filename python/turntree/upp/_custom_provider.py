"""Providers written in Python: `create_provider`.

Spec: UPP-1.2 §9.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict, cast

from turntree._core import (
    AssistantMessage,
    EmbeddingResult,
    EventSink,
    Image,
    ModelReference,
    ModelRequest,
    TokenUsage,
    custom_model,
)
from turntree._public_names import publish
from turntree.upp import _registry

if TYPE_CHECKING:
    import asyncio


class Capabilities(TypedDict, total=False):
    """Capabilities of a model. `create_provider` documents the defaults.

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
    """A response of a model of `create_provider`.

    Args:
        content: A text, a block, a tool call, or a list of them. None at the end of a stream: the streamed content.
        usage: Tokens, with their cost if it is known.
        stop_reason: ``end_turn``, ``max_tokens``, ``stop_sequence``, ``tool_use``, ``pause_turn``, ``content_filter``
            or ``error``. Default: ``tool_use`` if there are tool calls, else ``end_turn``.
        data: The structured answer. Default: the text, parsed as JSON, if a structured answer was requested.
        metadata: Metadata for the provider's namespace of the message.
        id: Id of the message. Default: a new UUIDv4.
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
        from turntree._reprs import literal

        return f"ModelResponse({literal(self.content)}, usage={literal(self.usage)}, stop_reason={self.stop_reason!r})"


class EmbeddingRequest:
    """The argument of ``embed`` of a custom provider.

    Args:
        inputs: Texts; also images if the capabilities include ``image_input``.
        params: Parameters of the model.
        input_type: Purpose of the embeddings: ``document``, ``query``, or None if the caller did not specify it.

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
    """The argument of ``generate_image`` and ``edit`` of a custom provider.

    Args:
        prompt: Description of the image, or of the change.
        params: Parameters of the model.
        image: The image to edit; None for ``generate_image``.
        mask: The area to edit; None for the whole image.

    Spec: UPP-1.2 §16.
    """

    __slots__ = ("image", "mask", "params", "prompt")

    def __init__(self, prompt: str, params: dict[str, Any], image: Image | None, mask: Image | None) -> None:
        self.prompt: str = prompt
        self.params: dict[str, Any] = params
        self.image: Image | None = image
        self.mask: Image | None = mask

    def __repr__(self) -> str:
        from turntree._reprs import literal

        return f"ImageRequest({literal(self.prompt)})"


class Provider:
    """A provider written in Python, created by `create_provider`. Call it with the name of a model."""

    __slots__ = ("_capabilities", "_llm", "name", "version")

    def __init__(self, name: str, llm: Any, capabilities: Capabilities, version: str) -> None:
        self.name: str = name
        self.version: str = version
        self._llm = llm
        self._capabilities = capabilities

    def __call__(self, model: str, **options: Any) -> ModelReference:
        """Return a reference to a model of this provider.

        Args:
            model: Name of the model.
            **options: Arguments of ``bind``, if the implementation has this method.

        Raises:
            TypeError: `model` is not a str or is empty, or the implementation accepts no options.
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
            media["embed"] = _adapted(functions["embed"], _embedding_result, EmbeddingRequest)
            batch_size = getattr(llm, "batch_size", None)
            if batch_size is not None:
                media["batch_size"] = batch_size
        for name in ("generate_image", "edit"):
            if name in functions:
                media[name] = _adapted(functions[name], _unchanged, ImageRequest)
        return custom_model(
            self.name,
            model,
            {**_DEFAULTS, **self._capabilities},
            None if generate is None else _adapted(generate, partial(_response_parts, self.name)),
            None if stream is None else _adapted_stream(self.name, stream),
            media,
        )

    def __repr__(self) -> str:
        return f'Provider(name="{self.name}")'


def create_provider(
    name: str, llm: Any, *, capabilities: Capabilities | None = None, version: str = "1.0.0"
) -> Provider:
    """Create a provider from an object that implements it.

    For language models, the object has ``generate(request)``, ``stream(request)`` or both, each sync or async:

    - ``generate`` returns a text, a block, a `ToolCall`, a list of them, an `AssistantMessage`, or a `ModelResponse`,
      which also has the usage and the stop reason;
    - ``stream`` returns an iterator or async iterator of `StreamEvent`; a generator is one. The last item may be a
      `ModelResponse`. Without it, the response is the sum of the events.

    If only one of the two exists, turntree derives the other from it. For other modalities, the object has these
    methods, each sync or async:

    - ``embed(request)`` takes an `EmbeddingRequest` and returns a list of vectors in the order of the inputs, or an
      `EmbeddingResult`. The optional attribute ``batch_size`` is the maximum number of inputs of one call;
    - ``generate_image(request)`` takes an `ImageRequest` and returns an `Image`, a list of them, or an `ImageResult`;
      ``edit(request)`` edits an image. A stream of images yields only finished images.

    Instead of these methods, the object may have ``bind(model, **options)``, which returns such an object for each
    reference. The caller receives the exceptions of all methods unchanged. When a run is stopped, an async function is
    cancelled, and a sync generator is closed at its next event.

    Args:
        name: A name that is unique in the process. ``"name:model"`` then refers to a model of the provider.
        llm: The object.
        capabilities: Capabilities of the models. Default: streaming, tools and structured output, no media input.
        version: Version of the provider.

    Raises:
        ValueError: The name is in use, is empty, or contains a colon or white space.
        TypeError: The object has none of the methods.

    Spec: UPP-1.2 §9.
    """
    if getattr(llm, "bind", None) is None:
        _functions(name, llm)
    provider = Provider(name, llm, capabilities or {}, version)
    _registry.add(name, provider)
    return provider


def _functions(name: str, llm: Any) -> dict[str, Any]:
    known = ("generate", "stream", "embed", "generate_image", "edit")
    functions = {method: function for method in known if (function := getattr(llm, method, None)) is not None}
    if not functions:
        message = (
            f"the implementation of {name} needs generate(request), stream(request), embed(request), "
            "generate_image(request), edit(request), or bind(model)"
        )
        raise TypeError(message)
    return functions


def _unchanged(value: Any) -> Any:
    return value


def _adapted(
    function: Callable[[Any], Any], convert: Callable[[Any], Any], request: Callable[..., Any] = _unchanged
) -> Callable[..., Any]:
    """Return a function for the native core, which passes the members of the request and reads the converted result.

    The native core calls a sync function in a thread, and awaits a result that is awaitable.
    """
    import inspect

    if _is_async(function):

        async def adapted(*members: Any) -> Any:
            return convert(await function(request(*members)))

        return adapted

    def adapted_in_thread(*members: Any) -> Any:
        result = function(request(*members))
        if inspect.isawaitable(result):

            async def awaited() -> Any:
                return convert(await result)

            return awaited()
        return convert(result)

    return adapted_in_thread


def _embedding_result(result: Any) -> Any:
    """Return an `EmbeddingResult` or its dict; convert a list of vectors to the dict."""
    if isinstance(result, EmbeddingResult | dict):
        return cast("Any", result)
    vectors: list[list[float]] = [[float(number) for number in vector] for vector in result]
    embeddings = [{"vector": vector, "dimensions": len(vector), "index": index} for index, vector in enumerate(vectors)]
    return {"embeddings": embeddings, "usage": {"totalTokens": 0}}


def _response_parts(provider: str, result: Any) -> tuple[Any, ...]:
    """Convert a result to the tuple that the native core reads: items, usage, stop reason, data, metadata, id."""
    if isinstance(result, AssistantMessage):
        return [*result.content, *(result.tool_calls or ())], None, None, None, result.metadata, result.id
    response: Any = result if isinstance(result, ModelResponse) else ModelResponse(result)
    items: Any = response.content
    identity: Any = response.id
    metadata: Any = None if response.metadata is None else {provider: dict(response.metadata)}
    if isinstance(items, AssistantMessage):
        message = items
        items = [*message.content, *(message.tool_calls or ())]
        identity = identity or message.id
        metadata = {**(message.metadata or {})}
        if response.metadata is not None:
            metadata[provider] = {**metadata.get(provider, {}), **response.metadata}
    elif isinstance(items, tuple):
        items = list(cast("tuple[Any, ...]", items))
    elif items is not None and not isinstance(items, list):
        items = [items]
    return cast("tuple[Any, ...]", (items, response.usage, response.stop_reason, response.data, metadata, identity))


def _is_async(function: Any) -> bool:
    import inspect

    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _adapted_stream(provider: str, function: Callable[[ModelRequest], Any]) -> Callable[..., Any]:
    """Return a function for the native core that pushes the events of `function` into a sink."""
    import inspect

    is_async = inspect.isasyncgenfunction(function) or _is_async(function)
    if is_async or not inspect.isgeneratorfunction(function):

        async def stream(request: ModelRequest, sink: EventSink) -> Any:
            events = function(request)
            if inspect.isawaitable(events):
                events = await events
            if hasattr(events, "__aiter__"):
                return await _push_events(provider, events, sink)
            import asyncio

            return await asyncio.to_thread(_push_events_in_thread, provider, events, sink)

        return stream

    def stream_in_thread(request: ModelRequest, sink: EventSink) -> Any:
        return _push_events_in_thread(provider, function(request), sink)

    return stream_in_thread


async def _push_events(provider: str, events: Any, sink: EventSink) -> Any:
    import asyncio

    response: Any = ModelResponse()
    loop = asyncio.get_running_loop()
    try:
        async for event in events:
            if isinstance(event, ModelResponse | AssistantMessage):
                response = event
            elif not sink.push(event):
                room = loop.create_future()
                sink.when_room(partial(_resolve, loop, room))
                await room
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()
    return _response_parts(provider, response)


def _resolve(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> None:
    """Resolve a future from another thread."""

    def resolve() -> None:
        if not future.done():
            future.set_result(None)

    try:
        loop.call_soon_threadsafe(resolve)
    except RuntimeError:
        # The loop may already be closed.
        return


def _push_events_in_thread(provider: str, events: Any, sink: EventSink) -> Any:
    response: Any = ModelResponse()
    try:
        for event in events:
            if isinstance(event, ModelResponse | AssistantMessage):
                response = event
            elif not sink.push(event):
                sink.wait()
    finally:
        close = getattr(events, "close", None)
        if close is not None:
            close()
    return _response_parts(provider, response)


publish(__name__, globals())

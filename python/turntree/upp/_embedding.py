"""Embeddings: texts in, vectors out.

Spec: UPP-1.2 §15.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from turntree import _core
from turntree.upp._providers import check_model
from turntree.upp._streams import ResultStream, SyncResultStream

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Mapping
    from typing import TypeAlias

    EmbeddingInput: TypeAlias = str | _core.Text | _core.Image | Mapping[str, Any]
    InputType: TypeAlias = Literal["document", "query"]


class EmbeddingStream(ResultStream[_core.EmbeddingProgress, _core.EmbeddingResult]):
    """A chunked call: an async iterator of `EmbeddingProgress`, and `result`.

    Spec: UPP-1.2 §15.
    """

    __slots__ = ()


class SyncEmbeddingStream(SyncResultStream[_core.EmbeddingProgress, _core.EmbeddingResult]):
    """A chunked call without an event loop: an iterator of `EmbeddingProgress`, and `result`.

    Spec: UPP-1.2 §15.
    """

    __slots__ = ()


def embedding(
    *,
    model: _core.ModelReference,
    params: Mapping[str, Any] | None = None,
    config: _core.ProviderConfig | Mapping[str, Any] | None = None,
    middleware: Iterable[object] = (),
) -> EmbeddingModel:
    """Bind a model that makes vectors.

    Args:
        model: From a provider's factory, as ``openai("text-embedding-3-small")``.
        params: The model's own parameters, passed on as they are: ``{"dimensions": 256}``.
        config: How to reach the provider; goes over what the model's factory was given.
        middleware: What is put around each call, the first outermost: from `turntree.upp.middleware`, or your own
            objects. Its hooks of streams, turns and tools are for language models.

    Raises:
        UPPError: INVALID_REQUEST, modality ``embedding``: the provider makes no vectors.
        TypeError: An option of the wrong type, named.

    Spec: UPP-1.2 §15.
    """
    return EmbeddingModel(model=model, params=params, config=config, middleware=middleware)


class EmbeddingModel:
    """A model that makes vectors. Made by `embedding`; immutable, serves any number of calls at once.

    Spec: UPP-1.2 §15.
    """

    __slots__ = ("__weakref__", "_model", "_native", "_params")

    def __init__(
        self,
        *,
        model: _core.ModelReference,
        params: Mapping[str, Any] | None = None,
        config: _core.ProviderConfig | Mapping[str, Any] | None = None,
        middleware: Iterable[object] = (),
    ) -> None:
        self._model = check_model(model)
        self._params = dict(params) if params is not None else None
        self._native = _core.EmbeddingModelCore(
            model=model, params=self._params, config=config, middleware=_core.MiddlewareChain(middleware)
        )

    @property
    def model(self) -> _core.ModelReference:
        """Its model."""
        return self._model

    @property
    def params(self) -> dict[str, Any] | None:
        """The model's own parameters, a dict of its own; None where none were given."""
        return dict(self._params) if self._params is not None else None

    @overload
    def embed(
        self,
        inputs: EmbeddingInput | Iterable[EmbeddingInput],
        *,
        chunked: Literal[False] = False,
        batch_size: int | None = None,
        concurrency: int = 1,
        input_type: InputType | None = None,
    ) -> Coroutine[Any, Any, _core.EmbeddingResult]: ...
    @overload
    def embed(
        self,
        inputs: EmbeddingInput | Iterable[EmbeddingInput],
        *,
        chunked: Literal[True],
        batch_size: int | None = None,
        concurrency: int = 1,
        input_type: InputType | None = None,
    ) -> EmbeddingStream: ...
    def embed(
        self,
        inputs: EmbeddingInput | Iterable[EmbeddingInput],
        *,
        chunked: bool = False,
        batch_size: int | None = None,
        concurrency: int = 1,
        input_type: InputType | None = None,
    ) -> Coroutine[Any, Any, _core.EmbeddingResult] | EmbeddingStream:
        """Make a vector of each input: ``await embedder.embed(texts)``.

        More inputs than the model takes at once become several calls; order is kept and usage added up.

        Args:
            inputs: A text, a text or image block, or any iterable of them.
            chunked: Give an `EmbeddingStream`, which tells of each batch; ``async for`` or await it.
            batch_size: Most inputs of one call. Default, and at most, the model's limit.
            concurrency: Calls that are under way at a time.
            input_type: What the vectors are for, ``document`` or ``query``; sent where the vendor has it, and ignored
                elsewhere.

        Raises:
            UPPError: No input, an empty text, an image where none is taken (INVALID_REQUEST); a vector that cannot be
                read, or not one an input (INVALID_RESPONSE); and what any call can fail with.
            TypeError: An argument of the wrong type, named.
            ValueError: `batch_size` or `concurrency` below 1, another `input_type`.
            asyncio.CancelledError: The awaiting task was cancelled: the requests are dropped.

        Spec: UPP-1.2 §15.
        """
        if chunked:
            return EmbeddingStream(self._native.stream(inputs, batch_size, concurrency, input_type))
        return self._native.embed(inputs, batch_size, concurrency, input_type)

    @overload
    def embed_sync(
        self,
        inputs: EmbeddingInput | Iterable[EmbeddingInput],
        *,
        chunked: Literal[False] = False,
        batch_size: int | None = None,
        concurrency: int = 1,
        input_type: InputType | None = None,
    ) -> _core.EmbeddingResult: ...
    @overload
    def embed_sync(
        self,
        inputs: EmbeddingInput | Iterable[EmbeddingInput],
        *,
        chunked: Literal[True],
        batch_size: int | None = None,
        concurrency: int = 1,
        input_type: InputType | None = None,
    ) -> SyncEmbeddingStream: ...
    def embed_sync(
        self,
        inputs: EmbeddingInput | Iterable[EmbeddingInput],
        *,
        chunked: bool = False,
        batch_size: int | None = None,
        concurrency: int = 1,
        input_type: InputType | None = None,
    ) -> _core.EmbeddingResult | SyncEmbeddingStream:
        """Make a vector of each input on this thread; works inside a running event loop too.

        Args:
            inputs: As `embed`.
            chunked: Give a `SyncEmbeddingStream`, which tells of each batch.
            batch_size: As `embed`.
            concurrency: As `embed`.
            input_type: As `embed`.

        Raises:
            UPPError: As `embed`.
        """
        if chunked:
            return SyncEmbeddingStream(self._native.stream(inputs, batch_size, concurrency, input_type))
        return self._native.embed_sync(inputs, batch_size, concurrency, input_type)

    def __repr__(self) -> str:
        return f"EmbeddingModel(model={self._model!r})"

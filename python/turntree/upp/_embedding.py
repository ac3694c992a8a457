"""Embedding models: vectors of texts and images.

Spec: UPP-1.2 §15.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, Literal, TypeAlias, TypedDict, overload

from turntree import _core
from turntree._public_names import publish
from turntree._typing import Unpack
from turntree.upp._bound_model import BoundModel, ResultStream, SyncResultStream

EmbeddingInput: TypeAlias = str | _core.Text | _core.Image | Mapping[str, Any]
InputType: TypeAlias = Literal["document", "query"]


class EmbedOptions(TypedDict, total=False):
    """The options of `EmbeddingModel.embed`, except ``chunked``."""

    batch_size: int | None
    concurrency: int
    input_type: InputType | None


class EmbeddingStream(ResultStream[_core.EmbeddingProgress, _core.EmbeddingResult]):
    """A batched call: an async iterator of `EmbeddingProgress`, and `result`.

    Spec: UPP-1.2 §15.
    """

    __slots__ = ()


class SyncEmbeddingStream(SyncResultStream[_core.EmbeddingProgress, _core.EmbeddingResult]):
    """A batched call without an event loop: an iterator of `EmbeddingProgress`, and `result`.

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
    """Bind an embedding model to its parameters, configuration and middleware.

    Args:
        model: A model from a provider's factory, such as ``openai("text-embedding-3-small")``.
        params: Parameters of the model, sent unchanged, such as ``{"dimensions": 256}``.
        config: The provider's connection settings; they override those of the model's factory.
        middleware: Middleware for each call, outermost first: from `turntree.upp.middleware`, or your own objects.
            Hooks of streams, turns and tools are called for language models only.

    Raises:
        UPPError: INVALID_REQUEST, modality ``embedding``: the provider has no embedding models.
        TypeError: An option has the wrong type; the message names it.

    Spec: UPP-1.2 §15.
    """
    return EmbeddingModel(model=model, params=params, config=config, middleware=middleware)


class EmbeddingModel(BoundModel[_core.EmbeddingModelCore]):
    """An embedding model. Created by `embedding`; immutable. Any number of calls can run at the same time.

    Spec: UPP-1.2 §15.
    """

    __slots__ = ()

    _core_class = _core.EmbeddingModelCore

    @overload
    def embed(
        self,
        inputs: EmbeddingInput | Iterable[EmbeddingInput],
        *,
        chunked: Literal[False] = False,
        **options: Unpack[EmbedOptions],
    ) -> Coroutine[Any, Any, _core.EmbeddingResult]: ...
    @overload
    def embed(
        self,
        inputs: EmbeddingInput | Iterable[EmbeddingInput],
        *,
        chunked: Literal[True],
        **options: Unpack[EmbedOptions],
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
        """Return an embedding of each input: ``await model.embed(texts)``.

        Inputs that exceed the model's limit are sent in several batches. The order of the inputs is preserved, and the
        usage is the sum over all batches.

        Args:
            inputs: A text, a text block, an image block, or an iterable of them.
            chunked: Return an `EmbeddingStream`, which yields the progress after each batch and can be awaited.
            batch_size: The maximum number of inputs in one batch. Default and upper limit: the model's limit.
            concurrency: The maximum number of concurrent batches.
            input_type: Purpose of the embeddings, ``document`` or ``query``. Ignored if the vendor has no such option.

        Raises:
            UPPError: INVALID_REQUEST: there are no inputs, a text is empty, or the model takes no images.
                INVALID_RESPONSE: a vector cannot be read, or the number of vectors is wrong. Any other code: the call
                failed.
            TypeError: An argument has the wrong type; the message names it.
            ValueError: `batch_size` or `concurrency` is below 1, or `input_type` is unknown.
            asyncio.CancelledError: The awaiting task was cancelled; the requests are cancelled too.

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
        **options: Unpack[EmbedOptions],
    ) -> _core.EmbeddingResult: ...
    @overload
    def embed_sync(
        self,
        inputs: EmbeddingInput | Iterable[EmbeddingInput],
        *,
        chunked: Literal[True],
        **options: Unpack[EmbedOptions],
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
        """Like `embed`, but blocks until the result is complete; also works inside a running event loop.

        Args:
            inputs: As `embed`.
            chunked: Return a `SyncEmbeddingStream`, which yields the progress after each batch.
            batch_size: As `embed`.
            concurrency: As `embed`.
            input_type: As `embed`.

        Raises:
            UPPError: As `embed`.
        """
        if chunked:
            return SyncEmbeddingStream(self._native.stream(inputs, batch_size, concurrency, input_type))
        return self._native.embed_sync(inputs, batch_size, concurrency, input_type)


publish(__name__, globals())

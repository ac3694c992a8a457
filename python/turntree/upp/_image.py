"""Pictures made and changed by models.

Spec: UPP-1.2 §16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from turntree import _core
from turntree.upp._providers import check_model
from turntree.upp._streams import ResultStream, SyncResultStream

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Mapping
    from typing import TypeAlias

    Prompt: TypeAlias = str | Mapping[str, Any]
    Picture: TypeAlias = _core.Image | Mapping[str, Any]


class ImageCapabilities(NamedTuple):
    """What a model can do with pictures.

    Attributes:
        generate: Makes pictures.
        streaming: Shows previews while it makes them.
        edit: Changes pictures.
        max_images: Most pictures of one call; None where nobody knows.

    Spec: UPP-1.2 §16.
    """

    generate: bool
    streaming: bool
    edit: bool
    max_images: int | None


class ImageStream(ResultStream[_core.ImageEvent, _core.ImageResult]):
    """Pictures on their way: an async iterator of `ImageEvent`, and `result`.

    Spec: UPP-1.2 §16.
    """

    __slots__ = ()


class SyncImageStream(SyncResultStream[_core.ImageEvent, _core.ImageResult]):
    """Pictures on their way without an event loop: an iterator of `ImageEvent`, and `result`.

    Spec: UPP-1.2 §16.
    """

    __slots__ = ()


def image(
    *,
    model: _core.ModelReference,
    params: Mapping[str, Any] | None = None,
    config: _core.ProviderConfig | Mapping[str, Any] | None = None,
    middleware: Iterable[object] = (),
) -> ImageModel:
    """Bind a model that makes pictures.

    Args:
        model: From a provider's factory, as ``openai("gpt-image-1")``.
        params: The model's own parameters, passed on as they are: ``{"size": "1024x1024", "n": 2}``.
        config: How to reach the provider; goes over what the model's factory was given.
        middleware: What is put around each call, the first outermost: from `turntree.upp.middleware`, or your own
            objects. Its hooks of streams, turns and tools are for language models.

    Raises:
        UPPError: INVALID_REQUEST, modality ``image``: the provider makes no pictures.
        TypeError: An option of the wrong type, named.

    Spec: UPP-1.2 §16.
    """
    return ImageModel(model=model, params=params, config=config, middleware=middleware)


class ImageModel:
    """A model that makes pictures. Made by `image`; immutable, serves any number of calls at once.

    Spec: UPP-1.2 §16.
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
        self._native = _core.ImageModelCore(
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

    @property
    def capabilities(self) -> ImageCapabilities:
        """What the model can do; the methods for the rest raise `UPPError` INVALID_REQUEST."""
        return ImageCapabilities(**self._native.capabilities)

    def generate(self, prompt: Prompt) -> Coroutine[Any, Any, _core.ImageResult]:
        """Make pictures: ``await maker.generate("a fox")``.

        Args:
            prompt: What to draw; a text, or ``{"prompt": text}``.

        Raises:
            UPPError: The model makes none, or the prompt is empty (INVALID_REQUEST); and what any call can fail with.
            TypeError: The prompt is no text.

        Spec: UPP-1.2 §16.
        """
        return self._native.generate(prompt, None, None)

    def generate_sync(self, prompt: Prompt) -> _core.ImageResult:
        """Make pictures on this thread; works inside a running event loop too.

        Args:
            prompt: As `generate`.

        Raises:
            UPPError: As `generate`.
        """
        return self._native.generate_sync(prompt, None, None)

    def edit(
        self, image: Picture, prompt: Prompt, mask: Picture | None = None
    ) -> Coroutine[Any, Any, _core.ImageResult]:
        """Change a picture: ``await maker.edit(Image.from_path("fox.png"), "with a hat")``.

        Args:
            image: The picture; its data must be here, not at a URL.
            prompt: What to change.
            mask: Where, by the convention of the vendor. OpenAI draws anew where the mask is transparent.

        Raises:
            UPPError: The model changes none, or the picture is at a URL (INVALID_REQUEST); and what any call can fail
                with.
            TypeError: An argument of the wrong type, named.

        Spec: UPP-1.2 §16.
        """
        return self._native.generate(prompt, image, mask)

    def edit_sync(self, image: Picture, prompt: Prompt, mask: Picture | None = None) -> _core.ImageResult:
        """Change a picture on this thread; works inside a running event loop too.

        Args:
            image: As `edit`.
            prompt: As `edit`.
            mask: As `edit`.

        Raises:
            UPPError: As `edit`.
        """
        return self._native.generate_sync(prompt, image, mask)

    def stream(self, prompt: Prompt) -> ImageStream:
        """Make pictures and show them on the way: ``async for event in maker.stream("a fox")``.

        Args:
            prompt: As `generate`.

        Raises:
            UPPError: The model shows no previews (INVALID_REQUEST).

        Spec: UPP-1.2 §16.
        """
        return ImageStream(self._native.stream(prompt))

    def stream_sync(self, prompt: Prompt) -> SyncImageStream:
        """Make pictures and show them on the way, without an event loop.

        Args:
            prompt: As `generate`.

        Raises:
            UPPError: As `stream`.
        """
        return SyncImageStream(self._native.stream(prompt))

    def __repr__(self) -> str:
        return f"ImageModel(model={self._model!r})"

"""Image models: generation and editing of images.

Spec: UPP-1.2 §16.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from turntree import _core
from turntree._public_names import publish
from turntree.upp._bound_model import BoundModel, ResultStream, SyncResultStream

Prompt: TypeAlias = str | Mapping[str, Any]
ImageInput: TypeAlias = _core.Image | Mapping[str, Any]


class ImageCapabilities(NamedTuple):
    """Capabilities of an image model.

    Attributes:
        generate: True if the model generates images.
        streaming: True if the model streams previews.
        edit: True if the model edits images.
        max_images: The maximum number of images of one call; None if it is unknown.

    Spec: UPP-1.2 §16.
    """

    generate: bool
    streaming: bool
    edit: bool
    max_images: int | None


class ImageStream(ResultStream[_core.ImageEvent, _core.ImageResult]):
    """A streamed call: an async iterator of `ImageEvent`, and `result`.

    Spec: UPP-1.2 §16.
    """

    __slots__ = ()


class SyncImageStream(SyncResultStream[_core.ImageEvent, _core.ImageResult]):
    """A streamed call without an event loop: an iterator of `ImageEvent`, and `result`.

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
    """Bind an image model to its parameters, configuration and middleware.

    Args:
        model: A model from a provider's factory, such as ``openai("gpt-image-1")``.
        params: Parameters of the model, sent unchanged, such as ``{"size": "1024x1024", "n": 2}``.
        config: The provider's connection settings; they override those of the model's factory.
        middleware: Middleware for each call, outermost first: from `turntree.upp.middleware`, or your own objects.
            Hooks of streams, turns and tools are called for language models only.

    Raises:
        UPPError: INVALID_REQUEST, modality ``image``: the provider has no image models.
        TypeError: An option has the wrong type; the message names it.

    Spec: UPP-1.2 §16.
    """
    return ImageModel(model=model, params=params, config=config, middleware=middleware)


class ImageModel(BoundModel[_core.ImageModelCore]):
    """An image model. Created by `image`; immutable. Any number of calls can run at the same time.

    Spec: UPP-1.2 §16.
    """

    __slots__ = ()

    _core_class = _core.ImageModelCore

    @property
    def capabilities(self) -> ImageCapabilities:
        """Capabilities of the model. Methods that it does not support raise `UPPError` INVALID_REQUEST."""
        return ImageCapabilities(**self._native.capabilities)

    def generate(self, prompt: Prompt) -> Coroutine[Any, Any, _core.ImageResult]:
        """Generate images: ``await model.generate("a fox")``.

        Args:
            prompt: Description of the image: a text, or ``{"prompt": text}``.

        Raises:
            UPPError: INVALID_REQUEST: the model does not generate images, or the prompt is empty. Any other code: the
                call failed.
            TypeError: The prompt is not a text.

        Spec: UPP-1.2 §16.
        """
        return self._native.generate(prompt, None, None)

    def generate_sync(self, prompt: Prompt) -> _core.ImageResult:
        """Like `generate`, but blocks until the result is complete; also works inside a running event loop.

        Args:
            prompt: As `generate`.

        Raises:
            UPPError: As `generate`.
        """
        return self._native.generate_sync(prompt, None, None)

    def edit(
        self, image: ImageInput, prompt: Prompt, mask: ImageInput | None = None
    ) -> Coroutine[Any, Any, _core.ImageResult]:
        """Edit an image: ``await model.edit(Image.from_path("fox.png"), "with a hat")``.

        Args:
            image: The image; must contain its data, not a URL.
            prompt: Description of the change.
            mask: The area to edit, by the convention of the vendor. OpenAI replaces the transparent area of the mask.

        Raises:
            UPPError: INVALID_REQUEST: the model does not edit images, or the image is at a URL. Any other code: the
                call failed.
            TypeError: An argument has the wrong type; the message names it.

        Spec: UPP-1.2 §16.
        """
        return self._native.generate(prompt, image, mask)

    def edit_sync(self, image: ImageInput, prompt: Prompt, mask: ImageInput | None = None) -> _core.ImageResult:
        """Like `edit`, but blocks until the result is complete; also works inside a running event loop.

        Args:
            image: As `edit`.
            prompt: As `edit`.
            mask: As `edit`.

        Raises:
            UPPError: As `edit`.
        """
        return self._native.generate_sync(prompt, image, mask)

    def stream(self, prompt: Prompt) -> ImageStream:
        """Generate images and stream previews: ``async for event in model.stream("a fox")``.

        Args:
            prompt: As `generate`.

        Raises:
            UPPError: INVALID_REQUEST: the model does not stream previews.

        Spec: UPP-1.2 §16.
        """
        return ImageStream(self._native.stream(prompt))

    def stream_sync(self, prompt: Prompt) -> SyncImageStream:
        """Like `stream`, but without an event loop.

        Args:
            prompt: As `generate`.

        Raises:
            UPPError: As `stream`.
        """
        return SyncImageStream(self._native.stream(prompt))


publish(__name__, globals())

"""Results of image generation."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, final

from typing_extensions import Self

from turntree._core._data import Data
from turntree._core._media import Image

ImagePrompt: TypeAlias = str | Mapping[str, Any]

ImageLike: TypeAlias = Image | Mapping[str, Any]

@final
class GeneratedImage(Data):
    """A generated image.

    Spec: UPP-1.2 §16.
    """

    def __new__(cls, **fields: Any) -> Self: ...
    @property
    def image(self) -> Image:
        """The image, an `Image`."""

    @property
    def metadata(self) -> dict[str, Any] | None:
        """Metadata of the vendor, under the provider's name, or None."""

@final
class ImageUsage(Data):
    """Usage of an image call, as far as the vendor reports it.

    Spec: UPP-1.2 §16.
    """

    def __new__(cls, **fields: Any) -> Self: ...
    @property
    def images_generated(self) -> int | None:
        """Number of generated images."""

    @property
    def input_tokens(self) -> int | None:
        """Input tokens of the prompt and of images."""

    @property
    def output_tokens(self) -> int | None:
        """Output tokens of the generated images."""

    @property
    def cost(self) -> float | None:
        """Cost in the vendor's currency."""

@final
class ImageResult(Data):
    """The images of a call.

    Spec: UPP-1.2 §16.
    """

    def __new__(cls, **fields: Any) -> Self: ...
    @property
    def images(self) -> list[GeneratedImage]:
        """The images, in the vendor's order."""

    @property
    def metadata(self) -> dict[str, Any] | None:
        """Metadata of the vendor, under the provider's name, or None."""

    @property
    def usage(self) -> ImageUsage | None:
        """Usage of the call; None if the vendor does not report it."""

@final
class ImageEvent(Data):
    """One event of a streamed call: a preview or a finished image.

    Spec: UPP-1.2 §16.
    """

    @property
    def type(self) -> Literal["preview", "complete"]:
        """Type of the event: `preview` or `complete`."""

    @property
    def image(self) -> Image | GeneratedImage:
        """The image: an `Image` of a preview, a `GeneratedImage` of a finished image."""

    @property
    def index(self) -> int:
        """Index of the preview or of the image, from 0."""

    @property
    def metadata(self) -> dict[str, Any] | None:
        """Metadata of the vendor, under the provider's name, or None."""

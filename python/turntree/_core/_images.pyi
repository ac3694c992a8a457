"""Results of image generation."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, final

from turntree._core._data import Data
from turntree._core._media import Image

ImagePrompt: TypeAlias = str | Mapping[str, Any]

ImageLike: TypeAlias = Image | Mapping[str, Any]

@final
class GeneratedImage(Data):
    """A finished picture. UPP-1.2 §16."""

    @property
    def image(self) -> Image:
        """The picture."""

    @property
    def metadata(self) -> dict[str, Any] | None:
        """What else the vendor says of it, under the provider's name; None where it says nothing."""

@final
class ImageUsage(Data):
    """What pictures cost, as far as the vendor says. UPP-1.2 §16."""

    @property
    def images_generated(self) -> int | None:
        """How many pictures."""

    @property
    def input_tokens(self) -> int | None:
        """Tokens of prompt and pictures that were read."""

    @property
    def output_tokens(self) -> int | None:
        """Tokens of the pictures that were made."""

    @property
    def cost(self) -> float | None:
        """Money, in the vendor's currency."""

@final
class ImageResult(Data):
    """The pictures of a call. UPP-1.2 §16."""

    @property
    def images(self) -> list[GeneratedImage]:
        """The pictures, in the vendor's order."""

    @property
    def metadata(self) -> dict[str, Any] | None:
        """What else the vendor says, under the provider's name; None where it says nothing."""

    @property
    def usage(self) -> ImageUsage | None:
        """What they cost; None where the vendor does not say."""

@final
class ImageEvent(Data):
    """One step of a streamed call: a preview or a finished picture. UPP-1.2 §16."""

    @property
    def type(self) -> Literal["preview", "complete"]:
        """What happened."""

    @property
    def image(self) -> Image | GeneratedImage:
        """The picture: an `Image` of a preview, a `GeneratedImage` of a finished one."""

    @property
    def index(self) -> int:
        """Which preview, or which picture of the call, from 0."""

    @property
    def metadata(self) -> dict[str, Any] | None:
        """What else the vendor says, under the provider's name; None where it says nothing."""

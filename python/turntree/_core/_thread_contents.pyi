"""Content parts and attachments of ThreadProtocol actions."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, TypeAlias, final

from typing_extensions import Self

from turntree._core._data import Data, Json

@final
class TextContent(Data):
    """A text.

    Spec: ThreadProtocol 1.0.0, "Content Types".
    """

    type: ClassVar[Literal["text"]]
    def __new__(cls, text: str) -> Self: ...
    @property
    def text(self) -> str:
        """The text."""

@final
class ImageContent(Data):
    """An image: a URL, inline data, or a file stored by a provider.

    Args:
        image_url: URL of the data.
        image_base64: The data: base64 in the standard alphabet, or bytes.
        file_id: Id of the file at the provider.
        provider: The provider that stores the file, such as "openai".
        media_type: Media type.
        name: File name.

    Spec: ThreadProtocol 1.0.0, "Content Types".
    """

    type: ClassVar[Literal["image"]]
    def __new__(
        cls,
        *,
        image_url: str | None = None,
        image_base64: str | bytes | None = None,
        file_id: str | None = None,
        provider: str | None = None,
        media_type: str | None = None,
        name: str | None = None,
    ) -> Self: ...
    @property
    def image_url(self) -> str | None:
        """URL of the data."""

    @property
    def image_base64(self) -> str | None:
        """The data as base64, standard alphabet with padding."""

    @property
    def file_id(self) -> str | None:
        """Id of the file at the provider."""

    @property
    def provider(self) -> str | None:
        """The provider that stores the file, such as `openai`."""

    @property
    def media_type(self) -> str | None:
        """Media type, such as `image/png`."""

    @property
    def name(self) -> str | None:
        """File name."""

@final
class FileContent(Data):
    """A file other than an image, audio or a video.

    Args:
        file_url: URL of the data.
        file_base64: The data: base64 in the standard alphabet, or bytes.
        file_id: Id of the file at the provider.
        provider: The provider that stores the file, such as "openai".
        media_type: Media type.
        name: File name.

    Spec: ThreadProtocol 1.0.0, "Content Types".
    """

    type: ClassVar[Literal["file"]]
    def __new__(
        cls,
        *,
        file_url: str | None = None,
        file_base64: str | bytes | None = None,
        file_id: str | None = None,
        provider: str | None = None,
        media_type: str | None = None,
        name: str | None = None,
    ) -> Self: ...
    @property
    def file_url(self) -> str | None:
        """URL of the data."""

    @property
    def file_base64(self) -> str | None:
        """The data as base64, standard alphabet with padding."""

    @property
    def file_id(self) -> str | None:
        """Id of the file at the provider."""

    @property
    def provider(self) -> str | None:
        """The provider that stores the file, such as `openai`."""

    @property
    def media_type(self) -> str | None:
        """Media type, such as `image/png`."""

    @property
    def name(self) -> str | None:
        """File name."""

@final
class AudioContent(Data):
    """Audio: a URL, inline data, or a file stored by a provider.

    Args:
        audio_url: URL of the data.
        audio_base64: The data: base64 in the standard alphabet, or bytes.
        file_id: Id of the file at the provider.
        provider: The provider that stores the file, such as "openai".
        media_type: Media type.
        name: File name.

    Spec: ThreadProtocol 1.0.0, "Content Types".
    """

    type: ClassVar[Literal["audio"]]
    def __new__(
        cls,
        *,
        audio_url: str | None = None,
        audio_base64: str | bytes | None = None,
        file_id: str | None = None,
        provider: str | None = None,
        media_type: str | None = None,
        name: str | None = None,
    ) -> Self: ...
    @property
    def audio_url(self) -> str | None:
        """URL of the data."""

    @property
    def audio_base64(self) -> str | None:
        """The data as base64, standard alphabet with padding."""

    @property
    def file_id(self) -> str | None:
        """Id of the file at the provider."""

    @property
    def provider(self) -> str | None:
        """The provider that stores the file, such as `openai`."""

    @property
    def media_type(self) -> str | None:
        """Media type, such as `image/png`."""

    @property
    def name(self) -> str | None:
        """File name."""

@final
class VideoContent(Data):
    """A video: a URL, inline data, or a file stored by a provider.

    Args:
        video_url: URL of the data.
        video_base64: The data: base64 in the standard alphabet, or bytes.
        file_id: Id of the file at the provider.
        provider: The provider that stores the file, such as "openai".
        media_type: Media type.
        name: File name.

    Spec: ThreadProtocol 1.0.0, "Content Types".
    """

    type: ClassVar[Literal["video"]]
    def __new__(
        cls,
        *,
        video_url: str | None = None,
        video_base64: str | bytes | None = None,
        file_id: str | None = None,
        provider: str | None = None,
        media_type: str | None = None,
        name: str | None = None,
    ) -> Self: ...
    @property
    def video_url(self) -> str | None:
        """URL of the data."""

    @property
    def video_base64(self) -> str | None:
        """The data as base64, standard alphabet with padding."""

    @property
    def file_id(self) -> str | None:
        """Id of the file at the provider."""

    @property
    def provider(self) -> str | None:
        """The provider that stores the file, such as `openai`."""

    @property
    def media_type(self) -> str | None:
        """Media type, such as `image/png`."""

    @property
    def name(self) -> str | None:
        """File name."""

ContentPart: TypeAlias = TextContent | ImageContent | FileContent | AudioContent | VideoContent

ContentPartOrJson: TypeAlias = ContentPart | dict[str, Any]

ContentPartsInput: TypeAlias = str | Iterable[str | ContentPart | Mapping[str, Json]]

@final
class Attachment(Data):
    """An attachment of a user message.

    Args:
        name: File name.
        media_type: Media type.
        url: URL of the data.
        data: The data: base64 in the standard alphabet, or bytes.
        size_bytes: Size in bytes.

    Spec: ThreadProtocol 1.0.0, "Content Types".
    """

    def __new__(
        cls,
        name: str,
        *,
        media_type: str,
        url: str | None = None,
        data: str | bytes | None = None,
        size_bytes: int | None = None,
    ) -> Self: ...
    @property
    def name(self) -> str:
        """File name."""

    @property
    def media_type(self) -> str:
        """Media type."""

    @property
    def url(self) -> str | None:
        """URL of the data."""

    @property
    def data(self) -> str | None:
        """The data as base64, standard alphabet with padding."""

    @property
    def size_bytes(self) -> int | None:
        """Size in bytes."""

"""Content parts and attachments of ThreadProtocol actions."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, TypeAlias, final

from typing_extensions import Self

from turntree._core._data import Data, Json

@final
class TextContent(Data):
    """A piece of text.

    Spec: ThreadProtocol 1.0.0, "Content Types".
    """

    type: ClassVar[Literal["text"]]
    def __new__(cls, text: str) -> Self: ...
    @property
    def text(self) -> str:
        """The text."""

@final
class ImageContent(Data):
    """A picture: by URL, inline, or as a file that a provider keeps.

    Args:
        image_url: Where it is served.
        image_base64: Its data: base64 in the standard alphabet, or bytes.
        file_id: The id under which a provider keeps it.
        provider: Who keeps it, as "openai".
        media_type: Its media type.
        name: Its file name.

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
        """Where it is served."""

    @property
    def image_base64(self) -> str | None:
        """Its data: base64, standard alphabet, padded."""

    @property
    def file_id(self) -> str | None:
        """The id under which a provider keeps it."""

    @property
    def provider(self) -> str | None:
        """Who keeps it, as `openai`."""

    @property
    def media_type(self) -> str | None:
        """Its media type, as `image/png`."""

    @property
    def name(self) -> str | None:
        """Its file name."""

@final
class FileContent(Data):
    """A file that is neither picture, sound nor film.

    Args:
        file_url: Where it is served.
        file_base64: Its data: base64 in the standard alphabet, or bytes.
        file_id: The id under which a provider keeps it.
        provider: Who keeps it, as "openai".
        media_type: Its media type.
        name: Its file name.

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
        """Where it is served."""

    @property
    def file_base64(self) -> str | None:
        """Its data: base64, standard alphabet, padded."""

    @property
    def file_id(self) -> str | None:
        """The id under which a provider keeps it."""

    @property
    def provider(self) -> str | None:
        """Who keeps it, as `openai`."""

    @property
    def media_type(self) -> str | None:
        """Its media type, as `application/pdf`."""

    @property
    def name(self) -> str | None:
        """Its file name."""

@final
class AudioContent(Data):
    """A sound: by URL, inline, or as a file that a provider keeps.

    Args:
        audio_url: Where it is served.
        audio_base64: Its data: base64 in the standard alphabet, or bytes.
        file_id: The id under which a provider keeps it.
        provider: Who keeps it, as "openai".
        media_type: Its media type.
        name: Its file name.

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
        """Where it is served."""

    @property
    def audio_base64(self) -> str | None:
        """Its data: base64, standard alphabet, padded."""

    @property
    def file_id(self) -> str | None:
        """The id under which a provider keeps it."""

    @property
    def provider(self) -> str | None:
        """Who keeps it, as `openai`."""

    @property
    def media_type(self) -> str | None:
        """Its media type, as `audio/wav`."""

    @property
    def name(self) -> str | None:
        """Its file name."""

@final
class VideoContent(Data):
    """A film: by URL, inline, or as a file that a provider keeps.

    Args:
        video_url: Where it is served.
        video_base64: Its data: base64 in the standard alphabet, or bytes.
        file_id: The id under which a provider keeps it.
        provider: Who keeps it, as "openai".
        media_type: Its media type.
        name: Its file name.

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
        """Where it is served."""

    @property
    def video_base64(self) -> str | None:
        """Its data: base64, standard alphabet, padded."""

    @property
    def file_id(self) -> str | None:
        """The id under which a provider keeps it."""

    @property
    def provider(self) -> str | None:
        """Who keeps it, as `openai`."""

    @property
    def media_type(self) -> str | None:
        """Its media type, as `video/mp4`."""

    @property
    def name(self) -> str | None:
        """Its file name."""

ContentPart: TypeAlias = TextContent | ImageContent | FileContent | AudioContent | VideoContent

ContentPartOrJson: TypeAlias = ContentPart | dict[str, Any]

ContentPartsInput: TypeAlias = str | Iterable[str | ContentPart | Mapping[str, Json]]

@final
class Attachment(Data):
    """Something that came with a user message, beside its content.

    Args:
        name: Its file name.
        media_type: Its media type.
        url: Where it is served.
        data: Base64 in the standard alphabet, or bytes.
        size_bytes: Its size.

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
        """Its file name."""

    @property
    def media_type(self) -> str:
        """Its media type."""

    @property
    def url(self) -> str | None:
        """Where it is served."""

    @property
    def data(self) -> str | None:
        """Its data: base64, standard alphabet, padded."""

    @property
    def size_bytes(self) -> int | None:
        """Its size."""

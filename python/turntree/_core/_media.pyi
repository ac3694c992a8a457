"""Images, documents, audio, video and binary data."""

from collections.abc import Mapping
from os import PathLike
from typing import Any, ClassVar, Literal, final

from typing_extensions import Self

from turntree._core._async import Coroutine
from turntree._core._data import Data, Json

@final
class Image(Data):
    """An image. Usually created by one of the class methods.

    Args:
        source: Source of the data: ``{"type": "base64", "data": …}``, ``"bytes"`` (also base64), or ``"url"``.
        mime_type: Media type, such as ``image/png``.
        width: Width in pixels, if known.
        height: Height in pixels, if known.

    Raises:
        TypeError: `source` is not such a dict.

    Spec: UPP-1.2 §3 and §8.
    """

    type: ClassVar[Literal["image"]]
    def __new__(
        cls, source: Mapping[str, object], mime_type: str, width: int | None = None, height: int | None = None
    ) -> Self: ...
    @classmethod
    def from_path(cls, path: str | PathLike[str]) -> Image:
        """Read a file. The extension determines the media type, else the first bytes.

        Args:
            path: The file.

        Raises:
            OSError: The file cannot be read: FileNotFoundError, IsADirectoryError, PermissionError.
            ValueError: The file is empty, or larger than 512 MiB.
        """

    @classmethod
    def from_path_async(cls, path: str | PathLike[str]) -> Coroutine[Image]:
        """As `from_path`, without blocking the event loop.

        Args:
            path: The file.

        Raises:
            OSError: The file cannot be read: FileNotFoundError, IsADirectoryError, PermissionError.
            ValueError: The file is empty, or larger than 512 MiB.
        """

    @classmethod
    def from_block(cls, block: Image | Mapping[str, Any]) -> Image:
        """Create the object from a content block: an instance of this class, or a dict with its `type`.

        Raises:
            TypeError: The block has another type.
            ValidationError: The dict is invalid.
        """

    @classmethod
    def from_url(cls, url: str, mime_type: str | None = None) -> Image:
        """Create an image from a URL. It is not fetched; a ``data:`` URL is decoded.

        Args:
            url: The URL.
            mime_type: Media type, such as ``image/png``. Default: follows from the extension of the URL.

        Raises:
            ValueError: `url` is not a URL.
        """

    @classmethod
    def from_bytes(cls, data: bytes | bytearray, mime_type: str) -> Image:
        """Create an image from bytes.

        Args:
            data: The file's bytes, not base64.
            mime_type: Media type, such as ``image/png``.
        """

    @classmethod
    def from_base64(cls, data: str, mime_type: str) -> Image:
        """Create an image from base64 text.

        Args:
            data: Base64 of the file's bytes, without a ``data:`` prefix.
            mime_type: Media type, such as ``image/png``.

        Raises:
            ValueError: `data` is not base64.
        """

    @property
    def source(self) -> dict[str, Any]:
        """The source as a dict, by the specification's names."""

    @property
    def mime_type(self) -> str:
        """The media type, such as `image/png`."""

    @property
    def width(self) -> int | None:
        """Width in pixels, or None."""

    @property
    def height(self) -> int | None:
        """Height in pixels, or None."""

    @property
    def has_data(self) -> bool:
        """Whether the data is in the block, not at a URL."""

    def to_base64(self) -> str:
        """Return the data as base64 text.

        Raises:
            ValueError: The image is at a URL.
        """

    def to_bytes(self) -> bytes:
        """Return the data; plain text as UTF-8.

        Raises:
            ValueError: The image is at a URL.
        """

    def to_data_url(self) -> str:
        """Return the data as a ``data:`` URL.

        Raises:
            ValueError: The image is at a URL.
        """

    def to_url(self) -> str:
        """Return the URL.

        Raises:
            ValueError: The source is not a URL.
        """

    def to_block(self) -> Self:
        """Return the content block for a message: this object."""

@final
class Document(Data):
    """A document: PDF or plain text. Allowed in user messages only. Usually created by one of the class methods.

    Args:
        source: Source of the data: ``{"type": "base64", "data": …}``, ``"text"``, or ``{"type": "url", "url": …}``.
        mime_type: ``application/pdf`` or ``text/plain``.
        title: Title for the model.

    Raises:
        TypeError: `source` is not such a dict.

    Spec: UPP-1.2 §3 and §8.
    """

    type: ClassVar[Literal["document"]]
    def __new__(cls, source: Mapping[str, object], mime_type: str, title: str | None = None) -> Self: ...
    @classmethod
    def from_path(cls, path: str | PathLike[str], title: str | None = None) -> Document:
        """Read a file. The extension determines the media type, else the first bytes.

        Args:
            path: The file. Its data is stored as base64, also for text.
            title: Title for the model.

        Raises:
            OSError: The file cannot be read: FileNotFoundError, IsADirectoryError, PermissionError.
            ValueError: The file is empty, or larger than 512 MiB.
        """

    @classmethod
    def from_path_async(cls, path: str | PathLike[str], title: str | None = None) -> Coroutine[Document]:
        """As `from_path`, without blocking the event loop.

        Args:
            path: The file.
            title: Title for the model.

        Raises:
            OSError: The file cannot be read: FileNotFoundError, IsADirectoryError, PermissionError.
            ValueError: The file is empty, or larger than 512 MiB.
        """

    @classmethod
    def from_block(cls, block: Document | Mapping[str, Any]) -> Document:
        """Create the object from a content block: an instance of this class, or a dict with its `type`.

        Raises:
            TypeError: The block has another type.
            ValidationError: The dict is invalid.
        """

    @classmethod
    def from_url(cls, url: str, title: str | None = None) -> Document:
        """Create a document from the URL of a PDF. It is not fetched; a ``data:`` URL is decoded.

        Args:
            url: The URL; http or https.
            title: Title for the model.

        Raises:
            ValueError: `url` is not an http or https URL.
        """

    @classmethod
    def from_text(cls, text: str, title: str | None = None) -> Document:
        """Create a document from plain text.

        Args:
            text: The text.
            title: Title for the model.
        """

    @classmethod
    def from_base64(cls, data: str, mime_type: str, title: str | None = None) -> Document:
        """Create a document from base64 text.

        Args:
            data: Base64 of the file's bytes.
            mime_type: Media type, such as ``application/pdf``.
            title: Title for the model.

        Raises:
            ValueError: `data` is not base64.
        """

    @classmethod
    def from_bytes(cls, data: bytes | bytearray, mime_type: str, title: str | None = None) -> Document:
        """Create a document from bytes.

        Args:
            data: The file's bytes.
            mime_type: Media type, such as ``application/pdf``.
            title: Title for the model.
        """

    @property
    def source(self) -> dict[str, Any]:
        """The source as a dict, by the specification's names."""

    @property
    def mime_type(self) -> str:
        """The media type: `application/pdf` or `text/plain`."""

    @property
    def title(self) -> str | None:
        """The title that the model sees, or None."""

    @property
    def is_pdf(self) -> bool:
        """True for a PDF."""

    @property
    def is_text(self) -> bool:
        """True for plain text."""

    @property
    def has_data(self) -> bool:
        """Whether the data is in the block, not at a URL."""

    def to_base64(self) -> str:
        """Return the data as base64 text.

        Raises:
            ValueError: The document is text, or at a URL.
        """

    def to_bytes(self) -> bytes:
        """Return the data; plain text as UTF-8.

        Raises:
            ValueError: The document is at a URL.
        """

    def to_text(self) -> str:
        """Return the text.

        Raises:
            ValueError: The source is not plain text.
        """

    def to_url(self) -> str:
        """Return the URL.

        Raises:
            ValueError: The source is not a URL.
        """

    def to_block(self) -> Self:
        """Return the content block for a message: this object."""

@final
class Audio(Data):
    """Audio.

    Args:
        data: The file's bytes, not base64.
        mime_type: Media type, such as ``audio/wav``.
        duration: Length in seconds, if known.

    Raises:
        TypeError: `data` is not bytes.

    Spec: UPP-1.2 §3 and §8.
    """

    type: ClassVar[Literal["audio"]]
    def __new__(cls, data: bytes | bytearray, mime_type: str, duration: float | None = None) -> Self: ...
    @classmethod
    def from_path(cls, path: str | PathLike[str], duration: float | None = None) -> Audio:
        """Read a file. The extension determines the media type, else the first bytes.

        Args:
            path: The file.
            duration: Length in seconds, if known.

        Raises:
            OSError: The file cannot be read: FileNotFoundError, IsADirectoryError, PermissionError.
            ValueError: The file is empty, or larger than 512 MiB.
        """

    @classmethod
    def from_path_async(cls, path: str | PathLike[str], duration: float | None = None) -> Coroutine[Audio]:
        """As `from_path`, without blocking the event loop.

        Args:
            path: The file.
            duration: Length in seconds, if known.

        Raises:
            OSError: The file cannot be read: FileNotFoundError, IsADirectoryError, PermissionError.
            ValueError: The file is empty, or larger than 512 MiB.
        """

    @classmethod
    def from_bytes(cls, data: bytes | bytearray, mime_type: str, duration: float | None = None) -> Audio:
        """Create the object from the bytes of a file.

        Args:
            data: The file's bytes, not base64.
            mime_type: Media type, such as ``audio/wav``.
            duration: Length in seconds, if known.
        """

    @classmethod
    def from_base64(cls, data: str, mime_type: str, duration: float | None = None) -> Audio:
        """Create the object from base64 text.

        Args:
            data: Base64 of the file's bytes.
            mime_type: Media type, such as ``audio/wav``.
            duration: Length in seconds, if known.

        Raises:
            ValueError: `data` is not base64.
        """

    @classmethod
    def from_block(cls, block: Audio | Mapping[str, Any]) -> Audio:
        """Create the object from a content block: an instance of this class, or a dict with its `type`.

        Raises:
            TypeError: The block has another type.
            ValidationError: The dict is invalid.
        """

    @property
    def data(self) -> bytes:
        """The bytes of the file."""

    @property
    def mime_type(self) -> str:
        """The media type, such as `audio/wav`."""

    @property
    def duration(self) -> float | None:
        """Length in seconds, or None."""

    @property
    def size(self) -> int:
        """Size of the data in bytes."""

    def to_base64(self) -> str:
        """The data as base64 text."""

    def to_data_url(self) -> str:
        """The data as a `data:` URL."""

    def to_bytes(self) -> bytes:
        """The data."""

    def to_block(self) -> Self:
        """Return the content block for a message: this object."""

@final
class Video(Data):
    """A video.

    Args:
        data: The file's bytes, not base64.
        mime_type: Media type, such as ``video/mp4``.
        duration: Length in seconds, if known.
        width: Width in pixels, if known.
        height: Height in pixels, if known.

    Raises:
        TypeError: `data` is not bytes.

    Spec: UPP-1.2 §3 and §8.
    """

    type: ClassVar[Literal["video"]]
    def __new__(
        cls,
        data: bytes | bytearray,
        mime_type: str,
        *,
        duration: float | None = None,
        width: int | None = None,
        height: int | None = None,
    ) -> Self: ...
    @classmethod
    def from_path(
        cls,
        path: str | PathLike[str],
        *,
        duration: float | None = None,
        width: int | None = None,
        height: int | None = None,
    ) -> Video:
        """Read a file. The extension determines the media type, else the first bytes.

        Args:
            path: The file.
            duration: Length in seconds, if known.
            width: Width in pixels, if known.
            height: Height in pixels, if known.

        Raises:
            OSError: The file cannot be read: FileNotFoundError, IsADirectoryError, PermissionError.
            ValueError: The file is empty, or larger than 512 MiB.
        """

    @classmethod
    def from_path_async(
        cls,
        path: str | PathLike[str],
        *,
        duration: float | None = None,
        width: int | None = None,
        height: int | None = None,
    ) -> Coroutine[Video]:
        """As `from_path`, without blocking the event loop.

        Args:
            path: The file.
            duration: Length in seconds, if known.
            width: Width in pixels, if known.
            height: Height in pixels, if known.

        Raises:
            OSError: The file cannot be read: FileNotFoundError, IsADirectoryError, PermissionError.
            ValueError: The file is empty, or larger than 512 MiB.
        """

    @classmethod
    def from_bytes(
        cls,
        data: bytes | bytearray,
        mime_type: str,
        *,
        duration: float | None = None,
        width: int | None = None,
        height: int | None = None,
    ) -> Video:
        """Create the object from the bytes of a file.

        Args:
            data: The file's bytes, not base64.
            mime_type: Media type, such as ``video/mp4``.
            duration: Length in seconds, if known.
            width: Width in pixels, if known.
            height: Height in pixels, if known.
        """

    @classmethod
    def from_base64(
        cls,
        data: str,
        mime_type: str,
        *,
        duration: float | None = None,
        width: int | None = None,
        height: int | None = None,
    ) -> Video:
        """Create the object from base64 text.

        Args:
            data: Base64 of the file's bytes.
            mime_type: Media type, such as ``video/mp4``.
            duration: Length in seconds, if known.
            width: Width in pixels, if known.
            height: Height in pixels, if known.

        Raises:
            ValueError: `data` is not base64.
        """

    @classmethod
    def from_block(cls, block: Video | Mapping[str, Any]) -> Video:
        """Create the object from a content block: an instance of this class, or a dict with its `type`.

        Raises:
            TypeError: The block has another type.
            ValidationError: The dict is invalid.
        """

    @property
    def data(self) -> bytes:
        """The bytes of the file."""

    @property
    def mime_type(self) -> str:
        """The media type, such as `video/mp4`."""

    @property
    def duration(self) -> float | None:
        """Length in seconds, or None."""

    @property
    def width(self) -> int | None:
        """Width in pixels, or None."""

    @property
    def height(self) -> int | None:
        """Height in pixels, or None."""

    @property
    def size(self) -> int:
        """Size of the data in bytes."""

    def to_base64(self) -> str:
        """The data as base64 text."""

    def to_data_url(self) -> str:
        """The data as a `data:` URL."""

    def to_bytes(self) -> bytes:
        """The data."""

    def to_block(self) -> Self:
        """Return the content block for a message: this object."""

@final
class Binary(Data):
    """Data of any other type. Allowed in user messages only.

    Args:
        data: The bytes, not base64.
        mime_type: What they are, as ``application/zip``.
        metadata: Facts about them, as JSON.

    Raises:
        TypeError: `data` is not bytes, or `metadata` is not JSON.

    Spec: UPP-1.2 §3.
    """

    type: ClassVar[Literal["binary"]]
    def __new__(cls, data: bytes | bytearray, mime_type: str, metadata: Mapping[str, Json] | None = None) -> Self: ...
    @property
    def data(self) -> bytes:
        """The bytes."""

    @property
    def mime_type(self) -> str:
        """The media type, such as `application/zip`."""

    @property
    def metadata(self) -> dict[str, Any] | None:
        """Metadata of the data, a dict, or None."""

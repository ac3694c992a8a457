"""The native core. Users import its classes from ``turntree``, ``turntree.upp`` and ``turntree.thread_protocol``.

Written by hand; ``tests/python/test_stubs.py`` compares every name, parameter and default with the module itself.
Names that start with an underscore, and classes marked ``type_check_only``, cannot be imported.
"""

import builtins
import collections.abc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar, final, overload, type_check_only

from typing_extensions import Self, Unpack, disjoint_base

from turntree._agent import Agent
from turntree._session import Session
from turntree.store import PersistenceAdapter
from turntree.upp._providers import ConfigOptions
from turntree.upp._structure import AnswerType
from turntree.upp._tools import Tool
from turntree.upp.native import NativeTool
from turntree.upp.prices import Price

__all__ = [
    "AgentCore",
    "StrategyContext",
    "SessionCore",
    "ToolContext",
    "Checkpoint",
    "ExecutionState",
    "PlanStep",
    "LlmCore",
    "AgentStreamCore",
    "AgentStreamEvent",
    "UapEvent",
    "_restore",
    "Data",
    "ProviderConfig",
    "EventSink",
    "custom_model",
    "EmbedderCore",
    "ImageMakerCore",
    "ResultStreamCore",
    "AgentMiddleware",
    "MiddlewareContext",
    "Middleware",
    "MiddlewareChain",
    "CallContext",
    "MemoryPubsub",
    "SubscriptionCore",
    "CallRequest",
    "CallResponse",
    "CallState",
    "DynamicKey",
    "KeyStrategy",
    "RoundRobinKeys",
    "WeightedKeys",
    "ModelReference",
    "ModelRequest",
    "price_rows",
    "set_price_rows",
    "tokens_cost",
    "ExponentialBackoff",
    "LinearBackoff",
    "NoRetry",
    "RetryAfterStrategy",
    "RetryStrategy",
    "TokenBucket",
    "Replay",
    "replay",
    "Reply",
    "scripted",
    "__version__",
    "ThreadDiff",
    "ThreadNode",
    "ThreadTree",
    "TextContent",
    "ImageContent",
    "FileContent",
    "AudioContent",
    "VideoContent",
    "Attachment",
    "Usage",
    "ThinkingUsage",
    "UserMessageAction",
    "AssistantMessageAction",
    "ThinkingAction",
    "ToolCallAction",
    "ToolReturnAction",
    "SystemAction",
    "OtherAction",
    "AgentConfig",
    "Issue",
    "ProtocolThread",
    "DocumentIssue",
    "Report",
    "_ArrowColumn",
    "_UnfinishedFile",
    "_convert_column",
    "_convert_files",
    "_convert_lines",
    "_formats",
    "_render",
    "UiStreamReader",
    "UiLiveStream",
    "Change",
    "downgrade_pydantic_ai",
    "from_pydantic_ai",
    "pydantic_ai_version",
    "thread_from_upp",
    "from_ui_messages",
    "ui_stream_headers",
    "Text",
    "Reasoning",
    "Image",
    "Document",
    "Audio",
    "Video",
    "Binary",
    "Message",
    "UserMessage",
    "AssistantMessage",
    "ToolResultMessage",
    "ToolCall",
    "ToolResult",
    "ToolExecution",
    "CycleUsage",
    "TokenUsage",
    "Turn",
    "StreamEvent",
    "SubAgentRun",
    "Thread",
    "Embedding",
    "EmbeddingUsage",
    "EmbeddingResult",
    "EmbeddingProgress",
    "GeneratedImage",
    "ImageUsage",
    "ImageResult",
    "ImageEvent",
]

__version__: str

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)

_Json: TypeAlias = Any
_Metadata: TypeAlias = Mapping[str, Mapping[str, _Json]]
_Mode: TypeAlias = Literal["python", "json"]

def _restore(class_: type[Any], text: str, /) -> Any:
    """Rebuild a pickled value."""

# Data

@disjoint_base
class Data:
    """Base class of everything that is data: frozen handles with the face of a pydantic model.

    Values compare by content, can be pickled and copied, and are hashable unless they grow (threads). Every class
    serves as a field of a pydantic model, in a ``TypeAdapter`` and in FastAPI signatures. Attributes are converted
    when they are read: a list or dict that one gives is the caller's own.
    """

    def model_dump(
        self, *, mode: _Mode = "python", by_alias: bool = True, exclude_none: bool = False
    ) -> dict[str, Any]:
        """Give the value as a dict.

        Args:
            mode: "python" gives ``datetime`` and ``bytes`` where the specification has times and data, "json" texts.
            by_alias: Keys as the specification spells them; False for Python's names.
            exclude_none: Leave out members that are None.

        Raises:
            ValueError: `mode` is another word.
        """

    def model_dump_json(self, *, indent: int | None = None, by_alias: bool = True, exclude_none: bool = False) -> str:
        """Give the value as JSON text.

        Args:
            indent: Spaces a level; None for compact text.
            by_alias: Keys as the specification spells them; False for Python's names.
            exclude_none: Leave out members that are None.
        """

    @classmethod
    def model_validate(cls, obj: object) -> Self:
        """Make a value from an instance or from plain data, keys as the specification or as Python spells them.

        Raises:
            ValidationError: The data has another shape; the error names the place and the rule.
            TypeError: Something in it is not JSON.
        """

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray) -> Self:
        """Make a value from JSON text.

        Raises:
            ValidationError: Not JSON, too large or too deep, or of another shape.
        """

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        """Give the JSON Schema (2020-12) of the class."""

    def to_dict(self) -> dict[str, Any]:
        """Give plain Python data, keys as the specification spells them."""

    def to_json(self) -> str:
        """Give compact JSON text."""

    @classmethod
    def from_json(cls, data: str | bytes | bytearray | Mapping[str, Any]) -> Self:
        """Make a value from JSON text or from a dict.

        Raises:
            ValidationError: As `model_validate_json`.
        """

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> Any:
        """Give pydantic the schema of the class; only pydantic calls it."""

    @classmethod
    def __get_pydantic_json_schema__(cls, _core_schema: Any, handler: Any) -> Any:
        """Give pydantic the JSON Schema of the class; only pydantic calls it."""

    def __reduce__(self) -> tuple[Any, ...]: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, _memo: Any = None) -> Self: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def _repr_html_(self) -> str:
        """Show the value in a notebook."""

@final
class Text(Data):
    """Plain text. UPP-1.2 §3.

    Args:
        text: The text.
    """

    type: ClassVar[Literal["text"]]
    def __new__(cls, text: str) -> Self: ...
    @property
    def text(self) -> str:
        """The text."""

@final
class Reasoning(Data):
    """What a model thought before it answered; in assistant messages only. UPP-1.2 §3.

    Args:
        text: The thought.
    """

    type: ClassVar[Literal["reasoning"]]
    def __new__(cls, text: str) -> Self: ...
    @property
    def text(self) -> str:
        """The thought."""

@final
class Image(Data):
    """A picture; usually made by one of its factories. UPP-1.2 §3 and §8.

    Args:
        source: Where the data is: ``{"type": "base64", "data": …}``, ``"bytes"`` (also base64), or ``"url"``.
        mime_type: As ``image/png``.
        width: Pixels across, where known.
        height: Pixels down, where known.

    Raises:
        TypeError: `source` is no such dict.
    """

    type: ClassVar[Literal["image"]]
    def __new__(
        cls, source: Mapping[str, Any], mime_type: str, width: int | None = None, height: int | None = None
    ) -> Self: ...
    @classmethod
    def from_path(cls, path: str | PathLike[str]) -> Image:
        """Read a picture from a file; the extension tells the media type, else the first bytes do.

        Args:
            path: The file.

        Raises:
            OSError: The file cannot be read: FileNotFoundError, IsADirectoryError, PermissionError.
            ValueError: It is empty, or larger than fits into a request (512 MiB).
        """

    @classmethod
    def from_path_async(cls, path: str | PathLike[str]) -> Coroutine[Image]:
        """As `from_path`, without keeping the event loop waiting.

        Args:
            path: The file.

        Raises:
            OSError: The file cannot be read: FileNotFoundError, IsADirectoryError, PermissionError.
            ValueError: It is empty, or larger than fits into a request (512 MiB).
        """

    @classmethod
    def from_block(cls, block: Image | Mapping[str, Any]) -> Image:
        """Take a block, as it stands in messages: a handle, or a dict with ``"type": "image"``.

        Raises:
            TypeError: It is another block.
            ValidationError: The dict has another shape.
        """

    @classmethod
    def from_url(cls, url: str, mime_type: str | None = None) -> Image:
        """Refer to a picture that somebody serves; nothing is fetched. The data of a ``data:`` URL is taken out of it.

        Args:
            url: Where it is.
            mime_type: As ``image/png``. Default: what the URL's extension tells.

        Raises:
            ValueError: Not a URL.
        """

    @classmethod
    def from_bytes(cls, data: bytes | bytearray, mime_type: str) -> Image:
        """Take a picture that is in memory.

        Args:
            data: The file's bytes, not base64.
            mime_type: As ``image/png``.
        """

    @classmethod
    def from_base64(cls, data: str, mime_type: str) -> Image:
        """Take a picture that is base64 text.

        Args:
            data: Base64 of the file's bytes, without a ``data:`` prefix.
            mime_type: As ``image/png``.

        Raises:
            ValueError: It is not base64.
        """

    @property
    def source(self) -> dict[str, Any]:
        """Where the data is: ``{"type": "base64", "data": …}``, ``"bytes"`` (also base64), or ``"url"``."""

    @property
    def mime_type(self) -> str:
        """The media type, as ``image/png``."""

    @property
    def width(self) -> int | None:
        """Pixels across, where known."""

    @property
    def height(self) -> int | None:
        """Pixels down, where known."""

    @property
    def has_data(self) -> bool:
        """Whether the data is here, not at a URL."""

    def to_base64(self) -> str:
        """Give the data as base64 text.

        Raises:
            ValueError: The image is at a URL.
        """

    def to_bytes(self) -> bytes:
        """Give the data.

        Raises:
            ValueError: The image is at a URL.
        """

    def to_data_url(self) -> str:
        """Give the data as a ``data:`` URL.

        Raises:
            ValueError: The image is at a URL.
        """

    def to_url(self) -> str:
        """Give the URL.

        Raises:
            ValueError: The image has none.
        """

    def to_block(self) -> Self:
        """Give the block that stands in messages: itself."""

@final
class Document(Data):
    """A document: PDF or plain text; in user messages only. Usually made by one of its factories. UPP-1.2 §3 and §8.

    Args:
        source: Where the data is: ``{"type": "base64", "data": …}``, ``"text"``, or ``{"type": "url", "url": …}``.
        mime_type: ``application/pdf`` or ``text/plain``.
        title: Shown to the model.

    Raises:
        TypeError: `source` is no such dict.
    """

    type: ClassVar[Literal["document"]]
    def __new__(cls, source: Mapping[str, Any], mime_type: str, title: str | None = None) -> Self: ...
    @classmethod
    def from_path(cls, path: str | PathLike[str], title: str | None = None) -> Document:
        """Read a document from a file; the extension tells the media type, else the first bytes do.

        Its data is base64, also that of a text.

        Args:
            path: The file.
            title: Shown to the model.

        Raises:
            OSError: The file cannot be read: FileNotFoundError, IsADirectoryError, PermissionError.
            ValueError: It is empty, or larger than fits into a request (512 MiB).
        """

    @classmethod
    def from_path_async(cls, path: str | PathLike[str], title: str | None = None) -> Coroutine[Document]:
        """As `from_path`, without keeping the event loop waiting.

        Args:
            path: The file.
            title: Shown to the model.

        Raises:
            OSError: The file cannot be read: FileNotFoundError, IsADirectoryError, PermissionError.
            ValueError: It is empty, or larger than fits into a request (512 MiB).
        """

    @classmethod
    def from_block(cls, block: Document | Mapping[str, Any]) -> Document:
        """Take a block, as it stands in messages: a handle, or a dict with ``"type": "document"``.

        Raises:
            TypeError: It is another block.
            ValidationError: The dict has another shape.
        """

    @classmethod
    def from_url(cls, url: str, title: str | None = None) -> Document:
        """Refer to a PDF that somebody serves; nothing is fetched. The data of a ``data:`` URL is taken out of it.

        Args:
            url: Where it is; http or https.
            title: Shown to the model.

        Raises:
            ValueError: Not an http or https URL.
        """

    @classmethod
    def from_text(cls, text: str, title: str | None = None) -> Document:
        """Take a document that is plain text.

        Args:
            text: The text.
            title: Shown to the model.
        """

    @classmethod
    def from_base64(cls, data: str, mime_type: str, title: str | None = None) -> Document:
        """Take a document that is base64 text.

        Args:
            data: Base64 of the file's bytes.
            mime_type: As ``application/pdf``.
            title: Shown to the model.

        Raises:
            ValueError: It is not base64.
        """

    @classmethod
    def from_bytes(cls, data: bytes | bytearray, mime_type: str, title: str | None = None) -> Document:
        """Take a document that is in memory.

        Args:
            data: The file's bytes.
            mime_type: As ``application/pdf``.
            title: Shown to the model.
        """

    @property
    def source(self) -> dict[str, Any]:
        """Where the data is: ``{"type": "base64", "data": …}``, ``"text"``, or ``{"type": "url", "url": …}``."""

    @property
    def mime_type(self) -> str:
        """The media type: ``application/pdf`` or ``text/plain``."""

    @property
    def title(self) -> str | None:
        """Its title, shown to the model."""

    @property
    def is_pdf(self) -> bool:
        """Whether it is a PDF."""

    @property
    def is_text(self) -> bool:
        """Whether it is plain text."""

    @property
    def has_data(self) -> bool:
        """Whether the data is here, not at a URL."""

    def to_base64(self) -> str:
        """Give the data as base64 text.

        Raises:
            ValueError: The document is text, or at a URL.
        """

    def to_bytes(self) -> bytes:
        """Give the data, a text as UTF-8.

        Raises:
            ValueError: The document is at a URL.
        """

    def to_text(self) -> str:
        """Give the text.

        Raises:
            ValueError: The document was not given as text.
        """

    def to_url(self) -> str:
        """Give the URL.

        Raises:
            ValueError: The document has none.
        """

    def to_block(self) -> Self:
        """Give the block that stands in messages: itself."""

@final
class Audio(Data):
    """A sound. UPP-1.2 §3 and §8.

    Args:
        data: The file's bytes, not base64.
        mime_type: As ``audio/wav``.
        duration: Length in seconds, where known.

    Raises:
        TypeError: `data` is not bytes.
    """

    type: ClassVar[Literal["audio"]]
    def __new__(cls, data: bytes | bytearray, mime_type: str, duration: float | None = None) -> Self: ...
    @classmethod
    def from_path(cls, path: str | PathLike[str], duration: float | None = None) -> Audio:
        """Read a sound from a file; the extension tells the media type, else the first bytes do.

        Args:
            path: The file.
            duration: Length in seconds, where known.

        Raises:
            OSError: The file cannot be read: FileNotFoundError, IsADirectoryError, PermissionError.
            ValueError: It is empty, or larger than fits into a request (512 MiB).
        """

    @classmethod
    def from_path_async(cls, path: str | PathLike[str], duration: float | None = None) -> Coroutine[Audio]:
        """As `from_path`, without keeping the event loop waiting.

        Args:
            path: The file.
            duration: Length in seconds, where known.

        Raises:
            OSError: The file cannot be read: FileNotFoundError, IsADirectoryError, PermissionError.
            ValueError: It is empty, or larger than fits into a request (512 MiB).
        """

    @classmethod
    def from_bytes(cls, data: bytes | bytearray, mime_type: str, duration: float | None = None) -> Audio:
        """Take a sound that is in memory.

        Args:
            data: The file's bytes, not base64.
            mime_type: As ``audio/wav``.
            duration: Length in seconds, where known.
        """

    @classmethod
    def from_base64(cls, data: str, mime_type: str, duration: float | None = None) -> Audio:
        """Take a sound that is base64 text.

        Args:
            data: Base64 of the file's bytes.
            mime_type: As ``audio/wav``.
            duration: Length in seconds, where known.

        Raises:
            ValueError: It is not base64.
        """

    @classmethod
    def from_block(cls, block: Audio | Mapping[str, Any]) -> Audio:
        """Take a block, as it stands in messages: a handle, or a dict with ``"type": "audio"``.

        Raises:
            TypeError: It is another block.
            ValidationError: The dict has another shape.
        """

    @property
    def data(self) -> bytes:
        """The file's bytes."""

    @property
    def mime_type(self) -> str:
        """The media type, as ``audio/wav``."""

    @property
    def duration(self) -> float | None:
        """Length in seconds, where known."""

    @property
    def size(self) -> int:
        """How many bytes."""

    def to_base64(self) -> str:
        """Give the data as base64 text."""

    def to_data_url(self) -> str:
        """Give the data as a ``data:`` URL."""

    def to_bytes(self) -> bytes:
        """Give the data."""

    def to_block(self) -> Self:
        """Give the block that stands in messages: itself."""

@final
class Video(Data):
    """A film. UPP-1.2 §3 and §8.

    Args:
        data: The file's bytes, not base64.
        mime_type: As ``video/mp4``.
        duration: Length in seconds, where known.
        width: Pixels across, where known.
        height: Pixels down, where known.

    Raises:
        TypeError: `data` is not bytes.
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
        """Read a film from a file; the extension tells the media type, else the first bytes do.

        Args:
            path: The file.
            duration: Length in seconds, where known.
            width: Pixels across, where known.
            height: Pixels down, where known.

        Raises:
            OSError: The file cannot be read: FileNotFoundError, IsADirectoryError, PermissionError.
            ValueError: It is empty, or larger than fits into a request (512 MiB).
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
        """As `from_path`, without keeping the event loop waiting.

        Args:
            path: The file.
            duration: Length in seconds, where known.
            width: Pixels across, where known.
            height: Pixels down, where known.

        Raises:
            OSError: The file cannot be read: FileNotFoundError, IsADirectoryError, PermissionError.
            ValueError: It is empty, or larger than fits into a request (512 MiB).
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
        """Take a film that is in memory.

        Args:
            data: The file's bytes, not base64.
            mime_type: As ``video/mp4``.
            duration: Length in seconds, where known.
            width: Pixels across, where known.
            height: Pixels down, where known.
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
        """Take a film that is base64 text.

        Args:
            data: Base64 of the file's bytes.
            mime_type: As ``video/mp4``.
            duration: Length in seconds, where known.
            width: Pixels across, where known.
            height: Pixels down, where known.

        Raises:
            ValueError: It is not base64.
        """

    @classmethod
    def from_block(cls, block: Video | Mapping[str, Any]) -> Video:
        """Take a block, as it stands in messages: a handle, or a dict with ``"type": "video"``.

        Raises:
            TypeError: It is another block.
            ValidationError: The dict has another shape.
        """

    @property
    def data(self) -> bytes:
        """The file's bytes."""

    @property
    def mime_type(self) -> str:
        """The media type, as ``video/mp4``."""

    @property
    def duration(self) -> float | None:
        """Length in seconds, where known."""

    @property
    def width(self) -> int | None:
        """Pixels across, where known."""

    @property
    def height(self) -> int | None:
        """Pixels down, where known."""

    @property
    def size(self) -> int:
        """How many bytes."""

    def to_base64(self) -> str:
        """Give the data as base64 text."""

    def to_data_url(self) -> str:
        """Give the data as a ``data:`` URL."""

    def to_bytes(self) -> bytes:
        """Give the data."""

    def to_block(self) -> Self:
        """Give the block that stands in messages: itself."""

@final
class Binary(Data):
    """Any other data; in user messages only. UPP-1.2 §3.

    Args:
        data: The bytes, not base64.
        mime_type: What they are, as ``application/zip``.
        metadata: Facts about them, as JSON.

    Raises:
        TypeError: `data` is not bytes, or `metadata` is not JSON.
    """

    type: ClassVar[Literal["binary"]]
    def __new__(cls, data: bytes | bytearray, mime_type: str, metadata: Mapping[str, _Json] | None = None) -> Self: ...
    @property
    def data(self) -> bytes:
        """The bytes."""

    @property
    def mime_type(self) -> str:
        """The media type, as ``application/zip``."""

    @property
    def metadata(self) -> dict[str, Any] | None:
        """Facts about the data, where given."""

_Block: TypeAlias = Text | Reasoning | Image | Document | Audio | Video | Binary
_Content: TypeAlias = str | Iterable[str | _Block | Mapping[str, _Json]]

class Message(Data):
    """One message of a conversation: a user's, an assistant's, or results of tools. UPP-1.2 §4.

    ``Message.model_validate`` and ``Message.from_json`` give the class that fits.
    """

    @property
    def id(self) -> str:
        """A UUIDv4, or what the vendor gave."""

    @property
    def type(self) -> Literal["user", "assistant", "tool_result"]:
        """Whose message."""

    @property
    def timestamp(self) -> datetime:
        """When it was made, in UTC."""

    @property
    def metadata(self) -> dict[str, dict[str, Any]] | None:
        """Vendor facts by provider name."""

    @property
    def content(self) -> list[_Block | dict[str, Any]]:
        """The blocks; of a kind that this version does not know, a dict. Empty for tool results."""

    @property
    def text(self) -> str:
        """All text blocks joined by a blank line; for tool results each result, as JSON unless it is text."""

    @property
    def images(self) -> list[Image]:
        """The images among its blocks."""

    @property
    def documents(self) -> list[Document]:
        """The documents among its blocks."""

    @property
    def audio(self) -> list[Audio]:
        """The sounds among its blocks."""

    @property
    def video(self) -> list[Video]:
        """The films among its blocks."""

    @property
    def reasoning(self) -> list[Reasoning]:
        """The thoughts among its blocks."""

@final
class UserMessage(Message):
    """What a person or the application says. UPP-1.2 §4.

    Args:
        content: A text, or a list of texts, blocks and dicts.
        id: Default: a new UUIDv4.
        metadata: Vendor facts by provider name.
        timestamp: A ``datetime`` (a naive one counts as UTC) or ISO 8601 text. Default: now.

    Raises:
        TypeError: An argument of the wrong type, named by its place.
        ValidationError: A dict that is no block.
    """

    def __new__(
        cls,
        content: _Content,
        *,
        id: str | None = None,
        metadata: _Metadata | None = None,
        timestamp: datetime | str | None = None,
    ) -> Self: ...

@final
class AssistantMessage(Message):
    """What a model says. UPP-1.2 §4.

    Args:
        content: A text, or a list of texts, blocks and dicts.
        tool_calls: Calls the model wants made.
        id: Default: a new UUIDv4.
        metadata: Vendor facts by provider name.
        timestamp: A ``datetime`` (a naive one counts as UTC) or ISO 8601 text. Default: now.

    Raises:
        TypeError: An argument of the wrong type, named by its place.
        ValidationError: A dict that is no block or no call.
    """

    def __new__(
        cls,
        content: _Content,
        tool_calls: Iterable[ToolCall | Mapping[str, _Json]] | None = None,
        *,
        id: str | None = None,
        metadata: _Metadata | None = None,
        timestamp: datetime | str | None = None,
    ) -> Self: ...
    @property
    def tool_calls(self) -> list[ToolCall] | None:
        """The calls the model wants made, or None."""

    @property
    def has_tool_calls(self) -> bool:
        """Whether the model wants tools called."""

@final
class ToolResultMessage(Message):
    """What tools gave back. UPP-1.2 §4.

    Args:
        results: One result a call.
        id: Default: a new UUIDv4.
        metadata: Vendor facts by provider name.
        timestamp: A ``datetime`` (a naive one counts as UTC) or ISO 8601 text. Default: now.

    Raises:
        TypeError: An argument of the wrong type, named by its place.
        ValidationError: A dict that is no result.
    """

    def __new__(
        cls,
        results: Iterable[ToolResult | Mapping[str, _Json]],
        *,
        id: str | None = None,
        metadata: _Metadata | None = None,
        timestamp: datetime | str | None = None,
    ) -> Self: ...
    @property
    def results(self) -> list[ToolResult]:
        """One result a call, in the order of the calls."""

@final
class ToolCall(Data):
    """A model's wish to call a tool. UPP-1.2 §4.

    Args:
        tool_call_id: The vendor's id of the call; its result carries the same.
        tool_name: The tool.
        arguments: Its arguments, as JSON.
    """

    def __new__(cls, tool_call_id: str, tool_name: str, arguments: Mapping[str, _Json]) -> Self: ...
    @property
    def tool_call_id(self) -> str:
        """The id of the call; its result carries the same."""

    @property
    def tool_name(self) -> str:
        """The tool."""

    @property
    def arguments(self) -> dict[str, Any]:
        """Its arguments; a dict of the caller's own."""

@final
class ToolResult(Data):
    """What a tool gave back. UPP-1.2 §4.

    Args:
        tool_call_id: The call that it answers.
        result: Anything that is JSON.
        is_error: Whether the tool failed; then `result` says why.
    """

    def __new__(cls, tool_call_id: str, result: _Json, is_error: bool = False) -> Self: ...
    @property
    def tool_call_id(self) -> str:
        """The call that it answers."""

    @property
    def result(self) -> Any:
        """What the tool gave back, as JSON data."""

    @property
    def is_error(self) -> bool:
        """Whether the tool failed."""

@final
class ToolExecution(Data):
    """The record of one tool execution. UPP-1.2 §5."""

    @property
    def tool_name(self) -> str:
        """The tool."""

    @property
    def tool_call_id(self) -> str:
        """The call."""

    @property
    def arguments(self) -> dict[str, Any]:
        """What the tool was called with, after any hook changed it."""

    @property
    def result(self) -> Any:
        """What the model was told."""

    @property
    def is_error(self) -> bool:
        """Whether it failed."""

    @property
    def duration(self) -> int:
        """Milliseconds it ran."""

    @property
    def approved(self) -> bool | None:
        """What the approval handler said; None when there was none to ask."""

@final
class CycleUsage(Data):
    """Tokens of one model call. UPP-1.2 §6."""

    @property
    def input_tokens(self) -> int:
        """Tokens the model read."""

    @property
    def output_tokens(self) -> int:
        """Tokens the model wrote."""

    @property
    def cache_read_tokens(self) -> int:
        """Tokens of the input that came from the vendor's cache."""

    @property
    def cache_write_tokens(self) -> int:
        """Tokens that were written to the vendor's cache."""

    @property
    def cost(self) -> float | None:
        """What the call cost, in US dollars; None where that is not certain."""

@final
class TokenUsage(Data):
    """Tokens of a model call, or of all calls of a turn. UPP-1.2 §6.

    Args:
        input_tokens: Tokens the model read.
        output_tokens: Tokens the model wrote.
        total_tokens: Default: the sum of both.
        cache_read_tokens: Tokens of the input that came from the vendor's cache.
        cache_write_tokens: Tokens that were written to the vendor's cache.
    """

    def __new__(
        cls,
        input_tokens: int = 0,
        output_tokens: int = 0,
        total_tokens: int | None = None,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
    ) -> Self: ...
    @property
    def input_tokens(self) -> int:
        """Tokens the model read."""

    @property
    def output_tokens(self) -> int:
        """Tokens the model wrote."""

    @property
    def total_tokens(self) -> int:
        """All tokens, as the vendor counts them."""

    @property
    def cache_read_tokens(self) -> int:
        """Tokens of the input that came from the vendor's cache."""

    @property
    def cache_write_tokens(self) -> int:
        """Tokens that were written to the vendor's cache."""

    @property
    def cache_write_1h_tokens(self) -> int | None:
        """How many of the tokens written to the vendor's cache stay there for an hour; None where it does not say."""

    @property
    def cycles(self) -> list[CycleUsage] | None:
        """One entry a model call, when this is a sum."""

    @property
    def cost(self) -> float | None:
        """What it cost, in US dollars; None unless it is certain, of a sum for every call."""

@final
class Turn(Data):
    """All that one run brought. UPP-1.2 §6."""

    @property
    def messages(self) -> list[Message]:
        """Everything new, in order, starting with the user's message."""

    @property
    def response(self) -> AssistantMessage:
        """The last assistant message."""

    @property
    def tool_executions(self) -> list[ToolExecution]:
        """Records of the tools that ran, in the order they finished."""

    @property
    def usage(self) -> TokenUsage:
        """Tokens over all model calls."""

    @property
    def cycles(self) -> int:
        """How many model calls."""

    @property
    def data(self) -> Any:
        """The structured answer, where one was asked for: as the type that was given, or plain data; else None."""

@final
class StreamEvent(Data):
    """One step of a stream. UPP-1.2 §11.1.

    ===================================================  ==================================================
    `type`                                               `delta`
    ===================================================  ==================================================
    ``text_delta``, ``reasoning_delta``                  ``{"text": str}``
    ``object_delta``                                     ``{"text": str}``: a piece of the answer's JSON
    ``image_delta``, ``audio_delta``, ``video_delta``    ``{"data": bytes}``
    ``tool_call_delta``                                  ``{"toolCallId", "toolName", "argumentsJson"}``
    ``tool_execution_start``                             ``{"toolCallId", "toolName", "timestamp"}``
    ``tool_execution_end``                               the same with ``"result"`` and ``"isError"``
    ``tool_execution_progress``                          the same with ``"progress"``: `ToolContext.report`
    ``message_start``, ``message_stop``                  ``{}``
    ``content_block_start``, ``content_block_stop``      ``{}``
    ===================================================  ==================================================

    Times are milliseconds since 1970. A type that this version does not know comes as it is.

    Args:
        type: What happened.
        index: Which block of the message, or which call of the response, from 0.
        delta: What came, keys as above.

    Raises:
        ValidationError: The delta does not fit the type.
    """

    def __new__(cls, type: str, index: int, delta: dict[str, _Json]) -> Self: ...
    @property
    def type(self) -> str:
        """What happened, as ``text_delta``."""

    @property
    def index(self) -> int:
        """Which block of the message, or which call of the response, from 0."""

    @property
    def delta(self) -> dict[str, Any]:
        """The piece that came, by the specification's names; media as bytes."""

@final
class Thread(Data):
    """An ordered conversation that grows. UPP-1.2 §7.

    Args:
        messages: Messages to begin with; shared, not copied.

    Raises:
        TypeError: Something that is no message, named by its place.
        ValidationError: A dict that is no message.
    """

    def __new__(cls, messages: Thread | Iterable[Message | Mapping[str, _Json]] | None = None) -> Self: ...
    @property
    def id(self) -> str:
        """Its id, a UUIDv4."""

    @property
    def messages(self) -> list[Message]:
        """The messages at this moment, oldest first, in a list of its own."""

    @property
    def created_at(self) -> datetime:
        """When it was made, in UTC."""

    @property
    def updated_at(self) -> datetime:
        """When it last changed, in UTC."""

    def append(self, turn: Turn | Mapping[str, _Json]) -> Thread:
        """Add all messages of a turn; gives the thread.

        Args:
            turn: What a run gave.
        """

    def push(self, *messages: Message | Mapping[str, _Json]) -> Thread:
        """Add messages; gives the thread.

        Args:
            *messages: Messages or their dicts.

        Raises:
            TypeError: Something that is no message; nothing is added then.
        """

    def user(self, content: _Content) -> Thread:
        """Add a user's message; gives the thread.

        Args:
            content: A text, or a list of texts, blocks and dicts.
        """

    def assistant(self, content: _Content) -> Thread:
        """Add a model's message; gives the thread.

        Args:
            content: A text, or a list of texts, blocks and dicts.
        """

    def filter(self, type: Literal["user", "assistant", "tool_result"]) -> list[Message]:
        """Give the messages of one type, in order.

        Args:
            type: Whose messages.

        Raises:
            ValueError: There is no such type.
        """

    def tail(self, n: int) -> list[Message]:
        """Give the last messages, oldest first.

        Args:
            n: How many at most; none for 0.

        Raises:
            OverflowError: Below 0.
        """

    def slice(self, start: int | None = None, end: int | None = None) -> Thread:
        """Give a part as a new thread.

        Args:
            start: Place of the first message. Default: 0. Negative places count from the end.
            end: Place after the last message. Default: the length.
        """

    def clear(self) -> Thread:
        """Take all messages away; gives the thread.

        Raises:
            ValueError: It belongs to a node of a tree, and a branch starts after one of them.
        """

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Message: ...
    def __iter__(self) -> Iterator[Message]: ...

# Models

@disjoint_base
class KeyStrategy:
    """Gives an API key for each request: the base of the strategies, which the package makes. UPP-1.2 §13.1.

    No repr shows a key.
    """

@final
class RoundRobinKeys(KeyStrategy):
    """One key after the other, from the first again after the last. UPP-1.2 §13.1.

    Args:
        keys: The keys in their order.

    Raises:
        ValueError: There are none.
    """

    def __new__(cls, keys: Sequence[str]) -> Self: ...

@final
class WeightedKeys(KeyStrategy):
    """A key drawn at random, as often as its weight says. UPP-1.2 §13.1.

    Args:
        keys: Keys with their weights, as pairs or as dicts of ``key`` and ``weight``; only the ratios matter.

    Raises:
        ValueError: There are none, or a weight is not above 0.
        TypeError: Something else than that.
    """

    def __new__(cls, keys: Sequence[tuple[str, float] | Mapping[str, Any]]) -> Self: ...

@final
class DynamicKey(KeyStrategy):
    """A key from a function that is asked before each request. UPP-1.2 §13.1.

    Args:
        function: Sync or async, without arguments; called on the caller's event loop.

    Raises:
        TypeError: Not callable.
    """

    def __new__(cls, function: Callable[[], str | Awaitable[str]]) -> Self: ...

@disjoint_base
class RetryStrategy:
    """Whether and when a failed request is sent again: the base of the strategies. UPP-1.2 §13.3.

    A ``Retry-After`` of the server is respected up to `ProviderConfig`'s ``retry_after_max``.
    """

@final
class ExponentialBackoff(RetryStrategy):
    """Waits twice as long each time, after failures that may pass. UPP-1.2 §13.3.

    Args:
        max_attempts: Retries after the first attempt: 3 means up to four requests.
        base_delay: The first wait, in seconds.
        max_delay: The longest wait, in seconds.
        jitter: Draw each wait at random from half to one and a half times its length, so that many clients do not
            return at once.

    Raises:
        ValueError: A wait is negative or not finite.
    """

    def __new__(
        cls, *, max_attempts: int = 3, base_delay: float = 1.0, max_delay: float = 30.0, jitter: bool = True
    ) -> Self: ...

@final
class LinearBackoff(RetryStrategy):
    """Waits as much longer each time, after failures that may pass. UPP-1.2 §13.3.

    Args:
        max_attempts: Retries after the first attempt.
        delay: The first wait, and what is added to each further one, in seconds.

    Raises:
        ValueError: The delay is negative or not finite.
    """

    def __new__(cls, *, max_attempts: int = 3, delay: float = 1.0) -> Self: ...

@final
class NoRetry(RetryStrategy):
    """Never sends again. UPP-1.2 §13.3."""

    def __new__(cls) -> Self: ...

@final
class TokenBucket(RetryStrategy):
    """Lets requests through at a rate, and sends again those that were refused for going too fast. UPP-1.2 §13.3.

    One bucket may serve many models and agents: they share its rate then.

    Args:
        max_tokens: Requests that may go at once.
        refill_rate: Requests a second, in the long run.
        max_attempts: Retries after the first attempt.

    Raises:
        ValueError: The rate is not above 0.
    """

    def __new__(cls, *, max_tokens: int = 10, refill_rate: float = 1.0, max_attempts: int = 3) -> Self: ...

@final
class RetryAfterStrategy(RetryStrategy):
    """Sends again what was refused for going too fast, after as long as the server asks for. UPP-1.2 §13.3.

    Args:
        max_attempts: Retries after the first attempt.
        fallback_delay: Seconds to wait when the server names no time.

    Raises:
        ValueError: The delay is negative or not finite.
    """

    def __new__(cls, *, max_attempts: int = 3, fallback_delay: float = 5.0) -> Self: ...

@final
class ProviderConfig:
    """How to reach a provider. UPP-1.2 §9. Times are seconds; what is not given is the provider's default.

    An agent's configuration goes over the one that its model's factory was given. No repr shows a key or the value
    of a header.

    Args:
        base: Another configuration or its dict, that this one goes over; dicts may spell options in camelCase.
        **options: As the keyword options of the providers' factories; see `ConfigOptions`.

    Raises:
        TypeError: An option that is unknown or of the wrong type, named.
        ValueError: A time that is negative, a URL that is none, or certificates that do not parse.
    """

    def __new__(
        cls, base: ProviderConfig | Mapping[str, Any] | None = None, /, **options: Unpack[ConfigOptions]
    ) -> Self: ...

@final
class Replay:
    """Recorded HTTP exchanges in use. Made by `replay`; given to a provider as ``transport``, or entered with ``with``.

    ``with replay(path):`` applies to every request that is made inside, in the tasks that are started inside as well;
    a ``transport`` of a configuration goes before it. Entering begins with the first exchange, leaving saves what was
    recorded.
    """

    @property
    def path(self) -> Path:
        """The file."""

    @property
    def mode(self) -> Literal["replay", "record", "auto"]:
        """What it is used for; ``once`` has become one of the two."""

    @property
    def recorded(self) -> int:
        """Exchanges in the recording."""

    @property
    def played(self) -> int:
        """Answers that were played since the beginning, or since the recording was entered or rewound."""

    @property
    def unused(self) -> list[dict[str, Any]]:
        """The exchanges that were not played, in their order: ``index`` in the file from 0, ``method`` and ``url``."""

    def rewind(self) -> None:
        """Play from the first exchange again."""

    def save(self) -> None:
        """Write what was recorded, after a moment (2 seconds at most) for answers that are still being read.

        Raises:
            OSError: The file cannot be written; what was there stays.
            ValueError: The redaction hook failed.
        """

    def __enter__(self) -> Self: ...
    def __exit__(self, *exception: object) -> None: ...

def replay(
    path: str | PathLike[str],
    mode: Literal["replay", "record", "auto", "once"] = "replay",
    *,
    ignore: Sequence[str] = ...,
    redact: Callable[[dict[str, Any]], Mapping[str, Any]] | None = None,
    repeat: bool = False,
) -> Replay:
    """Record HTTP exchanges in a file, or play them instead of the network.

    Plays at the place of the socket: retries, limits, event streams and errors run as in life. Nothing touches the
    network and no key is needed. A request is answered by the first exchange that was not played and has the same
    method, URL and body; JSON is compared as values. Credentials are never written.

    Args:
        path: The file, as ``docs/replay.md`` describes it.
        mode: ``replay`` plays; ``record`` sends everything and replaces what the file held; ``auto`` plays what is
            recorded, sends and adds what is not; ``once`` records when there is no file, and plays it otherwise.
        ignore: JSON pointers into request bodies that are not compared, as ``/metadata/run``; ``*`` is any one key.
        redact: Takes out what only you know to be secret: called with an exchange as the file holds it, returns it
            changed. Called more than once, also with ``request`` alone. With it, nothing is written before the end of
            ``with``, or `Replay.save`.
        repeat: Play the last exchange that matches again, when all of them have been played.

    Raises:
        FileNotFoundError: There is nothing to play.
        OSError: The file cannot be read.
        ValueError: The file is no recording, is cut short, or is of a newer version; a pointer is none; no such mode.
    """

@final
class ModelReference:
    """A model that an agent can be given. UPP-1.2 §9.

    Made by a provider's factory, as ``anthropic("claude-sonnet-4-5")``, or by `scripted`. Equal only to itself.

    Args:
        provider: The name of the factory.
        model_id: The vendor's name of the model.
        options: The factory's own options.
        config: How to reach the provider.

    Raises:
        ValueError: No such provider, or no model.
    """

    def __new__(
        cls, provider: str, model_id: str, options: dict[str, Any], config: ProviderConfig | Mapping[str, Any] | None
    ) -> Self: ...
    @property
    def model_id(self) -> str:
        """The vendor's name of the model."""

    @property
    def provider(self) -> str:
        """Whose model, as ``openai``."""

    @property
    def modalities(self) -> tuple[Literal["llm", "embedding", "image"], ...]:
        """What its provider serves: of ``llm``, ``embedding`` and ``image``."""

    @property
    def capabilities(self) -> dict[str, bool]:
        """What it can take and do.

        Keys: ``streaming``, ``tools``, ``structured_output``, ``image_input``, ``document_input``, ``video_input``
        and ``audio_input``.
        """

    @property
    def requests(self) -> list[ModelRequest]:
        """What a script was asked so far, in order; empty for other models."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class ModelRequest:
    """What a model is asked: given to the function of `scripted`, and recorded in ``ModelReference.requests``."""

    @property
    def messages(self) -> list[Message]:
        """The conversation, oldest first."""

    @property
    def system(self) -> str | list[dict[str, Any]] | None:
        """The system prompt: a text, or a list of blocks."""

    @property
    def params(self) -> dict[str, Any]:
        """The model's own parameters."""

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools as dicts with ``name``, ``description``, ``parameters`` and, where given, ``metadata``."""

    @property
    def structure(self) -> dict[str, Any] | None:
        """JSON Schema of the structured answer, where one is wanted."""

@final
class EventSink:
    """Where a stream of `create_provider` puts its events."""

    def push(self, event: StreamEvent | Mapping[str, Any]) -> bool:
        """Put an event; tell whether there is room for another.

        Raises:
            RuntimeError: Nobody reads the stream any more.
        """

    def wait(self) -> None:
        """Wait on this thread until there is room again.

        Raises:
            RuntimeError: Nobody reads the stream any more.
        """

    def when_room(self, function: Callable[[], object]) -> None:
        """Have a function called once, when there is room again or nobody reads any more; at once where there is."""

def custom_model(
    provider: str,
    model_id: str,
    capabilities: dict[str, Any],
    generate: Callable[[ModelRequest], Any] | None,
    stream: Callable[[ModelRequest, EventSink], Any] | None,
    media: dict[str, Any],
) -> ModelReference:
    """Refer to a model of a provider that is written in Python; `create_provider` does.

    Args:
        provider: Its name.
        model_id: The name of the model.
        capabilities: As `ModelReference.capabilities`.
        generate: Gives ``(items, usage, stop_reason, data, metadata, id)``.
        stream: Puts events into the sink and gives the same; items may be None.
        media: What makes vectors and pictures: ``embed(inputs, params, input_type)`` with its ``batch_size``, ``draw``
            and ``edit``, each ``(prompt, params, image, mask)``.
    """

def price_rows() -> list[Price]:
    """Give the prices that calls use; the first that fits counts."""

def set_price_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """Put rows before those of the package, in place of what was put there before.

    Raises:
        ValueError: A row of another shape.
    """

def tokens_cost(
    usage: TokenUsage | Mapping[str, Any], provider: str, model: str, rows: Sequence[Mapping[str, Any]]
) -> float | None:
    """Tell what tokens cost by these rows and then those that calls use; None where it is not certain."""

_Piece: TypeAlias = str | _Block | ToolCall | Mapping[str, _Json]
_Says: TypeAlias = _Piece | BaseException | Sequence[_Piece | StreamEvent | BaseException]

@final
class Reply:
    """One reply of a script, with its timing.

    Args:
        says: A text, a block, a `ToolCall`, a list of them, an exception that the call fails with, or a list of
            `StreamEvent` that may end in an exception.
        delay: Seconds before the answer begins.
        pace: Seconds before each further event of a stream.

    Raises:
        ValueError: A time is negative or not finite.
    """

    def __new__(cls, says: _Says, *, delay: float = 0.0, pace: float = 0.0) -> Self: ...
    @property
    def delay(self) -> float:
        """Seconds before the answer begins."""

    @property
    def pace(self) -> float:
        """Seconds before each further event of a stream."""

    @property
    def says(self) -> Any:
        """What is answered, as it was given."""

def scripted(
    replies: Iterable[_Says | Reply] | Callable[[ModelRequest], _Says | Reply | Awaitable[_Says | Reply]],
    *,
    model_id: str = "scripted",
) -> ModelReference:
    """Make a model that answers from a script: no network, no chance.

    A reply is a text, a block, a `ToolCall` (or its dict; its id may be missing), a list of them, an exception, or a
    list of `StreamEvent`. `Reply` adds timing. What was asked is recorded in ``requests``.

    Args:
        replies: The replies in their order, or a function (sync or async) from a request to its reply.
        model_id: The name that the model gives itself.

    Raises:
        TypeError: Neither a list nor a function, or a reply that is none of these.
    """

# Agents

@final
class ToolContext:
    """What a tool may know of its call. UAP-1.0 §8.4.

    A tool's parameter that is annotated ``ToolContext`` receives it and is no part of the tool's schema. Given by
    the run, not made by hand.
    """

    @property
    def agent_id(self) -> str:
        """The agent that runs, a UUIDv4."""

    @property
    def turn_id(self) -> str:
        """This run of it, a UUIDv4."""

    @property
    def parent_agent_id(self) -> str | None:
        """The agent whose tool this agent is, where it is one."""

    @property
    def parent_turn_id(self) -> str | None:
        """The run whose tool this run is, where it is one."""

    @property
    def tool_call_id(self) -> str:
        """The call, as the vendor names it."""

    @property
    def session_id(self) -> str | None:
        """The session, where there is one."""

    @property
    def depth(self) -> int:
        """How many runs the run is inside of: 0 where no agent has started it."""

    def report(self, progress: _Json) -> None:
        """Tell whoever listens to the run how far the tool is.

        A stream gives an event ``tool_execution_progress`` between the start and the end of the call: its `delta` has
        ``toolCallId``, ``toolName``, ``progress`` and ``timestamp``. Without a listener, and after the call, nothing
        happens. May be called from any thread.

        Args:
            progress: JSON data, as ``{"done": 3, "of": 10}``.

        Raises:
            TypeError: It is not JSON data; named by its place.
        """

    @property
    def cancelled(self) -> bool:
        """Whether the run was aborted: work that goes on in a thread should stop."""

    @property
    def metadata(self) -> dict[str, Any]:
        """What the application keeps with the run: a dict that hooks see as ``state.metadata``; may be changed."""

@final
class ExecutionState(Data):
    """What hooks and stop conditions see of a run, as it was when they were called. UAP-1.0 §5.1 and §13.4."""

    @property
    def step(self) -> int:
        """The step that runs, from 1."""

    @property
    def messages(self) -> list[Message]:
        """The input, then everything new, in order."""

    @property
    def metadata(self) -> dict[str, Any]:
        """What the application keeps with the run, JSON data.

        Given to a hook it is the run's own dict: what hooks and tools put into it is there in all later steps, in
        checkpoints, and when the run is taken up again. A run starts with an empty one.
        """

    @property
    def reasoning(self) -> list[str] | None:
        """What the model thought, one text a step; None where the strategy does not have it think."""

    @property
    def plan(self) -> list[PlanStep] | None:
        """The steps of the plan; None where the strategy makes none."""

@final
class PlanStep(Data):
    """A step of a plan. UAP-1.0 §13.4.

    Args:
        id: Unique in its plan.
        description: What is to be done.
        tool: The tool to do it with, where the plan names one.
        depends_on: Ids of the steps that have to be done before.
        status: How far it is.

    Raises:
        ValueError: Another status.
    """

    def __new__(
        cls,
        id: str,
        description: str,
        tool: str | None = None,
        depends_on: list[str] = ...,
        status: Literal["pending", "in_progress", "completed", "failed"] = "pending",
    ) -> Self: ...
    @property
    def id(self) -> str:
        """Unique in its plan."""

    @property
    def description(self) -> str:
        """What is to be done."""

    @property
    def tool(self) -> str | None:
        """The tool to do it with, where the plan names one."""

    @property
    def depends_on(self) -> list[str]:
        """Ids of the steps that have to be done before."""

    @property
    def status(self) -> Literal["pending", "in_progress", "completed", "failed"]:
        """How far it is."""

@final
class Checkpoint(Data):
    """A point of a run that a session can go back to. Made by sessions. UAP-1.0 §6.4 and §13.3."""

    @property
    def id(self) -> str:
        """A UUIDv4, or what the document said that the session was read from."""

    @property
    def session_id(self) -> str:
        """The session."""

    @property
    def timestamp(self) -> datetime:
        """When it was made, in UTC."""

    @property
    def step(self) -> int:
        """The step of the run, from 1; each run counts anew."""

    @property
    def thread_id(self) -> str:
        """The node of the tree that was current."""

    @property
    def state(self) -> ExecutionState:
        """The state of the run."""

    @property
    def sub_agent_states(self) -> dict[str, dict[str, Any]]:
        """Sessions of the run's sub-agents as plain data, by the ids of tool calls; ``Session.from_json`` reads one."""

    @property
    def metadata(self) -> dict[str, Any]:
        """Facts about it, in a dict of its own."""

@final
class UapEvent:
    """An event of the agent. UAP-1.0 §12.2.

    ==================  ============================================================================
    `type`              `data`
    ==================  ============================================================================
    ``step_start``      ``{"stepNumber"}``, and ``"stepId"`` where the step has one; ``"planStepId"`` in `plan`
    ``step_end``        ``{"stepNumber", "usage"}``, and the ids; the usage is of this step alone
    ``reasoning``       ``{"text"}``
    ``action``          ``{"toolCalls"}``: calls as dicts
    ``observation``     ``{"results"}``: results as dicts, in the order of the calls
    ``checkpoint``      ``{"checkpointId"}``
    ==================  ============================================================================
    """

    @property
    def type(self) -> Literal["step_start", "step_end", "reasoning", "action", "observation", "checkpoint"]:
        """What happened, as ``step_start``."""

    @property
    def step(self) -> int:
        """The step, from 1."""

    @property
    def agent_id(self) -> str:
        """The agent, a UUIDv4."""

    @property
    def data(self) -> dict[str, Any]:
        """The event's data, keys as the specification spells them."""

    def __eq__(self, other: object, /) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]  # pyright: ignore[reportIncompatibleMethodOverride]

@final
class AgentStreamEvent:
    """One event of a streamed run: of the agent, or of the model or a tool. UAP-1.0 §12.2.

    Exactly one of `uap` and `upp` is there::

        if event.upp and event.upp.type == "text_delta":
            print(event.upp.delta["text"], end="")
    """

    @property
    def source(self) -> Literal["uap", "upp"]:
        """Whose event: "uap" of the agent, "upp" of the model or a tool."""

    @property
    def uap(self) -> UapEvent | None:
        """The agent's event, or None."""

    @property
    def upp(self) -> StreamEvent | None:
        """The model's or the tool's event, or None."""

    @property
    def sub_agent(self) -> SubAgentRun | None:
        """Whose event it is where that is an agent that runs as a tool; only with ``sub_agent_events=True``."""

    def __eq__(self, other: object, /) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]  # pyright: ignore[reportIncompatibleMethodOverride]

@final
class SubAgentRun:
    """One run of an agent as the tool of another one. UAP-1.0 §8.4. Given by events, not made by hand."""

    @property
    def agent_id(self) -> str:
        """The agent, a UUIDv4."""

    @property
    def turn_id(self) -> str:
        """This run of it, a UUIDv4."""

    @property
    def parent_agent_id(self) -> str | None:
        """The agent whose tool it is; None in a call of a bare model."""

    @property
    def parent_turn_id(self) -> str | None:
        """The run whose tool it is; None in a call of a bare model."""

    @property
    def tool_name(self) -> str:
        """What the tool is called."""

    @property
    def tool_call_id(self) -> str:
        """The call, as the vendor names it."""

    @property
    def depth(self) -> int:
        """How many runs it is inside of, from 1."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

_History: TypeAlias = Thread | Iterable[Message | Mapping[str, _Json]]
_Input: TypeAlias = str | Message | _Block | Mapping[str, _Json] | list[Any]

@final
class AgentCore:
    """The native half of ``turntree.Agent``. One serves any number of runs at once."""

    def __new__(
        cls,
        *,
        model: ModelReference | None,
        params: Mapping[str, Any] | None,
        config: ProviderConfig | Mapping[str, Any] | None,
        execution: dict[str, Any],
        execute: Callable[..., Any] | None,
        max_iterations: int | None,
        tools: list[Tool[..., Any] | NativeTool],
        system: str | Sequence[Mapping[str, Any]] | None,
        structure: Any,
        structure_repair: bool,
        answer: AnswerType | None,
        middleware: Iterable[object],
        hooks: dict[str, Callable[..., Any] | None],
        id: str | None,
        name: str | None,
        max_sub_agent_depth: int | None,
    ) -> Self: ...
    @property
    def id(self) -> str:
        """The agent's id, a UUIDv4."""

    def tool_definition(
        self, name: str | None, description: str | None, parameter_schema: Mapping[str, Any] | None
    ) -> tuple[str, str, dict[str, Any]]:
        """Give name, description and parameters of the tool that the agent is.

        Raises:
            TypeError: The schema is not a dict.
        """

    @staticmethod
    def task_of(arguments: dict[str, Any]) -> str:
        """Give the task that arguments name."""

    @staticmethod
    def result_of(turn: Turn) -> Any:
        """Give what the tool answers for a turn."""
    def belong_to(self, owner: Callable[[], Agent]) -> None:
        """Say who gives the agent of Python, which middleware sees."""

    def run(self, history: _History | None, input: _Input) -> Coroutine[Turn]:
        """Start a run on the caller's event loop; the coroutine gives its turn.

        Raises:
            UPPError: Something is asked of the model that it cannot do; raised at once.
            TypeError: An argument of the wrong type, named.
        """

    def run_sync(self, history: _History | None, input: _Input) -> Turn:
        """Run on this thread, without an event loop.

        Raises:
            UPPError: As `run`, or the model call failed.
        """

    def stream(
        self, history: _History | None, input: _Input, on_loop: bool, sub_agent_events: bool
    ) -> AgentStreamCore[AgentStreamEvent]:
        """Start a run that is listened to.

        Args:
            history: What was said before.
            input: What is said now.
            on_loop: Whether tools run on the caller's event loop; else on a loop in a thread of its own.
            sub_agent_events: Whether the events of agents that run as tools are given too.

        Raises:
            UPPError: As `run`.
        """

@final
class StrategyContext:
    """The native half of ``turntree.execution.ExecutionContext``; serves one run.

    Raises:
        RuntimeError: The run is over; from everything but `metadata` and `ended`.
    """

    @property
    def history(self) -> list[Message]:
        """What was said before, in a list of its own."""

    @property
    def input(self) -> list[Message]:
        """What is to be answered."""

    @property
    def metadata(self) -> dict[str, Any]:
        """The run's own dict."""

    @property
    def listened(self) -> bool:
        """Whether somebody listens to the run."""

    @property
    def ended(self) -> bool:
        """Whether the run is over, by its end or by an abort."""

    def llm(self) -> LlmCore:
        """The agent's model with the agent's tools, and without its hooks of steps."""

    def run(self, execution: dict[str, Any], history: _History | None, input: _Input | None) -> Coroutine[Turn]:
        """Run one of our strategies as a part of this run; the coroutine gives its turn."""

    def pass_on(self, event: AgentStreamEvent | StreamEvent) -> Coroutine[None]:
        """Tell an event of a stream to whoever listens."""

    def emit(self, kind: str, step: int, data: Any) -> Coroutine[None]:
        """Tell an event of this run to whoever listens.

        Raises:
            ValueError: Data that the event does not have.
        """

@final
class SessionCore:
    """The native half of ``turntree.Session``."""

    def __new__(
        cls,
        agent: AgentCore,
        metadata: dict[str, Any],
        store: PersistenceAdapter,
        saves: str | None,
        id: str | None,
        interval: str,
    ) -> Self: ...
    @staticmethod
    def from_json(
        data: str | bytes | Mapping[str, Any],
        agent: AgentCore,
        store: PersistenceAdapter,
        saves: str | None,
        strict: bool,
    ) -> SessionCore:
        """Make a session from its JSON.

        Raises:
            ValidationError: Not JSON, over a limit, of another version, or of another shape; with the place.
        """

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def agent_id(self) -> str:
        """The id of the agent that it was made with."""

    @property
    def tree(self) -> ThreadTree:
        """The conversation."""

    @property
    def metadata(self) -> dict[str, Any]:
        """The application's facts: the dict itself."""

    @property
    def created_at(self) -> datetime:
        """When it was made, in UTC."""

    @property
    def updated_at(self) -> datetime:
        """When it last changed, in UTC."""

    @property
    def checkpoints(self) -> list[Checkpoint]:
        """All checkpoints, oldest first."""

    @property
    def current_checkpoint(self) -> Checkpoint | None:
        """The latest checkpoint, or the one that was restored."""

    @property
    def state(self) -> ExecutionState | None:
        """The state of the run that is not finished; None where there is none."""

    @property
    def sub_agent_states(self) -> dict[str, dict[str, Any]]:
        """Sessions of the sub-agents of the run that is under way or not finished, as plain data by tool calls."""

    @property
    def restored(self) -> list[Message]:
        """Messages that were restored and are not in the tree: the next run sees them after the history."""

    @property
    def pending(self) -> list[ToolCall]:
        """The calls that wait for a decision, in their order."""

    def approve(self, call_id: str, arguments: Mapping[str, Any] | None) -> None:
        """Let a pending call run, with other arguments where some are given."""

    def deny(self, call_id: str, reason: str | None) -> None:
        """Refuse a pending call."""

    def discard(self) -> bool:
        """Give up the run that is not finished; whether there was one."""

    def ticket(self) -> int:
        """Give a number for one run."""

    def is_running(self, ticket: int) -> bool:
        """Whether the run with this ticket is under way."""

    def run(self, input: _Input, ticket: int, inside: bool) -> Coroutine[Turn]:
        """Start a run on the caller's event loop; the coroutine gives its turn.

        Args:
            input: What is said.
            ticket: From `ticket`.
            inside: Whether it is asked for from inside a run of this session, which is refused.
        """

    def run_sync(self, input: _Input, ticket: int, inside: bool) -> Turn:
        """Run on this thread, without an event loop."""

    def stream(
        self, input: _Input, ticket: int, inside: bool, on_loop: bool, sub_agent_events: bool
    ) -> AgentStreamCore[AgentStreamEvent]:
        """Start a run that is listened to."""

    def resume(self, ticket: int, inside: bool) -> Coroutine[Turn]:
        """Go on with the run that is not finished; the coroutine gives its turn."""

    def resume_sync(self, ticket: int, inside: bool) -> Turn:
        """As `resume`, on this thread."""

    def resume_stream(self, ticket: int, inside: bool, on_loop: bool) -> AgentStreamCore[AgentStreamEvent]:
        """As `resume`, listened to."""

    def restore(self, checkpoint_id: str) -> Coroutine[None]:
        """Go back to a checkpoint."""

    def fork(self, node_id: str) -> str:
        """Start a branch at a node, without moving to it; gives the new node's id."""

    def plant(self, thread: Thread, metadata: Mapping[str, _Json]) -> str:
        """Keep a thread under the root, apart from its history; gives the new node's id."""

    def save(self) -> Coroutine[None]:
        """Save the session."""

    def to_json(self) -> str:
        """Give its JSON."""

@final
class LlmCore:
    """The native half of ``turntree.upp.LLM``. One serves any number of calls at once."""

    def __new__(
        cls,
        *,
        model: ModelReference,
        params: Mapping[str, Any] | None,
        config: ProviderConfig | Mapping[str, Any] | None,
        max_iterations: int | None,
        tools: list[Tool[..., Any]],
        system: str | Sequence[Mapping[str, Any]] | None,
        structure: Any,
        structure_repair: bool,
        answer: AnswerType | None,
        hooks: dict[str, Callable[..., Any] | None],
        middleware: MiddlewareChain,
    ) -> Self: ...
    def generate(self, arguments: tuple[Any, ...]) -> Coroutine[Turn]:
        """Start a call on the caller's event loop; the coroutine gives its turn.

        Raises:
            UPPError: Something is asked of the model that it cannot do, or an argument is no input; raised at once.
        """

    def generate_sync(self, arguments: tuple[Any, ...]) -> Turn:
        """Call on this thread, without an event loop.

        Raises:
            UPPError: As `generate`, or the model call failed.
        """

    def stream(self, arguments: tuple[Any, ...], on_loop: bool) -> AgentStreamCore[StreamEvent]:
        """Start a call that is listened to.

        Args:
            arguments: The history, if any, and the inputs.
            on_loop: Whether tools run on the caller's event loop; else on a loop in a thread of its own.

        Raises:
            UPPError: As `generate`, and for a model that cannot stream.
        """

@final
class AgentStreamCore(Generic[_T_co]):
    """The native half of ``turntree.AgentStream`` and of ``turntree.upp.StreamResult``."""

    @property
    def events(self) -> EventStream[_T_co]:
        """The asynchronous iterator over events; always the same one."""

    def blocking(self) -> BlockingEvents[_T_co]:
        """Give the synchronous iterator over the same events."""

    @property
    def partial(self) -> Any:
        """The structured answer so far as plain data, by the events that were read; None before there is anything."""

    def turn(self) -> Coroutine[Turn]:
        """Give a coroutine that waits for the turn. The run goes on while it is awaited."""

    def turn_sync(self) -> Turn:
        """Wait for the turn on this thread."""

    def abort(self) -> None:
        """Stop the run; the turn is what there is."""

    def leave(self) -> None:
        """Stop a run that is not over, at once: its connection is given up though nobody waits for the run."""

_Inputs: TypeAlias = str | Text | Image | Mapping[str, Any] | Iterable[str | Text | Image | Mapping[str, Any]]
_Prompt: TypeAlias = str | Mapping[str, Any]
_Picture: TypeAlias = Image | Mapping[str, Any]
_InputType: TypeAlias = Literal["document", "query"]
_EventT = TypeVar("_EventT")
_ResultT = TypeVar("_ResultT")

@final
class Embedding(Data):
    """The vector of one input. UPP-1.2 §15."""

    @property
    def vector(self) -> list[float]:
        """The numbers, a list of the caller's own; `buffer` gives them without a float object each."""

    @property
    def buffer(self) -> memoryview:
        """The numbers in memory, read-only, as ``numpy.asarray`` takes it without copying.

        32-bit floats (format ``f``), or 64-bit ones (``d``) where the vendor sent decimals.
        """

    @property
    def dimensions(self) -> int:
        """How many numbers."""

    @property
    def index(self) -> int:
        """Which of the inputs, from 0."""

    @property
    def tokens(self) -> int | None:
        """Tokens of the input, where the vendor says."""

    @property
    def metadata(self) -> dict[str, Any] | None:
        """What else the vendor says of it, under the provider's name; None where it says nothing."""

@final
class EmbeddingUsage(Data):
    """What embedding cost. UPP-1.2 §15."""

    @property
    def total_tokens(self) -> int:
        """Tokens of all inputs; 0 where the vendor does not say."""

@final
class EmbeddingResult(Data):
    """The vectors of all inputs. UPP-1.2 §15."""

    @property
    def embeddings(self) -> list[Embedding]:
        """One an input, in the order of the inputs."""

    @property
    def usage(self) -> EmbeddingUsage:
        """What they cost."""

    @property
    def metadata(self) -> dict[str, Any] | None:
        """What else the vendor says, under the provider's name; None where it says nothing.

        Of several calls: a fact on which all agree as it is, any other as the list of what each says.
        """

    @property
    def buffer(self) -> memoryview:
        """All numbers in memory, read-only: two-dimensional, one row an input, as ``numpy.asarray`` takes it.

        Raises:
            ValueError: There are no vectors, or they differ in length.
        """

@final
class EmbeddingProgress(Data):
    """One batch of a chunked call is done. UPP-1.2 §15."""

    @property
    def embeddings(self) -> list[Embedding]:
        """Its vectors; their `index` counts over all inputs."""

    @property
    def completed(self) -> int:
        """Inputs done so far."""

    @property
    def total(self) -> int:
        """All inputs."""

    @property
    def percent(self) -> float:
        """Done so far, from 0 to 100."""

@final
class EmbedderCore:
    """The native half of ``turntree.upp.Embedder``."""

    def __new__(
        cls,
        *,
        model: ModelReference,
        params: Mapping[str, Any] | None,
        config: ProviderConfig | Mapping[str, Any] | None,
        middleware: MiddlewareChain,
    ) -> Self: ...
    def embed(
        self, inputs: _Inputs, batch_size: int | None, concurrency: int, input_type: _InputType | None
    ) -> Coroutine[EmbeddingResult]:
        """Start a call; the coroutine gives its result."""

    def embed_sync(
        self, inputs: _Inputs, batch_size: int | None, concurrency: int, input_type: _InputType | None
    ) -> EmbeddingResult:
        """As `embed`, waited for on this thread."""

    def stream(
        self, inputs: _Inputs, batch_size: int | None, concurrency: int, input_type: _InputType | None
    ) -> ResultStreamCore[EmbeddingProgress, EmbeddingResult]:
        """Start a call that is listened to."""

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

@final
class ImageMakerCore:
    """The native half of ``turntree.upp.ImageMaker``."""

    def __new__(
        cls,
        *,
        model: ModelReference,
        params: Mapping[str, Any] | None,
        config: ProviderConfig | Mapping[str, Any] | None,
        middleware: MiddlewareChain,
    ) -> Self: ...
    @property
    def capabilities(self) -> dict[str, Any]:
        """What the model can do, by name."""

    def draw(self, prompt: _Prompt, image: _Picture | None, mask: _Picture | None) -> Coroutine[ImageResult]:
        """Start a call; the coroutine gives its result. With `image` it is an edit."""

    def draw_sync(self, prompt: _Prompt, image: _Picture | None, mask: _Picture | None) -> ImageResult:
        """As `draw`, waited for on this thread."""

    def stream(self, prompt: _Prompt) -> ResultStreamCore[ImageEvent, ImageResult]:
        """Start a call that is listened to."""

@final
class ResultStreamCore(Generic[_EventT, _ResultT]):
    """The native half of streams with a result."""

    @property
    def events(self) -> EventStream[_EventT]:
        """The asynchronous iterator over events; always the same one."""

    def blocking(self) -> BlockingEvents[_EventT]:
        """Give the synchronous iterator over the same events."""

    def result(self) -> Coroutine[_ResultT]:
        """Give a coroutine that waits for the result. The work goes on while it is awaited."""

    def result_sync(self) -> _ResultT:
        """Wait for the result on this thread."""

    def abort(self) -> None:
        """Stop the work: it ends with CANCELLED."""

# Middleware of agents

_Rule: TypeAlias = tuple[str, Callable[[str], Any] | None, Any]

@final
class AgentMiddleware:
    """A middleware of agents that comes with turntree: what `logging`, `guardrails`, `memory` and `budget` give."""

    @staticmethod
    def logging(
        *,
        level: str,
        logger: Callable[[str, str, BaseException | None], object],
        include_messages: bool,
        include_timing: bool,
    ) -> AgentMiddleware:
        """Log runs to a function of level, message and exception.

        Raises:
            ValueError: An unknown level.
        """

    @staticmethod
    def guardrails(*, name: str, input: list[_Rule], output: list[_Rule], hold: bool) -> AgentMiddleware:
        """Hold inputs and outputs to rules: each a name, and a function of a text or None and a JSON Schema.

        Raises:
            ValueError: A schema that breaks the rules of JSON Schema.
        """

    @staticmethod
    def memory(
        *,
        name: str,
        max_tokens: int | None,
        max_turns: int | None,
        counter: Callable[[str], int] | None,
        summarize: Callable[[str], Any] | None,
        summary_tokens: int,
        summary_input_tokens: int,
        sends_overflow: bool,
    ) -> AgentMiddleware:
        """Keep what is sent within a window."""

    @staticmethod
    def budget(
        *,
        name: str,
        tokens: int | None,
        cost: float | None,
        steps: int | None,
        seconds: float | None,
        by_session: bool,
        ignore_unpriced: bool,
    ) -> AgentMiddleware:
        """Stop runs that have spent too much."""

    @property
    def name(self) -> str:
        """Its name."""

@final
class MiddlewareContext:
    """One run of an agent, as its middleware sees it. All hooks of a run get the same object. UAP-1.0 §10.1."""

    @property
    def agent(self) -> Agent:
        """The agent that runs."""

    @property
    def input(self) -> Message:
        """What the agent is asked: a message. `before` may set it, to whatever `Agent.run` takes."""

    @input.setter
    def input(self, value: _Input) -> None: ...
    @property
    def history(self) -> list[Message]:
        """What was said before, a list. `before` may change it or set another; what is stored stays as it is."""

    @history.setter
    def history(self, value: _History) -> None: ...
    @property
    def metadata(self) -> dict[str, Any]:
        """What middlewares keep with the run: a dict of anything, which all of them share. It is not saved."""

    @property
    def session(self) -> Session | None:
        """The session, when the agent runs in one."""

    def replace(self, *, input: _Input | None = None, history: _History | None = None) -> MiddlewareContext:
        """Give another context of the same run, for `before` to return: with another input, another history, or both.

        Raises:
            TypeError: An input that `Agent.run` does not take.
        """

# Middleware

@final
class Middleware:
    """A middleware that comes with turntree: what `logging`, `parsed_object`, `persistence` and `pubsub` give."""

    @staticmethod
    def logging(
        *,
        level: str,
        logger: Callable[[str, str, dict[str, Any]], object],
        prefix: str,
        log_stream_events: bool,
        log_tool_calls: bool,
        log_contents: bool,
    ) -> Middleware:
        """Log calls to a function of level, message and data.

        Raises:
            ValueError: An unknown level.
        """

    @staticmethod
    def parsed_object(*, parse_objects: bool, parse_tool_calls: bool) -> Middleware:
        """Add what the JSON of a stream says so far."""

    @staticmethod
    def persistence(adapter: object) -> Middleware:
        """Keep a conversation in a store.

        Raises:
            TypeError: The adapter lacks id, load or save.
        """

    @staticmethod
    def pubsub(adapter: MemoryPubsub, stream_id: str | None) -> Middleware:
        """Publish streams."""

@final
class MiddlewareChain:
    """The middlewares of a model, in order.

    Raises:
        TypeError: An object without any hook, or a hook that is no function.
    """

    def __new__(cls, middleware: Iterable[object]) -> Self: ...
    def __len__(self) -> int: ...

@final
class CallContext:
    """One call of a model, as its middleware sees it. All hooks of a call get the same object. UPP-1.2 §17."""

    @property
    def modality(self) -> str:
        """What kind of model: ``llm``, ``embedding`` or ``image``."""

    @property
    def model_id(self) -> str:
        """The vendor's name of the model."""

    @property
    def provider(self) -> str:
        """Whose model."""

    @property
    def streaming(self) -> bool:
        """Whether somebody listens to a stream."""

    @property
    def request(self) -> CallRequest:
        """What is asked. Changes made in ``on_start`` and ``on_request`` take effect."""

    @property
    def response(self) -> CallResponse | EmbeddingResult | ImageResult | None:
        """The last answer, once there is one: a `CallResponse` of a language model, else the result of the call."""

    @property
    def stop_reason(self) -> str | None:
        """Why a language model stopped last, as ``end_turn``; None before it has."""

    @property
    def state(self) -> CallState:
        """What middlewares keep with the call."""

    @property
    def start_time(self) -> datetime:
        """When the call began."""

    @property
    def end_time(self) -> datetime | None:
        """When the call was over; None while it is not."""

@final
class CallRequest:
    """What a model is about to be asked.

    In ``on_start`` and ``on_request`` its members may be set, and their lists and dicts be changed in place: both take
    effect when the hook is over. Language models have `messages`, `system`, `tools` and `structure`, models that make
    vectors `inputs` and `input_type`, those that make pictures `prompt`; all have `params`. Another model's member
    raises `TypeError`.
    """

    @property
    def messages(self) -> list[Message]:
        """The conversation, oldest first. Where the turn starts is found by the ids of its messages."""

    @messages.setter
    def messages(self, value: _History) -> None: ...
    @property
    def system(self) -> str | list[dict[str, Any]] | None:
        """The system prompt: a text or a list of blocks."""

    @system.setter
    def system(self, value: str | Sequence[Mapping[str, Any]] | None) -> None: ...
    @property
    def params(self) -> dict[str, Any]:
        """The model's own parameters."""

    @params.setter
    def params(self, value: Mapping[str, Any]) -> None: ...
    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools that are offered. Tools may be left out, put in another order or described anew.

        A tool that the model was not made with can be offered, but not be called.
        """

    @tools.setter
    def tools(self, value: Iterable[Tool[..., Any] | Mapping[str, Any]]) -> None: ...
    @property
    def structure(self) -> dict[str, Any] | None:
        """JSON Schema of the structured answer, where one is wanted."""

    @structure.setter
    def structure(self, value: Mapping[str, Any] | None) -> None: ...
    @property
    def inputs(self) -> list[str | Image]:
        """What vectors are wanted of: all inputs of the call, before they are cut into batches."""

    @inputs.setter
    def inputs(self, value: _Inputs) -> None: ...
    @property
    def input_type(self) -> _InputType | None:
        """What the vectors are for."""

    @input_type.setter
    def input_type(self, value: _InputType | None) -> None: ...
    @property
    def prompt(self) -> str:
        """What to draw, or what to change of a picture."""

    @prompt.setter
    def prompt(self, value: _Prompt) -> None: ...

@final
class CallResponse:
    """What a language model answered last."""

    @property
    def message(self) -> AssistantMessage:
        """The model's message."""

    @property
    def usage(self) -> TokenUsage:
        """Tokens of this answer."""

    @property
    def stop_reason(self) -> str:
        """Why the model stopped, as ``end_turn``."""

    @property
    def data(self) -> Any:
        """The structured answer, where one was asked for and came; else None."""

@final
class CallState:
    """What middlewares keep with a call: a mapping from names to anything; hooks and stream of the call share it."""

    def __getitem__(self, key: str, /) -> Any: ...
    def __setitem__(self, key: str, value: Any, /) -> None: ...
    def __delitem__(self, key: str, /) -> None: ...
    def __contains__(self, key: str, /) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def get(self, name: str, default: Any = None) -> Any:
        """Give the value under a name, or `default`."""

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Give the value under a name; `default`, which is put there, when there is none."""

    def pop(self, name: str, default: Any = None) -> Any:
        """Take a value away and give it, or `default`."""

    def keys(self) -> list[str]:
        """Give the names, sorted."""

@final
class MemoryPubsub:
    """Streams of this process, kept in memory: each event once, however many subscribe.

    Args:
        max_streams: How many streams are kept; 0 keeps none after its end.
    """

    def __new__(cls, *, max_streams: int = 1000) -> Self: ...
    @property
    def max_streams(self) -> int:
        """How many streams are kept at most; those that run are not let go."""

    def exists(self, stream_id: str) -> bool:
        """Whether a stream of this name has begun and is still kept."""

    def remove(self, stream_id: str) -> bool:
        """Let go of a stream that is over; tell whether there was one."""

    def __len__(self) -> int: ...
    def _subscribe(self, stream_id: str) -> SubscriptionCore:
        """Begin to read a stream."""

@final
class SubscriptionCore:
    """The native half of ``turntree.upp.middleware.Subscription``."""

    @property
    def events(self) -> EventStream[StreamEvent]:
        """The asynchronous iterator over events; always the same one."""

    def blocking(self) -> BlockingEvents[StreamEvent]:
        """Give the synchronous iterator over the same events."""

    def turn(self) -> Coroutine[Turn | None]:
        """Give a coroutine that waits for the end and gives the turn."""

    def turn_sync(self) -> Turn | None:
        """Wait for the turn on this thread."""

# The bridge to asyncio. These classes are given by methods and cannot be imported.

@final
@type_check_only
class Coroutine(collections.abc.Coroutine[Any, Any, _T_co]):
    """A native coroutine: for ``await``, ``create_task``, ``gather``, ``wait_for``, task groups and ``asyncio.run``.

    Cancelling its task drops the Rust future behind it before the task goes on.
    """

    __name__: str
    __qualname__: str
    @property
    def cr_running(self) -> bool:
        """Whether it is being polled at this moment."""

    def __await__(self) -> collections.abc.Generator[Any, Any, _T_co]: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Any: ...
    def send(self, _value: object) -> Any:
        """Poll once: gives what the event loop waits for, or raises ``StopIteration`` with the result."""

    def throw(
        self,
        kind: type[BaseException] | BaseException,
        value: BaseException | object = None,
        traceback: TracebackType | None = None,
    ) -> Any:
        """Drop the future, then raise."""

    def close(self) -> None:
        """Drop the future."""

@final
@type_check_only
class EventStream(AsyncIterator[_T_co]):
    """Events for ``async for``; those that are there already come without a trip through the event loop.

    A cancelled or timed-out ``anext`` loses nothing. Closing or dropping the stream stops everything behind it. Use it
    in one task: a second reader gets a ``RuntimeError``.
    """

    def __aiter__(self) -> Self: ...
    def __anext__(self) -> _NextEvents[_T_co]: ...
    def batches(self, limit: int = 256) -> _Batches[_T_co]:
        """Give lists of all events that are ready.

        Args:
            limit: Most events of a list; above 0.
        """

    def close(self) -> None:
        """Drop the source and everything behind it; whoever waits sees the end."""

    def aclose(self) -> Coroutine[None]:
        """Close, as a coroutine."""

    def __aenter__(self) -> Coroutine[Self]: ...
    def __aexit__(self, *_exception: object) -> Coroutine[None]: ...

@final
@type_check_only
class _Batches(AsyncIterator[list[_T]]):
    """Lists of events for ``async for``; see `EventStream.batches`."""

    def __aiter__(self) -> Self: ...
    def __anext__(self) -> _NextEvents[list[_T]]: ...

@final
@type_check_only
class _NextEvents(Awaitable[_T_co]):
    """What ``__anext__`` gives: an awaitable that may be awaited again and again."""

    def __await__(self) -> collections.abc.Generator[Any, Any, _T_co]: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Any: ...
    def send(self, _value: object) -> Any:
        """Poll once: gives what the event loop waits for, or raises ``StopIteration`` with the event."""

    def throw(
        self,
        kind: type[BaseException] | BaseException,
        value: BaseException | object = None,
        traceback: TracebackType | None = None,
    ) -> Any:
        """Stop waiting, then raise; no event is lost."""

    def close(self) -> None:
        """Stop waiting."""

@final
@type_check_only
class BlockingEvents(Iterator[_T_co]):
    """Events for ``for``; the calling thread drives the run while it waits, without the GIL."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> _T_co: ...
    def close(self) -> None:
        """Drop the source and everything behind it."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_exception: object) -> None: ...

# Trees

@final
class ThreadNode(Data):
    """One node of a `ThreadTree`: a handle that shows the node as it is now. UAP-1.0 §7.1."""

    @property
    def id(self) -> str:
        """A UUIDv4, or what the document said that the tree was read from."""
    @property
    def parent_id(self) -> str | None:
        """The node it branches from; None for the root."""
    @property
    def branch_point(self) -> int | None:
        """How many messages of the parent's thread belong to its history; None for the root."""
    @property
    def thread(self) -> Thread:
        """Its own messages, none of its parent's; what is added here is added to the tree."""
    @property
    def name(self) -> str | None:
        """For people; may be assigned."""
    @name.setter
    def name(self, name: str | None) -> None: ...
    @property
    def metadata(self) -> dict[str, Any]:
        """Facts about the node, in a dict of its own: to change them, assign a dict.

        ``mergedFrom`` lists the ids of nodes that were merged into this one.
        """
    @metadata.setter
    def metadata(self, metadata: Mapping[str, _Json]) -> None: ...
    @property
    def children(self) -> list[str]:
        """Ids of the branches that start here, oldest first."""

@final
class ThreadDiff(Data):
    """Two nodes of a tree side by side."""

    @property
    def ancestor_id(self) -> str:
        """The nearest node that both have above them, or are."""
    @property
    def common(self) -> int:
        """How many messages both histories begin with."""
    @property
    def only_a(self) -> list[Message]:
        """Messages of the first history that the second lacks, by their ids."""
    @property
    def only_b(self) -> list[Message]:
        """Messages of the second history that the first lacks, by their ids."""

@final
class ThreadTree(Data):
    """A conversation with branches. UAP-1.0 §7.

    Always has a root, named "main", and a current node, which is where messages are added. Branching and copying cost
    the same however long the conversation is: messages are shared. Handles may be used from any thread. Works as a
    mapping of ids to nodes; ``print(tree)`` and a notebook draw it.

    Args:
        thread: What the root begins with: a thread or a list of messages. It is not changed, its messages are shared.
    """

    def __new__(cls, thread: Thread | Iterable[Message | Mapping[str, _Json]] | None = None) -> Self: ...
    @property
    def root(self) -> ThreadNode:
        """The node without a parent."""
    @property
    def current(self) -> ThreadNode:
        """The node that messages are added to."""
    @property
    def nodes(self) -> dict[str, ThreadNode]:
        """All nodes at this moment by their ids, in the order they were made, in a dict of its own."""
    def branch(self, from_id: str, name: str | None = None) -> str:
        """Start a branch at a node, without moving to it. UAP-1.0 §7.1.

        Args:
            from_id: Node to branch from.
            name: For people; shown in drawings.

        Returns:
            The new node's id. Its history is the parent's up to this moment; later messages of the parent do not
            appear in it.

        Raises:
            KeyError: No node has this id.
        """
    def checkout(self, node_id: str) -> None:
        """Make a node current.

        Raises:
            KeyError: No node has this id.
        """
    def merge(self, source_id: str, target_id: str) -> int:
        """Append to a node the messages of another one's history that it lacks, by their ids and in order.

        The source stays as it is; the target lists it in its metadata under ``mergedFrom``. Merging again adds only
        what is new since; merging a node or its ancestor into it changes nothing.

        Returns:
            How many messages were added.

        Raises:
            KeyError: No node has one of these ids.
        """
    def history(self, node_id: str | None = None) -> list[Message]:
        """Give all messages from the root to a node, oldest first.

        Args:
            node_id: Default: the current node.

        Raises:
            KeyError: No node has this id.
        """
    def leaves(self) -> list[ThreadNode]:
        """Give the nodes without branches, in the order they were made."""
    def diff(self, a: str, b: str) -> ThreadDiff:
        """Compare the histories of two nodes.

        Raises:
            KeyError: No node has one of these ids.
        """
    def append(self, turn: Turn) -> ThreadTree:
        """Add all messages of a turn to the current node; gives the tree."""
    def push(self, *messages: Message | Mapping[str, _Json]) -> ThreadTree:
        """Add messages to the current node; gives the tree."""
    def draw(self, *, lines: int = 40) -> str:
        """Give the tree as text: a line a node, at most `lines` of them."""
    def __copy__(self) -> ThreadTree:
        """Give a tree of its own that shares the messages."""

    def __deepcopy__(self, _memo: object = None) -> ThreadTree:
        """Give a tree of its own that shares the messages."""

    def _repr_html_(self) -> str: ...
    def __len__(self) -> int: ...
    def __contains__(self, id: object, /) -> bool: ...
    def __getitem__(self, id: str, /) -> ThreadNode: ...
    def __iter__(self) -> Iterator[str]: ...

# ThreadProtocol

@final
class TextContent(Data):
    """A piece of text. ThreadProtocol 1.0.0, "Content Types"."""

    type: ClassVar[Literal["text"]]
    def __new__(cls, text: str) -> Self: ...
    @property
    def text(self) -> str:
        """The text."""

@final
class ImageContent(Data):
    """A picture: by URL, inline, or as a file that a provider keeps. ThreadProtocol 1.0.0, "Content Types".

    Args:
        image_url: Where it is served.
        image_base64: Its data: base64 in the standard alphabet, or bytes.
        file_id: The id under which a provider keeps it.
        provider: Who keeps it, as "openai".
        media_type: Its media type.
        name: Its file name.
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
    """A file that is neither picture, sound nor film. ThreadProtocol 1.0.0, "Content Types".

    Args:
        file_url: Where it is served.
        file_base64: Its data: base64 in the standard alphabet, or bytes.
        file_id: The id under which a provider keeps it.
        provider: Who keeps it, as "openai".
        media_type: Its media type.
        name: Its file name.
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
    """A sound: by URL, inline, or as a file that a provider keeps. ThreadProtocol 1.0.0, "Content Types".

    Args:
        audio_url: Where it is served.
        audio_base64: Its data: base64 in the standard alphabet, or bytes.
        file_id: The id under which a provider keeps it.
        provider: Who keeps it, as "openai".
        media_type: Its media type.
        name: Its file name.
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
    """A film: by URL, inline, or as a file that a provider keeps. ThreadProtocol 1.0.0, "Content Types".

    Args:
        video_url: Where it is served.
        video_base64: Its data: base64 in the standard alphabet, or bytes.
        file_id: The id under which a provider keeps it.
        provider: Who keeps it, as "openai".
        media_type: Its media type.
        name: Its file name.
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

_Part: TypeAlias = TextContent | ImageContent | FileContent | AudioContent | VideoContent
_PartOrJson: TypeAlias = _Part | dict[str, Any]
_Said: TypeAlias = str | Iterable[str | _Part | Mapping[str, _Json]]

@final
class Attachment(Data):
    """Something that came with a user message, beside its content. ThreadProtocol 1.0.0, "Content Types".

    Args:
        name: Its file name.
        media_type: Its media type.
        url: Where it is served.
        data: Base64 in the standard alphabet, or bytes.
        size_bytes: Its size.
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

@final
class Usage(Data):
    """Tokens of a model's answer. ThreadProtocol 1.0.0, "Core Actions"."""

    def __new__(cls, input_tokens: int = 0, output_tokens: int = 0, total_tokens: int | None = None) -> Self: ...
    @property
    def input_tokens(self) -> int:
        """Tokens read."""

    @property
    def output_tokens(self) -> int:
        """Tokens written."""

    @property
    def total_tokens(self) -> int | None:
        """Both."""

@final
class ThinkingUsage(Data):
    """Tokens of thinking, where the provider counts them apart. ThreadProtocol 1.0.0, "Core Actions"."""

    def __new__(cls, thinking_tokens: int | None = None) -> Self: ...
    @property
    def thinking_tokens(self) -> int | None:
        """Tokens thought, where the provider counts them apart."""

@final
class UserMessageAction(Data):
    """A user said something. ThreadProtocol 1.0.0, "Core Actions".

    Args:
        content: A text, or a list of texts, content parts and dicts.
        attachments: What came with it.
        timestamp: ISO 8601 text, kept as it is, or a ``datetime``. Default: now.
        sequence: Its place in a thread; 0 for none yet, a thread gives it one.
        action_id: Its id, if it should have one.
        metadata: Facts of applications, by namespace.
    """

    def __new__(
        cls,
        content: _Said,
        *,
        attachments: Iterable[Attachment | Mapping[str, _Json]] | None = None,
        timestamp: datetime | str | None = None,
        sequence: int = 0,
        action_id: str | None = None,
        metadata: Mapping[str, _Json] | None = None,
    ) -> Self: ...
    @property
    def action_type(self) -> Literal["user_message"]:
        """Its type."""

    @property
    def action_id(self) -> str | None:
        """Its id, if it was given one."""

    @property
    def timestamp(self) -> str:
        """When, as it was written."""
    @property
    def sequence(self) -> int:
        """Its place in the thread, from 1; 0 as long as it has none."""
    @property
    def metadata(self) -> dict[str, Any] | None:
        """Facts of applications by namespace; a dict of its own."""
    @property
    def content(self) -> str | list[_PartOrJson]:
        """Text, or parts in order; of a type that this version does not know, a dict."""
    @property
    def attachments(self) -> list[Attachment] | None:
        """What came with it."""

@final
class AssistantMessageAction(Data):
    """An agent said something. ThreadProtocol 1.0.0, "Core Actions".

    Args:
        content: A text, or a list of texts, content parts and dicts.
        agent_id: Who: a key of the thread's agents.
        finish_reason: Why the model ended: "stop", "tool_call", "length" or "content_filter".
        usage: What it cost.
        timestamp: ISO 8601 text, kept as it is, or a ``datetime``. Default: now.
        sequence: Its place in a thread; 0 for none yet, a thread gives it one.
        action_id: Its id, if it should have one.
        metadata: Facts of applications, by namespace.
    """

    def __new__(
        cls,
        content: _Said,
        *,
        agent_id: str,
        finish_reason: str | None = None,
        usage: Usage | Mapping[str, _Json] | None = None,
        timestamp: datetime | str | None = None,
        sequence: int = 0,
        action_id: str | None = None,
        metadata: Mapping[str, _Json] | None = None,
    ) -> Self: ...
    @property
    def action_type(self) -> Literal["assistant_message"]:
        """Its type."""

    @property
    def action_id(self) -> str | None:
        """Its id, if it was given one."""

    @property
    def timestamp(self) -> str:
        """When, as it was written."""
    @property
    def sequence(self) -> int:
        """Its place in the thread, from 1; 0 as long as it has none."""
    @property
    def metadata(self) -> dict[str, Any] | None:
        """Facts of applications by namespace; a dict of its own."""
    @property
    def agent_id(self) -> str:
        """Who: a key of the registry."""

    @property
    def content(self) -> str | list[_PartOrJson]:
        """Text, or parts in order; of a type that this version does not know, a dict."""
    @property
    def finish_reason(self) -> str | None:
        """Why the model ended: `stop`, `tool_call`, `length` or `content_filter`."""

    @property
    def usage(self) -> Usage | None:
        """What it cost."""

@final
class ThinkingAction(Data):
    """An agent thought. ThreadProtocol 1.0.0, "Core Actions".

    Args:
        content: The thinking, as far as the provider shows it.
        agent_id: Who: a key of the thread's agents.
        provider_name: Whose signature it is.
        signature: The provider's proof of it, to be sent back.
        thinking_id: The provider's id of it.
        usage: What it cost.
        timestamp: ISO 8601 text, kept as it is, or a ``datetime``. Default: now.
        sequence: Its place in a thread; 0 for none yet, a thread gives it one.
        action_id: Its id, if it should have one.
        metadata: Facts of applications, by namespace.
    """

    def __new__(
        cls,
        content: str | None = None,
        *,
        agent_id: str,
        provider_name: str = "unknown",
        signature: str | None = None,
        thinking_id: str | None = None,
        usage: ThinkingUsage | Mapping[str, _Json] | None = None,
        timestamp: datetime | str | None = None,
        sequence: int = 0,
        action_id: str | None = None,
        metadata: Mapping[str, _Json] | None = None,
    ) -> Self: ...
    @property
    def action_type(self) -> Literal["thinking"]:
        """Its type."""

    @property
    def action_id(self) -> str | None:
        """Its id, if it was given one."""

    @property
    def timestamp(self) -> str:
        """When, as it was written."""
    @property
    def sequence(self) -> int:
        """Its place in the thread, from 1; 0 as long as it has none."""
    @property
    def metadata(self) -> dict[str, Any] | None:
        """Facts of applications by namespace; a dict of its own."""
    @property
    def agent_id(self) -> str:
        """Who: a key of the registry."""

    @property
    def content(self) -> str | None:
        """The thinking, as far as the provider shows it."""

    @property
    def signature(self) -> str | None:
        """The provider's proof of it, to be sent back."""

    @property
    def provider_name(self) -> str:
        """Whose signature it is; `unknown` when nobody said."""

    @property
    def thinking_id(self) -> str | None:
        """The provider's id of it."""

    @property
    def usage(self) -> ThinkingUsage | None:
        """What it cost."""

@final
class ToolCallAction(Data):
    """An agent called a tool. ThreadProtocol 1.0.0, "Core Actions".

    Args:
        tool_name: Which tool.
        args: The arguments, usually a dict. Default: ``{}``.
        agent_id: Who: a key of the thread's agents.
        tool_call_id: The id that the return repeats.
        timestamp: ISO 8601 text, kept as it is, or a ``datetime``. Default: now.
        sequence: Its place in a thread; 0 for none yet, a thread gives it one.
        action_id: Its id, if it should have one.
        metadata: Facts of applications, by namespace.
    """

    def __new__(
        cls,
        tool_name: str,
        args: _Json = None,
        *,
        agent_id: str,
        tool_call_id: str,
        timestamp: datetime | str | None = None,
        sequence: int = 0,
        action_id: str | None = None,
        metadata: Mapping[str, _Json] | None = None,
    ) -> Self: ...
    @property
    def action_type(self) -> Literal["tool_call"]:
        """Its type."""

    @property
    def action_id(self) -> str | None:
        """Its id, if it was given one."""

    @property
    def timestamp(self) -> str:
        """When, as it was written."""
    @property
    def sequence(self) -> int:
        """Its place in the thread, from 1; 0 as long as it has none."""
    @property
    def metadata(self) -> dict[str, Any] | None:
        """Facts of applications by namespace; a dict of its own."""
    @property
    def agent_id(self) -> str:
        """Who: a key of the registry."""

    @property
    def tool_name(self) -> str:
        """Which tool."""

    @property
    def tool_call_id(self) -> str:
        """The id that the return repeats."""

    @property
    def args(self) -> Any:
        """The arguments, usually an object."""

@final
class ToolReturnAction(Data):
    """A tool answered. ThreadProtocol 1.0.0, "Core Actions".

    Args:
        tool_name: Which tool, as the call says.
        content: The value, or what went wrong.
        tool_call_id: The id of the call.
        status: "success", "error" or "validation_error".
        timestamp: ISO 8601 text, kept as it is, or a ``datetime``. Default: now.
        sequence: Its place in a thread; 0 for none yet, a thread gives it one.
        action_id: Its id, if it should have one.
        metadata: Facts of applications, by namespace.
    """

    def __new__(
        cls,
        tool_name: str,
        content: _Json,
        *,
        tool_call_id: str,
        status: str = "success",
        timestamp: datetime | str | None = None,
        sequence: int = 0,
        action_id: str | None = None,
        metadata: Mapping[str, _Json] | None = None,
    ) -> Self: ...
    @property
    def action_type(self) -> Literal["tool_return"]:
        """Its type."""

    @property
    def action_id(self) -> str | None:
        """Its id, if it was given one."""

    @property
    def timestamp(self) -> str:
        """When, as it was written."""
    @property
    def sequence(self) -> int:
        """Its place in the thread, from 1; 0 as long as it has none."""
    @property
    def metadata(self) -> dict[str, Any] | None:
        """Facts of applications by namespace; a dict of its own."""
    @property
    def tool_call_id(self) -> str:
        """The id of the call."""

    @property
    def tool_name(self) -> str:
        """Which tool, as the call says."""

    @property
    def status(self) -> str:
        """`success`, `error` or `validation_error`."""

    @property
    def content(self) -> Any:
        """The value, or what went wrong."""

@final
class SystemAction(Data):
    """An event of a system. ThreadProtocol 1.0.0, "System Actions".

    Args:
        action_type: Its type, with the "system." prefix.
        data: What the system says about it.
        timestamp: ISO 8601 text, kept as it is, or a ``datetime``. Default: now.
        sequence: Its place in a thread; 0 for none yet, a thread gives it one.
        action_id: Its id, if it should have one.
        metadata: Facts of applications, by namespace.
    """

    def __new__(
        cls,
        action_type: str,
        data: _Json = None,
        *,
        timestamp: datetime | str | None = None,
        sequence: int = 0,
        action_id: str | None = None,
        metadata: Mapping[str, _Json] | None = None,
    ) -> Self: ...
    @property
    def action_type(self) -> str:
        """Its type, with the `system.` prefix."""

    @property
    def action_id(self) -> str | None:
        """Its id, if it was given one."""

    @property
    def timestamp(self) -> str:
        """When, as it was written."""
    @property
    def sequence(self) -> int:
        """Its place in the thread, from 1; 0 as long as it has none."""
    @property
    def metadata(self) -> dict[str, Any] | None:
        """Facts of applications by namespace; a dict of its own."""
    @property
    def data(self) -> Any:
        """What the system says about it."""

@final
class OtherAction(Data):
    """An action of a type that breaks the naming rule or belongs to a later version; carried as it was read."""

    @property
    def action_type(self) -> str:
        """Its type."""

    @property
    def action_id(self) -> str | None:
        """Its id, if it was given one."""

    @property
    def timestamp(self) -> str:
        """When, as it was written."""
    @property
    def sequence(self) -> int:
        """Its place in the thread, from 1; 0 as long as it has none."""
    @property
    def metadata(self) -> dict[str, Any] | None:
        """Facts of applications by namespace; a dict of its own."""

_Action: TypeAlias = (
    UserMessageAction
    | AssistantMessageAction
    | ThinkingAction
    | ToolCallAction
    | ToolReturnAction
    | SystemAction
    | OtherAction
)

@final
class AgentConfig(Data):
    """One agent of a thread. ThreadProtocol 1.0.0, "Agent Configuration".

    Args:
        agent_name: A name for people.
        agent_id: Default: a new UUIDv4.
        agent_identifier: A name for programs. Default: made of the name, "Weather Assistant" is "weather_assistant".
        created_at: ISO 8601 text, kept as it is, or a ``datetime``. Default: now.
        config_ref: Where its full configuration is.
    """

    def __new__(
        cls,
        agent_name: str,
        *,
        agent_id: str | None = None,
        agent_identifier: str | None = None,
        created_at: datetime | str | None = None,
        config_ref: str | None = None,
    ) -> Self: ...
    @property
    def agent_id(self) -> str:
        """Its id, the same as its key in the registry."""

    @property
    def agent_identifier(self) -> str:
        """A name for programs, unique in the thread: `fred_v1`."""

    @property
    def agent_name(self) -> str:
        """A name for people: `Fred`."""

    @property
    def created_at(self) -> str:
        """When it was made."""

    @property
    def config_ref(self) -> str | None:
        """Where its full configuration is."""

@final
class Issue(Data):
    """One place where a document breaks a rule. ThreadProtocol 1.0.0, "Validation Rules"."""

    @property
    def rule(self) -> str:
        """The name of the rule, as "sequence"."""
    @property
    def pointer(self) -> str:
        """Where, as a JSON pointer."""
    @property
    def message(self) -> str:
        """What is wrong and what to do."""
    @property
    def severity(self) -> Literal["error", "warning"]:
        """`error` or `warning`."""
    @property
    def remedy(self) -> str:
        """What to do where the rule is broken."""

@final
class Change(Data):
    """Something that an older version of Pydantic AI cannot hold; `downgrade_pydantic_ai` reports it."""

    @property
    def pointer(self) -> str:
        """Where in the history that was given, as a JSON pointer."""
    @property
    def kind(self) -> Literal["dropped", "rewritten"]:
        """`dropped` or `rewritten`."""
    @property
    def message(self) -> str:
        """What was done and why."""

@final
class ProtocolThread(Data):
    """A conversation as one document; ``turntree.thread_protocol.Thread``. ThreadProtocol 1.0.0, "Thread".

    Iterates over its actions. Frozen in everything but its end: `append` adds there.

    Args:
        thread_id: Default: a new UUIDv4.
        title: What a person calls it.
        agents: Who takes part: a list, or a dict by id.
        actions: What happened; actions without a place get the next one.
        parent_thread_id: The thread it branched from.
        created_at: ISO 8601 text, kept as it is, or a ``datetime``. Default: the time of the first action, else now.
        updated_at: Default: the time of the last action.
        metadata: Facts of applications, by namespace.
    """

    def __new__(
        cls,
        *,
        thread_id: str | None = None,
        title: str = "",
        agents: Mapping[str, AgentConfig | Mapping[str, _Json]]
        | Iterable[AgentConfig | Mapping[str, _Json]]
        | None = None,
        actions: Iterable[_Action | Mapping[str, _Json]] | None = None,
        parent_thread_id: str | None = None,
        created_at: datetime | str | None = None,
        updated_at: datetime | str | None = None,
        metadata: Mapping[str, _Json] | None = None,
    ) -> Self: ...
    @property
    def version(self) -> str:
        """The version of the protocol, `1.0.0`."""

    @property
    def thread_id(self) -> str:
        """Its id, a UUID."""

    @property
    def parent_thread_id(self) -> str | None:
        """The thread it branched from."""

    @property
    def created_at(self) -> str:
        """When it began."""

    @property
    def updated_at(self) -> str:
        """When it was changed last."""

    @property
    def title(self) -> str:
        """What a person calls it."""

    @property
    def metadata(self) -> dict[str, Any] | None:
        """Facts of applications by namespace; a dict of its own."""
    @property
    def agents(self) -> dict[str, AgentConfig]:
        """The agents by id; a dict of its own."""
    @property
    def actions(self) -> list[_Action]:
        """The actions at this moment, in order; a list of its own."""
    def append(self, action: _Action | Mapping[str, _Json]) -> _Action:
        """Add an action at the end.

        What actions must be to each other (a return behind its call, agents that are entered) is not refused here:
        `validate` and `check` tell it when all is said.

        Args:
            action: An action, or its dict; one without a timestamp happens now.

        Returns:
            The action with its place. The one that was given is frozen and stays as it was.
        """
    def add_agent(self, agent: AgentConfig | Mapping[str, _Json]) -> Self:
        """Enter an agent under its id, in the place of one with the same id; gives the thread."""
    def branch(self, title: str | None = None) -> Self:
        """Give a new thread that goes on where this one is now.

        It has an id of its own, names this one as its parent, and shares the actions so far.
        """
    def model_dump_json(self, *, indent: int | None = None, by_alias: bool = True, exclude_none: bool = False) -> str:
        """Give the document as JSON text, compact unless `indent` is given; written while other threads run."""

    def to_json(self) -> str:
        """Give compact JSON text; written while other threads run."""

    def to_json_bytes(self) -> bytes:
        """Give compact JSON in UTF-8; written while other threads run. The fastest way to a file or a socket."""

    def validate(self, *, strict: bool = False) -> list[Issue]:
        """Give every place where the document breaks a rule, in document order. Never raises.

        Args:
            strict: By the letter: warnings are errors, ids are UUIDs, times have an offset, only members that the
                specification names, and only numbers that a JavaScript reader gives back.
        """
    def check(self, *, strict: bool = False) -> None:
        """Check the document; warnings pass unless `strict`.

        Args:
            strict: As in `validate`.

        Raises:
            ValidationError: With one entry in `errors()` for every rule that is broken.
        """
    def canonical_json(self, *, strict: bool = False) -> bytes:
        """Give the canonical bytes (RFC 8785): the same for equal conversations, whoever wrote them.

        Times are spelled in one way (UTC, ``Z``, no trailing zeros) and never run backwards; optional members that are
        null are absent; a thread id that is a UUID is in lower case; base64 is in the standard alphabet, padded;
        numbers are what JavaScript makes of them; members called ``__proto__``, which it keeps for itself, are absent.

        Args:
            strict: Refuse what would be lost: numbers that no double holds, and members called ``__proto__``.
                ``validate(strict=True)`` lists them.

        Raises:
            ValidationError: A time has no offset from UTC, so that nobody knows which moment it is; or, if `strict`,
                something would be lost. One entry in `errors()` for every place.
        """
    def digest(self, *, include_times: bool = False) -> str:
        """Give the SHA-256 of the canonical bytes as 64 hexadecimal digits.

        Args:
            include_times: Without it the times of the thread, its agents and its actions count as empty texts.

        Raises:
            ValidationError: With `include_times`, a time has no offset from UTC; names the places.
        """
    def core(self) -> Self:
        """Give what everybody who saw the conversation agrees on: no metadata, actions numbered anew."""
    def with_hoisted_metadata(self) -> Self:
        """Give the same thread with the metadata of its actions in ``metadata[namespace]["actions"]``.

        A namespace that the thread's own metadata uses otherwise stays in the actions.
        """
    def usage(self) -> Usage:
        """Give the tokens of the whole thread."""
    def merge(self, other: Self) -> Self:
        """Join two branches: what they have in common, what is new here, what is new there.

        The result is a child of this thread. Equal actions are the same, however their times are spelled.
        A call of the other branch whose id is open here gets a new one; a second return of a call before the parting
        becomes a ``system.tp.second_return``.

        Raises:
            ValueError: The threads have no first action in common, or know one agent in two ways.
        """
    def redact(self, which: Iterable[int] | Callable[[_Action], object], replacement: str = "[redacted]") -> Self:
        """Make the contents of some actions unreadable and keep who did what when.

        What the ways back kept of their messages goes too, and a title that tells them. What other actions say stays.

        Args:
            which: Sequence numbers, or a function that is asked for each action.
            replacement: What texts and results become; arguments become ``{}``, files lose their data.

        Raises:
            ValueError: No action has one of the numbers.
        """
    def slice(
        self,
        *,
        agent_id: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
    ) -> Self:
        """Give the actions of one agent, or of a span of time, as a thread of its own, numbered anew.

        Args:
            agent_id: Keep what this agent did, what its tools answered, and what users said.
            since: Keep actions not before this time.
            until: Keep actions before this time.

        Raises:
            ValidationError: No such agent.
            ValueError: Not a time.
        """
    def to_upp(
        self,
        agent_id: str | None = None,
        others: Literal["prefix", "hide"] = "prefix",
        tool_visibility: Literal["hide", "summarize", "show"] = "hide",
        *,
        others_role: Literal["user", "assistant"] = "user",
        attribution: str = "{agent:NAME}: ",
    ) -> list[Message]:
        """Give messages of the provider layer (UPP-1.2): equal to those that `from_upp` was given.

        Args:
            agent_id: Whose view, a key of `agents`; None for the whole conversation.
            others: As in `to_pydantic_ai`.
            tool_visibility: As in `to_pydantic_ai`.
            others_role: As in `to_pydantic_ai`.
            attribution: As in `to_pydantic_ai`.

        Raises:
            ValidationError: No such agent, or damaged metadata.
        """
    def to_pydantic_ai(
        self,
        agent_id: str | None = None,
        others: Literal["prefix", "hide"] = "prefix",
        tool_visibility: Literal["hide", "summarize", "show"] = "hide",
        *,
        others_role: Literal["user", "assistant"] = "user",
        attribution: str = "{agent:NAME}: ",
    ) -> list[Any]:
        """Give a Pydantic AI history as live ``ModelMessage`` objects.

        Args:
            agent_id: Whose view, a key of `agents`; None for the whole history, equal to the one it was made of. A view
                is always one that providers take: returns stand directly behind their calls, calls without a return
                only at the end, and ids that repeat within an answer are told apart (``c``, ``c:2``).
            others: What the agent hears of others: their words after their name, or nothing.
            tool_visibility: What it sees of the tools of others: nothing, one line for a call and its return, or both
                under ids of their own (``agent:id``).
            others_role: In whose voice it hears them; messages with files stay in the user's.
            attribution: What goes before their words; NAME stands for the name.

        Raises:
            ImportError: pydantic-ai is not installed; ``turntree[pydantic-ai]`` brings it.
            ValidationError: No such agent, damaged metadata, or a message that the installed version refuses.
        """
    def to_pydantic_ai_json(
        self,
        agent_id: str | None = None,
        others: Literal["prefix", "hide"] = "prefix",
        tool_visibility: Literal["hide", "summarize", "show"] = "hide",
        *,
        others_role: Literal["user", "assistant"] = "user",
        attribution: str = "{agent:NAME}: ",
        downgrade: str | None = None,
    ) -> bytes:
        """Give a Pydantic AI history as JSON, byte for byte as ``dump_json`` wrote it. Needs no pydantic-ai.

        Args:
            agent_id: As in `to_pydantic_ai`.
            others: As in `to_pydantic_ai`.
            tool_visibility: As in `to_pydantic_ai`.
            others_role: As in `to_pydantic_ai`.
            attribution: As in `to_pydantic_ai`.
            downgrade: The version of Pydantic AI that shall load it, as "1.107" or "1.x"; `downgrade_pydantic_ai` also
                tells what that changes.

        Raises:
            ValueError: `downgrade` is no version from 1.0 on.
            ValidationError: No such agent, or damaged metadata.
        """
    def to_ui_messages(
        self,
        sdk: Literal[5, 6, 7] = 6,
        *,
        sidecar: Literal["none", "portable", "full"] = "portable",
        dynamic_tools: bool = False,
    ) -> list[dict[str, Any]]:
        """Give the conversation as the messages of a chat of the Vercel AI SDK.

        Messages that came from a client come back as they were. Attachments of users are files behind what they say; a
        number that no double holds is None, as a browser sends it on.

        Args:
            sdk: The major version of the SDK that reads. 7 is shown files that only a provider keeps, others are not.
            sidecar: What goes into ``metadata.thread_protocol`` of other messages, so that `from_ui_messages` gives the
                thread back: "portable" for its core, "full" for all of it, system prompts and metadata included.
            dynamic_tools: Write calls as ``dynamic-tool``, for clients that do not know the tools.

        Raises:
            ValueError: No such version or level.
        """
    def to_ui_stream(
        self,
        sdk: Literal[5, 6, 7] = 6,
        *,
        turns: Literal["all", "last"] = "all",
        sidecar: Literal["none", "portable", "full"] = "portable",
    ) -> Iterator[dict[str, Any]]:
        """Give what agents did as one UI message stream of the Vercel AI SDK, each chunk written when it is asked for.

        The stream is that of the thread as it is now.

        Args:
            sdk: The major version of the SDK that reads.
            turns: All actions from the first of an agent on, or those after the last user message.
            sidecar: As in `to_ui_messages`; it goes with the first chunk and with one behind the parts. With "none",
                nothing is kept of what was given.

        Raises:
            ValueError: No such version, level or choice of turns.
        """
    def to_ui_stream_bytes(
        self,
        sdk: Literal[5, 6, 7] = 6,
        *,
        turns: Literal["all", "last"] = "all",
        sidecar: Literal["none", "portable", "full"] = "portable",
    ) -> bytes:
        """Give the same stream as the body of a response: server-sent events, ``[DONE]`` last.

        Args:
            sdk: As in `to_ui_stream`.
            turns: As in `to_ui_stream`.
            sidecar: As in `to_ui_stream`.

        Raises:
            ValueError: As in `to_ui_stream`.
        """
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: int, /) -> _Action: ...
    @overload
    def __getitem__(self, index: builtins.slice, /) -> list[_Action]: ...
    def __iter__(self) -> Iterator[_Action]: ...

@final
class UiStreamReader:
    """Reads one UI message stream of the Vercel AI SDK as it arrives.

    The result depends on the chunks alone, never on how their bytes were cut. After an error the stream is over, as it
    is for the real client; what came before stays readable.

    Args:
        messages: The conversation before the stream, as the client has it: dicts, or their JSON.
        agent: Who answers. Default: as the sidecar says, else one agent called "assistant".
        thread_id: Default: as the sidecar says, else one that follows from `chat_id` or the first message.
        chat_id: The id of the chat: a UUID is the thread's id, from another one it follows.
        title: Default: the beginning of the first user text.
        timestamp: The time of messages that say none. Default: 1970.
        profile: "full" keeps what it takes to give the messages back equal, "portable" only what others understand.
        sidecar: How much to take of what turntree said beside the parts: "none", "portable" (times, agents, usage), or
            "full" (metadata and system prompts too), which is for messages that no client had in its hands.

    UI message stream, §2 to §5.
    """

    def __new__(
        cls,
        *,
        messages: Iterable[Mapping[str, Any]] | str | bytes | bytearray | None = None,
        agent: AgentConfig | Mapping[str, _Json] | None = None,
        thread_id: str | None = None,
        chat_id: str | None = None,
        title: str | None = None,
        timestamp: datetime | str | None = None,
        profile: Literal["full", "portable"] = "full",
        sidecar: Literal["none", "portable", "full"] = "portable",
    ) -> Self: ...
    def feed(self, data: Mapping[str, Any] | bytes | bytearray | str) -> None:
        """Take what arrived next.

        Args:
            data: One chunk as a dict, or a piece of the response body, cut anywhere.

        Raises:
            ValidationError: The real client gives the stream up here; names the chunk.
            TypeError: Neither a dict nor bytes nor str.
        """
    @property
    def count(self) -> int:
        """How many chunks were read."""
    @property
    def message(self) -> dict[str, Any] | None:
        """The message so far, or None before anything came."""
    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation so far, the message of the stream last."""
    def thread(self) -> ProtocolThread:
        """Give the thread so far; one of its own."""

@final
class UiLiveStream:
    """The native half of `turntree.thread_protocol.UiResponse`: events of a run in, frames of a response body out."""

    def __new__(cls, message_id: str | None = None, metadata: Mapping[str, Any] | None = None) -> Self: ...
    def start(self) -> bytes:
        """Give the frames that begin the stream."""
    def events(self, events: list[AgentStreamEvent] | list[StreamEvent]) -> bytes:
        """Give the frames of events.

        Raises:
            TypeError: Something else is in the list.
        """
    def finish(self) -> bytes:
        """Give the frames that end a run that came to its end."""
    def error(self, text: str) -> bytes:
        """Give the frames that end a run that failed."""
    def abort(self) -> bytes:
        """Give the frames that end a run that was stopped."""

def ui_stream_headers() -> dict[str, str]:
    """Give the response headers of a UI message stream."""

def from_ui_messages(
    messages: Iterable[Mapping[str, Any]] | str | bytes | bytearray,
    *,
    agent: AgentConfig | Mapping[str, _Json] | None = None,
    thread_id: str | None = None,
    chat_id: str | None = None,
    title: str | None = None,
    timestamp: datetime | str | None = None,
    profile: Literal["full", "portable"] = "full",
    sidecar: Literal["none", "portable", "full"] = "portable",
) -> ProtocolThread:
    """Make a thread of the messages of a chat of the Vercel AI SDK, 5 to 7.

    Args:
        messages: What `useChat` keeps and posts: a list of dicts, or its JSON.
        agent: Who answers. Default: as the sidecar says, else one agent called "assistant".
        thread_id: Default: as the sidecar says, else one that follows from `chat_id` or the first message.
        chat_id: The id of the chat: a UUID is the thread's id, from another one it follows.
        title: Default: the beginning of the first user text.
        timestamp: The time of messages that say none. Default: 1970.
        profile: "full" keeps what it takes to give the messages back equal, "portable" only what others understand.
        sidecar: How much to take of what turntree said beside the parts: "none", "portable" (times, agents, usage), or
            "full" (metadata and system prompts too), which is for messages that no client had in its hands.

    Raises:
        TypeError: `messages` is no list.
        ValidationError: Not JSON, too large or too deep, or not a list of messages; names the place.
    """

@final
class DocumentIssue(Data):
    """One document that could not be converted, or one rule that it breaks; ``str()`` gives it on one line."""

    @property
    def path(self) -> str | None:
        """The file, where it is known."""
    @property
    def line(self) -> int | None:
        """The line of the file, from 1."""
    @property
    def row(self) -> int | None:
        """The row of the column, from 0."""
    @property
    def pointer(self) -> str:
        """Where in the document, as a JSON pointer; empty for the whole."""
    @property
    def rule(self) -> str:
        """The name of the rule, as "json_truncated"."""
    @property
    def message(self) -> str:
        """What is wrong and what to do."""
    @property
    def severity(self) -> Literal["error", "warning"]:
        """`error` or `warning`."""

@final
class Report(Data):
    """What a bulk conversion did."""

    @property
    def documents(self) -> int:
        """Documents that were converted."""
    @property
    def failed(self) -> int:
        """Documents that failed."""
    @property
    def bytes_in(self) -> int:
        """Bytes of all documents that were read, after decompression."""
    @property
    def bytes_out(self) -> int:
        """Bytes of all documents that were written, before compression."""
    @property
    def errors(self) -> list[DocumentIssue]:
        """The first thousand errors, in order."""
    @property
    def seconds(self) -> float:
        """Wall-clock time."""

def _convert_lines(
    source: Any,
    target: Any,
    *,
    from_: str | None,
    to: str | None,
    jobs: int | None,
    on_error: Any,
    progress: Callable[[Report], object] | None,
    profile: str,
    framing: str,
    gzip: bool,
    overwrite: bool,
    durable: bool,
    name: str | None,
    max_bytes: int | None,
) -> Report:
    """Convert, or with ``to=None`` validate, the documents of one file or file object."""

def _convert_files(
    pairs: Sequence[tuple[str, str, bool, bool]],
    *,
    from_: str | None,
    to: str | None,
    jobs: int | None,
    on_error: Any,
    progress: Callable[[Report], object] | None,
    profile: str,
    durable: bool,
) -> Report:
    """Convert, or with ``to=None`` validate, files of one document each."""

@final
class _UnfinishedFile:
    """A file that writers in Python write: under another name until it is whole."""

    def __new__(cls, target: str, overwrite: bool) -> _UnfinishedFile: ...
    @property
    def place(self) -> Path:
        """The path to open and write to."""
    def finish(self, durable: bool) -> None:
        """Give it its name; with `durable`, when all of it is on the disk."""
    def discard(self) -> None:
        """Remove it, unless it has its name."""

@final
class _ArrowColumn:
    """A column as Arrow's consumers take it."""

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """The column as capsules of the Arrow C data interface."""

def _convert_column(
    schema: object,
    array: object,
    *,
    from_: str | None,
    to: str,
    jobs: int | None,
    on_error: Any,
    profile: str,
    first_row: int,
) -> tuple[_ArrowColumn, Report]:
    """Convert an Arrow array of texts, given as capsules of its C data interface."""

def _formats() -> tuple[list[str], list[str]]:
    """The names of the formats that can be read, and of those that can be written."""

def _render(data: bytes, *, style: str, what: str, from_: str | None, name: str | None) -> str:
    """A document for people: text, text with colours, or a page of HTML."""

def from_pydantic_ai(
    messages: Sequence[Any] | str | bytes | bytearray,
    *,
    agent: AgentConfig | Mapping[str, _Json] | Mapping[str, AgentConfig] | None = None,
    thread_id: str | None = None,
    title: str | None = None,
    profile: Literal["full", "portable"] = "full",
    combine_text: Literal["adjacent", "response"] = "adjacent",
    validation_status: bool = False,
    usage_actions: bool = False,
    strict: bool = False,
) -> ProtocolThread:
    """Make a thread of a Pydantic AI history. The same history and options always give the same thread.

    Args:
        messages: A list of live ``ModelMessage`` objects, or their JSON as ``dump_json`` of any version writes it.
        agent: Who answered: one agent, or a dict of agents by run id. Default: ``metadata["agent"]`` of each message,
            else one agent called "assistant".
        thread_id: Default: the conversation's id if it is a UUID, else one that follows from the first message.
        title: Default: the beginning of the first user text.
        profile: "full" keeps all it takes to give the history back equal, "portable" only what others understand.
        combine_text: Which texts of an answer make one message: those that stand together, or all.
        validation_status: Tell arguments that failed validation ("validation_error") from other errors.
        usage_actions: Add a ``system.tp.usage`` action for answers without text (portable profile).
        strict: Keep the metadata of actions apart from them, in ``thread.metadata``.

    Raises:
        TypeError: `messages` is neither a list of messages nor text; names the place.
        ValidationError: Not JSON, too large or too deep, or not a list of messages as some version of Pydantic AI reads
            them: a member is missing, or of another type; names the place. Messages, parts, items, members and words of
            later versions are carried as they are.
        SerializationError: Pydantic itself cannot dump a message.
    """

def thread_from_upp(
    messages: Any,
    *,
    agent: AgentConfig | Mapping[str, _Json] | None = None,
    thread_id: str | None = None,
    title: str | None = None,
    profile: Literal["full", "portable"] = "full",
    parent: ProtocolThread | None = None,
) -> ProtocolThread:
    """Make a thread of messages of the provider layer; see `turntree.thread_protocol.from_upp`."""

def pydantic_ai_version(history: ProtocolThread | Sequence[Any] | str | bytes | bytearray) -> tuple[str, str | None]:
    """Tell which versions of Pydantic AI write the members that a history has.

    Args:
        history: A thread, live messages, or their JSON.

    Returns:
        The first version that knows all of it, and the first that would have written more (None when none would).
        Between 2.34 and 2.68 every fourth version is known.

    Raises:
        ValidationError: Not a history; names the place.
    """

def downgrade_pydantic_ai(
    history: ProtocolThread | Sequence[Any] | str | bytes | bytearray, to: str
) -> tuple[bytes, list[Change]]:
    """Write a history so that an older Pydantic AI loads it.

    Args:
        history: A thread, live messages, or their JSON.
        to: The version, as "1.107"; "1.x" stands for all of 1.

    Returns:
        The JSON, and everything that had to be left out or said in another way.

    Raises:
        ValueError: `to` is no version from 1.0 on.
        ValidationError: Not a history; names the place.
    """

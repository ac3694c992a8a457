"""The native core. Users import its classes from ``turntree``, ``turntree.upp`` and ``turntree.thread_protocol``."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import NotImplementedType
from typing import Any, ClassVar, Literal, TypeAlias, final, overload

from typing_extensions import Self

__version__: str

_Json: TypeAlias = Any
_Metadata: TypeAlias = Mapping[str, Mapping[str, _Json]]
_Mode: TypeAlias = Literal["python", "json"]

def _restore(class_: type[Any], text: str) -> Any: ...

class Data:
    """Base class of everything that is data: frozen handles with the face of a pydantic model.

    Values compare by content, can be pickled and copied, and are hashable unless they grow (threads). Every class
    serves as a field of a pydantic model, in a ``TypeAdapter`` and in FastAPI signatures.
    """

    def model_dump(
        self, *, mode: _Mode = "python", by_alias: bool = True, exclude_none: bool = False
    ) -> dict[str, Any]:
        """Give the value as a dict.

        Args:
            mode: "python" gives ``datetime`` and ``bytes`` where the specification has times and data, "json" texts.
            by_alias: Keys as the specification spells them; False for Python's names.
            exclude_none: Leave out members that are None.
        """

    def model_dump_json(
        self, *, indent: int | None = None, by_alias: bool = True, exclude_none: bool = False
    ) -> str:
        """Give the value as JSON text, compact unless `indent` is given."""

    @classmethod
    def model_validate(cls, obj: object) -> Self:
        """Make a value from an instance or from plain data.

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
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> Any: ...
    @classmethod
    def __get_pydantic_json_schema__(cls, _core_schema: Any, handler: Any) -> Any: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, _memo: Any = None) -> Self: ...
    def __eq__(self, other: object) -> bool: ...
    def __ne__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
    def _repr_html_(self) -> str: ...

@final
class Text(Data):
    """Plain text. UPP-1.2 §3."""

    type: ClassVar[Literal["text"]]
    def __new__(cls, text: str) -> Self: ...
    @property
    def text(self) -> str: ...

@final
class Reasoning(Data):
    """What a model thought before it answered; in assistant messages only. UPP-1.2 §3."""

    type: ClassVar[Literal["reasoning"]]
    def __new__(cls, text: str) -> Self: ...
    @property
    def text(self) -> str: ...

@final
class Image(Data):
    """A picture. Made by one of its factories. UPP-1.2 §3 and §8."""

    type: ClassVar[Literal["image"]]
    @classmethod
    def from_url(cls, url: str, mime_type: str | None = None) -> Image:
        """Refer to a picture that somebody serves; the media type is told by the extension if it is not given."""
    @classmethod
    def from_bytes(cls, data: bytes | bytearray, mime_type: str) -> Image:
        """Take a picture that is in memory."""
    @classmethod
    def from_base64(cls, data: str, mime_type: str) -> Image:
        """Take a picture that is base64 text.

        Raises:
            ValueError: It is not base64.
        """
    @property
    def source(self) -> dict[str, Any]: ...
    @property
    def mime_type(self) -> str: ...
    @property
    def width(self) -> int | None: ...
    @property
    def height(self) -> int | None: ...
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

@final
class Document(Data):
    """A document: PDF or plain text; in user messages only. Made by one of its factories. UPP-1.2 §3 and §8."""

    type: ClassVar[Literal["document"]]
    @classmethod
    def from_url(cls, url: str, title: str | None = None) -> Document:
        """Refer to a PDF that somebody serves.

        Raises:
            ValueError: Not an http or https URL.
        """
    @classmethod
    def from_text(cls, text: str, title: str | None = None) -> Document:
        """Take a document that is plain text."""
    @classmethod
    def from_base64(cls, data: str, mime_type: str, title: str | None = None) -> Document:
        """Take a document that is base64 text.

        Raises:
            ValueError: It is not base64.
        """
    @classmethod
    def from_bytes(
        cls, data: bytes | bytearray, mime_type: str, title: str | None = None
    ) -> Document:
        """Take a document that is in memory."""
    @property
    def source(self) -> dict[str, Any]: ...
    @property
    def mime_type(self) -> str: ...
    @property
    def title(self) -> str | None: ...
    @property
    def is_pdf(self) -> bool: ...
    @property
    def is_text(self) -> bool: ...

@final
class Audio(Data):
    """A sound. UPP-1.2 §3 and §8."""

    type: ClassVar[Literal["audio"]]
    def __new__(
        cls, data: bytes | bytearray, mime_type: str, duration: float | None = None
    ) -> Self: ...
    @property
    def data(self) -> bytes: ...
    @property
    def mime_type(self) -> str: ...
    @property
    def duration(self) -> float | None:
        """Length in seconds."""

@final
class Video(Data):
    """A film. UPP-1.2 §3 and §8."""

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
    @property
    def data(self) -> bytes: ...
    @property
    def mime_type(self) -> str: ...
    @property
    def duration(self) -> float | None:
        """Length in seconds."""
    @property
    def width(self) -> int | None: ...
    @property
    def height(self) -> int | None: ...

@final
class Binary(Data):
    """Any other data; in user messages only. UPP-1.2 §3."""

    type: ClassVar[Literal["binary"]]
    def __new__(
        cls, data: bytes | bytearray, mime_type: str, metadata: Mapping[str, _Json] | None = None
    ) -> Self: ...
    @property
    def data(self) -> bytes: ...
    @property
    def mime_type(self) -> str: ...
    @property
    def metadata(self) -> dict[str, Any] | None: ...

_Block: TypeAlias = Text | Reasoning | Image | Document | Audio | Video | Binary
_Content: TypeAlias = str | Iterable[str | _Block | Mapping[str, _Json]]

class Message(Data):
    """One message of a conversation. UPP-1.2 §4."""

    @property
    def id(self) -> str:
        """A UUIDv4, or what the vendor gave."""
    @property
    def type(self) -> Literal["user", "assistant", "tool_result"]: ...
    @property
    def timestamp(self) -> datetime:
        """When it was made, in UTC."""
    @property
    def metadata(self) -> dict[str, dict[str, Any]] | None:
        """Vendor facts by provider name."""
    @property
    def content(self) -> list[Any]:
        """The blocks; of a kind that this version does not know, a dict. Empty for tool results."""
    @property
    def text(self) -> str:
        """All text blocks joined by a blank line; for tool results each result, as JSON unless it is text."""
    @property
    def images(self) -> list[Image]: ...
    @property
    def documents(self) -> list[Document]: ...
    @property
    def audio(self) -> list[Audio]: ...
    @property
    def video(self) -> list[Video]: ...
    @property
    def reasoning(self) -> list[Reasoning]: ...

@final
class UserMessage(Message):
    """What a person or the application says. UPP-1.2 §4.

    Args:
        content: A text, or a list of texts, blocks and dicts.
        id: Default: a new UUIDv4.
        metadata: Vendor facts by provider name.
        timestamp: Default: now.
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
        timestamp: Default: now.
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
    def tool_calls(self) -> list[ToolCall] | None: ...
    @property
    def has_tool_calls(self) -> bool: ...

@final
class ToolResultMessage(Message):
    """What tools gave back. UPP-1.2 §4.

    Args:
        results: One result a call.
        id: Default: a new UUIDv4.
        metadata: Vendor facts by provider name.
        timestamp: Default: now.
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
    def results(self) -> list[ToolResult]: ...

@final
class ToolCall(Data):
    """A model's wish to call a tool. UPP-1.2 §4."""

    def __new__(cls, tool_call_id: str, tool_name: str, arguments: Mapping[str, _Json]) -> Self: ...
    @property
    def tool_call_id(self) -> str: ...
    @property
    def tool_name(self) -> str: ...
    @property
    def arguments(self) -> dict[str, Any]: ...

@final
class ToolResult(Data):
    """What a tool gave back. UPP-1.2 §4."""

    def __new__(cls, tool_call_id: str, result: _Json, is_error: bool = False) -> Self: ...
    @property
    def tool_call_id(self) -> str: ...
    @property
    def result(self) -> Any: ...
    @property
    def is_error(self) -> bool: ...

@final
class ToolExecution(Data):
    """The record of one tool execution. UPP-1.2 §5."""

    @property
    def tool_name(self) -> str: ...
    @property
    def tool_call_id(self) -> str: ...
    @property
    def arguments(self) -> dict[str, Any]:
        """What the tool was called with, after any hook changed it."""
    @property
    def result(self) -> Any:
        """What the model was told."""
    @property
    def is_error(self) -> bool: ...
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
    def input_tokens(self) -> int: ...
    @property
    def output_tokens(self) -> int: ...
    @property
    def cache_read_tokens(self) -> int: ...
    @property
    def cache_write_tokens(self) -> int: ...

@final
class TokenUsage(Data):
    """Tokens of a model call, or of all calls of a turn. UPP-1.2 §6."""

    def __new__(
        cls,
        input_tokens: int = 0,
        output_tokens: int = 0,
        total_tokens: int | None = None,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
    ) -> Self: ...
    @property
    def input_tokens(self) -> int: ...
    @property
    def output_tokens(self) -> int: ...
    @property
    def total_tokens(self) -> int: ...
    @property
    def cache_read_tokens(self) -> int: ...
    @property
    def cache_write_tokens(self) -> int: ...
    @property
    def cycles(self) -> list[CycleUsage] | None:
        """One entry a model call, when this is a sum."""

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
        """The structured answer, where one was asked for."""

@final
class StreamEvent(Data):
    """One step of a stream. UPP-1.2 §11.1."""

    def __new__(cls, type: str, index: int, delta: dict[str, _Json]) -> Self: ...
    @property
    def type(self) -> str:
        """What happened, as ``text_delta``."""
    @property
    def index(self) -> int:
        """Which block of the message, or which call of the response."""
    @property
    def delta(self) -> dict[str, Any]:
        """The piece that came, by the specification's names; media as bytes."""

@final
class Thread(Data):
    """An ordered conversation that grows. UPP-1.2 §7.

    Args:
        messages: Messages to begin with; shared, not copied.
    """

    def __new__(
        cls, messages: Thread | Iterable[Message | Mapping[str, _Json]] | None = None
    ) -> Self: ...
    @property
    def id(self) -> str: ...
    @property
    def messages(self) -> list[Message]:
        """The messages at this moment, oldest first, in a list of its own."""
    @property
    def created_at(self) -> datetime: ...
    @property
    def updated_at(self) -> datetime: ...
    def append(self, turn: Turn) -> Thread:
        """Add all messages of a turn; gives the thread."""
    def push(self, *messages: Message | Mapping[str, _Json]) -> Thread:
        """Add messages; gives the thread."""
    def user(self, content: _Content) -> Thread:
        """Add a user's message; gives the thread."""
    def assistant(self, content: _Content) -> Thread:
        """Add a model's message; gives the thread."""
    def filter(self, type: Literal["user", "assistant", "tool_result"]) -> list[Message]:
        """Give the messages of one type, in order."""
    def tail(self, n: int) -> list[Message]:
        """Give the last `n` messages; none for 0."""
    def slice(self, start: int | None = None, end: int | None = None) -> Thread:
        """Give messages from `start` to before `end` as a new thread; negative places count from the end."""
    def clear(self) -> Thread:
        """Take all messages away; gives the thread."""
    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Message: ...
    def __iter__(self) -> Iterator[Message]: ...

# ThreadProtocol

@final
class TextContent(Data):
    """A piece of text. ThreadProtocol 1.0.0, "Content Types"."""

    type: ClassVar[Literal["text"]]
    def __new__(cls, text: str) -> Self: ...
    @property
    def text(self) -> str: ...

@final
class ImageContent(Data):
    """A picture: by URL, inline, or as a file that a provider keeps. ThreadProtocol 1.0.0, "Content Types".

    Args:
        image_url: Where it is served.
        image_base64: Its data: base64 in the standard alphabet, or bytes.
        file_id: The id under which a provider keeps it.
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
        media_type: str | None = None,
        name: str | None = None,
    ) -> Self: ...
    @property
    def image_url(self) -> str | None: ...
    @property
    def image_base64(self) -> str | None: ...
    @property
    def file_id(self) -> str | None: ...
    @property
    def media_type(self) -> str | None: ...
    @property
    def name(self) -> str | None: ...

@final
class FileContent(Data):
    """A file that is neither picture, sound nor film: by URL, inline, or as a file that a provider keeps. ThreadProtocol 1.0.0, "Content Types".

    Args:
        file_url: Where it is served.
        file_base64: Its data: base64 in the standard alphabet, or bytes.
        file_id: The id under which a provider keeps it.
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
        media_type: str | None = None,
        name: str | None = None,
    ) -> Self: ...
    @property
    def file_url(self) -> str | None: ...
    @property
    def file_base64(self) -> str | None: ...
    @property
    def file_id(self) -> str | None: ...
    @property
    def media_type(self) -> str | None: ...
    @property
    def name(self) -> str | None: ...

@final
class AudioContent(Data):
    """A sound: by URL, inline, or as a file that a provider keeps. ThreadProtocol 1.0.0, "Content Types".

    Args:
        audio_url: Where it is served.
        audio_base64: Its data: base64 in the standard alphabet, or bytes.
        file_id: The id under which a provider keeps it.
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
        media_type: str | None = None,
        name: str | None = None,
    ) -> Self: ...
    @property
    def audio_url(self) -> str | None: ...
    @property
    def audio_base64(self) -> str | None: ...
    @property
    def file_id(self) -> str | None: ...
    @property
    def media_type(self) -> str | None: ...
    @property
    def name(self) -> str | None: ...

@final
class VideoContent(Data):
    """A film: by URL, inline, or as a file that a provider keeps. ThreadProtocol 1.0.0, "Content Types".

    Args:
        video_url: Where it is served.
        video_base64: Its data: base64 in the standard alphabet, or bytes.
        file_id: The id under which a provider keeps it.
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
        media_type: str | None = None,
        name: str | None = None,
    ) -> Self: ...
    @property
    def video_url(self) -> str | None: ...
    @property
    def video_base64(self) -> str | None: ...
    @property
    def file_id(self) -> str | None: ...
    @property
    def media_type(self) -> str | None: ...
    @property
    def name(self) -> str | None: ...

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
    def name(self) -> str: ...
    @property
    def media_type(self) -> str: ...
    @property
    def url(self) -> str | None: ...
    @property
    def data(self) -> str | None: ...
    @property
    def size_bytes(self) -> int | None: ...

@final
class Usage(Data):
    """Tokens of a model's answer. ThreadProtocol 1.0.0, "Core Actions"."""

    def __new__(
        cls, input_tokens: int = 0, output_tokens: int = 0, total_tokens: int | None = None
    ) -> Self: ...
    @property
    def input_tokens(self) -> int: ...
    @property
    def output_tokens(self) -> int: ...
    @property
    def total_tokens(self) -> int | None: ...

@final
class ThinkingUsage(Data):
    """Tokens of thinking, where the provider counts them apart. ThreadProtocol 1.0.0, "Core Actions"."""

    def __new__(cls, thinking_tokens: int | None = None) -> Self: ...
    @property
    def thinking_tokens(self) -> int | None: ...

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
    def action_type(self) -> Literal["user_message"]: ...
    @property
    def action_id(self) -> str | None: ...
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
    def attachments(self) -> list[Attachment] | None: ...

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
    def action_type(self) -> Literal["assistant_message"]: ...
    @property
    def action_id(self) -> str | None: ...
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
    def agent_id(self) -> str: ...
    @property
    def content(self) -> str | list[_PartOrJson]:
        """Text, or parts in order; of a type that this version does not know, a dict."""
    @property
    def finish_reason(self) -> str | None: ...
    @property
    def usage(self) -> Usage | None: ...

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
    def action_type(self) -> Literal["thinking"]: ...
    @property
    def action_id(self) -> str | None: ...
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
    def agent_id(self) -> str: ...
    @property
    def content(self) -> str | None: ...
    @property
    def signature(self) -> str | None: ...
    @property
    def provider_name(self) -> str: ...
    @property
    def thinking_id(self) -> str | None: ...
    @property
    def usage(self) -> ThinkingUsage | None: ...

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
    def action_type(self) -> Literal["tool_call"]: ...
    @property
    def action_id(self) -> str | None: ...
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
    def agent_id(self) -> str: ...
    @property
    def tool_name(self) -> str: ...
    @property
    def tool_call_id(self) -> str: ...
    @property
    def args(self) -> Any: ...

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
    def action_type(self) -> Literal["tool_return"]: ...
    @property
    def action_id(self) -> str | None: ...
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
    def tool_call_id(self) -> str: ...
    @property
    def tool_name(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def content(self) -> Any: ...

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
    def action_type(self) -> str: ...
    @property
    def action_id(self) -> str | None: ...
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
    def data(self) -> Any: ...

@final
class OtherAction(Data):
    """An action of a type that breaks the naming rule or belongs to a later version; carried as it was read."""

    @property
    def action_type(self) -> str: ...
    @property
    def action_id(self) -> str | None: ...
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
    def agent_id(self) -> str: ...
    @property
    def agent_identifier(self) -> str: ...
    @property
    def agent_name(self) -> str: ...
    @property
    def created_at(self) -> str: ...
    @property
    def config_ref(self) -> str | None: ...

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
    def severity(self) -> Literal["error", "warning"]: ...

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
    def version(self) -> str: ...
    @property
    def thread_id(self) -> str: ...
    @property
    def parent_thread_id(self) -> str | None: ...
    @property
    def created_at(self) -> str: ...
    @property
    def updated_at(self) -> str: ...
    @property
    def title(self) -> str: ...
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
    def validate(self) -> list[Issue]:
        """Give every place where the document breaks a rule, in document order. Never raises."""
    def check(self) -> None:
        """Check the document; warnings pass.

        Raises:
            ValidationError: With one entry in `errors()` for every rule that is broken.
        """
    def canonical_json(self) -> bytes:
        """Give the canonical bytes (RFC 8785): the same for equal documents, whoever wrote them."""
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
            agent_id: Whose view, a key of `agents`; None for the whole history, equal to the one it was made of.
            others: What the agent hears of others: their words after their name, or nothing.
            tool_visibility: What it sees of the tools of others.
            others_role: In whose voice it hears them.
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
    ) -> bytes:
        """Give a Pydantic AI history as JSON, byte for byte as ``dump_json`` wrote it. Needs no pydantic-ai.

        Args:
            agent_id: As in `to_pydantic_ai`.
            others: As in `to_pydantic_ai`.
            tool_visibility: As in `to_pydantic_ai`.
            others_role: As in `to_pydantic_ai`.
            attribution: As in `to_pydantic_ai`.

        Raises:
            ValidationError: No such agent, or damaged metadata.
        """
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: int, /) -> _Action: ...
    @overload
    def __getitem__(self, index: slice, /) -> list[_Action]: ...
    def __iter__(self) -> Iterator[_Action]: ...

def from_pydantic_ai(
    messages: Sequence[Any] | str | bytes | bytearray,
    *,
    agent: AgentConfig | Mapping[str, _Json] | None = None,
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
        agent: Who answered. Default: ``metadata["agent"]`` of each message, else one agent called "assistant".
        thread_id: Default: the conversation's id if it is a UUID, else one that follows from the first message.
        title: Default: the beginning of the first user text.
        profile: "full" keeps all it takes to give the history back equal, "portable" only what others understand.
        combine_text: Which texts of an answer make one message: those that stand together, or all.
        validation_status: Tell arguments that failed validation ("validation_error") from other errors.
        usage_actions: Add a ``system.tp.usage`` action for answers without text (portable profile).
        strict: Keep the metadata of actions apart from them, in ``thread.metadata``.

    Raises:
        TypeError: `messages` is neither a list of messages nor text; names the place.
        ValidationError: Not JSON, too large or too deep, or not a list of messages; names the place.
        SerializationError: Pydantic itself cannot dump a message.
    """

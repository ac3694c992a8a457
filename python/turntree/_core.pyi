"""The native core. Users import its classes from ``turntree``, ``turntree.upp`` and ``turntree.thread_protocol``."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import NotImplementedType
from typing import Any, ClassVar, Literal, TypeAlias, final

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
    def from_bytes(cls, data: bytes | bytearray, mime_type: str, title: str | None = None) -> Document:
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
    def __new__(cls, data: bytes | bytearray, mime_type: str, duration: float | None = None) -> Self: ...
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

    def __new__(cls, messages: Thread | Iterable[Message | Mapping[str, _Json]] | None = None) -> Self: ...
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

@final
class NodeThread(Data):
    """The thread of a node: a `Thread` that belongs to a tree. What is added to it is added to the tree. UPP-1.2 §7.

    It goes wherever a history goes. A copy, and one that was pickled, is apart from the tree.
    """

    @property
    def id(self) -> str: ...
    @property
    def messages(self) -> list[Message]:
        """The node's own messages at this moment, oldest first, in a list of its own."""
    @property
    def created_at(self) -> datetime: ...
    @property
    def updated_at(self) -> datetime: ...
    def append(self, turn: Turn) -> NodeThread:
        """Add all messages of a turn; gives the thread."""
    def push(self, *messages: Message | Mapping[str, _Json]) -> NodeThread:
        """Add messages; gives the thread."""
    def user(self, content: _Content) -> NodeThread:
        """Add a user's message; gives the thread."""
    def assistant(self, content: _Content) -> NodeThread:
        """Add a model's message; gives the thread."""
    def filter(self, type: Literal["user", "assistant", "tool_result"]) -> list[Message]:
        """Give the messages of one type, in order."""
    def tail(self, n: int) -> list[Message]:
        """Give the last `n` messages; none for 0."""
    def slice(self, start: int | None = None, end: int | None = None) -> Thread:
        """Give messages from `start` to before `end` as a new thread, apart from the tree."""
    def clear(self) -> NodeThread:
        """Take all messages away; gives the thread.

        Raises:
            ValueError: A branch starts after one of them.
        """
    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Message: ...
    def __iter__(self) -> Iterator[Message]: ...

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
    def thread(self) -> NodeThread:
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

    def __new__(
        cls, thread: Thread | NodeThread | Iterable[Message | Mapping[str, _Json]] | None = None
    ) -> Self: ...
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
    def __len__(self) -> int: ...
    def __contains__(self, id: object, /) -> bool: ...
    def __getitem__(self, id: str, /) -> ThreadNode: ...
    def __iter__(self) -> Iterator[str]: ...

"""Messages and their content, turns, usage and threads."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, ClassVar, Generic, Literal, TypeAlias, final

from typing_extensions import Self, TypeVar

from turntree._core._data import Data, Json, Metadata
from turntree._core._media import Audio, Binary, Document, Image, Video

@final
class Text(Data):
    """Plain text.

    Args:
        text: The text.

    Spec: UPP-1.2 §3.
    """

    type: ClassVar[Literal["text"]]
    def __new__(cls, text: str) -> Self: ...
    @property
    def text(self) -> str:
        """The text."""

@final
class Reasoning(Data):
    """Reasoning of a model, in assistant messages only.

    Args:
        text: The reasoning.

    Spec: UPP-1.2 §3.
    """

    type: ClassVar[Literal["reasoning"]]
    def __new__(cls, text: str) -> Self: ...
    @property
    def text(self) -> str:
        """The reasoning."""

@final
class CodeExecution(Data):
    """Code that a vendor ran for the model, and its output. In assistant messages only.

    ``message.text`` and ``turn.text`` do not contain it. The vendor receives its own parts again with the next
    request, other vendors a text. UPP-1.2 does not define this block.

    Args:
        code: The code or command.
        output: What the code wrote, errors included.
        language: The language, such as ``"python"``.
        is_error: Whether the code failed.
    """

    type: ClassVar[Literal["code_execution"]]
    def __new__(
        cls,
        code: str | None = None,
        output: str | None = None,
        *,
        language: str | None = None,
        is_error: bool | None = None,
    ) -> Self: ...
    @property
    def code(self) -> str | None:
        """The code or command; None if the vendor does not report it."""

    @property
    def language(self) -> str | None:
        """The language, such as `python` or `bash`; None if it is not known."""

    @property
    def output(self) -> str | None:
        """What the code wrote, errors included; None if the vendor does not report it."""

    @property
    def is_error(self) -> bool | None:
        """Whether the code failed; None if it did not."""

ContentBlock: TypeAlias = Text | Reasoning | Image | Document | Audio | Video | Binary | CodeExecution

ContentInput: TypeAlias = str | Iterable[str | ContentBlock | Mapping[str, Json]]

class Message(Data):
    """Base class of the messages: user, assistant and tool result messages.

    ``Message.model_validate`` and ``Message.from_json`` return an object of the matching subclass.

    Spec: UPP-1.2 §4.
    """

    @property
    def id(self) -> str:
        """Id of the message: a UUIDv4, or the vendor's id."""

    @property
    def type(self) -> Literal["user", "assistant", "tool_result"]:
        """Type of the message: "user", "assistant" or `tool_result`."""

    @property
    def timestamp(self) -> datetime:
        """Time of creation, in UTC."""

    @property
    def metadata(self) -> dict[str, dict[str, Any]] | None:
        """Metadata by provider name, or None."""

    @property
    def content(self) -> list[ContentBlock | dict[str, Any]]:
        """The content blocks; a block of an unknown type is a dict. Empty for tool results."""

    @property
    def text(self) -> str:
        """All text blocks joined by a blank line."""

    @property
    def images(self) -> list[Image]:
        """The image blocks."""

    @property
    def documents(self) -> list[Document]:
        """The document blocks."""

    @property
    def audio(self) -> list[Audio]:
        """The audio blocks."""

    @property
    def video(self) -> list[Video]:
        """The video blocks."""

    @property
    def reasoning(self) -> list[Reasoning]:
        """The reasoning blocks."""

@final
class UserMessage(Message):
    """A message of the user or the application.

    Args:
        content: A text, or a list of texts, blocks and dicts.
        id: Default: a new UUIDv4.
        metadata: Metadata by provider name.
        timestamp: A ``datetime`` (a naive one counts as UTC) or ISO 8601 text. Default: now.

    Raises:
        TypeError: An argument has the wrong type; the message names its path.
        ValidationError: A dict is not a content block.

    Spec: UPP-1.2 §4.
    """

    def __new__(
        cls,
        content: ContentInput,
        *,
        id: str | None = None,
        metadata: Metadata | None = None,
        timestamp: datetime | str | None = None,
    ) -> Self: ...

@final
class AssistantMessage(Message):
    """A message of a model.

    Args:
        content: A text, or a list of texts, blocks and dicts.
        tool_calls: The tool calls that the model requests.
        id: Default: a new UUIDv4.
        metadata: Metadata by provider name.
        timestamp: A ``datetime`` (a naive one counts as UTC) or ISO 8601 text. Default: now.

    Raises:
        TypeError: An argument has the wrong type; the message names its path.
        ValidationError: A dict is not a content block or not a tool call.

    Spec: UPP-1.2 §4.
    """

    def __new__(
        cls,
        content: ContentInput,
        tool_calls: Iterable[ToolCall | Mapping[str, Json]] | None = None,
        *,
        id: str | None = None,
        metadata: Metadata | None = None,
        timestamp: datetime | str | None = None,
    ) -> Self: ...
    @property
    def tool_calls(self) -> list[ToolCall] | None:
        """The tool calls that the model requests, or None."""

    @property
    def has_tool_calls(self) -> bool:
        """Whether the model requests tool calls."""

@final
class ToolResultMessage(Message):
    """The results of tool calls.

    Args:
        results: One result per call.
        id: Default: a new UUIDv4.
        metadata: Metadata by provider name.
        timestamp: A ``datetime`` (a naive one counts as UTC) or ISO 8601 text. Default: now.

    Raises:
        TypeError: An argument has the wrong type; the message names its path.
        ValidationError: A dict is not a tool result.

    Spec: UPP-1.2 §4.
    """

    def __new__(
        cls,
        results: Iterable[ToolResult | Mapping[str, Json]],
        *,
        id: str | None = None,
        metadata: Metadata | None = None,
        timestamp: datetime | str | None = None,
    ) -> Self: ...
    @property
    def results(self) -> list[ToolResult]:
        """One result per call, in the order of the calls."""

AnyMessage: TypeAlias = UserMessage | AssistantMessage | ToolResultMessage

@final
class ToolCall(Data):
    """A tool call that a model requests.

    Args:
        tool_call_id: The vendor's id of the call. Its result has the same id.
        tool_name: Name of the tool.
        arguments: Arguments of the call, as JSON.

    Spec: UPP-1.2 §4.
    """

    def __new__(cls, tool_call_id: str, tool_name: str, arguments: Mapping[str, Json]) -> Self: ...
    @property
    def tool_call_id(self) -> str:
        """Id of the call. Its result has the same id."""

    @property
    def tool_name(self) -> str:
        """Name of the tool."""

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of the call, a new dict each time."""

@final
class ToolResult(Data):
    """The result of a tool call.

    Args:
        tool_call_id: Id of the call.
        result: The result, any JSON value.
        is_error: Whether the tool failed; `result` is then the error message.

    Spec: UPP-1.2 §4.
    """

    def __new__(cls, tool_call_id: str, result: Json, is_error: bool = False) -> Self: ...
    @property
    def tool_call_id(self) -> str:
        """Id of the call."""

    @property
    def result(self) -> Any:
        """The result as JSON data."""

    @property
    def is_error(self) -> bool:
        """Whether the tool failed."""

@final
class ToolExecution(Data):
    """The record of one tool execution.

    Spec: UPP-1.2 §5.
    """

    def __new__(cls, **fields: Any) -> Self: ...
    @property
    def tool_name(self) -> str:
        """Name of the tool."""

    @property
    def tool_call_id(self) -> str:
        """Id of the call."""

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of the call, after changes by hooks."""

    @property
    def result(self) -> Any:
        """The result that the model received."""

    @property
    def is_error(self) -> bool:
        """Whether the tool failed."""

    @property
    def duration(self) -> int:
        """Duration in milliseconds."""

    @property
    def approved(self) -> bool | None:
        """Whether the call was approved; None if no approval was required."""

    @property
    def exception(self) -> BaseException | None:
        """The exception that the tool raised, with its traceback; None if it raised none.

        Only the turn that a run returns has it: it is not part of the data, and is not saved, pickled or compared.
        """

@final
class CycleUsage(Data):
    """Tokens of one model call.

    Spec: UPP-1.2 §6.
    """

    def __new__(cls, **fields: Any) -> Self: ...
    @property
    def input_tokens(self) -> int:
        """Input tokens."""

    @property
    def output_tokens(self) -> int:
        """Output tokens."""

    @property
    def cache_read_tokens(self) -> int:
        """Input tokens that were read from the vendor's cache."""

    @property
    def cache_write_tokens(self) -> int:
        """Input tokens that were written to the vendor's cache."""

    @property
    def total_input_tokens(self) -> int:
        """All input tokens, cached reads and writes included, whatever the vendor."""

    @property
    def reasoning_tokens(self) -> int:
        """Output tokens that the model spent on reasoning; 0 if the vendor does not report them."""

    @property
    def audio_tokens(self) -> int:
        """Input and output tokens that are audio; 0 if the vendor does not report them."""

    @property
    def cost(self) -> float | None:
        """Cost of the call in US dollars; None if it is not certain."""

@final
class TokenUsage(Data):
    """Tokens of a model call, or of all calls of a turn.

    Args:
        input_tokens: Input tokens.
        output_tokens: Output tokens.
        total_tokens: Total tokens. Default: the sum of both.
        cache_read_tokens: Input tokens that were read from the vendor's cache.
        cache_write_tokens: Input tokens that were written to the vendor's cache.
        total_input_tokens: All input tokens with cached ones. Default: `input_tokens`.
        reasoning_tokens: Output tokens spent on reasoning.
        audio_tokens: Input and output tokens that are audio.

    Spec: UPP-1.2 §6.
    """

    def __new__(
        cls,
        input_tokens: int = 0,
        output_tokens: int = 0,
        total_tokens: int | None = None,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
        *,
        total_input_tokens: int | None = None,
        reasoning_tokens: int = 0,
        audio_tokens: int = 0,
    ) -> Self: ...
    @property
    def input_tokens(self) -> int:
        """Input tokens."""

    @property
    def output_tokens(self) -> int:
        """Output tokens."""

    @property
    def total_tokens(self) -> int:
        """Total tokens, as the vendor counts them."""

    @property
    def cache_read_tokens(self) -> int:
        """Input tokens that were read from the vendor's cache."""

    @property
    def cache_write_tokens(self) -> int:
        """Input tokens that were written to the vendor's cache."""

    @property
    def cache_write_1h_tokens(self) -> int | None:
        """Tokens written to the vendor's cache for one hour; None if the vendor does not report them."""

    @property
    def total_input_tokens(self) -> int:
        """All input tokens, cached reads and writes included, whatever the vendor."""

    @property
    def reasoning_tokens(self) -> int:
        """Output tokens that the model spent on reasoning; 0 if the vendor does not report them."""

    @property
    def audio_tokens(self) -> int:
        """Input and output tokens that are audio; 0 if the vendor does not report them."""

    @property
    def requests(self) -> int:
        """Model calls: 1 if this is not a sum."""

    @property
    def cycles(self) -> list[CycleUsage] | None:
        """One entry per model call, if this is a sum."""

    @property
    def cost(self) -> float | None:
        """Cost in US dollars; None if the cost of any call is not certain."""

    @property
    def by_agent(self) -> dict[str, TokenUsage]:
        """Usage of the other agents that worked in the turn, by name or id: sub-agents, and runs inside tools."""

_DataT_co = TypeVar("_DataT_co", default=Any, covariant=True)

@final
class Turn(Data, Generic[_DataT_co]):
    """The messages and records of one run.

    Spec: UPP-1.2 §6.
    """

    def __new__(cls, **fields: Any) -> Self: ...
    @classmethod
    def __class_getitem__(cls, item: Any) -> Any:
        """Return an annotation with the type of `data`, for type checkers."""

    @property
    def messages(self) -> list[AnyMessage]:
        """The new messages in order, the user's message first."""

    @property
    def response(self) -> AssistantMessage:
        """The last assistant message."""

    @property
    def agent(self) -> str | None:
        """Name of the agent that answered, if the conversation can be handed over; None if no handoff is involved."""

    @property
    def text(self) -> str:
        """Text of the last assistant message, without its reasoning."""

    @property
    def model(self) -> str | None:
        """Id of the model that made the last assistant message; None if the message does not name it."""

    @property
    def stop_reason(self) -> str:
        """Why the last model call stopped.

        One of ``end_turn``, ``max_tokens``, ``stop_sequence``, ``tool_use``, ``content_filter``, ``refusal``,
        ``pause_turn`` and ``error``.
        """

    @property
    def raw(self) -> list[dict[str, object] | list[dict[str, object]]]:
        """The vendor's responses as they arrived: one for each model call, if ``ModelSettings(raw=True)`` kept them.

        A response is a dict; a stream is the list of its events. Empty without the setting.
        """

    @property
    def tool_executions(self) -> list[ToolExecution]:
        """Records of the tool executions, in the order in which they finished."""

    @property
    def usage(self) -> TokenUsage:
        """Tokens of the agent's own model calls. Those of agents that it called are in ``usage.by_agent``."""

    @property
    def cycles(self) -> int:
        """Number of model calls."""

    @property
    def data(self) -> _DataT_co:
        """The structured answer: an instance of the requested type, or plain data; None if none was requested."""

@final
class Thread(Data):
    """A conversation: an ordered list of messages that can be appended to.

    Args:
        messages: Initial messages; shared, not copied.

    Raises:
        TypeError: An item is not a message; the message names its index.
        ValidationError: A dict is not a message.

    Spec: UPP-1.2 §7.
    """

    def __new__(cls, messages: Thread | Iterable[Message | Mapping[str, Json]] | None = None) -> Self: ...
    @property
    def id(self) -> str:
        """Id of the thread, a UUIDv4."""

    @property
    def messages(self) -> list[AnyMessage]:
        """The messages, oldest first; a new list each time."""

    @property
    def created_at(self) -> datetime:
        """Time of creation, in UTC."""

    @property
    def updated_at(self) -> datetime:
        """Time of the last change, in UTC."""

    def append(self, turn: Turn | Mapping[str, Json]) -> Thread:
        """Append all messages of a turn and return the thread.

        Args:
            turn: The turn.
        """

    def push(self, *messages: Message | Mapping[str, Json]) -> Thread:
        """Append messages and return the thread.

        Args:
            *messages: Messages or their dicts.

        Raises:
            TypeError: An item is not a message. No message is appended.
        """

    def user(self, content: ContentInput) -> Thread:
        """Append a user message and return the thread.

        Args:
            content: A text, or a list of texts, blocks and dicts.
        """

    def assistant(self, content: ContentInput) -> Thread:
        """Append an assistant message and return the thread.

        Args:
            content: A text, or a list of texts, blocks and dicts.
        """

    def filter(self, type: Literal["user", "assistant", "tool_result"]) -> list[AnyMessage]:
        """Return the messages of one type, in order.

        Args:
            type: Type of the messages.

        Raises:
            ValueError: The type is unknown.
        """

    def tail(self, n: int) -> list[AnyMessage]:
        """Return the last messages, oldest first.

        Args:
            n: Maximum number of messages.

        Raises:
            OverflowError: `n` is negative.
        """

    def slice(self, start: int | None = None, end: int | None = None) -> Thread:
        """Return a range of messages as a new thread.

        Args:
            start: Index of the first message. Default: 0. Negative indexes count from the end.
            end: Index after the last message. Default: the length.
        """

    def clear(self) -> Thread:
        """Remove all messages and return the thread.

        Raises:
            ValueError: The thread belongs to a node of a tree, and a branch starts after one of the messages.
        """

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> AnyMessage: ...
    def __iter__(self) -> Iterator[AnyMessage]: ...

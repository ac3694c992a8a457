"""The events of a model's stream: `StreamEvent` and a subclass for each type."""

from typing import Any, Literal, final

from typing_extensions import Self

from turntree._core._data import Data, Json

class StreamEvent(Data):
    """One event of a stream. Each type has a subclass, which ``match`` and type checkers know.

    ===================================================  ==================================================
    `type`                                               `delta`
    ===================================================  ==================================================
    ``text_delta``, ``reasoning_delta``                  ``{"text": str}``
    ``object_delta``                                     ``{"text": str}``: a part of the answer's JSON
    ``image_delta``, ``audio_delta``, ``video_delta``    ``{"data": bytes}``
    ``tool_call_delta``                                  ``{"toolCallId", "toolName", "argumentsJson"}``
    ``code_execution_delta``                             ``{"code", "language", "output", "isError"}``, if reported
    ``tool_execution_start``                             ``{"toolCallId", "toolName", "timestamp"}``
    ``tool_execution_end``                               the same with ``"result"`` and ``"isError"``
    ``tool_execution_progress``                          the same with ``"progress"``: `ToolContext.report`
    ``message_start``, ``message_stop``                  ``{}``
    ``content_block_start``, ``content_block_stop``      ``{}``
    ===================================================  ==================================================

    Times are milliseconds since 1970. Events of unknown types are unchanged; their class is `StreamEvent`.

    Args:
        type: Type of the event.
        index: Index of the block in the message, or of the call in the response, from 0.
        delta: The new data, with the keys above.

    Raises:
        ValidationError: The delta does not fit the type.

    Spec: UPP-1.2 §11.1.
    """

    def __new__(cls, type: str, index: int, delta: dict[str, Json]) -> StreamEvent: ...  # noqa: PYI034
    @property
    def type(self) -> str:
        """Type of the event, such as `text_delta`."""

    @property
    def index(self) -> int:
        """Index of the block in the message, or of the call in the response, from 0."""

    @property
    def delta(self) -> dict[str, Any]:
        """The new pieces as a dict, by the specification's names; media as bytes."""

@final
class TextDelta(StreamEvent):
    """A piece of text.

    Spec: UPP-1.2 §11.1.
    """

    __match_args__ = ("text",)
    def __new__(cls, index: int, delta: dict[str, Json]) -> Self: ...
    @property
    def type(self) -> Literal["text_delta"]:
        """Type of the event, such as `text_delta`."""

    @property
    def text(self) -> str:
        """The new text."""

@final
class ReasoningDelta(StreamEvent):
    """A piece of reasoning.

    Spec: UPP-1.2 §11.1.
    """

    __match_args__ = ("text",)
    def __new__(cls, index: int, delta: dict[str, Json]) -> Self: ...
    @property
    def type(self) -> Literal["reasoning_delta"]:
        """Type of the event, such as `text_delta`."""

    @property
    def text(self) -> str:
        """The new text."""

@final
class ObjectDelta(StreamEvent):
    """A piece of the structured answer.

    Spec: UPP-1.2 §11.1.
    """

    __match_args__ = ("text",)
    def __new__(cls, index: int, delta: dict[str, Json]) -> Self: ...
    @property
    def type(self) -> Literal["object_delta"]:
        """Type of the event, such as `text_delta`."""

    @property
    def text(self) -> str:
        """The new piece, as JSON text."""

@final
class ImageDelta(StreamEvent):
    """A piece of an image.

    Spec: UPP-1.2 §11.1.
    """

    __match_args__ = ("data",)
    def __new__(cls, index: int, delta: dict[str, Json]) -> Self: ...
    @property
    def type(self) -> Literal["image_delta"]:
        """Type of the event, such as `text_delta`."""

    @property
    def data(self) -> bytes:
        """The new bytes."""

@final
class AudioDelta(StreamEvent):
    """A piece of audio.

    Spec: UPP-1.2 §11.1.
    """

    __match_args__ = ("data",)
    def __new__(cls, index: int, delta: dict[str, Json]) -> Self: ...
    @property
    def type(self) -> Literal["audio_delta"]:
        """Type of the event, such as `text_delta`."""

    @property
    def data(self) -> bytes:
        """The new bytes."""

@final
class VideoDelta(StreamEvent):
    """A piece of video.

    Spec: UPP-1.2 §11.1.
    """

    __match_args__ = ("data",)
    def __new__(cls, index: int, delta: dict[str, Json]) -> Self: ...
    @property
    def type(self) -> Literal["video_delta"]:
        """Type of the event, such as `text_delta`."""

    @property
    def data(self) -> bytes:
        """The new bytes."""

@final
class ToolCallDelta(StreamEvent):
    """A piece of a tool call.

    Spec: UPP-1.2 §11.1.
    """

    __match_args__ = ("tool_call_id", "tool_name", "arguments_json")
    def __new__(cls, index: int, delta: dict[str, Json]) -> Self: ...
    @property
    def type(self) -> Literal["tool_call_delta"]:
        """Type of the event, such as `text_delta`."""

    @property
    def tool_call_id(self) -> str:
        """Id of the call."""

    @property
    def tool_name(self) -> str:
        """Name of the tool."""

    @property
    def arguments_json(self) -> str:
        """The new piece of the arguments, as JSON text."""

@final
class CodeExecutionDelta(StreamEvent):
    """Code that a vendor ran for the model, and its output. UPP-1.2 does not define this event."""

    __match_args__ = ("code", "language", "output", "is_error")
    def __new__(cls, index: int, delta: dict[str, Json]) -> Self: ...
    @property
    def type(self) -> Literal["code_execution_delta"]:
        """Type of the event, such as `text_delta`."""

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

@final
class ToolExecutionStart(StreamEvent):
    """A tool starts.

    Spec: UPP-1.2 §11.1.
    """

    __match_args__ = ("tool_call_id", "tool_name", "timestamp")
    def __new__(cls, index: int, delta: dict[str, Json]) -> Self: ...
    @property
    def type(self) -> Literal["tool_execution_start"]:
        """Type of the event, such as `text_delta`."""

    @property
    def tool_call_id(self) -> str:
        """Id of the call."""

    @property
    def tool_name(self) -> str:
        """Name of the tool."""

    @property
    def timestamp(self) -> int:
        """The time in milliseconds since 1970."""

@final
class ToolExecutionEnd(StreamEvent):
    """A tool has returned or failed.

    Spec: UPP-1.2 §11.1.
    """

    __match_args__ = ("tool_call_id", "tool_name", "result", "is_error", "timestamp")
    def __new__(cls, index: int, delta: dict[str, Json]) -> Self: ...
    @property
    def type(self) -> Literal["tool_execution_end"]:
        """Type of the event, such as `text_delta`."""

    @property
    def tool_call_id(self) -> str:
        """Id of the call."""

    @property
    def tool_name(self) -> str:
        """Name of the tool."""

    @property
    def result(self) -> Any:
        """The result for the model, as JSON data."""

    @property
    def is_error(self) -> bool:
        """Whether the tool failed."""

    @property
    def timestamp(self) -> int:
        """The time in milliseconds since 1970."""

@final
class MessageStart(StreamEvent):
    """A response starts.

    Spec: UPP-1.2 §11.1.
    """

    __match_args__ = ()
    def __new__(cls, index: int, delta: dict[str, Json]) -> Self: ...
    @property
    def type(self) -> Literal["message_start"]:
        """Type of the event, such as `text_delta`."""

@final
class MessageStop(StreamEvent):
    """A response ends.

    Spec: UPP-1.2 §11.1.
    """

    __match_args__ = ()
    def __new__(cls, index: int, delta: dict[str, Json]) -> Self: ...
    @property
    def type(self) -> Literal["message_stop"]:
        """Type of the event, such as `text_delta`."""

@final
class ContentBlockStart(StreamEvent):
    """A content block starts.

    Spec: UPP-1.2 §11.1.
    """

    __match_args__ = ()
    def __new__(cls, index: int, delta: dict[str, Json]) -> Self: ...
    @property
    def type(self) -> Literal["content_block_start"]:
        """Type of the event, such as `text_delta`."""

@final
class ContentBlockStop(StreamEvent):
    """A content block ends.

    Spec: UPP-1.2 §11.1.
    """

    __match_args__ = ()
    def __new__(cls, index: int, delta: dict[str, Json]) -> Self: ...
    @property
    def type(self) -> Literal["content_block_stop"]:
        """Type of the event, such as `text_delta`."""

@final
class ToolExecutionProgress(StreamEvent):
    """A report of a tool that runs: `ToolContext.report`.

    Spec: UPP-1.2 §11.1.
    """

    __match_args__ = ("tool_call_id", "tool_name", "progress", "timestamp")
    def __new__(cls, index: int, delta: dict[str, Json]) -> Self: ...
    @property
    def type(self) -> Literal["tool_execution_progress"]:
        """Type of the event, such as `text_delta`."""

    @property
    def tool_call_id(self) -> str:
        """Id of the call."""

    @property
    def tool_name(self) -> str:
        """Name of the tool."""

    @property
    def progress(self) -> Any:
        """What the tool reported, as JSON data."""

    @property
    def timestamp(self) -> int:
        """The time in milliseconds since 1970."""

"""Actions of ThreadProtocol."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias, final

from typing_extensions import Self

from turntree._core._data import Data, Json
from turntree._core._thread_contents import Attachment, ContentPartOrJson, ContentPartsInput

@final
class Usage(Data):
    """Tokens of a model's answer.

    Spec: ThreadProtocol 1.0.0, "Core Actions".
    """

    def __new__(cls, input_tokens: int = 0, output_tokens: int = 0, total_tokens: int | None = None) -> Self: ...
    @property
    def input_tokens(self) -> int:
        """Input tokens."""

    @property
    def output_tokens(self) -> int:
        """Output tokens."""

    @property
    def total_tokens(self) -> int | None:
        """Total tokens."""

@final
class ThinkingUsage(Data):
    """Tokens of reasoning.

    Spec: ThreadProtocol 1.0.0, "Core Actions".
    """

    def __new__(cls, thinking_tokens: int | None = None) -> Self: ...
    @property
    def thinking_tokens(self) -> int | None:
        """Reasoning tokens, if the provider counts them separately."""

@final
class UserMessageAction(Data):
    """A message of a user.

    Args:
        content: A text, or a list of texts, content parts and dicts.
        attachments: Attachments of the message.
        timestamp: ISO 8601 text, stored unchanged, or a ``datetime``. Default: now.
        sequence: Number in the thread, from 1; 0 until a thread assigns it.
        action_id: Id of the action, optional.
        metadata: Metadata of applications, by namespace.

    Spec: ThreadProtocol 1.0.0, "Core Actions".
    """

    def __new__(
        cls,
        content: ContentPartsInput,
        *,
        attachments: Iterable[Attachment | Mapping[str, Json]] | None = None,
        timestamp: datetime | str | None = None,
        sequence: int = 0,
        action_id: str | None = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> Self: ...
    @property
    def action_type(self) -> Literal["user_message"]:
        """Type of the action."""

    @property
    def action_id(self) -> str | None:
        """Id of the action, or None."""

    @property
    def timestamp(self) -> str:
        """Timestamp, as it is written in the document."""
    @property
    def sequence(self) -> int:
        """Number in the thread, from 1; 0 before it is added to a thread."""
    @property
    def metadata(self) -> dict[str, Any] | None:
        """Metadata of applications by namespace, a new dict each time, or None."""
    @property
    def content(self) -> str | list[ContentPartOrJson]:
        """Content: a text, or a list of parts. A part of an unknown type is a dict."""
    @property
    def attachments(self) -> list[Attachment] | None:
        """Attachments of the message."""

@final
class AssistantMessageAction(Data):
    """A message of an agent.

    Args:
        content: A text, or a list of texts, content parts and dicts.
        agent_id: Id of the agent, a key of the thread's agents.
        finish_reason: Why the model stopped: "stop", "tool_call", "length" or "content_filter".
        usage: Token usage.
        timestamp: ISO 8601 text, stored unchanged, or a ``datetime``. Default: now.
        sequence: Number in the thread, from 1; 0 until a thread assigns it.
        action_id: Id of the action, optional.
        metadata: Metadata of applications, by namespace.

    Spec: ThreadProtocol 1.0.0, "Core Actions".
    """

    def __new__(
        cls,
        content: ContentPartsInput,
        *,
        agent_id: str,
        finish_reason: str | None = None,
        usage: Usage | Mapping[str, Json] | None = None,
        timestamp: datetime | str | None = None,
        sequence: int = 0,
        action_id: str | None = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> Self: ...
    @property
    def action_type(self) -> Literal["assistant_message"]:
        """Type of the action."""

    @property
    def action_id(self) -> str | None:
        """Id of the action, or None."""

    @property
    def timestamp(self) -> str:
        """Timestamp, as it is written in the document."""
    @property
    def sequence(self) -> int:
        """Number in the thread, from 1; 0 before it is added to a thread."""
    @property
    def metadata(self) -> dict[str, Any] | None:
        """Metadata of applications by namespace, a new dict each time, or None."""
    @property
    def agent_id(self) -> str:
        """Id of the agent, a key of the document's agents."""

    @property
    def content(self) -> str | list[ContentPartOrJson]:
        """Content: a text, or a list of parts. A part of an unknown type is a dict."""
    @property
    def finish_reason(self) -> str | None:
        """Why the model stopped: `stop`, `tool_call`, `length` or `content_filter`."""

    @property
    def usage(self) -> Usage | None:
        """Token usage."""

@final
class ThinkingAction(Data):
    """Reasoning of an agent.

    Args:
        content: The reasoning, as far as the provider returns it.
        agent_id: Id of the agent, a key of the thread's agents.
        provider_name: Provider of the signature.
        signature: The provider's signature, to be sent back.
        thinking_id: The provider's id of the reasoning.
        usage: Token usage.
        timestamp: ISO 8601 text, stored unchanged, or a ``datetime``. Default: now.
        sequence: Number in the thread, from 1; 0 until a thread assigns it.
        action_id: Id of the action, optional.
        metadata: Metadata of applications, by namespace.

    Spec: ThreadProtocol 1.0.0, "Core Actions".
    """

    def __new__(
        cls,
        content: str | None = None,
        *,
        agent_id: str,
        provider_name: str = "unknown",
        signature: str | None = None,
        thinking_id: str | None = None,
        usage: ThinkingUsage | Mapping[str, Json] | None = None,
        timestamp: datetime | str | None = None,
        sequence: int = 0,
        action_id: str | None = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> Self: ...
    @property
    def action_type(self) -> Literal["thinking"]:
        """Type of the action."""

    @property
    def action_id(self) -> str | None:
        """Id of the action, or None."""

    @property
    def timestamp(self) -> str:
        """Timestamp, as it is written in the document."""
    @property
    def sequence(self) -> int:
        """Number in the thread, from 1; 0 before it is added to a thread."""
    @property
    def metadata(self) -> dict[str, Any] | None:
        """Metadata of applications by namespace, a new dict each time, or None."""
    @property
    def agent_id(self) -> str:
        """Id of the agent, a key of the document's agents."""

    @property
    def content(self) -> str | None:
        """The reasoning, as far as the provider returns it."""

    @property
    def signature(self) -> str | None:
        """The provider's signature, to be sent back."""

    @property
    def provider_name(self) -> str:
        """Provider of the signature; `unknown` if it is not given."""

    @property
    def thinking_id(self) -> str | None:
        """The provider's id of the reasoning."""

    @property
    def usage(self) -> ThinkingUsage | None:
        """Token usage."""

@final
class ToolCallAction(Data):
    """A tool call of an agent.

    Args:
        tool_name: Name of the tool.
        args: The arguments, usually a dict. Default: ``{}``.
        agent_id: Id of the agent, a key of the thread's agents.
        tool_call_id: Id of the call. Its result has the same id.
        timestamp: ISO 8601 text, stored unchanged, or a ``datetime``. Default: now.
        sequence: Number in the thread, from 1; 0 until a thread assigns it.
        action_id: Id of the action, optional.
        metadata: Metadata of applications, by namespace.

    Spec: ThreadProtocol 1.0.0, "Core Actions".
    """

    def __new__(
        cls,
        tool_name: str,
        args: Json = None,
        *,
        agent_id: str,
        tool_call_id: str,
        timestamp: datetime | str | None = None,
        sequence: int = 0,
        action_id: str | None = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> Self: ...
    @property
    def action_type(self) -> Literal["tool_call"]:
        """Type of the action."""

    @property
    def action_id(self) -> str | None:
        """Id of the action, or None."""

    @property
    def timestamp(self) -> str:
        """Timestamp, as it is written in the document."""
    @property
    def sequence(self) -> int:
        """Number in the thread, from 1; 0 before it is added to a thread."""
    @property
    def metadata(self) -> dict[str, Any] | None:
        """Metadata of applications by namespace, a new dict each time, or None."""
    @property
    def agent_id(self) -> str:
        """Id of the agent, a key of the document's agents."""

    @property
    def tool_name(self) -> str:
        """Name of the tool."""

    @property
    def tool_call_id(self) -> str:
        """Id of the call. Its result has the same id."""

    @property
    def args(self) -> Any:
        """Arguments, usually an object."""

@final
class ToolReturnAction(Data):
    """The result of a tool call.

    Args:
        tool_name: Name of the tool, as in the call.
        content: The result or the error.
        tool_call_id: Id of the call.
        status: "success", "error" or "validation_error".
        timestamp: ISO 8601 text, stored unchanged, or a ``datetime``. Default: now.
        sequence: Number in the thread, from 1; 0 until a thread assigns it.
        action_id: Id of the action, optional.
        metadata: Metadata of applications, by namespace.

    Spec: ThreadProtocol 1.0.0, "Core Actions".
    """

    def __new__(
        cls,
        tool_name: str,
        content: Json,
        *,
        tool_call_id: str,
        status: str = "success",
        timestamp: datetime | str | None = None,
        sequence: int = 0,
        action_id: str | None = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> Self: ...
    @property
    def action_type(self) -> Literal["tool_return"]:
        """Type of the action."""

    @property
    def action_id(self) -> str | None:
        """Id of the action, or None."""

    @property
    def timestamp(self) -> str:
        """Timestamp, as it is written in the document."""
    @property
    def sequence(self) -> int:
        """Number in the thread, from 1; 0 before it is added to a thread."""
    @property
    def metadata(self) -> dict[str, Any] | None:
        """Metadata of applications by namespace, a new dict each time, or None."""
    @property
    def tool_call_id(self) -> str:
        """Id of the call."""

    @property
    def tool_name(self) -> str:
        """Name of the tool, as in the call."""

    @property
    def status(self) -> str:
        """`success`, `error` or `validation_error`."""

    @property
    def content(self) -> Any:
        """The result or the error."""

@final
class SystemAction(Data):
    """A system event.

    Args:
        action_type: Type of the event, with the prefix "system.".
        data: Data of the event.
        timestamp: ISO 8601 text, stored unchanged, or a ``datetime``. Default: now.
        sequence: Number in the thread, from 1; 0 until a thread assigns it.
        action_id: Id of the action, optional.
        metadata: Metadata of applications, by namespace.

    Spec: ThreadProtocol 1.0.0, "System Actions".
    """

    def __new__(
        cls,
        action_type: str,
        data: Json = None,
        *,
        timestamp: datetime | str | None = None,
        sequence: int = 0,
        action_id: str | None = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> Self: ...
    @property
    def action_type(self) -> str:
        """Type of the action."""

    @property
    def action_id(self) -> str | None:
        """Id of the action, or None."""

    @property
    def timestamp(self) -> str:
        """Timestamp, as it is written in the document."""
    @property
    def sequence(self) -> int:
        """Number in the thread, from 1; 0 before it is added to a thread."""
    @property
    def metadata(self) -> dict[str, Any] | None:
        """Metadata of applications by namespace, a new dict each time, or None."""
    @property
    def data(self) -> Any:
        """Data of the event."""

@final
class OtherAction(Data):
    """An action of an unknown type, preserved as it was read."""

    def __new__(cls, **fields: Any) -> Self: ...
    @property
    def action_type(self) -> str:
        """Type of the action."""

    @property
    def action_id(self) -> str | None:
        """Id of the action, or None."""

    @property
    def timestamp(self) -> str:
        """Timestamp, as it is written in the document."""
    @property
    def sequence(self) -> int:
        """Number in the thread, from 1; 0 before it is added to a thread."""
    @property
    def metadata(self) -> dict[str, Any] | None:
        """Metadata of applications by namespace, a new dict each time, or None."""

Action: TypeAlias = (
    UserMessageAction
    | AssistantMessageAction
    | ThinkingAction
    | ToolCallAction
    | ToolReturnAction
    | SystemAction
    | OtherAction
)

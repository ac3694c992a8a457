"""Conversions between ThreadProtocol documents and other formats."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, final

from typing_extensions import Self

from turntree._core._agent_events import AgentStreamEvent
from turntree._core._data import Json
from turntree._core._messages import ToolCall
from turntree._core._stream_events import StreamEvent
from turntree._core._thread_protocol import AgentConfig, Change, ProtocolThread

@final
class UiStreamReader:
    """Reads one UI message stream of the Vercel AI SDK as it arrives.

    The result does not depend on where the bytes are split. An error ends the stream, as in the real client; the
    chunks before it remain readable.

    Args:
        messages: The conversation before the stream, as the client has it: dicts, or their JSON.
        agent: The agent. Default: from the sidecar, else one agent called "assistant".
        thread_id: Id of the thread. Default: from the sidecar, else derived from `chat_id` or the first message.
        chat_id: Id of the chat. A UUID is used as the thread's id; otherwise the thread's id is derived from it.
        title: Default: the beginning of the first user text.
        timestamp: Time of messages without a time. Default: 1970.
        profile: "full" stores the data for an exact round trip, "portable" only standard data.
        sidecar: How much of turntree's own metadata to read: "none", "portable" (times, agents, usage), or "full" (also
            metadata and system prompts; only for messages that no client can have changed).

    UI message stream, §2 to §5.
    """

    def __new__(
        cls,
        *,
        messages: Iterable[Mapping[str, Any]] | str | bytes | bytearray | None = None,
        agent: AgentConfig | Mapping[str, Json] | None = None,
        thread_id: str | None = None,
        chat_id: str | None = None,
        title: str | None = None,
        timestamp: datetime | str | None = None,
        profile: Literal["full", "portable"] = "full",
        sidecar: Literal["none", "portable", "full"] = "portable",
    ) -> Self: ...
    def feed(self, data: Mapping[str, Any] | bytes | bytearray | str) -> None:
        """Read the next data.

        Args:
            data: One chunk as a dict, or part of the response body, split anywhere.

        Raises:
            ValidationError: The real client would stop with an error; the message names the chunk.
            TypeError: `data` is neither a dict nor bytes nor str.
        """
    @property
    def count(self) -> int:
        """Number of chunks that were read."""
    @property
    def message(self) -> dict[str, Any] | None:
        """The message so far, or None before the first chunk."""
    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation so far, the message of the stream last."""
    def thread(self) -> ProtocolThread:
        """Return the thread so far, a new object."""

@final
class UiLiveStream:
    """The native half of `turntree.thread_protocol.UiResponse`: converts events of a run to frames of a response."""

    def __new__(
        cls,
        message_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        calls: Sequence[str] = ...,
        denied: Sequence[str] = ...,
    ) -> Self: ...
    def approval(self, call: ToolCall, asks: bool, id: str) -> bytes:
        """Return the frames that show a call which waits for an approval, under an id.

        `asks`: the client knows such requests.
        """
    def start(self) -> bytes:
        """Return the frames that begin the stream."""
    def events(self, events: list[AgentStreamEvent] | list[StreamEvent]) -> bytes:
        """Return the frames of events.

        Raises:
            TypeError: An item is not an event.
        """
    def finish(self) -> bytes:
        """Return the frames that end a successful run."""
    def error(self, text: str) -> bytes:
        """Return the frames that end a failed run."""
    def abort(self) -> bytes:
        """Return the frames that end an aborted run."""

def ui_stream_headers() -> dict[str, str]:
    """Return the response headers of a UI message stream."""

def from_ui_messages(
    messages: Iterable[Mapping[str, Any]] | str | bytes | bytearray,
    *,
    agent: AgentConfig | Mapping[str, Json] | None = None,
    thread_id: str | None = None,
    chat_id: str | None = None,
    title: str | None = None,
    timestamp: datetime | str | None = None,
    profile: Literal["full", "portable"] = "full",
    sidecar: Literal["none", "portable", "full"] = "portable",
) -> ProtocolThread:
    """Create a thread from chat messages of the Vercel AI SDK, versions 5 to 7.

    Args:
        messages: The messages of `useChat`: a list of dicts, or its JSON.
        agent: The agent. Default: from the sidecar, else one agent called "assistant".
        thread_id: Id of the thread. Default: from the sidecar, else derived from `chat_id` or the first message.
        chat_id: Id of the chat. A UUID is used as the thread's id; otherwise the thread's id is derived from it.
        title: Default: the beginning of the first user text.
        timestamp: Time of messages without a time. Default: 1970.
        profile: "full" stores the data for an exact round trip, "portable" only standard data.
        sidecar: How much of turntree's own metadata to read: "none", "portable" (times, agents, usage), or "full" (also
            metadata and system prompts; only for messages that no client can have changed).

    Raises:
        TypeError: `messages` is not a list.
        ValidationError: The text is not JSON, is too large or too deep, or is not a list of messages; the message names
            the path.
    """

def from_pydantic_ai(
    messages: Sequence[Any] | str | bytes | bytearray,
    *,
    agent: AgentConfig | Mapping[str, Json] | Mapping[str, AgentConfig] | None = None,
    thread_id: str | None = None,
    title: str | None = None,
    profile: Literal["full", "portable"] = "full",
    combine_text: Literal["adjacent", "response"] = "adjacent",
    validation_status: bool = False,
    usage_actions: bool = False,
    strict: bool = False,
) -> ProtocolThread:
    """Create a thread from a Pydantic AI history. The same history and options always give the same thread.

    Args:
        messages: A list of ``ModelMessage`` objects, or their JSON as written by ``dump_json`` of any version.
        agent: The agent: one agent, or a dict of agents by run id. Default: ``metadata["agent"]`` of each message,
            else one agent called "assistant".
        thread_id: Id of the thread. Default: the conversation's id if it is a UUID, else from the first message.
        title: Default: the beginning of the first user text.
        profile: "full" stores the data for an exact round trip, "portable" only standard data.
        combine_text: Which texts of a response form one message: adjacent ones, or all.
        validation_status: Use the status "validation_error" for arguments that failed validation.
        usage_actions: Add a ``system.tp.usage`` action for responses without text (portable profile).
        strict: Store the metadata of actions in ``thread.metadata``.

    Raises:
        TypeError: `messages` is neither a list of messages nor text; the message names the path.
        ValidationError: The text is not JSON, is too large or too deep, or is not a list of messages of any version of
            Pydantic AI; the message names the path. Unknown messages, parts and members of later versions are
            preserved.
        SerializationError: Pydantic cannot dump a message.
    """

def thread_from_upp(
    messages: Any,
    *,
    agent: AgentConfig | Mapping[str, Json] | None = None,
    thread_id: str | None = None,
    title: str | None = None,
    profile: Literal["full", "portable"] = "full",
    parent: ProtocolThread | None = None,
) -> ProtocolThread:
    """Create a thread from messages of the provider layer; see `turntree.thread_protocol.from_upp`."""

def pydantic_ai_version(history: ProtocolThread | Sequence[Any] | str | bytes | bytearray) -> tuple[str, str | None]:
    """Return the versions of Pydantic AI that write the members of a history.

    Args:
        history: A thread, ``ModelMessage`` objects, or their JSON.

    Returns:
        The first version that supports all of it, and the first that would have written more (None if there is none).
        Between 2.34 and 2.68 every fourth version is known.

    Raises:
        ValidationError: The data is not a history; the message names the path.
    """

def downgrade_pydantic_ai(
    history: ProtocolThread | Sequence[Any] | str | bytes | bytearray, to: str
) -> tuple[bytes, list[Change]]:
    """Return a history in the format of an older Pydantic AI.

    Args:
        history: A thread, ``ModelMessage`` objects, or their JSON.
        to: The version, such as "1.107"; "1.x" means all versions of 1.

    Returns:
        The JSON, and the list of changes.

    Raises:
        ValueError: `to` is not a version from 1.0.
        ValidationError: The data is not a history; the message names the path.
    """

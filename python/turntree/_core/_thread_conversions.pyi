"""Conversions between ThreadProtocol documents and other formats."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, final

from typing_extensions import Self

from turntree._core._agent_events import AgentStreamEvent
from turntree._core._data import Json
from turntree._core._messages import StreamEvent
from turntree._core._thread_protocol import AgentConfig, Change, ProtocolThread

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
        agent: AgentConfig | Mapping[str, Json] | None = None,
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
    agent: AgentConfig | Mapping[str, Json] | None = None,
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
    agent: AgentConfig | Mapping[str, Json] | None = None,
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

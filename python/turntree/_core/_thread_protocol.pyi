"""ThreadProtocol documents."""

import builtins
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Literal, final, overload

from typing_extensions import Self

from turntree._core._data import Data, Json
from turntree._core._messages import Message
from turntree._core._thread_actions import Action, Usage

@final
class AgentConfig(Data):
    """One agent of a thread.

    Args:
        agent_name: Display name.
        agent_id: Default: a new UUIDv4.
        agent_identifier: Identifier. Default: derived from the name ("weather_assistant" from "Weather Assistant").
        created_at: ISO 8601 text, stored unchanged, or a ``datetime``. Default: now.
        config_ref: Reference to the full configuration.

    Spec: ThreadProtocol 1.0.0, "Agent Configuration".
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
        """Id of the agent, the same as its key in the thread."""

    @property
    def agent_identifier(self) -> str:
        """Identifier, unique in the thread, such as `fred_v1`."""

    @property
    def agent_name(self) -> str:
        """Display name, such as `Fred`."""

    @property
    def created_at(self) -> str:
        """Time of creation."""

    @property
    def config_ref(self) -> str | None:
        """Reference to the full configuration."""

@final
class Issue(Data):
    """One rule violation of a document.

    Spec: ThreadProtocol 1.0.0, "Validation Rules".
    """

    def __new__(cls, **fields: Any) -> Self: ...
    @property
    def rule(self) -> str:
        """The name of the rule, such as "sequence"."""
    @property
    def pointer(self) -> str:
        """JSON pointer to the problem."""
    @property
    def message(self) -> str:
        """Description of the problem and its remedy."""
    @property
    def severity(self) -> Literal["error", "warning"]:
        """`error` or `warning`."""
    @property
    def remedy(self) -> str:
        """How to fix the problem."""

@final
class Change(Data):
    """A change that makes a history loadable by an older Pydantic AI; reported by `downgrade_pydantic_ai`."""

    def __new__(cls, **fields: Any) -> Self: ...
    @property
    def pointer(self) -> str:
        """JSON pointer into the original history."""
    @property
    def kind(self) -> Literal["dropped", "rewritten"]:
        """`dropped` or `rewritten`."""
    @property
    def message(self) -> str:
        """Description of the change and its reason."""

@final
class ProtocolThread(Data):
    """A conversation as one document; ``turntree.thread_protocol.Thread``.

    Iterates over its actions. Immutable except that `append` adds actions at the end.

    Args:
        thread_id: Default: a new UUIDv4.
        title: Title for display.
        agents: The agents: a list, or a dict by id.
        actions: The actions in order; actions without a number get the next one.
        parent_thread_id: Id of the parent thread.
        created_at: ISO 8601 text, stored unchanged, or a ``datetime``. Default: the time of the first action, else now.
        updated_at: Default: the time of the last action.
        metadata: Metadata of applications, by namespace.

    Spec: ThreadProtocol 1.0.0, "Thread".
    """

    def __new__(
        cls,
        *,
        thread_id: str | None = None,
        title: str = "",
        agents: Mapping[str, AgentConfig | Mapping[str, Json]]
        | Iterable[AgentConfig | Mapping[str, Json]]
        | None = None,
        actions: Iterable[Action | Mapping[str, Json]] | None = None,
        parent_thread_id: str | None = None,
        created_at: datetime | str | None = None,
        updated_at: datetime | str | None = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> Self: ...
    @property
    def version(self) -> str:
        """The version of the protocol, `1.0.0`."""

    @property
    def thread_id(self) -> str:
        """Id of the thread, a UUID."""

    @property
    def parent_thread_id(self) -> str | None:
        """Id of the parent thread, or None."""

    @property
    def created_at(self) -> str:
        """Time of creation."""

    @property
    def updated_at(self) -> str:
        """Time of the last change."""

    @property
    def title(self) -> str:
        """Title for display."""

    @property
    def metadata(self) -> dict[str, Any] | None:
        """Metadata of applications by namespace, a new dict each time, or None."""
    @property
    def agents(self) -> dict[str, AgentConfig]:
        """The agents by id, a new dict each time."""
    @property
    def actions(self) -> list[Action]:
        """The actions in order, a new list each time."""
    def append(self, action: Action | Mapping[str, Json]) -> Action:
        """Add an action at the end.

        Rules between actions (a result follows its call, agents are registered) are not checked here; use `validate` or
        `check`.

        Args:
            action: An action or its dict. Default of the timestamp: now.

        Returns:
            The action with its number. The argument is unchanged.
        """
    def add_agent(self, agent: AgentConfig | Mapping[str, Json]) -> Self:
        """Add an agent, or replace the one with the same id, and return the thread."""
    def branch(self, title: str | None = None) -> Self:
        """Return a new thread that continues from the current end of this one.

        It has a new id, has this thread as its parent, and shares the actions so far.
        """
    def model_dump_json(self, *, indent: int | None = None, by_alias: bool = True, exclude_none: bool = False) -> str:
        """Return the document as JSON text, compact by default. Releases the GIL."""

    def to_json(self) -> str:
        """Return the document as JSON text, compact by default. Releases the GIL."""

    def to_json_bytes(self) -> bytes:
        """Return compact JSON in UTF-8, without a copy to str. Releases the GIL."""

    def validate(self, *, strict: bool = False) -> list[Issue]:
        """Return all violations of rules, in document order. Never raises.

        Args:
            strict: Also require that ids are UUIDs, times have an offset, all members are in the specification, and a
                JavaScript reader preserves all numbers. Warnings are errors.
        """
    def check(self, *, strict: bool = False) -> None:
        """Raise if the document is invalid. Warnings raise only with `strict`.

        Args:
            strict: As in `validate`.

        Raises:
            ValidationError: The document is invalid. `errors()` has one entry per violation.
        """
    def canonical_json(self, *, strict: bool = False, javascript: bool = False) -> bytes:
        """Return the canonical bytes (RFC 8785): the same for equal threads, whichever program wrote them.

        Different threads have different bytes: integers are exact, and members named ``__proto__`` are included.
        Times have one spelling (UTC, ``Z``, no trailing zeros) and never decrease; optional members that are null are
        absent; a thread id that is a UUID is in lower case; base64 is in the standard alphabet with padding.

        Args:
            strict: Refuse what a JavaScript reader changes: numbers that a double cannot represent, and members named
                ``__proto__``. ``validate(strict=True)`` lists them.
            javascript: Return what ``JSON.parse`` and ``JSON.stringify`` make of the thread: all numbers are doubles,
                unpaired surrogates are U+FFFD, and members named ``__proto__`` are absent.

        Raises:
            ValidationError: A time has no offset from UTC and does not name a moment; or, if `strict`, a JavaScript
                reader changes a value. `errors()` has one entry for each place.
        """
    def digest(self, *, include_times: bool = False, javascript: bool = False) -> str:
        """Return the SHA-256 of the canonical bytes as 64 hexadecimal digits.

        Args:
            include_times: Include the times of the thread, its agents and its actions. Without it they count as empty
                texts.
            javascript: As in `canonical_json`.

        Raises:
            ValidationError: With `include_times`, a time has no offset from UTC; the message names the paths.
        """
    def core(self) -> Self:
        """Return the part that all participants share: no metadata, actions renumbered."""
    def with_hoisted_metadata(self) -> Self:
        """Return the thread with the metadata of its actions in ``metadata[namespace]["actions"]``.

        A namespace that the thread's own metadata uses otherwise stays in the actions.
        """
    def system_prompt(self, agent_id: str | None = None) -> str | None:
        """Return the system prompt of an agent: its system prompts and latest instructions, or None.

        Args:
            agent_id: A key of `agents`; None for the first agent with a configuration.

        Returns:
            The leading system prompts and the latest instructions of the imported history, separated by blank lines.

        Raises:
            ValidationError: The agent is unknown, or metadata is invalid.
        """
    def usage(self) -> Usage:
        """Return the token usage of the thread."""
    def merge(self, other: Self) -> Self:
        """Merge two branches: the common actions, then the new ones of this thread, then those of `other`.

        The result is a child of this thread. Times that differ only in
        their format are equal. A call of `other` gets a new id if its id is open here; a second result of a common
        call becomes a ``system.tp.second_return``.

        Raises:
            ValueError: The threads have no common first action, or define an agent differently.
        """
    def redact(self, which: Iterable[int] | Callable[[Action], object], replacement: str = "[redacted]") -> Self:
        """Replace the contents of some actions; their type, agent and time remain.

        Also removes their round-trip metadata, and a title that repeats them. Other actions are unchanged.

        Args:
            which: Sequence numbers, or a predicate on actions.
            replacement: Replaces texts and results. Arguments become ``{}``; the data of files is removed.

        Raises:
            ValueError: A number does not exist.
        """
    def slice(
        self,
        *,
        agent_id: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
    ) -> Self:
        """Return the actions of one agent or of a time range as a new thread, renumbered.

        Args:
            agent_id: Include the actions of this agent, its tool results, and user messages.
            since: Include actions at or after this time.
            until: Include actions before this time.

        Raises:
            ValidationError: The agent is unknown.
            ValueError: A time is invalid.
        """
    def to_upp(
        self,
        agent_id: str | None = None,
        others: Literal["prefix", "hide"] = "prefix",
        tool_visibility: Literal["hide", "summarize", "show"] = "hide",
        *,
        others_role: Literal["user", "assistant"] = "user",
        attribution: str = "{agent:NAME}: ",
        system_prompts: Literal["include", "config", "omit"] = "include",
    ) -> list[Message]:
        """Return messages of the provider layer (UPP-1.2), equal to the input of `from_upp`.

        Args:
            agent_id: Agent of the view, a key of `agents`; None for the whole conversation.
            others: As in `to_pydantic_ai`.
            tool_visibility: As in `to_pydantic_ai`.
            others_role: As in `to_pydantic_ai`.
            attribution: As in `to_pydantic_ai`.
            system_prompts: "include" puts the system prompt first, as a user message, because messages have no other
                role for it. With "config" and "omit" it is not in the messages; see `system_prompt`.

        Raises:
            ValidationError: The agent is unknown, or metadata is invalid.
        """
    def to_pydantic_ai(
        self,
        agent_id: str | None = None,
        others: Literal["prefix", "hide"] = "prefix",
        tool_visibility: Literal["hide", "summarize", "show"] = "hide",
        *,
        others_role: Literal["user", "assistant"] = "user",
        attribution: str = "{agent:NAME}: ",
        system_prompts: Literal["include", "config", "omit"] = "include",
    ) -> list[Any]:
        """Return a Pydantic AI history as ``ModelMessage`` objects.

        Args:
            agent_id: Agent of the view, a key of `agents`; None for the whole history, equal to the imported one.
                Providers accept every view: results directly follow their calls, calls without a result are only at the
                end, and repeated ids in a response get a suffix (``c``, ``c:2``).
            others: Messages of other agents: with their name as a prefix, or hidden.
            tool_visibility: Tool calls of other agents: hidden, one line for a call and its result, or both with new
                ids (``agent:id``).
            others_role: Role of the messages of other agents. Messages with files have the role user.
            attribution: Prefix of these messages; NAME is replaced by the name.
            system_prompts: "include" leaves system prompts and instructions where the history has them. "config" moves
                them into the instructions of each request. "omit" leaves them out.

        Raises:
            ImportError: pydantic-ai is not installed; install ``turntree[pydantic-ai]``.
            ValidationError: The agent is unknown, metadata is invalid, or the installed version rejects a message.
        """
    def to_pydantic_ai_json(
        self,
        agent_id: str | None = None,
        others: Literal["prefix", "hide"] = "prefix",
        tool_visibility: Literal["hide", "summarize", "show"] = "hide",
        *,
        others_role: Literal["user", "assistant"] = "user",
        attribution: str = "{agent:NAME}: ",
        system_prompts: Literal["include", "config", "omit"] = "include",
        downgrade: str | None = None,
    ) -> bytes:
        """Return a Pydantic AI history as JSON, identical to the output of ``dump_json``. Does not need pydantic-ai.

        Args:
            agent_id: As in `to_pydantic_ai`.
            others: As in `to_pydantic_ai`.
            tool_visibility: As in `to_pydantic_ai`.
            others_role: As in `to_pydantic_ai`.
            attribution: As in `to_pydantic_ai`.
            system_prompts: As in `to_pydantic_ai`.
            downgrade: The target version of Pydantic AI, such as "1.107" or "1.x"; `downgrade_pydantic_ai` also
                reports the changes.

        Raises:
            ValueError: `downgrade` is not a version from 1.0.
            ValidationError: The agent is unknown, or metadata is invalid.
        """
    def to_ui_messages(
        self,
        sdk: Literal[5, 6, 7] | None = None,
        *,
        sidecar: Literal["none", "portable", "full"] = "portable",
        dynamic_tools: bool = False,
    ) -> list[dict[str, Any]]:
        """Return the conversation as chat messages of the Vercel AI SDK.

        With `sdk`, all parts are those that this major of the SDK accepts; parts that it does not have become data
        parts. Without it, messages of clients are unchanged. Attachments of users become files after the text. Numbers
        beyond the range of doubles become None, as in a browser.

        Args:
            sdk: Major version of the client's SDK. None is 6 for messages that are not from a client. Only 7 receives
                files that are stored by a provider.
            sidecar: Content of ``metadata.thread_protocol`` of other messages, from which `from_ui_messages` restores
                the thread: "portable" for its core, "full" for everything, with system prompts and metadata.
            dynamic_tools: Write calls as ``dynamic-tool``, for clients without definitions of the tools.

        Raises:
            ValueError: The version or the level is unknown.
        """
    def to_ui_stream(
        self,
        sdk: Literal[5, 6, 7] = 6,
        *,
        turns: Literal["all", "last"] = "all",
        sidecar: Literal["none", "portable", "full"] = "portable",
    ) -> Iterator[dict[str, Any]]:
        """Return the actions of agents as a UI message stream of the Vercel AI SDK, an iterator of chunks.

        The stream is a snapshot of the thread. Chunks are created during iteration.

        Args:
            sdk: Major version of the client's SDK.
            turns: All actions from the first one of an agent, or only those after the last user message.
            sidecar: As in `to_ui_messages`, in the first chunk and in one after the parts. "none" omits it.

        Raises:
            ValueError: The version, the level or the choice of turns is unknown.
        """
    def to_ui_stream_bytes(
        self,
        sdk: Literal[5, 6, 7] = 6,
        *,
        turns: Literal["all", "last"] = "all",
        sidecar: Literal["none", "portable", "full"] = "portable",
    ) -> bytes:
        """Return the same stream as a response body: server-sent events, ``[DONE]`` last.

        Args:
            sdk: As in `to_ui_stream`.
            turns: As in `to_ui_stream`.
            sidecar: As in `to_ui_stream`.

        Raises:
            ValueError: As in `to_ui_stream`.
        """
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: int, /) -> Action: ...
    @overload
    def __getitem__(self, index: builtins.slice, /) -> list[Action]: ...
    def __iter__(self) -> Iterator[Action]: ...

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
        agent_name: A name for people.
        agent_id: Default: a new UUIDv4.
        agent_identifier: A name for programs. Default: made of the name, "Weather Assistant" is "weather_assistant".
        created_at: ISO 8601 text, kept as it is, or a ``datetime``. Default: now.
        config_ref: Where its full configuration is.

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
    """One place where a document breaks a rule.

    Spec: ThreadProtocol 1.0.0, "Validation Rules".
    """

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
    """A conversation as one document; ``turntree.thread_protocol.Thread``.

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
    def actions(self) -> list[Action]:
        """The actions at this moment, in order; a list of its own."""
    def append(self, action: Action | Mapping[str, Json]) -> Action:
        """Add an action at the end.

        What actions must be to each other (a return behind its call, agents that are entered) is not refused here:
        `validate` and `check` tell it when all is said.

        Args:
            action: An action, or its dict; one without a timestamp happens now.

        Returns:
            The action with its place. The one that was given is frozen and stays as it was.
        """
    def add_agent(self, agent: AgentConfig | Mapping[str, Json]) -> Self:
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
    def redact(self, which: Iterable[int] | Callable[[Action], object], replacement: str = "[redacted]") -> Self:
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
    def __getitem__(self, index: int, /) -> Action: ...
    @overload
    def __getitem__(self, index: builtins.slice, /) -> list[Action]: ...
    def __iter__(self) -> Iterator[Action]: ...

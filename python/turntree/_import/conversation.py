"""The messages of one conversation as a tree, and that tree as the JSON of a session.

Sources that store whole histories again and again share their beginnings here: a message that follows the same messages
is added once.

Spec: UAP-1.0 §13.1
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Literal, cast
from uuid import uuid4

if TYPE_CHECKING:
    from collections.abc import Hashable

Kind = Literal["user", "assistant", "tool_result"]

NO_RESULT = "The conversation has no result of this call."
"""The text of the error result for a call without a result. Vendors refuse histories with such calls."""


@dataclass(eq=False)
class SourceMessage:
    """A message of the source.

    Attributes:
        kind: The type of message.
        id: The id in the source.
        content: Content blocks, as JSON.
        calls: Tool calls of an assistant message, as JSON.
        results: Tool results of a `tool_result` message, as JSON.
        metadata: What has no other place, by name.
        time: The time of creation.
        joins: Whether the message and the one before it, of the same type, are parts of one message.
    """

    kind: Kind
    id: str | None = None
    content: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    calls: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    results: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    time: datetime | None = None
    joins: bool = False


class Position:
    """A point in the conversation: after a message, or at the beginning.

    Attributes:
        message: The message; None at the beginning, and for messages that have no place in a conversation.
        before: The position before the message.
        key: The key that the message was added with.
        name: The name of a branch that starts with the message.
        next: The positions that follow.
    """

    __slots__ = ("before", "key", "message", "name", "next")

    def __init__(
        self, message: SourceMessage | None = None, before: Position | None = None, key: Hashable = None
    ) -> None:
        self.message = message
        self.before = before
        self.key = key
        self.name: str | None = None
        self.next: dict[Hashable, Position] = {}


@dataclass
class Counts:
    """What has no counterpart in a session, by kind.

    Attributes:
        in_metadata: What is kept in metadata.
        omitted: What is left out.
    """

    in_metadata: Counter[str] = field(default_factory=Counter[str])
    omitted: Counter[str] = field(default_factory=Counter[str])


class Conversation:
    """A conversation that is read.

    Attributes:
        start: The position before the first message.
        current: The position where the conversation goes on.
        metadata: What has no other place.
        counts: What has no counterpart.
        created: The time of creation.
        updated: The time of the last change.
    """

    def __init__(self) -> None:
        self.start = Position()
        self.current = self.start
        self.metadata: dict[str, Any] = {}
        self.counts = Counts()
        self.created: datetime | None = None
        self.updated: datetime | None = None

    def add(self, after: Position, key: Hashable, message: SourceMessage | None, name: str | None = None) -> Position:
        """Add a message after a position, unless one with this key is there. Return the position after it."""
        found = after.next.get(key)
        if found is None:
            found = after.next[key] = Position(message, after, key)
            found.name = name
        return found

    def to_session(self, id: str, agent: str, metadata: dict[str, Any]) -> BuiltSession:
        """Return the conversation as the JSON of a session."""
        created = self.created or datetime.now(timezone.utc)
        builder = _Builder(self, time_text(created))
        builder.build()
        data: dict[str, Any] = {
            "version": "1.0.0",
            "id": id,
            "agentId": agent,
            "createdAt": time_text(created),
            "updatedAt": time_text(max(self.updated or created, created)),
            "threadTree": {"rootId": builder.nodes[0]["id"], "currentId": builder.current, "nodes": builder.nodes},
            "checkpoints": [],
            "metadata": {"imported": {**metadata, **self.metadata}},
        }
        return BuiltSession(data, builder.messages, len(builder.nodes) - 1)


@dataclass
class BuiltSession:
    """A session as JSON, with the numbers of its messages and branches."""

    data: dict[str, Any]
    messages: int
    branches: int


@dataclass
class _Branch:
    """A branch that is to be built: where it starts, and the calls that have no result there."""

    first: Position | None
    parent: dict[str, Any] | None
    point: int
    open_calls: dict[str, None]
    is_current: bool = False


class _Builder:
    """Makes the nodes of a tree: the first continuation of a message is in its node, each other one is a branch."""

    def __init__(self, conversation: Conversation, created: str) -> None:
        self.conversation = conversation
        self.created = created
        self.nodes: list[dict[str, Any]] = []
        self.current = ""
        self.messages = 0
        # Whether the last message has an id of the source.
        self._has_id = False
        self._used: set[str] = set()
        self._branches = [_Branch(conversation.start, None, 0, {})]

    def build(self) -> None:
        while self._branches:
            self._build_node(self._branches.pop())

    def _build_node(self, branch: _Branch) -> None:
        node = self._new_node(branch)
        messages: list[dict[str, Any]] = node["thread"]["messages"]
        open_calls, position, joinable = dict(branch.open_calls), branch.first, False
        later: list[_Branch] = []
        while position is not None:
            if (message := position.message) is not None:
                self._append(messages, message, open_calls, joins=joinable and message.joins)
            if position.name is not None and node["parentId"] is not None and "name" not in node:
                node["name"] = position.name
            following = list(position.next.values())
            is_current = position is self.conversation.current
            if is_current and not following:
                self.current = node["id"]
            joinable = len(following) == 1 and not is_current
            starts = [_Branch(other, node, len(messages), dict(open_calls)) for other in following[1:]]
            if is_current and following:
                starts.append(_Branch(None, node, len(messages), dict(open_calls), is_current=True))
            later += starts
            position = following[0] if following else None
        if branch.is_current:
            self.current = node["id"]
        self._close(messages, open_calls)
        self._branches += reversed(later)  # the stack returns them in order

    def _new_node(self, branch: _Branch) -> dict[str, Any]:
        parent = branch.parent
        thread: dict[str, Any] = {"id": str(uuid4()), "messages": []}
        thread |= {"createdAt": self.created, "updatedAt": self.created}
        node: dict[str, Any] = {
            "id": str(uuid4()),
            "parentId": None if parent is None else parent["id"],
            "thread": thread,
            "children": [],
            "metadata": {} if parent is None else {"branchPoint": branch.point},
        }
        if parent is None:
            node["name"] = "main"
        else:
            parent["children"].append(node["id"])
        self.nodes.append(node)
        return node

    def _append(
        self, messages: list[dict[str, Any]], message: SourceMessage, open_calls: dict[str, None], *, joins: bool
    ) -> None:
        results = message.results
        if message.kind == "tool_result":
            results = [result for result in results if result["toolCallId"] in open_calls]
            self._omit("tool result without a call", len(message.results) - len(results))
            if not results:
                return
        elif open_calls and not (joins and message.kind == "assistant"):
            self._close(messages, open_calls)
        for result in results:
            open_calls.pop(result["toolCallId"], None)
        open_calls.update(dict.fromkeys(call["toolCallId"] for call in message.calls))
        previous = messages[-1] if messages else None
        if joins and previous is not None and previous["type"] == message.kind:
            if message.id is not None and not self._has_id:
                previous["id"], self._has_id = self._unused_id(message), True
            _join(previous, message, results)
            return
        self._has_id = message.id is not None
        data: dict[str, Any] = {
            "id": self._unused_id(message),
            "type": message.kind,
            "content": list(message.content),
            "timestamp": self.created if message.time is None else time_text(message.time),
        }
        if message.calls:
            data["toolCalls"] = list(message.calls)
        if message.kind == "tool_result":
            data["results"] = list(results)
        if message.metadata:
            data["metadata"] = dict(message.metadata)
        messages.append(data)
        self.messages += 1

    def _close(self, messages: list[dict[str, Any]], open_calls: dict[str, None]) -> None:
        """Add error results for the calls that have no result."""
        if not open_calls:
            return
        self._omit("tool call without a result", len(open_calls))
        results = [{"toolCallId": call, "result": NO_RESULT, "isError": True} for call in open_calls]
        open_calls.clear()
        if messages and messages[-1]["type"] == "tool_result":
            messages[-1]["results"] += results
            return
        time = messages[-1]["timestamp"] if messages else self.created
        id = str(uuid4())
        messages.append({"id": id, "type": "tool_result", "content": [], "timestamp": time, "results": results})
        self.messages += 1

    def _unused_id(self, message: SourceMessage) -> str:
        id = message.id or str(uuid4())
        if id in self._used:
            # An edited message has the id of the original.
            self.conversation.counts.omitted["message id that another message has"] += 1
            id = str(uuid4())
        self._used.add(id)
        return id

    def _omit(self, kind: str, number: int) -> None:
        if number:
            self.conversation.counts.omitted[kind] += number


def _join(previous: dict[str, Any], message: SourceMessage, results: list[dict[str, Any]]) -> None:
    previous["content"] += message.content
    if message.calls:
        previous["toolCalls"] = [*previous.get("toolCalls", ()), *message.calls]
    if results:
        previous["results"] += results
    if message.metadata:
        metadata: dict[str, Any] = previous.setdefault("metadata", {})
        for name, value in message.metadata.items():
            metadata[name] = _joined(metadata.get(name), value)


def _joined(old: Any, new: Any) -> Any:
    """Return the members of two objects in one; lists under the same name are concatenated."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    joined = dict(cast("dict[str, Any]", old))
    for name, value in cast("dict[str, Any]", new).items():
        before = joined.get(name)
        both_lists = isinstance(before, list) and isinstance(value, list)
        joined[name] = [*cast("list[Any]", before), *cast("list[Any]", value)] if both_lists else value
    return joined


def time_text(time: datetime) -> str:
    """Return a time in the form of a session's JSON: UTC, milliseconds."""
    return time.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.") + f"{time.microsecond // 1000:03}Z"


def read_time(value: object) -> datetime | None:
    """Return the time of an ISO 8601 text, also in the form of SQLite, or None. A time without a zone is in UTC."""
    if not isinstance(value, str):
        return None
    try:
        time = datetime.fromisoformat(value.replace("Z", "+00:00"))
        return (time if time.tzinfo else time.replace(tzinfo=timezone.utc)).astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None

"""Threads of LangGraph's ``SqliteSaver``.

Each checkpoint contains the whole list of messages. A thread becomes a tree: checkpoints that share a beginning share
its messages, and a checkpoint that does not continue the list of its parent is a branch.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from turntree._import.content import is_plain
from turntree._import.conversation import Conversation, read_time
from turntree._import.langchain import LangChainReader
from turntree._import.langgraph_values import StoredObject, ValueReader
from turntree._import.sqlite_source import text_of
from turntree.exceptions import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator
    from datetime import datetime

    from turntree._import.conversation import Position, SourceMessage
    from turntree._import.sqlite_source import Database

TABLES = {
    "checkpoints": {"thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "type", "checkpoint"},
    "writes": {"thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel", "type", "value"},
}
"""The tables by which the format is recognized, with their columns."""

_CHECKPOINTS = (
    "SELECT checkpoint_id, parent_checkpoint_id, type, checkpoint FROM checkpoints "
    "WHERE thread_id = ? AND checkpoint_ns = ? ORDER BY checkpoint_id"
)
_WRITES = (
    "SELECT task_id, idx, type, value, {path} FROM writes "
    "WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ? AND channel = ?"
)
_PENDING = (
    "SELECT channel, count(*) FROM writes WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ? "
    "GROUP BY channel"
)
# Channels with which LangGraph schedules nodes.
_INTERNAL = ("__", "branch:")
# The id of a removal of all messages.
_REMOVE_ALL = "__remove_all__"


def threads(database: Database, messages_key: str) -> Iterator[Thread]:
    """Yield the threads, and each namespace of a subgraph as a thread of its own."""
    values = ValueReader()
    has_path = "task_path" in database.columns()["writes"]
    statement = "SELECT DISTINCT thread_id, checkpoint_ns FROM checkpoints ORDER BY thread_id, checkpoint_ns"
    for thread, namespace in database.rows(statement):
        yield Thread(database, thread, namespace, messages_key, values, has_path)


@dataclass(frozen=True)
class Thread:
    """A thread of a database."""

    database: Database
    thread: bytes
    namespace: bytes
    messages_key: str
    values: ValueReader
    has_path: bool

    @property
    def id(self) -> str:
        """The thread's id; for the namespace of a subgraph, a slash and the namespace follow."""
        return text_of(self.thread) + (f"/{text_of(self.namespace)}" if self.namespace else "")

    @property
    def label(self) -> str:
        """The name for messages."""
        namespace = f", namespace {text_of(self.namespace)!r}" if self.namespace else ""
        return f"{self.database.path}: thread {text_of(self.thread)!r}{namespace}"

    def read(self) -> Conversation:
        """Read the thread."""
        self.values.forget()
        return _ThreadReader(self).read()


class _ThreadReader:
    """Reads one thread, checkpoint after checkpoint."""

    def __init__(self, thread: Thread) -> None:
        self.thread = thread
        self.conversation = Conversation()
        self.messages = LangChainReader(self.conversation.counts)
        self.positions: dict[str, Position] = {}
        self.state: dict[str, Any] = {}
        self._converted: dict[Hashable, tuple[Any, SourceMessage | None]] = {}
        self._ids: set[Any] = set()
        self._checkpoint = ""
        self._time: datetime | None = None

    def read(self) -> Conversation:
        thread, conversation = self.thread, self.conversation
        arguments = (text_of(thread.thread), text_of(thread.namespace))
        number = 0
        for row in thread.database.rows(_CHECKPOINTS, *arguments):
            self._checkpoint = text_of(row[0])
            self._add(row)
            number += 1
        conversation.counts.omitted["checkpoint"] += number
        self._add_rest(arguments)
        conversation.metadata["thread_id"] = arguments[0]
        if arguments[1]:
            conversation.metadata["checkpoint_ns"] = arguments[1]
        if self.messages.system:
            conversation.metadata["system"] = list(self.messages.system)
        return conversation

    def _add(self, row: tuple[Any, ...]) -> None:
        parent = None if row[1] is None else text_of(row[1])
        checkpoint = self._value(text_of(row[2]), row[3])
        if not isinstance(checkpoint, dict):
            raise self._damaged("the checkpoint is not an object")
        members = cast("dict[str, Any]", checkpoint)
        values, versions = members.get("channel_values"), members.get("channel_versions")
        if not isinstance(values, dict) or not isinstance(versions, dict):
            raise self._damaged("the checkpoint has no channel_values or channel_versions")
        self.state = cast("dict[str, Any]", values)
        conversation, key = self.conversation, self.thread.messages_key
        self._time = read_time(members.get("ts"))
        conversation.created = conversation.created or self._time
        conversation.updated = self._time or conversation.updated
        if key in self.state:
            found = self.state[key]
            if not isinstance(found, list):
                raise self._damaged(f'the channel "{key}" is not a list of messages')
            position = self._add_messages(conversation.start, cast("list[Any]", found))
        elif key in versions and parent is not None:
            position = self._add_writes(parent)
        else:
            position = conversation.start
        self.positions[self._checkpoint] = conversation.current = position

    def _add_messages(self, after: Position, values: list[Any]) -> Position:
        """Add messages after a position, unless they are there. Return the position after them."""
        for value in values:
            key = self._key(value)
            if key not in self._converted:
                try:
                    message = self.messages.convert(value)
                except ValueError as error:
                    raise self._damaged(str(error)) from error
                if message is not None:
                    message.time = self._time
                self._converted[key] = value, message
                if (id := _member(value, "id")) is not None:
                    self._ids.add(id)
            after = self.conversation.add(after, key, self._converted[key][1], self._checkpoint)
        return after

    def _key(self, value: Any) -> Hashable:
        """Return a key that equal messages have. A stored object is the same object wherever the thread contains it."""
        return id(value) if isinstance(value, StoredObject) else json.dumps(value, sort_keys=True, default=repr)

    def _add_writes(self, parent: str) -> Position:
        """Add the messages of a checkpoint that stores changes only (``DeltaChannel``): the writes of its parent."""
        thread = self.thread
        position = self.positions.get(parent)
        if position is None:
            raise self._damaged(f"its messages are stored as changes of the checkpoint {parent}, which is missing")
        statement = _WRITES.format(path="task_path" if thread.has_path else "''")
        arguments = (text_of(thread.thread), text_of(thread.namespace), parent, thread.messages_key)
        rows = sorted(thread.database.rows(statement, *arguments), key=lambda row: (row[4], row[0], row[1]))
        written = [value for row in rows for value in _written(self._value(text_of(row[2]), row[3]))]
        if not any(_member(value, "type") == "remove" or _member(value, "id") in self._ids for value in written):
            return self._add_messages(position, written)
        listed = self._values_before(position)
        for value in written:
            id = _member(value, "id")
            places = [place for place, old in enumerate(listed) if id is not None and _member(old, "id") == id]
            if _member(value, "type") == "remove":
                listed = [] if id == _REMOVE_ALL else [old for old in listed if _member(old, "id") != id]
            elif places:
                listed[places[0]] = value
            else:
                listed.append(value)
        return self._add_messages(self.conversation.start, listed)

    def _values_before(self, position: Position) -> list[Any]:
        """Return the stored messages from the beginning to a position."""
        values: list[Any] = []
        while position.before is not None:
            values.append(self._converted[position.key][0])
            position = position.before
        return values[::-1]

    def _add_rest(self, arguments: tuple[str, str]) -> None:
        """Keep the other channels of the last checkpoint, and count what was not finished."""
        counts, kept = self.conversation.counts, dict[str, Any]()
        for key, value in self.state.items():
            name = str(key)
            if name == self.thread.messages_key:
                continue
            if name.startswith(_INTERNAL):
                counts.omitted["step of the graph that was to follow"] += 1
            elif is_plain(value):
                kept[name] = value
                counts.in_metadata[f"channel {name[:60]!r}"] += 1
            else:
                counts.omitted[f"channel {name[:60]!r}"] += 1
        if kept:
            self.conversation.metadata["channels"] = kept
        if self._checkpoint:
            for channel, number in self.thread.database.rows(_PENDING, *arguments, self._checkpoint):
                counts.omitted[f"pending write of the channel {text_of(channel)[:60]!r}"] += number

    def _value(self, kind: str, data: Any) -> Any:
        try:
            return self.thread.values.read(kind, data)
        except (ValueError, RecursionError) as error:
            raise self._damaged(str(error)) from error

    def _damaged(self, reason: str) -> CorruptDataError:
        return CorruptDataError(f"{self.thread.label}, checkpoint {self._checkpoint}: {reason}")


def _written(value: Any) -> list[Any]:
    """Return the messages of a write: a list of them, or one."""
    if isinstance(value, list):
        items = cast("list[Any]", value)
        is_pair = len(items) == 2 and all(isinstance(item, str) for item in items)
        return [items] if is_pair else items
    return [value]


def _member(value: Any, name: str) -> Any:
    """Return a member of a stored message, or None."""
    members = value.value if isinstance(value, StoredObject) else value
    found = cast("dict[str, Any]", members).get(name) if isinstance(members, dict) else None
    return found if isinstance(found, str) else None

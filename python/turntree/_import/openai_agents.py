"""Sessions of the OpenAI Agents SDK: ``SQLiteSession`` and, with branches, ``AdvancedSQLiteSession``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from turntree._import.conversation import Conversation, read_time
from turntree._import.responses_items import ItemReader
from turntree._import.sqlite_source import text_of
from turntree.exceptions import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turntree._import.conversation import Position
    from turntree._import.sqlite_source import Database

_MESSAGES = {"id", "session_id", "message_data", "created_at"}
_SESSIONS = {"session_id", "created_at", "updated_at"}
_STRUCTURE = {"session_id", "message_id", "branch_id", "sequence_number"}
_USAGE = ("requests", "input_tokens", "output_tokens", "total_tokens")


def tables_of(columns: dict[str, set[str]]) -> list[str]:
    """Return the tables with items: the application chooses their names."""
    has_sessions = any(names >= _SESSIONS and "message_data" not in names for names in columns.values())
    return [name for name, names in columns.items() if names >= _MESSAGES] if has_sessions else []


def sessions(database: Database) -> Iterator[AgentSession]:
    """Yield the sessions, also those without items."""
    columns = database.columns()
    has_branches = columns.get("message_structure", set()) >= _STRUCTURE
    for table in tables_of(columns):
        name = '"' + table.replace('"', '""') + '"'
        for (session,) in database.rows(f"SELECT DISTINCT session_id FROM {name} ORDER BY session_id"):
            yield AgentSession(database, name, session, has_branches, "turn_usage" in columns)


@dataclass(frozen=True)
class AgentSession:
    """A session of a database."""

    database: Database
    table: str
    session: bytes
    has_branches: bool
    has_usage: bool

    @property
    def id(self) -> str:
        """The session's id."""
        return text_of(self.session)

    @property
    def label(self) -> str:
        """The name for messages."""
        return f"{self.database.path}: session {self.id!r}"

    def read(self) -> Conversation:
        """Read the session."""
        conversation = Conversation()
        items = ItemReader(conversation.counts)
        statement = f"SELECT id, message_data, created_at FROM {self.table} WHERE session_id = ? ORDER BY id"
        rows: dict[int, tuple[Any, Any]] = {}
        for row, data, created in self.database.rows(statement, self.id):
            time = read_time(text_of(created))
            conversation.created = conversation.created or time
            conversation.updated = time or conversation.updated
            rows[row] = self._item(row, data), time
        for name, branch in self._branches(list(rows)):
            position = conversation.start
            for row in branch:
                position = self._add(conversation, position, row, rows, items, name)
            conversation.current = position
        conversation.metadata["session_id"] = self.id
        if items.system:
            conversation.metadata["system"] = list(items.system)
        self._add_usage(conversation)
        return conversation

    def _add(
        self,
        conversation: Conversation,
        after: Position,
        row: int,
        rows: dict[int, tuple[Any, Any]],
        items: ItemReader,
        branch: str | None,
    ) -> Position:
        item, time = rows[row]
        if row in after.next:
            return after.next[row]
        try:
            message = items.convert(item)
        except ValueError as error:
            raise CorruptDataError(f"{self.label}, row {row}: {error}") from error
        if message is not None:
            message.time = time
        return conversation.add(after, row, message, branch)

    def _item(self, row: int, data: Any) -> dict[str, Any]:
        try:
            item = json.loads(data)
        except (ValueError, TypeError, RecursionError) as error:
            raise CorruptDataError(f"{self.label}, row {row}: message_data is not JSON: {error}") from error
        if not isinstance(item, dict):
            raise CorruptDataError(f"{self.label}, row {row}: expected an item, found {type(item).__name__}")
        return cast("dict[str, Any]", item)

    def _branches(self, rows: list[int]) -> list[tuple[str | None, list[int]]]:
        """Return the rows of each branch, the one that was changed last at the end."""
        if not self.has_branches:
            return [(None, rows)]
        statement = (
            "SELECT branch_id, message_id FROM message_structure WHERE session_id = ? ORDER BY sequence_number, id"
        )
        known, branches = set(rows), dict[str, list[int]]()
        for branch, row in self.database.rows(statement, self.id):
            if row in known:
                branches.setdefault(text_of(branch), []).append(row)
        if missing := known.difference(*branches.values()):
            # Items that were added without the structure, for example by SQLiteSession.
            branches.setdefault("main", []).extend(sorted(missing))
        ordered = sorted(branches.items(), key=lambda entry: max(entry[1]))
        # The first branch is the root.
        return sorted(ordered, key=lambda entry: entry[0] != "main")

    def _add_usage(self, conversation: Conversation) -> None:
        if not self.has_usage:
            return
        statement = f"SELECT branch_id, user_turn_number, {', '.join(_USAGE)} FROM turn_usage WHERE session_id = ?"
        usage: list[dict[str, Any]] = []
        for branch, turn, *numbers in self.database.rows(statement, self.id):
            counts = {name: value for name, value in zip(_USAGE, numbers, strict=True) if isinstance(value, int)}
            usage.append({"branch": text_of(branch), "turn": text_of(turn), **counts})
        if usage:
            conversation.metadata["usage"] = usage
            conversation.counts.in_metadata["token usage of a turn"] += len(usage)

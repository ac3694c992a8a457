"""What an import has done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

ImportFormat = Literal["langgraph", "openai-agents", "pydantic-ai"]
ImportStatus = Literal["imported", "empty", "exists", "failed"]


class ImportedSession(NamedTuple):
    """What `Store.import_from` has done with one conversation of the source."""

    id: str
    """The session's id in the store."""
    source: str
    """The conversation in the source, as messages name it: a file, a line, a thread."""
    status: ImportStatus
    """"imported"; "empty": it has no messages, and is not stored; "exists": the store has a session with this id, which
    stays as it is; "failed": it cannot be read."""
    messages: int
    """The number of messages of the tree."""
    branches: int
    """The number of branches of the tree, without the root."""
    in_metadata: Mapping[str, int]
    """What is kept in the metadata of the session or of its messages, because sessions have no place for it: counts by
    kind."""
    omitted: Mapping[str, int]
    """What was left out: counts by kind."""
    error: str | None
    """Why the conversation was not stored."""


class ImportReport(NamedTuple):
    """The result of `Store.import_from`."""

    format: ImportFormat
    """The format of the source."""
    dry_run: bool
    """Whether nothing was stored: the status "imported" then means that the session can be imported."""
    sessions: Sequence[ImportedSession]
    """One entry for each conversation of the source, in its order."""

    def count(self, status: ImportStatus) -> int:
        """Return the number of conversations with a status."""
        return sum(session.status == status for session in self.sessions)

    @property
    def in_metadata(self) -> dict[str, int]:
        """What is kept in metadata, of all conversations: counts by kind."""
        return _total(session.in_metadata for session in self.sessions)

    @property
    def omitted(self) -> dict[str, int]:
        """What was left out, of all conversations: counts by kind."""
        return _total(session.omitted for session in self.sessions)


def _total(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(total)

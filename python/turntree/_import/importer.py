"""Stores the conversations of a source as sessions."""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from turntree._import.formats import open_source
from turntree._import.report import ImportedSession, ImportReport
from turntree._session_id import check_id
from turntree.exceptions import ConflictError, CorruptDataError, ValidationError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping
    from os import PathLike

    from turntree._import.report import ImportFormat, ImportStatus
    from turntree._import.source import Source, SourceSession
    from turntree.store import Store


class ImportOptions(NamedTuple):
    """The arguments of `Store.import_from`."""

    source: str | PathLike[str]
    format: ImportFormat | None
    agent: str | None
    messages_key: str
    dry_run: bool
    on_error: Literal["raise", "skip"]
    progress: Callable[[int], object] | bool | None = None


def import_sessions(store: Store, options: ImportOptions, stopped: threading.Event | None = None) -> ImportReport:
    """Store the conversations of a source as sessions; see `Store.import_from`.

    Args:
        store: The store.
        options: The arguments.
        stopped: Ends the import before the next session.
    """
    if options.on_error not in ("raise", "skip"):
        message = f'on_error must be "raise" or "skip", not {options.on_error!r}'
        raise ValueError(message)
    if not (options.progress is None or isinstance(options.progress, bool) or callable(options.progress)):
        message = f"progress must be a function, not {type(options.progress).__name__}"
        raise TypeError(message)
    with open_source(options.source, options.format, options.messages_key) as source:
        return _Import(store, source, options, stopped).run()


class _Import:
    """Reads a source and stores its conversations together, so that an import that ends early stores none."""

    def __init__(self, store: Store, source: Source, options: ImportOptions, stopped: threading.Event | None) -> None:
        self.store = store
        self.source = source
        self.options = options
        self.stopped = stopped
        self.seen: set[str] = set()
        self.importer = None if options.dry_run else store._native.importer()

    def run(self) -> ImportReport:
        done: list[ImportedSession] = []
        with ExitStack() as stack:
            shown = _shown(self.options.progress, stack)
            for found in self.source.sessions():
                if self.stopped is not None and self.stopped.is_set():
                    break
                done.append(self._import(found))
                shown(done)
            else:
                done = self._store_all(done)
        return ImportReport(self.source.format, self.options.dry_run, done)

    def _store_all(self, done: list[ImportedSession]) -> list[ImportedSession]:
        """Store what was collected. Return the report of it."""
        if self.importer is None:
            return done
        skips = self.options.on_error == "skip"
        left_out = set(cast("list[str]", self.importer.commit(skips, blocking=True)))
        exists: ImportStatus = "exists"
        return [
            one._replace(status=exists, error=self._exists(one.source, one.id)) if one.id in left_out else one
            for one in done
        ]

    def _exists(self, label: str, id: str) -> str:
        return f'{label}: the store has a session "{id}"; delete it, or import into another store'

    def _import(self, found: SourceSession) -> ImportedSession:
        id = session_id(found.id)
        try:
            conversation = found.read()
            metadata = {"format": self.source.format, "file": Path(self.options.source).name, "id": found.id}
            session = conversation.to_session(id, self.options.agent or self.source.format, metadata)
            counts = conversation.counts
            if id != found.id:
                counts.in_metadata["id that a session cannot have"] += 1
            text = _text_of(session.data, counts.omitted)
            status = self._add(id, text) if session.messages else "empty"
        except (CorruptDataError, ValidationError) as error:
            if self.options.on_error == "raise":
                raise
            return ImportedSession(id, found.label, "failed", 0, 0, {}, {}, str(error))
        reason = None
        if status == "exists":
            reason = self._exists(found.label, id)
            if self.options.on_error == "raise":
                raise ConflictError(reason)
        elif status == "empty":
            reason = f"{found.label}: no messages"
        kept, omitted = dict(counts.in_metadata), dict(counts.omitted)
        return ImportedSession(id, found.label, status, session.messages, session.branches, kept, omitted, reason)

    def _add(self, id: str, text: str) -> ImportStatus:
        """Add a session to those that will be stored, or find out that the store has it."""
        if id in self.seen or self.store.load_sync(id) is not None:
            return "exists"
        self.seen.add(id)
        if self.importer is not None:
            self.importer.add(text)
        return "imported"


def _shown(
    progress: Callable[[int], object] | bool | None,  # noqa: FBT001
    stack: ExitStack,
) -> Callable[[list[Any]], object]:
    """Return a function that shows how far the import is."""
    if not progress:
        return lambda done: None
    if callable(progress):
        return lambda done: progress(len(done))
    from turntree._progress import drawing

    bar, began = drawing(None, "conversations"), time.monotonic()
    stack.callback(bar.close)
    failed = 0

    def draw(done: list[Any]) -> None:
        nonlocal failed
        failed += done[-1].status == "failed"
        rate = f"{len(done) / max(time.monotonic() - began, 1e-6):,.0f}/s"
        bar.draw(len(done), f"{rate} · {failed} failed" if failed else rate)

    return draw


def session_id(id: str) -> str:
    """Return the id of the session: that of the source, or one made from it if a session cannot have it."""
    try:
        check_id(id)
    except ValidationError:
        return "imported-" + hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return id


def _text_of(data: Mapping[str, Any], omitted: Any) -> str:
    """Return a session as JSON. Surrogates without a pair, which JSON in UTF-8 cannot have, are replaced."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    valid = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if valid != text:
        omitted["invalid character"] += 1
    return valid


__all__ = ["ImportOptions", "import_sessions", "session_id"]

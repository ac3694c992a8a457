"""Finds out the format of a source, and opens it."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from turntree._import import langgraph, openai_agents, pydantic_ai
from turntree._import.report import ImportFormat
from turntree._import.source import Source
from turntree._import.sqlite_source import MAGIC, open_database

if TYPE_CHECKING:
    from collections.abc import Generator
    from os import PathLike

    from turntree._import.sqlite_source import Database

FORMATS: tuple[ImportFormat, ...] = get_args(ImportFormat)


@contextmanager
def open_source(path: str | PathLike[str], format: ImportFormat | None, messages_key: str) -> Generator[Source]:
    """Open a source for reading.

    Args:
        path: The file or the folder.
        format: The format; None finds it out.
        messages_key: The channel of LangGraph that has the messages.

    Raises:
        CorruptDataError: The file is damaged.
        OSError: The file cannot be read.
        ValueError: The format is unknown, or the source has another one.
    """
    if format is not None and format not in FORMATS:
        message = f"unknown format {format!r}; expected one of: {', '.join(FORMATS)}"
        raise ValueError(message)
    source = Path(path)
    if source.is_dir() or not _is_sqlite(source):
        if format not in (None, "pydantic-ai"):
            message = f"{source}: not a SQLite file, which the format {format} is"
            raise ValueError(message)
        yield Source("pydantic-ai", lambda: pydantic_ai.histories(source))
        return
    with open_database(source) as database:
        found = _format_of(database)
        if format is not None and format not in found:
            message = f"{source}: a SQLite file without the tables of the format {format}"
            raise ValueError(message)
        if not found or (format is None and len(found) > 1):
            message = (
                f"{source}: has the tables of {' and '.join(found)}; choose one format"
                if found
                else f"{source}: has neither the tables of LangGraph's SqliteSaver nor those of the OpenAI Agents SDK"
            )
            raise ValueError(message)
        if (format or found[0]) == "langgraph":
            yield Source("langgraph", lambda: langgraph.threads(database, messages_key))
        else:
            yield Source("openai-agents", lambda: openai_agents.sessions(database))


def _is_sqlite(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def _format_of(database: Database) -> list[ImportFormat]:
    columns = database.columns()
    found: list[ImportFormat] = []
    if all(columns.get(table, set()) >= names for table, names in langgraph.TABLES.items()):
        found.append("langgraph")
    if openai_agents.tables_of(columns):
        found.append("openai-agents")
    return found

"""Histories of Pydantic AI: JSON files, JSON Lines, and folders of both."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from turntree import _core
from turntree._import.content import is_plain
from turntree._import.conversation import Conversation, SourceMessage, read_time, time_text
from turntree.exceptions import CorruptDataError, ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turntree._import.conversation import Counts

_LINES = frozenset({".jsonl", ".ndjson"})
_CONVERTED = frozenset({"user-prompt", "text", "thinking", "tool-call", "tool-return", "file"})
_RESPONSE_MEMBERS = (
    "usage",
    "model_name",
    "provider_name",
    "provider_response_id",
    "provider_details",
    "finish_reason",
    "metadata",
)
METADATA = "pydantic-ai"
"""The name in the metadata of a message under which the rest of a response is kept."""


def histories(path: Path) -> Iterator[History]:
    """Yield the histories of a file, of each line of a file, or of all files below a folder.

    Raises:
        CorruptDataError: A folder has no such file.
    """
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix in {".json", *_LINES} and file.is_file())
        if not files:
            raise CorruptDataError(f"{path}: no file in it ends in .json, .jsonl or .ndjson")
    for file in files:
        stem = (file.relative_to(path) if path.is_dir() else Path(file.name)).with_suffix("").as_posix()
        if file.suffix not in _LINES:
            yield History(str(file), stem, file)
            continue
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield History(f"{file}: line {number}", f"{stem}-{number}", line)


@dataclass(frozen=True)
class History:
    """A history, in a file or in the bytes of a line."""

    label: str
    id: str
    content: Path | bytes

    def read(self) -> Conversation:
        """Read the history."""
        data = self.content if isinstance(self.content, bytes) else self.content.read_bytes()
        try:
            thread = _core.from_pydantic_ai(data, profile="portable")
            history = json.loads(data)
        except (TypeError, ValidationError, ValueError, RecursionError) as error:
            raise CorruptDataError(f"{self.label}: {error}") from error
        conversation = Conversation()
        messages = cast("list[dict[str, Any]]", history)
        system, responses = _add_counts(conversation, messages)
        position = conversation.start
        for number, message in enumerate(thread.to_upp(system_prompts="omit")):
            value: dict[str, Any] = message.to_dict()
            metadata = dict[str, Any](value.get("metadata") or {})
            if message.type == "assistant" and (rest := responses.pop(value["timestamp"], None)):
                metadata[METADATA] = rest
            added = SourceMessage(
                message.type,
                message.id,
                value.get("content") or [],
                value.get("toolCalls") or [],
                value.get("results") or [],
                metadata,
                read_time(value.get("timestamp")),
            )
            position = conversation.add(position, number, added)
            conversation.created = conversation.created or added.time
            conversation.updated = added.time or conversation.updated
        conversation.current = position
        if responses:
            # Responses without a message, for example those that have reasoning only.
            conversation.metadata["responses"] = list(responses.values())
        if system:
            conversation.metadata["system"] = list(system)
        return conversation


def _add_counts(
    conversation: Conversation, messages: list[dict[str, Any]]
) -> tuple[dict[str, None], dict[str, dict[str, Any]]]:
    """Return the system prompts, and the rest of each response by its time. Count what has no counterpart."""
    counts, system = conversation.counts, dict[str, None]()
    responses: dict[str, dict[str, Any]] = {}
    ids = {name: dict[str, None]() for name in ("conversation_id", "run_id")}
    for message in messages:
        for name, found in ids.items():
            if isinstance(value := message.get(name), str):
                found[value] = None
        instructions = message.get("instructions")
        if isinstance(instructions, str) and instructions:
            system[instructions] = None
            counts.in_metadata["instructions"] += 1
        parts = message.get("parts")
        for part in cast("list[Any]", parts) if isinstance(parts, list) else []:
            if isinstance(part, dict):
                _count_part(cast("dict[str, Any]", part), system, counts)
        if message.get("kind") != "response":
            continue
        rest = {name: value for name in _RESPONSE_MEMBERS if (value := message.get(name))}
        time = read_time(message.get("timestamp"))
        if not is_plain(rest):
            counts.omitted["members of a response that are not JSON"] += 1
            continue
        if rest.get("usage"):
            counts.in_metadata["token usage of a message"] += 1
        if rest and time is not None:
            responses[time_text(time)] = rest
    for name, found in ids.items():
        if found:
            conversation.metadata[name] = list(found)
            counts.in_metadata[name] += len(found)
    return system, responses


def _count_part(part: dict[str, Any], system: dict[str, None], counts: Counts) -> None:
    kind, content = str(part.get("part_kind")), part.get("content")
    if kind == "system-prompt":
        if isinstance(content, str):
            system[content] = None
        counts.in_metadata["system prompt"] += 1
    elif kind not in _CONVERTED and not (kind == "retry-prompt" and part.get("tool_name")):
        counts.omitted[f"part {kind[:60]!r}"] += 1
    if part.get("signature"):
        counts.omitted["signature of reasoning"] += 1

"""Items of OpenAI's Responses API as messages of a conversation.

The items of one response are parts of one message: its reasoning, texts and calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from turntree._import.content import arguments_of, blocks_of, is_plain
from turntree._import.conversation import SourceMessage

if TYPE_CHECKING:
    from turntree._import.conversation import Counts

METADATA = "openai-agents"
"""The name in the metadata of a message under which items without a counterpart are kept, in `items`."""

_SYSTEM = frozenset({"system", "developer"})


class ItemReader:
    """Converts items.

    Attributes:
        system: The texts of system and developer messages, in order, without repetitions.
    """

    def __init__(self, counts: Counts) -> None:
        self.system: dict[str, None] = {}
        self._counts = counts

    def convert(self, item: dict[str, Any]) -> SourceMessage | None:
        """Return a message, or a part of one, or None if the item is no message.

        Raises:
            ValueError: The item has no type and no role, or lacks what its type requires.
        """
        kind = item.get("type")
        if kind in (None, "message"):
            return self._message(item)
        if kind == "function_call":
            return self._call(item)
        if kind == "function_call_output":
            return self._output(item)
        if kind == "reasoning":
            self._omit_id(item)
            return SourceMessage("assistant", content=blocks_of([item], self._counts.omitted), joins=True)
        return self._other(item, str(kind)[:60])

    def _message(self, item: dict[str, Any]) -> SourceMessage | None:
        role, content = str(item.get("role")), item.get("content")
        blocks = blocks_of(content, self._counts.omitted)
        if role == "user":
            return SourceMessage("user", _text(item, "id"), blocks)
        if role == "assistant":
            return SourceMessage("assistant", _text(item, "id"), blocks, joins=True)
        if role in _SYSTEM:
            texts = [block["text"] for block in blocks if block["type"] == "text"]
            self.system["\n\n".join(texts)] = None
            self._counts.in_metadata["system message"] += 1
            return None
        message = f"expected an item with a type or with the role user, assistant, system or developer, found {role!r}"
        raise ValueError(message)

    def _call(self, item: dict[str, Any]) -> SourceMessage:
        id, name = _text(item, "call_id"), _text(item, "name")
        arguments = arguments_of(item.get("arguments"))
        if id is None or name is None:
            message = "the function_call has no call_id or no name"
            raise ValueError(message)
        if arguments is None:
            self._counts.omitted["arguments of a tool call that are not JSON"] += 1
        call = {"toolCallId": id, "toolName": name, "arguments": arguments or {}}
        self._omit_id(item)
        return SourceMessage("assistant", calls=[call], joins=True)

    def _output(self, item: dict[str, Any]) -> SourceMessage:
        call, output = _text(item, "call_id"), item.get("output")
        if call is None:
            message = "the function_call_output has no call_id"
            raise ValueError(message)
        self._omit_id(item)
        if not is_plain(output):
            self._counts.omitted["content of a tool result that is not JSON"] += 1
            output = None
        result = {"toolCallId": call, "result": output, "isError": False}
        return SourceMessage("tool_result", results=[result], joins=True)

    def _other(self, item: dict[str, Any], kind: str) -> SourceMessage | None:
        """Keep an item without a counterpart, such as a call of a tool that OpenAI runs, in the metadata."""
        if not is_plain(item):
            self._counts.omitted[f"item {kind!r}"] += 1
            return None
        self._counts.in_metadata[f"item {kind!r}"] += 1
        return SourceMessage("assistant", metadata={METADATA: {"items": [item]}}, joins=True)

    def _omit_id(self, item: dict[str, Any]) -> None:
        """Count the id of a part of a message: only the message has one."""
        if _text(item, "id") is not None:
            self._counts.omitted["id of an item"] += 1


def _text(item: dict[str, Any], name: str) -> str | None:
    value = cast("object", item.get(name))
    return value if isinstance(value, str) and value else None

"""Messages of LangChain as messages of a conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from turntree._import.content import arguments_of, blocks_of, is_plain
from turntree._import.conversation import SourceMessage
from turntree._import.langgraph_values import StoredObject

if TYPE_CHECKING:
    from turntree._import.conversation import Counts

METADATA = "langchain"
"""The name in the metadata of a message under which the rest of it is kept."""

_ROLES = {"human": "user", "user": "user", "ai": "assistant", "assistant": "assistant", "AIMessageChunk": "assistant"}
_RESULTS = frozenset({"tool", "function"})
_SYSTEM = frozenset({"system", "developer"})
_REST = ("usage_metadata", "response_metadata", "additional_kwargs", "artifact", "name")
_KINDS = {
    "usage_metadata": "token usage of a message",
    "response_metadata": "response metadata of a message",
    "additional_kwargs": "additional_kwargs of a message",
    "artifact": "artifact of a tool result",
    "name": "name of a message",
}


class LangChainReader:
    """Converts messages.

    Attributes:
        system: The texts of system messages, in order, without repetitions.
    """

    def __init__(self, counts: Counts) -> None:
        self.system: dict[str, None] = {}
        self._counts = counts

    def convert(self, value: Any) -> SourceMessage | None:
        """Return a message, or None if a conversation has no such message.

        Args:
            value: A stored object, a dict with ``role`` or ``type``, a pair of role and content, or a text.

        Raises:
            ValueError: The value is no message.
        """
        members = _members(value)
        role = str(members.get("type") or members.get("role"))
        if role == "chat":
            role = str(members.get("role"))
        if role in _SYSTEM:
            self._system(members)
            return None
        if role in _ROLES:
            return self._assistant(members) if _ROLES[role] == "assistant" else self._user(members)
        if role in _RESULTS:
            return self._result(members)
        self._counts.omitted[f"message of the type {role[:60]!r}"] += 1
        return None

    def _system(self, members: dict[str, Any]) -> None:
        blocks = blocks_of(members.get("content"), self._counts.omitted)
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        if texts:
            self.system["\n\n".join(texts)] = None
            self._counts.in_metadata["system message"] += 1

    def _user(self, members: dict[str, Any]) -> SourceMessage:
        content = blocks_of(members.get("content"), self._counts.omitted)
        return SourceMessage("user", _id(members), content, metadata=self._rest(members))

    def _assistant(self, members: dict[str, Any]) -> SourceMessage:
        content = blocks_of(members.get("content"), self._counts.omitted)
        calls: list[dict[str, Any]] = []
        for call in _list(members.get("tool_calls")):
            converted = _call(call)
            if converted is None:
                self._counts.omitted["tool call without a name, an id or arguments"] += 1
            else:
                calls.append(converted)
        if invalid := len(_list(members.get("invalid_tool_calls"))):
            self._counts.omitted["invalid tool call"] += invalid
        return SourceMessage("assistant", _id(members), content, calls, metadata=self._rest(members))

    def _result(self, members: dict[str, Any]) -> SourceMessage | None:
        call, content = members.get("tool_call_id"), members.get("content")
        if not isinstance(call, str):
            self._counts.omitted["tool result without a call"] += 1
            return None
        if not is_plain(content):
            self._counts.omitted["content of a tool result that is not JSON"] += 1
            content = None
        result = {"toolCallId": call, "result": content, "isError": members.get("status") == "error"}
        members = {**members, "name": None}  # the name of the tool, which the call has
        return SourceMessage("tool_result", _id(members), results=[result], metadata=self._rest(members), joins=True)

    def _rest(self, members: dict[str, Any]) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for name in _REST:
            value = members.get(name)
            if not value:
                continue
            if name == "additional_kwargs" and isinstance(value, dict):
                # What older versions of LangChain stored beside `tool_calls`.
                value = {key: item for key, item in cast("dict[str, Any]", value).items() if key != "tool_calls"}
                if not value:
                    continue
            if is_plain(value):
                kept[name] = value
                self._counts.in_metadata[_KINDS[name]] += 1
            else:
                self._counts.omitted[_KINDS[name]] += 1
        return {METADATA: kept} if kept else {}


def _members(value: Any) -> dict[str, Any]:
    if isinstance(value, StoredObject):
        members = value.value
        if isinstance(members, dict):
            found = cast("dict[str, Any]", members)
            return found if found.get("type") else {**found, "type": _type_of_class(value.name)}
    elif isinstance(value, dict):
        found = cast("dict[str, Any]", value)
        if "role" in found or "type" in found:
            return found
    elif isinstance(value, str):
        return {"type": "human", "content": value}
    elif isinstance(value, list) and len(cast("list[Any]", value)) == 2:
        role, content = cast("list[Any]", value)
        if isinstance(role, str):
            return {"role": role, "content": content}
    shown = value.name if isinstance(value, StoredObject) else type(cast("object", value)).__name__
    message = f"expected a message of LangChain, found {shown}"
    raise ValueError(message)


def _type_of_class(name: str) -> str:
    """Return the type of a message by its class, such as "human" for ``HumanMessage``."""
    return name.removesuffix("Chunk").removesuffix("Message").lower()


def _call(value: Any) -> dict[str, Any] | None:
    if not isinstance(value, dict):
        return None
    call = cast("dict[str, Any]", value)
    function = call.get("function")  # the form of OpenAI
    if isinstance(function, dict):
        inner = cast("dict[str, Any]", function)
        call = {"id": call.get("id"), "name": inner.get("name"), "args": arguments_of(inner.get("arguments"))}
    id, name, arguments = call.get("id"), call.get("name"), arguments_of(call.get("args"))
    if not isinstance(id, str) or not isinstance(name, str) or arguments is None:
        return None
    return {"toolCallId": id, "toolName": name, "arguments": arguments}


def _id(members: dict[str, Any]) -> str | None:
    id = members.get("id")
    return id if isinstance(id, str) and id else None


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []

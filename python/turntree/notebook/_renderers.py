"""Which function renders which class."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from turntree import _core
from turntree._repr_parts import literal_of, parts_of
from turntree._reprs import class_of, count, without_ends
from turntree.notebook import _conversation, _graph, _usage
from turntree.notebook._page import ENTRIES, Page

if TYPE_CHECKING:
    from collections.abc import Callable

# Characters of a member in a table of members, and of a part in a table of parts of a repr.
_MEMBER = 60
_PART = 400
# Rows of a table: the entries of a list, and how many are left out.
_ROWS = ENTRIES + 1

_ProtocolThread: type[Any] = _core.ProtocolThread

_HTML: dict[type[Any], Callable[[Any], str]] = {
    _core.Turn: _conversation.turn_html,
    _core.UserMessage: lambda message: _conversation.messages_html([message]),
    _core.AssistantMessage: lambda message: _conversation.messages_html([message]),
    _core.ToolResultMessage: lambda message: _conversation.messages_html([message]),
    _core.Thread: lambda thread: _conversation.messages_html(thread.messages, count(len(thread), "message")),
    _core.ThreadNode: lambda node: _conversation.messages_html(node.thread.messages, node.name or node.id),
    _core.ThreadTree: _graph.tree_html,
    _core.ThreadDiff: _conversation.diff_html,
    _core.ExecutionState: _graph.state_html,
    _core.Checkpoint: lambda checkpoint: _graph.state_html(checkpoint.state),
    _core.TokenUsage: _usage.usage_html,
    _core.ToolExecution: _conversation.execution_html,
    _core.ToolCall: _conversation.call_html,
    _ProtocolThread: _conversation.protocol_html,
}

_MARKDOWN: dict[type[Any], Callable[[Any], str]] = {
    _core.Turn: _conversation.turn_markdown,
    _core.UserMessage: _conversation.message_markdown,
    _core.AssistantMessage: _conversation.message_markdown,
    _core.ToolResultMessage: _conversation.message_markdown,
    _core.Thread: lambda thread: _conversation.messages_markdown(thread.messages),
    _ProtocolThread: _conversation.protocol_markdown,
}

# The attributes that rich shows, where those of the data would be too many or too long.
_RICH: dict[type[Any], Callable[[Any], list[Any]]] = {
    _core.Turn: lambda turn: [
        turn.text,
        ("tools", [execution.tool_name for execution in turn.tool_executions], []),
        ("tokens", turn.usage.total_tokens),
        ("cost", turn.usage.cost, None),
    ],
    _core.UserMessage: lambda message: [message.text],
    _core.AssistantMessage: lambda message: [message.text, ("tool_calls", message.tool_calls or [], [])],
    _core.ToolResultMessage: lambda message: [message.results],
    _core.Thread: lambda thread: [thread.messages],
    _core.ThreadTree: lambda tree: [("nodes", len(tree)), ("current", tree.current.name or tree.current.id)],
    _core.ThreadNode: lambda node: [node.name or node.id, ("messages", len(node.thread))],
    _ProtocolThread: lambda thread: [
        thread.title,
        ("agents", [agent.agent_name or id for id, agent in thread.agents.items()]),
        ("actions", len(thread.actions)),
    ],
}


def html(value: Any) -> str:
    """Return a value as HTML: by the renderer of its class, else as a table of its members."""
    return _HTML.get(class_of(value), _table)(value)


def parts_html(value: Any) -> str:
    """Return an object that is no data as a table of the parts of its repr."""
    rows = [(name, literal_of(part, 4 * _PART)) for name, part in parts_of(value)]
    return _rows(type(value).__name__, rows, _PART)


def _table(value: Any) -> str:
    rows: list[tuple[str | None, str]] = []
    for name, member in value.model_dump(by_alias=False).items():
        # A text that is cut has no closing quotation mark.
        cut = member[:_MEMBER] if isinstance(member, str) else member
        rows.append((name, json.dumps(cut, ensure_ascii=False, default=repr)))
    return _rows(type(value).__name__, rows, _MEMBER)


def _rows(caption: str, rows: list[tuple[str | None, str]], limit: int) -> str:
    """Return a table of names and values; a value without a name has a row of its own."""
    page = Page()
    page.add(f"<table><caption>{page.line(caption)}</caption>")
    for name, text in rows[:_ROWS]:
        head = '<td colspan="2">' if name is None else f"<th>{page.line(name)}</th><td>"
        page.add(f"<tr>{head}<code>{page.line(text, limit)}</code></td></tr>")
    page.add("</table>")
    page.entries(len(rows), _ROWS, "attributes")
    return page.html()


def markdown(value: Any) -> str | None:
    """Return a value as Markdown; None if its class has no renderer."""
    render = _MARKDOWN.get(class_of(value))
    return None if render is None else render(value)


def rich(value: Any) -> list[Any]:
    """Return the parts of the repr of a value for rich."""
    parts = _RICH.get(class_of(value))
    if parts is None:
        return _members(value)
    # A tuple is a name with a value, and the value that is not shown.
    return [tuple(without_ends([*part])) if class_of(part) is tuple else without_ends(part) for part in parts(value)]


def _members(value: Any) -> list[Any]:
    # rich shortens nothing.
    return [(name, without_ends(member)) for name, member in value.model_dump(by_alias=False).items()]

"""Messages, turns and threads as HTML and Markdown."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any

from turntree import _core
from turntree._reprs import count
from turntree.notebook._markdown import to_html, without_formulas
from turntree.notebook._page import (
    ENTRIES,
    TEXT,
    TOTAL,
    USER,
    Page,
    colour_of,
    escape,
    money,
    one_line,
    plain,
    seconds,
)
from turntree.notebook._usage import usage_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# In Markdown: an image, and the end of a link or of a reference whose address is not of the web or of mail.
_IMAGE = re.compile(r"!(?=\[)")
_OTHER_LINK = re.compile(r"\][(:](?=\s*[\w+.\\-]+:)(?!\s*(?:https?|mailto):)", re.IGNORECASE)

# Tool calls that one turn or message shows.
_CALLS = 50


def messages_html(messages: Sequence[_core.Message], title: str = "") -> str:
    """Return messages as a conversation."""
    page = Page()
    if title:
        page.add(f'<p class="dim">{page.line(title)}</p>')
    add_messages(page, messages)
    return page.html()


def add_messages(page: Page, messages: Sequence[_core.Message]) -> None:
    """Add messages: calls with their results, which follow in another message."""
    results = {
        result.tool_call_id: result
        for message in islice(messages, 2 * ENTRIES)
        if isinstance(message, _core.ToolResultMessage)
        for result in message.results
    }
    called: set[str] = set()
    for message in islice(messages, ENTRIES):
        _message(page, message, results, called)
    page.entries(len(messages), ENTRIES, "messages")


def _message(page: Page, message: _core.Message, results: Mapping[str, _core.ToolResult], called: set[str]) -> None:
    if isinstance(message, _core.ToolResultMessage):
        others = [result for result in message.results if result.tool_call_id not in called]
        if others:
            page.add('<div class="m"><b>tools</b>')
            for result in others[:_CALLS]:
                _call(page, result.tool_call_id, None, result.result, failed=result.is_error)
            page.entries(len(others), _CALLS, "results")
            page.add("</div>")
        return
    is_user = message.type == "user"
    colour = USER if is_user else colour_of(0)
    page.add(f'<div class="m" style="--c:{colour}"><b>{message.type}</b>')
    _blocks(page, message.content, as_markdown=not is_user)
    calls = (message.tool_calls or []) if isinstance(message, _core.AssistantMessage) else []
    for call in calls[:_CALLS]:
        called.add(call.tool_call_id)
        returned = results.get(call.tool_call_id)
        failed = returned is not None and returned.is_error
        _call(page, call.tool_name, call.arguments, _MISSING if returned is None else returned.result, failed=failed)
    page.entries(len(calls), _CALLS, "tool calls")
    page.add("</div>")


# A call without a result.
_MISSING: Any = object()


def _blocks(page: Page, blocks: Iterable[Any], *, as_markdown: bool) -> None:
    shown = list(islice(blocks, ENTRIES + 1))
    for block in shown[:ENTRIES]:
        if isinstance(block, _core.Reasoning):
            page.add(f"<details><summary>reasoning</summary>{page.pre(block.text, TEXT)}</details>")
        elif isinstance(block, _core.CodeExecution):
            failed = " class=bad" if block.is_error else ""
            page.add(f"<details{failed}><summary>code that the vendor ran</summary>")
            for text in filter(None, (block.code, block.output)):
                page.add(page.pre(text, TEXT))
            page.add("</details>")
        elif not isinstance(block, _core.Text):
            page.add(f'<p class="dim">[{_media(block)}]</p>')
        elif as_markdown:
            text, note = page.cut(block.text)
            page.add(to_html(text), note)
        else:
            page.add(page.pre(block.text, TEXT))
    page.entries(len(shown), ENTRIES, "blocks")


def _media(block: Any) -> str:
    """Return what a block is. Media are not embedded, since their size has no limit."""
    if isinstance(block, dict):
        return "block of an unknown type"
    kind = type(block).__name__.lower()
    mime_type = getattr(block, "mime_type", None)
    return f"{kind} {escape(one_line(mime_type))}" if isinstance(mime_type, str) else kind


def _call(
    page: Page, name: str, arguments: Any, result: Any, *, failed: bool, facts: Sequence[str] = (), open_: bool = False
) -> None:
    """Add a tool call that opens at a click."""
    short = "" if arguments is None else f"({page.line(_arguments(arguments), 80)})"
    state = "failed" if failed else ("no result" if result is _MISSING else "")
    notes = " · ".join(filter(None, [state, *facts]))
    attribute = " open" if open_ else ""
    page.add(
        f"<details{' class=bad' if failed else ''}{attribute}><summary>tool <code>{page.line(name, 80)}</code>{short}"
    )
    page.add(f' <span class="dim">{escape(notes)}</span></summary>')
    if arguments is not None:
        page.add(page.pre(plain(arguments)))
    if result is not _MISSING and result is not _ELSEWHERE:
        page.add(page.pre(plain(result)))
    page.add("</details>")


def _arguments(arguments: Any) -> str:
    if not isinstance(arguments, dict):
        return plain(arguments)[:400]
    return ", ".join(f"{key}={plain(value)[:400]}" for key, value in islice(arguments.items(), 20))  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def duration_of(turn: _core.Turn[Any]) -> float | None:
    """Return the time between the first and the last message of a turn, in seconds."""
    messages = turn.messages
    if len(messages) < 2:
        return None
    return max(0.0, (messages[-1].timestamp - messages[0].timestamp).total_seconds())


def turn_html(turn: _core.Turn[Any]) -> str:
    """Return a turn: its answer, its tool calls and reasoning, tokens, cost and time."""
    page, response, usage = Page(), turn.response, turn.usage
    page.add(f'<div class="m" style="--c:{colour_of(0)}">')
    _blocks(page, response.content, as_markdown=True)
    page.add("</div>")
    executions = turn.tool_executions
    for execution in executions[:_CALLS]:
        facts = [seconds(execution.duration / 1000)]
        if execution.approved is not None:
            facts.append("approved" if execution.approved else "denied")
        name, result = execution.tool_name, execution.result
        _call(page, name, execution.arguments, result, failed=execution.is_error, facts=facts)
    page.entries(len(executions), _CALLS, "tool calls")
    earlier = [block for message in turn.messages if message.id != response.id for block in message.reasoning]
    if earlier:
        page.add("<details><summary>reasoning of earlier steps</summary>")
        _blocks(page, earlier, as_markdown=False)
        page.add("</details>")
    facts = _facts(turn)
    page.add(f"<details><summary class=dim>{escape(' · '.join(facts))}</summary>", usage_table(usage), "</details>")
    return page.html()


def _facts(turn: _core.Turn[Any]) -> list[str]:
    """Return tokens, cost and time of a turn."""
    usage, calls, time = turn.usage, len(turn.tool_executions), duration_of(turn)
    return [
        *([count(calls, "tool call")] if calls else []),
        count(turn.cycles, "model call"),
        f"{usage.input_tokens:,} + {count(usage.output_tokens, 'token')}",
        *([money(usage.cost)] if usage.cost is not None else []),
        *([seconds(time)] if time is not None else []),
    ]


def turn_markdown(turn: _core.Turn[Any]) -> str:
    """Return the answer and a line of facts."""
    facts = without_formulas(" · ".join(_facts(turn)))
    return f"{_limited(turn.text)}\n\n*{facts}*\n"


def message_markdown(message: _core.Message) -> str:
    """Return the text of a message under its type."""
    return f"**{message.type}**: {_limited(message.text)}\n"


def messages_markdown(messages: Sequence[_core.Message]) -> str:
    """Return messages as Markdown."""
    shown = _fitting(map(message_markdown, islice(messages, ENTRIES)))
    left = len(messages) - len(shown)
    note = f"\n… {left:,} more messages are not shown\n" if left else ""
    return "\n".join(shown) + note


def _fitting(parts: Iterable[str]) -> list[str]:
    """Return parts until they have the characters that a display shows at most."""
    shown: list[str] = []
    size = 0
    for part in parts:
        if size >= TOTAL:
            break
        shown.append(part)
        size += len(part)
    return shown


def protocol_markdown(thread: Any) -> str:
    """Return the messages of a document of ThreadProtocol as Markdown, each under its agent, with the tools called."""
    names = {id: agent.agent_name or id for id, agent in islice(thread.agents.items(), ENTRIES)}
    actions = thread.actions
    parts = _fitting(_action_markdown(action, names) for action in islice(actions, ENTRIES))
    left = len(actions) - len(parts)
    return "\n".join(filter(None, parts)) + (f"\n… {left:,} more actions are not shown\n" if left else "")


def _action_markdown(action: Any, names: Mapping[str, str]) -> str:
    """Return a message or a tool call; empty for other actions."""
    kind: str = action.action_type
    agent: str = getattr(action, "agent_id", "") or ""
    head = _limited(one_line("user" if kind == "user_message" else names.get(agent, agent or kind), 60))
    if kind in ("user_message", "assistant_message"):
        return f"**{head}**: {_limited(_protocol_text(action.content))}\n"
    return f"**{head}** calls {_limited(one_line(action.tool_name, 80))}\n" if kind == "tool_call" else ""


def _protocol_text(content: Any) -> str:
    parts: list[Any] = [content] if isinstance(content, str) else content
    texts = (part if isinstance(part, str) else getattr(part, "text", None) for part in islice(parts, ENTRIES))
    return "\n\n".join(text for text in texts if isinstance(text, str))


def _limited(text: str) -> str:
    """Return the beginning of a text as Markdown without formulas that fetches nothing.

    Its links lead to the web and to mail only.
    """
    missing = len(text) - TEXT
    shown = escape(text[:TEXT]).replace("&quot;", '"').replace("&#x27;", "'")
    # A character that is written by its number is text. An image becomes a link.
    shown = _IMAGE.sub("&#33;", shown)
    shown = without_formulas(_OTHER_LINK.sub(lambda found: f"]&#{ord(found[0][1])};", shown))
    return shown if missing <= 0 else f"{shown}\n\n… {missing:,} more characters are not shown"


def protocol_html(thread: Any) -> str:
    """Return a document of ThreadProtocol as a conversation with agents in colours."""
    page = Page()
    agents: dict[str, Any] = thread.agents
    colours = {id: colour_of(index) for index, id in enumerate(agents)}
    names = {id: agent.agent_name or id for id, agent in islice(agents.items(), ENTRIES)}
    actions = thread.actions
    page.add(f"<p><b>{page.line(thread.title or 'Thread')}</b> ")
    page.add(f'<span class="dim">{count(len(actions), "action")}</span></p>')
    page.add("<p>")
    for id, name in islice(names.items(), 12):
        page.add(f'<span class="m" style="--c:{colours[id]}">{page.line(name, 40)}</span> ')
    page.add("</p>")
    for action in islice(actions, ENTRIES):
        _action(page, action, names, colours)
    page.entries(len(actions), ENTRIES, "actions")
    return page.html()


def _action(page: Page, action: Any, names: Mapping[str, str], colours: Mapping[str, str]) -> None:
    kind: str = action.action_type
    agent: str = getattr(action, "agent_id", "") or ""
    head = "user" if kind == "user_message" else names.get(agent, agent or kind)
    colour = USER if kind == "user_message" else colours.get(agent, "#8888")
    page.add(f'<div class="m" style="--c:{colour}" title="{page.line(action.timestamp, 40)}">')
    page.add(f"<b>{page.line(head, 60)}</b>")
    if kind == "tool_call":
        _call(page, action.tool_name, action.args, _ELSEWHERE, failed=False)
    elif kind == "tool_return":
        _call(page, action.tool_name, None, action.content, failed=action.status != "success", facts=[action.status])
    elif kind == "thinking":
        page.add(f"<details><summary>reasoning</summary>{page.pre(action.content or '', TEXT)}</details>")
    elif kind in ("user_message", "assistant_message"):
        _protocol_content(page, action.content, as_markdown=kind == "assistant_message")
    else:
        page.add(f"<details><summary>{page.line(kind, 60)}</summary>{page.pre(plain(action.to_dict()))}</details>")
    page.add("</div>")


# The result is not part of what is shown, and is not missing.
_ELSEWHERE: Any = object()


def _protocol_content(page: Page, content: Any, *, as_markdown: bool) -> None:
    parts: list[Any] = [content] if isinstance(content, str) else content
    for part in islice(parts, ENTRIES):
        text = part if isinstance(part, str) else getattr(part, "text", None)
        if not isinstance(text, str):
            page.add(f'<p class="dim">[{page.line(type(part).__name__, 40)}]</p>')
        elif as_markdown:
            shown, note = page.cut(text)
            page.add(to_html(shown), note)
        else:
            page.add(page.pre(text, TEXT))
    page.entries(len(parts), ENTRIES, "parts")


def execution_html(execution: _core.ToolExecution) -> str:
    """Return one tool execution, open."""
    page = Page()
    facts = [seconds(execution.duration / 1000)]
    arguments, result = execution.arguments, execution.result
    _call(page, execution.tool_name, arguments, result, failed=execution.is_error, facts=facts, open_=True)
    return page.html()


def call_html(call: _core.ToolCall) -> str:
    """Return one tool call, open."""
    page = Page()
    _call(page, call.tool_name, call.arguments, _ELSEWHERE, failed=False, open_=True)
    return page.html()


def diff_html(diff: _core.ThreadDiff) -> str:
    """Return two branches side by side."""
    page = Page()
    page.add(f'<p class="dim">{count(diff.common, "message")} in common</p><div class="two">')
    for label, messages in zip(_branch_labels(diff), (diff.only_a, diff.only_b), strict=True):
        page.add(f"<section><p><b>only {page.line(label, 60)}</b> ")
        page.add(f"<span class=dim>{count(len(messages), 'message')}</span></p>")
        add_messages(page, messages)
        page.add("</section>")
    page.add("</div>")
    return page.html()


def _branch_labels(diff: _core.ThreadDiff) -> tuple[str, str]:
    """Return the names of the compared branches; the beginning of the id for a branch without a name."""
    (name_a, id_a), (name_b, id_b) = (diff.name_a, diff.id_a or "a"), (diff.name_b, diff.id_b or "b")
    label_a, label_b = name_a or id_a[:8], name_b or id_b[:8]
    return (label_a, label_b) if label_a != label_b else (f"{label_a} ({id_a[:8]})", f"{label_b} ({id_b[:8]})")

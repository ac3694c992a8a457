"""Usage as a table, and the model and tool calls of a turn as a waterfall."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from turntree import _core
from turntree.notebook._page import ENTRIES, Page, colour_of, escape, money, one_line, seconds

if TYPE_CHECKING:
    from collections.abc import Iterable

_COLUMNS = ("", "input", "cache read", "cache write", "output", "total", "cost")
_LABEL, _CHART, _ROW = 170, 470, 24


def usage_table(usage: _core.TokenUsage) -> str:
    """Return a table with one row for each model call, each other agent, and the sum."""
    rows: list[tuple[str, Any, int]] = []
    cycles = usage.cycles or []
    if len(cycles) > 1:
        rows += [
            (f"call {number}", cycle, cycle.input_tokens + cycle.output_tokens)
            for number, cycle in enumerate(islice(cycles, ENTRIES), 1)
        ]
    rows.append(("sum", usage, usage.total_tokens))
    others = usage.by_agent
    rows += [(one_line(name, 60), other, other.total_tokens) for name, other in islice(others.items(), ENTRIES)]
    left = max(0, len(cycles) - ENTRIES) + max(0, len(others) - ENTRIES)
    note = f'<p class="dim">… {left:,} more rows are not shown</p>' if left else ""
    head = "".join(f"<th>{name}</th>" for name in _COLUMNS)
    return f"<table><tr>{head}</tr>{''.join(_row(*row) for row in rows)}</table>{note}"


def _row(name: str, usage: Any, total: int) -> str:
    numbers = (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens, usage.output_tokens, total)
    cells = "".join(f'<td class="n">{number:,}</td>' for number in numbers)
    return f'<tr><th>{escape(name)}</th>{cells}<td class="n">{money(usage.cost)}</td></tr>'


def usage_html(usage: _core.TokenUsage) -> str:
    """Return the table alone."""
    page = Page()
    page.add(usage_table(usage))
    return page.html()


class Bar(NamedTuple):
    """One line of a waterfall: a name, and when it began and ended, in seconds."""

    name: str
    kind: str
    start: float
    end: float
    note: str


def bars_of(turn: _core.Turn[Any]) -> list[Bar]:
    """Return the model and tool calls of a turn in order. A tool begins when the message with its call is complete."""
    messages = turn.messages
    executions = {execution.tool_call_id: execution for execution in turn.tool_executions}
    first = messages[0].timestamp
    bars: list[Bar] = []
    start = 0.0
    calls = 0
    for message in messages:
        end = max(start, (message.timestamp - first).total_seconds())
        if isinstance(message, _core.AssistantMessage):
            calls += 1
            bars.append(Bar(f"model call {calls}", "model", start, end, one_line(message.text, 80)))
            for call in message.tool_calls or []:
                execution = executions.get(call.tool_call_id)
                if execution is not None:
                    ended = end + execution.duration / 1000
                    kind = "failed" if execution.is_error else "tool"
                    bars.append(Bar(execution.tool_name, kind, end, ended, ""))
        start = end
    return bars


_COLOURS = {"model": colour_of(3), "tool": colour_of(0), "failed": colour_of(4)}


def waterfall_html(turn: _core.Turn[Any]) -> str:
    """Return the calls of a turn as bars on one scale of time."""
    page, bars = Page(), bars_of(turn)
    shown = bars[:ENTRIES]
    longest = max((bar.end for bar in shown), default=0.0) or 1.0
    height = _ROW * len(shown) + 8
    label = escape(f"Waterfall of a run of {seconds(longest)}")
    page.add(f"<figure><figcaption>{label}</figcaption>")
    page.add(
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{label}" '
        f'width="{_LABEL + _CHART + 70}" viewBox="0 0 {_LABEL + _CHART + 70} {height}">'
    )
    page.add(*_bars(shown, longest))
    page.add("</svg>")
    page.entries(len(bars), ENTRIES, "calls")
    page.add("</figure>")
    return page.html()


def _bars(bars: Iterable[Bar], longest: float) -> Iterable[str]:
    for row, bar in enumerate(bars):
        x = _LABEL + _CHART * bar.start / longest
        width = max(2.0, _CHART * (bar.end - bar.start) / longest)
        y = row * _ROW + 4
        title = f"{bar.name}: {seconds(bar.end - bar.start)} from {seconds(bar.start)}"
        title += f": {bar.note}" if bar.note else ""
        yield (
            f'<g><title>{escape(one_line(title, 200))}</title><text x="0" y="{y + 13}">{escape(one_line(bar.name, 24))}'
            f'</text><rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="16" rx="3" fill="{_COLOURS[bar.kind]}"/>'
            f'<text class="d" x="{x + width + 5:.1f}" y="{y + 13}">{seconds(bar.end - bar.start)}</text></g>'
        )


def waterfall_text(turn: _core.Turn[Any]) -> str:
    """Return the waterfall as lines of text."""
    bars = bars_of(turn)
    longest = max((bar.end for bar in bars), default=0.0) or 1.0
    lines: list[str] = []
    for bar in bars[:ENTRIES]:
        before = int(30 * bar.start / longest)
        width = max(1, int(30 * (bar.end - bar.start) / longest))
        drawn = (" " * before + "█" * width).ljust(31)
        name = "".join(letter if letter.isprintable() else "�" for letter in one_line(bar.name, 24))
        lines.append(f"{name:<24} {drawn} {seconds(bar.end - bar.start)}")
    return "\n".join(lines)

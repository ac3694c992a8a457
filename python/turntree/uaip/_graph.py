"""The graph of a workflow as Mermaid text, for terminals and for notebooks."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y = 168, 52, 70, 34
_MAX_LABEL = 22
# Characters of one text, such as a description or a value of the state.
_LONGEST = 4_000


class StageOutline(NamedTuple):
    """What a graph shows of a stage."""

    name: str
    description: str
    tasks: list[str]


class Outline(NamedTuple):
    """What a graph shows of a workflow."""

    name: str
    description: str
    initial: str
    stages: list[StageOutline]
    transitions: list[tuple[str, str, bool]]
    """The stage that is left, the stage that is entered, and whether a guard decides."""


def outline_of_view(view: dict[str, Any]) -> Outline:
    """Return the outline of a workflow as a server describes it. Servers do not say which transitions have guards."""
    stages = [
        StageOutline(name, stage.get("description") or "", list(stage.get("tasks", {})))
        for name, stage in view.get("stages", {}).items()
    ]
    transitions = [
        (name, target, False)
        for name, stage in view.get("stages", {}).items()
        for target in stage.get("transitions", [])
    ]
    return Outline(view["name"], view.get("description") or "", view["initial_stage"], stages, transitions)


def mermaid(outline: Outline, current: str | None) -> str:
    """Return a Mermaid flowchart; `current` is highlighted."""
    ids = {stage.name: f"s{index}" for index, stage in enumerate(outline.stages)}
    lines = ["flowchart LR", f"    start((start)) --> {ids[outline.initial]}"]
    for stage in outline.stages:
        label = "<br/>".join([f"<b>{_mermaid_text(stage.name)}</b>", *map(_mermaid_text, stage.tasks)])
        lines.append(f'    {ids[stage.name]}["{label}"]')
    for source, target, guarded in outline.transitions:
        arrow = "-. guarded .->" if guarded else "-->"
        lines.append(f"    {ids[source]} {arrow} {ids[target]}")
    if current is not None:
        lines.append("    classDef current fill:#2563eb,stroke:#1e3a8a,color:#ffffff")
        lines.append(f"    class {ids[current]} current")
    return "\n".join(lines) + "\n"


def _mermaid_text(text: str) -> str:
    """Return text that Mermaid shows unchanged: entities instead of characters with a meaning."""
    plain = text.replace("#", "#35;").replace("&", "#amp;").replace("<", "#lt;").replace(">", "#gt;")
    return plain.replace('"', "#quot;").replace("`", "#96;").replace("\\", "#92;")


def terminal(outline: Outline, current: str | None, *, colour: bool) -> str:
    """Return the stages with their tasks and transitions as text; `current` is marked."""
    bold, end = ("\x1b[1m", "\x1b[0m") if colour else ("", "")
    lines = [f"{bold}{outline.name}{end}" + (f": {outline.description}" if outline.description else "")]
    for stage in outline.stages:
        marker = "●" if stage.name == current else "○"
        notes = ["initial"] if stage.name == outline.initial else []
        exits = [(target, guarded) for source, target, guarded in outline.transitions if source == stage.name]
        notes += [] if exits else ["terminal"]
        note = f" ({', '.join(notes)})" if notes else ""
        lines.append(f"{marker} {bold}{stage.name}{end}{note}: {', '.join(stage.tasks) or 'no tasks'}")
        lines += [f"    → {target}{' (guarded)' if guarded else ''}" for target, guarded in exits]
    return "".join(f"{_printable(line)}\n" for line in lines)


def _printable(line: str) -> str:
    """Return a line that cannot control the terminal, except for the colours of this module."""
    shown = line.replace("\x1b[1m", "\ue000").replace("\x1b[0m", "\ue001")
    shown = "".join(letter if letter.isprintable() or letter in "\ue000\ue001" else "�" for letter in shown)
    return shown.replace("\ue000", "\x1b[1m").replace("\ue001", "\x1b[0m")


def html(outline: Outline, current: str | None) -> str:
    """Return the graph as an SVG with a caption; `current` is highlighted. All text is escaped."""
    from turntree.notebook._page import NO_FORMULAS

    places = _places(outline)
    columns = 1 + max((x for x, _ in places.values()), default=0)
    rows = 1 + max((y for _, y in places.values()), default=0)
    width, height = columns * (_WIDTH + _GAP_X), rows * (_HEIGHT + _GAP_Y) + _GAP_Y
    marker = "uaip-arrow"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'style="max-width:100%" role="img" aria-label="{escape(f"Workflow {outline.name}")}">',
        f'<defs><marker id="{marker}" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path d="M0 0 8 4 0 8z" fill="#888"/></marker></defs>',
    ]
    for source, target, guarded in outline.transitions:
        dash = ' stroke-dasharray="5 4"' if guarded else ""
        path = _path(places[source], places[target])
        parts.append(f'<path d="{path}" fill="none" stroke="#888"{dash} marker-end="url(#{marker})"/>')
    for stage in outline.stages:
        parts.append(_box(stage, places[stage.name], stage.name == current, stage.name == outline.initial))
    caption = escape(outline.name) + (f": {escape(outline.description)}" if outline.description else "")
    return f"<div class='{NO_FORMULAS}'><b>{caption}</b><br/>{''.join(parts)}</svg></div>"


def _places(outline: Outline) -> dict[str, tuple[int, int]]:
    """Return column and row of each stage: the column is its distance from the initial stage."""
    exits: dict[str, list[str]] = {}
    for source, target, _ in outline.transitions:
        exits.setdefault(source, []).append(target)
    columns = {outline.initial: 0}
    waiting = deque([outline.initial])
    while waiting:
        stage = waiting.popleft()
        for target in exits.get(stage, []):
            if target not in columns:
                columns[target] = columns[stage] + 1
                waiting.append(target)
    used: dict[int, int] = {}
    places: dict[str, tuple[int, int]] = {}
    for outlined in outline.stages:
        column = columns.get(outlined.name, 0)
        places[outlined.name] = (column, used.get(column, 0))
        used[column] = used.get(column, 0) + 1
    return places


def _path(source: tuple[int, int], target: tuple[int, int]) -> str:
    (x1, y1), (x2, y2) = _corner(source), _corner(target)
    if target[0] > source[0]:
        start, end = (x1 + _WIDTH, y1 + _HEIGHT // 2), (x2, y2 + _HEIGHT // 2)
        bend = (start[0] + end[0]) // 2
        return f"M{start[0]} {start[1]}C{bend} {start[1]} {bend} {end[1]} {end[0]} {end[1]}"
    # Back, or to the same stage: below the boxes.
    start, end = (x1 + _WIDTH // 3, y1 + _HEIGHT), (x2 + 2 * _WIDTH // 3, y2 + _HEIGHT)
    low = max(start[1], end[1]) + _GAP_Y
    return f"M{start[0]} {start[1]}C{start[0]} {low} {end[0]} {low} {end[0]} {end[1]}"


def _corner(place: tuple[int, int]) -> tuple[int, int]:
    return place[0] * (_WIDTH + _GAP_X) + 4, place[1] * (_HEIGHT + _GAP_Y) + 4


def _box(stage: StageOutline, place: tuple[int, int], is_current: bool, is_initial: bool) -> str:  # noqa: FBT001
    x, y = _corner(place)
    fill, text = ("#2563eb", "#ffffff") if is_current else ("#f3f4f6", "#111827")
    stroke = 2 if is_initial else 1
    count = len(stage.tasks)
    title = f"{stage.name}{': ' + stage.description if stage.description else ''}; tasks: {', '.join(stage.tasks)}"
    attributes = f'x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="8"'
    return (
        f'<g font-family="sans-serif" text-anchor="middle"><title>{escape(title)}</title>'
        f'<rect {attributes} fill="{fill}" stroke="#6b7280" stroke-width="{stroke}"/>'
        f'<text x="{x + _WIDTH // 2}" y="{y + 22}" font-size="14" font-weight="bold" fill="{text}">'
        f"{escape(_clipped(stage.name))}</text>"
        f'<text x="{x + _WIDTH // 2}" y="{y + 40}" font-size="11" fill="{text}">'
        f"{count} {'task' if count == 1 else 'tasks'}</text></g>"
    )


def _clipped(text: str) -> str:
    return text if len(text) <= _MAX_LABEL else text[: _MAX_LABEL - 1] + "…"


def escape(text: str) -> str:
    """Return the beginning of a text for HTML. Invisible characters are shown by their number."""
    from turntree.notebook import _page

    return _page.escape(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…")


def table(rows: list[tuple[str, str]], head: tuple[str, str]) -> str:
    """Return a table as HTML. All text is escaped."""
    cells = "".join(f"<tr><td>{escape(left)}</td><td>{escape(right)}</td></tr>" for left, right in rows)
    titles = f"<tr><th>{escape(head[0])}</th><th>{escape(head[1])}</th></tr>"
    return f"<table><thead>{titles}</thead><tbody>{cells}</tbody></table>"

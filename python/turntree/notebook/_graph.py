"""Trees of threads, sessions and plans as SVG."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from turntree._reprs import count
from turntree.notebook._conversation import add_messages
from turntree.notebook._page import Page, colour_of, escape, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from turntree import _core

# Nodes and checkpoints that a drawing shows, and messages that are dots.
_NODES, _CHECKPOINTS, _DOTS = 60, 100, 60
_ROW, _WIDTH, _MARGIN = 34, 420, 14


class Lane(NamedTuple):
    """One node in a drawing: its row, and the positions of its first and last message in the history."""

    node: _core.ThreadNode
    row: int
    start: int
    end: int


def _order(nodes: Mapping[str, _core.ThreadNode], root: str) -> tuple[list[str], dict[str, int]]:
    """Return the ids, each after its parent and before the parent's next branch, and where the messages start."""
    starts = {root: 0}
    waiting, ids = [root], list[str]()
    while waiting:
        id = waiting.pop()
        ids.append(id)
        for child in reversed(nodes[id].children):
            starts[child] = starts[id] + (nodes[child].branch_point or 0)
            waiting.append(child)
    return ids, starts


def _lanes(tree: _core.ThreadTree) -> tuple[dict[str, Lane], int, int]:
    """Return the lanes that are drawn by id, the length of the longest history, and the number of nodes.

    Too many nodes: the first ones, and those that lead to the current node.
    """
    nodes, current = tree.nodes, tree.current.id
    ids, starts = _order(nodes, tree.root.id)
    kept = set(ids[: _NODES // 2]) if len(ids) > _NODES else set(ids)
    at: str | None = current
    while at is not None and len(kept) < _NODES:
        kept.add(at)
        at = nodes[at].parent_id
    lanes: dict[str, Lane] = {}
    for id in ids:
        if id in kept:
            end = starts[id] + len(nodes[id].thread)
            lanes[id] = Lane(nodes[id], len(lanes), starts[id], end)
    longest = max((lane.end for lane in lanes.values()), default=0)
    return lanes, longest, len(ids)


class _Drawing:
    """Draws lanes: x is the position in the history, y the branch."""

    def __init__(self, tree: _core.ThreadTree) -> None:
        self.lanes, self.longest, self.found = _lanes(tree)
        self.current = tree.current.id
        self.scale = min(26.0, _WIDTH / max(1, self.longest))
        self.parts: list[str] = []

    def x(self, position: float) -> float:
        return _MARGIN + self.scale * position

    @staticmethod
    def y(row: int) -> int:
        return _ROW * row + _ROW // 2

    def draw(self) -> str:
        for lane in self.lanes.values():
            self.branch(lane)
        for lane in self.lanes.values():
            self.merges(lane)
        for lane in self.lanes.values():
            self.dots(lane)
            self.label(lane)
        return "".join(self.parts)

    def colour(self, lane: Lane) -> str:
        return colour_of(lane.row)

    def branch(self, lane: Lane) -> None:
        y, x1, x2 = self.y(lane.row), self.x(lane.start), self.x(max(lane.start, lane.end - 1))
        parent = self.lanes.get(lane.node.parent_id or "")
        path = f"M{x1:.1f} {y}H{x2:.1f}"
        if parent is not None:
            # From the last message that the branch shares with its parent.
            x0, y0 = self.x(max(0, lane.start - 1)), self.y(parent.row)
            path = f"M{x0:.1f} {y0}C{x0:.1f} {y} {x0:.1f} {y} {x1:.1f} {y}H{x2:.1f}"
        self.parts.append(f'<path d="{path}" fill="none" stroke="{self.colour(lane)}" stroke-width="2"/>')

    def merges(self, lane: Lane) -> None:
        sources = lane.node.metadata.get("mergedFrom")
        for id in islice(sources, 20) if isinstance(sources, list) else ():  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            source = self.lanes.get(id) if isinstance(id, str) else None
            if source is not None:
                x1, y1 = self.x(max(source.start, source.end - 1)), self.y(source.row)
                x2, y2 = self.x(max(lane.start, lane.end - 1)), self.y(lane.row)
                title = f"{self.name(source)} was merged into {self.name(lane)}"
                self.parts.append(
                    f'<g class="merge"><title>{escape(title)}</title><path d="M{x1:.1f} {y1}'
                    f'C{x2:.1f} {y1} {x1:.1f} {y2} {x2:.1f} {y2}" '
                    f'fill="none" stroke="{self.colour(source)}" stroke-dasharray="4 3"/></g>'
                )

    def dots(self, lane: Lane) -> None:
        y = self.y(lane.row)
        if self.longest > _DOTS:
            title = f"{self.name(lane)}: {count(len(lane.node.thread), 'message')}"
            x = self.x(max(lane.start, lane.end - 1))
            self.parts.append(_dot(x, y, self.colour(lane), title))
            return
        for index, message in enumerate(lane.node.thread.messages):
            title = f"{message.type}: {one_line(message.text, 160)}"
            fill = self.colour(lane) if message.type == "assistant" else "#fff"
            self.parts.append(_dot(self.x(lane.start + index), y, self.colour(lane), title, fill))

    def label(self, lane: Lane) -> None:
        x, y = self.x(max(lane.start, lane.end - 1)) + 14, self.y(lane.row) + 4
        is_current = lane.node.id == self.current
        if is_current:
            self.parts.append(
                f'<circle class="head" cx="{x - 14:.1f}" cy="{y - 4}" r="9" fill="none" stroke="{self.colour(lane)}" '
                'stroke-width="2"><title>current node</title></circle>'
            )
        title = f"{lane.node.id}: {count(len(lane.node.thread), 'message')}"
        weight = ' style="font-weight:700"' if is_current else ""
        first = lane.node.thread.slice(0, 1).messages
        words = one_line(first[0].text, 36) if first else ""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y}"{weight}><title>{escape(one_line(title, 200))}</title>{escape(self.name(lane))} '
            f'<tspan class="d">{escape(words)}</tspan></text>'
        )

    @staticmethod
    def name(lane: Lane) -> str:
        return one_line(lane.node.name or lane.node.id[:8], 32)

    def checkpoints(self, checkpoints: Sequence[_core.Checkpoint], latest: str | None) -> None:
        """Mark the last message of each checkpoint."""
        places: dict[str, tuple[float, int]] = {}
        for lane in self.lanes.values():
            for index, message in enumerate(lane.node.thread.messages):
                places[message.id] = (self.x(lane.start + index), self.y(lane.row))
        for checkpoint in checkpoints[-_CHECKPOINTS:]:
            messages = checkpoint.state.messages
            place = places.get(messages[-1].id) if messages else None
            if place is not None:
                x, y = place[0], place[1] - 11
                title = f"checkpoint of step {checkpoint.step}, {checkpoint.timestamp:%Y-%m-%d %H:%M:%S} UTC"
                title += f": {one_line(checkpoint.id, 60)}" + (" (current)" if checkpoint.id == latest else "")
                fill = "#bf8700" if checkpoint.id == latest else "none"
                self.parts.append(
                    f'<path class="checkpoint" d="M{x:.1f} {y - 4}l4 4-4 4-4-4z" fill="{fill}" stroke="#bf8700">'
                    f"<title>{escape(title)}</title></path>"
                )

    def svg(self, label: str) -> str:
        width, height = _MARGIN + _WIDTH + 330, _ROW * max(1, len(self.lanes)) + 8
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(label)}" width="{width}" '
            f'viewBox="0 0 {width} {height}">{"".join(self.parts)}</svg>'
        )


def _dot(x: float, y: int, colour: str, title: str, fill: str | None = None) -> str:
    return (
        f'<circle cx="{x:.1f}" cy="{y}" r="5" fill="{fill or colour}" stroke="{colour}" stroke-width="2">'
        f"<title>{escape(title)}</title></circle>"
    )


def tree_html(tree: _core.ThreadTree) -> str:
    """Return a tree as a drawing, and as text."""
    page = Page()
    _add_tree(page, tree, "Tree", (), None)
    return page.html()


def session_html(session: Any) -> str:
    """Return the tree of a session with its checkpoints, and what it waits for."""
    page, checkpoints, latest = Page(), session.checkpoints, session.current_checkpoint
    page.add(f"<p><b>Session</b> <code>{page.line(session.id, 60)}</code>")
    agent = session.agent.name
    page.add(f" of {page.line(agent, 60)}" if agent else "", "</p>")
    _add_tree(page, session.tree, "Session", checkpoints, latest.id if latest is not None else None)
    pending = session.pending
    if pending:
        names = ", ".join(call.tool_name for call in pending[:10])
        page.add(f'<p class="bad">waits for approval: {page.line(names)}</p>')
    elif session.is_unfinished:
        page.add('<p class="bad">unfinished run: <code>await session.resume()</code> continues it</p>')
    history = session.tree.history()
    page.add(f"<details><summary>the last of {count(len(history), 'message')}</summary>")
    add_messages(page, history[-20:])
    page.add("</details>")
    return page.html()


def _add_tree(
    page: Page, tree: _core.ThreadTree, kind: str, checkpoints: Sequence[_core.Checkpoint], latest: str | None
) -> None:
    drawing = _Drawing(tree)
    drawing.draw()
    drawing.checkpoints(checkpoints, latest) if checkpoints else None
    facts = [count(drawing.found, "node"), f"current: {one_line(tree.current.name or tree.current.id, 60)}"]
    if checkpoints:
        facts.insert(1, count(len(checkpoints), "checkpoint"))
    name = one_line(tree.current.name or tree.current.id, 60)
    page.add(f"<figure>{drawing.svg(f'{kind}: ' + ', '.join(facts))}<figcaption>")
    page.add(escape(", ".join(facts[:-1])), f", current: <b>{escape(name)}</b></figcaption></figure>")
    page.entries(drawing.found, len(drawing.lanes), "nodes")
    page.entries(len(checkpoints), _CHECKPOINTS, "checkpoints")
    page.add(f"<details><summary>as text</summary>{page.pre(tree.draw(), 8_000)}</details>")


# Plans


_STATUS = {"pending": "#8c959f", "in_progress": "#bf8700", "completed": "#2da44e", "failed": "#cf222e"}
_BOX, _BOX_HEIGHT, _GAP_X, _GAP_Y, _STEPS = 190, 44, 46, 14, 60


def state_html(state: _core.ExecutionState) -> str:
    """Return the state of a run: its plan as a graph, its reasoning and messages."""
    page = Page()
    page.add(f"<p><b>step {state.step}</b> <span class=dim>{count(len(state.messages), 'message')}</span></p>")
    plan = state.plan
    if plan:
        page.add(plan_svg(plan))
        page.entries(len(plan), _STEPS, "steps")
    for text in islice(state.reasoning or (), 20):
        page.add(f"<details><summary>reasoning</summary>{page.pre(text, 4_000)}</details>")
    page.entries(len(state.reasoning or ()), 20, "steps with reasoning")
    page.add("<details><summary>messages</summary>")
    add_messages(page, state.messages)
    page.add("</details>")
    return page.html()


def _columns(steps: Sequence[_core.PlanStep]) -> dict[str, int]:
    """Return the column of each step: after all that it depends on. Steps of a circle are in column 0."""
    ids = {step.id for step in steps}
    needs = {step.id: [id for id in dict.fromkeys(step.depends_on) if id in ids] for step in steps}
    followers: dict[str, list[str]] = {}
    for id, before in needs.items():
        for other in before:
            followers.setdefault(other, []).append(id)
    open_ = {id: len(before) for id, before in needs.items()}
    columns = dict.fromkeys(ids, 0)
    ready = [id for id, number in open_.items() if not number]
    while ready:
        id = ready.pop()
        for follower in followers.get(id, ()):
            columns[follower] = max(columns[follower], columns[id] + 1)
            open_[follower] -= 1
            if not open_[follower]:
                ready.append(follower)
    return columns


def plan_svg(plan: Sequence[_core.PlanStep]) -> str:
    """Return a plan as a graph: an arrow from each step to those that need it."""
    steps = plan[:_STEPS]
    columns, used, places = _columns(steps), dict[int, int](), dict[str, tuple[int, int]]()
    for step in steps:
        column = columns[step.id]
        places[step.id] = (column * (_BOX + _GAP_X) + 4, used.get(column, 0) * (_BOX_HEIGHT + _GAP_Y) + 4)
        used[column] = used.get(column, 0) + 1
    width = (1 + max(used)) * (_BOX + _GAP_X)
    height = max(used.values()) * (_BOX_HEIGHT + _GAP_Y) + 8
    done = sum(step.status == "completed" for step in plan)
    label = f"Plan: {done} of {count(len(plan), 'step')} completed"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{label}" width="{width}" '
        f'viewBox="0 0 {width} {height}">{"".join(_arrows(steps, places))}{"".join(_boxes(steps, places))}</svg>'
    )


def _arrows(steps: Sequence[_core.PlanStep], places: Mapping[str, tuple[int, int]]) -> Iterable[str]:
    for step in steps:
        x2, y2 = places[step.id][0], places[step.id][1] + _BOX_HEIGHT // 2
        for id in islice(step.depends_on, _STEPS):
            if id in places:
                x1, y1 = places[id][0] + _BOX, places[id][1] + _BOX_HEIGHT // 2
                bend = (x1 + x2) // 2
                curve = f"M{x1} {y1}C{bend} {y1} {bend} {y2} {x2} {y2}"
                yield f'<path class="needs" d="{curve}" fill="none" stroke="#8888"/>'
                yield f'<path d="M{x2} {y2}l-7-4v8z" fill="#888"/>'


def _boxes(steps: Sequence[_core.PlanStep], places: Mapping[str, tuple[int, int]]) -> Iterable[str]:
    for step in steps:
        x, y = places[step.id]
        title = f"{one_line(step.id, 60)} ({step.status}): {one_line(step.description, 300)}"
        tool = f" · {one_line(step.tool, 18)}" if step.tool else ""
        yield (
            f'<g><title>{escape(title)}</title><rect x="{x}" y="{y}" width="{_BOX}" height="{_BOX_HEIGHT}" rx="5" '
            f'fill="#8881" stroke="{_STATUS[step.status]}" stroke-width="2"/><text x="{x + 8}" y="{y + 18}">'
            f'{escape(one_line(step.description, 26))}</text><text class="d" x="{x + 8}" y="{y + 35}">'
            f"{step.status}{escape(tool)}</text></g>"
        )

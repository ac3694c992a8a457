"""A session as a page for browsers: the tree, messages, checkpoints, requests and their times."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from turntree import _core
from turntree._reprs import count
from turntree.notebook._conversation import add_messages
from turntree.notebook._graph import session_html
from turntree.notebook._page import ENTRIES, STYLE, Page, escape, one_line, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turntree._session_state import SessionState

_NODES = 30

# The content replaces itself when it has changed. Sections that a person has opened or closed stay so.
_SCRIPT = """
const main = document.querySelector("main");
let version = main.dataset.version, changed = new Map();
// Also if the address was given without the slash at its end.
const content = location.pathname.replace(/[/]?$/, "/content?");
const places = () => [...main.querySelectorAll("details")];
main.addEventListener("toggle", event => {
  const at = places().indexOf(event.target);
  if (at >= 0) changed.set(at, event.target.open);
}, true);
async function follow() {
  try {
    const answer = await fetch(content + version);
    if (!answer.ok) throw new Error(answer.status);
    if (answer.status === 200) {
      const focused = places().findIndex(each => each.firstElementChild === document.activeElement);
      const open = new Map(changed);
      main.innerHTML = await answer.text();
      version = answer.headers.get("X-Version");
      places().forEach((each, at) => { if (open.has(at)) each.open = open.get(at); });
      if (focused >= 0) places()[focused]?.firstElementChild?.focus();
    }
    document.getElementById("state").textContent = "following the session";
  } catch { document.getElementById("state").textContent = "the inspector is closed"; }
  setTimeout(follow, 1000);
}
setTimeout(follow, 1000);
"""
_PAGE_STYLE = """<style>
body{margin:0 auto;padding:1rem;max-width:64rem;font:14px/1.5 system-ui,sans-serif;background:#fff;color:#1f2328}
h1{font-size:1.4rem;overflow-wrap:anywhere}h2{font-size:1.15rem}a{color:#0550ae}.skip{position:absolute;left:-99rem}.skip:focus{position:static}
nav a{margin-right:1em}.turntree pre{max-height:none}
@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}a{color:#79c0ff}}
</style>"""


_ALONE = (
    '<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'\">"
)


def document(title: str, text: str, version: str = "", nonce: str = "") -> str:
    """Return the whole page. Without a nonce it is a file of its own: no script, and its policy forbids any."""
    policy = "" if nonce else _ALONE
    script = f'<script nonce="{nonce}">{_SCRIPT}</script>' if nonce else ""
    state = '<span id="state" role="status">following the session</span>' if nonce else ""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{policy}'
        f"<title>{escape(one_line(title, 200))}</title>"
        f'<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">{_PAGE_STYLE}{STYLE}</head>'
        f'<body><a class="skip" href="#main">Skip to the content</a><header><h1>{escape(one_line(title, 200))}</h1>'
        '<nav aria-label="Sections"><a href="#tree">Tree</a><a href="#messages">Messages</a>'
        f'<a href="#checkpoints">Checkpoints</a><a href="#requests">Requests</a></nav>{state}</header>'
        f'<main id="main" data-version="{version}">{text}</main>{script}</body></html>'
    )


def content(session: SessionState) -> str:
    """Return the content of the page, which changes when the session does."""
    tree = session.tree
    history = tree.history()
    return "".join(
        [
            '<section aria-labelledby="tree"><h2 id="tree">Tree</h2>',
            session_html(session),  # pyright: ignore[reportArgumentType]
            '</section><section aria-labelledby="messages"><h2 id="messages">Messages</h2>',
            *_nodes(tree),
            '</section><section aria-labelledby="checkpoints"><h2 id="checkpoints">Checkpoints</h2>',
            _checkpoints(session),
            '</section><section aria-labelledby="requests"><h2 id="requests">Requests</h2>',
            _requests(history),
            "</section>",
        ]
    )


def _nodes(tree: _core.ThreadTree) -> list[str]:
    parts: list[str] = []
    nodes, current = tree.nodes, tree.current.id
    shown = dict(islice(nodes.items(), _NODES))
    if current not in shown:
        shown.popitem()
        shown[current] = nodes[current]
    for id, node in shown.items():
        name = node.name or ("main" if node.parent_id is None else id)
        mark = " (current)" if id == current else ""
        page = Page()
        messages = node.thread.messages
        # The last ones: the page follows a session that goes on.
        if len(messages) > ENTRIES:
            page.add(f'<p class="dim">… {len(messages) - ENTRIES:,} earlier messages are not shown</p>')
        add_messages(page, messages[-ENTRIES:])
        opened = " open" if id == current else ""
        label = f"{escape(one_line(name, 80))}{mark}: {count(len(node.thread), 'message')}"
        parts.append(f"<details{opened}><summary>{label}</summary>{_unstyled(page)}</details>")
    if len(nodes) > len(shown):
        parts.append(f"<p>… {len(nodes) - len(shown):,} more nodes are not shown</p>")
    return parts


def _unstyled(page: Page) -> str:
    return page.html().removeprefix(STYLE)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int, noun: str) -> str:
    page = Page()
    if not rows:
        page.add(f"<p>There are no {noun}.</p>")
        return _unstyled(page)
    page.add("<table><tr>", *(f'<th scope="col">{name}</th>' for name in head), "</tr>")
    for row in rows:
        page.add("<tr>", *(f"<td>{page.line(cell, 200)}</td>" for cell in row), "</tr>")
    page.add("</table>")
    page.entries(left, 0, noun)
    return _unstyled(page)


def _checkpoints(session: SessionState) -> str:
    found = session.checkpoints
    shown = found[-ENTRIES:]
    names = {id: node.name or ("main" if node.parent_id is None else id) for id, node in session.tree.nodes.items()}
    rows = [
        (str(each.step), each.timestamp.isoformat(" ", "seconds"), names.get(each.thread_id, each.thread_id), each.id)
        for each in shown
    ]
    return _table(("step", "time", "node", "id"), rows, len(found) - len(shown), "checkpoints")


def _requests(history: Sequence[_core.Message]) -> str:
    """Return the answers of models on the current node, and how long after the message before them they came."""
    rows: list[tuple[str, ...]] = []
    previous: Any = None
    for message in history:
        if isinstance(message, _core.AssistantMessage):
            took = seconds(max(0.0, (message.timestamp - previous).total_seconds())) if previous else ""
            calls = ", ".join(call.tool_name for call in message.tool_calls or [])
            rows.append((message.timestamp.isoformat(" ", "seconds"), took, calls, one_line(message.text, 100)))
        previous = message.timestamp
    shown = rows[-ENTRIES:]
    return _table(("answered", "after", "tools", "text"), shown, len(rows) - len(shown), "requests")

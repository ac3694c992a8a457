"""The parts of a document as JSON: nodes and messages of sessions and trees, actions of threads."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any, cast

from turntree._core import ThreadTree, _convert_lines

if TYPE_CHECKING:
    from collections.abc import Iterator


def parts(document: bytes, what: str, from_: str | None, name: str) -> Iterator[dict[str, Any]]:
    """Yield the nodes of a document if `what` is "tree", else its messages or actions.

    Raises:
        ValueError: The document is invalid, or has no nodes.
    """
    tree = None if from_ is not None else _tree(document)
    if tree is None:
        if what == "tree":
            message = f'{name}: has no branches; "show" shows it'
            raise ValueError(message)
        yield from _actions(document, from_, name)
        return
    if what == "tree":
        yield from node_counts(tree)
        return
    for id, node in tree.nodes.items():
        for each in node.thread.messages:
            yield {"node": id, "name": node.name, "message": json.loads(each.model_dump_json())}


def node_counts(tree: ThreadTree) -> Iterator[dict[str, Any]]:
    """Yield each node of a tree without its messages."""
    current = tree.current.id
    for id, node in tree.nodes.items():
        counts = {"parent": node.parent_id, "branch_point": node.branch_point, "messages": len(node.thread)}
        yield {"node": id, "name": node.name, **counts, "current": id == current}


HEAD = 4096
"""The number of bytes at the start of a session or tree that have its first names."""


def may_have_branches(head: bytes) -> bool:
    """Return True if a document with this start may be a session or a tree."""
    return b'"threadTree"' in head or b'"rootId"' in head


def branch_note(document: bytes, name: str) -> str | None:
    """Return what a conversion of a session or tree leaves out; None if the document has one branch."""
    try:
        tree = _tree(document)
    except ValueError:
        return None  # the conversion names the place
    if tree is None:
        return None
    current = tree.current
    leaves = [node for node in tree.nodes.values() if not node.children and node.id != current.id]
    if not leaves:
        return None
    others = "1 other branch is" if len(leaves) == 1 else f"{len(leaves)} other branches are"
    label = current.name or current.id
    return f'{name}: the thread is the current branch, "{label}"; {others} left out; turntree tree draws all'


def _tree(document: bytes) -> ThreadTree | None:
    """Return the tree of a session or tree; None for other documents and for text that is not JSON."""
    if b'"rootId"' not in document:
        return None
    try:
        value: Any = json.loads(document)
    except (ValueError, RecursionError):
        return None  # the conversion names the place
    found: Any = cast("dict[str, Any]", value).get("threadTree", value) if isinstance(value, dict) else None
    if not isinstance(found, dict) or "rootId" not in found:
        return None
    return ThreadTree.model_validate(cast("dict[str, Any]", found))


def _actions(document: bytes, from_: str | None, name: str) -> Iterator[dict[str, Any]]:
    written = io.BytesIO()
    _convert_lines(
        io.BytesIO(document),
        written,
        from_=from_,
        to="thread-protocol",
        jobs=1,
        on_error="raise",
        progress=None,
        profile="portable",
        framing="whole",
        gzip=False,
        overwrite=False,
        durable=False,
        name=name,
        max_bytes=None,
    )
    thread: dict[str, Any] = json.loads(written.getvalue())
    yield from thread["actions"]

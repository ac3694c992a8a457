"""The parts of a document as JSON: nodes and messages of sessions and trees, actions of threads."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any, cast

from turntree._cli._terminal import CliError
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
    if document.count(b'"parentId"') < 2:
        return None  # one node
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


def nodes_called(tree: ThreadTree, name: str) -> list[str]:
    """Return the ids of the nodes with a name or id. The root is also called "main"."""
    found = [id for id, node in tree.nodes.items() if name in (id, node.name)]
    return found or ([tree.root.id] if name == "main" else [])


def with_branch(document: bytes, branch: str, name: str) -> bytes:
    """Return a session or tree whose current branch is the one with a name or id.

    Raises:
        CliError: The document is no session or tree, or not exactly one of its branches is called so.
        ValidationError: The session or tree is invalid.
    """
    value = _json_with_tree(document)
    if value is None:
        raise CliError(f"{name}: is no session or tree, and has no branches; leave out --branch", 1)
    found = value.get("threadTree", value)
    ids = nodes_called(ThreadTree.model_validate(found), branch)
    if not ids:
        raise CliError(f'{name}: no branch is called "{branch}"; turntree tree draws the branches', 1)
    if len(ids) > 1:
        remedy = "pass the id of one of them, which turntree tree --json prints"
        raise CliError(f'{name}: {len(ids)} branches are called "{branch}"; {remedy}', 1)
    found["currentId"] = ids[0]
    return json.dumps(value).encode()


def _tree(document: bytes) -> ThreadTree | None:
    """Return the tree of a session or tree; None for other documents and for text that is not JSON."""
    value = _json_with_tree(document)
    return None if value is None else ThreadTree.model_validate(value.get("threadTree", value))


def _json_with_tree(document: bytes) -> dict[str, Any] | None:
    """Return the JSON of a session or tree; None for other documents and for text that is not JSON."""
    if b'"rootId"' not in document:
        return None
    try:
        value: Any = json.loads(document)
    except (ValueError, RecursionError):
        return None  # the conversion names the place
    found: Any = cast("dict[str, Any]", value).get("threadTree", value) if isinstance(value, dict) else None
    return cast("dict[str, Any]", value) if isinstance(found, dict) and "rootId" in found else None


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

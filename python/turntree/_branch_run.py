"""Runs of a session on another node than the current one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turntree import _core
    from turntree._types import Input


def node_id(at: str | _core.ThreadNode) -> str:
    """Return the id of the node that the argument ``at`` names.

    Raises:
        TypeError: It is neither a node nor an id.
    """
    id = at if isinstance(at, str) else getattr(at, "id", None)
    if isinstance(id, str):
        return id
    message = f"at must be a node of the session's tree or the id of one, not {type(at).__name__}"
    raise TypeError(message)


async def run_at(
    agent: _core.AgentCore, tree: _core.ThreadTree, node: str, input: Input, options: dict[str, Any] | None
) -> _core.Turn[Any]:
    """Run an agent with the history of a node, and append the turn to the node.

    Args:
        agent: The agent.
        tree: The tree of the session. Its current node does not change.
        node: The id of the node.
        input: As `Agent.run` takes it.
        options: The options of the run for the native core.

    Raises:
        KeyError: No node has this id.
    """
    turn: _core.Turn[Any] = await agent.run(tree.history(node), input, None, options)
    tree[node].thread.append(turn)
    return turn

"""Hooks of coding harnesses: one event in, the reply of that harness out."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from turntree._core import harness_hook
from turntree._public_names import set_public_module
from turntree.harness._data import DataModel

__all__ = ["HookReply", "handle"]


class _Reply(NamedTuple):
    exit: int
    stdout: str
    stderr: str


class HookReply(_Reply, DataModel):
    """What a harness reads: the exit status and both outputs. A named tuple.

    Attributes:
        exit: The exit status: 2 blocks.
        stdout: The output.
        stderr: The error output: the reason of a block, for the model.
    """

    __slots__ = ()


def handle(
    event_json: str | bytes | Mapping[str, Any], harness: str = "claude", *, event: str | None = None
) -> HookReply:
    """Handle one event of a harness, as ``turntree-hook`` does.

    Never raises for a bad event: the reply blocks then, unless the event is known to be none of a tool call.

    Args:
        event_json: The event as the harness sends it.
        harness: ``"claude"``, ``"codex"``, ``"cursor"``, ``"opencode"``, ``"factory"`` or ``"generic"``.
        event: The name of an event that has none: ``"pre-tool"``, ``"post-tool"``, ``"session-start"``, ``"prompt"``,
            ``"pre-compact"``, ``"post-compact"``, ``"stop"``, ``"session-end"``, or as the harness names it.
    """
    if isinstance(event_json, bytes):
        data = event_json
    else:
        text = event_json if isinstance(event_json, str) else json.dumps(dict(event_json))
        data = text.encode("utf-8", "surrogatepass")
    return HookReply(*harness_hook(harness, data, os.getcwd(), event))  # noqa: PTH109


set_public_module(__name__, globals())

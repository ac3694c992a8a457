"""Helpers of the tests of model middleware."""

from __future__ import annotations

from turntree.upp import (
    Reply,
    ToolCall,
    scripted,
    tool,
)


@tool
def double(x: int) -> int:
    """Double it."""
    return 2 * x


def with_tool():
    return scripted([[ToolCall("c", "double", {"x": 4})], "Eight."])


# Ends of streams


def slow():
    return scripted([Reply("one two three four five", pace=0.01)])

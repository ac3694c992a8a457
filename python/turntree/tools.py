"""Tools: the names that a function needs to become a tool, in one place.

    from turntree.tools import tool


    @tool
    def weather(city: str) -> str:
        "Return the weather in a city."
        return "sunny"

`tool` and `Tool` are those of `turntree.upp`, the others those of `turntree`.
"""

from __future__ import annotations

from turntree import ModelRetry, RunContext, ToolContext, Toolset, ToolsetContext, handoff
from turntree import _public_names as _names
from turntree.upp import Tool, ToolCall, ToolExecution, ToolResult, tool

__all__ = [
    "ModelRetry",
    "RunContext",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolExecution",
    "ToolResult",
    "Toolset",
    "ToolsetContext",
    "handoff",
    "tool",
]

_names.set_public_module(__name__, globals())

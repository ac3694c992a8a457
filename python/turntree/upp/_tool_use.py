"""The hooks of tool calls and the maximum of tool rounds: `ToolUseStrategy`.

Spec: UPP-1.2 §5 and §10.4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from turntree._argument_errors import TOOL_STRATEGY, explain_arguments
from turntree._callbacks import check_callback
from turntree._options import options_from
from turntree._public_names import publish
from turntree.upp._tools import Tool

CallHook = Callable[[Tool[..., Any], dict[str, Any]], object]
ResultHook = Callable[[Tool[..., Any], dict[str, Any], Any], object]
LimitHook = Callable[[int], object]


_PARAMETERS: dict[str, tuple[str, ...]] = {
    "on_tool_call": ("tool", "params"),
    "on_before_call": ("tool", "params"),
    "on_after_call": ("tool", "params", "result"),
    "on_error": ("tool", "params", "error"),
    "on_max_iterations": ("limit",),
}


class ToolUseStrategy:
    """The hooks of tool calls and the maximum of tool rounds. Each hook may be sync or async.

    Args:
        max_iterations: The maximum of tool rounds if the execution strategy sets none. 0 disables tool execution.
        on_tool_call: ``(tool, params)``; called when the model requests a tool.
        on_before_call: ``(tool, params)``; called before a tool. A false result skips the call;
            ``{"proceed": True, "params": …}`` replaces the arguments; any other result starts the tool.
        on_after_call: ``(tool, params, result)``; called after a tool. ``{"result": …}`` replaces the result.
        on_error: ``(tool, params, error)``; called if a tool fails.
        on_max_iterations: ``(limit)``; called if a further round would exceed the maximum.

    Raises:
        TypeError: A hook is not a function, or does not take its arguments.

    Spec: UPP-1.2 §5 and §10.4.
    """

    __slots__ = (
        "max_iterations",
        "on_after_call",
        "on_before_call",
        "on_error",
        "on_max_iterations",
        "on_tool_call",
    )

    @explain_arguments(TOOL_STRATEGY)
    def __init__(
        self,
        *,
        max_iterations: int | None = None,
        on_tool_call: CallHook | None = None,
        on_before_call: CallHook | None = None,
        on_after_call: ResultHook | None = None,
        on_error: ResultHook | None = None,
        on_max_iterations: LimitHook | None = None,
    ) -> None:
        hooks = (on_tool_call, on_before_call, on_after_call, on_error, on_max_iterations)
        for (name, parameters), hook in zip(_PARAMETERS.items(), hooks, strict=True):
            if hook is not None and not callable(hook):
                message = f"{name} of tool_strategy must be a function, not {type(hook).__name__}"
                raise TypeError(message)
            if hook is not None:
                check_callback(f"{name} of tool_strategy", hook, parameters)
        self.max_iterations: int | None = max_iterations
        self.on_tool_call: CallHook | None = on_tool_call
        self.on_before_call: CallHook | None = on_before_call
        self.on_after_call: ResultHook | None = on_after_call
        self.on_error: ResultHook | None = on_error
        self.on_max_iterations: LimitHook | None = on_max_iterations

    def __repr__(self) -> str:
        from turntree._reprs import literal

        given = {name: getattr(self, name) for name in self.__slots__}
        options = [f"{name}={literal(value)}" for name, value in given.items() if value is not None]
        return f"ToolUseStrategy({', '.join(options)})"


def tool_strategy_of(value: ToolUseStrategy | Mapping[str, Any] | None) -> ToolUseStrategy:
    """Return a `ToolUseStrategy` from one, or from a dict with keys in snake_case or camelCase."""
    strategy: ToolUseStrategy = options_from(ToolUseStrategy, value, "tool_strategy")
    return strategy


publish(__name__, globals())

"""Hooks of runs and of tool use, from objects or dicts. UAP-1.0 §11, UPP-1.2 §5."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from turntree import ExecutionState, upp

    Hook = Callable[..., Any]
    StopCondition = Callable[[ExecutionState], bool | Awaitable[bool]]
    StepHook = Callable[[int, ExecutionState], object]
    ReasonHook = Callable[[int, str], object]
    ActHook = Callable[[int, list[Any]], object]
    StepEndHook = Callable[[int, dict[str, Any]], object]
    TurnHook = Callable[[upp.Turn], object]
    ErrorHook = Callable[[Any, ExecutionState], upp.Turn | Awaitable[upp.Turn | None] | None]
    CallHook = Callable[[upp.Tool[..., Any], dict[str, Any]], object]
    ResultHook = Callable[[upp.Tool[..., Any], dict[str, Any], Any], object]
    LimitHook = Callable[[int], object]


class AgentStrategy:
    """What to call while an agent runs; each may be sync or async and is awaited. UAP-1.0 §11.

    Args:
        stop_condition: ``(state) -> bool``, asked after every step.
        on_step_start: ``(step, state)``.
        on_reason: ``(step, reasoning)``; only where the execution strategy reasons.
        on_act: ``(step, calls)``; only where the execution strategy reasons.
        on_observe: ``(step, results)``; only where the execution strategy reasons.
        on_step_end: ``(step, {"turn": …, "state": …})``.
        on_complete: ``(turn)``.
        on_error: ``(error, state)``; a turn it returns completes the run instead.
    """

    __slots__ = (
        "on_act",
        "on_complete",
        "on_error",
        "on_observe",
        "on_reason",
        "on_step_end",
        "on_step_start",
        "stop_condition",
    )

    def __init__(
        self,
        *,
        stop_condition: StopCondition | None = None,
        on_step_start: StepHook | None = None,
        on_reason: ReasonHook | None = None,
        on_act: ActHook | None = None,
        on_observe: ActHook | None = None,
        on_step_end: StepEndHook | None = None,
        on_complete: TurnHook | None = None,
        on_error: ErrorHook | None = None,
    ) -> None:
        self.stop_condition: StopCondition | None = stop_condition
        self.on_step_start: StepHook | None = on_step_start
        self.on_reason: ReasonHook | None = on_reason
        self.on_act: ActHook | None = on_act
        self.on_observe: ActHook | None = on_observe
        self.on_step_end: StepEndHook | None = on_step_end
        self.on_complete: TurnHook | None = on_complete
        self.on_error: ErrorHook | None = on_error

    def __repr__(self) -> str:
        given = [name for name in self.__slots__ if getattr(self, name) is not None]
        return f"AgentStrategy({', '.join(given)})"


class ToolUseStrategy:
    """How tools are used, and what to call meanwhile; each hook may be sync or async. UPP-1.2 §5 and §10.4.

    Args:
        max_iterations: Most tool rounds, where the execution strategy does not say. 0 turns execution off.
        on_tool_call: ``(tool, params)``: the model wants a tool called.
        on_before_call: ``(tool, params)`` before a call: falsy skips it; ``{"proceed": True, "params": …}`` replaces
            the arguments; true goes on.
        on_after_call: ``(tool, params, result)``: ``{"result": …}`` replaces the result.
        on_error: ``(tool, params, error)``: a tool failed.
        on_max_iterations: ``(limit)``.
    """

    __slots__ = (
        "max_iterations",
        "on_after_call",
        "on_before_call",
        "on_error",
        "on_max_iterations",
        "on_tool_call",
    )

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
        self.max_iterations: int | None = max_iterations
        self.on_tool_call: CallHook | None = on_tool_call
        self.on_before_call: CallHook | None = on_before_call
        self.on_after_call: ResultHook | None = on_after_call
        self.on_error: ResultHook | None = on_error
        self.on_max_iterations: LimitHook | None = on_max_iterations


def strategy_of(value: AgentStrategy | Mapping[str, Hook] | None) -> AgentStrategy:
    """An `AgentStrategy` from one or from a dict, keys as Python or as the specification spells them."""
    strategy: AgentStrategy = _from(AgentStrategy, value, "strategy")
    return strategy


def tool_strategy_of(value: ToolUseStrategy | Mapping[str, Any] | None) -> ToolUseStrategy:
    """A `ToolUseStrategy` from one or from a dict, keys as Python or as the specification spells them."""
    strategy: ToolUseStrategy = _from(ToolUseStrategy, value, "tool_strategy")
    return strategy


def _from(kind: type[Any], value: Any, what: str) -> Any:
    if value is None:
        return kind()
    if isinstance(value, kind):
        return value
    if not hasattr(value, "items"):
        message = f"{what} must be a {kind.__name__} or a dict, not {type(value).__name__}"
        raise TypeError(message)
    names: Any = kind.__slots__
    known = {_camel(name): name for name in names} | {name: name for name in names}
    unknown = [key for key in value if key not in known]
    if unknown:
        message = f"{what} has no {unknown[0]!r}; it knows {', '.join(sorted(names))}"
        raise TypeError(message)
    return kind(**{known[key]: hook for key, hook in value.items()})


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def native_hooks(strategy: AgentStrategy, tools: ToolUseStrategy) -> dict[str, Hook | None]:
    """All hooks by the names that the native core gives them."""
    return {
        "stop_condition": strategy.stop_condition,
        "on_step_start": strategy.on_step_start,
        "on_reason": strategy.on_reason,
        "on_act": strategy.on_act,
        "on_observe": strategy.on_observe,
        "on_step_end": strategy.on_step_end,
        "on_complete": strategy.on_complete,
        "on_error": strategy.on_error,
        "on_tool_call": tools.on_tool_call,
        "on_before_call": tools.on_before_call,
        "on_after_call": tools.on_after_call,
        "on_tool_error": tools.on_error,
        "on_max_iterations": tools.on_max_iterations,
    }

"""The hooks of an agent's runs: `AgentStrategy`, also exported as `AgentHooks`.

Spec: UAP-1.0 §11.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from turntree._argument_errors import HOOKS, explain_arguments
from turntree._callbacks import check_callback
from turntree._core import ExecutionState, Turn
from turntree._options import options_from
from turntree._public_names import publish

if TYPE_CHECKING:
    from turntree.upp._tool_use import ToolUseStrategy

Hook = Callable[..., Any]
StopCondition = Callable[[ExecutionState], bool | Awaitable[bool]]
StepHook = Callable[[int, ExecutionState], object]
ReasonHook = Callable[[int, str], object]
ActHook = Callable[[int, list[Any]], object]
StepEndHook = Callable[[int, "StepResult"], object]
TurnHook = Callable[[Turn], object]
ErrorHook = Callable[[Any, ExecutionState], Turn | Awaitable[Turn | None] | None]


_PARAMETERS: dict[str, tuple[str, ...]] = {
    "stop_condition": ("state",),
    "on_step_start": ("step", "state"),
    "on_reason": ("step", "reasoning"),
    "on_act": ("step", "calls"),
    "on_observe": ("step", "results"),
    "on_step_end": ("step", "result"),
    "on_complete": ("turn",),
    "on_error": ("error", "state"),
}


class StepResult(dict[str, Any]):
    """The result of a step that the hook ``on_step_end`` receives: the specification's dict, with attributes.

    Args:
        turn: The turn up to the end of the step.
        state: The state of the run after the step.

    Spec: UAP-1.0 §11.
    """

    __match_args__ = ("turn", "state")
    __slots__ = ()

    def __init__(self, turn: Turn, state: ExecutionState) -> None:
        super().__init__(turn=turn, state=state)

    @property
    def turn(self) -> Turn:
        """The turn up to the end of the step."""
        return cast("Turn", self["turn"])

    @property
    def state(self) -> ExecutionState:
        """The state of the run after the step."""
        return cast("ExecutionState", self["state"])

    def __repr__(self) -> str:
        return f"StepResult(turn={self.turn!r}, state={self.state!r})"


class AgentStrategy:
    """Functions that are called while an agent runs. Each may be sync or async.

    Args:
        stop_condition: ``(state) -> bool``, called after every step; true ends the run.
        on_step_start: ``(step, state)``.
        on_reason: ``(step, reasoning)``; only where the execution strategy reasons.
        on_act: ``(step, calls)``; only where the execution strategy reasons.
        on_observe: ``(step, results)``; only where the execution strategy reasons.
        on_step_end: ``(step, result)`` with a `StepResult`: ``result.turn`` and ``result.state``.
        on_complete: ``(turn)``.
        on_error: ``(error, state)``; if it returns a turn, that turn completes the run.

    Raises:
        TypeError: A hook is not a function, or does not take its arguments.

    Spec: UAP-1.0 §11.
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

    @explain_arguments(HOOKS)
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
        for name in self.__slots__:
            if (hook := getattr(self, name)) is not None and not callable(hook):
                message = f"{name} must be a function, not {type(hook).__name__}"
                raise TypeError(message)
            if hook is not None:
                check_callback(f"the hook {name}", hook, _PARAMETERS[name])

    def __repr__(self) -> str:
        given = [name for name in self.__slots__ if getattr(self, name) is not None]
        return f"AgentStrategy({', '.join(given)})"


AgentHooks = AgentStrategy
"""The same class by a name that says what it holds."""


def strategy_of(value: AgentStrategy | Mapping[str, Hook] | None) -> AgentStrategy:
    """Return an `AgentStrategy` from one, or from a dict with keys in snake_case or camelCase."""
    strategy: AgentStrategy = options_from(AgentStrategy, value, "strategy")
    return strategy


def native_hooks(strategy: AgentStrategy, tools: ToolUseStrategy) -> dict[str, Hook | None]:
    """Return all hooks by their names in the native core."""
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


publish(__name__, globals())

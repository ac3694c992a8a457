"""Execution strategies: how an agent uses its model and tools. UAP-1.0 §5."""

from __future__ import annotations

from turntree._execution import (
    AbortSignal,
    CustomStrategy,
    ExecutionContext,
    ExecutionStrategy,
    FallbackStrategy,
    LoopStrategy,
    PlanStrategy,
    ReactStrategy,
    SelectStrategy,
    StrategyState,
    fallback,
    loop,
    plan,
    react,
    select,
)
from turntree._names import claim as _claim

__all__ = [
    "AbortSignal",
    "CustomStrategy",
    "ExecutionContext",
    "ExecutionStrategy",
    "FallbackStrategy",
    "LoopStrategy",
    "PlanStrategy",
    "ReactStrategy",
    "SelectStrategy",
    "StrategyState",
    "fallback",
    "loop",
    "plan",
    "react",
    "select",
]

_claim(__name__, globals())

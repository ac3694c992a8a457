"""Execution strategies: how an agent uses its model and tools.

Spec: UAP-1.0 §5.
"""

from __future__ import annotations

from turntree._composition import (
    AgentsStrategy,
    ParallelStrategy,
    RouteStrategy,
    SequenceStrategy,
    parallel,
    route,
    sequence,
)
from turntree._public_names import set_public_module as _set_public_module
from turntree._strategies import (
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

__all__ = [
    "AbortSignal",
    "AgentsStrategy",
    "CustomStrategy",
    "ExecutionContext",
    "ExecutionStrategy",
    "FallbackStrategy",
    "LoopStrategy",
    "ParallelStrategy",
    "PlanStrategy",
    "ReactStrategy",
    "RouteStrategy",
    "SelectStrategy",
    "SequenceStrategy",
    "StrategyState",
    "fallback",
    "loop",
    "parallel",
    "plan",
    "react",
    "route",
    "select",
    "sequence",
]

_set_public_module(__name__, globals())

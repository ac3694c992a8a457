"""turntree: conversations between people, agents and tools as trees of turns. UAP-1.0.

What agents speak (messages, threads, tools, models) is in `turntree.upp` and not repeated here.
"""

from turntree._agent import Agent, AgentStream, agent
from turntree._core import AgentStreamEvent, ExecutionState, ToolContext, UapEvent, __version__
from turntree._hooks import AgentStrategy
from turntree.exceptions import (
    ConflictError,
    CorruptDataError,
    SerializationError,
    SessionError,
    StoreError,
    TurntreeError,
    ValidationError,
)

__all__ = [
    "Agent",
    "AgentStrategy",
    "AgentStream",
    "AgentStreamEvent",
    "ConflictError",
    "CorruptDataError",
    "ExecutionState",
    "SerializationError",
    "SessionError",
    "StoreError",
    "ToolContext",
    "TurntreeError",
    "UapEvent",
    "ValidationError",
    "__version__",
    "agent",
]

# Where users find them, for reprs, tracebacks and pickles.
for _public in (Agent, AgentStrategy, AgentStream, agent):
    _public.__module__ = __name__
del _public

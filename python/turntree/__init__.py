"""turntree: conversations between people, agents and tools as trees of turns.

What agents speak (messages, threads, tools, models) is in `turntree.upp` and not repeated here.

Spec: UAP-1.0.
"""

import sys as _sys

import turntree._loading as _loading  # noqa: F401  # pyright: ignore[reportUnusedImport]
from turntree import _core as _native
from turntree import _peer_names as _peers
from turntree._agent import Agent, agent
from turntree._agent_hooks import AgentHooks, AgentStrategy, StepResult
from turntree._agent_stream import AgentStream
from turntree._ask import QueryResult, ask, query
from turntree._core import (
    AgentStreamEvent,
    Checkpoint,
    ExecutionState,
    PlanStep,
    RunContext,
    SubAgentRun,
    ThreadNode,
    ThreadTree,
    ToolContext,
    UapEvent,
    __version__,
)
from turntree._dataclass import complete as _complete
from turntree._handoff import handoff
from turntree._public_names import add_late_names as _add_late_names
from turntree._public_names import make_generic as _make_generic
from turntree._public_names import set_public_module as _set_public_module
from turntree._run_options import Limits
from turntree._session import Session, session
from turntree._toolsets import Toolset, ToolsetContext
from turntree.exceptions import (
    ApprovalRequired,
    BudgetExceeded,
    ConflictError,
    CorruptDataError,
    GuardrailError,
    LimitExceeded,
    ModelRetry,
    SerializationError,
    SessionError,
    StoreError,
    TurntreeError,
    ValidationError,
)

__all__ = [
    "Agent",
    "AgentHooks",
    "AgentStrategy",
    "AgentStream",
    "AgentStreamEvent",
    "ApprovalRequired",
    "BudgetExceeded",
    "Checkpoint",
    "ConflictError",
    "CorruptDataError",
    "ExecutionState",
    "GuardrailError",
    "LimitExceeded",
    "Limits",
    "ModelRetry",
    "PlanStep",
    "QueryResult",
    "RunContext",
    "SerializationError",
    "Session",
    "SessionError",
    "StepResult",
    "StoreError",
    "SubAgentRun",
    "ThreadNode",
    "ThreadTree",
    "ToolContext",
    "Toolset",
    "ToolsetContext",
    "TurntreeError",
    "UapEvent",
    "ValidationError",
    "__version__",
    "agent",
    "ask",
    "handoff",
    "query",
    "session",
]

_set_public_module(__name__, globals())
_peers.explain_names(__name__, globals(), _peers.ROOT)
_add_late_names()
_complete(_native.Data)
_make_generic(_native.AgentStreamCore, _native.ResultStreamCore)
_peers.explain_attributes(Agent, "Agent", _peers.AGENT)
_peers.explain_attributes(Session, "Session", _peers.SESSION)
_peers.explain_attributes(_native.Turn, "Turn", _peers.TURN)
_peers.explain_attributes(_native.TokenUsage, "TokenUsage", _peers.USAGE)
_peers.explain_attributes(_native.ThreadTree, "ThreadTree", _peers.TREE)


def load_ipython_extension(shell: object) -> None:
    """Add the magics `%chat` and `%%chat`, and the display of lists of messages. IPython calls it for `%load_ext`."""
    from turntree.notebook._ipython import load

    load(shell)


def unload_ipython_extension(shell: object) -> None:
    """Undo `load_ipython_extension`."""
    from turntree.notebook._ipython import unload

    unload(shell)


if "ipykernel" in _sys.modules:
    # Coroutines have no display of their own.
    from turntree.notebook._hints import register as _register

    _register()

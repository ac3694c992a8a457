"""turntree: conversations between people, agents and tools as trees of turns.

What agents speak (messages, threads, tools, models) is in `turntree.upp` and not repeated here.

Spec: UAP-1.0.
"""

import sys as _sys

import turntree._loading as _loading  # noqa: F401  # pyright: ignore[reportUnusedImport]
from turntree import _core as _native
from turntree import _public_names as _names
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
from turntree._dataclass import share as _share

TYPE_CHECKING = False
if TYPE_CHECKING:
    from turntree._agent import Agent, agent
    from turntree._agent_hooks import AgentHooks, AgentStrategy, StepResult
    from turntree._agent_stream import AgentStream
    from turntree._ask import QueryResult, ask, query
    from turntree._handoff import handoff
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

# The other names by the modules that define them, which are imported when a name is asked for.
_LATE = {
    "turntree._agent": ("Agent", "agent"),
    "turntree._agent_hooks": ("AgentHooks", "AgentStrategy", "StepResult"),
    "turntree._agent_stream": ("AgentStream",),
    "turntree._ask": ("QueryResult", "ask", "query"),
    "turntree._handoff": ("handoff",),
    "turntree._run_options": ("Limits",),
    "turntree._session": ("Session", "session"),
    "turntree._toolsets": ("Toolset", "ToolsetContext"),
    "turntree.exceptions": (
        "ApprovalRequired",
        "BudgetExceeded",
        "ConflictError",
        "CorruptDataError",
        "GuardrailError",
        "LimitExceeded",
        "ModelRetry",
        "SerializationError",
        "SessionError",
        "StoreError",
        "TurntreeError",
        "ValidationError",
    ),
}

_names.import_late(__name__, globals(), _LATE, "ROOT")
_complete(_native.Data)
_share(_native.ModelReference)
_names.make_generic(_native.AgentStreamCore, _native.ResultStreamCore)
for _kind, _table in (
    (_native.Turn, "TURN"),
    (_native.TokenUsage, "USAGE"),
    (_native.ThreadTree, "TREE"),
    (_native.Thread, "THREAD"),
    (_native.UserMessage, "MESSAGE"),
    (_native.AssistantMessage, "MESSAGE"),
    (_native.ToolResultMessage, "MESSAGE"),
    (_native.ToolCall, "TOOL_CALL"),
    (_native.ToolResult, "TOOL_RESULT"),
    (_native.ToolExecution, "EXECUTION"),
    (_native.ToolContext, "TOOL_CONTEXT"),
    (_native.RunContext, "RUN_CONTEXT"),
    (_native.ModelReference, "MODEL"),
):
    _names.explain_attributes(_kind, _table)
# Events are read often.
_names.explain_words(
    _native.AgentStreamEvent,
    "EVENT",
    "type event kind event_kind delta text content data part item choices message chunk output_text content_delta "
    "candidates tool tool_name tool_call tool_call_id tool_calls arguments result is_final_response final_output "
    "output response usage author agent agent_id agent_name name run_id step node new_agent",
)
_names.explain_words(
    _native.StreamEvent,
    "STREAM_EVENT",
    "event kind event_kind content part item choices output_text content_delta message chunk candidates content_block "
    "tool_call tool_calls is_final_response final_output response usage snapshot",
)
_names.refuse_items(
    _native.Turn,
    "a turn is no dict: the text of the answer is turn.text, messages are turn.messages, structured output turn.data",
)


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

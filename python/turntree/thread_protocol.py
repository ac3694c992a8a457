"""ThreadProtocol 1.0.0: one canonical JSON document for a conversation with several agents.

- `from_pydantic_ai` creates a `Thread` from a Pydantic AI history; `Thread.to_pydantic_ai` restores the same history.
- `from_ui_stream` and `from_ui_messages` read chats of the Vercel AI SDK; `Thread.to_ui_stream` and
  `Thread.to_ui_messages` write them. `ui_input` reads a request of `useChat`, and `ui_response` streams an active run.
- `from_upp` and `from_tree` convert messages, sessions and trees of turntree.
- `convert_jsonl` and `convert_arrow` convert files and columns of histories, on all cores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, cast

from turntree import upp
from turntree._arrow import convert_arrow
from turntree._bulk import convert_jsonl
from turntree._core import (
    AgentConfig,
    AssistantMessageAction,
    Attachment,
    AudioContent,
    Change,
    DocumentIssue,
    FileContent,
    ImageContent,
    Issue,
    OtherAction,
    Report,
    SystemAction,
    TextContent,
    ThinkingAction,
    ThinkingUsage,
    ThreadTree,
    ToolCallAction,
    ToolReturnAction,
    UiStreamReader,
    Usage,
    UserMessageAction,
    VideoContent,
    downgrade_pydantic_ai,
    from_pydantic_ai,
    from_ui_messages,
    pydantic_ai_version,
    thread_from_upp,
)
from turntree._core import ProtocolThread as Thread
from turntree._public_names import set_public_module as _set_public_module
from turntree._pydantic_ai import canonicalize as canonicalize_pydantic_ai
from turntree._session import Session
from turntree._ui_input import UiAnswer, UiInput, ui_input
from turntree._vercel_ui import UiChunk, UiResponse, from_ui_stream, ui_response

Action: TypeAlias = (
    UserMessageAction
    | AssistantMessageAction
    | ThinkingAction
    | ToolCallAction
    | ToolReturnAction
    | SystemAction
    | OtherAction
)
"""An action of a thread."""

ContentPart: TypeAlias = TextContent | ImageContent | FileContent | AudioContent | VideoContent | dict[str, Any]
"""One part of a message; a dict is a part of an unknown type."""

MessageContent: TypeAlias = str | list[ContentPart]
"""The content of a message: a text, or a list of parts."""


def from_upp(
    source: Iterable[upp.Message] | upp.Thread | ThreadTree | Session,
    *,
    agent: AgentConfig | Mapping[str, Any] | None = None,
    thread_id: str | None = None,
    title: str | None = None,
    profile: Literal["full", "portable"] = "full",
) -> Thread:
    """Create a thread from messages of the provider layer (UPP-1.2).

    Args:
        source: Messages, a thread of them, or a tree or a session. The history of the current node is used.
        agent: The agent of the assistant messages. Default: the agent of the session, else one called "assistant".
        thread_id: Id of the thread. Default: the id of the thread, the session or the current node, else a new UUIDv4.
        title: Default: the beginning of the first user text.
        profile: "full" stores the data for an exact round trip, "portable" only standard data.

    Raises:
        TypeError: An item of `source` is not a message; the message names its path.
    """
    tree = _tree_of(source)
    if tree is not None:
        messages: Any = tree.history()
        known_id = getattr(source, "id", None) or tree.current.id
    else:
        messages, known_id = source, getattr(source, "id", None)
    return thread_from_upp(
        messages,
        agent=agent if agent is not None else _agent_of(source),
        thread_id=thread_id if thread_id is not None else known_id,
        title=title,
        profile=profile,
    )


def from_tree(
    source: ThreadTree | Session,
    *,
    agent: AgentConfig | Mapping[str, Any] | None = None,
    profile: Literal["full", "portable"] = "full",
) -> list[Thread]:
    """Create one thread for each node of a tree, the root first.

    A thread has the id of its node and contains the whole history of the node. The `parent_thread_id` of a branch is
    the id of its parent; ``metadata["branch"]["parent_sequence"]`` is the number of their last common action.

    Args:
        source: A tree, or a session. The session's tree is used.
        agent: The agent of the assistant messages. Default: the agent of the session, else one called "assistant".
        profile: As in `from_upp`.

    Raises:
        TypeError: `source` is neither a tree nor a session.
    """
    tree = _tree_of(source)
    if tree is None:
        raise TypeError(
            f"source must be a ThreadTree or a Session, not {type(source).__name__}; from_upp takes messages"
        )
    agent = agent if agent is not None else _agent_of(source)
    threads: dict[str, Thread] = {}
    queue = [tree.root]
    while queue:
        node = queue.pop(0)
        threads[node.id] = thread_from_upp(
            tree.history(node.id),
            agent=agent,
            thread_id=node.id,
            title=node.name,
            profile=profile,
            parent=threads.get(node.parent_id) if node.parent_id is not None else None,
        )
        queue.extend(tree[child] for child in node.children)
    return list(threads.values())


def _tree_of(source: object) -> ThreadTree | None:
    from turntree._core import ThreadTree
    from turntree._session import Session

    if isinstance(source, Session):
        return source.tree
    return source if isinstance(source, ThreadTree) else None


def _agent_of(source: object) -> AgentConfig | None:
    from turntree._session import Session

    if not isinstance(source, Session):
        return None
    agent = cast("Session[Any, Any]", source).agent
    return AgentConfig(agent.name or "Assistant", agent_id=agent.id, created_at=source.created_at)


__all__ = [
    "Action",
    "AgentConfig",
    "AssistantMessageAction",
    "Attachment",
    "AudioContent",
    "Change",
    "ContentPart",
    "DocumentIssue",
    "FileContent",
    "ImageContent",
    "Issue",
    "MessageContent",
    "OtherAction",
    "Report",
    "SystemAction",
    "TextContent",
    "ThinkingAction",
    "ThinkingUsage",
    "Thread",
    "ToolCallAction",
    "ToolReturnAction",
    "UiAnswer",
    "UiChunk",
    "UiInput",
    "UiResponse",
    "UiStreamReader",
    "Usage",
    "UserMessageAction",
    "VideoContent",
    "canonicalize_pydantic_ai",
    "convert_arrow",
    "convert_jsonl",
    "downgrade_pydantic_ai",
    "from_pydantic_ai",
    "from_tree",
    "from_ui_messages",
    "from_ui_stream",
    "from_upp",
    "pydantic_ai_version",
    "ui_input",
    "ui_response",
]

_set_public_module(__name__, globals())

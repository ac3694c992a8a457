"""ThreadProtocol 1.0.0: one canonical JSON document for a conversation of several agents.

`from_pydantic_ai` makes a `Thread` of a Pydantic AI history, live or JSON; `Thread.to_pydantic_ai`
gives it back equal. `from_ui_stream`, `from_ui_messages` and their ways back do the same for the chats of the Vercel
AI SDK; `ui_response` sends a run to one as it happens. `from_upp` and `from_tree` do it for messages, sessions and
trees of turntree; `convert_jsonl` and `convert_arrow` convert files and columns of histories, on every core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

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
from turntree._ui import UiChunk, UiResponse, from_ui_stream, ui_response

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from turntree import upp
    from turntree._core import ThreadTree
    from turntree._session import Session

Action: TypeAlias = (
    UserMessageAction
    | AssistantMessageAction
    | ThinkingAction
    | ToolCallAction
    | ToolReturnAction
    | SystemAction
    | OtherAction
)
"""Anything that happens in a thread."""

ContentPart: TypeAlias = TextContent | ImageContent | FileContent | AudioContent | VideoContent | dict[str, Any]
"""One part of a message; a dict is a part of a type that this version does not know."""

MessageContent: TypeAlias = str | list[ContentPart]
"""The content of a message: text, or parts in order."""


def from_upp(
    source: Iterable[upp.Message] | upp.Thread | ThreadTree | Session,
    *,
    agent: AgentConfig | Mapping[str, Any] | None = None,
    thread_id: str | None = None,
    title: str | None = None,
    profile: Literal["full", "portable"] = "full",
) -> Thread:
    """Make a thread of messages of the provider layer (UPP-1.2).

    Args:
        source: Messages, a thread of them, or a tree or a session, whose current history it is.
        agent: Who the assistant of the messages is. Default: the agent of the session, else one called "assistant".
        thread_id: Default: the id of the thread, the session or the current node, else a new UUIDv4.
        title: Default: the beginning of the first user text.
        profile: "full" keeps all it takes to give equal messages back, "portable" only what others understand.

    Raises:
        TypeError: `source` holds something that is no message; names the place.
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
    """Make one thread of each node of a tree, the root first.

    A thread holds the whole history of its node, under the node's id. A branch names its parent in `parent_thread_id`,
    and in ``metadata["branch"]["parent_sequence"]`` the last action that they have in common.

    Args:
        source: A tree, or a session, whose tree it is.
        agent: Who the assistant is. Default: the agent of the session, else one called "assistant".
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
    waiting = [tree.root]
    while waiting:
        node = waiting.pop(0)
        threads[node.id] = thread_from_upp(
            tree.history(node.id),
            agent=agent,
            thread_id=node.id,
            title=node.name,
            profile=profile,
            parent=threads.get(node.parent_id) if node.parent_id is not None else None,
        )
        waiting.extend(tree[child] for child in node.children)
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
    agent = source.agent
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
    "UiChunk",
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
    "ui_response",
]

_set_public_module(__name__, globals())

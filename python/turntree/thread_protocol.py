"""ThreadProtocol 1.0.0: one canonical JSON document for a conversation of several agents.

`from_pydantic_ai` makes a `Thread` of a Pydantic AI history, live or JSON; `Thread.to_pydantic_ai`
gives it back equal. `from_ui_stream`, `from_ui_messages` and their ways back do the same for the chats of the Vercel
AI SDK; `ui_response` sends a run to one as it happens. `convert_jsonl` and `convert_arrow` convert files and columns of
histories, on every core.
"""

from typing import Any, TypeAlias

from turntree._arrow import convert_arrow
from turntree._bulk import convert_jsonl
from turntree._core import (
    AgentConfig,
    AssistantMessageAction,
    Attachment,
    AudioContent,
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
    from_pydantic_ai,
    from_ui_messages,
)
from turntree._core import ProtocolThread as Thread
from turntree._names import claim as _claim
from turntree._ui import UiChunk, UiResponse, from_ui_stream, ui_response

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

__all__ = [
    "Action",
    "AgentConfig",
    "AssistantMessageAction",
    "Attachment",
    "AudioContent",
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
    "convert_arrow",
    "convert_jsonl",
    "from_pydantic_ai",
    "from_ui_messages",
    "from_ui_stream",
    "ui_response",
]

_claim(__name__, globals())

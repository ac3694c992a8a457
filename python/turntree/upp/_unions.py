"""Unions of the classes of messages, blocks and events, for ``match`` and type checkers."""

from typing import TypeAlias

from turntree import _core
from turntree._public_names import publish

AnyMessage: TypeAlias = _core.UserMessage | _core.AssistantMessage | _core.ToolResultMessage

ContentBlock: TypeAlias = (
    _core.Text
    | _core.Reasoning
    | _core.Image
    | _core.Document
    | _core.Audio
    | _core.Video
    | _core.Binary
    | _core.CodeExecution
)

# Events of types that this version does not know are plain `StreamEvent`.
AnyStreamEvent: TypeAlias = (
    _core.TextDelta
    | _core.ReasoningDelta
    | _core.ObjectDelta
    | _core.ImageDelta
    | _core.AudioDelta
    | _core.VideoDelta
    | _core.ToolCallDelta
    | _core.CodeExecutionDelta
    | _core.ToolExecutionStart
    | _core.ToolExecutionEnd
    | _core.ToolExecutionProgress
    | _core.MessageStart
    | _core.MessageStop
    | _core.ContentBlockStart
    | _core.ContentBlockStop
)

publish(__name__, globals())

"""Static types of the events of streams. Checked, never run."""

from typing import Any, Literal

from typing_extensions import assert_type

from turntree import AgentStreamEvent, UapEvent
from turntree.upp import (
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    ToolExecutionEnd,
    ToolExecutionProgress,
    ToolExecutionStart,
)


def matched(event: StreamEvent) -> None:
    match event:
        case TextDelta(text):
            assert_type(event, TextDelta)
            assert_type(text, str)
            assert_type(event.type, Literal["text_delta"])
        case ToolCallDelta(call_id, name, arguments):
            assert_type((call_id, name, arguments), tuple[str, str, str])
        case ToolExecutionEnd(result=result, is_error=failed):
            assert_type(result, Any)
            assert_type(failed, bool)
        case _:
            assert_type(event.type, str)


def narrowed(event: AgentStreamEvent) -> None:
    if isinstance(event.upp, ToolExecutionStart):
        assert_type(event.upp.tool_name, str)
    if isinstance(event.upp, ToolExecutionProgress):
        assert_type(event.upp.progress, Any)


def dumped(event: AgentStreamEvent, inner: UapEvent) -> None:
    assert_type(event.model_dump(mode="json"), dict[str, Any])
    assert_type(event.model_dump_json(indent=2), str)
    assert_type(inner.to_json(), str)


def made() -> None:
    assert_type(TextDelta(0, {"text": "x"}), TextDelta)
    assert_type(StreamEvent("text_delta", 0, {"text": "x"}), StreamEvent)

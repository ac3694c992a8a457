"""Static types of messages, threads and data classes. Checked, never run."""

from datetime import datetime
from typing import Any, Literal

from typing_extensions import assert_type

from turntree import ValidationError
from turntree.upp import (
    AnyMessage,
    AssistantMessage,
    Audio,
    ContentBlock,
    ErrorCode,
    Image,
    Message,
    Text,
    Thread,
    TokenUsage,
    ToolCall,
    ToolResult,
    ToolResultMessage,
    Turn,
    UPPError,
    UserMessage,
)


def messages(message: Message) -> None:
    assert_type(message.id, str)
    assert_type(message.type, Literal["user", "assistant", "tool_result"])
    assert_type(message.timestamp, datetime)
    assert_type(message.metadata, dict[str, dict[str, Any]] | None)
    assert_type(message.text, str)
    assert_type(message.images, list[Image])
    assert_type(message.audio, list[Audio])
    if isinstance(message, AssistantMessage):
        assert_type(message.tool_calls, list[ToolCall] | None)
        assert_type(message.has_tool_calls, bool)
    if isinstance(message, ToolResultMessage):
        assert_type(message.results, list[ToolResult])
    for block in message.content:
        assert_type(block, ContentBlock | dict[str, Any])
        if isinstance(block, Image):
            assert_type(block.type, Literal["image"])
            assert_type(block.width, int | None)
            assert_type(block.to_bytes(), bytes)
    UserMessage("hi")
    UserMessage(
        ["hi", Text("there"), {"type": "text", "text": "!"}], metadata={"openai": {"a": 1}}, timestamp="2026-01-01"
    )
    AssistantMessage("ok", [ToolCall("1", "weather", {"city": "Tokyo"})])
    ToolResultMessage([ToolResult("1", {"sun": True}, is_error=False)])
    UserMessage()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    UserMessage("hi", "id")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def threads(thread: Thread, turn: Turn) -> None:
    assert_type(Thread(), Thread)
    assert_type(Thread([UserMessage("hi"), AssistantMessage("ok")]), Thread)
    assert_type(Thread(thread), Thread)
    assert_type(thread.append(turn), Thread)
    assert_type(thread.push(UserMessage("a"), {"type": "user"}), Thread)
    assert_type(thread.user("a").assistant("b").user([Text("c")]), Thread)
    assert_type(thread.filter("assistant"), list[AnyMessage])
    assert_type(thread.tail(3), list[AnyMessage])
    assert_type(thread.slice(1, -1), Thread)
    assert_type(thread.clear(), Thread)
    assert_type(thread.messages, list[AnyMessage])
    assert_type(thread.created_at, datetime)
    assert_type(len(thread), int)
    assert_type(thread[0], AnyMessage)
    for message in thread:
        assert_type(message, AnyMessage)
    thread.filter("system")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def data(usage: TokenUsage) -> None:
    assert_type(usage.model_dump(), dict[str, Any])
    assert_type(usage.model_dump(mode="json", by_alias=False, exclude_none=True), dict[str, Any])
    assert_type(usage.model_dump_json(indent=2), str)
    assert_type(TokenUsage.model_validate({}), TokenUsage)
    assert_type(UserMessage.model_validate_json(b"{}"), UserMessage)
    assert_type(Thread.from_json("{}"), Thread)
    assert_type(Turn.model_json_schema(), dict[str, Any])
    assert_type(usage.to_dict(), dict[str, Any])
    usage.model_dump(mode="yaml")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    usage.input_tokens = 3  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


def errors(error: UPPError, invalid: ValidationError) -> None:
    assert_type(error.code, ErrorCode)
    assert_type(error.status_code, int | None)
    assert_type(error.retry_after, float | None)
    assert_type(error.partial, Turn | None)
    assert_type(invalid.errors()[0]["pointer"], str)
    assert_type(invalid.errors()[0]["loc"], tuple[str | int, ...])

"""Messages, blocks and threads in Python. UPP-1.2 §3, §4, §7, §8."""

from datetime import datetime, timezone

import pytest

from turntree.upp import (
    AssistantMessage,
    Document,
    Image,
    Message,
    Reasoning,
    Text,
    Thread,
    ToolCall,
    ToolResult,
    ToolResultMessage,
    UserMessage,
)


def test_content_from_texts_blocks_and_dicts() -> None:
    message = UserMessage(["see", Image.from_url("https://example.org/a.png"), {"type": "text", "text": "ok"}])

    assert [block.type for block in message.content] == ["text", "image", "text"]
    assert message.text == "see\n\nok"
    assert message.images[0].mime_type == "image/png"


def test_an_empty_string_is_one_text_block() -> None:
    assert UserMessage("").content == [Text("")]


def test_accessors_leave_reasoning_out_of_the_text() -> None:
    message = AssistantMessage([Reasoning("hm"), Text("a"), Text("b")])

    assert message.text == "a\n\nb"
    assert message.reasoning == [Reasoning("hm")]
    assert message.tool_calls is None
    assert not message.has_tool_calls


def test_missing_and_empty_tool_call_lists_differ() -> None:
    assert "toolCalls" not in AssistantMessage("x").model_dump()
    assert AssistantMessage("x", []).model_dump()["toolCalls"] == []
    assert not AssistantMessage("x", []).has_tool_calls


def test_tool_results_have_text() -> None:
    message = ToolResultMessage([ToolResult("1", "plain"), ToolResult("2", {"a": 1}), ToolResult("3", None)])

    assert message.text == 'plain\n\n{"a":1}\n\nnull'
    assert message.content == []
    assert [result.is_error for result in message.results] == [False, False, False]


def test_message_options() -> None:
    noon = datetime(2024, 1, 15, 12, tzinfo=timezone.utc)

    message = UserMessage("x", id="mine", metadata={"app": {"k": [1]}}, timestamp=noon)

    assert (message.id, message.metadata, message.timestamp) == ("mine", {"app": {"k": [1]}}, noon)
    assert isinstance(message, Message)
    assert UserMessage("x").id != UserMessage("x").id


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: UserMessage(3), "content must be a str or a list"),  # type: ignore[arg-type]
        (lambda: UserMessage([3]), r"content\[0\]"),  # type: ignore[list-item]
        (lambda: UserMessage("x", metadata=[1]), "metadata must be a dict"),  # type: ignore[arg-type]
        (lambda: AssistantMessage("x", [3]), r"tool_calls\[0\]|ToolCall"),  # type: ignore[list-item]
        (lambda: AssistantMessage("x", "abc"), "tool_calls must be a list"),  # type: ignore[arg-type]
        (lambda: Thread(3), "messages must be a Thread or a list"),  # type: ignore[arg-type]
        (lambda: Thread(["x"]), r"messages\[0\] must be a message"),  # type: ignore[list-item]
        (lambda: UserMessage("x", timestamp=3), "timestamp must be a datetime"),  # type: ignore[arg-type]
        (lambda: Image.from_base64("***", "image/png"), "data: not base64"),
        (lambda: Document.from_url("ftp://x"), "not an http or https URL"),
    ],
)
def test_error_names_an_invalid_argument(make, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        make()


def test_messages_are_immutable() -> None:
    with pytest.raises(AttributeError):
        UserMessage("x").id = "y"  # type: ignore[misc]


def test_thread_methods_can_be_chained() -> None:
    thread = Thread().user("hi").assistant("hello").push(UserMessage("more"))

    assert [message.text for message in thread] == ["hi", "hello", "more"]
    assert len(thread) == 3
    assert thread[-1].text == "more"
    assert [message.text for message in thread.filter("user")] == ["hi", "more"]
    assert thread.tail(0) == []
    assert [message.text for message in thread.tail(2)] == ["hello", "more"]
    assert thread.updated_at >= thread.created_at


def test_slice_of_a_thread_is_a_new_thread() -> None:
    thread = Thread([UserMessage(str(place)) for place in range(5)])

    part = thread.slice(1, -1)

    assert [message.text for message in part] == ["1", "2", "3"]
    assert part.id != thread.id
    assert part[0] == thread[1]
    with pytest.raises(IndexError):
        thread[5]
    with pytest.raises(ValueError, match="type must be"):
        thread.filter("owl")  # type: ignore[arg-type]


def test_messages_returns_a_separate_list() -> None:
    thread = Thread().user("hi")

    thread.messages.clear()

    assert len(thread) == 1
    assert len(thread.clear()) == 0


def test_thread_created_from_a_thread_has_a_separate_message_list() -> None:
    thread = Thread().user("hi")

    again = Thread(thread)
    thread.user("later")

    assert len(again) == 1
    assert AssistantMessage("x", [ToolCall("c", "t", {})]).tool_calls == [ToolCall("c", "t", {})]

"""Reading UI streams that are split, incomplete or invalid."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from ui_stream_support import END, START, STEP, actions, call, said, text

import turntree
from turntree import thread_protocol as tp

# Incremental reading


def test_the_bytes_of_a_stream_can_be_split_anywhere() -> None:
    thread = tp.from_ui_stream([*STEP, *text("žluťoučký 👍"), *END])
    body = thread.to_ui_stream_bytes()

    for size in (1, 2, 7, 1000):
        pieces = [body[start : start + size] for start in range(0, len(body), size)]
        assert tp.from_ui_stream(pieces) == tp.from_ui_stream(body)
    assert tp.from_ui_stream(body.replace(b"\n", b"\r\n")) == tp.from_ui_stream(body)
    assert tp.from_ui_stream(body.decode()) == tp.from_ui_stream(bytearray(body))


def test_the_thread_so_far_can_be_read_at_any_time() -> None:
    reader = tp.UiStreamReader(profile="portable")
    seen = []
    for chunk in [*STEP, *text("a", "1"), call(arguments={}), *text("b", "2")]:
        reader.feed(chunk)
        seen.append(len(reader.thread()))

    assert seen == [0, 0, 0, 1, 1, 2, 2, 3, 3]
    assert reader.count == 9
    assert reader.message is not None
    assert reader.message["id"] == "m"
    assert repr(reader) == "UiStreamReader(count=9)"


async def test_async_iterables_are_awaited() -> None:
    async def chunks() -> AsyncIterator[dict[str, Any]]:
        for chunk in [*STEP, *text("a"), *END]:
            await asyncio.sleep(0)
            yield chunk

    assert await tp.from_ui_stream(chunks()) == tp.from_ui_stream([*STEP, *text("a"), *END])


def test_an_approval_continues_the_message_that_requested_it() -> None:
    asked = [*STEP, call(arguments={}), {"type": "tool-approval-request", "approvalId": "p", "toolCallId": "c"}, *END]
    reader = tp.UiStreamReader(messages=[{"id": "u", "role": "user", "parts": [{"type": "text", "text": "hi"}]}])
    for chunk in asked:
        reader.feed(chunk)
    messages = reader.messages
    messages[-1]["parts"][-1] |= {"state": "approval-responded", "approval": {"id": "p", "approved": True}}

    answer = [START, {"type": "tool-output-available", "toolCallId": "c", "output": 1}, {"type": "start-step"}]
    thread = tp.from_ui_stream([*answer, *text("done"), *END], messages=messages)

    kinds = [action.action_type for action in thread]
    assert kinds == ["user_message", "tool_call", "system.tp.approval", "tool_return", "assistant_message"]
    assert [message["id"] for message in thread.to_ui_messages()] == ["u", "m"]


def test_the_chat_id_determines_the_thread_id() -> None:
    uuid = "550E8400-E29B-41D4-A716-446655440000"

    assert tp.from_ui_stream([*STEP], chat_id=uuid).thread_id == uuid.lower()
    assert tp.from_ui_stream([*STEP], chat_id="nano").thread_id == tp.from_ui_stream([], chat_id="nano").thread_id
    assert tp.from_ui_stream([*STEP], thread_id="t", chat_id="nano").thread_id == "t"


# Bad input


@pytest.mark.parametrize(
    ("chunk", "told"),
    [
        ({"type": "text-delta", "id": "x", "delta": "a"}, "no open text"),
        ({"type": "tool-input-delta", "toolCallId": "x", "inputTextDelta": "a"}, "tool-input-start first"),
        ({"type": "tool-output-available", "toolCallId": "x", "output": 1}, 'no call "x"'),
        ({"type": "tool-approval-response", "approvalId": "x", "approved": True}, 'no approval "x"'),
        ({"type": "text-start"}, 'chunk without "id"'),
        ({"type": "source-url", "sourceId": "s"}, 'chunk without "url"'),
        ({"type": "text-start", "id": 5}, "/id"),
        ({"typ": "text-start"}, "type"),
    ],
)
def test_chunks_that_break_the_client_raise_an_error_with_their_number(chunk: dict[str, Any], told: str) -> None:
    with pytest.raises(turntree.ValidationError, match="chunk 5 of the stream") as caught:
        tp.from_ui_stream([*STEP, *text("a"), chunk])

    assert told in str(caught.value)
    assert caught.value.errors()[0]["pointer"] == "/5"
    assert actions(tp.from_ui_stream([*STEP, *text("a"), chunk], errors="stop")) == [said("a")]


def test_a_failed_reader_preserves_the_earlier_chunks() -> None:
    reader = tp.UiStreamReader()
    for chunk in [*STEP, *text("a")]:
        reader.feed(chunk)
    with pytest.raises(turntree.ValidationError):
        reader.feed(b"data: nonsense\n\n")
    with pytest.raises(turntree.ValidationError, match="the stream is closed after an error"):
        reader.feed({"type": "start-step"})

    assert actions(reader.thread()) == [said("a")]


@pytest.mark.parametrize(
    "body",
    [b'data: {"type":"start"\n\n', b"data: \xff\n\n", b"data: []\n\n", b"data: NaN\n\n"],
)
def test_bodies_that_are_not_streams_are_refused(body: bytes) -> None:
    with pytest.raises(turntree.ValidationError, match="chunk 0"):
        tp.from_ui_stream(body)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"junk", "has no server-sent event and begins with 'junk'"),
        ("<html>Bad gateway</html>\n\n", "begins with '<html>Bad gateway</html>"),
        ('[{"type":"start"}]', "begins with '\\[{"),
        ("", "the text is empty"),
        (b"\r\n\r\n", "the text is empty"),
        ([b"ju", b"nk\n\n"], "begins with 'junk"),
    ],
)
def test_texts_that_are_not_server_sent_events_are_refused(body: Any, reason: str) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for piece in body if isinstance(body, list) else [body]:
            yield piece

    async def read() -> None:
        await tp.from_ui_stream(pieces())

    with pytest.raises(turntree.ValidationError, match=reason):
        tp.from_ui_stream(body)
    with pytest.raises(turntree.ValidationError, match=reason):
        asyncio.run(read())
    assert len(tp.from_ui_stream(body, errors="stop")) == 0


@pytest.mark.parametrize("body", [b"data: [DONE]\n\n", b": keep-alive\n\n", b"\xef\xbb\xbfid: 1\n\n", []])
def test_streams_without_chunks_are_empty_threads(body: Any) -> None:
    assert len(tp.from_ui_stream(body)) == 0


def test_an_unfinished_event_is_ignored_as_by_the_client() -> None:
    assert len(tp.from_ui_stream(tp.from_ui_stream([*STEP, *text("a")]).to_ui_stream_bytes()[:40])) == 0


def test_wrong_types_are_named_in_the_error() -> None:
    with pytest.raises(TypeError, match="a chunk must be a dict"):
        tp.from_ui_stream([5])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="messages must be a list"):
        tp.from_ui_messages(5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="sdk must be 5, 6 or 7"):
        tp.from_ui_messages([]).to_ui_messages(4)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="errors must be"):
        tp.from_ui_stream([], errors="x")  # type: ignore[call-overload]
    with pytest.raises(turntree.ValidationError) as caught:
        tp.from_ui_messages([{"role": "user", "parts": [{"type": 5}]}])
    assert caught.value.errors()[0]["pointer"] == "/0/parts/0/type"


def test_lone_surrogates_become_replacement_characters() -> None:
    body = b'data: {"type":"text-start","id":"t"}\n\n'
    body += b'data: {"type":"text-delta","id":"t","delta":"a\\ud800b\\ud83d\\udc4d"}\n\n'

    assert actions(tp.from_ui_stream(body)) == [said("a\ufffdb\U0001f44d")]


def test_numbers_outside_the_double_range_become_null() -> None:
    output = b'{"big": 1e400, "list": [-1e400, 12345678901234567890, 1.50], "digits": 1' + b"0" * 400 + b"}"
    body = b'data: {"type":"tool-input-available","toolCallId":"c","toolName":"t","input":{}}\n\n'
    body += b'data: {"type":"tool-output-available","toolCallId":"c","output":' + output + b"}\n\n"
    reader = tp.UiStreamReader()
    reader.feed(body)
    thread = reader.thread()
    wanted = {"big": None, "list": [None, 12345678901234567890, 1.5], "digits": None}

    shown = [reader.messages, thread.to_ui_messages(), list(thread.to_ui_stream())]

    assert reader.messages[-1]["parts"][-1]["output"] == wanted
    json.dumps(shown, allow_nan=False)  # Python would write NaN or Infinity, which a browser refuses
    again = tp.from_ui_messages(thread.to_ui_messages(sidecar="full"), sidecar="full")
    assert again.digest(javascript=True) == thread.digest(javascript=True)
    assert b"1e400" in thread.to_ui_stream_bytes()


def test_lone_surrogates_in_dicts_become_replacement_characters() -> None:
    posted = json.loads(
        r'[{"id":"\ud800","role":"user","parts":[{"type":"text","text":"a\ud83db\ud83d\udc4d","\udc4d":1}]}]'
    )
    reader = tp.UiStreamReader(messages=posted)
    for chunk in [*STEP, *text("\ud83d\udc4d\udc4d")]:
        reader.feed(chunk)
    reader.feed('data: {"type":"abort","reason":"\ud800"}\n\n')

    kinds = [said.get("content", said.get("data")) for said in actions(reader.thread())]
    assert kinds == ["a\ufffdb\U0001f44d", "\U0001f44d\ufffd", {"reason": "\ufffd"}]
    assert reader.messages[0]["id"] == "\ufffd"

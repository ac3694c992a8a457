"""Conversations come back equal from documents that orjson has read and written.

orjson differs from `json`: it refuses lone surrogates and numbers beyond the doubles, reads integers of more than 64
bits as doubles, and refuses to write them.
"""

import json
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic_ai import messages as m
from pydantic_ai.messages import ModelMessagesTypeAdapter as Adapter
from support.laws import cases
from test_thread_protocol_laws import histories
from thread_protocol_pydantic_ai_support import request, response, returned

from turntree import thread_protocol as tp
from turntree import upp
from turntree.upp import AssistantMessage, ToolCall, ToolResult, ToolResultMessage, UserMessage

WAYS = {
    "plain": 0,
    "sorted": orjson.OPT_SORT_KEYS,
    "indented": orjson.OPT_INDENT_2,
    "both": orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2,
}


def through(text: str, way: str) -> str:
    """The document that orjson has read and written."""
    return orjson.dumps(orjson.loads(text), option=WAYS[way]).decode()


def again(thread: tp.Thread, way: str) -> tp.Thread:
    return tp.Thread.model_validate_json(through(thread.to_json(), way))


ways = st.sampled_from(sorted(WAYS))
law = settings(deadline=None, max_examples=cases(60), suppress_health_check=list(HealthCheck))

texts = st.text(
    st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from('\x00\x1f\x7f\u2028\u2029\ufeff\\"/é😀')),
    max_size=8,
)
floats = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([-0.0, 1e16, 1e22, 5e-324, 1.7976931348623157e308, 1e-7, 1.0, 0.1 + 0.2, 123456789012345680.0]),
)
small = st.one_of(st.integers(-(2**63), 2**64 - 1), st.sampled_from([2**63, 2**64 - 1, -(2**63), 2**53 + 1]))
large = st.one_of(st.integers(-(2**90), 2**90), st.sampled_from([2**64, -(2**63) - 1, 10**30]))


def values_of(integers: st.SearchStrategy[int]) -> st.SearchStrategy[Any]:
    leaves = st.one_of(integers, floats, texts, st.none(), st.booleans())
    plain = st.recursive(
        leaves,
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
        max_leaves=8,
    )
    return st.builds(nested, plain, st.sampled_from([0, 0, 1, 40, 150]))


def nested(value: Any, levels: int) -> Any:
    for level in range(levels):
        value = {"k": value} if level % 2 else [value]
    return value


def objects_of(integers: st.SearchStrategy[int]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(texts, values_of(integers), max_size=3)


anything = values_of(st.one_of(small, large))
dicts = objects_of(st.one_of(small, large))
arguments = st.one_of(
    dicts,
    st.builds(json.dumps, dicts, indent=st.sampled_from([None, 1]), ensure_ascii=st.booleans()),
    st.sampled_from(
        [
            '{"a":"\\ud800"}',
            '{"\\udc00":[1]}',
            '{"a":"\\ud83d\\ude00"}',
            '{"a":1E5,"b":-0,"c":1.0,"d":0.1e-2}',
            '{"a":1e400}',
            '{"a":100000000000000000000000000000.5}',
            '{"a":1,"a":2}',
            '{"a":',
        ]
    ),
    texts,
)
parts = st.one_of(
    st.builds(m.ToolCallPart, st.just("t"), arguments, st.just("c1")),
    st.builds(m.TextPart, texts, provider_details=st.one_of(st.none(), dicts)),
)
results = st.builds(m.ToolReturnPart, st.just("t"), anything, st.just("c1"), metadata=anything)
messages = st.one_of(
    st.builds(m.ModelResponse, st.lists(parts, max_size=2), provider_details=st.one_of(st.none(), dicts)),
    st.builds(m.ModelRequest, st.lists(results, max_size=2), metadata=st.one_of(st.none(), dicts)),
)


def loaded(history: list[Any]) -> list[Any] | None:
    """The history as Pydantic loads it; `None` for one that Pydantic does not load, because it is nested too deeply."""
    try:
        return Adapter.validate_json(Adapter.dump_json(history))
    except ValueError:
        return None


def arguments_of(history: list[Any]) -> list[Any]:
    return [part.args for message in history for part in message.parts if isinstance(part, m.ToolCallPart)]


@law
@given(st.lists(messages, min_size=1, max_size=3), ways)
@example([response(m.ToolCallPart("t", '{"n":12345678901234567890123}', "c1")), request(returned(2**70))], "both")
def test_histories_with_any_values_come_back(history: list[Any], way: str) -> None:
    originals = loaded(history)
    if originals is None:
        return

    back = again(tp.from_pydantic_ai(originals), way).to_pydantic_ai()

    assert back == originals
    assert arguments_of(back) == arguments_of(originals)


@law
@given(histories, ways)
def test_histories_of_all_parts_come_back(history: list[Any], way: str) -> None:
    originals = Adapter.validate_json(Adapter.dump_json(history))

    assert again(tp.from_pydantic_ai(originals), way).to_pydantic_ai() == originals


@law
@given(st.lists(messages, min_size=1, max_size=3), ways)
@example([response(m.ToolCallPart("t", '{"a":"\\ud800"}', "c1"))], "plain")
@example([response(m.ToolCallPart("t", '{"a":1e400}', "c1"))], "plain")
def test_portable_threads_can_be_read_and_come_back(history: list[Any], way: str) -> None:
    originals = loaded(history)
    if originals is None:
        return
    thread = tp.from_pydantic_ai(originals, profile="portable")

    back = again(thread, way)

    # A portable thread has no place for the digits of a number that orjson changes; strict validation names it.
    if not any(issue.rule == "number" for issue in thread.validate(strict=True)):
        assert back.to_pydantic_ai() == thread.to_pydantic_ai()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a":"\\ud800","b":"\\ud83d\\ude00"}', {"a": "\ufffd", "b": "😀"}),
        ('{"a":1e400}', {"a": None}),
        ('{"a":[-1e400,"1e400",1.50]}', {"a": [None, "1e400", 1.5]}),
        ('{"a":1e300}', {"a": 1e300}),
    ],
)
def test_arguments_of_a_portable_thread_are_objects_that_every_tool_reads(text: str, expected: Any) -> None:
    thread = tp.from_pydantic_ai([response(m.ToolCallPart("t", text, "c1"))], profile="portable")
    (call,) = thread
    assert isinstance(call, tp.ToolCallAction)

    assert call.args == expected
    assert tp.Thread.model_validate_json(through(thread.to_json(), "plain")) == thread


def answer(given: dict[str, Any], metadata: dict[str, Any]) -> AssistantMessage:
    return AssistantMessage("x", tool_calls=[ToolCall("c", "t", given)], metadata=metadata)


def result(value: Any) -> ToolResultMessage:
    return ToolResultMessage([ToolResult("c", value)])


def question(text: str, metadata: dict[str, Any]) -> UserMessage:
    return UserMessage(text or "x", metadata=metadata)


conversations: st.SearchStrategy[list[Any]] = st.lists(
    st.one_of(
        st.builds(answer, objects_of(small), objects_of(small)),
        st.builds(result, values_of(small)),
        st.builds(question, texts, objects_of(small)),
    ),
    min_size=1,
    max_size=3,
)


@law
@given(conversations, ways)
def test_messages_of_turntree_come_back(originals: list[Any], way: str) -> None:
    thread = tp.from_upp(originals)

    assert again(thread, way).to_upp() == originals
    dumped = json.dumps(thread.model_dump(mode="json"))
    assert tp.Thread.model_validate_json(through(dumped, way)).to_upp() == originals
    conversation = upp.Thread(originals)
    assert upp.Thread.from_json(through(conversation.to_json(), way)).messages == conversation.messages


@law
@given(values_of(small), objects_of(small), ways)
def test_messages_of_the_browser_come_back(value: Any, metadata: dict[str, Any], way: str) -> None:
    part = {"type": "tool-t", "toolCallId": "c", "state": "output-available", "input": value, "output": value}
    thread = tp.from_ui_messages(
        [
            {"id": "1", "role": "user", "parts": [{"type": "text", "text": "Hi"}]},
            {"id": "2", "role": "assistant", "metadata": metadata, "parts": [part]},
        ]
    )

    assert again(thread, way).to_ui_messages() == thread.to_ui_messages()


@pytest.mark.parametrize("large", [2**64, -(2**63) - 1, 10**30])
def test_orjson_refuses_to_write_integers_of_more_than_64_bits(large: int) -> None:
    history = [response(m.ToolCallPart("t", {"n": large}, "c1"))]

    with pytest.raises(TypeError, match="64-bit"):
        orjson.dumps(tp.from_pydantic_ai(history).model_dump(mode="json"))
    assert again(tp.from_pydantic_ai(history), "plain").to_pydantic_ai() == history


@pytest.mark.parametrize("refused", ['"\\ud800"', "1e400", "-1e400"])
def test_orjson_refuses_lone_surrogates_and_numbers_beyond_the_doubles(refused: str) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(refused)

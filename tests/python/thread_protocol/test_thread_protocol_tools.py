"""Histories come back equal from documents that other tools have read and written."""

import importlib
import itertools
import json
import os
import re
import subprocess
import warnings
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic_ai import messages as m
from pydantic_ai.messages import ModelMessagesTypeAdapter as Adapter
from support.laws import cases
from test_thread_protocol_canonical import node
from test_thread_protocol_laws import histories
from thread_protocol_pydantic_ai_support import request, response, returned

from turntree import thread_protocol as tp
from turntree.upp import AssistantMessage, ToolCall, ToolResult, ToolResultMessage, UserMessage

CORPUS = os.environ.get("TURNTREE_CORPUS")

# Texts that models and applications write, and some that they do not.
ARGUMENTS = [
    '{"city":"Paris"}',
    '{"city": "Paris"}',
    '{"city": "Paris", "days": 3, "filters": [{"z": 1, "a": 2}, {}]}',
    '{"query":"x","limit":10,"b":{"y":[{"d":1,"c":2}],"x":1}}',
    '{"path": "\\u00e9\\ud83d\\ude00.txt", "content": "a\\nb\\t\\"c\\"\\\\"}',
    '{"path": "é😀\u2028\x7f"}',
    '{\n  "city": "Paris"\n}',
    '  {"city":"Paris"}\n',
    '{"a":1,"a":2}',
    '{"-":1,"1":2,"x":3,"0":4,"10":5,"9":6}',
    '{"lat":48.0,"lon":2.35}',
    '{"n":1e5,"m":-0,"x":1E-7,"y":0.00001,"z":-0.0}',
    '{"id":12345678901234567890,"other":-9007199254740993,"large":1.5e300,"small":1e-400}',
    '{"n":1e400}',
    '{"n":"\\u0000"}',
    '{"n":"\\ud800"}',
    '{"n":"\\/\\u0041\\u000A\\u001F"}',
    '{"__proto__":{"x":1},"":0}',
    "{}",
    "{ }",
    "",
    "[1, 2]",
    '"text"',
    '{"unfinished": ',
]


class Row(BaseModel):
    """A model of an application with a thread in a field."""

    thread: tp.Thread


def jsonb(text: str) -> str:
    """What PostgreSQL returns for a `jsonb` column: members by length and name, numbers without an exponent."""
    if "\\u0000" in text.replace("\\\\", ""):
        raise ValueError("jsonb rejects U+0000")

    def ordered(members: list[tuple[str, Any]]) -> dict[str, Any]:
        return dict(sorted(dict(members).items(), key=lambda item: (len(item[0].encode()), item[0].encode())))

    def write(value: Any) -> str:
        if isinstance(value, Decimal):
            return format(value, "f")
        if isinstance(value, dict):
            return "{" + ", ".join(f"{json.dumps(key)}: {write(member)}" for key, member in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(map(write, value)) + "]"
        return json.dumps(value, ensure_ascii=False)

    return write(json.loads(text, object_pairs_hook=ordered, parse_float=Decimal, parse_int=Decimal))


def dumped(text: str) -> str:
    """The document after `model_dump` and `model_validate`."""
    return tp.Thread.model_validate(tp.Thread.model_validate_json(text).model_dump()).model_dump_json()


def in_field(text: str) -> str:
    """The document as a field of another model."""
    row = Row(thread=tp.Thread.model_validate_json(text))
    return Row.model_validate_json(row.model_dump_json(indent=1)).thread.model_dump_json()


def through_node(texts: list[str]) -> list[str]:
    """`JSON.stringify(JSON.parse(text))` of each text."""
    script = (
        "require('fs').readFileSync(0,'utf8').split('\\n').forEach(l=>l&&console.log(JSON.stringify(JSON.parse(l))))"
    )
    lines = "".join(tp.Thread.model_validate_json(text).to_json() + "\n" for text in texts)
    answer = subprocess.run([node(), "-e", script], input=lines.encode(), capture_output=True, check=True)
    return answer.stdout.decode().split("\n")[:-1]


def each(tool: Callable[[str], str]) -> Callable[[list[str]], list[str]]:
    return lambda texts: [tool(text) for text in texts]


TOOLS: dict[str, Callable[[list[str]], list[str]]] = {
    "json": each(lambda text: json.dumps(json.loads(text))),
    "json-indent": each(lambda text: json.dumps(json.loads(text), indent=2, ensure_ascii=False)),
    "json-sorted": each(lambda text: json.dumps(json.loads(text), sort_keys=True)),
    "model-indent": each(lambda text: tp.Thread.model_validate_json(text).model_dump_json(indent=3)),
    "model-dump": each(dumped),
    "field": each(in_field),
    "jsonb": each(jsonb),
    "node": through_node,
}
# They change neither the order of the members nor the digits of the numbers, except for small numbers.
EXACT = ["json-indent", "model-indent", "field"]
SMALL = re.compile(rb"\b0\.0000|\de-")

try:
    orjson = importlib.import_module("orjson")
except ImportError:
    pass
else:
    TOOLS["orjson"] = each(lambda text: orjson.dumps(orjson.loads(text), option=orjson.OPT_INDENT_2).decode())
    TOOLS["orjson-sorted"] = each(lambda text: orjson.dumps(orjson.loads(text), option=orjson.OPT_SORT_KEYS).decode())


def texts_of(history: Iterable[Any]) -> list[str]:
    """Every arguments text of a history."""
    parts = [part for message in history for part in message.parts]
    return [part.args for part in parts if isinstance(getattr(part, "args", None), str)]


def assert_come_back(originals: list[list[Any]], *tools: str) -> None:
    """Assert that histories come back equal from documents that the tools have read and written."""
    threads = [tp.from_pydantic_ai(history) for history in originals]
    documents = [thread.to_json() for thread in threads]
    for tool in tools:
        documents = TOOLS[tool](documents)

    for history, thread, document in zip(originals, threads, documents, strict=True):
        again = tp.Thread.model_validate_json(document)
        assert "\n" not in again.to_json()
        assert texts_of(again.to_pydantic_ai()) == texts_of(history)
        assert again.to_pydantic_ai() == history
        before = Adapter.dump_json(history)
        if set(tools) == {"model-indent"}:
            assert again.to_json() == thread.to_json()
        if set(tools) == {"model-indent"} or (set(tools) <= set(EXACT) and not SMALL.search(before)):
            assert again.to_pydantic_ai_json() == before


def call(arguments: Any) -> m.ModelResponse:
    return response(m.ToolCallPart("t", arguments, "c1"))


@pytest.mark.parametrize("tool", TOOLS)
def test_every_text_of_arguments_comes_back(tool: str) -> None:
    assert_come_back([[call(text), request(returned("ok"))] for text in ARGUMENTS], tool)


@pytest.mark.parametrize("tool", TOOLS)
def test_every_text_of_arguments_comes_back_after_two_tools(tool: str) -> None:
    history = [message for text in ARGUMENTS for message in (call(text), request(returned("ok")))]

    for other in TOOLS:
        assert_come_back([history], tool, other)


@pytest.mark.parametrize("tool", TOOLS)
def test_numbers_from_two_to_the_53rd_on_come_back(tool: str) -> None:
    content = {"id": 12345678901234567890, "other": [-(2**60) - 1, 1e22, 1.5e300], "b": 1.0, "a": -0.0}
    history = [
        call({"id": 2**53 + 1}),
        request(returned(content, metadata={"x": 2**64})),
        response(m.TextPart("ok", provider_details={"x": [2**70]})),
        request(m.UserPromptPart([m.ImageUrl("https://x.y/z", vendor_metadata={"x": 2**63 - 1})])),
    ]

    assert_come_back([history], tool)


def test_edited_arguments_replace_a_stored_text() -> None:
    thread = tp.from_pydantic_ai([call('{"city" : "Paris"}'), request(returned(2**60)), call('{"to": 1, "at": 2}')])

    document = thread.to_json().replace('"Paris"', '"Rome"', 1).replace('{"to":1', '{"to":3')
    (first, _, last) = tp.Thread.model_validate_json(document).to_pydantic_ai()

    assert isinstance(first.parts[0], m.ToolCallPart)
    assert first.parts[0].args == '{"city":"Rome"}'
    assert isinstance(last.parts[0], m.ToolCallPart)
    assert last.parts[0].args == '{"to": 3, "at": 2}'


def after(tool: str, thread: tp.Thread) -> tp.Thread:
    (document,) = TOOLS[tool]([thread.to_json()])
    return tp.Thread.model_validate_json(document)


@pytest.mark.parametrize("tool", TOOLS)
def test_ui_messages_come_back(tool: str) -> None:
    inputs: list[Any] = [{"to": "é", "at": [1.5, {"b": 1, "a": "\n"}]}, '{"city" : "Paris"}', "{", [1, 2], None]
    parts = [
        {"type": "tool-t", "toolCallId": f"c{index}", "state": "output-available", "input": value, "output": value}
        for index, value in enumerate(inputs)
    ]
    failed = {"type": "tool-t", "toolCallId": "e", "state": "output-error", "rawInput": "{ ", "errorText": '{"x" : 1}'}
    messages = [
        {"id": "1", "role": "user", "parts": [{"type": "text", "text": "Hi", "state": "done"}]},
        {
            "id": "2",
            "role": "assistant",
            "metadata": {"b": 1, "a": 2},
            "parts": [{"type": "step-start"}, *parts, failed],
        },
    ]
    thread = tp.from_ui_messages(messages)
    before = thread.to_ui_messages()

    again = after(tool, thread)

    assert again.to_ui_messages() == before
    if tool in EXACT:
        assert list(again.to_ui_stream()) == list(thread.to_ui_stream())


@pytest.mark.parametrize("tool", TOOLS)
def test_upp_messages_come_back(tool: str) -> None:
    arguments = {"to": "é", "at": [1.5, {"b": 1, "a": "\n"}]}
    call = ToolCall("c1", "t", arguments)
    messages = [
        UserMessage("Hi"),
        AssistantMessage("Let me see", tool_calls=[call], metadata={"b": {"z": 1, "a": 2}}),
        ToolResultMessage([ToolResult("c1", {"text": '{"x" : 1}', "b": 1, "a": [2]})]),
    ]
    thread = tp.from_upp(messages)

    again = after(tool, thread)

    assert again.to_upp() == messages
    if tool in EXACT:
        assert again.to_json() == thread.to_json()


def accepted(history: list[Any]) -> bool:
    """False for a text that a database rejects."""
    return b"\\u0000" not in Adapter.dump_json(history)


generated = st.lists(st.one_of(st.sampled_from(ARGUMENTS), st.text(max_size=8)), min_size=1, max_size=3)


@settings(deadline=None, max_examples=cases(15), suppress_health_check=list(HealthCheck))
@given(histories.filter(accepted), generated, st.sampled_from(sorted(TOOLS)), st.sampled_from(sorted(TOOLS)))
def test_generated_histories_come_back(history: list[Any], texts: list[str], one: str, two: str) -> None:
    texts = [re.sub("[\ud800-\udfff\x00]", "", text) for text in texts]
    loaded = Adapter.validate_json(Adapter.dump_json([*history, *map(call, texts)]))

    assert_come_back([loaded], one, two)


@pytest.mark.timeout(600)
@pytest.mark.skipif(CORPUS is None, reason="NOT TESTED on real histories: TURNTREE_CORPUS is not set")
def test_real_histories_come_back() -> None:
    # The corpus has 20 MB, so each history passes through one tool and one pair of tools.
    paths = sorted((Path(CORPUS or "") / "histories").rglob("*.json"))
    loaded = []
    for path in paths:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if path.name != "index.json":
                loaded.append(Adapter.validate_json(path.read_bytes()))
    assert loaded

    for ways in [*([tool] for tool in TOOLS)], [*itertools.permutations(TOOLS, 2)]:
        for number, tools in enumerate(ways):
            some = loaded[number :: len(ways)]
            assert_come_back([history for history in some if accepted(history)], *tools)

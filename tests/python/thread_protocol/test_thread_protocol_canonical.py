"""Canonical JSON: equal bytes for every import path, the bytes of JavaScript, and values that JavaScript loses."""

import copy
import json
import os
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import ModelMessagesTypeAdapter as Adapter
from support.laws import cases
from test_thread_protocol_laws import histories

import turntree
from turntree import thread_protocol as tp

ROOT = Path(__file__).resolve().parents[3]
FIXTURES = sorted((ROOT / "tests/data/thread_protocol/pydantic_ai").glob("*.json"))
TIME = "2026-01-15T10:00:00Z"
ID = "5b8c7a52-4a1b-4c1e-9f57-0d6c0e5a9b11"
REQUIRED = any(os.environ.get(name, "") not in ("", "0") for name in ("CI", "TURNTREE_REQUIRE_NODE"))


def thread_with(data: str, *, time: str = TIME) -> tp.Thread:
    """A thread whose only action contains the given JSON."""
    action = f'{{"action_type":"system.note","timestamp":"{time}","sequence":1,"data":{data}}}'
    return tp.Thread.model_validate_json(
        f'{{"version":"1.0.0","thread_id":"{ID}","created_at":"{TIME}","updated_at":"{TIME}","title":"t",'
        f'"agents":{{}},"actions":[{action}]}}'
    )


def canonical_payload(thread: tp.Thread, *, javascript: bool = False) -> str:
    """The canonical spelling of that JSON."""
    text = thread.canonical_json(javascript=javascript).decode()
    return text[text.index('"data":') + len('"data":') : text.index(',"sequence":1')]


@pytest.mark.parametrize(
    ("given_", "spelled"),
    [
        ("[1.0,-0,-0.0,1e2,1E+2,0.1e1]", "[1,0,0,100,100,1]"),
        ("[9007199254740993,12345678901234567890,-1e400,1e-400]", "[9007199254740992,12345678901234567000,null,0]"),
        ('{"b":1,"a":2,"b":3}', '{"a":2,"b":3}'),
        ('{"__proto__":{"x":1},"a":{"\\u005f_proto__":5,"b":[]}}', '{"a":{"b":[]}}'),
        ('["\\ud800","a\\udc00b","\\ud83d\\ude00"]', '["\ufffd","a\ufffdb","\U0001f600"]'),
        ('"\\u2028\\u007f\\/\\u001F\\u0008"', '"\u2028\x7f/\\u001f\\b"'),
        ('{"\\ud83d\\ude00":1,"\\ufb33":2}', '{"\U0001f600":1,"\ufb33":2}'),
    ],
)
def test_javascript_mode_spells_payloads_as_a_browser(given_: str, spelled: str) -> None:
    assert canonical_payload(thread_with(given_), javascript=True) == spelled
    assert canonical_payload(thread_with(spelled), javascript=True) == spelled


@pytest.mark.parametrize(
    ("given_", "spelled"),
    [
        ("[1.0,-0,-0.0,1e2,1E+2,0.1e1]", "[1,0,0,100,100,1]"),
        ("[9007199254740993,12345678901234567890]", "[9007199254740993,12345678901234567890]"),
        ("[12345678901234567890.0,1e21,1e22]", "[12345678901234567168,1e+21,1e+22]"),
        ("[-1e400,1e-400,-12.50E400]", "[-1e+400,0,-1.25e+401]"),
        ('{"b":1,"a":2,"b":3}', '{"a":2,"b":3}'),
        (
            '{"a":{"\\u005f_proto__":5,"b":[]},"__proto__":{"x":1}}',
            '{"__proto__":{"x":1},"a":{"__proto__":5,"b":[]}}',
        ),
        ('["\\uD800","a\\udc00b","\\ud83d\\ude00"]', '["\\ud800","a\\udc00b","\U0001f600"]'),
        ('"\\u2028\\u007f\\/\\u001F\\u0008"', '"\u2028\x7f/\\u001f\\b"'),
    ],
)
def test_payloads_preserve_their_spelling_by_default(given_: str, spelled: str) -> None:
    assert canonical_payload(thread_with(given_)) == spelled
    assert canonical_payload(thread_with(spelled)) == spelled


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("9007199254740992", "9007199254740993"),
        ("12345678901234567000", "12345678901234567890.0"),
        ("[10000000000000000000000]", "[10000000000000000000001]"),
        ("1e400", "null"),
        ("-1e400", "-1e401"),
        ('{"a":1}', '{"a":1,"__proto__":2}'),
        ('{"__proto__":1}', '{"__proto__":2}'),
        ('"\\ufffd"', '"\\ud800"'),
        ('{"\\ufffd":1,"a":2}', '{"\\udfff":1,"a":2}'),
    ],
)
def test_documents_equal_only_in_javascript_have_different_exact_digests(one: str, two: str) -> None:
    first, second = thread_with(one), thread_with(two)

    assert first.canonical_json(javascript=True) == second.canonical_json(javascript=True)
    assert first.digest(javascript=True) == second.digest(javascript=True)
    assert first.canonical_json() != second.canonical_json()
    assert first.digest() != second.digest()
    assert first.digest(include_times=True) != second.digest(include_times=True)


@pytest.mark.parametrize(
    ("time", "spelled"),
    [
        ("2026-01-02T03:04:05.678000Z", "2026-01-02T03:04:05.678Z"),
        ("2026-01-02T03:04:05.678+00:00", "2026-01-02T03:04:05.678Z"),
        ("2026-01-02T10:00:00.000Z", "2026-01-02T10:00:00Z"),
        ("2026-01-02T10:00:00.123456789Z", "2026-01-02T10:00:00.123456Z"),
        ("1969-12-31T23:59:59.999999999Z", "1969-12-31T23:59:59.999999Z"),
        ("2026-01-02T03:04:05+05:30", "2026-01-01T21:34:05Z"),
    ],
)
def test_times_are_truncated_to_six_digits_in_utc(time: str, spelled: str) -> None:
    (action,) = json.loads(thread_with("1", time=time).canonical_json())["actions"]

    assert action["timestamp"] == spelled


def test_times_without_an_offset_are_an_error() -> None:
    thread = thread_with("1", time="2026-01-02T03:04:05")

    with pytest.raises(turntree.ValidationError, match="no offset from UTC") as caught:
        thread.canonical_json()
    with pytest.raises(turntree.ValidationError):
        thread.digest(include_times=True)

    assert [(error["type"], error["pointer"]) for error in caught.value.errors()] == [
        ("timestamp", "/actions/0/timestamp")
    ]
    assert thread.digest() == thread_with("1").digest()
    assert [issue.pointer for issue in thread.validate(strict=True)] == ["/actions/0/timestamp"]


def test_values_that_javascript_loses_are_reported_or_refused() -> None:
    thread = thread_with('{"a":[1,{"b/c":9007199254740993}],"__proto__":{"d":-1e400},"e":9007199254740991}')
    expected = [
        ("number", "/actions/0/data/a/1/b~1c"),
        ("key", "/actions/0/data/__proto__"),
        ("number", "/actions/0/data/__proto__/d"),
    ]

    with pytest.raises(turntree.ValidationError) as caught:
        thread.canonical_json(strict=True)

    assert [(error["type"], error["pointer"]) for error in caught.value.errors()] == expected
    assert [(issue.rule, issue.pointer) for issue in thread.validate(strict=True)] == expected
    assert thread_with('{"a":[1.5,"__proto__"]}').canonical_json(strict=True)


@given(st.binary(max_size=7), st.sampled_from(["image", "audio", "video", "file"]))
@settings(deadline=None)
def test_base64_is_written_in_the_standard_alphabet(data: bytes, kind: str) -> None:
    import base64

    standard = base64.b64encode(data).decode()
    others = [base64.urlsafe_b64encode(data).decode(), standard.rstrip("=")]

    def thread(text: str) -> tp.Thread:
        document = thread_with("1").to_dict()
        part = {"type": kind, f"{kind}_base64": text, "media_type": "IMAGE/png"}
        attachment = {"name": "n", "data": text, "media_type": "a/b"}
        document["actions"] = [
            {
                "action_type": "user_message",
                "timestamp": TIME,
                "sequence": 1,
                "content": [part],
                "attachments": [attachment],
            }
        ]
        return tp.Thread.model_validate(document)

    for other in others:
        assert thread(other).canonical_json() == thread(standard).canonical_json()
    assert f'"{kind}_base64":"{standard}"'.encode() in thread(standard).canonical_json()
    assert b'"IMAGE/png"' in thread(standard).canonical_json()
    assert b'"not base64!"' in thread("not base64!").canonical_json()


def spelled(thread: tp.Thread) -> Any:
    """The canonical bytes, or the error."""
    try:
        return thread.canonical_json()
    except turntree.ValidationError as error:
        return error.errors()


def assert_equal_on_every_way(messages: Any, data: bytes) -> None:
    spaced = json.dumps(json.loads(data), indent=1).encode()
    for profile in ("full", "portable"):
        thread = tp.from_pydantic_ai(data, profile=profile, thread_id=ID)
        expected = spelled(thread)

        ways = {
            "live": tp.from_pydantic_ai(messages, profile=profile, thread_id=ID),
            "text": tp.from_pydantic_ai(data.decode(), profile=profile, thread_id=ID),
            "read again": tp.Thread.model_validate_json(thread.model_dump_json(indent=2)),
            "dicts": tp.Thread.model_validate(thread.to_dict()),
            "copied": copy.deepcopy(thread),
        }
        if profile == "portable":
            ways["spaced"] = tp.from_pydantic_ai(spaced, profile=profile, thread_id=ID)
        for way, other in ways.items():
            assert spelled(other) == expected, (way, profile)
            assert other.digest() == thread.digest(), (way, profile)
        hoisted = tp.from_pydantic_ai(data, profile=profile, thread_id=ID, strict=True)
        assert spelled(hoisted) == spelled(thread.with_hoisted_metadata())
        assert spelled(hoisted.core()) == spelled(thread.core())
        if isinstance(expected, bytes):
            assert tp.Thread.model_validate_json(expected).canonical_json() == expected


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_fixtures_have_equal_canonical_bytes_on_every_path(path: Path) -> None:
    data = path.read_bytes().rstrip(b"\n")
    try:
        messages = Adapter.validate_json(data)
    except ValueError:
        messages = data
    else:
        data = Adapter.dump_json(messages)

    assert_equal_on_every_way(messages, data)


@pytest.mark.parametrize("number", [5.960464477539063e-08, 0.00001, 3.0220902484163228e16, 1.0, -0.0, 10**20])
def test_the_text_of_an_error_does_not_depend_on_the_spelling_of_a_number(number: float) -> None:
    messages = Adapter.validate_python(
        [
            {
                "kind": "response",
                "parts": [{"part_kind": "tool-call", "tool_name": "t", "args": {}, "tool_call_id": "c"}],
            },
            {
                "kind": "request",
                "parts": [
                    {
                        "part_kind": "tool-return",
                        "tool_name": "t",
                        "tool_call_id": "c",
                        "content": {"b": [number], "a": "1.0"},
                        "outcome": "failed",
                        "timestamp": "2026-01-01T00:00:00Z",
                    }
                ],
            },
        ]
    )

    assert_equal_on_every_way(messages, Adapter.dump_json(messages))


@pytest.mark.timeout(300)
@settings(deadline=None, max_examples=cases(60), suppress_health_check=list(HealthCheck))
@given(histories)
def test_generated_histories_have_equal_canonical_bytes_on_every_path(messages: list[Any]) -> None:
    assert_equal_on_every_way(messages, Adapter.dump_json(messages))


def node() -> str:
    found = shutil.which("node")
    if found is None:
        said = "NOT TESTED against JavaScript: node is not installed (Debian: apt-get install nodejs)"
        pytest.fail(said) if REQUIRED else pytest.skip(said)
    return found


text = st.text(st.characters(), max_size=6)
numbers = st.one_of(st.integers(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False))
documents = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, text),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.one_of(text, st.sampled_from(["__proto__", "10", "9", "\ufb33", "\U0001f600"])), inner, max_size=4
        ),
    ),
    max_leaves=12,
)


@settings(deadline=None, max_examples=cases(20), suppress_health_check=list(HealthCheck))
@given(st.lists(documents, min_size=20, max_size=60))
def test_node_writes_the_same_canonical_bytes(values: list[Any]) -> None:
    threads = [thread_with(json.dumps(value)) for value in values]
    lines = "\n".join(thread.to_json() for thread in threads) + "\n"

    answer = subprocess.run(
        [node(), str(ROOT / "tests/node/canonical.mjs")], input=lines.encode(), capture_output=True, check=True
    )

    assert answer.stdout.splitlines() == [thread.canonical_json(javascript=True) for thread in threads]


def test_node_writes_the_same_digits_for_doubles_of_every_size() -> None:
    source = random.Random(1)
    # Multiples of small powers of two often lie halfway between two shortest texts.
    values = [2 ** source.randint(40, 52) + source.randint(0, 2**30) / 2 ** source.randint(0, 12) for _ in range(2000)]
    values += [source.randint(-(2**62), 2**62) / 2 ** source.randint(0, 1000) for _ in range(2000)]
    thread = thread_with(json.dumps([70368744177664.625, -70368744177664.375, *values]))

    answer = subprocess.run(
        [node(), str(ROOT / "tests/node/canonical.mjs")],
        input=thread.to_json().encode() + b"\n",
        capture_output=True,
        check=True,
    )

    assert answer.stdout.splitlines() == [thread.canonical_json(javascript=True)]


@settings(deadline=None, max_examples=cases(200))
@given(documents, documents)
def test_equal_digests_imply_equal_values(one: Any, two: Any) -> None:
    first, second = thread_with(json.dumps(one)), thread_with(json.dumps(two))

    equal = json.loads(json.dumps(one), parse_constant=str) == json.loads(json.dumps(two), parse_constant=str)
    is_same_type = json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True)
    if first.digest() == second.digest():
        assert equal
    if is_same_type:
        assert first.digest() == second.digest()

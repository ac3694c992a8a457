"""turntree accepts and refuses the same histories as Pydantic AI, except where versions of Pydantic AI differ."""

import copy
import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError as Refused
from pydantic_ai.messages import ModelMessagesTypeAdapter as Adapter
from pydantic_ai.messages import ModelRequest, ToolReturnPart
from support.laws import cases

import turntree
from turntree import thread_protocol as tp
from turntree._pydantic_ai import _location

ROOT = Path(__file__).resolve().parents[3]
FIXTURES = sorted((ROOT / "tests/data/thread_protocol/pydantic_ai").glob("*.json"))
TIME = "2026-03-01T10:00:00Z"

# A message of each kind with a part of each kind and an item of each kind; every member has a value.
EVERYTHING: list[dict[str, Any]] = [
    {
        "parts": [
            {"content": "S", "timestamp": TIME, "dynamic_ref": "f", "metadata": {"a": 1}, "part_kind": "system-prompt"},
            {
                "content": [
                    "text",
                    {"url": "https://x.test/a.png", "force_download": False, "kind": "image-url", "identifier": "i"},
                    {"url": "https://x.test/a.mp3", "vendor_metadata": {"a": 1}, "kind": "audio-url"},
                    {"data": "AP-_", "media_type": "image/png", "kind": "binary", "identifier": "b"},
                    {"file_id": "f", "provider_name": "openai", "media_type": "a/b", "kind": "uploaded-file"},
                    {"content": "c", "metadata": [1], "kind": "text-content"},
                    {"content": "c", "kind": "structured-content", "value": {"a": 1}, "tag": "t"},
                    {"kind": "cache-point", "ttl": "5m"},
                ],
                "timestamp": TIME,
                "part_kind": "user-prompt",
            },
        ],
        "timestamp": TIME,
        "instructions": "I",
        "kind": "request",
        "run_id": "r",
        "conversation_id": "c",
        "metadata": {"agent": "a"},
        "state": "complete",
    },
    {
        "parts": [
            {"content": "T", "id": "1", "signature": "s", "provider_name": "p", "part_kind": "thinking"},
            {
                "content": "cited",
                "provider_details": {"a": None},
                "citations": [
                    {
                        "sources": [
                            {"url": "https://x.test", "title": "t", "excerpts": ["e"], "kind": "web"},
                            {"document_id": "d", "kind": "document"},
                        ],
                        "anchor": {"start": 0, "end": 2, "kind": "content"},
                    }
                ],
                "part_kind": "text",
            },
            {"tool_name": "t", "args": {"a": 1.5}, "tool_call_id": "c1", "id": "i", "part_kind": "tool-call"},
            {"tool_name": "t", "args": '{"a":1}', "tool_call_id": "c2", "part_kind": "builtin-tool-call"},
            {"tool_name": "t", "content": [1], "tool_call_id": "c2", "part_kind": "builtin-tool-return"},
            {
                "tool_name": "search_tools",
                "args": {"queries": ["q"]},
                "tool_call_id": "c3",
                "tool_kind": "tool-search",
                "part_kind": "tool-call",
            },
            {
                "tool_name": "load_capability",
                "args": {"id": "q"},
                "tool_call_id": "c4",
                "tool_kind": "capability-load",
                "part_kind": "tool-call",
            },
            {"content": {"data": "AAE=", "media_type": "a/b", "kind": "binary"}, "id": "f", "part_kind": "file"},
            {"content": "C", "id": "1", "provider_name": "p", "part_kind": "compaction"},
            {
                "speaker": "assistant",
                "transcript": "T",
                "audio": {"data": "", "media_type": "audio/wav", "kind": "binary"},
                "interrupted_at_ms": 5,
                "timestamps": [{"text": "T", "start_ms": 0, "duration_ms": 1, "granularity": "word"}],
                "part_kind": "speech",
            },
        ],
        "usage": {"input_tokens": 5, "output_tokens": 1, "audio_seconds": 1.5, "details": {"a": 1}, "cost": "0.10"},
        "model_name": "m",
        "timestamp": TIME,
        "kind": "response",
        "provider_details": {"finish_reason": "end"},
        "provider_response_id": "i",
        "finish_reason": "stop",
        "workspace_ref": {"provider": "p", "id": "w"},
        "failed_attempts": [
            {
                "model_name": "m",
                "provider_name": None,
                "outcome": "error",
                "error": "e",
                "timestamp": TIME,
                "duration": "PT1.5S",
                "usage": {"input_tokens": 1},
            }
        ],
        "state": "complete",
    },
    {
        "parts": [
            {
                "tool_name": "t",
                "content": {"a": [1, "x"]},
                "tool_call_id": "c1",
                "metadata": {"a": 1},
                "timestamp": TIME,
                "outcome": "retried",
                "retry": {"cause": "model_retry", "attempt": 1, "max_retries": None},
                "part_kind": "tool-return",
                "content_file_digests": ["00"],
            },
            {
                "tool_name": "search_tools",
                "content": {"discovered_tools": [{"name": "n", "description": "d"}], "message": "m"},
                "tool_call_id": "c3",
                "tool_kind": "tool-search",
                "timestamp": TIME,
                "part_kind": "tool-return",
            },
            {
                "tool_name": "load_capability",
                "content": {"instructions": "i"},
                "tool_call_id": "c4",
                "tool_kind": "capability-load",
                "timestamp": TIME,
                "outcome": "success",
                "part_kind": "tool-return",
            },
            {
                "content": [{"type": "t", "loc": ["a", 1], "msg": "m", "input": None, "ctx": {"a": 1}, "url": "u"}],
                "tool_name": "t",
                "tool_call_id": "c5",
                "timestamp": TIME,
                "part_kind": "retry-prompt",
            },
            {"content": "F", "retry": {"cause": "no_output"}, "timestamp": TIME, "part_kind": "retry-feedback"},
            {"tools_added": ["t"], "tool_call_id": "c", "part_kind": "tool-availability-delta"},
            {"loaded": ["c"], "tool_call_id": None, "part_kind": "capability-load-delta"},
            {"settings": {"thinking": "low"}, "top_level": True, "part_kind": "model-settings-delta"},
            {"id": "agent", "content": "I", "base_hash": "h", "part_kind": "instruction-delta"},
            {
                "instructions": [
                    {"content": "I", "dynamic": True, "on_change": "append", "name": "n", "part_kind": "instruction"},
                    {"id": None, "dynamic": False, "content_hash": "h", "part_kind": "instruction-digest"},
                ],
                "part_kind": "instruction-baseline",
            },
            {"speaker": "user", "transcript": "T", "part_kind": "speech"},
        ],
        "timestamp": None,
        "kind": "request",
    },
]

# Values that replace another value.
OTHERS: list[Any] = [
    *(None, True, False, 0, 5, -1.5, 1e300, 2**70, "", "x", "5", "2026-02-30T00:00:00Z", "AAA", "A-+A"),
    *([], [None], ["x"], [5], {}, {"x": None}, {"kind": None}, {"kind": "x"}, [[[None]]], [{}]),
]

Path_ = tuple[int | str, ...]


def places(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Every location in a document."""
    if path:
        yield path
    children = enumerate(value) if isinstance(value, list) else value.items() if isinstance(value, dict) else ()
    for step, child in children:
        yield from places(child, (*path, step))


def mutations(document: Any, path: Path_) -> Iterator[Any]:
    """The document with one location changed, once for each kind of change."""

    def changed(change: Any) -> Any:
        mutated = copy.deepcopy(document)
        parent = mutated
        for step in path[:-1]:
            parent = parent[step]
        change(parent, path[-1])
        return mutated

    def rename(parent: Any, step: Any) -> None:
        members = list(parent.items())
        parent.clear()
        parent.update((f"{key}_" if key == step else key, value) for key, value in members)

    def extra(parent: Any, step: Any) -> None:
        if isinstance(parent, dict):
            parent["later"] = {"a": [1, None]}
        else:
            parent.insert(step, copy.deepcopy(parent[step]))

    yield changed(lambda parent, step: parent.pop(step))
    yield changed(extra)
    if isinstance(path[-1], str):
        yield changed(rename)
    for other in OTHERS:
        yield changed(lambda parent, step, other=other: parent.__setitem__(step, other))


def written(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def verdict(data: bytes) -> Any:
    """The history that Pydantic loads, or its error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Adapter.validate_json(data)
    except Refused as error:
        return error


def is_of_another_version(error: Refused) -> bool:
    """Whether Pydantic refuses a form of an older version, or a value that a later version can accept."""
    for said in error.errors(include_url=False):
        new_word = said["type"] == "union_tag_invalid" or (
            said["type"] == "literal_error" and isinstance(said["input"], str)
        )
        old_null = said["input"] is None and said["loc"][-1] in ("tool_call_id", "usage")
        if new_word or old_null:
            return True
    return False


def disagreement(data: bytes) -> str | None:
    """The difference between the results of turntree and Pydantic for a history; None if they agree."""
    said = verdict(data)
    try:
        thread = tp.from_pydantic_ai(data)
    except turntree.ValidationError as error:
        if not isinstance(said, Refused):
            return f"refused: {error}"
        pointer, document = error.errors()[0]["pointer"], json.loads(data)
        found = {"".join(f"/{step}" for step in _location(document, one)) for one in said.errors(include_url=False)}
        near = any(pointer.startswith(place) or place.startswith(pointer) for place in found)
        return None if near else f"refused at {pointer}, by Pydantic at {sorted(found)}"
    if isinstance(said, Refused):
        return None if is_of_another_version(said) else f"accepted: {said}"
    # The only escape and the only space here that writers do not produce.
    if thread.to_pydantic_ai_json() != data.replace(rb"\/", b"/").replace(b"[ ]", b"[]"):
        return "the round trip changes the history"
    tp.from_pydantic_ai(data, profile="portable").to_pydantic_ai_json()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return None if dumped(thread.to_pydantic_ai()) == dumped(said) else "the built objects differ"


def dumped(messages: list[Any]) -> Any:
    """The history that Pydantic stores, without the times and ids that it generates."""
    made_up = re.compile(rb'"(timestamp|tool_call_id)":"[^"]*"')
    return made_up.sub(b"", Adapter.dump_json(messages))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("message", EVERYTHING, ids=["prompts", "answer", "returns"])
def test_turntree_and_pydantic_agree_on_every_single_mutation(message: dict[str, Any]) -> None:
    assert disagreement(written([message])) is None
    assert not isinstance(verdict(written([message])), Refused)

    differ = [
        (said, mutated)
        for path in places([message])
        for mutated in mutations([message], path)
        if (said := disagreement(written(mutated)))
    ]

    assert differ == []


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**80), 2**80),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=6),
    st.sampled_from(["request", "text", "binary", "success", "openai", TIME, "AAAA", "P1D"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["kind", "content", "part_kind", "data", "url", "x"]), inner, max_size=3),
    ),
    max_leaves=5,
)
HISTORIES = [EVERYTHING, *(json.loads(path.read_bytes()) for path in FIXTURES if path.stem != "unknown")]


@pytest.mark.timeout(300)
@settings(deadline=None, max_examples=cases(300), suppress_health_check=list(HealthCheck))
@given(st.sampled_from(HISTORIES), st.lists(st.tuples(st.integers(0), values), min_size=1, max_size=3))
def test_turntree_and_pydantic_agree_on_several_mutations(history: list[Any], changes: list[tuple[int, Any]]) -> None:
    mutated = copy.deepcopy(history)
    for number, value in changes:
        found = list(places(mutated))
        if found:
            *steps, last = found[number % len(found)]
            parent: Any = mutated
            for step in steps:
                parent = parent[step]
            parent[last] = value

    assert disagreement(written(mutated)) is None


# Spellings of one member at the limits of the accepted syntax.
SPELLED: dict[str, list[str]] = {
    "timestamp": [
        *("1", "-1.5", "1e10", "2e10", "20000000001", "253402300799999", "253402300800000", "-62135596800001", "1e300"),
        *('"1"', '"+1"', '".5"', '"1."', '"1e5"', '"1_0"', '"20260101"', '"2026-01-01"', '"2026-1-1"', '"now"', '""'),
        *(f'"2026-01-01{sep}10:00"' for sep in ("T", "t", " ", "_", "X", "")),
        *(
            f'"2026-01-01T{clock}Z"'
            for clock in ("10", "10:0", "24:00:00", "10:60", "10:00:60", "10:00:00.", "10:00:00,5")
        ),
        *(f'"2026-01-01T10:00:00.{"1" * count}Z"' for count in (1, 6, 7, 9, 10, 20)),
        *(
            f'"2026-01-01T10:00:00{offset}"'
            for offset in (
                "z",
                "+0530",
                "+05",
                "+05:30",
                "-24:00",
                "+23:59",
                "+05:60",
                " +05:30",
                "−05:30",
                "Z ",
                "+-1:00",
            )
        ),
        *(f'"{year}-02-29T00:00:00Z"' for year in ("2024", "2023", "2000", "1900", "0000", "0004", "9996", "-001")),
        *('" 2026-01-01"', '"2026-01-01T10:00:00Z\\n"', "true", "null", "[]"),
    ],
    "input_tokens": [
        *("1.0", "1.5", "1e3", "-0.0", "1e18", "1e19", "1e300", "123456789012345678901234567890", "true", "null"),
        *(
            '"1"',
            '"1.0"',
            '"1.5"',
            '" 1 "',
            '"+1"',
            '"1_000"',
            '"1__0"',
            '"_1"',
            '""',
            '"1e3"',
            '"0x1"',
            '"1."',
            '"١"',
            '"-"',
        ),
    ],
    "audio_seconds": ['"1e3"', '" 1.5 "', '"1_0"', '""', '"x"', '".5"', '"1."', '"+1"', '"0x1"', "true", "1e400"],
    "cost": [
        "1",
        "true",
        '"x"',
        '"nan"',
        '"inf"',
        '"1e400"',
        "1e400",
        '" 1 "',
        '"1_000"',
        '""',
        '"."',
        '"1E+5"',
        '"1e"',
        '"0x1"',
    ],
    "details": ["null", "0", "0.0", "5", "false", "true", '""', '"x"', "[]", "[ ]", "[1]", '{"a":null}', '{"a":"5"}'],
    "top_level": ["1", "0.0", "2", '"TRUE"', '"on"', '"2"', '""', '" true"', "null"],
    "duration": [
        *(
            '"P1D"',
            '"1:00:00"',
            '"00:01"',
            "1.5",
            '"1"',
            '"P"',
            '"PT"',
            '"1 day, 00:00:01"',
            '"-PT1S"',
            '"P1Y2M"',
            '"1d"',
        ),
        *('"P1DT"', '"p1d"', '"P1H"', '"25:00:00"', '"x"', "null", "true", "1e300", '""'),
    ],
    "data": [
        f'"{text}"'
        for text in (
            *(
                "",
                "a",
                "aa",
                "aQ",
                "aaa",
                "aac",
                "aaaa",
                "aQ==",
                "aQ=",
                "aac=",
                "a===",
                "====",
                "=",
                "aa-_",
                "aa+\\/",
                "a-+_",
            ),
            *("aaaa\\n", " aaaa", "aa%%", "aé==", "aQ==aQ=="),
        )
    ],
}


@pytest.mark.parametrize("member", SPELLED)
def test_turntree_and_pydantic_agree_on_every_spelling(member: str) -> None:
    text = next(text for text in map(written, ([message] for message in EVERYTHING)) if f'"{member}":'.encode() in text)
    member_and_value = re.compile(rf'"{member}":("[^"]*"|\{{[^}}]*\}}|[^,}}]*)'.encode())

    for spelling in SPELLED[member]:
        found = member_and_value.search(text)
        assert found
        data = text[: found.start()] + f'"{member}":{spelling}'.encode() + text[found.end() :]
        assert disagreement(data) is None, spelling


@pytest.mark.parametrize(
    ("data", "pointer"),
    [
        ('[{"kind":"request","parts":[{"content":5,"content":"x","part_kind":"user-prompt"}]}]', None),
        ('[{"kind":"request","parts":[{"content":"x","content":5,"part_kind":"user-prompt"}]}]', "/0/parts/0/content"),
        ('[{"kind":"request","parts":[{"content":"\\ud83d\\ude00 \\\\ud800","part_kind":"user-prompt"}]}]', None),
        ('[{"kind":"request","parts":[{"content":"\\ud800","part_kind":"user-prompt"}]}]', ""),
        ('[{"kind":"request","parts":[{"content":"\\uDE00","part_kind":"user-prompt"}]}]', ""),
        ('[{"kind":"request","parts":[]},{"kind":"response","parts":[],"state":null}]', "/1/state"),
        (
            '[{"kind":"request","parts":[{"content":["a",{"kind":"binary","data":"%"}],"part_kind":"user-prompt"}]}]',
            "/0/parts/0/content/1/data",
        ),
        # The last one of duplicate members counts.
        ('[{"kind":"request","parts":[{"content":5,"part_kind":"user-prompt"}],"parts":[]}]', None),
        ('[{"kind":"request","parts":5,"parts":[]}]', None),
        ('[{"kind":"request","parts":[],"parts":5}]', "/0/parts"),
        ('[{"kind":"request","parts":[],"parts":[{"content":5,"part_kind":"user-prompt"}]}]', "/0/parts/0/content"),
        ('[{"kind":"response","parts":[],"usage":{"input_tokens":"x"},"usage":{}}]', None),
        ('[{"kind":"response","parts":[],"usage":{},"usage":{"input_tokens":"x"}}]', "/0/usage/input_tokens"),
        ('[{"kind":"response","parts":[],"usage":{"details":{"a":"x","a":1}}}]', None),
    ],
)
def test_refused_values_are_reported_with_their_location(data: str, pointer: str | None) -> None:
    refused = isinstance(verdict(data.encode()), Refused)
    assert refused == (pointer is not None)
    if pointer is None:
        assert tp.from_pydantic_ai(data).to_pydantic_ai_json()
        return

    with pytest.raises(turntree.ValidationError) as caught:
        tp.from_pydantic_ai(data)

    assert caught.value.errors()[0]["pointer"] == pointer


@pytest.mark.parametrize("innermost", ["[]", "{}", "1", "[1]"])
@pytest.mark.parametrize(
    ("around", "pointer"),
    [
        ('{"kind":"request","parts":[],"metadata":{"a":%s}}', "/1/metadata"),
        ('{"kind":"request","parts":[],"later":%s}', "/1/later"),
        ('{"kind":"response","parts":[],"usage":{"web_searches":%s}}', "/1/usage/web_searches"),
        (
            '{"kind":"request","parts":[{"part_kind":"tool-return","tool_name":"t","content":%s}]}',
            "/1/parts/0/content",
        ),
    ],
)
def test_values_nested_too_deeply_are_reported_with_their_location(around: str, pointer: str, innermost: str) -> None:
    for levels in range(190, 203):
        nested = "[" * levels + innermost + "]" * levels
        data = f'[{{"kind":"request","parts":[]}},{around % nested}]'
        said = verdict(data.encode())
        if not isinstance(said, Refused):
            assert tp.from_pydantic_ai(data).to_pydantic_ai_json() == data.encode()
            continue
        if "recursion limit" not in str(said):
            continue  # Pydantic refuses for another reason.
        with pytest.raises(turntree.ValidationError, match="nested deeper than 200 levels") as caught:
            tp.from_pydantic_ai(data)
        assert caught.value.errors()[0]["pointer"] == pointer


def test_unloadable_message_objects_are_reported_with_their_location() -> None:
    deep: Any = "x"
    for _ in range(210):
        deep = [deep]
    part = ToolReturnPart("t", deep, "c")

    with pytest.raises(turntree.ValidationError, match="nested deeper") as caught:
        tp.from_pydantic_ai([ModelRequest([]), ModelRequest([part])])

    assert caught.value.errors()[0]["pointer"] == "/1/parts/0/content"
    assert isinstance(verdict(Adapter.dump_json([ModelRequest([part])])), Refused)


def test_documents_of_other_versions_are_preserved() -> None:
    later = [
        {"kind": "reflection", "parts": []},
        {"kind": "request", "parts": [{"part_kind": "smell", "rose": 5}], "mood": {"a": 1}},
        {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": [{"kind": "hologram"}], "state": 1}]},
        {"kind": "response", "parts": [], "usage": None, "state": "dreaming", "finish_reason": "bored"},
        {"kind": "response", "parts": [{"part_kind": "tool-call", "tool_name": "t", "tool_call_id": None}]},
    ]

    for message in later:
        assert isinstance(verdict(written([message])), Refused)
        assert tp.from_pydantic_ai(written([message])).to_pydantic_ai_json() == written([message])

"""The published JSON Schema and the validator agree, except on rules that a schema cannot express."""

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.laws import cases

import turntree
from turntree import thread_protocol as tp

PUBLISHED = Path(__file__).resolve().parents[3] / "docs/schema/thread-protocol-1.0.0.schema.json"
SCHEMA = tp.Thread.model_json_schema()
CHECKER = jsonschema.Draft202012Validator(SCHEMA)

# Rules that compare locations, count, or need the calendar: `$comment` of the schema lists them.
BEYOND = {"sequence", "tool_call_id", "tool_name", "agent_id", "agent_key"}

AGENTS = ["9f0b7a52-5b0c-4d0e-9a77-0f3f4a8a0001", "b"]
times = st.sampled_from(
    ["2025-01-15T10:00:00Z", "2025-01-15T10:00:00.5+02:00", "2025-01-15T10:00:00", "2024-02-29T23:59:59.123456Z"]
)
texts = st.text(st.characters(codec="utf-8"), max_size=5)
payloads = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**60) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
contents = texts | st.lists(
    st.fixed_dictionaries({"type": st.just("text"), "text": texts})
    | st.fixed_dictionaries(
        {"type": st.just("image")}, optional={"image_url": texts, "media_type": texts, "x": payloads}
    )
    | st.fixed_dictionaries({"type": st.just("audio")}, optional={"audio_base64": texts, "file_id": texts})
    | st.fixed_dictionaries({"type": st.just("smell")}),
    max_size=2,
)
attachments = st.lists(
    st.fixed_dictionaries(
        {"name": texts, "media_type": texts}, optional={"url": texts, "size_bytes": st.integers(0, 2**63)}
    ),
    max_size=2,
)


def action(kind: str, members: dict[str, Any], optional: dict[str, Any] | None = None) -> Any:
    return st.fixed_dictionaries(
        {"action_type": st.just(kind), "timestamp": times, **members},
        optional={"action_id": texts, "metadata": st.dictionaries(texts, payloads, max_size=1), **(optional or {})},
    )


actions = st.one_of(
    action("user_message", {"content": contents}, {"attachments": attachments}),
    action(
        "assistant_message",
        {"content": contents, "agent_id": st.sampled_from(AGENTS)},
        {
            "finish_reason": st.sampled_from(["stop", "length", None]),
            "usage": st.fixed_dictionaries({"input_tokens": st.integers(0, 9), "output_tokens": st.integers(0, 9)}),
        },
    ),
    action(
        "thinking",
        {"agent_id": st.sampled_from(AGENTS), "provider_name": texts},
        {"signature": texts, "usage": st.fixed_dictionaries({}, optional={"thinking_tokens": st.integers(0, 9)})},
    ),
    action("tool_call", {"agent_id": st.just("b"), "tool_name": texts, "tool_call_id": texts, "args": payloads}),
    action("system.note", {"data": payloads}),
)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    made = [{**one, "sequence": number} for number, one in enumerate(draw(st.lists(actions, max_size=4)), 1)]
    call = next((one for one in made if one["action_type"] == "tool_call"), None)
    if call is not None:
        made.append(
            {
                "action_type": "tool_return",
                "timestamp": "2025-01-15T10:00:00Z",
                "sequence": len(made) + 1,
                "tool_call_id": call["tool_call_id"],
                "tool_name": call["tool_name"],
                "status": draw(st.sampled_from(["success", "error", "validation_error"])),
                "content": draw(payloads),
            }
        )
    return {
        "version": "1.0.0",
        "thread_id": "550e8400-e29b-41d4-a716-446655440000",
        "created_at": draw(times),
        "updated_at": draw(times),
        "title": draw(texts),
        "agents": {
            key: {"agent_id": key, "agent_identifier": key, "agent_name": draw(texts), "created_at": draw(times)}
            for key in AGENTS
        },
        "actions": made,
    }


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(value, dict):
        for key, inner in value.items():
            found += places(inner, (*path, key))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            found += places(inner, (*path, place))
    return found


def ours(document: Any) -> bool:
    """Whether the validator accepts a document, without the rules that a schema cannot express."""
    try:
        thread = tp.Thread.model_validate_json(json.dumps(document))
    except turntree.ValidationError:
        return False
    # A schema can only express that sequence numbers begin at 1.
    said = [issue for issue in thread.validate() if issue.severity == "error"]
    return not [one for one in said if one.rule not in BEYOND or one.message.startswith("sequence 0 ")]


def test_the_published_file_is_the_schema() -> None:
    assert json.loads(PUBLISHED.read_text("utf-8")) == SCHEMA
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert all(rule in SCHEMA["$comment"] for rule in BEYOND)


def test_the_example_of_the_specification_fits_the_schema(root: Path) -> None:
    example = json.loads((root / "tests/data/thread_protocol/example.json").read_text("utf-8"))

    assert [error.message for error in CHECKER.iter_errors(example)] == []


@settings(max_examples=cases(150), deadline=None)
@given(documents())
def test_schema_and_library_accept_valid_documents(document: dict[str, Any]) -> None:
    assert ours(document)
    CHECKER.validate(document)


MUTANTS = [
    *(None, 0, -1, 1.5, True, "", "x", [], {}, ["x"], {"type": "text"}, {"type": "text", "text": 1}),
    *("system.", "system.a b", "system.\u00a0", "user_message", "tool_call", "stop", "error", 2**70, "1.0.0\n"),
    *("2025-13-01T00:00:00Z", "2025-01-15", "2025-01-15T10:00:00Z\n", "2025-01-15t10:00:00z", "2025-01-15T24:00:00Z"),
    *("2025-01-15T10:00:00.1234567890Z", "2025-01-15T10:00:60Z", "2025-01-15T10:00:00+02"),
    *(
        2**64 - 1,
        2**64,
        10**400,
        [None],
        [[]],
        {"": {}},
        {"type": None},
        {"action_type": "user_message"},
        "system.\u2028",
    ),
    *(
        "systemx",
        "System.a",
        "system.é",
        "thinking ",
        "2025-00-01T00:00:00Z",
        "+2025-01-01T00:00:00Z",
        "\u0662025-01-01",
    ),
]
# Members of the specification, to insert at invalid locations or with other values.
MEMBERS = [
    *("version", "thread_id", "parent_thread_id", "title", "metadata", "agents", "actions", "config_ref", "agent_id"),
    *(
        "action_type",
        "action_id",
        "timestamp",
        "sequence",
        "content",
        "attachments",
        "usage",
        "finish_reason",
        "status",
    ),
    *(
        "thinking_tokens",
        "total_tokens",
        "size_bytes",
        "type",
        "text",
        "image_url",
        "file_id",
        "data",
        "args",
        "",
        "new",
    ),
]


def pointer_resolves(document: Any, pointer: str) -> bool:
    """Whether a JSON pointer names a location of the document, or a missing member of one."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
    for number, step in enumerate(steps, 1):
        inside = document.get(step) if isinstance(document, dict) else None
        if isinstance(document, list):
            inside = document[int(step)] if step.isdigit() and int(step) < len(document) else None
        if inside is None:
            return number == len(steps)
        document = inside
    return True


@st.composite
def mutated_documents(draw: st.DrawFn) -> Any:
    document = copy.deepcopy(draw(documents()))
    for _ in range(draw(st.integers(1, 3))):
        known = places(document)
        if not known:
            return document
        *way, last = draw(st.sampled_from(known))
        inside = document
        for step in way:
            inside = inside[step]
        how = draw(st.sampled_from(["remove", "replace", "add", "twice"]))
        if how == "remove":
            del inside[last]
        elif how == "replace":
            inside[last] = copy.deepcopy(draw(st.sampled_from(MUTANTS)))
        elif how == "add" and isinstance(inside, dict):
            inside[draw(st.sampled_from(MEMBERS))] = copy.deepcopy(draw(st.sampled_from(MUTANTS)))
        elif how == "twice" and isinstance(inside, list):
            inside.append(copy.deepcopy(inside[last]))
    return document


@settings(max_examples=cases(600), deadline=None)
@given(mutated_documents())
def test_schema_and_library_agree_on_mutations(document: Any) -> None:
    assert ours(document) == CHECKER.is_valid(document), document


def counted(member: str, count: int) -> dict[str, Any]:
    """A document with the count in one member."""
    start = {"timestamp": "2025-01-15T10:00:00Z", "sequence": 1}
    if member == "size_bytes":
        attachment = {
            "attachment_id": "a",
            "media_type": "text/plain",
            "name": "a.txt",
            "url": "https://a.example/a.txt",
        }
        only = {**start, "action_type": "user_message", "content": "", "attachments": [attachment | {member: count}]}
    elif member == "thinking_tokens":
        only = {
            **start,
            "action_type": "thinking",
            "content": "",
            "agent_id": "b",
            "provider_name": "",
            "usage": {member: count},
        }
    else:
        usage = {"input_tokens": 0, "output_tokens": 0} | {member: count}
        only = {**start, "action_type": "assistant_message", "content": "", "agent_id": AGENTS[1], "usage": usage}
    times = {"created_at": "2025-01-15T10:00:00Z", "updated_at": "2025-01-15T10:00:00Z"}
    agent = {"agent_id": "b", "agent_identifier": "b", "agent_name": "", "created_at": times["created_at"]}
    return {"version": "1.0.0", "thread_id": AGENTS[0], "title": "", **times, "agents": {"b": agent}, "actions": [only]}


@pytest.mark.parametrize("member", ["input_tokens", "output_tokens", "total_tokens", "thinking_tokens", "size_bytes"])
def test_counts_have_64_bits(member: str) -> None:
    for count in (0, 2**64 - 1):
        assert ours(counted(member, count))
        assert CHECKER.is_valid(counted(member, count))
    for count in (-1, 2**64, 2**70):
        assert not CHECKER.is_valid(counted(member, count))
        with pytest.raises(turntree.ValidationError, match="whole number from 0 to 18446744073709551615"):
            tp.Thread.model_validate_json(json.dumps(counted(member, count)))


@settings(max_examples=cases(200), deadline=None)
@given(mutated_documents(), st.booleans())
def test_every_issue_contains_a_location_a_rule_and_a_remedy(document: Any, strict: bool) -> None:
    try:
        thread = tp.Thread.model_validate_json(json.dumps(document))
    except turntree.ValidationError as error:
        found = [(entry["pointer"], entry["type"], entry["msg"]) for entry in error.errors()]
    else:
        issues = thread.validate(strict=strict)
        assert {issue.severity for issue in issues} <= ({"error"} if strict else {"error", "warning"})
        found = [(issue.pointer, issue.rule, issue.remedy) for issue in issues]
    for pointer, rule, words in found:
        assert pointer_resolves(document, pointer), pointer
        assert rule
        assert words


@pytest.mark.parametrize("document", [None, [], "x", 1, {}, [{}]])
def test_schema_and_library_refuse_non_documents(document: Any) -> None:
    assert not ours(document)
    assert not CHECKER.is_valid(document)


@settings(max_examples=cases(100), deadline=None)
@given(documents())
def test_documents_preserve_unknown_members(document: dict[str, Any]) -> None:
    document["new"] = {"a": [1, None]}
    for one in document["actions"]:
        one["extra"] = {"b": 1.50}
    document["actions"].append({"action_type": "system.unknown-thing.x", "timestamp": "2025-01-15T10:00:00Z"})
    document["actions"][-1] |= {"sequence": len(document["actions"]), "data": {"k": None}, "more": True}

    kept = json.loads(tp.Thread.model_validate_json(json.dumps(document)).model_dump_json())

    assert without_nulls(kept) == without_nulls(document)


def without_nulls(value: Any) -> Any:
    """Optional members that are null count as absent."""
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("sequence", lambda doc: doc["actions"][1].update(sequence=9)),
        ("tool_call_id", lambda doc: doc["actions"][3].update(tool_call_id="nobody")),
        ("tool_name", lambda doc: doc["actions"][3].update(tool_name="other")),
        ("agent_id", lambda doc: doc["actions"][1].update(agent_id="nobody")),
        ("agent_key", lambda doc: doc["agents"]["agent_001"].update(agent_id="agent_009")),
        ("timestamp", lambda doc: doc["actions"][0].update(timestamp="2025-02-30T10:00:00Z")),
    ],
)
def test_rules_that_a_schema_cannot_express_are_checked_by_the_library(root: Path, rule: str, change: Any) -> None:
    document = json.loads((root / "tests/data/thread_protocol/example.json").read_text("utf-8"))
    change(document)

    issues = tp.Thread.model_validate(document).validate()

    assert rule in {issue.rule for issue in issues if issue.severity == "error"}
    assert CHECKER.is_valid(document)


def test_strict_validation_enforces_the_literal_specification(root: Path) -> None:
    thread = tp.Thread.model_validate_json((root / "tests/data/thread_protocol/example.json").read_bytes())
    assert {issue.rule for issue in thread.validate(strict=True)} == {"uuid"}

    agent = tp.AgentConfig("A", agent_id=AGENTS[0], created_at="2025-01-15T10:00:00Z")
    call = tp.ToolCallAction(
        "t", {"a": [1, {"b/c": 2**60}]}, agent_id=AGENTS[0], tool_call_id="c", timestamp="2025-01-15T10:00:00"
    )
    odd = tp.Thread(agents=[agent], actions=[call], metadata={"app": 1})
    found = {(issue.rule, issue.pointer) for issue in odd.validate(strict=True)}
    assert ("number", "/actions/0/args/a/1/b~1c") in found
    assert ("timestamp", "/actions/0/timestamp") in found
    assert ("open_call", "/actions/0/tool_call_id") in found
    assert {issue.severity for issue in odd.validate(strict=True)} == {"error"}
    assert [issue.rule for issue in odd.validate()] == ["open_call"]
    odd.check()
    with pytest.raises(turntree.ValidationError, match="tool_return"):
        odd.check(strict=True)


def test_duplicate_calls_agents_and_action_ids_are_warnings() -> None:
    at = {"timestamp": "2025-01-15T10:00:00Z"}
    agents = [tp.AgentConfig("A", agent_id=key, agent_identifier="same", created_at=at["timestamp"]) for key in "ab"]
    call = tp.ToolCallAction("t", agent_id="a", tool_call_id="c", action_id="x", **at)
    thread = tp.Thread(agents=agents, actions=[call, call])

    found = sorted((issue.rule, issue.severity) for issue in thread.validate())

    assert found == [
        ("action_id", "warning"),
        ("agent_identifier", "warning"),
        ("duplicate_call", "warning"),
        ("open_call", "warning"),
        ("open_call", "warning"),
    ]

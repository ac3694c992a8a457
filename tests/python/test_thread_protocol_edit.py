"""Digests, and threads made of threads: each result is valid, and no change goes unnoticed."""

import copy
import json
import re
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from turntree import thread_protocol as tp

START = "2025-01-15T10:00:00Z"
AGENTS = [tp.AgentConfig(name, agent_id=name, created_at=START) for name in ("ann", "bob")]

steps = st.lists(
    st.tuples(
        st.sampled_from(["user", "say", "think", "call", "call", "return", "return", "note"]),
        st.sampled_from(["ann", "bob"]),
        st.sampled_from(["c1", "c2"]),
        st.text(max_size=4),
    ),
    max_size=10,
)


def grow(thread: tp.Thread, plan: list[tuple[str, str, str, str]]) -> tp.Thread:
    """Add actions; returns answer calls that are open."""
    open_calls: dict[str, list[str]] = {}
    for action in thread:
        if isinstance(action, tp.ToolCallAction):
            open_calls.setdefault(action.tool_call_id, []).append(action.tool_name)
        elif isinstance(action, tp.ToolReturnAction):
            open_calls[action.tool_call_id].pop(0)
    for kind, agent, call_id, text in plan:
        at = {"timestamp": f"2025-01-15T10:{len(thread) % 60:02}:00Z"}
        if kind == "user":
            thread.append(tp.UserMessageAction([text, tp.ImageContent(image_base64=b"x")], **at))
        elif kind == "say":
            thread.append(tp.AssistantMessageAction(text, agent_id=agent, **at))
        elif kind == "think":
            thread.append(tp.ThinkingAction(text, agent_id=agent, signature="s", **at))
        elif kind == "call":
            name = f"tool{len(thread)}"
            thread.append(tp.ToolCallAction(name, {"n": len(thread)}, agent_id=agent, tool_call_id=call_id, **at))
            open_calls.setdefault(call_id, []).append(name)
        elif kind == "return" and open_calls.get(call_id):
            name = open_calls[call_id].pop(0)
            thread.append(tp.ToolReturnAction(name, {"text": text}, tool_call_id=call_id, **at))
        elif kind == "note":
            thread.append(tp.SystemAction("system.note", {"agent_id": agent}, **at))
    return thread


def thread_of(plan: list[tuple[str, str, str, str]]) -> tp.Thread:
    return grow(tp.Thread(agents=AGENTS, created_at=START, title="t"), plan)


def errors(thread: tp.Thread) -> list[str]:
    return [f"{issue.rule} {issue.pointer}" for issue in thread.validate() if issue.severity == "error"]


@settings(max_examples=150, deadline=None)
@given(steps, steps, steps)
def test_merged_branches_are_valid_and_lose_nothing(past: list[Any], one: list[Any], other: list[Any]) -> None:
    trunk = thread_of(past)
    ours, theirs = grow(trunk.branch(), one), grow(trunk.branch(), other)

    merged = ours.merge(theirs)

    assert errors(merged) == []
    assert merged.actions[: len(ours)] == ours.actions
    common = next(
        (n for n, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs))
    )
    assert len(merged) == len(ours) + len(theirs) - common
    assert merged.parent_thread_id == ours.thread_id
    assert merged.metadata["merge"] == {
        "threads": [ours.thread_id, theirs.thread_id],
        "parent_sequence": common,
    }
    json.loads(merged.to_pydantic_ai_json())


def test_threads_without_a_common_past_are_not_merged() -> None:
    one, other = thread_of([("user", "ann", "c1", "a")]), thread_of([("user", "ann", "c1", "b")])
    with pytest.raises(ValueError, match="no first action in common"):
        one.merge(other)
    stranger = one.branch().add_agent(tp.AgentConfig("Another Ann", agent_id="ann", created_at=START))
    with pytest.raises(ValueError, match='know agent "ann" in two ways'):
        one.merge(stranger)


@settings(max_examples=100, deadline=None)
@given(steps, st.sampled_from([None, "ann", "bob"]), st.integers(0, 12), st.integers(0, 12))
def test_slices_are_valid_and_only_leave_out(plan: list[Any], agent: str | None, start: int, end: int) -> None:
    thread = thread_of(plan)

    cut = thread.slice(agent_id=agent, since=f"2025-01-15T10:{start:02}:00Z", until=f"2025-01-15T10:{end:02}:00Z")

    assert errors(cut) == []
    assert len(cut) <= len(thread)
    assert all(f"10:{start:02}" <= action.timestamp[11:16] < f"10:{end:02}" for action in cut)
    if agent is not None:
        assert all(getattr(action, "agent_id", agent) == agent for action in cut)
    assert thread.slice().actions == thread.actions


@settings(max_examples=100, deadline=None)
@given(steps, st.sets(st.integers(1, 10)))
def test_redaction_takes_contents_and_keeps_the_structure(plan: list[Any], numbers: set[int]) -> None:
    secret = [(kind, agent, call, f"secret{text}") for kind, agent, call, text in plan]
    thread = thread_of(secret)
    numbers = {number for number in numbers if number <= len(thread)}

    redacted = thread.redact(numbers, "█")

    assert errors(redacted) == []
    assert [action.action_type for action in redacted] == [action.action_type for action in thread]
    for before, after in zip(thread, redacted, strict=True):
        if after.sequence in numbers:
            assert "secret" not in after.to_json()
            assert getattr(after, "tool_call_id", None) == getattr(before, "tool_call_id", None)
        else:
            assert before == after
    assert thread.redact(lambda action: action.sequence in numbers, "█") == redacted
    json.loads(redacted.to_pydantic_ai_json())


def test_redaction_reaches_what_was_kept_for_the_way_back() -> None:
    history = (
        b'[{"parts":[{"content":"my secret","timestamp":"2025-01-15T10:00:00Z","part_kind":"user-prompt"}],'
        b'"note":"about a secret","kind":"request"}]'
    )
    for strict in (False, True):
        thread = tp.from_pydantic_ai(history, strict=strict)
        assert "secret" in thread.to_json()

        assert "secret" not in thread.redact([1]).to_json()
    with pytest.raises(ValueError, match="no action has the sequence 9"):
        thread.redact([9])
    with pytest.raises(TypeError, match="sequence numbers, not str"):
        thread.redact(["x"])  # type: ignore[list-item]


@settings(max_examples=200, deadline=None)
@given(steps, st.data())
def test_no_mutation_goes_unnoticed(plan: list[Any], data: st.DataObject) -> None:
    document = thread_of(plan).to_dict()
    assume(len(document["actions"]) > 1)
    mutated = copy.deepcopy(document)
    actions = mutated["actions"]
    how = data.draw(st.sampled_from(["swap", "drop", "digit"]))
    first = data.draw(st.integers(0, len(actions) - 1))
    if how == "swap":
        second = data.draw(st.integers(0, len(actions) - 1).filter(lambda place: place != first))
        actions[first], actions[second] = actions[second], actions[first]
    elif how == "drop":
        del actions[first]
    else:
        text = json.dumps(mutated["actions"])
        digits = [match.start() for match in re.finditer("[0-9]", text)]
        place = data.draw(st.sampled_from(digits))
        changed = text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :]
        try:
            mutated["actions"] = json.loads(changed)
        except json.JSONDecodeError:
            return
    before = tp.Thread.model_validate(document)
    try:
        after = tp.Thread.model_validate(mutated)
    except ValueError:  # not a thread any more, or not text
        return

    noticed = errors(after) or after.digest(include_times=True) != before.digest(include_times=True)

    # A time that would run backwards counts as the one before it; validation says so.
    assert noticed or [issue for issue in after.validate() if issue.rule in {"chronology", "timestamp"}]


def test_digests_do_not_depend_on_spelling_or_times() -> None:
    thread = thread_of([("user", "ann", "c1", "a"), ("say", "bob", "c1", "b")])
    document = thread.to_dict()
    turned = {key: document[key] for key in reversed(document)}
    spelled = json.loads(json.dumps(document).replace("10:01:00Z", "11:01:00.000+01:00"))
    late = json.loads(json.dumps(document).replace("2025-01-15", "2026-01-15"))
    read = tp.Thread.model_validate

    assert len(thread.digest()) == 64
    assert read(turned).digest(include_times=True) == thread.digest(include_times=True)
    assert read(spelled).canonical_json() == thread.canonical_json()
    assert read(late).digest() == thread.digest()
    assert read(late).digest(include_times=True) != thread.digest(include_times=True)
    upper = {**document, "thread_id": document["thread_id"].upper()}
    assert read(upper).canonical_json() == thread.canonical_json()


def test_canonical_times_are_trimmed_and_never_run_backwards() -> None:
    thread = tp.Thread(
        actions=[
            tp.UserMessageAction("a", timestamp="2025-01-15T12:00:00.120000+02:00"),
            tp.UserMessageAction("b", timestamp="2025-01-15T09:00:00.000Z"),
            tp.UserMessageAction("c", timestamp="2025-01-15T10:00:01.000Z"),
        ]
    )

    times = [action["timestamp"] for action in json.loads(thread.canonical_json())["actions"]]

    assert times == ["2025-01-15T10:00:00.12Z", "2025-01-15T10:00:00.12Z", "2025-01-15T10:00:01Z"]
    assert thread[1].timestamp == "2025-01-15T09:00:00.000Z"


def shown(thread: tp.Thread, agent_id: str, **options: Any) -> list[Any]:
    return json.loads(thread.to_pydantic_ai_json(agent_id, **options))


@settings(max_examples=150, deadline=None)
@given(
    steps,
    st.sampled_from(["ann", "bob"]),
    st.sampled_from(["hide", "summarize", "show"]),
    st.sampled_from(["user", "assistant"]),
)
def test_a_view_is_a_history_that_providers_take(plan: list[Any], agent: str, tools: Any, role: Any) -> None:
    thread = thread_of([(kind, who, call, f"w{number}") for number, (kind, who, call, _) in enumerate(plan)])

    view = shown(thread, agent, tool_visibility=tools, others_role=role)

    open_calls: list[str] = []
    for place, message in enumerate(view):
        kinds = [part["part_kind"] for part in message["parts"]]
        assert kinds, "no empty message"
        returns = [kind == "tool-return" for kind in kinds]
        assert returns == sorted(returns, reverse=True), "results stand before what users say"
        for part in message["parts"]:
            if part["part_kind"] == "tool-call":
                assert message["kind"] == "response"
                open_calls.append(part["tool_call_id"])
            elif part["part_kind"] == "tool-return":
                assert message["kind"] == "request"
                open_calls.remove(part["tool_call_id"])
        if place and message["kind"] == "request":
            assert view[place - 1]["kind"] == "response"
    for call_id in open_calls:
        last = max(n for n, one in enumerate(view) if call_id in [part.get("tool_call_id") for part in one["parts"]])
        later = [part["part_kind"] for one in view[last + 1 :] for part in one["parts"]]
        assert not {"user-prompt", "text"} & set(later), "a call that nothing answered is the last word"
    words = {f"w{number}" for number in range(len(plan))}
    said = json.dumps([part.get("content") for message in view for part in message["parts"]])
    assert set(re.findall(r"w\d+", said)) <= words, "nothing is invented"


@settings(max_examples=100, deadline=None)
@given(steps, st.sampled_from(["user", "assistant"]))
def test_round_trips_do_not_stack_who_said_it(plan: list[Any], role: Any) -> None:
    thread = thread_of(plan)
    bob = AGENTS[1]
    first = thread.to_pydantic_ai_json("bob", others_role=role)

    again = tp.from_pydantic_ai(first, agent=bob)
    second = again.to_pydantic_ai_json("bob", others_role=role)

    texts = [
        json.dumps([part.get("content") for message in json.loads(view) for part in message["parts"]])
        for view in (first, second)
    ]
    assert texts[0].count("{agent:") == texts[1].count("{agent:")

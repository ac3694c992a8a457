"""Digests, and threads derived from threads: each result is valid, and the digest detects each change."""

import copy
import json
import re
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic_ai import messages as m
from support.laws import cases

import turntree
from turntree import thread_protocol as tp
from turntree import upp

START = "2025-01-15T10:00:00Z"
PNG = b"\x89PNG\r\n\x1a\nxxxx"
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


def content_of_action(action: Any) -> Any:
    """The content of an action, without its ids and its branch."""
    told = {key: value for key, value in action.model_dump().items() if key not in {"sequence", "tool_call_id"}}
    if told["action_type"] == "system.tp.second_return":
        return told["data"]["tool_name"], told["data"]["content"]
    return (told["tool_name"], told["content"]) if told["action_type"] == "tool_return" else told


@pytest.mark.timeout(240)
@settings(max_examples=cases(100), deadline=None)
@given(steps, steps, steps)
def test_merged_branches_are_valid_and_contain_all_actions(past: list[Any], one: list[Any], other: list[Any]) -> None:
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
    assert merged.metadata["branch"] == {"parent_sequence": len(ours)}
    assert "merge" not in merged.branch().metadata
    assert ours.merge(theirs).actions == merged.actions, "merging is deterministic"
    before = [content_of_action(action) for action in [*ours, *theirs[common:]]]
    assert [content_of_action(action) for action in merged] == before, "everything once, in order"
    late = json.loads(theirs.to_json().replace("2025-01-15T10:", "2025-01-15T12:").replace("00Z", "00.000+02:00"))
    assert len(ours.merge(tp.Thread.model_validate(late))) == len(merged), "spelling does not part branches"
    json.loads(merged.to_pydantic_ai_json())


def test_merge_refuses_threads_without_a_common_action() -> None:
    one, other = thread_of([("user", "ann", "c1", "a")]), thread_of([("user", "ann", "c1", "b")])
    with pytest.raises(ValueError, match="no first action in common"):
        one.merge(other)
    stranger = one.branch().add_agent(tp.AgentConfig("Another Ann", agent_id="ann", created_at=START))
    with pytest.raises(ValueError, match='define agent "ann" differently'):
        one.merge(stranger)


@settings(max_examples=cases(100), deadline=None)
@given(steps, st.sampled_from([None, "ann", "bob"]), st.integers(0, 12), st.integers(0, 12))
def test_slices_are_valid_subsets(plan: list[Any], agent: str | None, start: int, end: int) -> None:
    thread = thread_of(plan)

    cut = thread.slice(agent_id=agent, since=f"2025-01-15T10:{start:02}:00Z", until=f"2025-01-15T10:{end:02}:00Z")

    assert errors(cut) == []
    assert len(cut) <= len(thread)
    assert all(f"10:{start:02}" <= action.timestamp[11:16] < f"10:{end:02}" for action in cut)
    if agent is not None:
        assert all(getattr(action, "agent_id", agent) == agent for action in cut)
    assert thread.slice().actions == thread.actions


@settings(max_examples=cases(100), deadline=None)
@given(steps, st.sets(st.integers(1, 10)))
def test_redaction_removes_contents_and_preserves_the_structure(plan: list[Any], numbers: set[int]) -> None:
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


def test_redaction_applies_to_round_trip_metadata() -> None:
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


@settings(max_examples=cases(200), deadline=None)
@given(steps, st.data())
def test_the_digest_detects_every_mutation(plan: list[Any], data: st.DataObject) -> None:
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
    except ValueError:  # no longer a thread, or invalid text
        return

    noticed = errors(after) or after.digest(include_times=True) != before.digest(include_times=True)

    # A time before that of the previous action counts as equal to it; validation reports it.
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


def test_canonical_times_are_trimmed_and_never_decrease() -> None:
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


# Imported threads with round-trip metadata. Each word occurs once.

word_plans = st.lists(
    st.lists(st.sampled_from(["text", "think", "call", "file", "data"]), min_size=1, max_size=4), min_size=1, max_size=4
)


def upp_history(plans: list[list[str]]) -> list[upp.Message]:
    messages: list[upp.Message] = []
    for turn, plan in enumerate(plans):
        messages.append(
            upp.UserMessage([upp.Text(f"zqu{turn}"), upp.Text(f"zqv{turn}")], metadata={"x": {"k": f"zqm{turn}"}})
        )
        blocks: list[Any] = []
        calls = []
        for place, kind in enumerate(plan):
            word = f"zqt{turn}{place}"
            if kind == "call":
                calls.append(upp.ToolCall(f"c{turn}{place}", "tool", {"k": word}))
            elif kind == "think":
                blocks.append(upp.Reasoning(word))
            elif kind == "file":
                source = {"type": "base64", "data": "iVBORw0KGgo="}
                blocks.append(upp.Image.model_validate({"source": source, "mimeType": "image/png", "width": place + 1}))
            else:
                blocks.append(upp.Text(word))
        messages.append(upp.AssistantMessage(blocks, tool_calls=calls or None))
        if calls:
            results = [upp.ToolResult(call.tool_call_id, {"r": f"zqr{call.tool_call_id[1:]}"}) for call in calls]
            messages.append(upp.ToolResultMessage(results))
    return messages


def pydantic_history(plans: list[list[str]]) -> list[Any]:
    history: list[Any] = []
    returns: list[Any] = []
    for turn, plan in enumerate(plans):
        asked = [
            m.SystemPromptPart(f"zqs{turn}"),
            m.UserPromptPart([f"zqu{turn}", m.TextContent(f"zqv{turn}", metadata="m")]),
        ]
        history.append(m.ModelRequest([*returns, *asked], instructions=f"zqi{turn}", metadata={"k": f"zqm{turn}"}))
        parts: list[Any] = []
        returns = []
        for place, kind in enumerate(plan):
            word = f"zqt{turn}{place}"
            if kind == "call":
                parts.append(m.ToolCallPart("tool", json.dumps({"k": word}), f"c{turn}{place}"))
                returns.append(
                    m.ToolReturnPart(
                        "tool", {"r": f"zqr{turn}{place}"}, f"c{turn}{place}", metadata=f"zqn{turn}{place}"
                    )
                )
            elif kind == "think":
                parts.append(m.ThinkingPart(word, provider_details={"k": f"zqn{turn}{place}"}))
            elif kind == "file":
                parts.append(m.FilePart(m.BinaryContent(PNG, media_type="image/png"), id=f"zqn{turn}{place}"))
            else:
                parts.append(m.TextPart(word, id=f"zqn{turn}{place}"))
        history.append(m.ModelResponse(parts, run_id="run", metadata={"k": f"zqp{turn}"}))
    return history


@st.composite
def imported(draw: st.DrawFn) -> tp.Thread:
    plans = draw(word_plans)
    origin = draw(st.sampled_from(["upp", "pydantic", "ui"]))
    if origin == "upp":
        thread = tp.from_upp(upp_history(plans))
    elif origin == "pydantic":
        thread = tp.from_pydantic_ai(pydantic_history(plans), strict=draw(st.booleans()))
    else:
        chat = tp.from_upp(upp_history(plans)).to_ui_messages(sidecar="none")
        for place, message in enumerate(chat):
            message["metadata"] = {"k": f"zqm{place}"}
            for part in message["parts"]:
                part["providerMetadata"] = {"x": {"k": f"zqn{place}"}}
        thread = tp.from_ui_messages(chat)
    return thread.with_hoisted_metadata() if draw(st.booleans()) else thread


def words_of(thread_or_action: Any) -> set[str]:
    return set(re.findall(r"zq[a-z]\d+", thread_or_action.to_json()))


def words_only_in(thread: tp.Thread, numbers: set[int]) -> set[str]:
    """Words that occur in these actions only."""
    bare = [tp.Thread(actions=[{**action.model_dump(), "metadata": None}]) for action in thread]
    said = {action.sequence: words_of(one[0]) for action, one in zip(thread, bare, strict=True)}
    mine: set[str] = set().union(*(words for number, words in said.items() if number in numbers))
    return mine.difference(*(words for number, words in said.items() if number not in numbers))


def check_exports(thread: tp.Thread) -> None:
    """The thread can still be exported to every other format after content was removed."""
    assert errors(thread) == []
    json.loads(thread.to_pydantic_ai_json())
    thread.to_upp()
    thread.to_ui_messages()
    for agent in thread.agents:
        json.loads(thread.to_pydantic_ai_json(agent))
        thread.to_upp(agent)


@settings(max_examples=cases(120), deadline=None)
@given(imported(), st.data())
def test_redaction_removes_every_redacted_word(thread: tp.Thread, data: st.DataObject) -> None:
    numbers = data.draw(st.sets(st.integers(1, len(thread)), min_size=1))
    gone = words_only_in(thread, numbers)

    redacted = thread.redact(numbers)

    assert not gone & words_of(redacted)
    kept = {number for number in range(1, len(thread) + 1) if number not in numbers}
    assert words_only_in(thread, kept) <= words_of(redacted)
    check_exports(redacted)
    for action in redacted:
        if action.sequence not in numbers and action.metadata is not None:
            assert action == thread[action.sequence - 1]


@settings(max_examples=cases(120), deadline=None)
@given(imported(), st.data())
def test_slices_contain_no_word_of_the_omitted_actions(thread: tp.Thread, data: st.DataObject) -> None:
    document = thread.to_dict()
    for number, action in enumerate(document["actions"]):
        action["timestamp"] = f"2025-01-15T10:{number:02}:00Z"
    thread = tp.Thread.model_validate({**document, "title": ""})
    start, end = data.draw(st.integers(0, len(thread))), data.draw(st.integers(0, len(thread)))

    cut = thread.slice(since=f"2025-01-15T10:{start:02}:00Z", until=f"2025-01-15T10:{end:02}:00Z")

    numbers = {number for number in range(1, len(thread) + 1) if not start < number <= end}
    assert not words_only_in(thread, numbers) & words_of(cut)
    check_exports(cut)


def beginning(thread: tp.Thread, count: int) -> tp.Thread:
    """The thread after the given number of actions."""
    document = thread.to_dict()
    document["actions"] = document["actions"][:count]
    for kept in (document.get("metadata") or {}).values():
        if "actions" in kept:
            kept["actions"] = {number: value for number, value in kept["actions"].items() if int(number) <= count}
    return tp.Thread.model_validate(document)


@settings(max_examples=cases(120), deadline=None)
@given(imported(), st.data())
def test_branches_of_imported_threads_can_be_merged(thread: tp.Thread, data: st.DataObject) -> None:
    cuts = [data.draw(st.integers(0, len(thread))) for _ in range(2)]
    ours, theirs = [beginning(thread, cut).branch() for cut in cuts]
    for half in (ours, theirs):
        try:
            check_exports(half)
        except turntree.ValidationError:  # inside a message; a branch never ends there
            assume(False)
    other = tp.from_upp(upp_history([["text", "call"]]), agent=next(iter(thread.agents.values())))
    for action in other:
        theirs.append(action)

    merged = ours.merge(theirs)

    check_exports(merged)
    common = min(cuts)
    assert len(merged) == len(ours) + len(theirs) - common
    assert merged.actions[: len(ours)] == ours.actions
    assert words_of(theirs) - {word for word in words_of(theirs) if word[2] in "mnpsi"} <= words_of(merged)


def test_merge_preserves_the_configurations_of_agents() -> None:
    history = [
        m.ModelRequest([m.SystemPromptPart("Be kind."), m.UserPromptPart("Hi")]),
        m.ModelResponse([m.TextPart("Ho")]),
    ]
    theirs = tp.from_pydantic_ai(history)

    merged = tp.Thread(created_at=START).merge(theirs)

    reference = next(iter(merged.agents.values())).config_ref
    inside: Any = merged.to_dict()
    for step in reference.removeprefix("#/").split("/"):
        inside = inside[step]
    assert [merged.metadata["pydantic_ai"]["texts"][address] for address in inside["system_prompts"]] == ["Be kind."]


def test_hoisted_metadata_is_restored_on_export() -> None:
    given_messages = upp_history([["text", "think", "file", "call"]])
    thread = tp.from_upp(given_messages)

    hoisted = thread.with_hoisted_metadata()

    assert all(action.metadata is None for action in hoisted)
    assert hoisted.to_upp() == given_messages
    assert hoisted.with_hoisted_metadata() == hoisted
    hoisted.append(tp.UserMessageAction("x", metadata={"turntree": {"m": 99, "id": "x"}}, timestamp=START))
    again = hoisted.with_hoisted_metadata()
    assert set(again.metadata["turntree"]["actions"]) == {str(number) for number in range(1, len(again) + 1)}
    odd = tp.Thread(metadata={"app": "v1"}, actions=[tp.UserMessageAction("x", metadata={"app": 1, "b": 2})])
    assert (odd.with_hoisted_metadata().metadata["app"], odd.with_hoisted_metadata()[0].metadata) == ("v1", {"app": 1})


def test_redaction_removes_a_title_with_redacted_text() -> None:
    for title, kept in [("my secret plan", False), ("my", False), ("A talk", True), ("", True)]:
        thread = tp.Thread(title=title, actions=[tp.UserMessageAction("my secret plan", timestamp=START)])
        assert (thread.redact([1]).title == title) is kept


def test_append_sets_the_sequence_and_does_not_validate() -> None:
    thread = tp.Thread(created_at=START)
    thread.append(tp.AssistantMessageAction("Hi", agent_id="ann", timestamp=START))
    thread.append(tp.ToolReturnAction("t", "late", tool_call_id="c", timestamp=START))
    numbered = thread.append(tp.UserMessageAction("Hm", timestamp=START, sequence=7))

    assert ([action.sequence for action in thread], numbered.sequence) == ([1, 2, 3], 3)
    assert errors(thread) == ["agent_id /actions/0/agent_id", "tool_call_id /actions/1/tool_call_id"]
    with pytest.raises(turntree.ValidationError, match='no agent "ann" in the registry'):
        thread.check()
    thread.add_agent(tp.AgentConfig("Ann", agent_id="ann", created_at=START))
    assert errors(thread) == ["tool_call_id /actions/1/tool_call_id"]
    with pytest.raises(turntree.ValidationError, match="action_type"):
        thread.append({"content": "no type"})
    assert len(thread) == 3

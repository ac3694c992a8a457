"""Threads made from histories that Pydantic AI accepts: they are valid, and their ids depend on content only."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from thread_protocol_pydantic_ai_support import request, response

import turntree
from turntree import thread_protocol as tp
from turntree import upp

CORPUS = os.environ.get("TURNTREE_CORPUS")
TIME = "2026-03-01T10:00:00Z"
needs_corpus = pytest.mark.skipif(CORPUS is None, reason="NOT TESTED on real histories: TURNTREE_CORPUS is not set")


def told(*messages: dict[str, Any]) -> bytes:
    return json.dumps(messages).encode()


def asked(*parts: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"parts": [{"timestamp": TIME, **part} for part in parts], "kind": "request", **members}


def answered(*parts: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"parts": list(parts), "usage": {}, "timestamp": TIME, "kind": "response", **members}


def prompt(content: Any = "Hi", **members: Any) -> dict[str, Any]:
    return {"content": content, "part_kind": "user-prompt", **members}


def tool_return(name: str = "t", call_id: str = "c") -> dict[str, Any]:
    return {"tool_name": name, "content": 1, "tool_call_id": call_id, "part_kind": "tool-return"}


CALL = {"tool_name": "t", "args": {}, "tool_call_id": "c", "part_kind": "tool-call"}
FAULTY = {
    "tool_call_id": told(asked(prompt(), tool_return(call_id="lost"))),
    "tool_name": told(asked(prompt()), answered(CALL), asked(tool_return(name="other"))),
}


@pytest.mark.parametrize("profile", ["full", "portable"])
@pytest.mark.parametrize("rule", FAULTY)
def test_a_return_without_its_call_is_a_warning_in_a_thread_from_a_history(rule: str, profile: Any) -> None:
    thread = tp.from_pydantic_ai(FAULTY[rule], profile=profile)

    for one in (thread, tp.Thread.model_validate_json(thread.to_json()), thread.with_hoisted_metadata()):
        assert [(issue.rule, issue.severity) for issue in one.validate()] == [(rule, "warning")]
        one.check()
        with pytest.raises(turntree.ValidationError, match="call"):
            one.check(strict=True)


@pytest.mark.parametrize("profile", ["full", "portable"])
def test_a_result_without_its_call_is_a_warning_in_a_thread_from_messages(profile: Any) -> None:
    lost = upp.ToolResultMessage([upp.ToolResult("lost", "x")])

    thread = tp.from_upp([lost], profile=profile)

    assert [(issue.rule, issue.severity) for issue in thread.validate()] == [("tool_call_id", "warning")]


def test_a_return_without_its_call_is_an_error_in_other_threads() -> None:
    thread = tp.Thread(actions=[tp.ToolReturnAction("t", 1, tool_call_id="c", timestamp=TIME)], metadata={"app": {}})

    assert [(issue.rule, issue.severity) for issue in thread.validate()] == [("tool_call_id", "error")]


def test_default_threads_pass_strict_validation() -> None:
    history = [request(instructions="Be brief."), response(), request()]
    clean = told(asked(prompt(), instructions="x"), answered(CALL), asked(tool_return(), prompt(["a", "b"])))

    threads = [
        tp.from_pydantic_ai(history),
        tp.from_pydantic_ai(clean),
        tp.from_pydantic_ai(clean, strict=True),
        tp.from_upp([upp.UserMessage("Hi"), upp.AssistantMessage("Hello")]),
        tp.from_ui_messages([{"id": "u", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}]),
    ]

    for thread in threads:
        assert thread.validate(strict=True) == []
        thread.canonical_json(strict=True)


def test_a_part_without_a_time_is_not_before_the_part_ahead_of_it() -> None:
    native = {"tool_name": "search", "tool_call_id": "n", "provider_name": "p"}
    called = {**native, "args": {}, "part_kind": "builtin-tool-call"}
    result = {**native, "content": 1, "timestamp": "2026-03-01T10:00:05Z", "part_kind": "builtin-tool-return"}
    text = {"content": "x", "part_kind": "text"}
    history = told(asked(prompt()), answered(called, result, text))

    thread = tp.from_pydantic_ai(history)

    assert [action.timestamp for action in thread] == [TIME, TIME, "2026-03-01T10:00:05Z", "2026-03-01T10:00:05Z"]
    assert thread.validate(strict=True) == []
    assert json.loads(thread.to_pydantic_ai_json()) == json.loads(history)


# What other versions of Pydantic AI add, drop and respell in a first message.
SAME = [
    asked({"content": "Be brief.", "part_kind": "system-prompt"}, prompt()),
    asked({"content": "Be brief.", "part_kind": "system-prompt", "dynamic_ref": None}, prompt(), instructions=None),
    asked(
        {"content": "Be brief.", "part_kind": "system-prompt", "timestamp": "2026-05-05T10:00:00Z"},
        prompt(timestamp="2026-03-01T11:00:00.000+01:00"),
        instructions="Later.",
        run_id="r",
        timestamp="2026-03-01T10:00:01Z",
        state="complete",
        metadata={"a": 1},
    ),
]


def test_the_thread_id_ignores_fields_that_versions_add_drop_or_respell() -> None:
    ids = {tp.from_pydantic_ai(told(message), profile=p).thread_id for message in SAME for p in ("full", "portable")}

    assert len(ids) == 1
    others = [
        asked({"content": "Be long.", "part_kind": "system-prompt"}, prompt()),
        asked({"content": "Be brief.", "part_kind": "system-prompt"}, prompt("Bye")),
        asked({"content": "Be brief.", "part_kind": "system-prompt"}, prompt(timestamp="2026-03-01T10:00:01Z")),
        asked(prompt()),
        answered({"content": "Hi", "part_kind": "text"}),
    ]
    ids |= {tp.from_pydantic_ai(told(message)).thread_id for message in others}
    assert len(ids) == 1 + len(others)


def test_the_thread_id_is_that_of_the_content_of_files_and_calls() -> None:
    data = {"data": "-_8=", "media_type": "image/png", "kind": "binary"}
    same = [
        [prompt(["x", data])],
        [prompt(["x", {**data, "data": "+/8", "identifier": "i", "vendor_metadata": None}])],
    ]
    assert len({tp.from_pydantic_ai(told(asked(*parts))).thread_id for parts in same}) == 1
    calls = [
        answered({**CALL, "args": '{"a": 1}'}),
        answered({**CALL, "args": {"a": 1}, "id": None, "tool_kind": None}, usage={"requests": 1}, model_name="m"),
    ]
    assert len({tp.from_pydantic_ai(told(call)).thread_id for call in calls}) == 1
    retries = [
        asked({**tool_return(), "content": "again", "part_kind": "retry-prompt"}),
        asked({**tool_return(), "content": "again", "outcome": "retried"}),
    ]
    assert len({tp.from_pydantic_ai(told(retry)).thread_id for retry in retries}) == 1


@needs_corpus
@pytest.mark.timeout(600)
def test_the_thread_id_is_the_same_after_another_version_stored_the_history() -> None:
    root = Path(CORPUS or "")
    changed, ids, files = [], {}, 0
    for path in sorted((root / "histories-canonical").rglob("*.json")):
        source = root / "histories" / path.relative_to(root / "histories-canonical")
        before, after = (tp.from_pydantic_ai(one.read_bytes()) for one in (source, path))
        files += 1
        if before.thread_id != after.thread_id:
            changed.append(source.name)
        ids.setdefault(before.thread_id, []).append(source.name)

    print(f"{files} histories, {len(changed)} with another id, {len(ids)} ids")
    assert changed == []

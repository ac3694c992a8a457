"""Pydantic AI loads the export of every valid thread, whatever program wrote it."""

import json
import warnings
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import ModelMessagesTypeAdapter as Adapter
from support.laws import cases
from test_thread_protocol_laws import histories

from turntree import thread_protocol as tp

TIME = "2025-01-15T10:00:00Z"
AGENTS = ["ann", "bob"]

law = settings(deadline=None, max_examples=cases(300), suppress_health_check=list(HealthCheck))

texts = st.text(st.characters(codec="utf-8"), max_size=5)
words = st.sampled_from(["", "x", "openai", "acme", "image/png", "audio/wav", "nonsense"])
base64 = st.sampled_from(["", "aGVsbG8=", "aGVsbG8", "iVBORw0KGgo=", "-_-_", "-_+/", "%%%", "a", "aGVs\nbG8=", "aR=="])
urls = st.sampled_from(["https://example.org/x.png", "https://youtu.be/x", "http://x", "file:///x", "", "é"])
times = st.one_of(
    st.just(TIME),
    st.sampled_from(
        [
            *(
                "0000-01-15T10:00:00Z",
                "0001-01-01T00:00:00+23:59",
                "0001-01-01T00:00:00+05:30:15",
                "9999-12-31T23:59:59Z",
            ),
            *("2025-01-15T10:00:00", "2025-01-15T10:00:00.123456789Z", "2025-01-15T10:00:00.1-00:00"),
            *("2025-01-15T10:00:00+05:30:15", "2025-01-15T10:00:00.5-05:30:15", "2024-02-29T23:59:59-23:59"),
        ]
    ),
)


def nested(levels: int, opening: str) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value] if opening == "[" else {"a": value}
    return value


deep = st.builds(nested, st.sampled_from([190, 194, 195, 196, 197, 198, 199, 230]), st.sampled_from("[{"))
numbers = st.sampled_from([0, -0.0, 5e-324, 1e300, 2**64, -(10**40), 1.5])
# Values that have the form of a Pydantic AI file, or almost.
lookalikes = st.fixed_dictionaries(
    {"kind": st.sampled_from(["binary", "image-url", "uploaded-file", "text-content", "cache-point", "smell", 5])},
    optional={
        "url": st.one_of(urls, numbers),
        "data": base64,
        "media_type": st.one_of(words, st.none(), numbers),
        "file_id": texts,
        "provider_name": st.one_of(words, st.none()),
        "force_download": st.sampled_from([True, "allow-local", "sometimes", 5]),
        "identifier": st.none(),
        "vendor_metadata": st.sampled_from([None, {}, 5]),
    },
)
payloads = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts, lookalikes),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(texts, inner, max_size=2)),
    max_leaves=4,
)
values = st.one_of(payloads, payloads, payloads, deep)


def part(medium: str) -> Any:
    return st.fixed_dictionaries(
        {"type": st.just(medium)},
        optional={
            f"{medium}_url": urls,
            f"{medium}_base64": base64,
            "file_id": texts,
            "provider": words,
            "media_type": words,
            "name": texts,
        },
    )


contents = st.one_of(
    texts,
    st.lists(
        st.one_of(
            st.fixed_dictionaries({"type": st.just("text"), "text": texts}),
            *map(part, ("image", "audio", "video", "file")),
            st.fixed_dictionaries({"type": st.just("smell")}, optional={"rose": payloads}),
        ),
        max_size=3,
    ),
)
attachments = st.lists(
    st.fixed_dictionaries({"name": texts, "media_type": words}, optional={"url": urls, "data": base64}), max_size=2
)
retries = st.one_of(
    values,
    st.fixed_dictionaries(
        {},
        optional={
            "content": st.one_of(
                values,
                st.just([{"type": "missing", "loc": ["a", 0], "msg": "m", "input": None}]),
                st.builds(lambda input_: [{"type": "t", "loc": [], "msg": "m", "input": input_}], deep),
            ),
            "cause": st.sampled_from(["validation_error", "no_output", "model_retry", "unknown_tool", "bored", 5]),
            "retry": values,
        },
    ),
)


def action(kind: str, **members: Any) -> Any:
    optional = {"agent_id": members.pop("agent_id")} if "agent_id" in members else {}
    return st.fixed_dictionaries({"action_type": st.just(kind), "timestamp": times, **optional, **members})


agents = st.sampled_from(AGENTS)
call_ids = st.sampled_from(["c1", "c2", ""])
actions = st.one_of(
    action("user_message", content=contents, attachments=attachments),
    action("user_message", content=contents),
    action(
        "assistant_message",
        agent_id=agents,
        content=contents,
        finish_reason=st.sampled_from([None, "stop", "tool_call", "length", "content_filter"]),
        usage=st.sampled_from([None, {"input_tokens": 2**64 - 1, "output_tokens": 0}]),
    ),
    action("thinking", agent_id=agents, provider_name=words, content=texts, signature=texts),
    action("tool_call", agent_id=agents, tool_name=words, tool_call_id=call_ids, args=values),
    action(
        "tool_return",
        tool_name=words,
        tool_call_id=call_ids,
        content=values,
        status=st.sampled_from(["success", "error", "validation_error"]),
    ),
    action("system.tp.retry", data=retries),
    action("system.pydantic_ai.part", data=values),
    action("system.compaction", data=values),
)


@st.composite
def threads(draw: st.DrawFn) -> tp.Thread:
    """A valid thread that another program can write."""
    open_calls: dict[str, list[str]] = {}
    made: list[dict[str, Any]] = []
    for one in draw(st.lists(actions, max_size=6)):
        if one["action_type"] == "tool_call":
            open_calls.setdefault(one["tool_call_id"], []).append(one["tool_name"])
        if one["action_type"] == "tool_return":
            waiting = open_calls.get(one["tool_call_id"])
            if not waiting:
                continue
            one["tool_name"] = waiting.pop(0)
        made.append({**one, "sequence": len(made) + 1})
    document = {
        "version": "1.0.0",
        "thread_id": "t",
        "created_at": TIME,
        "updated_at": TIME,
        "title": "",
        "agents": {
            key: {"agent_id": key, "agent_identifier": key, "agent_name": key, "created_at": TIME} for key in AGENTS
        },
        "actions": made,
    }
    thread = tp.Thread.model_validate_json(json.dumps(document))
    thread.check()
    return thread


def loaded(data: bytes) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Adapter.validate_json(data)


def check(thread: tp.Thread, agent_id: str | None = None, **view: Any) -> list[Any]:
    """Pydantic AI and turntree both load the export, and the objects equal those that Pydantic AI loads."""
    data = thread.to_pydantic_ai_json(agent_id, **view)
    messages = loaded(data)
    assert thread.to_pydantic_ai(agent_id, **view) == messages
    assert tp.from_pydantic_ai(data).to_pydantic_ai_json() == data
    return messages


@law
@given(threads())
def test_pydantic_ai_loads_every_valid_thread(thread: tp.Thread) -> None:
    check(thread)


@law
@given(threads(), agents, st.sampled_from(["hide", "summarize", "show"]), st.sampled_from(["user", "assistant"]))
def test_pydantic_ai_loads_every_view_of_a_valid_thread(thread: tp.Thread, agent: str, tools: Any, role: Any) -> None:
    check(thread, agent, tool_visibility=tools, others_role=role)


@law
@given(histories, st.booleans(), st.sets(st.integers(1, 12), min_size=1), st.sampled_from(["full", "portable"]))
def test_pydantic_ai_loads_every_edited_history(
    history: list[Any], strict: bool, chosen: set[int], profile: Any
) -> None:
    thread = tp.from_pydantic_ai(history, strict=strict, profile=profile)
    before = thread.slice(until="2000-01-01T00:00:00Z")
    redacted = thread.redact([number for number in chosen if number <= len(thread)])
    longer = thread.branch()
    longer.append(tp.UserMessageAction([tp.ImageContent(file_id="f")], timestamp=TIME))

    for made in (thread, before, redacted, longer, thread.branch().merge(longer)):
        if not [issue for issue in made.validate() if issue.severity == "error"]:
            check(made)
            for agent_id in made.agents:
                check(made, agent_id, tool_visibility="show")


def hand_made(*made: dict[str, Any]) -> tp.Thread:
    agent = tp.AgentConfig("Ann", agent_id="ann")
    return tp.Thread(agents=[agent], actions=[{"timestamp": TIME, "sequence": 0, **one} for one in made])


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"action_type": "user_message", "content": list(parts)}


def call(args: Any) -> dict[str, Any]:
    return {"action_type": "tool_call", "agent_id": "ann", "tool_name": "t", "tool_call_id": "c", "args": args}


def test_a_file_without_a_pydantic_ai_item_becomes_text() -> None:
    uploaded = {"type": "file", "file_id": "file-1", "media_type": "application/pdf"}
    thread = hand_made(
        user(
            {**uploaded, "provider": "openai"},
            uploaded,
            {**uploaded, "provider": "acme", "name": "offer.pdf"},
            {**uploaded, "file_url": "https://example.org/x.pdf"},
            {"type": "image", "image_base64": "%%%"},
        )
    )

    said = check(thread)[0].parts[0].content

    assert (said[0].file_id, said[0].provider_name) == ("file-1", "openai")
    assert said[1:3] == ["[document](file-1)", "[offer.pdf](file-1)"]
    assert said[3].url == "https://example.org/x.pdf"
    assert json.loads(said[4]) == {"type": "image", "image_base64": "%%%"}


@pytest.mark.parametrize(
    ("args", "told"),
    [({"a": 1}, {"a": 1}), ("x", "x"), (None, None), ([1], "[1]"), (5, "5"), (True, "true")],
)
def test_arguments_are_exported_as_an_object_or_as_json_text(args: Any, told: Any) -> None:
    assert check(hand_made(call(args)))[0].parts[0].args == told


def test_values_too_deep_for_pydantic_are_exported_as_json_text() -> None:
    answer = {"action_type": "tool_return", "tool_name": "t", "tool_call_id": "c", "status": "success"}
    for levels, told in ((196, nested(196, "[")), (197, json.dumps(nested(197, "[")))):
        thread = hand_made(call({}), {**answer, "content": nested(levels, "[")})

        assert check(thread)[1].parts[0].content == told


def test_a_retry_without_a_cause_becomes_a_model_retry() -> None:
    details = [{"type": "missing", "loc": (), "msg": "m", "input": {}}]
    for data, told in [
        ({"content": "again", "cause": "no_output"}, ("again", "no_output")),
        ({"content": "again"}, ("again", "model_retry")),
        ({"content": {"why": 1}, "cause": "bored"}, ('{"why":1}', "model_retry")),
        ({"content": details}, (details, "validation_error")),
        (None, ("", "model_retry")),
    ]:
        part = check(hand_made({"action_type": "system.tp.retry", "data": data}))[0].parts[0]

        assert (part.content, part.retry.cause) == told


def test_retries_of_a_portable_thread_are_restored() -> None:
    history = (
        b'[{"parts":[{"content":"again","retry":{"cause":"no_output","attempt":2,"max_retries":3},'
        b'"timestamp":"2025-01-15T10:00:00Z","part_kind":"retry-feedback"}],"kind":"request"}]'
    )

    part = check(tp.from_pydantic_ai(history, profile="portable"))[0].parts[0]

    assert (part.content, part.retry.cause) == ("again", "no_output")


def test_times_outside_the_range_of_python_become_the_nearest_time() -> None:
    for written, told in [
        ("2025-01-15T10:00:00+05:30:15", "2025-01-15T04:29:45+00:00"),
        ("0000-06-01T00:00:00Z", "0001-01-01T00:00:00+00:00"),
        ("2025-01-15T10:00:00-05:30", "2025-01-15T10:00:00-05:30"),
    ]:
        thread = hand_made({"action_type": "user_message", "content": "x", "timestamp": written})

        assert check(thread)[0].parts[0].timestamp.isoformat() == told
        assert json.loads(thread.to_json())["actions"][0]["timestamp"] == written


def test_a_lone_surrogate_becomes_the_replacement_character() -> None:
    answer = {"action_type": "tool_return", "tool_name": "t", "tool_call_id": "c", "status": "success"}
    document = hand_made(call({"a": "HALF"}), {**answer, "content": "HALF"}).to_json()
    thread = tp.Thread.model_validate_json(document.replace("HALF", r"\ud800 \\ud800 \ud83d\ude00\udc00"))

    messages = check(thread)

    said = "\ufffd \\ud800 \U0001f600\ufffd"
    assert (messages[0].parts[0].args, messages[1].parts[0].content) == ({"a": said}, said)

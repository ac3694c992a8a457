"""Pydantic AI histories as objects and as JSON: `dump_json` and `validate_json` are the reference."""

import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import messages as m
from pydantic_ai.messages import ModelMessagesTypeAdapter as Adapter
from pydantic_ai.usage import RequestUsage
from thread_protocol_pydantic_ai_support import EXAMPLES, ROOT, UTC, request, response, returned

import turntree
from turntree import thread_protocol as tp

FIXTURES = sorted((ROOT / "tests/data/thread_protocol/pydantic_ai").glob("*.json"))


INDIA = datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=timezone(timedelta(hours=5, minutes=30)))


NAIVE = datetime(2026, 1, 2, 3, 4, 5, 100)


PNG = b"\x89PNG\xff\xfe\xfb"


names = {"ids": lambda path: path.stem}


class Color(str, Enum):
    RED = "red"


class Model(BaseModel):
    x: int = 1


class OwnText(m.TextPart):
    """A subclass of an application."""


LIVE: dict[str, list[Any]] = {
    "nothing": [],
    "request without parts": [request(instructions="Be brief.")],
    "response without parts": [response()],
    "user text": [request(m.UserPromptPart("Hi “you”\n\x00\x1f\u2028", timestamp=UTC))],
    "user list": [request(m.UserPromptPart(["a", "", "b"], timestamp=UTC))],
    "user tuple": [request(m.UserPromptPart(("a", "b"), timestamp=UTC))],
    "images": [
        request(
            m.UserPromptPart(
                [
                    m.ImageUrl("https://example.org/x.png", vendor_metadata={"detail": "low"}),
                    m.ImageUrl("https://example.org/no-extension"),
                    m.ImageUrl("https://example.org/y", media_type="image/gif", identifier="why"),
                    m.BinaryContent(PNG, media_type="image/png", identifier="pic"),
                    m.BinaryImage(PNG, media_type="image/png"),
                ],
                timestamp=UTC,
            )
        )
    ],
    "other media": [
        request(
            m.UserPromptPart(
                [
                    m.AudioUrl("https://example.org/x.mp3", force_download=True),
                    m.VideoUrl("https://youtu.be/x"),
                    m.DocumentUrl("https://example.org/x.pdf", force_download="allow-local"),
                    m.BinaryContent(b"", media_type="application/pdf"),
                    m.BinaryContent(b"RIFF", media_type="audio/wav"),
                    m.UploadedFile("file-1", provider_name="openai"),
                    m.TextContent("x", metadata={"k": [1]}),
                    m.CachePoint(),
                    m.CachePoint(ttl="1h"),
                    m.StructuredContent({"a": 1}),
                ],
                timestamp=UTC,
            )
        )
    ],
    "system prompts": [
        request(
            m.SystemPromptPart("Be kind.", timestamp=UTC),
            m.SystemPromptPart("Be brief.", timestamp=UTC, dynamic_ref="f", scope="request"),
            m.UserPromptPart("hi", timestamp=UTC),
            m.SystemPromptPart("Stop.", timestamp=UTC, metadata={"a": None}),
            instructions="Speak English.",
            run_id="r",
            metadata={"agent": "fred", "n": 1.5},
        )
    ],
    "text and thinking": [
        response(
            m.ThinkingPart("hm", id="1", signature="s", provider_name="anthropic"),
            m.ThinkingPart("", id="redacted_thinking", signature="data"),
            m.TextPart("a"),
            m.TextPart("b", id="x", provider_name="openai", provider_details={"a": [True, None]}),
            m.ThinkingPart("more"),
            m.TextPart(""),
            m.TextPart("c"),
        )
    ],
    "citations": [
        response(
            m.TextPart(
                "cited",
                citations=[
                    m.Citation(
                        [m.WebCitationSource("https://example.org", title="E")],
                        anchor=m.ContentCitationAnchor(start=0, end=2),
                    )
                ],
            )
        )
    ],
    "files and speech": [
        response(
            m.FilePart(m.BinaryContent(PNG, media_type="image/png"), id="f"),
            m.SpeechPart(speaker="assistant", transcript="hello", interrupted_at_ms=3),
        )
    ],
    "parallel tools": [
        response(
            m.ToolCallPart("t", {"a": 1}, "c1"),
            m.ToolCallPart("t", '{"a": 1.0}', "c2"),
            m.ToolCallPart("t", None, "c3"),
            m.ToolCallPart("t", "not json", "c4", id="i", provider_details={"thought_signature": "x"}),
            usage=RequestUsage(input_tokens=3, output_tokens=2, details={"reasoning_tokens": 1}),
            finish_reason="tool_call",
        ),
        request(
            m.ToolReturnPart("t", "second", "c2", timestamp=UTC),
            m.ToolReturnPart("t", {"deep": [1, {"x": None}]}, "c1", timestamp=INDIA),
            m.ToolReturnPart("t", None, "c3", timestamp=UTC, metadata={"k": 1}),
            m.ToolReturnPart("t", [], "c4", timestamp=UTC, outcome="failed"),
            m.UserPromptPart("and?", timestamp=NAIVE),
            timestamp=UTC,
        ),
    ],
    "outcomes": [
        request(returned("x", outcome=outcome)) for outcome in ("success", "failed", "denied", "interrupted", "retried")
    ],
    "retries": [
        request(
            returned(
                [{"type": "missing", "loc": ("a", 0), "msg": "m", "input": {}}],
                outcome="retried",
                retry=m.RetryInfo("validation_error", attempt=1, max_retries=3),
            )
        ),
        request(m.RetryFeedbackPart("again", retry=m.RetryInfo("model_retry"), timestamp=UTC)),
        request(
            m.RetryFeedbackPart(
                [{"type": "missing", "loc": ("a", 0), "msg": "m", "input": {}}],
                retry=m.RetryInfo("validation_error", attempt=2),
                timestamp=UTC,
            )
        ),
    ],
    "native tools": [
        response(
            m.NativeToolCallPart("web_search", {"q": "x"}, "n1", provider_name="openai"),
            m.NativeToolReturnPart("web_search", {"hits": [1]}, "n1", timestamp=UTC, provider_details={"a": 1}),
            m.NativeToolReturnPart("web_search", "none", "n2", timestamp=UTC),
        )
    ],
    "typed tools": [
        response(m.ToolSearchCallPart(args={"queries": ["x"]}, tool_call_id="s1")),
        request(
            m.ToolSearchReturnPart(content={"discovered_tools": [{"name": "x"}]}, tool_call_id="s1", timestamp=UTC)
        ),
    ],
    "deltas": [
        request(
            m.ToolAvailabilityDeltaPart(tools_added=["x"]),
            m.InstructionDeltaPart(id=None, content="c"),
            m.CompactionPart("summary"),
            m.UserPromptPart("x", timestamp=UTC),
        )
    ],
    "usage": [
        response(
            m.TextPart("x"),
            usage=RequestUsage(
                input_tokens=2**70,
                output_tokens=1,
                cache_read_tokens=5,
                audio_seconds=1.5,
                cost=Decimal("0.0012300"),
                details={"a": 0},
                unmeasured_requests=1,
            ),
            model_name="gpt-5",
            model_id="openai:gpt-5",
            provider_name="openai",
            provider_url="https://api.openai.com/v1/",
            provider_details={"finish_reason": "stop"},
            provider_response_id="r1",
            finish_reason="stop",
            run_id="run",
            conversation_id="550e8400-e29b-41d4-a716-446655440000",
            metadata={},
            history_digest="d",
            state="incomplete",
        ),
        response(m.TextPart("x"), usage=RequestUsage(web_searches=2, input_tokens=1)),
        response(m.TextPart("x"), workspace_ref=m.WorkspaceRef(provider="p", id="i")),
    ],
    "finish reasons": [
        response(m.TextPart("x"), finish_reason=reason)
        for reason in ("stop", "length", "content_filter", "tool_call", "error", None)
    ],
    "times": [
        request(m.UserPromptPart(str(at), timestamp=at), timestamp=at)
        for at in (
            UTC,
            INDIA,
            NAIVE,
            UTC.replace(year=1),
            UTC.replace(tzinfo=timezone(timedelta(hours=-11, minutes=-45))),
            UTC.replace(tzinfo=timezone(timedelta(hours=1, seconds=30))),
            UTC.replace(microsecond=120000),
        )
    ],
    "plain values": [
        request(returned(value))
        for value in (
            None,
            True,
            0,
            -1,
            2**64,
            10**40,
            0.0,
            -0.0,
            0.1,
            1.0,
            1e-4,
            1e-7,
            1e15,
            1e16,
            1.5e300,
            5e-324,
            float("nan"),
            float("inf"),
            "",
            'é\n"\\',
            [],
            {},
            [[]],
            {"": {}},
            (1, (2,)),
            {"kind": "note"},
        )
    ],
    "odd values": [
        request(returned(value))
        for value in (
            b"\xff\xfe",
            {1: "int key"},
            {1, 2},
            Color.RED,
            {Color.RED: Color.RED},
            Decimal("1.50"),
            date(2026, 1, 1),
            timedelta(seconds=1.5),
            UTC,
            Model(),
            {"m": [Model()]},
            Path("/x"),
        )
    ],
    "files in returns": [
        request(returned(value))
        for value in (
            m.BinaryContent(PNG, media_type="image/png"),
            [m.ImageUrl("https://example.org/x.png"), "text"],
            {"deep": {"file": m.UploadedFile("f", provider_name="openai")}},
            {
                "kind": "image-url",
                "url": "https://example.org/not-a-file.png",
                "media_type": "image/png",
            },
        )
    ],
    "metadata of returns": [
        request(returned("x", metadata=value)) for value in ({"a": 1}, b"\xff", UTC, Model(), [1, "x"])
    ],
    "subclasses": [response(OwnText("mine"), m.TextPart("theirs")), request(returned(Color.RED))],
}


def live_cases() -> Any:
    return pytest.mark.parametrize("messages", LIVE.values(), ids=LIVE.keys())


@live_cases()
def test_reading_objects_gives_the_same_thread_as_reading_their_json(messages: list[Any]) -> None:
    dumped = Adapter.dump_json(messages)

    for _ in range(2):  # the first time checks each class against Pydantic, the second trusts it
        walked = tp.from_pydantic_ai(messages)

        assert walked.to_pydantic_ai_json() == dumped
        assert walked.digest() == tp.from_pydantic_ai(dumped).digest()
    assert tp.from_pydantic_ai(tuple(messages)) == walked
    assert tp.from_pydantic_ai(iter(messages)) == walked


@live_cases()
def test_built_objects_equal_those_that_pydantic_loads(messages: list[Any]) -> None:
    dumped = Adapter.dump_json(messages)
    loaded = Adapter.validate_json(dumped)
    thread = tp.from_pydantic_ai(dumped)

    for _ in range(2):
        built = thread.to_pydantic_ai()

        assert built == loaded
        assert Adapter.dump_json(built) == Adapter.dump_json(loaded)
        assert repr(built) == repr(loaded) or "TzInfo" in repr(loaded)
        for one, other in zip(built, loaded, strict=True):
            assert type(one) is type(other)
            assert [type(part) for part in one.parts] == [type(part) for part in other.parts]


@live_cases()
def test_every_example_has_views_and_profiles(messages: list[Any]) -> None:
    for profile in ("full", "portable"):
        for combine in ("adjacent", "response"):
            thread = tp.from_pydantic_ai(messages, profile=profile, combine_text=combine)
            for agent_id in thread.agents:
                assert isinstance(json.loads(thread.to_pydantic_ai_json(agent_id)), list)
                if profile == "full":
                    view = (agent_id, "hide", "show")
                    assert thread.to_pydantic_ai(*view) == Adapter.validate_json(thread.to_pydantic_ai_json(*view))


@pytest.mark.parametrize("path", [*EXAMPLES, *FIXTURES], **names)
def test_fixtures_are_byte_identical_after_a_round_trip(path: Path) -> None:
    data = path.read_bytes().rstrip(b"\n")

    for given in (data, data.decode(), bytearray(data)):
        thread = tp.from_pydantic_ai(given)

        assert thread.to_pydantic_ai_json() == data
        assert tp.Thread.model_validate_json(thread.model_dump_json()).to_pydantic_ai_json() == data
        assert [issue for issue in thread.validate() if issue.severity == "error"] == [] or path in FIXTURES
    assert tp.from_pydantic_ai(data, strict=True).to_pydantic_ai_json() == data


@pytest.mark.parametrize("path", EXAMPLES, **names)
def test_examples_are_equal_objects_after_a_round_trip(path: Path) -> None:
    messages = Adapter.validate_json(path.read_bytes())

    thread = tp.from_pydantic_ai(messages)

    assert thread.to_pydantic_ai() == messages
    assert thread == tp.from_pydantic_ai(path.read_bytes())
    assert thread.to_pydantic_ai() is not messages


def test_the_folders_contain_examples_and_fixtures() -> None:
    assert len(EXAMPLES) >= 5
    assert len(FIXTURES) >= 5


def test_old_retry_prompts_are_preserved() -> None:
    with pytest.warns(UserWarning, match="RetryPromptPart"):
        part = m.RetryPromptPart("again", tool_name="t", tool_call_id="c", timestamp=UTC)
    dumped = Adapter.dump_json([request(part)])

    thread = tp.from_pydantic_ai([request(part)])

    assert b"retry-prompt" in dumped
    assert thread.to_pydantic_ai_json() == dumped
    assert thread[0].status == "error"
    assert thread.to_pydantic_ai() == Adapter.validate_json(dumped)


def test_unknown_parts_are_preserved() -> None:
    smell = b'{"parts":[{"part_kind":"smell","rose":1.50}],"kind":"request"}'
    data = b"[" + smell + b',{"kind":"omen","parts":[],"x":[1.0]}]'

    thread = tp.from_pydantic_ai(data)

    assert thread.to_pydantic_ai_json() == data
    with pytest.raises(turntree.ValidationError, match="message 0: the installed pydantic-ai refuses it") as caught:
        thread.to_pydantic_ai()
    assert caught.value.errors()[0]["pointer"] == "/0/parts/0"
    assert caught.value.__cause__ is not None


def test_values_that_pydantic_refuses_are_refused() -> None:
    usage = RequestUsage(input_tokens=1)
    data = Adapter.dump_json([response(m.TextPart("x"), finish_reason="stop", usage=usage)])
    for old, new, pointer in [
        (b'"content":"x"', b'"content":5', "/0/parts/0/content"),
        (b'"timestamp":"2026-01-02T03:04:05Z"', b'"timestamp":"2026-13-02T03:04:05Z"', "/0/timestamp"),
        (b'"input_tokens":1', b'"input_tokens":"many"', "/0/usage/input_tokens"),
    ]:
        assert old in data
        with pytest.raises(turntree.ValidationError) as caught:
            tp.from_pydantic_ai(data.replace(old, new))
        assert caught.value.errors()[0]["pointer"] == pointer


def test_values_of_later_versions_are_preserved_and_the_installed_version_refuses_them() -> None:
    data = Adapter.dump_json([response(m.TextPart("x"), finish_reason="stop")])
    for old, new in [
        (b'"finish_reason":"stop"', b'"finish_reason":"bored"'),
        (b'"state":"complete"', b'"state":"odd"'),
    ]:
        assert old in data
        thread = tp.from_pydantic_ai(data.replace(old, new))

        assert thread.to_pydantic_ai_json() == data.replace(old, new)
        with pytest.raises(turntree.ValidationError, match="refuses it"):
            thread.to_pydantic_ai()


def test_the_caller_supplies_the_agent() -> None:
    agent = tp.AgentConfig("Fred", agent_id="f", created_at="2026-01-01T00:00:00Z")
    messages = [response(m.TextPart("x"))]

    for given in (agent, agent.to_dict()):
        thread = tp.from_pydantic_ai(messages, agent=given, thread_id="t", title="T")

        assert thread.agents == {"f": tp.AgentConfig.model_validate(thread.agents["f"].to_dict())}
        assert (thread[0].agent_id, thread.agents["f"].agent_name) == ("f", "Fred")
        assert (thread.thread_id, thread.title) == ("t", "T")


def test_messages_of_other_agents_carry_their_names() -> None:
    ann = tp.AgentConfig("Ann", agent_id="a")
    bob = tp.AgentConfig("Bob", agent_id="b")
    thread = tp.Thread(
        agents=[ann, bob],
        actions=[
            tp.UserMessageAction("hi"),
            tp.ToolCallAction("t", {"x": 1}, agent_id="a", tool_call_id="c"),
            tp.ToolReturnAction("t", "ok", tool_call_id="c"),
            tp.AssistantMessageAction("I am Ann", agent_id="a"),
            tp.AssistantMessageAction("I am Bob", agent_id="b"),
            tp.SystemAction("system.note"),
        ],
    )

    view = thread.to_pydantic_ai("b")
    said = [(part.part_kind, part.content) for message in view for part in message.parts]
    assert said == [
        ("user-prompt", "hi"),
        ("user-prompt", "{agent:Ann}: I am Ann"),
        ("text", "I am Bob"),
    ]
    hidden = thread.to_pydantic_ai("b", others="hide")
    assert [part.content for message in hidden for part in message.parts] == ["hi", "I am Bob"]
    shown = thread.to_pydantic_ai("b", tool_visibility="show")
    assert [part.part_kind for message in shown for part in message.parts] == [
        "user-prompt",
        "tool-call",
        "tool-return",
        "user-prompt",
        "text",
    ]
    own = thread.to_pydantic_ai("b", others_role="assistant", attribution="NAME says ")
    assert [part.content for message in own for part in message.parts] == [
        "hi",
        "Ann says I am Ann",
        "I am Bob",
    ]
    assert Adapter.validate_json(thread.to_pydantic_ai_json("b")) == view
    with pytest.raises(turntree.ValidationError, match='no agent "c" in this thread; its agents are "a", "b"'):
        thread.to_pydantic_ai("c")

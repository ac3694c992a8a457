"""Nothing of a history vanishes in an export without a documented reason.

Every text, file, call, result and prompt of a generated history has a word of its own. Each export contains all words
except those of the kinds that docs/thread-protocol.md lists under "What an export leaves out".
"""

import base64
import json
import re
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turntree import thread_protocol as tp

TIME = "2026-03-01T10:00:00Z"

USER_ITEMS = ["text", "image-url", "audio-url", "video-url", "document-url", "binary", "uploaded-file"]
REQUEST_PARTS = ["user-prompt", "items", "system-prompt", "retry"]
RESPONSE_PARTS = ["text", "thinking", "tool-call", "native", "file", "compaction"]


class Words:
    """Words by the kind of what they stand for."""

    def __init__(self) -> None:
        self.by_kind: dict[str, list[str]] = defaultdict(list)

    def of(self, kind: str) -> str:
        word = f"w{sum(map(len, self.by_kind.values()))}q"
        self.by_kind[kind].append(word)
        return word

    def file(self, kind: str) -> str:
        word = self.of(kind)
        data = base64.urlsafe_b64encode(word.encode()).decode()
        self.by_kind[kind][-1] = data.rstrip("=")
        return data


def item(kind: str, words: Words) -> Any:
    if kind == "text":
        return words.of("user")
    if kind == "binary":
        return {"data": words.file("user file"), "media_type": "image/png", "kind": "binary"}
    if kind == "uploaded-file":
        return {
            "file_id": words.of("provider file"),
            "provider_name": "openai",
            "media_type": "image/png",
            "kind": kind,
        }
    endings = {"image-url": "png", "audio-url": "mp3", "video-url": "mp4", "document-url": "pdf"}
    return {"url": f"https://h/{words.of('user file')}.{endings[kind]}", "kind": kind}


def request_part(kind: str, words: Words, first: bool) -> dict[str, Any]:
    if kind == "user-prompt":
        return {"content": words.of("user"), "timestamp": TIME, "part_kind": kind}
    if kind == "items":
        return {"content": [item(one, words) for one in USER_ITEMS], "timestamp": TIME, "part_kind": "user-prompt"}
    if kind == "system-prompt":
        return {"content": words.of("prompt" if first else "later prompt"), "timestamp": TIME, "part_kind": kind}
    return {
        "content": words.of("retry"),
        "retry": {"cause": "model_retry"},
        "timestamp": TIME,
        "part_kind": "retry-feedback",
    }


def response_parts(kind: str, words: Words, waiting: list[dict[str, Any]]) -> list[dict[str, Any]]:
    call = {"tool_name": words.of("call"), "tool_call_id": f"c{id(words) % 97}-{len(words.by_kind['call'])}"} if (
        kind in ("tool-call", "native")
    ) else {}  # fmt: skip
    if kind == "tool-call":
        waiting.append(call)
        return [{**call, "args": {"a": words.of("arguments")}, "part_kind": kind}]
    if kind == "native":
        called = {**call, "args": {"a": words.of("arguments")}, "provider_name": "p", "part_kind": "builtin-tool-call"}
        returned = {**call, "content": words.of("result"), "timestamp": TIME, "provider_name": "p"}
        return [called, {**returned, "part_kind": "builtin-tool-return"}]
    if kind == "thinking":
        return [
            {
                "content": words.of("thinking"),
                "signature": words.of("signature"),
                "provider_name": "p",
                "part_kind": kind,
            }
        ]
    if kind == "file":
        data = {"data": words.file("answer file"), "media_type": "image/png", "kind": "binary"}
        return [{"content": data, "part_kind": kind}]
    return [{"content": words.of("answer" if kind == "text" else kind), "part_kind": kind}]


Plan = list[tuple[list[str], bool, list[str]]]

plans: st.SearchStrategy[Plan] = st.lists(
    st.tuples(
        st.lists(st.sampled_from(REQUEST_PARTS), max_size=4),
        st.booleans(),
        st.lists(st.sampled_from(RESPONSE_PARTS), max_size=4),
    ),
    min_size=1,
    max_size=4,
)
EVERYTHING: Plan = [
    (["system-prompt", "user-prompt"], True, ["thinking", "tool-call"]),
    (["system-prompt", "items", "retry"], True, ["native", "file"]),
    (["user-prompt"], False, RESPONSE_PARTS),
    (["user-prompt"], True, []),
]


def history_of(plan: Plan) -> tuple[bytes, Words, tuple[int, int]]:
    words, messages, tokens = Words(), [], [0, 0]
    waiting: list[dict[str, Any]] = []
    for number, (asked, instructed, answered) in enumerate(plan):
        results = [
            {**call, "content": words.of("result"), "timestamp": TIME, "part_kind": "tool-return"} for call in waiting
        ]
        waiting.clear()
        leading = not results and number == 0
        parts = []
        for kind in asked:
            leading = leading and kind == "system-prompt"
            parts.append(request_part(kind, words, leading))
        members = (
            {"instructions": words.of("instructions" if number == 0 else "later instructions")} if instructed else {}
        )
        messages.append({"parts": [*results, *parts], "kind": "request", "timestamp": TIME, **members})
        said = [part for kind in answered for part in response_parts(kind, words, waiting)]
        usage = {"input_tokens": 10 + number, "output_tokens": 100 + number}
        messages.append({"parts": said, "usage": usage, "timestamp": TIME, "kind": "response"})
        tokens[0] += usage["input_tokens"]
        tokens[1] += usage["output_tokens"]
    results = [
        {**call, "content": words.of("result"), "timestamp": TIME, "part_kind": "tool-return"} for call in waiting
    ]
    messages.append(
        {"parts": [*results, request_part("user-prompt", words, False)], "kind": "request", "timestamp": TIME}
    )
    return json.dumps(messages).encode(), words, (tokens[0], tokens[1])


def missing(words: Words, output: Any) -> set[str]:
    """The kinds that have a word outside of the output."""
    text = output.decode() if isinstance(output, bytes) else json.dumps(output)
    text = text.replace("+", "-").replace("/", "_")
    return {kind for kind, all_words in words.by_kind.items() if not all(word in text for word in all_words)}


def dumped(messages: list[Any]) -> list[Any]:
    return [json.loads(message.model_dump_json()) for message in messages]


# Events of Pydantic AI alone stay in the document.
EVENTS = {"compaction"}
# In the portable profile, files after a call are events beside the messages.
PORTABLE = {*EVENTS, "answer file"}
PROMPTS = {"instructions", "later instructions"}


def has_empty_messages(plan: Plan) -> bool:
    """True if the view of an agent has no message for a request or a response."""
    return any(set(asked) <= {"retry"} or set(answered) <= {"compaction"} for asked, _, answered in plan)


@given(plans)
def test_nothing_vanishes_from_the_portable_profile(plan: Plan) -> None:
    history, words, tokens = history_of(plan)

    thread = tp.from_pydantic_ai(history, profile="portable", usage_actions=True)
    back = json.loads(thread.to_pydantic_ai_json())

    assert missing(words, thread.to_json_bytes()) == set()
    assert missing(words, back) <= PORTABLE
    usages = [message["usage"] for message in back if message["kind"] == "response"]
    assert tuple(sum(usage[key] for usage in usages) for key in ("input_tokens", "output_tokens")) == tokens
    assert (thread.usage().input_tokens, thread.usage().output_tokens) == tokens


@given(plans)
def test_nothing_vanishes_from_the_view_of_the_only_agent(plan: Plan) -> None:
    history, words, tokens = history_of(plan)

    for profile in ("full", "portable"):
        thread = tp.from_pydantic_ai(history, profile=profile, usage_actions=True)  # type: ignore[call-overload]
        (agent_id,) = thread.agents
        view = json.loads(thread.to_pydantic_ai_json(agent_id))
        # A retry without a call is no message of the view, and an empty message has no instructions.
        lost = {"retry", *(PORTABLE if profile == "portable" else EVENTS)}
        assert missing(words, view) <= lost | (PROMPTS if has_empty_messages(plan) else set()), profile
        usages = [message["usage"] for message in view if message["kind"] == "response"]
        # An empty response is no message of the view.
        if not has_empty_messages(plan):
            total = tuple(sum(usage[key] for usage in usages) for key in ("input_tokens", "output_tokens"))
            assert total == tokens, profile


@given(plans)
def test_nothing_vanishes_from_messages_of_turntree(plan: Plan) -> None:
    history, words, _ = history_of(plan)
    # Messages have no place for signatures and provider events, and one place for instructions: the latest.
    lost = PORTABLE | PROMPTS | {"retry", "signature", "call"}

    for profile in ("full", "portable"):
        thread = tp.from_pydantic_ai(history, profile=profile)  # type: ignore[call-overload]
        (agent_id,) = thread.agents
        assert missing(words, dumped(thread.to_upp())) <= lost, profile
        assert missing(words, dumped(thread.to_upp(agent_id))) <= lost, profile


@pytest.mark.parametrize("sdk", [5, 6, 7])
@given(plans)
def test_nothing_vanishes_from_messages_of_a_client(sdk: Any, plan: Plan) -> None:
    history, words, _ = history_of(plan)
    # Clients must not see prompts.
    private = {"prompt", "later prompt", "instructions", "later instructions"}
    # Majors before 7 have no parts for files of a provider.
    private |= {"provider file"}

    for sidecar in ("none", "portable"):
        thread = tp.from_pydantic_ai(history)
        messages = thread.to_ui_messages(sdk, sidecar=sidecar)  # type: ignore[arg-type]
        assert missing(words, messages) <= private, sidecar


def test_every_kind_of_part_is_tested() -> None:
    history, words, _ = history_of(EVERYTHING)

    thread = tp.from_pydantic_ai(history)

    assert thread.to_pydantic_ai_json() == json.dumps(json.loads(history), separators=(",", ":")).encode()
    assert len(words.by_kind) == 16
    assert missing(words, b"") == set(words.by_kind)
    test = test_nothing_vanishes_from_the_portable_profile.hypothesis.inner_test  # type: ignore[attr-defined]
    test(EVERYTHING)
    assert re.search("w0q", thread.to_json())

"""Histories that use every member and every value of the messages of the installed pydantic-ai, one at a time."""

import json
from collections.abc import Iterator
from typing import Any

from pydantic_ai import messages as m

Adapter = m.ModelMessagesTypeAdapter

TIME = "2026-03-01T10:00:00Z"
IMAGE = "iVBORw0KGgo="
DETAILS = {"a": [1, {"b": None}]}

# Each class of objects: the members that it requires, and values of the other members.
PARTS: dict[str, tuple[dict[str, Any], dict[str, list[Any]]]] = {
    "system-prompt": (
        {"content": "Be brief."},
        {
            "timestamp": [TIME],
            "dynamic_ref": ["ref"],
            "context_id": ["system_prompt:x"],
            "scope": ["conversation", "request"],
            "metadata": [DETAILS],
        },
    ),
    "user-prompt": ({"content": "Hi", "timestamp": TIME}, {}),
    "tool-return": (
        {"tool_name": "t", "content": "18", "tool_call_id": "c", "timestamp": TIME},
        {
            "tool_kind": ["shop.lookup"],
            "metadata": ["note", DETAILS],
            "outcome": ["success", "failed", "denied", "interrupted", "retried"],
            "content": [
                DETAILS,
                [1, 2.5, None],
                {"kind": "image-url", "url": "https://a.example/b.png", "media_type": "image/png", "identifier": "x1"},
                [{"kind": "binary", "data": IMAGE, "media_type": "image/png", "identifier": "x2"}],
                {"kind": "uploaded-file", "file_id": "f1", "provider_name": "openai"},
                {"kind": "image-url", "url": "not a file", "extra": 1},
                {"kind": "binary", "data": IMAGE, "media_type": "image/png", "extra": 1},
                {"kind": "document-url", "url": "https://a.example/b.pdf", "media_type": "application/pdf", "more": 1},
                {"a": [{"kind": "video-url", "url": "s3://x/y.mp4", "media_type": "video/mp4", "identifier": "i"}]},
            ],
        },
    ),
    "retry-feedback": (
        {"content": "again", "retry": {"cause": "model_retry"}, "timestamp": TIME},
        {
            "retry": [
                {"cause": "no_output", "attempt": 1, "max_retries": 2},
                {"cause": "validation_error", "attempt": None, "max_retries": None},
            ],
            "content": [[{"type": "missing", "loc": ["a", 1], "msg": "m", "input": {"b": 1}}]],
        },
    ),
    "tool-availability-delta": ({"tools_added": ["a"]}, {"tool_call_id": ["c"]}),
    "capability-load-delta": ({"loaded": ["a"]}, {"tool_call_id": ["c"]}),
    "model-settings-delta": ({"settings": {"thinking": "high"}}, {"top_level": [True]}),
    "instruction-delta": (
        {"content": "x", "id": "agent"},
        {"id": ["toolset:t:name", None], "content": [None], "base_hash": ["0" * 64]},
    ),
    "instruction-baseline": (
        {"instructions": [{"content": "x", "part_kind": "instruction"}]},
        {
            "instructions": [
                [{"content": "x", "dynamic": True, "on_change": "append", "name": "n", "part_kind": "instruction"}],
                [{"content_hash": "0" * 64, "dynamic": True, "id": "agent", "part_kind": "instruction-digest"}],
            ]
        },
    ),
    "text": (
        {"content": "Hello"},
        {
            "id": ["i"],
            "provider_name": ["openai"],
            "provider_details": [DETAILS],
            "citations": [
                [
                    {
                        "sources": [
                            {"url": "https://a.example", "title": "A", "excerpts": ["x"], "kind": "web"},
                            {"document_id": "d", "title": "D", "excerpts": [], "kind": "document"},
                        ],
                        "anchor": {"start": 0, "end": 2, "kind": "content"},
                    }
                ],
                [
                    {
                        "sources": [{"url": "https://a.example", "kind": "web"}],
                        "anchor": {"start": 0, "end": 2, "kind": "marker"},
                    }
                ],
            ],
        },
    ),
    "thinking": (
        {"content": "Hm"},
        {"id": ["i"], "signature": ["s"], "provider_name": ["openai"], "provider_details": [DETAILS]},
    ),
    "tool-call": (
        {"tool_name": "t", "args": '{"a": 1}', "tool_call_id": "c"},
        {
            "args": [None, {"a": 1.5}, "not json", ""],
            "tool_kind": ["shop.lookup"],
            "id": ["i"],
            "provider_name": ["openai"],
            "provider_details": [DETAILS],
        },
    ),
    "builtin-tool-call": (
        {"tool_name": "web_search", "args": {"query": "q"}, "tool_call_id": "c", "provider_name": "openai"},
        {"tool_kind": ["shop.lookup"], "id": ["i"], "provider_details": [DETAILS], "provider_name": [None]},
    ),
    "builtin-tool-return": (
        {"tool_name": "web_search", "content": "x", "tool_call_id": "c", "timestamp": TIME},
        {
            "tool_kind": ["shop.lookup"],
            "metadata": [DETAILS],
            "outcome": ["success", "failed", "denied", "interrupted", "retried"],
            "provider_name": ["openai"],
            "provider_details": [DETAILS],
            "content": [
                {"status": "completed"},
                [{"kind": "audio-url", "url": "https://a.example/b.wav", "media_type": "audio/wav"}],
            ],
        },
    ),
    "file": (
        {"content": {"data": IMAGE, "media_type": "image/png", "kind": "binary"}},
        {
            "id": ["i"],
            "provider_name": ["openai"],
            "provider_details": [DETAILS],
            "content": [
                {"data": IMAGE, "media_type": "application/x-own", "kind": "binary"},
                {
                    "data": IMAGE,
                    "media_type": "image/png",
                    "vendor_metadata": DETAILS,
                    "identifier": "own",
                    "kind": "binary",
                },
            ],
        },
    ),
    "speech": (
        {"speaker": "assistant", "transcript": "Hello"},
        {
            "transcript": [None, ""],
            "audio": [{"data": IMAGE, "media_type": "audio/wav", "identifier": "own", "kind": "binary"}],
            "interrupted_at_ms": [10],
            "timestamps": [
                [{"text": "Hello", "start_ms": 0, "duration_ms": 3, "granularity": "word"}],
                [{"text": "Hello", "start_ms": 0, "duration_ms": 3, "granularity": "segment"}],
            ],
            "id": ["i"],
            "provider_name": ["openai"],
            "provider_details": [DETAILS],
        },
    ),
    "compaction": (
        {"content": "A summary."},
        {
            "content": [None],
            "id": ["i"],
            "provider_name": ["openai"],
            "provider_details": [DETAILS],
            "metadata": [DETAILS],
        },
    ),
}

REQUEST_PARTS = (
    "system-prompt",
    "user-prompt",
    "tool-return",
    "retry-feedback",
    "tool-availability-delta",
    "capability-load-delta",
    "model-settings-delta",
    "instruction-delta",
    "instruction-baseline",
)

URL_MEMBERS: dict[str, list[Any]] = {
    "force_download": [False, True, "allow-local"],
    "vendor_metadata": [{"detail": "high"}],
    "media_type": ["application/x-own"],
    "identifier": ["own"],
}

ITEMS: dict[str, tuple[dict[str, Any], dict[str, list[Any]]]] = {
    "image-url": ({"url": "https://a.example/b.png"}, URL_MEMBERS),
    "audio-url": ({"url": "https://a.example/b.wav"}, URL_MEMBERS),
    "video-url": ({"url": "https://a.example/b.mp4"}, URL_MEMBERS),
    "document-url": ({"url": "https://a.example/b.pdf"}, {**URL_MEMBERS, "url": ["https://a.example/b"]}),
    "binary": (
        {"data": IMAGE, "media_type": "image/png"},
        {
            "vendor_metadata": [{"detail": "high"}],
            "identifier": ["own"],
            "media_type": ["application/x-own", "audio/wav"],
        },
    ),
    "uploaded-file": (
        {"file_id": "f1", "provider_name": "openai"},
        {
            "provider_name": ["anthropic", "google", "google-cloud", "bedrock", "xai"],
            "vendor_metadata": [DETAILS],
            "media_type": ["application/x-own"],
            "identifier": ["own"],
        },
    ),
    "text-content": ({"content": "text"}, {"metadata": ["note", DETAILS]}),
    "structured-content": (
        {"content": '{"a":1}', "value": {"a": 1}},
        {"metadata": [DETAILS], "tag": ["order"], "description": ["An order."]},
    ),
    "cache-point": ({}, {"ttl": ["5m", "1h"]}),
}

ATTEMPT = {"model_name": "m", "outcome": "error", "timestamp": TIME, "duration": "PT1.5S"}

MESSAGES: dict[str, dict[str, list[Any]]] = {
    "request": {
        "timestamp": [TIME],
        "instructions": ["Be brief."],
        "run_id": ["r"],
        "conversation_id": ["v"],
        "metadata": [DETAILS],
        "state": ["complete", "interrupted"],
    },
    "response": {
        "usage": [],  # USAGE
        "model_name": ["m"],
        "model_id": ["openai:m"],
        "timestamp": ["2026-03-01T10:00:00.500000+05:30"],
        "provider_name": ["openai"],
        "provider_url": ["https://a.example"],
        "canonical_system": ["openai"],
        "provider_details": [DETAILS],
        "provider_response_id": ["p"],
        "finish_reason": ["stop", "length", "content_filter", "tool_call", "error"],
        "run_id": ["r"],
        "conversation_id": ["v"],
        "metadata": [DETAILS],
        "workspace_ref": [{"provider": "p", "id": "i"}],
        "history_digest": ["0" * 64],
        "failed_attempts": [
            [ATTEMPT],
            [{**ATTEMPT, "outcome": "rejected", "error": "e", "provider_name": "p", "usage": {"input_tokens": 1}}],
        ],
        "state": ["complete", "incomplete", "suspended", "interrupted"],
    },
}

USAGE: dict[str, list[Any]] = {
    "input_tokens": [3],
    "cache_write_tokens": [3],
    "cache_write_1h_tokens": [3],
    "cache_read_tokens": [3],
    "output_tokens": [3],
    "unmeasured_requests": [3],
    "output_reasoning_tokens": [3],
    "input_audio_tokens": [3],
    "cache_audio_read_tokens": [3],
    "output_audio_tokens": [3],
    "audio_seconds": [1.5],
    "details": [{"own": 3}],
    "cost": ["0.0012300"],
    "web_searches": [3],  # an additional counter
}

# The tools of pydantic-ai itself: parts with a content of a fixed shape.
SEARCH_RETURN: dict[str, Any] = {
    "tool_name": "search_tools",
    "content": {"discovered_tools": [{"name": "a"}]},
    "tool_call_id": "c",
    "tool_kind": "tool-search",
    "timestamp": TIME,
}
TYPED: list[tuple[str, str, dict[str, Any]]] = [
    ("request", "tool-return", SEARCH_RETURN),
    ("request", "tool-return", {**SEARCH_RETURN, "content": {"discovered_tools": [], "message": "none"}}),
    ("request", "tool-return", {**SEARCH_RETURN, "outcome": "failed", "content": "broken"}),
    ("request", "tool-return", {**SEARCH_RETURN, "metadata": DETAILS}),
    ("response", "tool-call", {"tool_name": "search_tools", "args": {"queries": ["a"]}, "tool_kind": "tool-search"}),
    ("response", "tool-call", {"tool_name": "search_tools", "args": '{"queries": ["a"]}', "tool_kind": "tool-search"}),
    (
        "response",
        "builtin-tool-call",
        {"tool_name": "tool_search", "args": {"queries": ["a"]}, "tool_kind": "tool-search", "tool_call_id": "c"},
    ),
    ("response", "builtin-tool-return", {**SEARCH_RETURN, "tool_name": "tool_search"}),
    ("response", "tool-call", {"tool_name": "load_capability", "args": {"id": "a"}, "tool_kind": "capability-load"}),
    *(
        (
            "request",
            "tool-return",
            {
                "tool_name": "load_capability",
                "content": content,
                "tool_call_id": "c",
                "tool_kind": "capability-load",
                "timestamp": TIME,
            },
        )
        for content in ({"instructions": "x"}, {"message": "x"}, {"instructions": "x", "message": "y"}, {})
    ),
]


def part_name(kind: str) -> str:
    return "request" if kind in REQUEST_PARTS else "response"


def message(kind: str, *parts: Any, **members: Any) -> dict[str, Any]:
    fixed = {"timestamp": TIME} if kind == "response" else {}
    return {"parts": list(parts), "kind": kind, **fixed, **members}


def varied(members: tuple[dict[str, Any], dict[str, list[Any]]]) -> Iterator[tuple[str, dict[str, Any]]]:
    required, optional = members
    yield "required", required
    for key, values in optional.items():
        for number, value in enumerate(values):
            yield f"{key}-{number}", {**required, key: value}
    full = {key: values[-1] for key, values in optional.items()}
    yield "full", {**required, **full}


def written() -> Iterator[tuple[str, dict[str, Any]]]:
    """The name and the message of each case, as an application writes it."""
    for kind, members in MESSAGES.items():
        for name, values in varied(({}, {key: values for key, values in members.items() if values})):
            yield f"{kind}.{name}", message(kind, **values)
    for name, usage in varied(({}, USAGE)):
        yield f"usage.{name}", message("response", usage=usage)
    for kind, members in PARTS.items():
        for name, part in varied(members):
            yield f"{kind}.{name}", message(part_name(kind), {**part, "part_kind": kind})
    for name, part in varied((PARTS["speech"][0] | {"speaker": "user"}, PARTS["speech"][1])):
        yield f"speech-of-user.{name}", message("request", {**part, "part_kind": "speech"}, timestamp=TIME)
    yield "compaction-of-request", message("request", {"content": "A summary.", "part_kind": "compaction"})
    for cause in ("validation_error", "model_retry", "unknown_tool", "unavailable_tool"):
        part = {**PARTS["tool-return"][0], "outcome": "retried", "part_kind": "tool-return", "metadata": {"a": 1}}
        yield f"retried.{cause}", message("request", {**part, "retry": {"cause": cause, "attempt": 1}})
    for kind, members in ITEMS.items():
        for name, item in varied(members):
            prompt = {"content": ["Hi", {**item, "kind": kind}, "Bye"], "timestamp": TIME, "part_kind": "user-prompt"}
            yield f"{kind}.{name}", message("request", prompt)
    for number, (direction, kind, part) in enumerate(TYPED):
        yield f"typed-{number}", message(direction, {"tool_call_id": "c", **part, "part_kind": kind})


def made_histories() -> dict[str, bytes]:
    """Histories of one message, as the installed version dumps them."""
    return {name: Adapter.dump_json(Adapter.validate_json(json.dumps([one]))) for name, one in written()}


def timed(tag: str) -> dict[str, str]:
    return {"timestamp": TIME} if tag in ("retry-prompt", "user-prompt", "tool-return") else {}


def older_histories() -> dict[str, bytes]:
    """Histories that older versions wrote, with values that the installed version dumps differently."""
    uploaded = {"file_id": "f", "provider_name": "google-gla", "kind": "uploaded-file"}
    link = {"kind": "image-url", "url": "https://a.example/b.png", "media_type": "image/png", "identifier": "i"}
    search = {
        **SEARCH_RETURN,
        "content": {"discovered_tools": [{"name": "a", "description": "d", "more": 1}], "other": 1},
    }
    returned = PARTS["tool-return"][0]
    load = {**returned, "tool_name": "load_capability", "tool_kind": "capability-load"}
    called = {"tool_call_id": "c", "tool_name": "search_tools", "tool_kind": "tool-search"}
    cases: dict[str, tuple[str, str, dict[str, Any]]] = {
        "retry-of-tool": ("request", "retry-prompt", {"content": "x", "tool_name": "t", "tool_call_id": "c"}),
        "retry": ("request", "retry-prompt", {"content": "x", "tool_call_id": "c"}),
        "added": ("request", "tool-availability-delta", {"added": ["a"]}),
        "google": ("request", "user-prompt", {"content": [uploaded]}),
        "url": ("request", "user-prompt", {"content": [{"kind": "image-url", "url": "https://a.example/b"}]}),
        "described": ("request", "tool-return", search),
        "load-failed": ("request", "tool-return", {**load, "content": "x", "outcome": "failed"}),
        "search-args": ("response", "tool-call", {**called, "args": {"queries": ["a"], "more": 1}}),
        "search-in-text": ("response", "tool-call", {**called, "args": "nope"}),
        "alike": ("request", "tool-return", {**returned, "content": {**link, "e/x~": 1}, "content_file_digests": []}),
        "alike-untyped": (
            "request",
            "tool-return",
            {**returned, "content": [{**link, "media_type": None}], "content_file_digests": []},
        ),
        "alike-unknown": (
            "request",
            "tool-return",
            {**returned, "content": {"a": {"kind": "video-url", "url": "x"}}, "content_file_digests": []},
        ),
        "download": ("request", "tool-return", {**returned, "content": {**link, "force_download": "allow-local"}}),
    }
    return {
        f"older-{name}": json.dumps([message(kind, {**part, **timed(tag), "part_kind": tag})]).encode()
        for name, (kind, tag, part) in cases.items()
    }

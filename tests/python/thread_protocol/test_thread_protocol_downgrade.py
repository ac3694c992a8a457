"""Downgrades, against installed versions of pydantic-ai: what a version loses is reported, and nothing else.

The laws, for each version and history:
1. The version loads and dumps the downgraded history, and loses nothing of it.
2. The export and its downgrade differ exactly by the report.
3. If the version loses nothing of the export itself, the report is empty.
"""

import dataclasses
import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from downgrade_histories import ITEMS, MESSAGES, PARTS, USAGE, Adapter, made_histories, older_histories
from downgrade_laws import is_reread_url, losses, reread_urls, unexplained
from older_pydantic_ai import CHANGED, GATE, REASON, ROOT, WANTED, reloaded
from pydantic_ai import messages as m
from pydantic_ai.usage import RequestUsage

import turntree
from turntree import thread_protocol as tp

FIXTURES = sorted((ROOT / "tests/data/thread_protocol/pydantic_ai").glob("*.json"))
CORPUS = os.environ.get("TURNTREE_CORPUS")

# This version alone reads each dict with a "url" in the return of a tool as an ImageUrl. It loses the other members,
# and cannot dump the history if the URL does not end as that of an image.
REREADS_URLS = "1.50.0"

AGENTS = {
    name: tp.AgentConfig(name, agent_id=name, agent_identifier=name, created_at="2026-03-01T10:00:00Z")
    for name in ("ann", "bob")
}
VIEWS: list[dict[str, Any]] = [
    {"others": "prefix", "tool_visibility": "hide"},
    {"others": "hide", "tool_visibility": "show"},
    {"others": "prefix", "tool_visibility": "summarize", "others_role": "assistant"},
    {"others": "prefix", "tool_visibility": "show"},
]


def of_two_agents(history: bytes) -> tp.Thread | None:
    """The thread of a history in which two agents alternate."""
    messages = json.loads(history)
    for number, message in enumerate(messages):
        message["run_id"] = ("ann", "bob")[number // 2 % 2]
    try:
        return tp.from_pydantic_ai(json.dumps(messages), agent=AGENTS)
    except turntree.ValidationError:
        return None


def exports_of(history: bytes, number: int) -> Iterator[tuple[str, bytes]]:
    """The full export of a history, profiles, and a view, in turn one of all views."""
    thread = tp.from_pydantic_ai(history)
    yield "full", thread.to_pydantic_ai_json()
    profiles = [
        lambda: tp.from_pydantic_ai(history, profile="portable"),
        lambda: tp.from_pydantic_ai(history, strict=True),
        thread.core,
    ]
    yield f"profile {number % 3}", profiles[number % 3]().to_pydantic_ai_json()
    shared = of_two_agents(history)
    if shared is not None and shared.agents:
        agent = list(shared.agents)[number % len(shared.agents)]
        view = VIEWS[number % len(VIEWS)]
        yield f"view {view}", shared.to_pydantic_ai_json(agent, **view)


def histories() -> dict[str, bytes]:
    found = {path.stem: path.read_bytes().strip() for path in FIXTURES}
    if CORPUS:
        root = Path(CORPUS) / "histories"
        found |= {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*/*.json"))}
    # Parts and members of later versions are in no known version.
    return {name: history for name, history in found.items() if name != "unknown"}


@cache
def all_exports() -> list[tuple[str, str, bytes]]:
    """The name of each history, the form of the export, and the export, without repetitions."""
    made = {**made_histories(), **older_histories()}
    found = {export: (name, "full") for name, export in made.items()}
    for number, (name, history) in enumerate({**histories(), **made}.items()):
        for form, export in exports_of(history, number):
            found.setdefault(export, (name, form))
    return [(name, form, export) for export, (name, form) in found.items()]


def downgraded(export: bytes, to: str) -> tuple[bytes, list[tuple[str, str]]]:
    older, changes = tp.downgrade_pydantic_ai(export, to)
    return older, [(change.pointer, change.kind) for change in changes]


def canonical(history: bytes) -> Any:
    try:
        return json.loads(Adapter.dump_json(Adapter.validate_json(history)))
    except ValueError:
        return object()


def described() -> dict[str, dict[str, Any]]:
    """The classes of messages of the installed version by kind, with their members and the literals of these."""
    definitions = Adapter.json_schema(mode="serialization")["$defs"]
    classes: dict[str, dict[str, Any]] = {}
    for definition in definitions.values():
        members = definition.get("properties", {})
        for tag in ("part_kind", "kind"):
            kind = members.get(tag, {}).get("const")
            if kind is not None and "tool_kind" not in {key for key in members if "const" in members[key]}:
                classes.setdefault(kind, {}).update(members)
    return classes


def test_the_made_histories_have_every_member_and_every_value() -> None:
    made = {kind: (fixed, optional) for kind, (fixed, optional) in {**PARTS, **ITEMS}.items()}
    made |= {kind: ({"parts": [], "timestamp": ""}, members) for kind, members in MESSAGES.items()}
    # Tested by cases of their own, and the option `format`, which is not stored.
    elsewhere = {"kind", "part_kind", "usage", "retry", "content_file_digests", "speaker", "format"}
    older = {"google-gla", "google-vertex"}
    inner = {"instruction", "instruction-digest", "content", "marker", "document", "web"}

    missing = []
    for kind, members in described().items():
        if kind in inner or kind == "retry-prompt":
            continue
        fixed, optional = made[kind]
        for key, schema in members.items():
            values = [*optional.get(key, []), *([fixed[key]] if key in fixed else [])]
            if not values and key not in elsewhere:
                missing.append(f"{kind}.{key}")
            wanted = set() if key in elsewhere else set(schema.get("enum", []))
            if not wanted - older <= {value for value in values if isinstance(value, str)}:
                missing.append(f"{kind}.{key}: {wanted}")
    counters = {field.name for field in dataclasses.fields(RequestUsage)}

    assert missing == []
    assert counters <= set(USAGE)


@pytest.mark.parametrize("version", [*GATE, *CHANGED])
def test_the_report_has_exactly_the_changes(version: str) -> None:
    problems = {}
    for name, export in {**made_histories(), **older_histories()}.items():
        older, changes = downgraded(export, version)
        if found := unexplained(json.loads(export), json.loads(older), changes):
            problems[name] = found
        assert downgraded(older, version)[0] == older

    assert problems == {}


@pytest.mark.skipif(not WANTED, reason=REASON)
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", WANTED)
def test_older_versions_lose_exactly_what_is_reported(version: str, tmp_path: Path) -> None:
    made = made_histories()
    cases = all_exports()
    results = [downgraded(export, version) for _, _, export in cases]
    dumps = reloaded(version, [older for older, _ in results], tmp_path)
    raw = dict(zip(made, reloaded(version, list(made.values()), tmp_path), strict=True))

    problems: dict[str, list[str]] = {}
    faults: dict[str, list[str]] = {}
    for (name, form, export), (older, changes), dump in zip(cases, results, dumps, strict=True):
        found = unexplained(json.loads(export), json.loads(older), changes)
        if isinstance(dump, str):
            found.append(dump)
        else:
            found += losses(json.loads(older), json.loads(dump), canonical(older))
        full = raw.get(name) if form == "full" and changes else None
        if isinstance(full, bytes) and not losses(json.loads(export), json.loads(full)):
            found.append(f"reported, but {version} loses nothing: {changes}")
        if version == REREADS_URLS:
            faults[f"{name} {form}"] = [problem for problem in found if is_reread_url(problem, json.loads(older))]
            found = [problem for problem in found if problem not in faults[f"{name} {form}"]]
        if found:
            problems[f"{name} {form}"] = found

    print(f"{len(cases)} histories for pydantic-ai {version}")
    assert not problems, json.dumps(problems, indent=1)
    if version == REREADS_URLS:
        forms = [
            (f"{name} {form}", json.loads(older)) for (name, form, _), (older, _) in zip(cases, results, strict=True)
        ]
        expected = {form for form, older in forms if reread_urls(older)}
        assert {name for name, found in faults.items() if found} == expected


def test_a_view_of_a_thread_is_downgraded_as_its_json() -> None:
    text, call = m.TextPart("Hi", id="i"), m.ToolCallPart("t", {"a": 1}, "c", tool_kind="shop.lookup")
    history = Adapter.dump_json([m.ModelRequest([m.UserPromptPart("Hi")]), m.ModelResponse([text, call])])
    thread = of_two_agents(history)
    assert thread is not None
    for agent in thread.agents:
        for view in VIEWS:
            older = thread.to_pydantic_ai_json(agent, **view, downgrade="1.0")
            assert older == tp.downgrade_pydantic_ai(thread.to_pydantic_ai_json(agent, **view), "1.0")[0]


def test_patches_are_versions() -> None:
    part = {"content": {"data": "aGk=", "media_type": "image/png", "kind": "binary"}, "part_kind": "file"}
    history = json.dumps([{"parts": [part], "kind": "response", "timestamp": "2026-03-01T10:00:00Z"}])

    assert tp.downgrade_pydantic_ai(history, "1.0.18")[1] == []
    assert [change.pointer for change in tp.downgrade_pydantic_ai(history, "1.0")[1]] == ["/0/parts/0"]
    assert tp.pydantic_ai_version(history)[0] == "1.0.15"

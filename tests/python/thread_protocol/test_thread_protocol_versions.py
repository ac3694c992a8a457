"""Histories of other versions of Pydantic AI: detection of the version, and downgrades for older versions.

`TURNTREE_OLD_PYDANTIC_AI=1` (make test-versions) installs each older version into a separate venv, loads the
downgraded histories there, and converts the loaded objects. An installation that fails is a failure.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from older_pydantic_ai import REASON, WANTED, python_beside
from pydantic_ai import messages as m

import turntree
from turntree import thread_protocol as tp

Adapter = m.ModelMessagesTypeAdapter
ROOT = Path(__file__).resolve().parents[3]
FIXTURES = sorted((ROOT / "tests/data/thread_protocol/pydantic_ai").glob("*.json"))
CORPUS = os.environ.get("TURNTREE_CORPUS")

# The oldest supported version, and one before and one after each large change of the format.
OLD = ["1.0.0", "1.107.5", "2.33.0", "2.56.0"]


def request(*parts: Any) -> dict[str, Any]:
    return {"parts": list(parts), "kind": "request", "timestamp": "2026-03-01T10:00:00Z"}


def response(*parts: Any, **members: Any) -> dict[str, Any]:
    return {"parts": list(parts), "usage": {}, "timestamp": "2026-03-01T10:00:00Z", "kind": "response", **members}


def downgraded(*messages: Any, to: str = "1.x") -> tuple[Any, list[tuple[str, str]]]:
    older, changes = tp.downgrade_pydantic_ai(json.dumps(messages), to)
    assert all(change.message for change in changes)
    return json.loads(older), [(change.pointer, change.kind) for change in changes]


def test_newer_members_are_dropped_and_those_with_values_are_reported() -> None:
    older, changes = downgraded(
        response(
            {"content": "x", "citations": None, "provider_name": "p", "part_kind": "text"}, run_id="r", state="complete"
        )
    )

    assert older == [response({"content": "x", "part_kind": "text"})]
    assert changes == [("/0/parts/0/provider_name", "dropped"), ("/0/run_id", "dropped")]


def test_retries_are_downgraded_to_retry_prompts() -> None:
    retried = {
        "tool_name": "t",
        "content": "again",
        "tool_call_id": "c",
        "outcome": "retried",
        "part_kind": "tool-return",
    }
    details = [{"type": "x", "loc": ["a", 1], "msg": "m", "input": None}]
    feedback = {"content": details, "retry": {"cause": "no_output"}, "part_kind": "retry-feedback"}

    (message,), changes = downgraded(request(retried, feedback), to="2.33")

    first, second = message["parts"]
    assert first == {"content": "again", "tool_name": "t", "tool_call_id": "c", "part_kind": "retry-prompt"}
    assert (second["part_kind"], second["tool_name"]) == ("retry-prompt", None)
    assert second["content"] == details
    assert changes == [("/0/parts/0", "rewritten"), ("/0/parts/1", "rewritten"), ("/0/parts/1/retry", "dropped")]
    assert downgraded(request(retried, feedback), to="2.33")[0] == [message]
    thread = tp.Thread()
    thread.append(tp.SystemAction("system.tp.retry", {"content": [{"type": "x"}], "cause": "no_output"}))
    (message,) = json.loads(thread.to_pydantic_ai_json(downgrade="2.33"))
    assert json.loads(message["parts"][0]["content"]) == [{"type": "x"}]


def test_parts_without_an_older_form_are_dropped_and_reported() -> None:
    prompt = {
        "content": [
            "Hi",
            {"kind": "cache-point", "ttl": "5m"},
            {"kind": "text-content", "content": "t", "metadata": 1},
        ],
        "part_kind": "user-prompt",
    }
    delta = {"tools_added": ["a"], "part_kind": "tool-availability-delta"}

    (message,), changes = downgraded(request(prompt, delta))

    assert message["parts"] == [{"content": ["Hi", "t"], "part_kind": "user-prompt"}]
    assert changes == [
        ("/0/parts/0/content/1", "dropped"),
        ("/0/parts/0/content/2", "rewritten"),
        ("/0/parts/0/content/2/metadata", "dropped"),
        ("/0/parts/1", "dropped"),
        ("/0/timestamp", "dropped"),
    ]


def test_a_downgrade_to_the_version_of_the_writer_changes_nothing() -> None:
    for path in FIXTURES:
        data = path.read_bytes().rstrip(b"\n")
        if path.stem in {"unknown", "retries_old", "no_nulls", "multimodal"}:
            continue
        assert tp.downgrade_pydantic_ai(data, "2.68") == (data, []), path.name


def test_a_thread_exports_for_an_older_version() -> None:
    thread = tp.from_pydantic_ai(json.dumps([response({"content": "x", "part_kind": "text"}, run_id="r")]))

    assert json.loads(thread.to_pydantic_ai_json(downgrade="1.0")) == [response({"content": "x", "part_kind": "text"})]
    assert tp.downgrade_pydantic_ai(thread, "1.0")[0] == thread.to_pydantic_ai_json(downgrade="1.0")
    for bad in ("0.8", "x", "", "1.2.3.", "one.x"):
        with pytest.raises(ValueError, match="invalid pydantic-ai version"):
            thread.to_pydantic_ai_json(downgrade=bad)


def test_the_version_is_detected_from_the_members() -> None:
    old: dict[str, Any] = {
        "parts": [{"content": "x", "part_kind": "text"}],
        "usage": {},
        "timestamp": "2026-03-01T10:00:00Z",
        "kind": "response",
    }
    live = [m.ModelResponse(parts=[m.TextPart("x")])]

    assert tp.pydantic_ai_version(json.dumps([old])) == ("1.0", "1.0.2")
    old["parts"] = [{"content": "x", "id": None, "part_kind": "text"}]
    old["finish_reason"] = None
    assert tp.pydantic_ai_version(json.dumps([old])) == ("1.0.5", "1.15")
    assert tp.pydantic_ai_version(json.dumps([{**old, "run_id": None, "metadata": None}])) == ("1.20", "1.22")
    assert tp.pydantic_ai_version(live) == ("2.64", None)
    assert tp.pydantic_ai_version(tp.from_pydantic_ai(live)) == ("2.64", None)
    assert tp.pydantic_ai_version(b"[]") == ("1.0", None)


def test_canonical_histories_equal_those_that_pydantic_stores() -> None:
    part = {"content": "x", "tool_name": "t", "tool_call_id": "c", "timestamp": "2026-03-01T10:00:00Z"}
    old = json.dumps([request({**part, "part_kind": "retry-prompt"})])

    canonical = tp.canonicalize_pydantic_ai(old)

    assert json.loads(canonical)[0]["parts"][0]["outcome"] == "retried"
    assert tp.canonicalize_pydantic_ai(canonical) == canonical
    with pytest.raises(turntree.ValidationError, match="must be a string or a list, not 5") as caught:
        tp.canonicalize_pydantic_ai(json.dumps([request(), request({"content": 5, "part_kind": "user-prompt"})]))
    assert caught.value.errors()[0]["pointer"] == "/1/parts/0/content"
    with pytest.raises(turntree.ValidationError, match="refuses it") as caught:
        tp.canonicalize_pydantic_ai(json.dumps([request(), response({"part_kind": "smell"})]))
    assert caught.value.errors()[0]["pointer"] == "/1/parts/0"


def test_nan_and_infinity_become_null() -> None:
    part = {"tool_name": 'NaN"', "content": 5.25, "tool_call_id": "c", "timestamp": "2026-03-01T10:00:00Z"}
    text = json.dumps([request({**part, "part_kind": "tool-return"})])
    data = text.replace("5.25", '[NaN,-Infinity,Infinity,"NaN",-1]').encode()

    thread = tp.from_pydantic_ai(data)

    assert thread[0].content == [None, None, None, "NaN", -1]
    assert Adapter.validate_json(thread.to_pydantic_ai_json())


@pytest.mark.skipif(CORPUS is None, reason="NOT TESTED on real histories: TURNTREE_CORPUS is not set")
@pytest.mark.timeout(600)
def test_canonical_histories_equal_those_of_the_corpus() -> None:
    root = Path(CORPUS or "")
    histories = sorted((root / "histories").rglob("*/*.json"))
    differs = []
    for path in histories:
        # The output of the installed version after loading, if it differs.
        canonical = root / "histories-canonical" / path.relative_to(root / "histories")
        data = path.read_bytes()
        if tp.canonicalize_pydantic_ai(data) != (canonical.read_bytes() if canonical.exists() else data):
            differs.append(path.name)

    print(f"{len(histories)} histories, {len(differs)} differ")
    assert differs == []


# Runs with an older version. Prints what it refuses, and where its objects and its JSON give different threads.
BESIDE = """
import sys, glob, warnings
warnings.simplefilter("ignore")
from pydantic_ai.messages import ModelMessagesTypeAdapter as Adapter
from turntree import thread_protocol as tp
for path in sorted(glob.glob(sys.argv[1] + "/*.json")):
    try:
        live = Adapter.validate_json(open(path, "rb").read())
    except Exception as error:
        print(path, "is refused:", str(error)[:300])
        continue
    try:
        dumped = Adapter.dump_json(live)
        loaded = Adapter.validate_json(dumped)
    except Exception as error:
        print(path, "cannot be stored there:", str(error)[:300], file=sys.stderr)
        continue
    thread = tp.from_pydantic_ai(live)
    told = thread.to_pydantic_ai_json() == dumped
    same = thread == tp.from_pydantic_ai(dumped)
    again = tp.Thread.model_validate_json(thread.to_json())
    built = thread.to_pydantic_ai() == loaded and again.to_pydantic_ai() == loaded
    if not (told and same and built):
        print(path, "live:", f"{told=} {same=} {built=}")
"""


@pytest.mark.skipif(not WANTED, reason=REASON)
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", OLD)
def test_older_versions_load_downgraded_histories_and_their_objects_are_read(version: str, tmp_path: Path) -> None:
    python = python_beside(version)
    histories = [*FIXTURES, *(sorted((Path(CORPUS) / "histories").rglob("*/*.json")) if CORPUS else [])]
    assert histories
    for number, path in enumerate(histories):
        older, _ = tp.downgrade_pydantic_ai(path.read_bytes(), version)
        (tmp_path / f"{number}.json").write_bytes(older)
    # turntree needs no other package, so its folder alone is added to the path.
    lent = tmp_path / "lent"
    lent.mkdir()
    (lent / "turntree").symlink_to(Path(turntree.__file__).parent)

    beside = subprocess.run(
        [python, "-c", BESIDE, str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(lent)},
    )

    print(f"{len(histories)} histories for pydantic-ai {version}")
    print(beside.stderr)
    assert (beside.returncode, beside.stdout) == (0, "")

"""The data classes of turntree.harness have the methods of pydantic models."""

import copy
import dataclasses
import json
import pickle
import subprocess
import sys
from pathlib import Path

import pydantic
import pytest

import turntree
from turntree._cli import main
from turntree.harness import (
    Action,
    Change,
    Conflict,
    Coordination,
    Decision,
    Forecast,
    Gate,
    HarnessError,
    HookReply,
    Lease,
    MatchedRule,
    Project,
    Replay,
    Worktree,
)

RULE = MatchedRule("git.force-push", "required", "deny", "overwrites", "do not")
VALUES = [
    Action(kind="other", tool="t", arguments={"a": [1, {"b": None}]}),
    Action(kind="edit", path="a", paths=["b"], harness="mine"),
    RULE,
    Decision("deny", [RULE], "Blocked: ü", 12, "abc", [{"id": "user.x", "outcome": "warn"}]),
    Change(1, "ls", "allow", "deny", ["user.x"]),
    Replay(2, 1, [Change(1, "ls", "allow", "deny", ["user.x"])], ["user.y"]),
    Lease("1", "file:a", "anna", 3, 4),
    Lease("1", "file:a", "anna", 3, 4, Path("/tmp/x")),
    Worktree("001-x", "feature/001-x", Path("/tmp/x")),
    Conflict("a", "b", ["c"]),
    Forecast([Conflict("a", "b", ["c"])], ["a", "b"]),
    HookReply(2, "", "Blocked"),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_survives_every_way_of_writing_it(value):
    cls = type(value)

    for same in (
        cls.model_validate(value.model_dump()),
        cls.model_validate(value.model_dump(mode="json")),
        cls.model_validate(value.model_dump(exclude_none=True)),
        cls.model_validate_json(value.model_dump_json()),
        cls.model_validate_json(value.model_dump_json(indent=2).encode()),
        cls.from_json(value.to_json()),
        cls.from_json(value.to_dict()),
        pickle.loads(pickle.dumps(value)),
        copy.copy(value),
        copy.deepcopy(value),
        pydantic.TypeAdapter(cls).validate_python(value.model_dump()),
        pydantic.TypeAdapter(cls).validate_json(pydantic.TypeAdapter(cls).dump_json(value)),
    ):
        assert same == value
        assert type(same) is cls
        assert hash(same) == hash(value)
    assert cls.model_validate(value) is value
    assert json.loads(value.model_dump_json()) == value.model_dump(mode="json")


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_the_schema_describes_what_is_written(value):
    schema = type(value).model_json_schema()

    assert schema["title"] == type(value).__name__
    assert schema["properties"].keys() == value.model_dump().keys()
    assert set(schema["required"]) <= schema["properties"].keys()
    assert all("description" in member for member in schema["properties"].values())
    inlined = pydantic.TypeAdapter(type(value)).json_schema()
    assert "$ref" not in json.dumps(inlined)


def test_a_dump_has_python_values_or_those_of_json_and_is_a_copy():
    tree = VALUES[8]
    assert tree.model_dump()["path"] == Path("/tmp/x")
    assert tree.model_dump(mode="json")["path"] == "/tmp/x"
    action = VALUES[0]
    action.model_dump()["arguments"]["a"].append(2)
    assert action.arguments == {"a": [1, {"b": None}]}
    assert action.model_dump(exclude_none=True) == {"kind": "other", "tool": "t", "arguments": action.arguments}
    with pytest.raises(ValueError, match="mode"):
        action.model_dump(mode="yaml")
    assert VALUES[3].model_dump_json().isascii() is False


@pytest.mark.parametrize(
    ("cls", "data", "pointer", "word"),
    [
        (Decision, {**VALUES[3].model_dump(), "outcome": "maybe"}, "/outcome", "'allow'"),
        (Decision, {**VALUES[3].model_dump(), "latency_us": True}, "/latency_us", "an integer"),
        (Decision, {**VALUES[3].model_dump(), "rules": [{"id": 1}]}, "/rules/0/id", "a string"),
        (Decision, {**VALUES[3].model_dump(), "rules": {}}, "/rules", "an array"),
        (Decision, {}, "", '"outcome" is missing'),
        (Action, {"kind": "shell", "comand": "ls"}, "/comand", "command"),
        (Action, {"kind": "other", "arguments": [1]}, "/arguments", "an object"),
        (Worktree, {"name": "a", "branch": "b", "path": None}, "/path", "a path"),
        (Lease, "text", "", "an object"),
    ],
)
def test_data_of_another_shape_is_refused_with_its_place(cls, data, pointer, word):
    with pytest.raises(turntree.ValidationError) as caught:
        cls.model_validate(data)

    (problem,) = caught.value.errors()
    assert problem["pointer"] == pointer
    assert word in problem["msg"]
    with pytest.raises(pydantic.ValidationError, match="turntree|expected|missing|unknown"):
        pydantic.TypeAdapter(cls).validate_python(data)


@pytest.mark.parametrize(
    ("text", "kind"),
    [("{", "json_truncated"), ("x", "json_invalid"), (b"\xff", "invalid_utf8"), ('{"a": NaN}', "json_invalid"),
     ("[" * 200_000, "json_")],
)  # fmt: skip
def test_text_that_is_not_json_is_refused(text, kind):
    with pytest.raises(turntree.ValidationError) as caught:
        Decision.model_validate_json(text)

    assert caught.value.errors()[0]["type"].startswith(kind)


def test_values_without_a_form_in_json_are_refused():
    action = Action(kind="other", tool="t", arguments={"a": object()})

    with pytest.raises(turntree.SerializationError, match="Action"):
        action.model_dump_json()
    with pytest.raises(TypeError, match="model_validate"):
        Action.model_validate_json({"kind": "shell"})


def test_values_are_dataclasses_and_tuples_as_before():
    status, out, err = HookReply(2, "", "x")

    assert (status, out, err) == HookReply(2, "", "x")
    assert dataclasses.asdict(VALUES[3])["rules"][0]["id"] == "git.force-push"
    assert dataclasses.replace(RULE, level="optional").level == "optional"


def test_what_the_gate_returns_is_written_and_read(empty_repository):
    gate = Gate.load(Project.find(empty_repository))

    decision = gate.check(Action.model_validate({"kind": "shell", "command": "git push --force"}))

    assert Decision.model_validate_json(decision.model_dump_json()) == decision
    assert gate.check(Action(kind="edit", paths=["a", "b"])).outcome == "deny"


COPIES = {
    "pickle": lambda lease: pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(lease)))),
    "json": lambda lease: Lease.from_json(lease.to_json()),
    "bytes": lambda lease: Lease.model_validate_json(lease.model_dump_json().encode()),
    "dict": lambda lease: Lease.model_validate(lease.model_dump()),
    "pydantic": lambda lease: pydantic.TypeAdapter(Lease).validate_python(lease.to_dict()),
    "replace": lambda lease: dataclasses.replace(lease),
}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_a_lease_that_was_written_and_read_still_protects_its_resource(empty_repository, copied):
    anna = Coordination(Project.find(empty_repository), "anna")
    lease = anna.acquire("file:a")

    read = copied(lease)

    assert read == lease
    assert read.project == Path(empty_repository).resolve()
    assert read.is_valid()
    assert read.renew(60)
    assert read.release()
    assert not lease.is_valid()


def test_a_lease_is_released_by_another_process_from_its_json(empty_repository, tmp_path):
    lease = Coordination(Project.find(empty_repository), "anna").acquire("file:a")
    program = "import sys; from turntree.harness import Lease; print(Lease.from_json(sys.stdin.read()).release())"

    done = subprocess.run(
        [sys.executable, "-c", program],
        input=lease.to_json(), cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip

    assert done.stdout == "True\n"
    assert not lease.is_valid()


def test_the_output_of_coord_claim_is_a_lease(empty_repository, capsys):
    assert main(["coord", "claim", "file:a", "--agent", "anna", "--project", str(empty_repository)]) == 0

    lease = Lease.from_json(capsys.readouterr().out)
    assert lease.owner == "anna"
    assert lease.release()


def test_a_lease_whose_project_is_not_here_says_what_to_do(tmp_path):
    lease = Lease("1", "file:a", "anna", 3, 4)

    with pytest.raises(HarnessError, match=r'"file:a" has no project; .*Coordination\.acquire.*project='):
        lease.renew()
    with pytest.raises(HarnessError, match=r'"file:a".*missing.*dataclasses\.replace'):
        dataclasses.replace(lease, project=tmp_path / "missing").release()

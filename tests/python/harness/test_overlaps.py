"""Announcements that overlap, two spellings of a name, drift without a remote, replays of rules in Python."""

import copy
import json
import pickle
import subprocess

import pytest

from turntree._cli import main
from turntree.harness import Coordination, Gate, HarnessError, Overlaps, Project, Worktrees


@pytest.fixture
def project(empty_repository):
    return Project.find(empty_repository)


def run(capsys, *arguments):
    status = main([str(argument) for argument in arguments])
    reply = capsys.readouterr()
    return status, reply.out, reply.err


def test_an_announcement_says_what_overlaps_and_the_risk(project):
    anna, ben, cleo = (Coordination(project, name) for name in ("anna", "ben", "cleo"))

    assert anna.announce("dir:src/parser", intent="refactoring") == []
    found = ben.announce("file:src/**/*.rs", note="all")

    assert [(item["agent"], item["resource"], item["overlap"]) for item in found] == [
        ("anna", "dir:src/parser", "inside")
    ]
    assert (found.risk, found.suggestion, found.order) == ("high", "sequence", ["ben", "anna"])
    closest = cleo.announce("file:src/parser/a.rs", "reviewing")
    assert closest.risk == "critical"
    assert closest.order == ["cleo", "ben", "anna"]
    anna.close()
    ben.complete("file:src/**/*.rs")
    assert cleo.announce("file:src/parser/a.rs").risk == "none"
    assert repr(closest).startswith("Overlaps([{")
    for same in (copy.deepcopy(closest), pickle.loads(pickle.dumps(closest))):
        assert isinstance(same, Overlaps)
        assert (same, same.risk, same.order) == (closest, closest.risk, closest.order)


def test_a_resource_that_is_too_long_is_refused(project):
    with pytest.raises(HarnessError, match="1024"):
        Coordination(project, "anna").announce("file:" + "*a" * 600)


def test_the_command_prints_overlaps_and_the_risk(project, capsys):
    root = ("--project", project.root)
    assert run(capsys, "coord", "announce", "dir:src", "--agent", "anna", *root) == (0, "", "")

    status, out, err = run(capsys, "coord", "announce", "file:src/a", "--agent", "ben", *root)
    assert (status, out) == (0, "anna editing dir:src\n")
    assert "risk medium: merge in this order: anna, ben" in err
    _, out, err = run(
        capsys, "coord", "announce", "file:src/*", "--intent", "testing", "--agent", "cleo", "--json", *root
    )
    found = json.loads(out)
    assert (found["risk"], found["suggestion"], found["order"]) == ("critical", "sequence", ["cleo", "anna", "ben"])
    assert {(item["agent"], item["overlap"]) for item in found["overlaps"]} == {("anna", "inside"), ("ben", "inside")}
    assert err == ""
    assert json.loads(run(capsys, "coord", "announce", "port:1", "--json", *root)[1])["risk"] == "none"


def test_two_spellings_of_a_name_are_one_file(project, capsys):
    anna, ben = Coordination(project, "anna"), Coordination(project, "ben")

    anna.acquire("file:caf\u00e9")

    with pytest.raises(HarnessError, match="anna"):
        ben.acquire("file:cafe\u0301")
    root = ("--project", project.root)
    assert run(capsys, "coord", "release", "file:cafe\u0301", "--agent", "anna", *root)[:2] == (0, "released\n")


def test_a_file_in_a_worktree_has_one_name(project):
    tree = Project.find(Worktrees(project).create("x").path)
    Coordination(project, "anna").acquire("file:src/a")

    with pytest.raises(HarnessError, match="anna"):
        Coordination(tree, "ben").acquire(f"file:{tree.worktree}/src/a")


def test_a_file_that_has_changed_in_the_main_working_tree_is_not_edited_without_a_remote(project):
    tree = Worktrees(project).create("x").path
    (project.root / "a").write_text("new")
    for command in ("add a", "-c user.name=a -c user.email=a@b commit -qm New"):
        subprocess.run(["git", "-C", project.root, *command.split()], check=True)

    decision = Gate.load(Project.find(tree)).check({"kind": "edit", "path": "a"})

    assert decision.rules[0].id == "coordination.drift"
    assert "main" in decision.reason


def test_a_replay_asks_rules_in_python_again(project):
    gate = Gate.load(project)
    for command in ("make release", "make test"):
        gate.check({"kind": "shell", "command": command})

    @gate.rule("user.no-release", remedy="wait")
    def no_release(action):
        return "nobody watches" if "release" in action["command"] else None

    @gate.rule("user.content", remedy="write it")
    def content(action):
        return "empty" if not action["content"] else None

    found = gate.replay()

    assert [(change.subject, change.after, change.rules) for change in found.changes] == [
        ("make release", "deny", ["user.no-release"])
    ]
    assert (found.count, found.not_asked) == (2, ["user.content"])
    assert gate.replay(gate.audit(1)).changes == []


def test_a_replay_names_rules_that_it_does_not_have(project, capsys):
    gate = Gate.load(project)
    gate.rule("user.never", remedy="stop")(lambda _action: "no")
    gate.check({"kind": "edit", "path": "/tmp/a", "cwd": "/tmp"})

    assert gate.replay().changes == []
    assert gate.replay().not_asked == []
    assert Gate.load(project).replay().not_asked == ["user.never"]
    status, out, _ = run(capsys, "policy", "replay", "--project", project.root)
    assert status == 1
    assert "not asked again: user.never\n1 decided again, 1 changed, 0 left out\n" in out


def test_decisions_of_hooks_of_git_are_not_decided_again(project):
    project._core.check_commit("pre-push", str(project.root))

    found = Gate.load(project).replay()

    assert (found.count, found.skipped, found.changes) == (0, 1, [])

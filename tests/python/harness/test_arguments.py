"""Arguments of the wrong type: a gate must not allow what it has not read."""

import copy
import pickle
from pathlib import Path

import pytest

from turntree import agent
from turntree.harness import Coordination, Gate, HarnessError, Project, Worktrees, guard
from turntree.models import openai


@pytest.fixture
def project(empty_repository):
    return Project.find(empty_repository)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ({"kind": "shell", "command": b"git push --force"}, "action.command: expected a text, got bytes"),
        ({"kind": "edit", "path": "a", "content": bytearray(b"x")}, "action.content: expected a text, got bytes"),
        ({"kind": "edit", "path": "a", "content": 3}, "action.content: expected a text, got 3"),
        ({"kind": "edit", "path": 3, "paths": ["a"]}, "action.path: expected a text, got 3"),
        ({"kind": "edit", "path": "a", "paths": ["b", 3]}, r"action.paths: expected a list of texts, got \["),
        ({"kind": "edit", "path": "a", "paths": "/etc/passwd"}, 'action.paths: expected a list of texts, got "/etc'),
        ({"kind": "shell", "command": "ls", "cwd": 3}, "action.cwd: expected a text, got 3"),
        ({"kind": "shell", "command": "ls", "agent": ["a"]}, "action.agent: expected a text"),
    ],
)
def test_a_value_that_cannot_be_read_is_not_allowed(project, action, message):
    gate = Gate.load(project)

    with pytest.raises(HarnessError, match=message):
        gate.check(action)

    assert gate.audit() == []


def test_what_is_none_is_missing_and_paths_can_be_path_objects(project):
    gate = Gate.load(project)

    assert gate.check({"kind": "shell", "command": "ls", "cwd": None, "agent": None}).outcome == "allow"
    assert gate.check({"kind": "edit", "path": Path("/etc/passwd"), "content": None}).outcome == "deny"


@pytest.mark.parametrize("action", ["ls", None, ["ls"], 3])
def test_an_action_that_is_no_dict_says_how_one_looks(project, action):
    with pytest.raises(TypeError, match='action must be an Action or a dict such as {"kind": "shell"'):
        Gate.load(project).check(action)


@pytest.mark.parametrize(
    ("make", "instead"),
    [
        (Gate.load, r"Gate.load\(Project.find\(path\)\)"),
        (Coordination, r"Coordination\(Project.find\(path\)\)"),
        (Worktrees, r"Worktrees\(Project.find\(path\)\)"),
        (guard, r"guard\(Project.find\(path\)\), or guard\(gate\)"),
    ],
)
def test_a_folder_in_the_place_of_a_project_says_what_to_write(project, make, instead):
    for folder in (project.root, str(project.root)):
        with pytest.raises(TypeError, match=f"project must be a Project, not .*; write {instead}"):
            make(folder)


def test_the_options_of_a_guard_are_checked_when_it_is_made(project):
    with pytest.raises(TypeError, match="action must be a function"):
        guard(project, action="shell")
    with pytest.raises(ValueError, match="ttl must be a positive number of seconds, not 0"):
        guard(project, ttl=0)


def office_hours(action):
    return "nobody watches" if "release" in action.get("command", "") else None


def test_projects_gates_and_guarded_agents_can_be_pickled(project):
    gate = Gate.load(project)
    gate.rule("user.office-hours", remedy="wait")(office_hours)
    helper = agent(model=openai("gpt-5", api_key="k"), middleware=[guard(gate)], name="helper")

    assert pickle.loads(pickle.dumps(project)) == copy.deepcopy(project) == project
    assert pickle.loads(pickle.dumps(gate)).check({"kind": "shell", "command": "make release"}).outcome == "deny"
    assert pickle.loads(pickle.dumps(Worktrees(project))).all()[0].path == project.root
    assert pickle.loads(pickle.dumps(helper)).name == "helper"
    with pytest.raises(TypeError, match=r"write Coordination\(project, 'anna'\) in the other process"):
        pickle.dumps(Coordination(project, "anna"))


@pytest.mark.parametrize("name", ["--help", "-q", ""])
def test_a_branch_is_no_option_of_git(project, name):
    trees = Worktrees(project)

    for call in (lambda: trees.create("a", base=name), lambda: trees.forecast(name, "main"),
                 lambda: trees.forecast("main", name)):  # fmt: skip
        with pytest.raises(HarnessError, match="expected the name of a branch or a commit"):
            call()
    assert trees.create("a").name == "001-a"

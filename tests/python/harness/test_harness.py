"""`turntree.harness`: the gate, the guard, hooks, coordination and the commands."""

import io
import json
import pickle
import subprocess
import sys

import pytest

from turntree import ApprovalRequired, agent, session
from turntree._cli import main
from turntree.harness import (
    ClaimConflict,
    Coordination,
    Gate,
    HarnessError,
    IntegrityViolation,
    PolicyViolation,
    Project,
    StoreBusy,
    Worktrees,
    guard,
    hooks,
)
from turntree.upp import scripted


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "main"
    folder.mkdir()
    for command in ("init -q -b main", "-c user.name=a -c user.email=a@b commit -q --allow-empty -m Start"):
        subprocess.run(["git", "-C", folder, *command.split()], check=True)
    return folder


def test_the_gate_decides_with_a_reason_and_a_remedy(repository):
    gate = Gate.load(Project.find(repository))

    decision = gate.check({"kind": "shell", "command": "sh -c 'git push -f origin x'"})

    assert decision.outcome == "deny"
    assert decision.rules[0].id == "git.force-push"
    assert decision.reason
    assert decision.remedy
    assert gate.check({"kind": "shell", "command": "git status"}).outcome == "allow"
    assert gate.verify_audit() == 2


def test_a_linked_worktree_belongs_to_the_project_of_the_main_one(repository):
    tree = Worktrees(Project.find(repository)).create("parser")

    project = Project.find(tree.path)

    assert project.root == repository.resolve()
    assert project.is_linked
    assert project.branch == "feature/001-parser"


def test_enforce_raises_the_rules_and_the_remedy(repository):
    with pytest.raises(PolicyViolation) as caught:
        Gate.load(Project.find(repository)).enforce({"kind": "shell", "command": "terraform destroy"})

    error = pickle.loads(pickle.dumps(caught.value))
    assert error.rules == ["systems.infrastructure"]
    assert error.remedy


@pytest.mark.parametrize(
    ("action", "words"), [({}, "kind"), ({"kind": "dance"}, "dance"), ({"kind": "shell"}, "command")]
)
def test_a_wrong_action_names_the_key(repository, action, words):
    with pytest.raises(HarnessError, match=words):
        Gate.load(Project.find(repository)).check(action)


async def test_a_guarded_tool_tells_the_model_why_a_call_is_denied(repository):
    ran = []

    def shell(command: str) -> str:
        """Run a command."""
        ran.append(command)
        return "ok"

    model = scripted(
        [
            {"toolName": "shell", "arguments": {"command": "rm -rf /"}},
            {"toolName": "shell", "arguments": {"command": "ls"}},
            "Done.",
        ]
    )
    guarded = agent(model=model, tools=[shell], middleware=[guard(Project.find(repository))])
    turn = await guarded.run("Clean up")

    assert ran == ["ls"]
    assert "files.remove" in str(turn.tool_executions[0].result)


async def test_a_guarded_tool_waits_for_a_person(repository):
    async def shell(command: str) -> str:
        """Run a command."""
        return command

    model = scripted([{"toolName": "shell", "arguments": {"command": "npm publish"}}, "Done."])
    talk = session(agent(model=model, tools=[shell], middleware=[guard(Project.find(repository))]))
    with pytest.raises(ApprovalRequired):
        await talk.run("Publish")

    talk.approve_all()
    turn = await talk.resume()

    assert turn.response.text == "Done."


def test_a_claim_keeps_others_out(repository):
    project = Project.find(repository)
    one, two = Coordination(project, "one"), Coordination(project, "two")

    with one.claim("port:8080", ttl=60) as lease:
        assert lease.is_valid()
        assert lease.renew(60)
        with pytest.raises(ClaimConflict) as caught:
            two.acquire("port:8080")
    assert caught.value.holder == "one"
    assert not lease.release()

    assert two.acquire("port:8080").token > lease.token


def test_messages_board_and_slots(repository):
    project = Project.find(repository)
    one, two = Coordination(project, "one"), Coordination(project, "two")
    one.send("hello")
    one.post("do not touch x", kind="flag")

    assert [message["text"] for message in two.inbox()] == ["hello"]
    assert two.inbox() == []
    assert two.board[0]["text"] == "do not touch x"
    with one.model_slot("gpu", limit=1), pytest.raises(HarnessError, match="gpu"), two.model_slot("gpu", timeout=0):
        pass


def test_a_hook_blocks_and_bad_events_block(repository):
    event = {"hook_event_name": "PreToolUse", "cwd": str(repository), "tool_name": "Bash"}

    assert hooks.handle({**event, "tool_input": {"command": "reboot"}}).exit == 2
    assert hooks.handle(json.dumps({**event, "tool_input": {"command": "ls"}})).exit == 0
    assert hooks.handle(b"\xff\x00").exit == 2


def test_the_errors_are_harness_errors():
    for error in (PolicyViolation, ClaimConflict, StoreBusy, IntegrityViolation):
        assert issubclass(error, HarnessError)


def test_the_commands(repository, capsys, monkeypatch):
    def run(*words):
        status = main([*words])
        return status, capsys.readouterr().out

    place = ["--project", str(repository)]
    assert run("policy", "check", "git push -f", *place)[0] == 1
    assert "files.scope" in run("policy", "list", *place)[1]
    assert "git.force-push" in run("policy", "audit", *place)[1]
    assert "1 decisions" in run("policy", "audit", "--verify", *place)[1]
    assert run("policy", "override", "git.force-push", "--reason", "x", *place)[0] == 2
    assert json.loads(run("coord", "claim", "port:1", "--agent", "a", *place)[1])["token"] == 1
    assert "claim port:1 exclusive a" in run("coord", "status", *place)[1]
    path = run("worktree", "create", "x", *place)[1].strip()
    assert path.endswith(".worktrees/001-x")
    assert "001-x" in run("worktree", "list", *place)[1]
    assert run("worktree", "remove", "001-x", *place)[0] == 0
    event = {
        "hook_event_name": "PreToolUse",
        "cwd": str(repository),
        "tool_name": "Bash",
        "tool_input": {"command": "reboot"},
    }
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(event).encode())))
    assert run("hook", "--harness", "claude")[0] == 2

"""The commands for policies, configuration, git hooks and forecasts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from turntree._cli import main
from turntree.harness import Coordination, Gate, HarnessError, Project, Worktrees

RULE = """
[[rule]]
id = "user.no-production"
reason = "production is changed by the pipeline"
remedy = "open a merge request"
[rule.when]
programs = ["kubectl"]
arguments = ["--context=prod*"]
[rule.examples]
deny = ["kubectl --context=prod-eu get pods"]
allow = ["kubectl --context=test get pods", '{"kind": "edit", "path": "a.rs"}']
"""


@pytest.fixture
def repository(empty_repository):
    (empty_repository / "policies/team.policy.toml").write_text(RULE)
    return empty_repository


def test_the_examples_of_a_rule_are_run(repository, run):
    assert run("policy", "test") == (0, "1 rules, 3 examples, 0 wrong\n")
    assert json.loads(run("policy", "test", "--json")[1]) == {"id": "user.no-production", "count": 3, "wrong": []}

    file = repository / "policies/team.policy.toml"
    file.write_text(RULE.replace('deny = ["kubectl --context=prod-eu', 'deny = ["kubectl --context=dev'))
    status, out = run("policy", "test")

    assert status == 1
    assert "user.no-production: kubectl --context=dev get pods: allow, not deny" in out


def test_a_replay_shows_what_another_folder_of_policies_would_change(repository, run, tmp_path):
    gate = Gate.load(Project.find(repository))
    gate.check({"kind": "shell", "command": "kubectl --context=dev get pods"})
    gate.check({"kind": "shell", "command": "ls"})
    (tmp_path / "new").mkdir()
    (tmp_path / "new/a.policy.toml").write_text(RULE.replace("prod*", "*"))
    recorded = tmp_path / "audit.jsonl"
    recorded.write_text(run("policy", "audit", "--json")[1])

    assert run("policy", "replay") == (0, "2 decided again, 0 changed, 0 left out\n")
    status, out = run("policy", "replay", "--from", str(recorded), "--policies", str(tmp_path / "new"))

    assert status == 1
    assert "allow -> deny kubectl --context=dev get pods user.no-production" in out
    assert gate.verify_audit() == 2


def test_a_key_is_explained_and_the_schema_printed(repository, run):
    (repository / "turntree.toml").write_text("[coordination]\nstale_after = 60\n")

    status, out = run("config", "explain", "coordination.stale")
    assert status == 0
    assert out.startswith("coordination.stale_after = 60 (")
    assert "turntree.toml, default 120)" in out
    assert main(["config", "explain", "nothing", "--project", str(repository)]) == 1
    schema = json.loads(run("config", "schema")[1])
    assert schema["properties"].keys() == {"policy", "coordination"}
    assert schema == json.loads((Path(__file__).parents[3] / "docs/schema/turntree.toml.schema.json").read_text())


def test_the_hook_of_git_stops_a_commit_with_a_secret(repository, run):
    assert run("harness", "install", "git")[0] == 0
    (repository / "notes.txt").write_text("key = AKIAQ3EGRIVKX7ZP5T2M\n")
    subprocess.run(["git", "-C", repository, "add", "notes.txt"], check=True)
    command = ["git", "-C", repository, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-m", "Notes"]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "secrets.literal" in done.stderr
    assert run("harness", "uninstall", "git") == (0, "removed\n")
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("words", [["-a"], ["--only", "notes.txt"]])
def test_the_hook_of_git_sees_what_a_commit_takes_that_is_not_staged(repository, run, words):
    (repository / "notes.txt").write_text("fine\n")
    subprocess.run(["git", "-C", repository, "add", "."], check=True)
    commit = ["git", "-C", repository, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "Notes"]
    subprocess.run(commit, check=True)
    assert run("harness", "install", "git")[0] == 0
    (repository / "notes.txt").write_text("key = AKIAQ3EGRIVKX7ZP5T2M\n")

    done = subprocess.run([*commit, *words], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "secrets.literal" in done.stderr


def test_a_hook_of_somebody_else_stays(repository):
    hook = repository / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n")

    assert main(["harness", "install", "git", "--project", str(repository)]) == 1

    assert hook.read_text() == "#!/bin/sh\n"


def test_a_policy_file_that_is_not_valid_is_an_error_that_names_it(repository):
    (repository / "policies/b.policy.toml").write_text("[[rule]]\nid = 1\n")

    with pytest.raises(HarnessError, match=r"b\.policy\.toml"):
        Project.find(repository)


def test_the_claim_of_a_process_that_was_killed_is_free_at_once(repository):
    code = (
        "import sys, time; from turntree.harness import Coordination, Project;"
        f"c = Coordination(Project.find({str(repository)!r}), 'victim'); c.acquire('port:1', ttl=600);"
        "print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=os.environ) as victim:
        assert victim.stdout.readline() == "held\n"
        other = Coordination(Project.find(repository), "other")
        with pytest.raises(HarnessError, match="victim"):
            other.acquire("port:1")
        victim.kill()
        victim.wait()

    assert other.acquire("port:1").token == 2


def test_a_forecast_of_all_worktrees(repository, run):
    trees = [Worktrees(Project.find(repository)).create(name) for name in ("x", "y")]
    for tree in trees:
        (tree.path / "a.txt").write_text(tree.name)
        subprocess.run(["git", "-C", tree.path, "add", "."], check=True)
        commit = ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "Change"]
        subprocess.run(["git", "-C", tree.path, *commit], check=True)

    status, out = run("coord", "forecast")

    assert status == 1
    assert "feature/001-x and feature/002-y: a.txt" in out
    assert "merge in this order: feature/001-x, feature/002-y" in out

"""Commands and interfaces that a reader of the documentation expects."""

import asyncio
import io
import json
import subprocess
import sys

import pytest

from turntree._cli import main
from turntree.harness import Action, Coordination, Gate, HarnessError, Project, Worktrees


@pytest.fixture
def project(empty_repository):
    return Project.find(empty_repository)


def run(capsys, *arguments):
    status = main([str(argument) for argument in arguments])
    return status, capsys.readouterr().out


def test_an_action_is_decided_as_the_dict_with_its_keys(project):
    gate = Gate.load(project)

    assert gate.check(Action(kind="shell", command="git push --force")).outcome == "deny"
    assert gate.check(Action(kind="shell", command="git status")).outcome == "allow"


def test_projects_of_the_same_folder_are_equal(project):
    again = Project.find(project.worktree)

    assert again == project
    assert hash(again) == hash(project)


def test_a_claim_and_a_slot_are_held_in_asynchronous_blocks(project):
    anna, ben = Coordination(project, "anna"), Coordination(project, "ben")

    async def work():
        async with anna.claim("file:a") as lease, anna.model_slot("gpu", limit=1):
            with pytest.raises(HarnessError, match="no slot"):
                async with ben.model_slot("gpu", limit=1, timeout=0):
                    pass
            assert lease.is_valid()
        async with ben.model_slot("gpu", limit=1, timeout=0):
            return lease.is_valid()

    assert asyncio.run(work()) is False


def test_a_status_code_of_429_halves_the_limit_of_a_model(project):
    anna = Coordination(project, "anna")

    class TooManyRequests(Exception):
        status_code = 429

    with pytest.raises(TooManyRequests), anna.model_slot("gpu", limit=2):
        raise TooManyRequests

    with anna.model_slot("gpu", limit=2), pytest.raises(HarnessError), anna.model_slot("gpu", limit=2, timeout=0):
        pass


def test_ensure_returns_the_same_working_tree(project):
    trees = Worktrees(project)

    tree = trees.ensure("fix")

    assert trees.ensure("fix") == tree
    assert trees.ensure(tree.name) == tree


def test_claims_are_released_and_work_is_announced_by_commands(project, capsys):
    root = ("--project", project.root)

    assert run(capsys, "coord", "claim", "file:./a", "--agent", "anna", *root)[0] == 0
    assert run(capsys, "coord", "release", "file:a", "--agent", "ben", *root)[0] == 1
    assert run(capsys, "coord", "release", "file:./a", "--agent", "anna", *root) == (0, "released\n")
    assert run(capsys, "coord", "announce", "file:a", "--agent", "anna", *root) == (0, "")
    assert run(capsys, "coord", "announce", "file:a", "--agent", "ben", *root) == (0, "anna editing file:a\n")
    run(capsys, "coord", "post", "frozen", "--agent", "anna", *root)
    assert run(capsys, "coord", "board", *root) == (0, "note anna: frozen\n")


def test_every_command_prints_its_result_as_json(project, capsys):
    root = ("--project", project.root, "--json")

    def result(*arguments, status=0):
        found, text = run(capsys, *arguments, *root)
        assert found == status
        return json.loads(text)

    assert result("coord", "claim", "file:a", "--agent", "anna")["resource"] == "file:a"
    released = {"agent": "anna", "resource": "file:a"}
    assert result("coord", "release", "file:a", "--agent", "anna") == {**released, "released": 1}
    assert result("coord", "release", "file:a", "--agent", "anna", status=1) == {**released, "released": 0}
    assert list(result("coord", "send", "Hello.", "--agent", "anna")) == ["id"]
    assert list(result("coord", "post", "frozen", "--agent", "anna")) == ["id"]
    assert result("coord", "forecast") == {"conflicts": [], "order": []}
    created = result("worktree", "create", "fix")
    assert list(created) == ["name", "branch", "path"]
    assert result("worktree", "ensure", "fix") == created
    assert result("worktree", "remove", created["name"]) == {"name": created["name"], "removed": True}
    installed = result("harness", "install", "claude")
    assert (installed["harness"], list(installed)) == ("claude", ["harness", "file", "note"])
    assert result("harness", "uninstall", "claude") == {"harness": "claude", "removed": True}
    assert result("harness", "uninstall", "claude", status=1) == {"harness": "claude", "removed": False}
    assert result("policy", "replay") == {"count": 0, "skipped": 0, "changes": [], "not_asked": []}
    assert "properties" in result("config", "schema")
    assert "entity" in result("config", "schema", "--cedar")["cedar"]


def test_check_prints_rules_reason_and_remedy_as_json(project, capsys):
    status, text = run(capsys, "policy", "check", "git push --force", "--json", "--project", project.root)

    found = json.loads(text)
    assert status == 1
    assert found["rules"][0]["id"] == "git.force-push"
    assert (found["reason"], found["remedy"]) == (found["rules"][0]["reason"], found["rules"][0]["remedy"])


@pytest.mark.parametrize(
    ("harness", "event", "values"),
    [
        ("claude", "pre-tool", {"tool_name": "Bash", "tool_input": {"command": "git push -f"}}),
        ("claude", "PreToolUse", {"tool_name": "Bash", "tool_input": {"command": "git push -f"}}),
        ("generic", "pre-tool", {"tool": "bash", "input": {"command": "git push -f"}}),
        ("opencode", "pre_tool", {"tool": "bash", "args": {"command": "git push -f"}}),
    ],
)
def test_an_event_without_a_name_has_that_of_the_command(project, capsys, monkeypatch, harness, event, values):
    data = json.dumps({"cwd": str(project.root), "directory": str(project.root), **values}).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    status = main(["hook", event, "--harness", harness])

    reply = capsys.readouterr()
    assert status == 2
    assert "git.force-push" in reply.out + reply.err


def test_a_link_to_settings_stays_a_link(project, capsys, tmp_path):
    settings, link = tmp_path / "mine.json", project.root / ".claude" / "settings.json"
    settings.write_text('{"model": "x"}')
    link.parent.mkdir()
    link.symlink_to(settings)

    run(capsys, "harness", "install", "claude", "--project", project.root)

    assert link.is_symlink()
    assert "turntree" in settings.read_text()
    run(capsys, "harness", "uninstall", "claude", "--project", project.root)
    assert link.is_symlink()
    assert settings.read_text() == '{"model": "x"}'


def test_nothing_stays_of_hooks_whose_file_was_only_formatted_again(project, capsys):
    settings = project.root / ".claude" / "settings.json"
    run(capsys, "harness", "install", "claude", "--project", project.root)
    settings.write_text(json.dumps(json.loads(settings.read_text())))

    run(capsys, "harness", "uninstall", "claude", "--project", project.root)

    assert not settings.parent.exists()


def test_a_working_tree_is_removed_by_its_short_name(project):
    trees = Worktrees(project)
    trees.create("fix")

    trees.remove("fix")

    assert len(trees.all()) == 1


@pytest.mark.parametrize("text", [None, "{"])
def test_a_replay_of_a_file_that_cannot_be_read_is_wrong_use(project, capsys, tmp_path, text):
    file = tmp_path / "decisions.jsonl"
    if text is not None:
        file.write_text(text)

    assert main(["policy", "replay", "--from", str(file), "--project", str(project.root)]) == 2
    assert str(file) in capsys.readouterr().err


def test_status_says_how_far_a_harness_can_be_guarded(project, capsys):
    _, text = run(capsys, "harness", "status", "--json", "--project", project.root)

    assert {json.loads(line)["tier"] for line in text.splitlines()} == {"gateable"}


def test_cursor_has_the_hook_before_a_summary(project, capsys):
    run(capsys, "harness", "install", "cursor", "--project", project.root)

    assert "preCompact" in json.loads((project.root / ".cursor" / "hooks.json").read_text())["hooks"]


@pytest.mark.parametrize("command", [["policy", "audit"], ["policy", "replay"]])
@pytest.mark.parametrize("limit", ["-1", "0", "many"])
def test_a_number_of_decisions_that_is_not_positive_is_wrong_use(project, capsys, command, limit):
    with pytest.raises(SystemExit) as ended:
        main([*command, f"--limit={limit}", "--project", str(project.root)])

    assert ended.value.code == 2
    assert f"must be a number from 1, not '{limit}'" in capsys.readouterr().err


def test_the_configuration_is_explained_as_json(project, capsys):
    _, text = run(capsys, "config", "explain", "policy.behind", "--json", "--project", project.root)

    keys = [json.loads(line) for line in text.splitlines()]
    assert [key["key"] for key in keys] == ["policy.behind_warn", "policy.behind_deny"]
    assert keys[0].keys() == {"key", "value", "default", "origin", "description"}


def test_status_shows_the_hooks_of_git(project, capsys, monkeypatch, tmp_path):
    other = tmp_path / "other"
    subprocess.run(["git", "init", "-q", str(other)], check=True)
    # Variables of git do not lead to another repository.
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))

    def installed():
        _, text = run(capsys, "harness", "status", "--json", "--project", project.root)
        return {row["harness"]: row["installed"] for row in map(json.loads, text.splitlines())}["git"]

    assert not installed()
    run(capsys, "harness", "install", "git", "--project", project.root)
    assert installed()
    assert (project.root / ".git" / "hooks" / "pre-push").exists()
    run(capsys, "harness", "uninstall", "git", "--project", project.root)
    assert not installed()


def test_a_coordination_ends_its_agent_at_the_end_of_a_block(project):
    with Coordination(project, "anna") as anna:
        lease = anna.acquire("file:a")
        assert lease.is_valid()

    assert not lease.is_valid()
    assert Coordination(project, "ben").acquire("file:a").token > lease.token


@pytest.mark.parametrize(("option", "argument"), [("--config", "config"), ("--policies", "policies")])
def test_a_replay_with_what_does_not_exist_is_wrong_use(project, capsys, tmp_path, option, argument):
    missing = tmp_path / "missing"

    assert main(["policy", "replay", option, str(missing), "--project", str(project.root)]) == 2
    assert f"{missing}: there is no such f" in capsys.readouterr().err
    with pytest.raises(HarnessError, match=f"{argument}: there is no f.* {missing}; check the path"):
        Gate.load(project).replay(**{argument: missing})

"""A configuration that is not valid, and events that cannot be read."""

import io
import json
import sys

import pytest

from turntree._cli import main
from turntree.harness import HarnessError, Project, hooks


@pytest.fixture
def repository(empty_repository):
    return empty_repository


@pytest.mark.parametrize(
    "text",
    ["[policy\n", '[policy]\nscratch = "/tmp"\n', "[policy]\nbehind = 1\n", '[policy.levels]\n"git.x" = "off"\n'],
)
def test_a_configuration_that_is_not_valid_is_heard_everywhere(repository, capsys, text):
    assert main(["harness", "install", "claude", "--project", str(repository)]) == 0
    (repository / "turntree.toml").write_text(text)
    call = {"session_id": "s", "cwd": str(repository), "tool_name": "Bash", "tool_input": {"command": "ls"}}
    capsys.readouterr()

    asked = hooks.handle({"hook_event_name": "PreToolUse", **call})
    assert json.loads(asked.stdout)["hookSpecificOutput"]["permissionDecision"] == "ask"
    assert "harness.configuration" in asked.stdout
    assert hooks.handle({"hook_event_name": "PreToolUse", **call}, harness="codex").exit == 2
    start = hooks.handle({"hook_event_name": "SessionStart", "session_id": "s", "cwd": str(repository)})
    assert "turntree.toml is not valid" in start.stdout
    assert hooks.handle({"hook_event_name": "PostToolUse", **call}) == (0, "", "")
    for command in (
        ["harness", "doctor"],
        ["config", "explain"],
        ["policy", "check", "ls"],
        ["policy", "git-hook", "pre-push"],
    ):
        assert main([*command, "--project", str(repository)]) == 1
        assert "turntree.toml" in capsys.readouterr().err
    with pytest.raises(HarnessError, match=r"turntree\.toml"):
        Project.find(repository)
    (repository / "turntree.toml").unlink()
    assert hooks.handle({"hook_event_name": "PreToolUse", **call}) == (0, "", "")


@pytest.mark.parametrize("body", [b"{}" * 6_000_000, b"\xff", b"[" * 100_000, b'"'])
def test_events_that_cannot_be_read_end_by_their_kind(body):
    def event(name):
        return b'{"hook_event_name": "%s", "tool_response": %s' % (name, body)

    assert hooks.handle(event(b"PostToolUse")) == (0, "", "")
    assert hooks.handle(event(b"PreToolUse")).exit == 2
    assert hooks.handle(body).exit == 2
    assert hooks.handle(body, event="post-tool") == (0, "", "")
    assert hooks.handle(body, event="pre-tool").exit == 2


def test_the_command_reads_all_of_an_event_that_is_too_large(repository, capsys, monkeypatch):
    for name, expected in (("PostToolUse", 0), ("PreToolUse", 2)):
        data = io.BytesIO(b'{"hook_event_name": "%s", "x": "%s"}' % (name.encode(), b"x" * 30_000_000))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(data))

        assert main(["hook"]) == expected
        assert data.tell() == len(data.getvalue())
        assert ("10 MiB" in capsys.readouterr().err) == bool(expected)


@pytest.mark.parametrize("harness", ["claude", "codex", "cursor", "opencode", "factory", "generic"])
def test_a_name_that_is_no_event_is_refused(repository, harness):
    reply = hooks.handle({"cwd": str(repository), "tool": "bash"}, harness=harness, event="before-tool")

    assert reply.exit == 2
    text = reply.stdout + reply.stderr
    assert "before-tool" in text
    assert "pre-tool" in text


def test_a_name_that_contradicts_the_event_blocks_a_tool_call(repository):
    call = {"cwd": str(repository), "tool_name": "Bash", "tool_input": {"command": "ls"}}

    for event, name, status in (
        ("post-tool", "PreToolUse", 2),
        ("pre-tool", "PostToolUse", 2),
        ("stop", "PostToolUse", 0),
        ("pre_tool", "PermissionRequest", 0),
    ):
        assert hooks.handle({"hook_event_name": name, **call}, event=event).exit == status

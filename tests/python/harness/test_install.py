"""Hooks in the configuration of harnesses: installed, checked, removed."""

import json

import pytest

from turntree._cli import main
from turntree.harness import HarnessError, Project
from turntree.harness._install import TARGETS, install, is_installed, uninstall

OTHERS = '{\n    "model": "x",  \n    "hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "mine"}]}]}}'


@pytest.fixture
def project(tmp_path):
    return Project.find(tmp_path)


@pytest.mark.parametrize("name", TARGETS)
def test_installing_twice_is_installing_once_and_uninstalling_restores(project, name):
    file = install(project, name)
    once = file.read_bytes()
    assert install(project, name).read_bytes() == once
    assert is_installed(project, name)

    assert uninstall(project, name)

    assert not file.exists()
    assert [path.name for path in project.root.iterdir()] == [".turntree"]
    assert not uninstall(project, name)


def test_what_others_configured_stays_and_comes_back_byte_for_byte(project):
    file = project.root / ".claude/settings.json"
    file.parent.mkdir()
    file.write_text(OTHERS)

    settings = json.loads(install(project, "claude").read_text())
    own = settings["hooks"]["PreToolUse"]
    assert settings["model"] == "x"
    assert own[0]["hooks"][0]["command"] == "mine"
    assert own[1]["hooks"][0]["onFailure"] == "block"
    uninstall(project, "claude")

    assert file.read_text() == OTHERS


def test_a_file_that_was_changed_since_loses_only_our_entries(project):
    file = install(project, "claude")
    settings = json.loads(file.read_text())
    settings["model"] = "y"
    file.write_text(json.dumps(settings))

    assert uninstall(project, "claude")

    assert json.loads(file.read_text()) == {"hooks": {}, "model": "y"}


def test_hooks_of_others_stay_whatever_their_path_and_in_a_group_of_ours(project):
    other = {"type": "command", "command": "/home/anna/turntree/lint.sh"}
    file = project.root / ".claude/settings.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [other]}]}}))
    assert not is_installed(project, "claude")

    settings = json.loads(install(project, "claude").read_text())
    assert settings["hooks"]["PreToolUse"][0] == {"matcher": "Bash", "hooks": [other]}
    settings["hooks"]["PreToolUse"][1]["hooks"].append({"type": "command", "command": "mine"})
    file.write_text(json.dumps(settings))
    assert uninstall(project, "claude")

    groups = json.loads(file.read_text())["hooks"]["PreToolUse"]
    assert groups == [{"matcher": "Bash", "hooks": [other]}, {"hooks": [{"type": "command", "command": "mine"}]}]


def test_a_file_that_is_not_json_is_not_touched(project):
    file = project.root / ".cursor/hooks.json"
    file.parent.mkdir()
    file.write_text("{")

    with pytest.raises(HarnessError, match="not valid JSON"):
        install(project, "cursor")

    assert file.read_text() == "{"


def test_the_doctor_sends_events_through_the_installed_command(project, capsys):
    place = ["--project", str(project.root)]
    assert main(["harness", "doctor", *place]) == 1
    assert main(["harness", "install", "claude", *place]) == 0
    capsys.readouterr()

    assert main(["harness", "doctor", "claude", *place]) == 0
    assert "blocks and passes" in capsys.readouterr().out

    file = project.root / ".claude/settings.json"
    file.write_text(file.read_text().replace(" --harness claude", " --harness claude; exit 0"))
    assert main(["harness", "doctor", "claude", *place]) == 1
    assert "must be denied" in capsys.readouterr().out

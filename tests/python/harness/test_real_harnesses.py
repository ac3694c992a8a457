"""The true programs of Claude Code, Codex and OpenCode with our hooks, against a scripted model on loopback.

`make test-harnesses` installs them and sets TURNTREE_HARNESSES to the folder that has their ``node_modules``. Each has
a HOME of its own and a key that is not one; no request leaves this machine.
"""

import json
import os
import shlex
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from turntree.harness import Gate, Project, Worktrees
from turntree.harness._install import install, target_of
from turntree.testing import ToolCall, serve

PACKAGES = Path(os.environ.get("TURNTREE_HARNESSES", "/nonexistent")) / "node_modules/.bin"
NAMES = ("claude", "codex", "opencode")
pytestmark = [
    pytest.mark.skipif(
        "TURNTREE_HARNESSES" not in os.environ, reason="needs the real harnesses, about 1 GB: make test-harnesses"
    ),
    pytest.mark.timeout(300),
]


class Place(NamedTuple):
    main: Path
    tree: Path
    home: Path


class Outcome(NamedTuple):
    name: str
    place: Place
    results: str
    bodies: list[str]
    output: str


def prepare(folder, name):
    main, home = folder / "main", folder / "home"
    main.mkdir()
    home.mkdir()
    for command in ("init -q -b main", "-c user.name=a -c user.email=a@b commit -q --allow-empty -m Start"):
        subprocess.run(["git", "-C", main, *command.split()], check=True)
    place = Place(main.resolve(), Worktrees(Project.find(main)).create("x").path.resolve(), home)
    file = install(Project.find(main), name)
    # A linked worktree has the committed settings of the project.
    copy = place.tree / target_of(name).file
    copy.parent.mkdir(parents=True)
    copy.write_bytes(file.read_bytes())
    return place


def shell(name, command):
    if name == "codex":
        return ToolCall("exec_command", {"cmd": command})
    return ToolCall("Bash" if name == "claude" else "bash", {"command": command, "description": "Run it"})


def write(name, path):
    if name == "codex":
        patch = f"apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: {path}\n+hello\n*** End Patch\nEOF\n"
        return shell(name, patch)
    if name == "claude":
        return ToolCall("Write", {"file_path": str(path), "content": "hello"})
    return ToolCall("write", {"filePath": str(path), "content": "hello"})


def command_line(name, place, server):
    program = str(PACKAGES / name)
    if not Path(program).exists():
        pytest.skip(f"{program} is not installed")
    if name == "claude":
        options = ["--output-format", "json", "--permission-mode", "acceptEdits"]
        env = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-fake", "DISABLE_AUTOUPDATER": "1"}
        env |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1"}
        return [program, "-p", "Do it", *options, "--allowedTools", "Bash,Edit,Write,Read"], env
    if name == "codex":
        provider = {"name": "fake", "base_url": server.base_url, "wire_api": "responses", "env_key": "FAKE_KEY"}
        lines = ['model = "fake"', 'model_provider = "fake"', "[model_providers.fake]"]
        lines += [f"{key} = {json.dumps(value)}" for key, value in provider.items()]
        lines += [f"[projects.{json.dumps(str(place.tree))}]", 'trust_level = "trusted"']
        (place.home / ".codex").mkdir(exist_ok=True)
        (place.home / ".codex/config.toml").write_text("\n".join(lines))
        options = ["--json", "--sandbox", "danger-full-access", "--skip-git-repo-check"]
        return [program, "exec", *options, "--dangerously-bypass-hook-trust", "Do it"], {"FAKE_KEY": "x"}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "fake",
        "options": {"baseURL": server.base_url, "apiKey": "x"},
        "models": {"fake": {"name": "fake", "tool_call": True}},
    }
    models = {"model": "fake/fake", "small_model": "fake/fake", "provider": {"fake": provider}}
    permission = {"edit": "allow", "bash": "allow", "external_directory": "allow"}
    settings = {**models, "permission": permission, "autoupdate": False, "share": "disabled"}
    (place.home / ".config/opencode").mkdir(parents=True, exist_ok=True)
    (place.home / ".config/opencode/opencode.json").write_text(json.dumps(settings))
    return [program, "run", "--format", "json", "Do it"], {"OPENCODE_DISABLE_MODELS_FETCH": "1"}


def run(name, place, calls):
    """Run one session in which the model makes these calls, one after the other."""
    pending = list(calls)

    def script(request):
        # Harnesses also ask for titles, without tools.
        if not request.json.get("tools"):
            return "A title"
        return pending.pop(0) if pending else "Finished."

    with serve(script, strict=False) as server:
        command, env = command_line(name, place, server)
        base = {"HOME": str(place.home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        done = subprocess.run(
            command,
            cwd=place.tree,
            env=base | env,
            capture_output=True,
            text=True,
            timeout=280,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        bodies = [request.body.decode() for request in server.requests if (request.json or {}).get("tools")]
    assert bodies, f"{done.stdout}\n{done.stderr}"
    assert not pending, f"{done.stdout}\n{done.stderr}"
    return Outcome(name, place, bodies[-1], bodies, done.stdout + done.stderr)


@pytest.fixture(scope="module", params=NAMES)
def session(request, tmp_path_factory):
    name = request.param
    place = prepare(tmp_path_factory.mktemp(name), name)
    calls = [
        shell(name, "touch denied.txt; git push --force origin x"),
        shell(name, "echo hello > command.txt"),
        write(name, place.main / "denied.txt"),
        write(name, place.tree / "edit.txt"),
    ]
    return run(name, place, calls)


def test_a_denied_command_does_not_run_and_the_model_reads_why(session):
    assert not (session.place.tree / "denied.txt").exists()
    assert "git.force-push" in session.results
    assert "Instead:" in session.results


def test_an_allowed_command_runs(session):
    assert (session.place.tree / "command.txt").read_text() == "hello\n"


def test_an_edit_of_the_main_checkout_is_denied(session):
    assert not (session.place.main / "denied.txt").exists()
    assert "files.worktree" in session.results


def test_an_edit_in_the_worktree_is_made(session):
    assert (session.place.tree / "edit.txt").read_text().strip() == "hello"


def test_the_model_reads_the_context_of_the_session(session):
    assert "turntree-context" in session.bodies[0]
    assert "feature/001-x" in session.bodies[0]


def test_the_end_of_the_turn_with_uncommitted_files_is_stopped_once(session):
    reminders = [body for body in session.bodies if "uncommitted files" in body]
    state = sqlite3.connect(session.place.main / ".turntree/state.db")
    with closing(state):
        stops = state.execute("SELECT count(*) FROM event WHERE kind = 'once' AND subject LIKE 'stop:%'").fetchone()

    assert stops == (1,)
    # `opencode run` ends with the turn, before the plugin can start another one.
    assert len(reminders) == (0 if session.name == "opencode" else 1)


def test_every_call_is_in_the_audit(session):
    outcomes = [entry["outcome"] for entry in Gate.load(Project.find(session.place.main)).audit()]

    assert sorted(outcomes) == ["allow", "allow", "deny", "deny"]


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_program_blocks_all_calls(name, tmp_path):
    place = prepare(tmp_path, name)
    replace_program(place, name, "/nonexistent/turntree-hook")

    outcome = run(name, place, [shell(name, "touch ran.txt")])

    assert not (place.tree / "ran.txt").exists(), outcome.output


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_a_program_that_fails_blocks_all_calls(name, tmp_path):
    place = prepare(tmp_path, name)
    program = tmp_path / "turntree-hook"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    replace_program(place, name, str(program))

    outcome = run(name, place, [shell(name, "touch ran.txt")])

    assert not (place.tree / "ran.txt").exists(), outcome.output


def test_codex_skips_hooks_that_the_user_has_not_trusted(tmp_path, monkeypatch):
    place = prepare(tmp_path, "codex")
    original = command_line

    def without_trust(name, place, server):
        command, env = original(name, place, server)
        command.remove("--dangerously-bypass-hook-trust")
        return command, env

    monkeypatch.setitem(globals(), "command_line", without_trust)
    run("codex", place, [shell("codex", "git push --force; touch ran.txt")])

    # The note of the installer says so; when this changes, the note can go.
    assert (place.tree / "ran.txt").exists()


def replace_program(place, name, program):
    """Replace the program in the hooks. Codex reads those of the main checkout."""
    for folder in (place.main, place.tree):
        file = folder / target_of(name).file
        text = file.read_text()
        if name == "opencode":
            line = next(line for line in text.splitlines() if line.startswith("const command = "))
            command = json.loads(line.removeprefix("const command = "))
        else:
            command = json.loads(text)["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
        file.write_text(text.replace(shlex.split(command)[0], program))

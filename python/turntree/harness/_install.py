"""Installs hooks in the configuration of coding harnesses, removes them exactly, and checks them.

Files are edited structurally: what others configured stays, in its order. A manifest in the state folder has the
content of each file before, so that removing the hooks restores it byte for byte if nobody has changed the file since.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from turntree.harness._errors import HarnessError
from turntree.harness._project import Project

MARKER = "turntree"
_CLAUDE_EVENTS = ("SessionStart", "PreToolUse", "PostToolUse", "PreCompact", "Stop", "SessionEnd")
_CODEX_EVENTS = ("SessionStart", "PreToolUse", "PostToolUse", "PreCompact", "PostCompact", "Stop")
_CURSOR_EVENTS = (
    "sessionStart",
    "beforeShellExecution",
    "beforeMCPExecution",
    "beforeReadFile",
    "preToolUse",
    "afterFileEdit",
    "stop",
    "sessionEnd",
)

_PLUGIN = """// Written by turntree: `turntree harness uninstall opencode` removes it.
import {{ spawnSync }} from "node:child_process"

const command = {command}

function ask(event) {{
  const input = JSON.stringify(event)
  const run = spawnSync(command, {{ shell: true, input, encoding: "utf8", timeout: 10000 }})
  const failed = run.error || (run.status !== 0 && run.status !== 2)
  if (failed) return {{ decision: "deny", reason: "turntree could not run" }}
  try {{
    return JSON.parse(run.stdout || "{{}}")
  }} catch {{
    return {{ decision: "deny", reason: "turntree gave no reply" }}
  }}
}}

export const Turntree = async ({{ directory }}) => ({{
  "tool.execute.before": async (input, output) => {{
    const call = {{ sessionID: input.sessionID, tool: input.tool, args: output.args, directory }}
    const reply = ask({{ event: "tool.execute.before", ...call }})
    if (reply.decision === "deny") throw new Error(reply.reason)
  }},
  "tool.execute.after": async (input, output) => {{
    const call = {{ sessionID: input.sessionID, tool: input.tool, args: input.args || {{}}, directory }}
    ask({{ event: "tool.execute.after", ...call }})
  }},
}})
"""


@dataclass(frozen=True)
class Target:
    """Where a harness has its hooks.

    Attributes:
        name: The name of the harness.
        file: The file, below the project.
        edit: Adds the hooks to the parsed file; None for a file that is ours alone.
        note: What the user must know.
    """

    name: str
    file: str
    edit: Callable[[dict[str, Any], str], None] | None
    note: str


def _is_ours(value: Any) -> bool:
    return MARKER in json.dumps(value)


def _list_of(settings: dict[str, Any], event: str, where: str) -> list[Any]:
    hooks = settings.setdefault("hooks", {})
    if not isinstance(hooks, dict):
        raise HarnessError(f'{where}: "hooks" is not an object; correct it first')
    entries = cast("dict[str, Any]", hooks).setdefault(event, [])
    if not isinstance(entries, list):
        raise HarnessError(f'{where}: "hooks.{event}" is not a list; correct it first')
    return cast("list[Any]", entries)


def _grouped(events: tuple[str, ...], name: str) -> Callable[[dict[str, Any], str], None]:
    def edit(settings: dict[str, Any], command: str) -> None:
        for event in events:
            entries = _list_of(settings, event, name)
            entries[:] = [entry for entry in entries if not _is_ours(entry)]
            hook: dict[str, Any] = {"type": "command", "command": command, "timeout": 10}
            if event == "PreToolUse":
                hook["onFailure"] = "block"
            entries.append({"hooks": [hook]})

    return edit


def _cursor(settings: dict[str, Any], command: str) -> None:
    settings.setdefault("version", 1)
    for event in _CURSOR_EVENTS:
        entries = _list_of(settings, event, "cursor")
        entries[:] = [entry for entry in entries if not _is_ours(entry)]
        closed = event.startswith("before") or event == "preToolUse"
        entries.append({"command": command, "timeout": 10, **({"failClosed": True} if closed else {})})


TARGETS = {
    target.name: target
    for target in (
        Target("claude", ".claude/settings.json", _grouped(_CLAUDE_EVENTS, "claude"), "restart running sessions"),
        Target("factory", ".factory/settings.json", _grouped(_CLAUDE_EVENTS, "factory"), "restart running sessions"),
        Target(
            "codex",
            ".codex/hooks.json",
            _grouped(_CODEX_EVENTS, "codex"),
            "codex skips these hooks silently until you trust the project's hooks in it",
        ),
        Target("cursor", ".cursor/hooks.json", _cursor, "restart Cursor"),
        Target("opencode", ".opencode/plugins/turntree.js", None, "restart running sessions"),
    )
}


def target_of(name: str) -> Target:
    """The harness with this name."""
    if name not in TARGETS:
        raise HarnessError(f"no harness {name!r}; expected one of {', '.join(TARGETS)}")
    return TARGETS[name]


def hook_command(name: str) -> str:
    """The command string of the hooks: the native program, or Python if it is not installed."""
    native = shutil.which("turntree-hook")
    beside = Path(sys.executable).with_name("turntree-hook")
    program = native or (str(beside) if beside.exists() else None)
    words = [program] if program else [sys.executable, "-m", "turntree", "hook"]
    return shlex.join([*words, "--harness", name])


def _manifest_file(project: Project) -> Path:
    return project.state / "installed.json"


def _manifest(project: Project) -> dict[str, Any]:
    try:
        return cast("dict[str, Any]", json.loads(_manifest_file(project).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}


def _save(project: Project, manifest: dict[str, Any]) -> None:
    _manifest_file(project).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def install(project: Project, name: str) -> Path:
    """Install the hooks of a harness in a project, and return the file. Installing again changes nothing."""
    target = target_of(name)
    file = project.root / target.file
    before = file.read_bytes() if file.exists() else None
    command = hook_command(name)
    if target.edit is None:
        after = _PLUGIN.format(command=json.dumps(command)).encode()
    else:
        try:
            settings: Any = json.loads(before) if before else {}
        except ValueError as error:
            raise HarnessError(f"{file}: not valid JSON ({error}); correct it, then install again") from error
        if not isinstance(settings, dict):
            raise HarnessError(f"{file}: expected an object")
        target.edit(cast("dict[str, Any]", settings), command)
        after = (json.dumps(settings, indent=2, ensure_ascii=False) + "\n").encode()
    if before != after:
        manifest = _manifest(project)
        entry = manifest.get(name)
        # A file that still is as the last installation left it goes back to what was before that.
        if entry is None or before is None or entry["after"] != _digest(before):
            original = None if before is None else base64.b64encode(before).decode()
            entry = {"file": target.file, "before": original}
        manifest[name] = {**entry, "after": _digest(after)}
        file.parent.mkdir(parents=True, exist_ok=True)
        _replace(file, after)
        _save(project, manifest)
    return file


def _replace(file: Path, data: bytes) -> None:
    new = file.with_name(f".{file.name}.turntree-new")
    new.write_bytes(data)
    if file.exists():
        new.chmod(file.stat().st_mode & 0o777)
    new.replace(file)


def uninstall(project: Project, name: str) -> bool:
    """Remove the hooks of a harness; return False if there are none."""
    target = target_of(name)
    file = project.root / target.file
    manifest = _manifest(project)
    entry = manifest.pop(name, None)
    if not file.exists():
        return False
    data = file.read_bytes()
    if entry is not None and entry["after"] == _digest(data):
        if entry["before"] is None:
            file.unlink()
        else:
            _replace(file, base64.b64decode(entry["before"]))
        _save(project, manifest)
        return True
    if target.edit is None:
        file.unlink()
        return True
    settings = json.loads(data)
    removed = _remove(settings)
    if removed:
        _replace(file, (json.dumps(settings, indent=2, ensure_ascii=False) + "\n").encode())
        _save(project, manifest)
    return removed


def _remove(settings: dict[str, Any]) -> bool:
    hooks: dict[str, list[Any]] = settings.get("hooks", {})
    removed = False
    for event, entries in list(hooks.items()):
        rest = [entry for entry in entries if not _is_ours(entry)]
        removed = removed or len(rest) != len(entries)
        if rest:
            hooks[event] = rest
        else:
            del hooks[event]
    return removed


def is_installed(project: Project, name: str) -> bool:
    """Whether the file of a harness has our hooks."""
    file = project.root / target_of(name).file
    return file.exists() and MARKER in file.read_text(encoding="utf-8", errors="replace")


@dataclass(frozen=True)
class Check:
    """What `doctor` has found.

    Attributes:
        harness: The harness.
        problem: What is wrong; None if all is well.
        milliseconds: The time of one hook call.
        is_native: Whether the native program answers.
    """

    harness: str
    problem: str | None
    milliseconds: float
    is_native: bool


def _event(name: str, command: str, cwd: str) -> dict[str, Any]:
    if name == "cursor":
        return {"hook_event_name": "beforeShellExecution", "conversation_id": "doctor", "command": command, "cwd": cwd}
    if name == "opencode":
        return {
            "event": "tool.execute.before",
            "sessionID": "doctor",
            "tool": "bash",
            "args": {"command": command},
            "directory": cwd,
        }
    call = {"tool_name": "Bash", "tool_input": {"command": command}}
    return {"hook_event_name": "PreToolUse", "session_id": "doctor", "cwd": cwd, **call}


def _installed_command(project: Project, name: str) -> str:
    text = (project.root / target_of(name).file).read_text(encoding="utf-8")
    if name == "opencode":
        line = next(line for line in text.splitlines() if line.startswith("const command = "))
        return str(json.loads(line.removeprefix("const command = ")))
    event = "beforeShellExecution" if name == "cursor" else "PreToolUse"
    entry = next(entry for entry in json.loads(text)["hooks"][event] if _is_ours(entry))
    return str(entry["command"] if name == "cursor" else entry["hooks"][0]["command"])


def doctor(project: Project, name: str) -> Check:
    """Send one event that must be denied and one that must pass through the very command that is installed."""
    if not is_installed(project, name):
        return Check(name, f"not installed: turntree harness install {name}", 0.0, is_native=False)
    try:
        command = _installed_command(project, name)
    except (StopIteration, KeyError, ValueError, IndexError) as error:
        return Check(name, f"the hook is not in {target_of(name).file} as installed: {error!r}", 0.0, is_native=False)
    start = time.perf_counter()
    denied = _call(command, _event(name, "git push --force", str(project.root)))
    milliseconds = (time.perf_counter() - start) * 1000
    allowed = _call(command, _event(name, "git status", str(project.root)))
    problem = None
    if denied.returncode != 2:
        problem = f"a command that must be denied ended with status {denied.returncode}: {denied.stderr.strip()[:200]}"
    elif allowed.returncode != 0:
        problem = f"a command that must pass ended with status {allowed.returncode}: {allowed.stderr.strip()[:200]}"
    return Check(name, problem, milliseconds, is_native="turntree-hook" in command)


def _call(command: str, event: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    # The harness runs the string in a shell, so the check does too.
    return subprocess.run(
        ["/bin/sh", "-c", command], input=json.dumps(event), capture_output=True, text=True, timeout=60, check=False
    )

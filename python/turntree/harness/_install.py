"""Installs hooks in the configuration of coding harnesses, removes them exactly, and checks them.

Files are edited structurally: what others configured stays, in its order. A manifest in the state folder has the
content of each file before, so that removing the hooks restores it byte for byte if nobody has changed the file since.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
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

_OWN = re.compile(r"(turntree-hook|-m turntree hook)\S* --harness ")
# A program that is missing ends with 127; only 2 with a reason blocks. Claude Code knows `onFailure`, Codex does not.
_CLOSED = "" if os.name == "nt" else " || { [ $? -eq 2 ] || echo 'Blocked: turntree could not run.' >&2; exit 2; }"
_CLAUDE_EVENTS = ("SessionStart", "PreToolUse", "PostToolUse", "PreCompact", "Stop", "SessionEnd")
_CODEX_EVENTS = ("SessionStart", "PreToolUse", "PostToolUse", "PreCompact", "PostCompact", "Stop")
_CURSOR_EVENTS = (
    "sessionStart",
    "beforeShellExecution",
    "beforeMCPExecution",
    "beforeReadFile",
    "preToolUse",
    "afterFileEdit",
    "preCompact",
    "stop",
    "sessionEnd",
)

_PLUGIN = (Path(__file__).parent / "_opencode.js").read_text(encoding="utf-8")


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


def _is_own(hook: Any) -> bool:
    command = cast("dict[str, Any]", hook).get("command") if isinstance(hook, dict) else None
    return isinstance(command, str) and _OWN.search(command) is not None


def _hooks_of(entry: Any) -> list[Any]:
    """The hooks of an entry: those of its group, or itself."""
    group = cast("dict[str, Any]", entry).get("hooks") if isinstance(entry, dict) else None
    return cast("list[Any]", group) if isinstance(group, list) else [entry]


def _without_own(entries: list[Any]) -> list[Any]:
    """The entries without our hooks; what others have put into a group of ours stays."""
    kept: list[Any] = []
    for entry in entries:
        hooks = _hooks_of(entry)
        rest = [hook for hook in hooks if not _is_own(hook)]
        if len(rest) == len(hooks):
            kept.append(entry)
        elif rest:
            kept.append({**entry, "hooks": rest})
    return kept


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
            entries[:] = _without_own(entries)
            hook: dict[str, Any] = {"type": "command", "command": command, "timeout": 10}
            if event == "PreToolUse":
                hook |= {"command": command + _CLOSED, "onFailure": "block"}
            entries.append({"hooks": [hook]})

    return edit


def _cursor(settings: dict[str, Any], command: str) -> None:
    settings.setdefault("version", 1)
    for event in _CURSOR_EVENTS:
        entries = _list_of(settings, event, "cursor")
        entries[:] = _without_own(entries)
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
        after = _PLUGIN.replace("COMMAND", json.dumps(command), 1).encode()
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
            entry = {"file": target.file, "before": original, "folders": _missing_folders(project, file)}
        manifest[name] = {**entry, "after": _digest(after)}
        file.parent.mkdir(parents=True, exist_ok=True)
        _replace(file, after)
        _save(project, manifest)
    return file


def _missing_folders(project: Project, file: Path) -> list[str]:
    """The folders that an installation makes, the innermost first."""
    folders = [folder for folder in file.parents if folder.is_relative_to(project.root) and not folder.exists()]
    return [folder.relative_to(project.root).as_posix() for folder in folders]


def _remove_file(project: Project, file: Path, entry: dict[str, Any] | None) -> None:
    """Remove a file, and the folders that were made for it if they are empty."""
    file.unlink()
    for folder in (entry or {}).get("folders", []):
        try:
            (project.root / folder).rmdir()
        except OSError:
            return


def _replace(file: Path, data: bytes) -> None:
    # A link, as people have to their own collections of settings, stays one.
    file = file.resolve()
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
            _remove_file(project, file, entry)
        else:
            _replace(file, base64.b64decode(entry["before"]))
        _save(project, manifest)
        return True
    if target.edit is None:
        _remove_file(project, file, entry)
        _save(project, manifest)
        return True
    try:
        settings = json.loads(data)
        removed = _remove(settings)
    except (ValueError, AttributeError) as error:
        raise HarnessError(f"{file}: not as installed ({error}); correct it, then uninstall again") from error
    if removed and settings == {"hooks": {}} and entry is not None and entry["before"] is None:
        _remove_file(project, file, entry)
        _save(project, manifest)
    elif removed:
        _replace(file, (json.dumps(settings, indent=2, ensure_ascii=False) + "\n").encode())
        _save(project, manifest)
    return removed


def _remove(settings: dict[str, Any]) -> bool:
    hooks: dict[str, list[Any]] = settings.get("hooks", {})
    removed = False
    for event, entries in list(hooks.items()):
        rest = _without_own(entries)
        removed = removed or rest != entries
        if rest:
            hooks[event] = rest
        else:
            del hooks[event]
    return removed


def is_installed(project: Project, name: str) -> bool:
    """Whether the file of a harness has our hooks."""
    target = target_of(name)
    file = project.root / target.file
    if not file.exists():
        return False
    text = file.read_text(encoding="utf-8", errors="replace")
    if target.edit is None:
        return text.startswith(_PLUGIN.splitlines()[0])
    try:
        lists = json.loads(text)["hooks"].values()
        return any(_is_own(hook) for entries in lists for entry in entries for hook in _hooks_of(entry))
    except (ValueError, KeyError, AttributeError, TypeError):
        return False


@dataclass(frozen=True)
class Check:
    """What `doctor` has found.

    Attributes:
        harness: The harness.
        problem: What is wrong; None if all is well.
        milliseconds: The time that 19 of 20 hook calls do not exceed; through Python, the time of one call.
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
    entries = json.loads(text)["hooks"][event]
    return next(str(hook["command"]) for entry in entries for hook in _hooks_of(entry) if _is_own(hook))


def doctor(project: Project, name: str) -> Check:
    """Send one event that must be denied and one that must pass through the very command that is installed."""
    if not is_installed(project, name):
        return Check(name, f"not installed: turntree harness install {name}", 0.0, is_native=False)
    try:
        command = _installed_command(project, name)
    except (StopIteration, KeyError, ValueError, IndexError) as error:
        return Check(name, f"the hook is not in {target_of(name).file} as installed: {error!r}", 0.0, is_native=False)
    is_native = "turntree-hook" in command
    times: list[float] = []
    try:
        denied = _call(command, _event(name, "git push --force", str(project.root)))
        for _ in range(20 if is_native else 1):
            start = time.perf_counter()
            denied = _call(command, _event(name, "git push --force", str(project.root)))
            times.append((time.perf_counter() - start) * 1000)
        allowed = _call(command, _event(name, "git status", str(project.root)))
    except subprocess.TimeoutExpired as error:
        return Check(name, f"the hook does not end within {error.timeout:.0f} s", 0.0, is_native)
    milliseconds = sorted(times)[int(0.95 * (len(times) - 1))]
    problem = None
    if denied.returncode != 2:
        problem = f"a command that must be denied ended with status {denied.returncode}: {denied.stderr.strip()[:200]}"
    elif allowed.returncode != 0:
        problem = f"a command that must pass ended with status {allowed.returncode}: {allowed.stderr.strip()[:200]}"
    return Check(name, problem, milliseconds, is_native)


def _call(command: str, event: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    # The harness runs the string in a shell, so the check does too.
    return subprocess.run(
        ["/bin/sh", "-c", command], input=json.dumps(event), capture_output=True, text=True, timeout=60, check=False
    )

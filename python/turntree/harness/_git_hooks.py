"""The hooks of git that run the rules of the commit stage."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from turntree.harness._errors import HarnessError
from turntree.harness._project import Project

NAMES = ("pre-commit", "pre-push")
_MARK = "# Written by turntree: `turntree harness uninstall git` removes it."


def _folder(project: Project) -> Path:
    command = ["git", "-C", str(project.root), "rev-parse", "--path-format=absolute", "--git-path", "hooks"]
    # Variables such as `GIT_DIR` would name another repository.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
    except OSError as error:
        raise HarnessError(f"git cannot be started: {error.strerror}; install git") from error
    if done.returncode != 0:
        raise HarnessError(f"{project.root}: not a git repository; run `git init` there, or give a folder of one")
    return Path(done.stdout.strip())


def script(name: str) -> str:
    """The text of a hook."""
    return f"#!/bin/sh\n{_MARK}\nexec {shlex.join([sys.executable, '-m', 'turntree', 'policy', 'git-hook', name])}\n"


def install(project: Project) -> Path:
    """Install the hooks; a hook of somebody else stays, and is an error that says what to add to it."""
    folder = _folder(project)
    for name in NAMES:
        file = folder / name
        if file.exists() and _MARK not in file.read_text(encoding="utf-8", errors="replace"):
            raise HarnessError(f"{file} is not ours; add this line to it: turntree policy git-hook {name} || exit 1")
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        file = folder / name
        file.write_text(script(name), encoding="utf-8")
        file.chmod(0o755)
    return folder


def uninstall(project: Project) -> bool:
    """Remove the hooks that are ours; return False if there are none."""
    ours = [folder_file for folder_file in (_folder(project) / name for name in NAMES) if is_ours(folder_file)]
    for file in ours:
        file.unlink()
    return bool(ours)


def is_installed(project: Project) -> bool:
    """Whether both hooks are ours; False outside of a repository."""
    try:
        folder = _folder(project)
    except HarnessError:
        return False
    return all(is_ours(folder / name) for name in NAMES)


def is_ours(file: Path) -> bool:
    """Whether a hook was written by `install`."""
    return file.exists() and _MARK in file.read_text(encoding="utf-8", errors="replace")

"""Virtual environments, one per peer. Created once, and again if their packages or the wheel change."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
VENVS = HERE / ".venvs"
STAMP = "turntree-bench.json"


class InstallError(Exception):
    """An environment cannot be created; the message has the reason."""


@dataclass
class Environment:
    """A complete environment.

    Attributes:
        python: Its interpreter.
        versions: Distributions asked for, with their versions.
    """

    python: Path
    versions: dict[str, str] = field(default_factory=dict)


def ensure(name: str, packages: list[str], *, wheel: Path | None = None, upgrade: bool = False) -> Environment:
    """Create the environment unless it exists with the same packages and the same wheel.

    Args:
        name: Directory under `.venvs`.
        packages: Requirements for pip; the newest versions are taken when it is made.
        wheel: A wheel to install as well.
        upgrade: Make it again, with the newest versions.

    Raises:
        InstallError: pip failed; the text ends with what it said.
    """
    directory = VENVS / name
    python = directory / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest() if wheel else None
    wanted = {"packages": packages, "wheel": digest, "python": sys.version}
    if not upgrade and python.exists() and _stamp(directory) == wanted:
        return Environment(python)

    shutil.rmtree(directory, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(directory)])
    requirements = [*packages, *([str(wheel)] if wheel else [])]
    _run([str(python), "-m", "pip", "install", "--quiet", "--upgrade", *requirements])
    (directory / STAMP).write_text(json.dumps(wanted))
    return Environment(python)


def read_versions(python: Path, distributions: list[str]) -> dict[str, str]:
    """Return the installed versions of distributions."""
    program = (
        "import importlib.metadata as m, json, sys\nprint(json.dumps({name: m.version(name) for name in sys.argv[1:]}))"
    )
    return json.loads(_run([str(python), "-I", "-c", program, *distributions]))


def newest_wheel(root: Path) -> Path | None:
    """Return the latest wheel in `target/wheels` or `dist`."""
    wheels = [*root.glob("target/wheels/turntree-*.whl"), *root.glob("dist/turntree-*.whl")]
    return max(wheels, key=lambda path: path.stat().st_mtime, default=None)


def _stamp(directory: Path) -> object:
    try:
        return json.loads((directory / STAMP).read_text())
    except (OSError, ValueError):
        return None


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise InstallError(lines[-1] if lines else f"{command[0]} ended with {done.returncode}")
    return done.stdout

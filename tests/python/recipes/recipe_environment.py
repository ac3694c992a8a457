"""Environments with large packages, which only some tests need: made once, below `target`."""

import hashlib
import os
import re
import site
import subprocess
import sys
from pathlib import Path

import pytest

import turntree

ROOT = Path(__file__).resolve().parents[3]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def python_with(name):
    """The Python of an environment with the packages of a file in `requirements`. Skips tests that are not wanted."""
    if os.environ.get("TURNTREE_RECIPES") != "1":
        pytest.skip(f"NOT TESTED: the packages of requirements/{name} are large; TURNTREE_RECIPES=1 installs them")
    requirements = ROOT / "requirements" / name
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()[:16]
    home = ROOT / "target" / "recipes" / f"{digest}-py{sys.version_info.major}{sys.version_info.minor}"
    python = home / "bin" / "python"
    if not (home / ".ready").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(home)], check=True)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
        done = subprocess.run([*pip, "install", "-q", "-r", str(requirements)], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"NOT TESTED: {(done.stderr.strip().splitlines() or ['pip failed'])[-1]}")
        (home / ".ready").touch()
    # turntree of this environment, after the packages of the other one.
    folders = [*site.getsitepackages(), str(Path(turntree.__file__).parents[1])]
    lines = "".join(f"import site; site.addsitedir({folder!r})\n" for folder in folders)
    (next(home.glob("lib/python*/site-packages")) / "turntree_tests.pth").write_text(lines)
    return python


def blocks(page, language="py"):
    """The blocks of a page of the documentation."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    return [match[2] for match in BLOCK.finditer(text) if match[1] == language]


def block(page, words):
    """The one block of a page that has these words."""
    (found,) = [each for each in blocks(page) if words in each]
    return found


def run(python, program, folder, **variables):
    """Run a program in a folder. Returns what it has printed."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "PYTHONPATH", "PYTEST_"))
    }
    done = subprocess.run(
        [str(python), "-c", program],
        cwd=folder,
        env={**kept, "PYTHONUTF8": "1", **variables},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, f"{done.returncode}: {done.stdout[-1000:]}\n{done.stderr[-3000:]}"
    return done.stdout

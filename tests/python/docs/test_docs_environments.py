"""The blocks of each page run with turntree, the packages that the page tells its reader to install, and nothing else.

`TURNTREE_DOCS_ENVIRONMENTS=1` (make test-long) makes an environment for each list of packages, below `target`.
"""

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tomllib
from docs_pages import DOCUMENTS, ROOT, TESTED_ELSEWHERE, blocks

import turntree

IS_WANTED = os.environ.get("TURNTREE_DOCS_ENVIRONMENTS") == "1"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
NAMED = re.compile(r"pip install (?:--[\w-]+ )*([^\n`]*)|`turntree\[([\w,-]+)\]`")
# It lists all extras, and its code needs none.
WITHOUT = {"install.md"}
# Packages of programs that other tests run (```py blocks): their pages need them for nothing else. A file is the wheel
# of turntree.
OF_PROGRAMS = re.compile(
    r".*\.whl|langchain.*|langgraph.*|openai-agents|ray|logfire|langfuse|arize-.*|streamlit|gradio|chainlit|turntree"
)


def packages_of(path):
    """The requirements that a page tells its reader to install."""
    if path.name in WITHOUT:
        return frozenset()
    wanted = set()
    for command, extras in NAMED.findall(path.read_text("utf-8")):
        for word in command.replace("'", "").split() or [f"turntree[{extras}]"]:
            name, _, of_it = word.partition("[")
            if name == "turntree":
                for extra in filter(None, of_it.rstrip("]").split(",")):
                    wanted |= set(PROJECT["optional-dependencies"].get(extra, ()))
            else:
                wanted.add(word)
    return frozenset(each for each in wanted if not OF_PROGRAMS.fullmatch(each))


def environments():
    """The pages of each list of requirements."""
    found = {}
    for path in DOCUMENTS:
        if path.name not in TESTED_ELSEWHERE and any(language == "python" for language, _, _ in blocks(path)):
            found.setdefault(packages_of(path), []).append(path)
    return found


def python_with(requirements):
    """The Python of an environment with turntree and these packages, at the versions of the development environment."""
    lock = ROOT / "requirements" / "dev.lock"
    digest = hashlib.sha256("\n".join([*sorted(requirements), lock.read_text("utf-8")]).encode()).hexdigest()[:16]
    home = ROOT / "target" / "docs-environments" / f"{digest}-py{sys.version_info.major}{sys.version_info.minor}"
    python = home / "bin" / "python"
    if not (home / ".ready").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(home)], check=True)
        if requirements:
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
            install = [*pip, "install", "-q", "--constraint", str(lock), *sorted(requirements)]
            done = subprocess.run(install, capture_output=True, text=True)
            if done.returncode:
                pytest.skip(f"NOT TESTED: {(done.stderr.strip().splitlines() or ['pip failed'])[-1]}")
        (home / ".ready").touch()
    (packages,) = home.glob("lib/python*/site-packages")
    own = Path(turntree.__file__).parent
    for source in [own, *own.parent.glob("turntree-*.dist-info")]:
        link = packages / source.name
        link.unlink(missing_ok=True)
        link.symlink_to(source)
    return python


@pytest.mark.skipif(not IS_WANTED, reason="NOT TESTED: TURNTREE_DOCS_ENVIRONMENTS=1 makes the environments")
@pytest.mark.parametrize(
    ("requirements", "paths"),
    environments().items(),
    ids=lambda value: "+".join(sorted(value)) or "turntree alone" if isinstance(value, frozenset) else "pages",
)
@pytest.mark.timeout(600)
def test_the_pages_run_with_the_packages_that_they_name(requirements, paths):
    python = python_with(requirements)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHONPATH", "PYTEST_"))}
    program = str(Path(__file__).with_name("docs_pages.py"))

    failed = {}
    for path in paths:
        done = subprocess.run([python, program, path], env=kept, capture_output=True, text=True, timeout=120)
        if done.returncode:
            failed[path.name] = done.stderr[-3000:]

    assert not failed, "\n\n".join(f"{name}: {error}" for name, error in failed.items())

"""Every module of the package can be imported by each supported version of Python, without optional packages."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_process_exit import VERSIONS, interpreter

import turntree

# Imports each module, and looks up the names of the standard library that functions import.
PROGRAM = """
import ast, importlib, json, pathlib, sys, warnings
warnings.simplefilter("error", SyntaxWarning)

import turntree

root, problems = pathlib.Path(turntree.__file__).parent, []
seen = []
standard = {*json.loads(sys.argv[1]), *sys.stdlib_module_names}

def found(module, name):
    try:
        if name is None or hasattr(importlib.import_module(module), name):
            return importlib.import_module(module)
        return importlib.import_module(f"{module}.{name}")
    except ImportError:
        return None

for path in sorted(root.rglob("*.py")):
    text = path.read_text("utf-8")
    seen.append(path)
    place = path.relative_to(root.parent)
    name = ".".join(place.with_suffix("").parts)
    tree = ast.parse(text, str(place))
    compile(tree, str(place), "exec")
    if path.name == "__main__.py":
        continue
    try:
        importlib.import_module(name.removesuffix(".__init__"))
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] in standard | {"turntree"}:
            problems += [] if "needs the package" in str(error) else [f"{place}: {error}"]
    # Branches for other versions are in `if sys.version_info`, and names of optional modules are not literals.
    conditions = [node for node in ast.walk(tree) if isinstance(node, ast.If)]
    branches = [node for node in conditions if "version_info" in ast.unparse(node.test)]
    other = {id(node) for branch in branches for node in ast.walk(branch)}
    for node in ast.walk(tree):
        if id(node) in other:
            continue
        if isinstance(node, ast.Import):
            names = [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [(node.module, alias.name) for alias in node.names]
        else:
            continue
        for module, item in names:
            if module.partition(".")[0] in standard and found(module, item) is None:
                problems.append(f"{place}:{node.lineno}: {module} {item or ''}")
assert len(seen) > 100, seen
print(json.dumps(problems))
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_every_module_can_be_imported(version: str, tmp_path: Path) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"Python {version} is not installed")
    (tmp_path / "turntree").symlink_to(Path(turntree.__file__).parent)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}

    # Later versions have modules that earlier ones do not know.
    standard = json.dumps([*sys.stdlib_module_names])
    done = subprocess.run(
        [python, "-c", PROGRAM, standard], capture_output=True, text=True, timeout=100, env=environment, check=False
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []

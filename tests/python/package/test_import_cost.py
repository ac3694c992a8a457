"""`import turntree` loads only what every program needs. Which modules that are is tested, not a time."""

import subprocess
import sys

import pytest

# Large modules of the standard library, and all packages that are optional. Functions that need them import them.
LATE = [
    "asyncio",
    "argparse",
    "concurrent.futures",
    "dataclasses",
    "email",
    "http.client",
    "inspect",
    "json",
    "logging",
    "pathlib",
    "platform",
    "random",
    "sqlite3",
    "socket",
    "ssl",
    "subprocess",
    "tempfile",
    "urllib.parse",
    "uuid",
    "IPython",
    "fastapi",
    "msgpack",
    "opentelemetry",
    "pyarrow",
    "pydantic",
    "pydantic_ai",
    "zstandard",
]
# Parts of turntree that a first agent does not need.
LATE_PARTS = [
    "turntree.durable",
    "turntree.mcp",
    "turntree.notebook",
    "turntree.testing",
    "turntree.thread_protocol",
    "turntree.uaip",
    "turntree.uamp",
    "turntree._cli",
]


def loaded_by(code):
    """The modules that code imports."""
    program = f"import sys; before = set(sys.modules); {code}; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=50)
    return set(done.stdout.split())


@pytest.fixture(scope="module")
def loaded():
    return loaded_by("import turntree")


def test_importing_turntree_does_not_load_large_or_optional_modules(loaded):
    assert "turntree._core" in loaded
    assert sorted(loaded & set(LATE)) == []


def test_importing_turntree_does_not_load_its_parts_for_servers_tests_and_notebooks(loaded):
    assert sorted(loaded & set(LATE_PARTS)) == []


def test_importing_turntree_loads_no_package_but_itself(loaded):
    others = {name.partition(".")[0] for name in loaded} - {"turntree"}

    assert sorted(name for name in others if name not in sys.stdlib_module_names) == []


def test_parts_are_imported_when_they_are_asked_for():
    loaded = loaded_by("import turntree; turntree.middleware.logging; turntree.store.memory; turntree.uaip.Workflow")

    assert {"turntree.middleware", "turntree.store", "turntree.uaip"} <= loaded
    assert "turntree.notebook" not in loaded

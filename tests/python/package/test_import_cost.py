"""`import turntree` loads only what every program needs: which modules, and about how much CPU time."""

import subprocess
import sys

import pytest

# All that `import turntree` loads besides modules that the interpreter has loaded already.
FIRST = {
    "turntree",
    "turntree._constructors",
    "turntree._core",
    "turntree._dataclass",
    "turntree._loading",
    "turntree._public_names",
    "__future__",
    "atexit",
}
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


def cpu_seconds(code):
    """The CPU time of a process that executes the code."""
    resource = pytest.importorskip("resource")  # Windows has none.
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, timeout=50)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_importing_turntree_loads_the_native_module_and_what_completes_it_only():
    loaded = loaded_by("import turntree")

    assert "turntree._core" in loaded
    assert sorted(loaded - FIRST) == []


def test_importing_the_provider_layer_loads_one_more_module():
    assert sorted(loaded_by("import turntree.upp") - FIRST) == ["turntree.upp"]


@pytest.mark.parametrize("name", ["agent", "session", "query"])
def test_a_first_agent_does_not_load_large_or_optional_modules(name):
    loaded = loaded_by(f"from turntree import {name}")

    assert sorted(loaded & {*LATE, *LATE_PARTS}) == []
    others = {name.partition(".")[0] for name in loaded} - {"turntree"}
    assert sorted(name for name in others if name not in sys.stdlib_module_names) == []


def test_an_agent_does_not_load_what_sessions_and_other_providers_need():
    loaded = loaded_by("from turntree import agent")

    assert (
        sorted(loaded & {"turntree._session", "turntree.store", "turntree.upp._llm", "turntree.upp._providers"}) == []
    )


def test_importing_turntree_costs_less_than_half_of_importing_asyncio():
    """Also with a native module without optimization. The least of nine: other processes only add time."""
    codes = {"pass": [], "import turntree": [], "import asyncio": []}
    for _ in range(9):
        for code, seconds in codes.items():
            seconds.append(cpu_seconds(code))
    start, ours, theirs = (min(seconds) for seconds in codes.values())

    assert ours - start < (theirs - start) / 2


def test_parts_are_imported_when_they_are_asked_for():
    loaded = loaded_by("import turntree; turntree.middleware.logging; turntree.store.memory; turntree.uaip.Workflow")

    assert {"turntree.middleware", "turntree.store", "turntree.uaip"} <= loaded
    assert "turntree.notebook" not in loaded

"""The names that the package exports, and the modules that its import loads."""

import importlib
import inspect
import subprocess
import sys
import textwrap

import pytest

import turntree
from turntree import upp

MODULES = [
    "turntree",
    "turntree.upp",
    "turntree.upp.middleware",
    "turntree.middleware",
    "turntree.execution",
    "turntree.store",
    "turntree.testing",
    "turntree.tracing",
    "turntree.arrow",
    "turntree.notebook",
]

# UAP-1.0 names that exist so far.
UAP = {
    "Agent",
    "AgentStrategy",
    "AgentStream",
    "AgentStreamEvent",
    "Checkpoint",
    "ExecutionState",
    "PlanStep",
    "QueryResult",
    "Session",
    "ToolContext",
    "UapEvent",
    "agent",
    "ask",
    "query",
    "session",
}
ERRORS = {
    "ConflictError",
    "CorruptDataError",
    "SerializationError",
    "SessionError",
    "StepResult",
    "StoreError",
    "SubAgentRun",
    "TurntreeError",
    "ValidationError",
}


def fresh(source):
    """Run code in an interpreter without the site directories of the user or the environment. Returns its output."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", textwrap.dedent(source)],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.split()


def test_all_uap_names_are_exported():
    assert set(turntree.__all__) >= UAP | ERRORS | {"__version__"}


def test_no_upp_name_is_exported_by_turntree():
    """UAP-1.0 forbids the re-export."""
    shown = set(turntree.__all__) | {name for name in dir(turntree) if not name.startswith("_")}

    assert shown & set(upp.__all__) == set()


def test_dir_lists_only_public_names():
    # pytest rewrites the modules of packages with a plugin; its own names there start with "@".
    shown = {name for name in dir(turntree) if not name.startswith(("_", "@"))}
    modules = {name for name in shown if inspect.ismodule(getattr(turntree, name))}

    assert shown - modules <= set(turntree.__all__)
    assert modules <= {
        "arrow",
        "durable",
        "exceptions",
        "execution",
        "harness",
        "mcp",
        "middleware",
        "models",
        "store",
        "testing",
        "thread_protocol",
        "tools",
        "tracing",
        "uaip",
        "uamp",
        "upp",
        "notebook",
    }


@pytest.mark.parametrize("module", MODULES)
def test_all_names_exist_and_are_unique(module):
    loaded = importlib.import_module(module)

    assert len(loaded.__all__) == len(set(loaded.__all__))
    assert [name for name in loaded.__all__ if not hasattr(loaded, name)] == []
    assert loaded.__doc__


def documented():
    for module in MODULES:
        loaded = importlib.import_module(module)
        for name in loaded.__all__:
            value = getattr(loaded, name)
            if inspect.isclass(value) or inspect.isroutine(value):
                yield pytest.param(module, name, id=f"{module}.{name}")


@pytest.mark.parametrize(("module", "name"), list(documented()))
def test_every_name_has_a_docstring(module, name):
    text = inspect.getdoc(getattr(importlib.import_module(module), name))

    assert text
    assert text.strip()[0].isupper() or text.startswith("`")


@pytest.mark.parametrize(("module", "name"), list(documented()))
def test_every_object_names_a_public_module(module, name):
    value = getattr(importlib.import_module(module), name)

    if module != "turntree.testing":  # its classes are not pickled
        assert "._" not in value.__module__
    found = getattr(importlib.import_module(value.__module__), value.__name__)
    assert found is value


@pytest.mark.parametrize(("module", "name"), list(documented()))
def test_every_public_method_has_a_docstring(module, name):
    value = getattr(importlib.import_module(module), name)
    if not inspect.isclass(value) or issubclass(value, (tuple, Exception)) or hasattr(value, "__members__"):
        pytest.skip("no class of ours")
    methods = {
        key: member
        for key, member in vars(value).items()
        if not key.startswith("_") and (inspect.isroutine(member) or isinstance(member, property))
    }

    assert [key for key, member in methods.items() if not inspect.getdoc(member)] == []


def test_the_version_equals_that_of_the_distribution():
    from importlib.metadata import version

    assert turntree.__version__ == version("turntree")


def test_import_loads_no_third_party_package_and_no_asyncio():
    loaded = fresh(
        """
        import sys
        before = set(sys.modules)
        import turntree
        print(*{name.partition(".")[0] for name in set(sys.modules) - before})
        """
    )

    ours = {"turntree"}
    foreign = {name for name in loaded if name not in sys.stdlib_module_names and name not in ours}
    assert foreign == set()
    heavy = {"asyncio", "inspect", "ssl", "socket", "subprocess", "http", "concurrent", "logging", "email", "unittest"}
    assert heavy & set(loaded) == set()


def test_upp_loads_no_third_party_package_and_no_asyncio():
    loaded = fresh(
        """
        import sys
        before = set(sys.modules)
        import turntree.upp, turntree.execution
        print(*{name.partition(".")[0] for name in set(sys.modules) - before})
        """
    )

    assert {name for name in loaded if name not in sys.stdlib_module_names} == {"turntree"}
    assert not {"asyncio", "inspect", "ssl", "socket"} & set(loaded)


def test_a_run_loads_no_third_party_package():
    loaded = fresh(
        """
        import sys
        import turntree
        from turntree.upp import scripted
        turntree.agent(model=scripted(["ok"])).run_sync("Hi")
        print(*{name.partition(".")[0] for name in sys.modules})
        """
    )

    foreign = {"pydantic", "pydantic_ai", "opentelemetry", "httpx", "IPython", "rich"}
    assert foreign & set(loaded) == set()


def test_the_testing_server_is_not_loaded_by_the_package():
    assert "turntree.testing" not in fresh("import sys, turntree, turntree.upp; print(*sys.modules)")


def test_tools_work_without_pydantic():
    out = fresh(
        """
        import sys
        sys.modules["pydantic"] = None
        from turntree import agent
        from turntree.upp import scripted, tool

        @tool
        def add(a: int, b: int = 2) -> int:
            return a + b

        script = [[{"toolName": "add", "arguments": {"a": 1}}, {"toolName": "add", "arguments": {"a": "x"}}], "ok"]
        turn = agent(model=scripted(script), tools=[add]).run_sync("Hi")
        print(*(str(done.result).replace(" ", "_") for done in turn.tool_executions))
        """
    )

    assert out == ["3", "Invalid_arguments._a:_expected_integer,_got_str"]

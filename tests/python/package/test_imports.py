"""The modules of the package have no import cycles, and lower stubs do not import higher modules."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PYTHON = ROOT / "python"
STUBS = PYTHON / "turntree" / "_core"

# An agent has a strategy, a strategy's context has the agent, and `ApprovalRequired` has the session of an agent.
# An agent can be a tool, by a handoff. A model makes batches, and a batch makes turns with the model.
# A session has a store, and stores check the ids of sessions and raise exceptions; so do the modules that import
# conversations into a store.
# The imports that close these cycles are for type checkers, or inside the function that needs them.
ALLOWED = {
    "turntree._agent",
    "turntree._agent_hooks",
    "turntree._agent_options",
    "turntree._agent_repr",
    "turntree._agent_stream",
    "turntree._branch_run",
    "turntree._handoff",
    "turntree._import.formats",
    "turntree._import.importer",
    "turntree._import.langgraph",
    "turntree._import.openai_agents",
    "turntree._import.pydantic_ai",
    "turntree._import.sqlite_source",
    "turntree._output_validators",
    "turntree._run_options",
    "turntree._strategies",
    "turntree._session",
    "turntree._session_id",
    "turntree._session_store",
    "turntree._store_maintenance",
    "turntree._toolsets",
    "turntree.exceptions",
    "turntree.store",
    "turntree.upp._batch",
    "turntree.upp._batch_vendors",
    "turntree.upp._bedrock",
    "turntree.upp._cloud",
    "turntree.upp._foreign_tools",
    "turntree.upp._hosts",
    "turntree.upp._llm",
    "turntree.upp._providers",
    "turntree.upp._registry",
    "turntree.upp._token_count",
    "turntree.upp._tool_use",
    "turntree.upp._tools",
    "turntree.upp._vendor_calls",
}

# The stubs whose classes have attributes or parameters of Python classes.
STUBS_THAT_IMPORT_PYTHON = {"_agents", "_call_context", "_models", "_provider_config", "_sessions", "_upp"}


def modules() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in (PYTHON / "turntree").rglob("*.py"):
        name = ".".join(path.relative_to(PYTHON).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


def imports(tree: ast.AST, known: set[str], *, at_run_time: bool) -> Iterator[str]:
    """The modules that a module imports; `at_run_time` ignores functions and TYPE_CHECKING blocks."""
    for node in ast.iter_child_nodes(tree):
        if at_run_time and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if at_run_time and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in known else node.module
        else:
            yield from imports(node, known, at_run_time=at_run_time)


def graph(*, at_run_time: bool) -> dict[str, set[str]]:
    found = modules()
    known = {*found, "turntree._core"}
    return {
        name: set(imports(ast.parse(path.read_text("utf-8")), known, at_run_time=at_run_time)) & set(found) - {name}
        for name, path in found.items()
    }


def circles(edges: dict[str, set[str]]) -> list[set[str]]:
    """Sets of modules that import each other directly or indirectly."""

    def reached(start: str) -> set[str]:
        seen, todo = set[str](), [start]
        while todo:
            for name in edges[todo.pop()] - seen:
                seen.add(name)
                todo.append(name)
        return seen

    reach = {name: reached(name) for name in edges}
    found = {frozenset(other for other in reach[name] if name in reach[other]) for name in edges}
    return [set(circle) for circle in found if len(circle) > 1]


def test_an_import_cycle_is_detected() -> None:
    edges = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}

    assert circles(edges) == [{"a", "b", "c"}]


def test_there_is_no_import_cycle_at_run_time() -> None:
    assert circles(graph(at_run_time=True)) == []


def test_type_checking_imports_have_no_unlisted_cycle_of_three_modules() -> None:
    long = [circle for circle in circles(graph(at_run_time=False)) if len(circle) > 2]

    assert [circle for circle in long if not circle <= ALLOWED] == []


def test_stubs_have_no_import_cycle() -> None:
    edges: dict[str, set[str]] = {}
    for path in STUBS.glob("_[a-z]*.pyi"):
        names = imports(ast.parse(path.read_text("utf-8")), set(), at_run_time=False)
        edges[path.stem] = {name.rsplit(".", 1)[1] for name in names if name.startswith("turntree._core.")}

    assert circles(edges) == []


def test_only_the_upper_stubs_import_python_modules() -> None:
    importing = {
        path.stem
        for path in STUBS.glob("*.pyi")
        for name in imports(ast.parse(path.read_text("utf-8")), set(), at_run_time=False)
        if name.startswith("turntree.") and not name.startswith("turntree._core")
    }

    assert importing <= STUBS_THAT_IMPORT_PYTHON

"""The stub matches the native module, and all public names have types and docstrings.

`stub_check` compares names, parameters, defaults and docstrings in both directions; `mypy.stubtest` compares types;
mypy and basedpyright check the expectations in ``typing/``; `--verifytypes` counts unknown types.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from stub_check import differences, is_public

import turntree
from turntree import _core
from turntree.upp import scripted

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
STUBS = Path(turntree.__file__).with_name("_core")
PUBLIC = [
    "turntree",
    "turntree.upp",
    "turntree.upp.middleware",
    "turntree.middleware",
    "turntree.execution",
    "turntree.store",
    "turntree.testing",
    "turntree.exceptions",
]


def stub() -> str:
    """The text of all files of the stub package."""
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(STUBS.glob("*.pyi")))


def unexported() -> dict[str, type[Any]]:
    """Classes of returned objects that no module exports, by name."""

    async def ask() -> dict[str, type[Any]]:
        stream = turntree.agent(model=scripted([])).stream("hi")._native
        coroutine = stream.turn()
        coroutine.close()
        events = stream.events
        loops = [events.iterate(), events.iterate_sync()]
        given = [coroutine, events, *loops, events.__anext__(), stream.blocking()]
        events.close()
        return {type(value).__name__: type(value) for value in given}

    return asyncio.run(ask())


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    # --verifytypes takes the first python on the PATH, whatever --pythonpath says.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


# The stub and the module


def test_the_package_contains_its_stubs_and_py_typed() -> None:
    assert (STUBS / "__init__.pyi").is_file()
    assert STUBS.with_name("py.typed").is_file()


def test_the_folder_of_stubs_does_not_shadow_the_extension_module() -> None:
    assert not (STUBS / "__init__.py").exists()
    assert Path(str(_core.__file__)).parent == STUBS.parent
    assert not hasattr(_core, "__path__")


def test_the_stub_package_exports_what_the_module_exports() -> None:
    tree = ast.parse((STUBS / "__init__.pyi").read_text(encoding="utf-8"))
    [exported] = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    imported = {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}

    assert {*exported} == {*_core.__all__} - {"_bridge_selftest"}
    assert {*exported} == imported | {"__version__"}


def test_the_stub_agrees_with_the_module() -> None:
    assert differences(stub(), _core, unexported()) == []


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("    def tail(self, n: int)", "    def head(self, n: int)", "Thread.tail is not in the stub"),
        ("    def tail(self, n: int)", "    def head(self, n: int)", "Thread.head is not in the module"),
        ("    def tail(self, n: int)", "    def tail(self, count: int)", "Thread.tail takes (count) in the stub"),
        ("    def tail(self, n: int)", "    def tail(self, n: int, /)", "Thread.tail takes (n (positional only))"),
        ("max_attempts: int = 3, delay", "max_attempts: int = 4, delay", "LinearBackoff takes (max_attempts=4"),
        (
            "by_alias: bool = True, exclude_none: bool = False) -> str",
            "by_alias: bool = True) -> str",
            "Data.model_dump_json takes (",
        ),
        ("    @property\n    def is_pdf", "    def is_pdf", "Document.is_pdf is a method in the stub"),
        ('    type: ClassVar[Literal["text"]]', '    type: ClassVar[Literal["txt"]]', "Text.type is 'txt' in the stub"),
        ("class UserMessage(Message)", "class UserMessage(Data)", "UserMessage has no base Message"),
        ("class NoRetry(RetryStrategy)", "class Retry(RetryStrategy)", "NoRetry is in the module and not in the stub"),
        ("def scripted(", "def script(", "script is in the stub and not in the module"),
        ("    def __new__(cls, text: str) -> Self: ...", "", "Text can be made by hand in the module only"),
        ('        """True for a PDF."""', "        ...", "Document.is_pdf has no docstring in the stub"),
        (
            "Return the last messages, oldest first.",
            "Return messages.",
            "Thread.tail is documented as ['Return messages.'",
        ),
        ("    def aclose(self)", "    def aclosed(self)", "EventStream.aclose is not in the stub"),
    ],
)
def test_a_difference_between_stub_and_module_is_detected(old: str, new: str, found: str) -> None:
    source = stub()
    assert old in source

    changed = source.replace(old, new)

    assert any(found in sentence for sentence in differences(changed, _core, unexported()))


def test_a_member_missing_in_the_stub_is_detected() -> None:
    class Counter:
        """Counts."""

        def __init__(self, start: int = 0) -> None: ...
        def add(self, n: int, *, twice: bool = False) -> int:
            """Add."""
            return n

        @classmethod
        def zero(cls) -> Counter:
            """Give a new one."""
            return cls()

        @property
        def value(self) -> int:
            """The count."""
            return 0

        def __len__(self) -> int:
            return 0

    source = '''
class Counter:
    """Counts."""

    def __new__(cls, start: int = 0) -> Counter: ...
    def add(self, n: int, *, twice: bool = False) -> int:
        """Add."""
    @classmethod
    def zero(cls) -> Counter:
        """Give a new one."""
    @property
    def value(self) -> int:
        """The count."""
    def __len__(self) -> int: ...
'''
    module = ModuleType("native")
    vars(module)["Counter"] = Counter
    assert differences(source, module) == []

    def reset(self: Counter, value: int) -> None: ...

    Counter.reset = reset  # pyright: ignore[reportAttributeAccessIssue]
    vars(module)["count"] = reset

    assert differences(source, module) == [
        "count is in the module and not in the stub",
        "Counter.reset is not in the stub",
    ]


# Type checkers


@pytest.mark.timeout(300)
def test_stubtest_passes() -> None:
    checked = run(str(HERE / "run_stubtest.py"))

    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.timeout(300)
def test_mypy_passes_in_strict_mode() -> None:
    checked = run("-m", "mypy", "python/turntree", "tests/python/typing")
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.timeout(300)
def test_basedpyright_passes_in_strict_mode() -> None:
    checked = run("-m", "basedpyright", "--pythonpath", sys.executable, "--outputjson", "python", "tests/python/typing")
    report = json.loads(checked.stdout)
    assert report["summary"]["filesAnalyzed"] > 0
    assert report["generalDiagnostics"] == []


@pytest.mark.timeout(300)
def test_every_public_symbol_has_a_known_type() -> None:
    checked = run(
        "-m",
        "basedpyright",
        "--pythonpath",
        sys.executable,
        "--verifytypes",
        "turntree",
        "--ignoreexternal",
        "--outputjson",
    )
    report = json.loads(checked.stdout)["typeCompleteness"]
    unknown = [s["name"] for s in report["symbols"] if not s["isTypeKnown"] or s["isTypeAmbiguous"]]
    assert unknown == []
    assert report["completenessScore"] == 1
    assert set(PUBLIC) <= {module["name"] for module in report["modules"]}


# Docstrings


def test_every_name_in_all_exists() -> None:
    for name in PUBLIC:
        module = importlib.import_module(name)
        missing = [public for public in getattr(module, "__all__", []) if not hasattr(module, public)]
        assert missing == []


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_object_has_a_docstring(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__
    assert [*undocumented(module)] == []


def test_a_missing_docstring_is_detected() -> None:
    class Base:
        """A base."""

        def told(self) -> None:
            """Told here."""

    class Thing(Base):
        """A thing."""

        def told(self) -> None: ...
        def untold(self) -> None: ...
        @property
        def size(self) -> int: ...

    def function() -> None: ...

    Base.__module__ = Thing.__module__ = "turntree.made"
    module = ModuleType("made")
    vars(module).update(__all__=["Thing", "function"], Thing=Thing, function=function)

    assert undocumented(module) == ["Thing.size", "Thing.untold", "function"]


def undocumented(module: ModuleType) -> list[str]:
    """Public classes, functions, methods and properties without a docstring of their own or of a base class."""
    names = getattr(module, "__all__", None) or [
        name for name, value in vars(module).items() if is_public(name) and inspect.isclass(value)
    ]
    found: list[str] = []
    for name in names:
        value = getattr(module, name)
        if inspect.isclass(value):
            found += [name] if not value.__doc__ else []
            found += [f"{name}.{member}" for member in members_without(value)]
        elif inspect.isroutine(value) and not inspect.getdoc(value):
            found.append(name)
    return found


def members_without(owner: type[Any]) -> list[str]:
    own = [base for base in owner.__mro__ if base.__module__.split(".")[0] == "turntree"]
    documented, members = set[str](), set[str]()
    for base in own:
        for name, value in vars(base).items():
            is_slot = inspect.ismemberdescriptor(value)
            is_member = (
                callable(value) or inspect.isgetsetdescriptor(value) or isinstance(value, property | classmethod)
            )
            if not is_public(name) or is_slot or not is_member:
                continue
            members.add(name)
            if getattr(value, "__doc__", None):
                documented.add(name)
    return sorted(members - documented)

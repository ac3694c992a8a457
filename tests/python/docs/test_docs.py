"""The code of the README and the guides runs, in an empty directory.

Every ```python block runs, in order; a ```text block after it contains its expected output.
"""

import ast
import asyncio
import inspect
import io
import logging
import re
import shutil
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path

import pytest
import tomllib

from turntree.testing import ToolCall, serve
from turntree.upp import _registry

ROOT = Path(__file__).resolve().parents[3]
PAGES = [path for path in sorted((ROOT / "docs").rglob("*.md")) if "decisions" not in path.parts]
DOCUMENTS = [ROOT / "README.md", *PAGES]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
# Links of the README are absolute, because the page of the package has no other files.
REPOSITORY = f"{PROJECT['urls']['Repository']}/blob/main/"
# Its blocks need other packages and run in tests/python/uamp.
TESTED_ELSEWHERE = {"clients.md"}
# What a page reads and its reader has already: the path in the directory of the page, and the source.
FILES = {
    "command-line.md": {"examples/data": "examples/data"},
    "import.md": {
        "openai.db": "tests/data/imports/openai.db",
        "langgraph.db": "tests/data/imports/langgraph.db",
        "histories": "examples/data",
    },
}


def name_of(path):
    """The name of a document in the ids of tests."""
    return str(path.relative_to(ROOT / "docs" if path.is_relative_to(ROOT / "docs") else ROOT))


def blocks(path):
    """The fenced blocks of a document: language, line of the first code line, code."""
    text = path.read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        yield match[1], text.count("\n", 0, match.start(2)), match[2]


def run_block(path, line, code, namespace, runner):
    """Run one block, with `await` allowed as in a notebook. Returns its printed output."""
    padded = "\n" * line + code  # tracebacks then show the line of the document
    compiled = compile(padded, str(path), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    printed = io.StringIO()
    with redirect_stdout(printed):
        if compiled.co_flags & inspect.CO_COROUTINE:
            # eval returns the coroutine of the block
            runner.run(eval(compiled, namespace))
        else:
            exec(compiled, namespace)
    return printed.getvalue()


@pytest.fixture
def named_model(monkeypatch):
    """`"openai:…"` calls a tool and answers, on this machine: a document may run it as its reader does."""
    with serve([ToolCall("weather", {"city": "Tokyo"}), "Take sunglasses."]) as server:
        local = partial(_registry._FACTORIES["openai"], base_url=server.base_url, api_key="none")
        monkeypatch.setitem(_registry._FACTORIES, "openai", local)
        yield server


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def own_logging():
    """The levels and handlers that a document sets end with it."""
    loggers = [logging.getLogger(), *(logging.getLogger(name) for name in list(logging.root.manager.loggerDict))]
    before = [(logger, logger.level, list(logger.handlers)) for logger in [*loggers, logging.getLogger("turntree")]]
    yield
    for logger, level, handlers in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if path.name not in TESTED_ELSEWHERE], ids=name_of)
@pytest.mark.usefixtures("named_model", "own_logging")
def test_the_code_of_a_document_runs(path, directory):
    for name, source in FILES.get(path.name, {}).items():
        (shutil.copytree if (ROOT / source).is_dir() else shutil.copy)(ROOT / source, directory / name)
    namespace = {"__name__": "__main__"}
    printed = None

    with asyncio.Runner() as runner:
        for language, line, code in blocks(path):
            if language == "python":
                printed = run_block(path, line, code, namespace, runner)
            elif language == "text" and printed is not None:
                assert printed == code, f"{path.name}:{line}"
                printed = None


def test_the_readme_begins_with_the_installation_and_an_agent_of_six_lines():
    found = [(language, code) for language, _, code in blocks(ROOT / "README.md")]

    assert found[0] == ("sh", "pip install turntree\n")
    assert found[1][0] == "python"
    assert len([line for line in found[1][1].splitlines() if line]) == 6
    assert found[2][0] == "text"


def test_the_readme_has_the_commands_of_contributors():
    commands = [code for language, _, code in blocks(ROOT / "README.md") if language == "sh"]

    assert [line.split("  ")[0] for line in commands[1].splitlines()] == ["make demo", "make test"]


def links(path):
    return re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text(encoding="utf-8"))


def test_the_links_of_the_readme_are_absolute_and_its_files_exist():
    found = links(ROOT / "README.md")

    files = [target.removeprefix(REPOSITORY) for target in found if target.startswith(REPOSITORY)]
    assert [target for target in found if "://" not in target] == []
    assert files
    assert [name for name in files if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_the_links_of_a_document_resolve(path):
    local = [target for target in links(path) if "://" not in target]

    assert [target for target in local if not (path.parent / target).exists()] == []

"""Runs the code of a document: in the tests, and as a program in an environment that has turntree and little else.

    python docs_pages.py DOCUMENT...

Needs the standard library and turntree. Every ```python block runs, in order; a ```text block after it contains its
expected output.
"""

import ast
import asyncio
import inspect
import io
import os
import re
import shutil
import sys
import tempfile
import warnings
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path

from turntree.testing import ToolCall, serve
from turntree.upp import _registry

ROOT = Path(__file__).resolve().parents[3]
PAGES = [path for path in sorted((ROOT / "docs").rglob("*.md")) if "decisions" not in path.parts]
DOCUMENTS = [ROOT / "README.md", *PAGES]
# Its blocks need other packages and run in tests/python/uamp.
TESTED_ELSEWHERE = {"clients.md"}
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What a page reads and its reader has already: the path in the directory of the page, and the source.
FILES = {
    "command-line.md": {"examples/data": "examples/data"},
    "import.md": {
        "openai.db": "tests/data/imports/openai.db",
        "langgraph.db": "tests/data/imports/langgraph.db",
        "histories": "examples/data",
    },
}


def blocks(path):
    """The fenced blocks of a document: language, line of the first code line, code."""
    text = path.read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        yield match[1], text.count("\n", 0, match.start(2)), match[2]


def imported(code):
    """The names of the modules that a block imports. Blocks with parts left out have none."""
    try:
        tree = compile(code, "block", "exec", flags=ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError:
        return set()
    nodes = list(ast.walk(tree))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    return {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"turntree"}


@contextmanager
def named_model():
    """`"openai:…"` calls a tool and answers, on this machine: a document may run it as its reader does."""
    factory = _registry._FACTORIES["openai"]
    with serve([ToolCall("weather", {"city": "Tokyo"}), "Take sunglasses."]) as server:
        _registry._FACTORIES["openai"] = partial(factory, base_url=server.base_url, api_key="none")
        try:
            yield
        finally:
            _registry._FACTORIES["openai"] = factory


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


def run_document(path, directory):
    """Run the blocks of a document in the current directory. Raises AssertionError for other output."""
    for name, source in FILES.get(path.name, {}).items():
        (shutil.copytree if (ROOT / source).is_dir() else shutil.copy)(ROOT / source, directory / name)
    namespace = {"__name__": "__main__"}
    printed = None
    with named_model(), asyncio.Runner() as runner:
        for language, line, code in blocks(path):
            if language == "python":
                printed = run_block(path, line, code, namespace, runner)
            elif language == "text" and printed is not None:
                assert printed == code, f"{path.name}:{line}: printed {printed!r}"
                printed = None


def main():
    """Run documents, each in an empty directory."""
    warnings.simplefilter("error")
    for name in sys.argv[1:]:
        path = Path(name).resolve()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            run_document(path, Path(folder))
            os.chdir(ROOT)


if __name__ == "__main__":
    main()

"""The code of the README and the guides runs.

Every ```python block runs, in order; a ```text block after it contains its expected output.
"""

import ast
import asyncio
import inspect
import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


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


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_the_code_of_a_document_runs(path, monkeypatch):
    monkeypatch.chdir(ROOT)
    namespace = {"__name__": "__main__"}
    printed = None

    with asyncio.Runner() as runner:
        for language, line, code in blocks(path):
            if language == "python":
                printed = run_block(path, line, code, namespace, runner)
            elif language == "text" and printed is not None:
                assert printed == code, f"{path.name}:{line}"
                printed = None


def test_the_readme_has_an_example():
    languages = [language for language, _, _ in blocks(ROOT / "README.md")]

    assert languages.count("python") >= 1
    assert "text" in languages


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_the_links_of_a_document_resolve(path):
    text = path.read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    local = [target for target in targets if "://" not in target]

    assert [target for target in local if not (path.parent / target).exists()] == []

"""The blocks of the pages for beginners work as cells of a notebook, one after another, and in `python -m asyncio`."""

import ast
import re
import subprocess
import sys

import nbformat
import pytest
from docs_pages import ROOT, blocks
from nbclient import NotebookClient

PAGES = [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in ("tutorial", "getting-started", "notebooks"))]
# "openai:…" calls a tool and answers, on this machine.
MODEL = """
from functools import partial
from turntree.testing import ToolCall, serve
from turntree.upp import _registry
_server = serve([ToolCall("weather", {"city": "Tokyo"}), "Take sunglasses."]).__enter__()
_registry._FACTORIES["openai"] = partial(_registry._FACTORIES["openai"], base_url=_server.base_url, api_key="none")
"""


def pasted(path):
    """The blocks of a page in Python, each with what it prints; None if the page does not say it."""
    code = None
    for language, _, text in blocks(path):
        if code is not None and language in ("python", "text"):
            yield code, text if language == "text" else None
            code = None
        if language == "python":
            code = text
    if code is not None:
        yield code, None


def statements(code):
    """The statements of a block, as somebody pastes them one by one."""
    lines = code.splitlines()
    tree = compile(code, "block", "exec", flags=ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for statement in tree.body:
        first = min([statement.lineno, *(each.lineno for each in getattr(statement, "decorator_list", []))])
        yield "\n".join(lines[first - 1 : statement.end_lineno])


@pytest.fixture
def execute(tmp_path, monkeypatch):
    """Run cells in one kernel. Returns what each has printed."""
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))

    def run(sources):
        folder = tmp_path / "folder"
        folder.mkdir()
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
        resources = {"metadata": {"path": str(folder)}}
        NotebookClient(notebook, timeout=60, kernel_name="python3", resources=resources).execute()
        for cell in notebook.cells:
            assert [each.text for each in cell.outputs if each.output_type == "stream" and each.name == "stderr"] == []
        return ["".join(map(shown, cell.outputs)) for cell in notebook.cells]

    return run


def shown(output):
    """What an output of a cell has printed; rich prints in colours by a display of its own."""
    if output.output_type == "display_data":
        return re.sub(r"\x1b\[[\d;]*m", "", output.data["text/plain"])
    return output.text if output.output_type == "stream" else ""


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_each_block_works_as_a_cell_after_those_before_it(path, execute):
    found = list(pasted(path))
    printed = execute([MODEL, *(code for code, _ in found)])[1:]

    assert len(found) >= 3
    for (code, expected), text in zip(found, printed, strict=True):
        assert expected is None or text == expected, code


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_each_statement_works_as_a_cell_after_those_before_it(path, execute):
    found = [(list(statements(code)), expected) for code, expected in pasted(path)]
    printed = iter(execute([MODEL, *(source for sources, _ in found for source in sources)])[1:])

    for sources, expected in found:
        text = "".join(next(printed) for _ in sources)
        assert expected is None or text == expected, sources


def test_the_lines_of_the_tutorial_work_in_the_prompt_of_asyncio(tmp_path):
    found = list(pasted(ROOT / "docs" / "tutorial.md"))
    lines = "".join(f"print('<begin>')\n{code}\nprint('<end>')\n" for code, _ in found)
    command = [sys.executable, "-m", "asyncio"]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=True)

    assert "Error" not in done.stderr, done.stderr
    printed = re.findall("<begin>\n(.*?)<end>\n", re.sub(r">>> |\.\.\. ", "", done.stdout), re.DOTALL)
    for (code, expected), text in zip(found, printed, strict=True):
        assert expected is None or expected in text, code

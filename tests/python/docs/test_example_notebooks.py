"""The notebooks of examples/notebooks run in a real kernel, without network and keys, and end in a picture."""

import asyncio
import os
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.timeout(300)  # the first test waits for all notebooks

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
PRIVATE = re.compile(r"_API_KEY$|_PROXY$|^TURNTREE_MODEL$|^DATABASE_URL$", re.IGNORECASE)

# What a cell prints or returns when all of the notebook works.
EXPECTED = {
    "01_first_agent": "A graph **without cycles**",
    "02_tools_and_structured_output": "Packing(city='Tokyo', items=['sunglasses', 'hat'])",
    "03_branches_checkpoints_merge": "└─ plane · 2 messages · And by plane?",
    "04_sub_agents": "Turn('They wait for the tide, because the channel is shallow.', 2 tool calls",
    "05_approval": "[('Ann', 20)]",
    "06_pydantic_ai_and_thread_protocol": "True",
    "07_vercel_ai_sdk_backend": 'data: {"type":"start"',
    "08_durable_sessions": "NETWORK_ERROR ['12A'] True\n['12A']",
    "09_record_and_replay": "True 2 exchanges",
}


@pytest.fixture(scope="module")
def kernel_environment(tmp_path_factory):
    """The environment of a user without keys and with empty settings of Jupyter."""
    home = tmp_path_factory.mktemp("jupyter")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if PRIVATE.search(name)]:
            patch.delenv(name)
        for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
            patch.setenv(name, str(home / name.lower()))
        yield patch


async def execute(path, folder):
    """Execute a notebook away from the checkout. Returns its code cells, and the text of all outputs."""
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    await NotebookClient(
        notebook, timeout=120, startup_timeout=120, kernel_name="python3", resources=resources
    ).async_execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    texts = [text_of(output) for cell in cells for output in cell.outputs]
    return cells, "\n".join(text.rstrip("\n") for text in texts)


@pytest.fixture(scope="module")
def executed(kernel_environment, tmp_path_factory):
    """All notebooks, three at a time: most of the time of each is the start of its kernel."""
    at_once = asyncio.Semaphore(3)

    async def one(path):
        async with at_once:
            return await execute(path, tmp_path_factory.mktemp(path.stem))

    async def all_of_them():
        return await asyncio.gather(*map(one, NOTEBOOKS), return_exceptions=True)

    return dict(zip(NOTEBOOKS, asyncio.run(all_of_them()), strict=True))


def text_of(output):
    if output.output_type == "stream":
        assert output.name == "stdout", output.text
        return output.text
    return output.data["text/plain"]


def drawing_of(html):
    """The SVG drawing of an output."""
    drawing = re.search(r"<svg [^>]*>.*?</svg>", html, re.DOTALL)
    assert drawing is not None, "the last code cell displays no SVG"
    return drawing[0]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_offline_and_ends_in_a_picture(path, executed):
    if isinstance(executed[path], BaseException):
        raise executed[path]
    cells, text = executed[path]

    assert EXPECTED[path.stem] in text
    picture = cells[-1].outputs[-1].data["text/html"]
    assert "<script" not in picture
    assert "<title>" in drawing_of(picture)  # what a person reads at a part of the drawing


def test_the_notebook_of_durable_sessions_runs_on_postgres(kernel_environment, tmp_path):
    url = os.environ.get("TURNTREE_TEST_POSTGRES")
    if not url:
        pytest.skip("NOT TESTED: no PostgreSQL; see make services")

    with kernel_environment.context() as patch:
        patch.setenv("DATABASE_URL", f"{url}{'&' if '?' in url else '?'}schema=notebook_{os.getpid()}")
        _, text = asyncio.run(execute(FOLDER / "08_durable_sessions.ipynb", tmp_path))

    assert EXPECTED["08_durable_sessions"] in text


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs_and_has_the_switch(path):
    notebook = nbformat.read(path, as_version=4)

    nbformat.validate(notebook)
    assert all(not cell.get("outputs") for cell in notebook.cells)
    assert any('os.environ.get("TURNTREE_MODEL")' in cell.source for cell in notebook.cells)


def test_every_notebook_is_tested():
    assert [path.stem for path in NOTEBOOKS] == sorted(EXPECTED)

"""turntree in a real Jupyter kernel, where an event loop is always running."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).resolve().parents[2] / "notebooks" / "agent.ipynb"


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """Run the notebook once. Returns the output of each tagged cell as text."""
    home = tmp_path_factory.mktemp("notebook")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
            patch.setenv(name, str(home / name.lower()))
        notebook = nbformat.read(NOTEBOOK, as_version=4)
        # Away from the checkout: the kernel must find the installed wheel.
        resources = {"metadata": {"path": str(home)}}
        NotebookClient(notebook, timeout=40, kernel_name="python3", resources=resources).execute()
    return {
        tag: "".join(text_of(output) for output in cell.outputs)
        for cell in notebook.cells
        for tag in cell.metadata.get("tags", [])
    }


def text_of(output):
    if output.output_type == "stream":
        assert output.name == "stdout", output.text
        return output.text
    return output.data["text/plain"]


def test_the_notebook_awaits_a_run(outputs):
    assert outputs["await-run"] == "'It is sunny in Tokyo.'"


def test_tools_run_on_the_loop_of_the_kernel(outputs):
    assert outputs["tools"] == "[('weather', {'city': 'Tokyo'}, 'Tokyo: sunny', True)]"


def test_run_sync_works_inside_the_running_loop(outputs):
    assert outputs["run-sync"] == "'It is sunny in Tokyo.'"


def test_the_notebook_iterates_a_stream_with_async_for(outputs):
    assert outputs["async-for"] == "one two three\n"


def test_the_turn_is_available_after_the_stream(outputs):
    assert outputs["turn-after-stream"] == "'one two three'"


def test_many_runs_execute_concurrently_in_a_notebook(outputs):
    assert outputs["gather"] == "['0', '1', '2', '3', '4']"


def test_leaving_a_stream_early_leaves_the_kernel_usable(outputs):
    assert outputs["break"] == "stopped\nstill here\n"


def test_turntree_does_not_change_the_event_loop_of_the_kernel(outputs):
    assert outputs["loop"] == "True"


def test_the_notebook_is_stored_without_outputs():
    notebook = nbformat.read(NOTEBOOK, as_version=4)

    assert all(not cell.get("outputs") for cell in notebook.cells)

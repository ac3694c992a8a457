"""The graph of a workflow as Mermaid text, in notebooks and in the terminal."""

import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from turntree.uaip import Workflow


def shop() -> Workflow:
    made = Workflow("shop", "Sells <things>.")
    made.stage("browse")
    made.stage('my "cart"')
    made.stage("done")
    made.transition("browse", 'my "cart"')
    made.transition('my "cart"', "browse")
    made.transition('my "cart"', "done", when=lambda state: True)

    @made.task(stage="browse")
    def search() -> None: ...

    return made


def test_mermaid_text_has_stages_tasks_transitions_and_the_current_stage():
    assert shop().graph(current="browse") == (
        "flowchart LR\n"
        "    start((start)) --> s0\n"
        '    s0["<b>browse</b><br/>search"]\n'
        '    s1["<b>my #quot;cart#quot;</b>"]\n'
        '    s2["<b>done</b>"]\n'
        "    s0 --> s1\n"
        "    s1 --> s0\n"
        "    s1 -. guarded .-> s2\n"
        "    classDef current fill:#2563eb,stroke:#1e3a8a,color:#ffffff\n"
        "    class s0 current\n"
    )


def test_an_unknown_current_stage_is_a_key_error():
    with pytest.raises(KeyError, match="did you mean"):
        shop().graph(current="brows")


def test_notebooks_show_the_graph_with_escaped_text():
    shown = shop()._repr_html_()

    assert "Sells &lt;things&gt;." in shown
    svg = ET.fromstring(shown[shown.index("<svg") : shown.index("</svg>") + len("</svg>")])
    texts = [element.text for element in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["browse", "1 task", 'my "cart"', "0 tasks", "done", "0 tasks"]
    assert shop()._repr_markdown_().startswith("```mermaid\nflowchart LR\n")


def test_a_workflow_that_is_not_finished_shows_its_error():
    unfinished = Workflow("shop", "<b>")

    assert "it has no stages" in unfinished._repr_html_()
    assert "<b>" not in unfinished._repr_html_()
    assert unfinished._repr_markdown_().startswith("```text\nworkflow")


PROGRAM = """
from turntree.uaip import Workflow

wf = Workflow("shop", "Sells \\x1b[31mthings.")
wf.stage("browse")
wf.stage("done")
wf.transition("browse", "done", when=lambda state: True)

@wf.task(stage="browse")
def search() -> None: ...

broken = Workflow("broken")
"""


def run(tmp_path, *arguments):
    (tmp_path / "shop_program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "turntree", "uaip", "graph", *arguments]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8")


def test_the_command_draws_the_graph_in_the_terminal(tmp_path):
    done = run(tmp_path, "shop_program:wf", "--current", "done")

    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "shop: Sells �[31mthings.\n○ browse (initial): search\n    → done (guarded)\n● done (terminal): no tasks\n"
    )


def test_the_command_prints_mermaid_text(tmp_path):
    done = run(tmp_path, "shop_program:wf", "--format", "mermaid")

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("flowchart LR\n")


@pytest.mark.parametrize(
    ("target", "status", "message"),
    [
        ("shop_program", 2, "expected MODULE:WORKFLOW"),
        ("shop_program:none", 2, "expected a Workflow"),
        ("no_such_module:wf", 2, "there is no module 'no_such_module'"),
        ("shop_program:broken", 1, "it has no stages"),
        ("shop_program:Workflow", 2, "expected a Workflow"),
    ],
)
def test_the_command_with_a_wrong_object_explains_it(tmp_path, target, status, message):
    done = run(tmp_path, target)

    assert done.returncode == status
    assert message in done.stderr
    assert "Traceback" not in done.stderr

"""Tab and Shift-Tab in a real kernel: the requests that front ends send, with jedi and with IPython's own completer."""

import re

import pytest
from kernel_support import Kernel

SETUP = """
import turntree
from turntree import agent, session
from turntree.upp import scripted
helper = agent(model=scripted(lambda request: "Fine."))
turn = await helper.run("Hi")
talk = session(helper)
_ = await talk.run("Hi")
"""

RUN_OPTIONS = {"deps=", "params=", "settings=", "model=", "metadata=", "timeout=", "limits=", "on_approval="}


@pytest.fixture(scope="module", params=[True, False], ids=["jedi", "IPython"])
def kernel(request, tmp_path_factory):
    with Kernel.started(tmp_path_factory.mktemp("kernel")) as started:
        cell = started.run(f"%config IPCompleter.use_jedi = {request.param}\n{SETUP}")
        assert cell.error == "", cell.traceback
        yield started


def names(kernel, code):
    """The completions of code, without the text before them."""
    return {re.sub(r".*\.", "", name) for name in kernel.complete(code)}


@pytest.mark.parametrize(
    ("code", "some"),
    [
        ("helper.", {"run", "run_sync", "stream", "map", "with_"}),
        ("turn.", {"text", "data", "usage", "messages", "tool_executions"}),
        ("turn.usage.", {"input_tokens", "total_tokens", "cost"}),
        ("turn.messages[-1].", {"text", "content", "timestamp"}),
        ("talk.", {"run", "resume", "tree", "approve_all", "discard"}),
        ("talk.tree.", {"branch", "checkout", "current", "history"}),
        ("talk.tree.current.", {"name", "thread", "children", "parent_id"}),
        ("talk.checkpoints[0].", {"state", "step", "timestamp"}),
        ("turntree.", {"agent", "session", "Agent", "store", "exceptions"}),
    ],
)
def test_attributes_are_completed_with_their_public_names(kernel, code, some):
    found = names(kernel, code)

    assert some <= found
    assert [name for name in found if name.startswith("_")] == []


@pytest.mark.parametrize(
    ("code", "some"),
    [
        ("talk.tree.current.th", {"thread"}),
        ("helper.run_", {"run_sync"}),
        ("from turntree import ag", {"agent"}),
        ("from turntree import session, as", {"ask"}),
    ],
)
def test_the_beginning_of_a_name_is_completed(kernel, code, some):
    assert names(kernel, code) == some


@pytest.mark.parametrize(
    "call",
    [
        "helper.run('Hi', ",
        "helper.run_sync(",
        "await helper.run(",
        "helper.stream('Hi', ",
        "helper.map(['Hi'], ",
        "talk.run('Hi', ",
        "talk.resume(",
    ],
)
def test_options_of_runs_are_completed(kernel, call):
    assert set(kernel.complete(call)) >= RUN_OPTIONS
    assert kernel.complete(f"{call}tim")[0] == "timeout="


def test_arguments_of_agents_and_sessions_are_completed(kernel):
    assert {"model=", "tools=", "system=", "structure="} <= set(kernel.complete("agent("))
    assert {"id=", "persistence=", "metadata="} <= set(kernel.complete("session(helper, "))


def test_completion_reads_no_property_that_runs_something(kernel):
    kernel.run("stream = helper.stream_sync('Hi')")
    kernel.complete("stream.turn.")

    cell = kernel.run("[event.uap.type for event in stream if event.uap][0]")
    assert cell.printed == "'step_start'", cell.traceback


@pytest.mark.parametrize(
    ("name", "some"),
    [
        (
            "helper.run",
            ["Signature:", "*arguments", "timeout: 'float | None' = None", "Run the agent and return the turn."],
        ),
        (
            "helper.map",
            ["inputs:", "concurrency:", "limits: 'Limits | None' = None", "Run the agent once for each input"],
        ),
        ("turntree.agent", ["model:", "tools:", "Create an agent."]),
        ("talk.run", ["input: 'Input'", "deps: 'DepsT | None' = None", "add the turn to the current node"]),
        ("talk.tree", ["The conversation: always the same mutable tree."]),
        ("talk.tree.branch", ["(from_id, name=None, *, after=None)", "Start a branch at a node."]),
    ],
)
def test_tooltips_have_the_signature_and_the_docstring(kernel, name, some):
    text = kernel.inspect(name)

    assert [each for each in some if each not in text] == []
    assert "**options" not in text.split("Docstring:")[0]

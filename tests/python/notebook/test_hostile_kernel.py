"""Hostile content in a real kernel: what reaches the front end has no scripts, is small, and reorders nothing."""

import re

import pytest
from kernel_support import Kernel
from test_display import TAGS, Checked, hostile_values

SETUP = """
import sys
sys.path[:0] = [{folders}]
from test_display import HOSTILE, hostile_values
from turntree import PlanStep, ThreadTree, agent, session
from turntree import thread_protocol as tp
from turntree.notebook import live
from turntree.upp import Text, ToolCall, UPPError, UserMessage, scripted

call = ToolCall("c", "absent", {{"__proto__": {{"polluted": HOSTILE}}, "constructor": HOSTILE}})
talk = session(agent(model=scripted([call, HOSTILE]), name=HOSTILE))
await talk.run(HOSTILE)
turn = await talk.run(HOSTILE)
large = "</script><b>\\u202e" + "x" * 10_000_000
tree = ThreadTree([UserMessage(large)])
tree.branch(tree.root.id, HOSTILE)
failed = UPPError(large, code="RATE_LIMITED", provider=HOSTILE, modality="llm")
"""
# Cells, and words that their outputs must have.
CELLS = {
    "turn": "⟨U+202E⟩",
    "talk": "⟨U+202E⟩",
    "talk.tree": "⟨U+202E⟩",
    "talk.checkpoints[-1]": "step",
    "talk.run(HOSTILE)": "await",
    "tp.from_upp(talk)": "polluted",
    "await live(agent(model=scripted([HOSTILE])), HOSTILE)": "⟨U+202E⟩",
    "[turn, talk, talk.tree.history()]": "alert",
    "{'__proto__': turn.messages}": "__proto__",
    "turn.tool_executions": "[",
    "tree": "xxx…",
    "[*tree.nodes.values()]": "ThreadNode",
    "Text(large)": "xxx",
    "[ToolCall('c', large, {large: large})]": "xxx",
    "agent(model=scripted([])).run(large)": "await",
    "failed": "RATE_LIMITED",
    "raise failed": "more characters",
    **{f"hostile_values()[{index}]": "" for index in range(len(hostile_values()))},
}
CONTROLS = re.compile("[\u202a-\u202e\u2066-\u2069\x00-\x08\x0b-\x1f\x7f-\x9f]")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # of IPython's tracebacks


@pytest.fixture(scope="module")
def kernel(tmp_path_factory, request):
    folder = request.path.parent
    with Kernel.started(tmp_path_factory.mktemp("kernel")) as kernel:
        code = SETUP.format(folders=f"{str(folder)!r}, {str(folder.parent)!r}")
        assert kernel.run(code).traceback == ""
        yield kernel


@pytest.mark.parametrize("code", CELLS)
def test_a_cell_with_hostile_values_shows_text(kernel, code):
    cell = kernel.run(code)

    outputs = [(kind, text) for data in (cell.value, *cell.displays) for kind, text in data.items()]
    outputs.append(("text/plain", cell.printed + COLOURS.sub("", cell.traceback)))
    assert CELLS[code] in "".join(text for _, text in outputs)
    assert bool(cell.error) is code.startswith("raise")
    for kind, text in outputs:
        assert not CONTROLS.search(text), (kind, ascii(CONTROLS.search(text)))
        assert len(text) < (1_500_000 if kind == "text/html" else 150_000), kind
        if kind == "text/html":
            assert set(Checked(text).tags) <= set(TAGS.split())
        elif kind == "text/markdown":
            assert "<script" not in text

"""Live runs, `%chat` and values without `await`, in a real kernel and outside of one."""

import re

import pytest
from kernel_support import Kernel

from turntree import agent, session
from turntree.notebook import live
from turntree.upp import ToolCall, scripted, tool

SETUP = r"""
import asyncio
from turntree import Session, agent, session
from turntree.notebook import live
from turntree.upp import Reply, ToolCall, UserMessage, scripted, tool

@tool
async def weather(city: str) -> str:
    "Return the weather."
    return f"{city}: sunny"

@tool
async def sleep(n: int) -> str:
    "Wait."
    print("WAITING", flush=True)
    await asyncio.sleep(60)

@tool(approval="ask")
def pay(to: str) -> str:
    "Pay."
    return f"paid {to}"

def packer():
    look = ToolCall("c1", "weather", {"city": "Tokyo"})
    model = scripted([look, Reply("Take **sunglasses** today.", pace=0.1), "Yes."])
    return session(agent(model=model, tools=[weather], name="packer"))
"""

# ipywidgets is optional: this has the part of it that the buttons need, and shows nothing.
WIDGETS = r"""
import sys, types
from importlib.machinery import ModuleSpec

made = []

class Widget:
    def __init__(self, children=(), description="", value="", **options):
        self.children, self.description, self.value, self.disabled = children, description, value, False
        self.clicked, self.changed = [], []
        made.append(self)
    def on_click(self, function):
        self.clicked.append(function)
    def observe(self, function, names):
        self.changed.append(function)
    def click(self):
        for function in self.clicked:
            function(self)

class Box(Widget):
    pass

widgets = types.ModuleType("ipywidgets")
widgets.__spec__ = ModuleSpec("ipywidgets", None)
widgets.Button = widgets.Text = widgets.Label = lambda value="", **options: Widget(value=value, **options)
widgets.HBox = widgets.VBox = Box
sys.modules["ipywidgets"] = widgets

def buttons(name):
    return [each for each in made if each.description == name]

def decide(to, name):
    "Click a button of the question about a call."
    for box in list(made):
        if len(box.children) == 3 and to in box.children[0].value:
            next(each for each in box.children if each.description == name).click()

async def until(found):
    while not found():
        await asyncio.sleep(0.01)
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    with Kernel.started(tmp_path_factory.mktemp("kernel")) as kernel:
        assert kernel.run(SETUP).traceback == ""
        yield kernel


def last(cell):
    return cell.displays[-1]["text/html"]


def test_a_run_is_shown_while_it_goes_on_and_ends_as_its_turn(kernel):
    cell = kernel.run("trip = packer()\nturn = await live(trip, 'What do I pack?')\nturn.text")

    assert cell.traceback == ""
    assert cell.printed == "'Take **sunglasses** today.'"
    assert any("running" in shown["text/html"] for shown in cell.displays)
    assert "Tokyo: sunny" in last(cell)
    assert "<strong>sunglasses</strong>" in last(cell)
    assert "1 tool call · 2 model calls" in last(cell)


def test_the_value_of_the_cell_is_not_shown_twice(kernel):
    cell = kernel.run("trip = packer()\nawait live(trip, 'What do I pack?')")

    assert cell.value == {"text/plain": "Turn('Take **sunglasses** today.', 1 tool call, 17 tokens)"}
    # The turn is shown in full in the cells after it.
    assert "<strong>sunglasses</strong>" in kernel.run("_").value["text/html"]


def test_a_display_is_updated_at_most_ten_times_a_second(kernel):
    cell = kernel.run("await live(agent(model=scripted([Reply('word ' * 200, pace=0.002)])), 'Go');")

    assert cell.traceback == ""
    # The kernel's own time stamps: between two updates is a tenth of a second, whatever the load of the machine.
    gaps = [after - before for before, after in zip(cell.updates, cell.updates[1:], strict=False)]
    assert len(gaps) >= 2
    assert min(gaps) > 0.095


def test_stop_shows_how_to_go_on(kernel):
    kernel.run("stopped = session(agent(model=scripted([ToolCall('c1', 'sleep', {'n': 1}), 'Done.']), tools=[sleep]))")
    cell = kernel.run("await live(stopped, 'Go')", stop_at="WAITING")

    assert cell.error in ("CancelledError", "KeyboardInterrupt")
    assert "stopped. Write await session.resume() to continue" in last(cell)
    assert kernel.run("6 * 7").printed == "42"


def test_an_error_is_shown_as_text_and_raised(kernel):
    cell = kernel.run("await live(agent(model=scripted([ValueError('<script>x</script>')])), 'Go')")

    assert cell.error == "ValueError"
    assert "&lt;script&gt;x&lt;/script&gt;" in last(cell)
    assert "<script" not in last(cell)


def test_hostile_text_and_calls_are_escaped_while_the_run_goes_on(kernel):
    kernel.run(
        "bad = '<script>alert(1)</script>\\u202egnp.exe'\n"
        "model = scripted([[bad, ToolCall('c', bad, {bad: bad})], Reply(bad, pace=0.05)])"
    )
    cell = kernel.run("await live(agent(model=model, tools=[weather]), bad);")

    assert cell.traceback == ""
    assert len(cell.displays) >= 2
    for shown in cell.displays:
        assert "<script" not in shown["text/html"]
        assert "\u202e" not in shown["text/html"]
        assert "\u202e" not in shown["text/plain"]


def test_without_await_the_cell_says_what_to_write(kernel):
    assert kernel.run("live(packer(), 'Go')").printed == "This run has not begun. Write: turn = await live(…)"


def test_buttons_stop_approve_and_deny_a_run_in_the_background(kernel):
    assert kernel.run(WIDGETS).traceback == ""
    kernel.run(
        "calls = [ToolCall('a', 'pay', {'to': 'Ann'}), ToolCall('b', 'pay', {'to': 'Bob'})]\n"
        "payments = session(agent(model=scripted([calls, 'Ann is paid.', 'Welcome.']), tools=[pay]))"
    )
    assert kernel.run("run = live(payments, 'Pay').start()").traceback == ""
    cell = kernel.run(
        "await until(lambda: len(buttons('Approve')) == 2)\n"
        "decide('Ann', 'Approve'); decide('Bob', 'Deny')\n"
        "turn = await run\n"
        "sorted((execution.arguments['to'], execution.approved) for execution in turn.tool_executions)"
    )

    assert cell.printed == "[('Ann', True), ('Bob', False)]"
    cell = kernel.run(
        "field = next(each for each in made if each.changed)\n"
        "assert not field.disabled\n"
        "field.changed[0]({'new': 'Thank you'})\n"
        "await until(lambda: payments.tree.history()[-1].text == 'Welcome.')"
    )
    assert cell.traceback == ""
    kernel.run("made.clear()\nwaiting = session(agent(model=scripted([Reply('late', delay=60)])))")
    cell = kernel.run(
        "run = live(waiting, 'Go').start()\nawait until(lambda: buttons('Stop'))\nbuttons('Stop')[0].click()\nawait run"
    )
    assert cell.error == "CancelledError"
    kernel.run("del sys.modules['ipywidgets']")


def test_the_chat_magics_send_messages_to_a_session(kernel):
    assert kernel.run("%load_ext turntree\ntrip = packer()").traceback == ""
    cell = kernel.run("%%chat trip\nWhat do I pack?\n  For a week.")

    assert cell.traceback == ""
    assert "<strong>sunglasses</strong>" in last(cell)
    assert "Turn('Take" in cell.printed
    cell = kernel.run("answer = %chat trip And then?\nanswer.text, trip.tree.history()[0].text")
    assert cell.printed == "('Yes.', 'What do I pack?\\n  For a week.')"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("%%chat nobody\nHi", "nobody is not defined"),
        ("%chat made Hi", "made is list"),
        ("%%chat trip\n ", "the message is empty"),
        ("%chat", "write %%chat NAME and the message below it"),
    ],
)
def test_the_chat_magics_say_what_is_wrong(kernel, code, said):
    kernel.run("%load_ext turntree\nmade = []\ntrip = packer()")

    assert said in kernel.run(code).warned


def test_a_list_of_messages_is_a_conversation_after_the_extension_is_loaded(kernel):
    kernel.run("%load_ext turntree")

    assert '<div class="m"' in kernel.run("[UserMessage('Hi')]").value["text/html"]
    assert "text/html" not in kernel.run("[UserMessage('Hi'), 1]").value
    assert "text/html" not in kernel.run("[]").value
    kernel.run("%unload_ext turntree")
    assert "text/html" not in kernel.run("[UserMessage('Hi')]").value
    assert "chat" not in kernel.run("sorted(get_ipython().magics_manager.magics['line'])").printed


def test_a_turn_and_a_tree_are_rich_in_a_kernel(kernel):
    kernel.run("trip = packer()\nturn = await trip.run('What do I pack?')")

    shown = kernel.run("turn").value
    assert "<strong>sunglasses</strong>" in shown["text/html"]
    assert shown["text/markdown"].startswith("Take **sunglasses** today.")
    assert shown["text/plain"] == "Turn('Take **sunglasses** today.', 1 tool call, 17 tokens)"
    assert "<svg" in kernel.run("trip.tree").value["text/html"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "agent(model=scripted([])).run('Hi')",
            "result = await agent.run(…)\nWithout await: result = agent.run_sync(…)",
        ),
        ("packer().resume()", "result = await session.resume(…)"),
        ("agent(model=scripted([])).stream('Hi')", "turn = await stream"),
        ("agent(model=scripted([])).stream('Hi').turn", "turn = await stream.turn"),
        ("agent(model=scripted([])).map(['Hi'])", "async for turn in agent.map(…)"),
        ("Session.load('memory:', 'x', agent(model=scripted([])))", "result = await Session.load(…)"),
        ("Session.open('memory:', 'x', agent(model=scripted([])))", "result = await Session.open(…)"),
    ],
)
def test_a_value_without_await_says_what_to_write(kernel, code, said):
    cell = kernel.run(code)

    assert said in cell.printed
    assert "<pre>" in cell.value["text/html"]


def test_coroutines_of_others_are_shown_as_before(kernel):
    cell = kernel.run("waiting = asyncio.sleep(0)\nwaiting")

    assert re.match(r"<coroutine object sleep at 0x\w+>", cell.printed)
    assert "text/html" not in cell.value
    kernel.run("await waiting")


@tool
async def weather(city: str) -> str:
    """Return the weather."""
    return f"{city}: \x1b[31msunny"


async def test_outside_a_notebook_a_run_is_printed(capsys):
    model = scripted([["Let me look.", ToolCall("c1", "weather", {"city": "Tokyo"})], "Take \x1b[2Jsunglasses."])
    turn = await live(session(agent(model=model, tools=[weather])), "What do I pack?")

    printed = capsys.readouterr().out
    assert turn.text == "Take \x1b[2Jsunglasses."
    assert printed.startswith(
        "Let me look.\n"
        '[weather(city="Tokyo")]\n'
        "[weather returned Tokyo: ⟨U+001B⟩[31msunny]\n"
        "Take ⟨U+001B⟩[2Jsunglasses.\n"
        "[done · 1 tool call · 2 model calls · "
    )
    assert "\x1b" not in printed


async def test_a_run_is_awaited_as_often_as_one_likes():
    run = live(agent(model=scripted(["Hi."])), "Go")

    assert await run is await run
    assert repr(run) == "This run has ended. Write: turn = await run, with run = live(…).start()"


async def test_a_failed_run_raises_outside_a_notebook(capsys):
    with pytest.raises(ValueError, match="no"):
        await live(agent(model=scripted([ValueError("no")])), "Go")

    assert "[failed: ValueError: no]" in capsys.readouterr().out


async def test_live_takes_agents_and_sessions():
    with pytest.raises(TypeError, match="live takes an agent or a session, not str"):
        live("agent", "Go")
    with pytest.raises(TypeError, match="send needs a session"):
        live(agent(model=scripted([])), "Go").send("more")

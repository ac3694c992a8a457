"""The Stop button of Jupyter ends coroutines that wait, in a real kernel."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from kernel_support import Kernel

SETUP = """
import asyncio, signal, socket, threading
from turntree import agent, session
from turntree.upp import Reply, ToolCall, openai, scripted, tool

released = threading.Event()
blocked = threading.Event()

def announced(request):
    "Answer after a minute, and say that the request has come."
    asyncio.get_running_loop().call_soon(lambda: print("WAITING", flush=True))
    return Reply("late", delay=60)

@tool
async def sleep(n: int) -> str:
    "Wait."
    print("WAITING", flush=True)
    await asyncio.sleep(60)

@tool
def block(n: int) -> str:
    "Wait in a thread."
    print("WAITING", flush=True)
    blocked.set()
    released.wait(60)

@tool(approval="ask")
async def guarded(n: int) -> str:
    "Wait for a person."

async def ask_forever(pending):
    print("WAITING", flush=True)
    await asyncio.sleep(60)

listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
silent = openai("gpt", "completions", base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", api_key="key")

def announce_connection():
    connection, _ = listener.accept()
    connection.recv(1)
    print("WAITING", flush=True)
    globals()["kept"] = connection

def calls(name):
    return scripted([ToolCall("c1", name, {"n": 1}), "Done."])
"""

# How long the waits take without an interruption, in seconds: 60. Stop takes about 0.1 s on a quiet machine.
BOUND = 10

CELLS = {
    "an async tool": "await agent(model=calls('sleep'), tools=[sleep]).run('Go')",
    "a sync tool": "await agent(model=calls('block'), tools=[block], cleanup_timeout=60).run('Go')",
    "a late answer": "await agent(model=scripted(announced)).run('Go')",
    "a silent host": "threading.Thread(target=announce_connection).start()\nawait agent(model=silent).run('Go')",
    "a stream": "async for event in agent(model=calls('sleep'), tools=[sleep]).stream('Go'): pass",
    "a stream with a sync tool": (
        "async for event in agent(model=calls('block'), tools=[block], cleanup_timeout=60).stream('Go'): pass"
    ),
    "agent.map": "async for turn in agent(model=calls('sleep'), tools=[sleep]).map(['a', 'b']): pass",
    "an approval": "await agent(model=calls('guarded'), tools=[guarded], on_approval=ask_forever).run('Go')",
    "a session": "await session(agent(model=calls('sleep'), tools=[sleep])).run('Go')",
    "live with a sync tool": (
        "from turntree.notebook import live\n"
        "await live(session(agent(model=calls('block'), tools=[block], cleanup_timeout=60)), 'Go')"
    ),
    "run_sync with a sync tool": "agent(model=calls('block'), tools=[block], cleanup_timeout=60).run_sync('Go')",
    "run_sync": "agent(model=calls('sleep'), tools=[sleep]).run_sync('Go')",
}


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    with Kernel.started(tmp_path_factory.mktemp("kernel")) as kernel:
        assert kernel.run(SETUP).traceback == ""
        yield kernel


@pytest.mark.parametrize("waiting", CELLS)
def test_stop_ends_a_cell_that_waits_for(kernel, waiting):
    cell = kernel.run(CELLS[waiting], stop_at="WAITING")

    assert cell.error in ("CancelledError", "KeyboardInterrupt"), cell.traceback
    assert cell.seconds < BOUND
    assert kernel.run("released.set(); released.clear(); 6 * 7").printed == "42"


CANCEL_IN_THE_STEP_OF_THE_SIGNAL = """
blocked.clear()
task = asyncio.ensure_future(agent(model=calls('block'), tools=[block], cleanup_timeout=60).run('Go'))
while not blocked.is_set():
    await asyncio.sleep(0.01)
previous = signal.signal(signal.SIGINT, lambda *_: task.cancel())
signal.raise_signal(signal.SIGINT)
_ = signal.signal(signal.SIGINT, previous)
_ = await asyncio.wait([task], timeout=10)
print(task.cancelled())
released.set()
"""


def test_stop_is_seen_when_the_loop_resumes_the_task_before_it_reads_the_signal(kernel):
    cell = kernel.run(CANCEL_IN_THE_STEP_OF_THE_SIGNAL)
    assert kernel.run("released.clear()").error == ""

    assert cell.printed.splitlines() == ["WAITING", "True"], cell.traceback


WATCH_EVERY_ITERATION_OF_THE_LOOP = """
from turntree.execution import loop

def is_set():
    descriptor = signal.set_wakeup_fd(-1)
    if descriptor != -1:
        signal.set_wakeup_fd(descriptor, warn_on_full_buffer=False)
    return descriptor != -1

@tool
def quick(n: int) -> str:
    "Answer at once."
    return "x"

async def watched():
    replies = [ToolCall(f"c{n}", "quick", {"n": n}) for n in range(50)]
    helper = agent(model=scripted([*replies, "Done."]), tools=[quick], execution=loop(max_iterations=50))
    task = asyncio.ensure_future(helper.run("Go"))
    await asyncio.sleep(0)
    iterations = []
    while not task.done():
        iterations.append(is_set())
        await asyncio.sleep(0)
    return iterations[:-1], task.result()

iterations, turn = await watched()
print(turn.text, len(iterations) >= 20, iterations.count(False))
"""


def test_signals_are_seen_in_every_iteration_of_the_loop_until_a_run_ends(kernel):
    cell = kernel.run(WATCH_EVERY_ITERATION_OF_THE_LOOP)

    assert cell.printed.split() == ["Done.", "True", "0"], cell.traceback


def test_no_descriptor_is_set_after_a_run(kernel):
    cell = kernel.run("await agent(model=scripted([Reply('Hi.', delay=0.05)])).run('Go')\nsignal.set_wakeup_fd(-1)")

    assert cell.printed == "-1"


def test_the_descriptor_of_others_is_not_replaced(kernel):
    cell = kernel.run(
        "own, other = socket.socketpair()\n"
        "own.setblocking(False)\n"
        "_ = signal.set_wakeup_fd(own.fileno(), warn_on_full_buffer=False)\n"
        "turn = await agent(model=scripted([Reply('Hi.', delay=0.05)])).run('Go')\n"
        "signal.set_wakeup_fd(-1) == own.fileno()"
    )

    assert cell.printed == "True"


def test_a_session_goes_on_after_stop(kernel):
    kernel.run("stopped = session(agent(model=calls('block'), tools=[block], cleanup_timeout=60))")
    cell = kernel.run("await stopped.run('Go')", stop_at="WAITING")
    assert cell.error == "CancelledError"
    assert "The run was stopped. Continue it: await session.resume()" in cell.traceback

    cell = kernel.run("released.set()\nturn = await stopped.resume()\nreleased.clear()\nturn.text")

    assert cell.error == "", cell.traceback
    assert cell.printed.endswith("'Done.'")


STREAMS = {
    "a stream": "async for event in stopped.stream('Go'): pass",
    "batches": "async for events in stopped.stream('Go').batches(): pass",
    "texts": "async for text in stopped.stream('Go').text(): pass",
    "a stream without an event loop": "for event in stopped.stream_sync('Go'): pass",
    "texts without an event loop": "for text in stopped.stream_sync('Go').text(): pass",
    "a live display": "from turntree.notebook import live\nawait live(stopped, 'Go')",
}


@pytest.mark.parametrize("stream", STREAMS)
def test_a_stopped_stream_of_a_session_says_how_to_go_on(kernel, stream):
    kernel.run("stopped = session(agent(model=calls('sleep'), tools=[sleep]))")
    cell = kernel.run(STREAMS[stream], stop_at="WAITING")

    assert cell.error in ("CancelledError", "KeyboardInterrupt"), cell.traceback
    assert cell.traceback.count("The run was stopped. Continue it: await session.resume()") == 1


SHORT = {
    **STREAMS,
    "a run": "await stopped.run('Go')",
    "a run without an event loop": "stopped.run_sync('Go')",
    "agent.map": "async for turn in stopped.agent.map(['a']): pass",
    "a stream that is awaited": "await stopped.stream('Go')",
}


@pytest.mark.parametrize("code", SHORT)
def test_the_traceback_of_a_stopped_run_has_the_lines_of_the_cell_alone(kernel, code):
    kernel.run("stopped = session(agent(model=calls('sleep'), tools=[sleep]))")
    cell = kernel.run(SHORT[code], stop_at="WAITING")
    lines = re.sub(r"\x1b\[[0-9;]*m", "", cell.traceback).strip().splitlines()

    assert cell.error in ("CancelledError", "KeyboardInterrupt"), cell.traceback
    assert [line for line in lines if line.startswith("File ")] == []
    assert lines[0].startswith("---")
    assert len(lines) < 15
    if code != "agent.map":
        assert lines[-1] == "The run was stopped. Continue it: await session.resume()"
        assert kernel.run("stopped.is_unfinished").printed == "True"


WAIT_IN_THE_LOOP = """
import time
stopped = session(agent(model=scripted([Reply("one two three four", pace=0.01)] * 2)))
for piece in stopped.stream_sync("Go").text():
    print("WAITING", flush=True)
    time.sleep(60)
"""


def test_a_cell_that_is_stopped_in_the_body_of_a_loop_says_how_to_go_on(kernel):
    cell = kernel.run(WAIT_IN_THE_LOOP, stop_at="WAITING")
    assert cell.error == "KeyboardInterrupt"
    assert cell.warned == "The run was stopped. Continue it: await session.resume()\n"

    cell = kernel.run("for piece in stopped.resume_stream_sync().text(): break\n1 / 0")
    assert (cell.error, cell.warned) == ("ZeroDivisionError", "")
    assert kernel.run("time.sleep(0)").warned == ""


INTERRUPT_BETWEEN_PIECES = """
import sys

def interrupt(frame, event, arg):
    if event == "call" and frame.f_globals.get("__name__") in ("turntree._streams", "turntree._agent_stream"):
        sys.setprofile(None)
        raise KeyboardInterrupt

stopped = session(agent(model=scripted([Reply("one two three four", pace=0.01)])))
for piece in stopped.stream_sync("Go"){items}:
    if not isinstance(piece, str) or piece.startswith("one"):
        sys.setprofile(interrupt)
"""


@pytest.mark.parametrize("items", ["", ".text()"])
def test_a_stream_that_is_stopped_between_two_pieces_does_not_go_on(kernel, items):
    cell = kernel.run(INTERRUPT_BETWEEN_PIECES.format(items=items))

    assert cell.error == "KeyboardInterrupt", cell.traceback
    assert cell.traceback.count("The run was stopped. Continue it: await session.resume()") == 1
    assert kernel.run("stopped.is_unfinished").printed == "True"


SERVER = """
import asyncio
from turntree import mcp

async def wait(path: str) -> str:
    "Wait."
    open(path, "w").close()
    await asyncio.sleep(60)

def quick(n: int) -> str:
    "Answer."
    return "quick"

asyncio.run(mcp.serve(wait, quick))
"""

WAIT_FOR_SERVER = """
async def announce():
    while not pathlib.Path("called").exists():
        await asyncio.sleep(0.01)
    print("WAITING", flush=True)

announcing = asyncio.create_task(announce())
await agent(model=scripted([ToolCall("c", "wait", {"path": "called"}), "Done."]), tools=[server]).run("Go")
"""


def test_a_server_of_mcp_goes_on_after_stop(kernel):
    cell = kernel.run(
        "import pathlib, sys\nfrom turntree import mcp\n"
        f"_ = pathlib.Path('server.py').write_text({SERVER!r})\n"
        "server = mcp.stdio(sys.executable, 'server.py')\n_ = await server.__aenter__()"
    )
    assert cell.error == "", cell.traceback

    assert kernel.run(WAIT_FOR_SERVER, stop_at="WAITING").error == "CancelledError"
    cell = kernel.run(
        "turn = await agent(model=calls('quick'), tools=[server]).run('Go')\n"
        "await server.__aexit__(None, None, None)\nturn.tool_executions[0].result"
    )

    assert cell.printed == "'quick'", cell.traceback


SERVING_SETUP = """
import os, threading
from turntree import mcp, uaip, uamp

# A client that sends nothing: the standard input of this kernel may have ended.
given, kept_open = os.pipe()
_ = os.dup2(given, 0)

def double(n: int) -> int:
    "Double."
    return 2 * n

def announce_later():
    "Say that the cell waits when the loop has nothing else to do."
    asyncio.get_running_loop().call_later(0.2, lambda: print("WAITING", flush=True))

async def wait():
    announce_later()
    await asyncio.Event().wait()

def wait_sync():
    print("WAITING", flush=True)
    threading.Event().wait()

shop = uaip.Workflow("shop")
shop.stage("cart", initial=True)
served = agent(model=scripted(["Done."]), name="helper")
"""

SERVING = {
    "mcp over HTTP": "async with mcp.serve(double, transport='http'): await wait()",
    "mcp over standard streams": "announce_later()\nawait mcp.serve(double)",
    "uamp": "async with uamp.serve(served): await wait()",
    "uamp without an event loop": "with uamp.serve_sync(served): wait_sync()",
    "uaip": "async with uaip.serve(shop): await wait()",
    "uaip without an event loop": "with uaip.serve_sync(shop): wait_sync()",
    "acp": "announce_later()\nawait uamp.acp_stdio(served)",
    "an inspector": "with session(served).inspect(): await wait()",
}


@pytest.mark.parametrize("served", SERVING)
def test_stop_ends_a_cell_that_serves(kernel, served):
    assert kernel.run(SERVING_SETUP).error == ""
    cell = kernel.run(SERVING[served], stop_at="WAITING")

    assert cell.error in ("CancelledError", "KeyboardInterrupt"), cell.traceback
    assert cell.seconds < 5
    assert kernel.run("signal.set_wakeup_fd(-1), 6 * 7").printed == "(-1, 42)"


def test_a_server_that_goes_on_after_its_cell_answers_after_stop(kernel):
    assert kernel.run(SERVING_SETUP).error == ""
    kernel.run("server = uamp.serve(served)\nawait server.start()")
    assert kernel.run("await wait()", stop_at="WAITING").error == "CancelledError"

    cell = kernel.run(
        "import httpx\nasync with httpx.AsyncClient() as client:\n"
        "    answer = await client.get(f'{server.url}/.well-known/agent-card.json')\n"
        "await server.aclose()\nanswer.status_code < 500"
    )
    assert cell.printed == "True", cell.traceback


MANY_LOOPS = """
import asyncio, gc, os, time
from ipykernel.kernelapp import IPKernelApp
from turntree import agent
from turntree.upp import scripted

def descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))

async def ask():
    await agent(model=scripted(["Done."])).run("Go")

IPKernelApp.instance()
asyncio.run(ask())
before = descriptors()
for _ in range(20):
    asyncio.run(ask())
deadline = time.monotonic() + 20  # a thread may close its descriptor a little later
while descriptors() > before and time.monotonic() < deadline:
    time.sleep(0.01)
print(max(descriptors() - before, 0))
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="this system does not list open descriptors in /proc")
def test_event_loops_that_end_leave_no_descriptor_open():
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", MANY_LOOPS], capture_output=True, text=True, check=True, timeout=60
    )

    assert (process.stdout.strip(), process.stderr) == ("0", "")

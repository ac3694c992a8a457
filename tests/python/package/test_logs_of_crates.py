"""What the crates log: a thread of its own writes their records to Python's `logging`."""

import subprocess
import sys
import textwrap

WARNING = "scripted:a failed with RATE_LIMITED; the next model is called"
PROGRAM = """
from turntree import agent
from turntree.models import fallback, scripted
from turntree.upp import UPPError

busy = UPPError("busy", "RATE_LIMITED", provider="p", modality="llm")
agent(model=fallback(scripted([busy], model_id="a"), scripted(["x"], model_id="b"))).run_sync("hi")
"""


def script(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True)


def test_the_last_warning_of_a_script_is_printed():
    assert [script(PROGRAM).stderr for _ in range(10)] == [f"{WARNING}\n"] * 10


def test_so_it_is_in_a_child_that_has_forked():
    child = textwrap.indent(PROGRAM, "    ")
    program = f"{PROGRAM}\nimport os\nif os.fork() == 0:{child}\nelse:\n    os.wait()\n"

    assert script(program).stderr == f"{WARNING}\n" * 2


def test_the_exit_waits_for_a_slow_handler():
    slow = """
    import logging, time

    class Slow(logging.Handler):
        def emit(self, record):
            time.sleep(0.1)
            print(record.name, record.getMessage(), flush=True)

    logging.getLogger("turntree").addHandler(Slow())
    """

    assert script(textwrap.dedent(slow) + PROGRAM).stdout == f"turntree {WARNING}\n"

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
    # The parent forks when its record is written: a record in the buffer of standard error is printed by both.
    written = """
    import logging, os, threading

    class Printing(logging.StreamHandler):
        written = threading.Event()

        def emit(self, record):
            super().emit(record)
            self.written.set()

    logging.getLogger("turntree").addHandler(Printing())
    """
    child = textwrap.indent(PROGRAM, "    ")
    fork = f"assert Printing.written.wait(20)\nif os.fork() == 0:{child}\nelse:\n    os.wait()\n"

    assert script(f"{textwrap.dedent(written)}{PROGRAM}{fork}").stderr == f"{WARNING}\n" * 2


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

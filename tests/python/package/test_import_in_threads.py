"""A thread that imports turntree may end, as those of Streamlit do."""

import subprocess
import sys

import pytest

PROGRAM = """
import threading

def script(number):
    from turntree import agent, session
    from turntree.upp import scripted

    talk = talks.setdefault("talk", session(agent(model=scripted(lambda request: str(len(request.messages))))))
    {call}

talks, said = {{}}, []
for number in range(8):
    thread = threading.Thread(target=script, args=(number,))
    thread.start()
    thread.join()
print(said, threading.active_count())
"""


@pytest.mark.parametrize(
    "call",
    ["said.append(talk.run_sync('Hello').text)", "said.append(''.join(talk.stream_sync('Hello').text()))"],
    ids=["run_sync", "stream_sync"],
)
def test_later_threads_use_what_the_first_one_has_imported(call):
    program = PROGRAM.format(call=call)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False)

    assert done.returncode == 0, f"{done.returncode}: {done.stderr}"
    assert done.stdout == f"{[str(2 * number + 1) for number in range(8)]} 1\n"


def test_an_import_in_a_thread_does_not_keep_the_process_alive():
    program = """
import threading
thread = threading.Thread(target=__import__, args=("turntree",))
thread.start()
thread.join()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False)

    assert (done.returncode, done.stderr) == (0, "")

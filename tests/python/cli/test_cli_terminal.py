"""The progress that ``turntree`` shows on a terminal, its last line, and its absence elsewhere."""

import os
import re
import struct
import subprocess
import sys
import time

import pytest
from shell_command import BROKEN, COMMAND, HISTORIES, THREADS

fcntl = pytest.importorskip("fcntl", reason="pseudo-terminals of POSIX")
import pty  # noqa: E402 - only where there are pseudo-terminals
import termios  # noqa: E402

pytestmark = pytest.mark.skipif(not COMMAND.exists(), reason="the wheel is not installed beside this interpreter")

# A series of progress reports like those of a conversion, slower than the interval between two drawings.
DRAW = """
import sys, time
from turntree._cli._terminal import Progress
from turntree._core import Report
def report(documents, failed, read):
    counts = {"documents": documents, "failed": failed, "bytes_in": read, "bytes_out": 0, "seconds": 1.0}
    return Report.model_validate({**counts, "errors": []})
with Progress(1_000_000) as progress:
    for step in range(1, 5):
        time.sleep(0.11)  # a line is drawn at most every 0.1 seconds
        progress(report(step, step // 3, step * 250_000))
"""


def watched(command, feed=(), columns=80, **environment):
    """Run a command with a terminal as standard error. Returns standard output, terminal output and status."""
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = {**os.environ, "PYTHONIOENCODING": "utf-8", "TERM": "xterm", **environment}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=end, env=env) as process:
        os.close(end)
        for text in feed:
            process.stdin.write(text)
            process.stdin.flush()
            time.sleep(0.3)  # the behaviour under test: a line is drawn at most every 0.1 seconds
        process.stdin.close()
        out = process.stdout.read()
        process.wait(50)
    seen = b""
    try:
        while data := os.read(terminal, 65536):
            seen += data
    except OSError:
        pass  # Linux raises this when the other end is closed
    os.close(terminal)
    return out, seen.decode().replace("\r\n", "\n"), process.returncode


def progress_lines(seen):
    """The successive contents of the progress line."""
    return [line.rstrip() for line in seen.split("\r") if line.strip()]


def test_progress_shows_documents_rate_failures_and_a_summary():
    lines = [f"{HISTORIES[0]}\n{HISTORIES[1]}\n", f"{BROKEN}\n", f"{HISTORIES[2]}\n", f"{HISTORIES[3]}\n"]
    command = [str(COMMAND), "convert", "--from", "pydantic-ai", "--on-error", "skip"]

    # The command processes a batch when it is large enough, so blank lines follow each document.
    out, seen, status = watched(command, [(line + " " * 300_000 + "\n").encode() for line in lines])

    assert out.decode().splitlines() == THREADS[:4]
    assert status == 1
    said = progress_lines(seen)
    assert any(re.fullmatch(r"[23] documents  \d+ MB/s(  1 failed)?", line) for line in said), said
    assert any("standard input: line 4: /0/parts/0: " in line for line in said)
    assert any(line.endswith("  1 failed") for line in said)
    last = seen.rstrip("\n").split("\n")
    assert last[-2].endswith("turntree: 1 of 5 documents were skipped")
    assert last[-1].startswith("4 documents, ")
    assert last[-1].endswith(" MB/s)")
    assert "%" not in seen  # the total size is unknown


@pytest.mark.parametrize("color", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_the_progress_bar_grows_and_is_removed(color):
    _, seen, _ = watched([sys.executable, "-c", DRAW], **color)

    said = progress_lines(seen)
    assert said[0].startswith("[#####...............]  25%  1 document  ")
    assert said[1].startswith("[##########..........]  50%  2 documents  ")
    assert said[-1].startswith("[####################] 100%  4 documents  ")
    assert said[-1].endswith("  1 failed")
    assert seen.endswith("\r")
    assert seen.split("\r")[-2].strip() == ""
    assert "\x1b" not in seen


@pytest.mark.parametrize("columns", [1, 10, 30, 44])
def test_a_progress_line_is_not_wider_than_the_terminal(columns):
    _, seen, _ = watched([sys.executable, "-c", DRAW], columns=columns)

    assert max(len(line) for line in seen.split("\r")) < max(columns, 2)
    if columns >= 30:
        assert "100%  4 documents" in seen
        assert "[" not in seen.split("1 failed")[-1]


def test_progress_is_not_shown_with_quiet_or_into_a_pipe():
    feed = [(HISTORIES[0] + "\n" + " " * 300_000 + "\n").encode()] * 2
    command = [str(COMMAND), "convert", "--from", "pydantic-ai"]

    quiet = watched([*command, "--quiet"], feed)
    piped = subprocess.run(command, input=b"".join(feed), capture_output=True, timeout=50)

    assert quiet[1:] == ("", 0)
    assert (piped.stderr, piped.stdout) == (b"", quiet[0])

"""What ``turntree`` writes to a terminal: the progress and its last line, and no control characters of documents."""

import contextlib
import io
import json
import os
import re
import struct
import subprocess
import sys
import threading
import time

import pytest
from shell_command import BROKEN, COMMAND, HISTORIES, THREADS, turntree

from turntree import agent, session
from turntree import thread_protocol as tp
from turntree._cli import main
from turntree.upp import ToolCall, ToolResult, UserMessage, scripted

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


def shown_on(terminal):
    """All that is written to a terminal until its other end is closed."""
    seen = b""
    with contextlib.suppress(OSError):  # Linux raises it when the other end is closed
        while data := os.read(terminal, 65536):
            seen += data
    return seen


class Watching(threading.Thread):
    """Reads all that is written to a terminal until its other end is closed."""

    def __init__(self, terminal):
        super().__init__(daemon=True)
        self.terminal = terminal
        self.seen = b""
        self.start()

    def run(self):
        with contextlib.suppress(OSError):  # Linux raises it when the other end is closed
            while data := os.read(self.terminal, 65536):
                self.seen += data


# The command reads a batch when it is large enough, and reports it when it reads the next one.
BATCH = b" " * 300_000 + b"\n"


def watched(command, feed=(), columns=80, **environment):
    """Run a command with a terminal as standard error. Returns standard output, terminal output and status.

    `feed` are texts for standard input, each with what is on the terminal before the next one is written. Until then
    blank lines are written.
    """
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = {**os.environ, "PYTHONIOENCODING": "utf-8", "TERM": "xterm", **environment}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=end, env=env) as process:
        os.close(end)
        watching = Watching(terminal)
        for text, shown in feed:
            process.stdin.write(text + BATCH)
            deadline = time.monotonic() + 30
            while shown not in watching.seen:
                assert time.monotonic() < deadline, watching.seen
                time.sleep(0.11)  # the behaviour under test: a line is drawn at most every 0.1 seconds
                process.stdin.write(BATCH)
                process.stdin.flush()
        process.stdin.close()
        out = process.stdout.read()
        process.wait(50)
    watching.join(50)
    os.close(terminal)
    return out, watching.seen.decode().replace("\r\n", "\n"), process.returncode


def progress_lines(seen):
    """The successive contents of the progress line."""
    return [line.rstrip() for line in seen.split("\r") if line.strip()]


def test_progress_shows_documents_rate_failures_and_a_summary():
    command = [str(COMMAND), "convert", "--from", "pydantic-ai", "--on-error", "skip"]

    first, second, third, fourth = (f"{history}\n".encode() for history in HISTORIES[:4])
    feed = [
        (first + second + BATCH + BROKEN.encode() + b"\n", b"  1 failed"),
        (third, b"3 documents  "),
        (fourth, b"4 documents  "),
    ]
    out, seen, status = watched(command, feed)

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
    text = (HISTORIES[0] + "\n").encode()
    command = [str(COMMAND), "convert", "--from", "pydantic-ai"]

    quiet = watched([*command, "--quiet"], [(text, b"")] * 2)
    piped = subprocess.run(command, input=(text + BATCH) * 2, capture_output=True, timeout=50)

    assert quiet[1:] == ("", 0)
    assert (piped.stderr, piped.stdout) == (b"", quiet[0])


# Clears the screen, sets colours with C0 and C1 sequences, reverses the direction of writing, and breaks lines.
HOSTILE = "a\x1b[2J\x9b31m\x07\x7f\u061c\u200e\u200f\u202a\u202e\u2066\u2069\u2028\u2029\x85\rb"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def on_terminal(*arguments, stdin=b""):
    """Run the command with a terminal as standard output and standard error. Returns its output."""
    terminal, end = pty.openpty()
    mode = termios.tcgetattr(end)
    mode[1] &= ~termios.OPOST  # line feeds stay as they are
    termios.tcsetattr(end, termios.TCSANOW, mode)
    env = {**os.environ, "PYTHONIOENCODING": "utf-8", "TERM": "xterm"}
    command = [str(COMMAND), *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=end, stderr=end, env=env) as process:
        os.close(end)
        process.stdin.write(stdin)
        process.stdin.close()
        seen = shown_on(terminal)
        process.wait(50)
    os.close(terminal)
    return seen.decode()


def hostile_thread():
    """A valid thread with control characters in all texts."""
    main = tp.AgentConfig(HOSTILE, agent_identifier=HOSTILE)
    call = {"tool_name": HOSTILE, "tool_call_id": HOSTILE}
    return tp.Thread(
        title=HOSTILE,
        agents=[main],
        actions=[
            {"action_type": "user_message", "content": HOSTILE},
            {"action_type": "assistant_message", "agent_id": main.agent_id, "content": HOSTILE},
            {"action_type": "thinking", "agent_id": main.agent_id, "content": HOSTILE, "provider_name": HOSTILE},
            {"action_type": "tool_call", "agent_id": main.agent_id, "args": {HOSTILE: HOSTILE}, **call},
            {"action_type": "tool_return", "status": "success", "content": HOSTILE, **call},
            {"action_type": f"system.{HOSTILE}", "data": {HOSTILE: HOSTILE}},
        ],
        metadata={HOSTILE: HOSTILE},
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "--color", "never"],
        ["show", "--html"],
        ["validate"],
        ["validate", "--json"],
        ["convert", "--quiet"],
        ["convert", "--quiet", "--to", "pydantic-ai"],
        ["convert", "--quiet", "--to", "ui-stream"],
        ["convert", "--quiet", "--to", "ui-messages"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("is_valid", [True, False])
def test_documents_cannot_control_the_terminal(arguments, is_valid):
    document = hostile_thread().model_dump()
    if not is_valid:
        document["actions"][1]["agent_id"] = document["actions"][4]["status"] = HOSTILE

    seen = on_terminal(*arguments, stdin=json.dumps(document, ensure_ascii=False).encode())

    assert not CONTROLS.findall(seen), ascii(seen)
    if arguments[0] != "validate":
        assert "u202e" in seen


def test_file_names_cannot_control_the_terminal(tmp_path):
    path = tmp_path / HOSTILE.replace("/", "")
    path.write_text("[")
    for command in (["validate", path], ["show", path], ["convert", path], ["show", tmp_path / "x\x1b[2J"]):
        seen = on_terminal(*command)
        assert not CONTROLS.findall(seen), ascii(seen)
        assert "\\x1b[2J" in seen


def test_a_terminal_and_a_pipe_get_the_same_json():
    data = hostile_thread().model_dump_json().encode()

    seen, piped = on_terminal("convert", "--quiet", stdin=data), turntree("convert", stdin=data).stdout

    assert json.loads(seen) == json.loads(piped)
    assert "\u202e" in piped.decode()


def test_html_in_a_pipe_is_unchanged():
    done = turntree("show", "--html", stdin=hostile_thread().model_dump_json().encode())

    assert "\u202e" in done.stdout.decode()


def test_trees_cannot_control_the_terminal(run):
    model = agent(model=scripted(["hi", "hi"]))
    talk = session(model)
    run(talk.run(HOSTILE))
    talk.tree.branch(talk.tree.current.id, HOSTILE)

    for command in (["tree", "--color", "never"], ["show", "--color", "never"], ["show", "--html"]):
        seen = on_terminal(*command, stdin=talk.to_json().encode())
        assert not CONTROLS.findall(seen), ascii(seen)


def test_reprs_contain_no_control_characters():
    thread = hostile_thread()
    call = ToolCall(tool_call_id=HOSTILE, tool_name=HOSTILE, arguments={HOSTILE: HOSTILE})
    values = [thread, *thread, *thread.agents.values(), call, UserMessage(HOSTILE), ToolResult(HOSTILE, HOSTILE)]

    for value in values:
        assert not CONTROLS.findall(repr(value)), ascii(repr(value))


LOCALE_C = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": ""}


def test_output_is_utf8_also_in_the_locale_c(tmp_path):
    document = tmp_path / "trip.json"
    document.write_text(tp.from_upp([UserMessage("Wien \u2192 Köln \U0001f682")]).model_dump_json(), "utf-8")

    shown = turntree("show", document, **LOCALE_C)
    assert (shown.returncode, shown.stderr) == (0, b"")
    assert "Wien \u2192 Köln \U0001f682" in shown.stdout.decode()

    as_json = turntree("show", document, "--json", **LOCALE_C)
    assert "Köln \U0001f682" in as_json.stdout.decode()


def test_errors_and_input_are_utf8_also_in_the_locale_c(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "echo.py").write_text(
        "from turntree import agent\nfrom turntree.upp import scripted\n"
        "helper = agent(model=scripted(lambda request: f'\u00bb{request.messages[-1].text}\u00ab'))\n",
        "utf-8",
    )

    done = turntree("chat", "echo:helper", stdin="Grüße\n/größe\n".encode(), **LOCALE_C)

    assert "\u00bbGrüße\u00ab" in done.stdout.decode()
    assert "there is no command /größe" in done.stderr.decode()


def test_a_charset_that_the_user_names_is_used(tmp_path):
    document = tmp_path / "trip.json"
    document.write_text(tp.from_upp([UserMessage("Wien \u2192 Köln")]).model_dump_json(), "utf-8")

    done = turntree("show", document, PYTHONIOENCODING="latin-1:replace")

    assert "Wien ? Köln" in done.stdout.decode("latin-1")


def test_a_charset_of_the_locale_gets_escapes_of_what_it_does_not_have(tmp_path, monkeypatch):
    (tmp_path / "arrows.py").write_text(
        "from turntree import agent\nfrom turntree.upp import scripted\n"
        "helper = agent(model=scripted(['Wien \\u2192 Köln']))\n",
        "utf-8",
    )
    written = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    monkeypatch.delenv("PYTHONIOENCODING", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdout", written)
    monkeypatch.setattr(sys, "stdin", io.StringIO("Go\n"))

    assert main(["chat", "arrows:helper"]) == 0
    assert "Wien \\u2192 Köln" in written.buffer.getvalue().decode("cp1252")

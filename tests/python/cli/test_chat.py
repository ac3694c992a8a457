"""The commands ``turntree chat`` and ``turntree completion``."""

import os
import pty
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from shell_command import COMMAND, fails, turntree

from turntree._cli._environment import load_env

pytestmark = pytest.mark.skipif(not COMMAND.exists(), reason="the wheel is not installed beside this interpreter")

AGENTS = '''
import os
from turntree import agent
from turntree.upp import scripted, tool

@tool(approval="ask")
def pay(to: str) -> str:
    """Pay."""
    return f"paid {to}"

def replies(request):
    last = request.messages[-1]
    if last.text == "fail":
        raise RuntimeError("out of tea \\x1b[2J" + "x" * 100_000)
    if last.type == "tool_result":
        return "Done: " + str(last.results[0].result)
    if "pay" in last.text:
        return {"toolName": "pay", "arguments": {"to": "Ann\\x1b[2J"}}
    return f"{len(request.messages)}. {os.environ.get('CITY')} {last.text} \\x1b[31m"

helper = agent(model=scripted(replies), tools=[pay])
number = 5
'''


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    folder = tmp_path_factory.mktemp("app")
    (folder / "app.py").write_text(AGENTS)
    (folder / ".env").write_text("# where\nexport CITY='Oslo'  \nOTHER=x # note\n")
    return folder


def chat(app, text, *arguments):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(app)
        return turntree("chat", "app:helper", *arguments, stdin=text.encode())


def test_a_conversation_has_branches_a_history_and_the_variables_of_the_env_file(app):
    done = chat(app, "Hi\n/branch june\nAgain\n/branches\n/checkout main\n/history\n/quit\nnever\n")
    said = done.stdout.decode()

    assert done.returncode == 0, done.stderr
    assert "1. Oslo Hi \\x1b[31m\n" in said
    assert "3. Oslo Again" in said
    assert "june" in said
    assert said.endswith("user: Hi\nassistant: 1. Oslo Hi \\x1b[31m\n")
    assert "\x1b" not in said


def test_calls_are_approved_and_denied_by_a_person(app):
    said = chat(app, "pay\ny\npay\nn\n").stdout.decode()

    assert "Allow pay({'to': 'Ann\\x1b[2J'})? [y/N]" in said
    assert "Done: paid Ann" in said
    assert "a person denied it" in said
    assert "\x1b" not in said


def test_an_exception_of_the_application_is_shown_and_the_conversation_goes_on(app):
    done = chat(app, "fail\nHi\n")

    assert done.returncode == 0
    assert done.stderr.startswith(b"turntree: RuntimeError: out of tea \\x1b[2Jxxx")
    assert b"app.py:" in done.stderr
    assert len(done.stderr) < 10_000
    assert "Oslo Hi" in done.stdout.decode()


def test_a_session_of_a_store_goes_on(app):
    options = ("--store", "sqlite:///chat.db", "--session", "trip")
    assert chat(app, "Hi\n", *options).returncode == 0

    assert "3. Oslo Again" in chat(app, "Again\n", *options).stdout.decode()


def test_a_run_that_was_left_is_dropped_and_the_conversation_goes_on(app):
    options = ("--store", "sqlite:///discard.db", "--session", "trip")
    chat(app, "Hi\n", *options)
    assert (
        b"calls wait for approval; /resume continues the run, /discard drops it" in chat(app, "pay\n", *options).stderr
    )
    chat(app, "/discard\n", *options)

    done = chat(app, "Again\n/discard\n", *options)
    assert "3. Oslo Again" in done.stdout.decode()
    assert b"there is no run to drop" in done.stderr


def test_a_run_that_waits_is_dropped_for_another_message(app):
    done = chat(app, "/help\npay\n", "--store", "sqlite:///wait.db", "--session", "trip")
    assert "/discard " in done.stdout.decode()

    done = chat(app, "Hi\n/discard\nAgain\n", "--store", "sqlite:///wait.db", "--session", "trip")
    assert b"/discard" in done.stderr
    assert "the run was dropped; the conversation is as it was before it\n1. Oslo Again" in done.stdout.decode()


def test_wrong_use_is_explained(app, monkeypatch):
    monkeypatch.chdir(app)

    fails(2, "'app:number' is not an agent but int", "chat", "app:number")
    fails(2, "missing.env: there is no such file", "chat", "app:helper", "--env", "missing.env")
    fails(2, "--session needs a store", "chat", "app:helper", "--session", "x")
    assert b"there is no command /jump" in chat(app, "/jump\n").stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_has_the_commands_and_options(shell):
    script = turntree("completion", shell).stdout.decode()

    for word in ("convert", "doctor", "completion", "on-error", "updated-after"):
        assert word in script
    program = shutil.which(shell)
    if program is not None:
        subprocess.run([program, "-n"], input=script.encode(), check=True, timeout=30)


def test_bash_completes_commands_and_options():
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    script = turntree("completion", "bash").stdout.decode()
    ask = 'COMP_WORDS=(turntree {0}); COMP_CWORD={1}; _turntree; echo "${{COMPREPLY[@]}}"'

    def completed(words, at):
        command = ["bash", "-c", script + "\n" + ask.format(words, at)]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.split()

    assert completed("conv", 1) == ["convert"]
    assert completed("show --ht", 2) == ["--html"]
    assert completed("policy ch", 2) == ["check"]
    assert completed("policy --project x ch", 4) == ["check"]
    assert completed("policy check --js", 3) == ["--json"]
    assert completed("convert --to pyd", 3) == ["pydantic-ai"]
    assert completed("completion z", 2) == ["zsh"]
    assert "--store" not in completed("harness doctor --", 3)


def test_zsh_completes_also_without_a_compinit_before():
    script = turntree("completion", "zsh").stdout.decode()

    assert script.index("compinit") < script.index("bashcompinit")
    if (zsh := shutil.which("zsh")) is None:
        pytest.skip("NOT TESTED: zsh is not installed")
    command = [zsh, "-f", "-c", f"{script}\nwhence _turntree"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert (done.stdout, done.stderr) == ("_turntree\n", "")


def test_fish_completes_commands_below_others_and_values():
    if (fish := shutil.which("fish")) is None:
        pytest.skip("NOT TESTED: fish is not installed")
    script = turntree("completion", "fish").stdout.decode()

    def completed(line):
        command = [fish, "--no-config", "-c", f"{script}\ncomplete -C '{line}'"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
        return [row.partition("\t")[0] for row in done.stdout.splitlines()]

    assert completed("turntree policy ch") == ["check"]
    assert completed("turntree policy check --js") == ["--json"]
    assert completed("turntree convert --to pyd") == ["pydantic-ai"]
    assert "--store" not in completed("turntree harness doctor --")


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("plain # note", "plain"),
        ("'a b'", "a b"),
        ('"x # y" # note', "x # y"),
        ("'it' # isn't", "it"),
        ('"a"b"', 'a"b'),
        ("a#b", "a#b"),
        ("# only a note", ""),
        ('"', '"'),
        ("", ""),
    ],
)
def test_a_value_of_the_env_file_has_neither_its_quotes_nor_the_comment_after_it(line, value, tmp_path, monkeypatch):
    monkeypatch.setenv("TURNTREE_TEST_VALUE", "")
    monkeypatch.delenv("TURNTREE_TEST_VALUE")
    file = tmp_path / "variables"
    file.write_text(f"TURNTREE_TEST_VALUE={line}\n")

    load_env(str(file))

    assert os.environ["TURNTREE_TEST_VALUE"] == value


class Terminal:
    """A chat in a terminal, until it has ended."""

    def __init__(self, app):
        self._said = b""
        self.process, self._end = pty.fork()
        if not self.process:
            os.chdir(app)
            os.execv(str(COMMAND), [str(COMMAND), "chat", "app:helper"])

    def type(self, text, after):
        """Wait until the chat has printed what a pattern matches, after what was waited for before, and type."""
        self.wait(after)
        os.write(self._end, text)

    def interrupt(self, after):
        """Type Ctrl-C when the chat waits for a key: CPython's `input` misses a signal that comes just before."""
        self.wait(after)
        self._sleeps()
        os.write(self._end, b"\x03")

    def _sleeps(self):
        """Wait until the process sleeps, and has neither run nor been woken for a tenth of a second."""
        file = Path(f"/proc/{self.process}/status")
        if not file.exists():  # as on macOS
            time.sleep(2)
            return
        counts = None
        while True:
            time.sleep(0.1)
            status = dict(re.findall(r"^(\w+):\s*(.*)$", file.read_text(), re.MULTILINE))
            now = (status["State"], status["voluntary_ctxt_switches"], status["nonvoluntary_ctxt_switches"])
            if now == counts and now[0].startswith("S"):
                return
            counts = now

    def wait(self, for_):
        while (found := re.search(for_, self._said, re.DOTALL)) is None:
            self._said += os.read(self._end, 65_536)
        self._said = self._said[found.end() :]

    def status(self):
        """Wait until the chat has ended, and return its exit status."""
        try:
            while os.read(self._end, 65_536):
                pass
        except OSError:  # the other end is closed
            pass
        os.close(self._end)
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


PROMPT = rb".*?\n[^\n]*> "  # readline may switch modes of the terminal before it


def test_ctrl_c_at_the_prompt_discards_the_line_and_keeps_the_conversation(app):
    terminal = Terminal(app)
    terminal.type(b"Hi\n", after=b"lists the commands" + PROMPT)
    terminal.interrupt(after=b"tokens]" + PROMPT)
    terminal.type(b"Again\n", after=b"Ctrl-C again ends, as Ctrl-D and /quit do" + PROMPT)
    terminal.type(b"\x04", after=rb"3\. Oslo Again .*?tokens" + PROMPT)

    assert terminal.status() == 0


def test_ctrl_c_twice_at_the_prompt_ends_the_chat(app):
    terminal = Terminal(app)
    terminal.interrupt(after=b"lists the commands" + PROMPT)
    terminal.interrupt(after=b"Ctrl-C again ends" + PROMPT)
    terminal.wait(rb"turntree: interrupted\r\n")

    assert terminal.status() == 130


def test_a_terminal_completes_commands_and_names_of_branches(app):
    terminal = Terminal(app)
    terminal.type(b"/bran\t", after=b"lists the commands" + PROMPT)
    terminal.type(b" june\n", after=rb"/bran\W*ch")
    terminal.type(b"/che\tju\t\n", after=PROMPT)
    terminal.type(b"/disc\t\n", after=b"/checkout june" + PROMPT)
    terminal.type(b"\x04", after=b"there is no run to drop" + PROMPT)

    assert terminal.status() == 0


def test_a_terminal_gets_a_prompt(app):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [str(COMMAND), "chat", "app:helper"], stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=app
    )
    os.write(ours, b"Hi\n/quit\n")
    said, _ = process.communicate(timeout=50)
    os.close(ours)
    os.close(theirs)

    assert b"/help lists the commands" in said
    assert b"1. Oslo Hi" in said

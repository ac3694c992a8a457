"""``--json`` of commands that run for a while: one JSON object per line, whatever the application prints."""

import json
import signal
import subprocess
import sys

import pytest
from shell_command import BROKEN, HISTORIES, ROOT, fails, turntree

from turntree import mcp, store

APPLICATION = '''
import logging
from turntree import agent
from turntree.upp import scripted, tool

print("the application starts")

@tool(approval="ask")
def pay(to: str) -> str:
    """Pay."""
    print("paying")
    return f"paid {to}"

def replies(request):
    last = request.messages[-1]
    logging.getLogger("shop").warning("asked \\u202e\\n%s", last.text)
    if last.text == "fail":
        raise RuntimeError("out of tea")
    if last.type == "tool_result":
        return "Done: " + str(last.results[0].result)
    if last.text == "pay":
        return {"toolName": "pay", "arguments": {"to": "Ann"}}
    return f"You said: {last.text}"

helper = agent(name="helper", model=scripted(replies), tools=[pay])
'''

needs_signals = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM for other processes")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "printing_app.py").write_text(APPLICATION, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def start(folder):
    """Start a command that runs until a signal."""
    processes = []

    def start(*arguments):
        command = [sys.executable, "-m", "turntree", *arguments]
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def rows(text):
    return [json.loads(line) for line in text.splitlines()]


def stop(process):
    """End a process. Returns what it printed since, and its log."""
    process.send_signal(signal.SIGTERM)
    out, log = process.communicate(timeout=30)
    assert process.returncode == 0, log
    return rows(out), log


# convert


def test_a_conversion_ends_with_a_summary(tmp_path):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("\n".join([*HISTORIES[:2], BROKEN, HISTORIES[0]]), "utf-8")

    done = turntree("convert", source, "-o", target, "--on-error", "skip", "--json")

    issue, summary = rows(done.stdout)
    assert done.returncode == 1
    assert done.stderr == b""
    assert (issue["type"], issue["line"], issue["severity"]) == ("issue", 3, "error")
    assert issue["path"] == str(source)
    assert summary.pop("seconds") >= 0
    assert summary.pop("bytes_in") >= source.stat().st_size - 4
    assert summary.pop("bytes_out") >= target.stat().st_size - 4
    assert summary == {"type": "summary", "files": 1, "documents": 3, "failed": 1}


def test_the_summary_goes_to_standard_error_if_standard_output_has_the_documents():
    done = turntree("convert", "--json", stdin=HISTORIES[0].encode())

    assert "actions" in json.loads(done.stdout)
    (summary,) = rows(done.stderr)
    assert (summary["type"], summary["documents"], summary["failed"]) == ("summary", 1, 0)


# errors


@pytest.mark.parametrize(
    ("status", "words", "arguments"),
    [
        (2, "missing.json: No such file or directory", ["convert", "missing.json", "--json"]),
        (2, "missing.json: No such file or directory", ["show", "--json", "missing.json"]),
        (2, "missing.json: No such file or directory", ["validate", "missing.json", "--json"]),
        (2, "check the URL of the store", ["sessions", "--store", "sqlite:///missing.db", "--json"]),
        (2, "check the URL of the store", ["runs", "--store", "sqlite:///missing.db", "--json"]),
        (2, "check the URL of the store", ["doctor", "--store", "sqlite:///missing.db", "--json"]),
        (2, "there is no module 'missing'", ["serve", "missing:app", "--json"]),
        (2, "there is no module 'missing'", ["chat", "missing:app", "--json"]),
        (2, "there is no module 'missing'", ["worker", "missing:app", "--store", "memory://", "--json"]),
        (2, "there is no module 'missing'", ["acp", "missing:app", "--json"]),
        (2, "there is no module 'missing'", ["mcp", "missing:app", "--json"]),
        (2, "must be a number from 1", ["convert", "--json", "--jobs", "0"]),
        (2, "are required: --store", ["sessions", "--json"]),
        (2, "invalid choice: 'transmogrify'", ["transmogrify", "--json"]),
        (1, "the JSON ends in", ["show", "cut.json", "--json"]),
        (1, "the JSON ends in", ["convert", "cut.json", "--json"]),
        (1, "no hooks are installed", ["harness", "doctor", "--json", "--project", "."]),
        (1, "ZeroDivisionError: division by zero", ["serve", "raising:app", "--json"]),
        (1, "ZeroDivisionError: division by zero", ["chat", "raising:app", "--json"]),
    ],
)
def test_an_error_is_an_object_of_the_same_form_for_all_commands(tmp_path, monkeypatch, status, words, arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cut.json").write_text('{"version": "1.0.0", "actions": [')
    (tmp_path / "raising.py").write_text("1 / 0")

    done = turntree(*arguments)

    assert (done.returncode, done.stdout) == (status, b"")
    (error,) = rows(done.stderr)
    assert words in error.pop("message")
    assert error == {"type": "error", "status": status}


def test_errors_of_conversations_that_are_not_imported_have_the_status_of_the_command(tmp_path):
    source, url = ROOT / "tests" / "data" / "imports" / "openai.db", f"sqlite:///{tmp_path}/sessions.db"
    assert turntree("import", source, "--store", url).returncode == 0

    done = turntree("import", source, "--store", url, "--on-error", "skip", "--json")

    assert done.returncode == 1
    assert [(error["type"], error["status"]) for error in rows(done.stderr)] == [("error", 1)] * 2


def test_an_error_in_json_has_no_control_characters():
    done = turntree("show", "a\u202e\n\x1b.json", "--json")

    (error,) = rows(done.stderr)
    assert error["message"].startswith("a\u202e\n\x1b.json: No such file")
    assert "\u202e" not in done.stderr.decode()


def test_errors_are_text_without_the_option():
    for arguments in (["show", "missing.json"], ["show", "--", "--json"]):
        assert turntree(*arguments).stderr.startswith(b"turntree: ")
    assert turntree("sessions").stderr.startswith(b"usage: ")


# serve, mcp, acp


@needs_signals
def test_a_server_prints_its_address_and_its_log_as_json(start):
    process = start("serve", "printing_app:helper", "--port", "0", "--json")

    started = json.loads(process.stdout.readline())
    assert started.pop("url").startswith("http://127.0.0.1:")
    assert started == {"type": "started", "objects": ["printing_app:helper"]}
    printed, log = stop(process)
    assert printed == [{"type": "stopped", "reason": "signal"}]
    assert log.startswith("the application starts\n")


@needs_signals
async def test_mcp_over_http_prints_its_address_as_json(start):
    process = start("mcp", "printing_app:helper", "--transport", "http", "--port", "0", "--json")

    async with mcp.http(json.loads(process.stdout.readline())["url"]) as server:
        said = await server.call("helper", task="Hello!")
    printed, log = stop(process)

    assert said["content"][0]["text"] == "You said: Hello!"
    assert printed == [{"type": "stopped", "reason": "signal"}]
    first, *records = log.splitlines()
    assert first == "the application starts"
    (record,) = [row for row in map(json.loads, records) if row["logger"] == "shop"]
    assert (record["type"], record["level"], record["message"]) == ("log", "WARNING", "asked \u202e\nHello!")
    assert "\\u202e" in log


def test_acp_writes_its_log_as_json(folder):
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}

    done = turntree("acp", "printing_app:helper", "--json", stdin=json.dumps(request).encode() + b"\n")

    (answer,) = rows(done.stdout)
    assert answer["id"] == 1
    assert done.stderr == b"the application starts\n"


# worker


@needs_signals
def test_a_worker_prints_each_run(start, folder):
    url = f"sqlite:///{folder / 'runs.db'}"
    with store.from_url(url) as opened:
        first = opened.enqueue_sync("one", "Hi")
        second = opened.enqueue_sync("two", "fail")
    options = ("--concurrency", "1", "--max-attempts", "1", "--name", "w1")
    process = start("worker", "printing_app:helper", "--store", url, "--json", *options)

    found = [json.loads(process.stdout.readline()) for _ in range(5)]
    printed, log = stop(process)

    assert found[0] == {"type": "started", "worker": "w1", "agent": "printing_app:helper", "concurrency": 1}
    assert [(row["run"], row["status"], row["attempt"]) for row in found[1:]] == [
        (first, "running", 1),
        (first, "done", 1),
        (second, "running", 1),
        (second, "failed", 1),
    ]
    assert "out of tea" in found[4]["error"]
    assert printed == [{"type": "stopped", "reason": "signal"}]
    assert {row["type"] for row in rows(log.partition("\n")[2])} == {"log"}


# chat


def chat(text, *options):
    done = turntree("chat", "printing_app:helper", "--json", *options, stdin=text.encode())
    return rows(done.stdout), done


@pytest.mark.usefixtures("folder")
def test_a_chat_prints_events_turns_and_the_answers_of_commands():
    found, done = chat("Hi\n/branch june\n/branches\n/history\n/help\n/jump\n")

    assert done.returncode == 0
    assert done.stderr.startswith(b"the application starts")
    assert (found[0]["type"], found[0]["name"]) == ("session", "helper")
    events = [row["event"] for row in found if row["type"] == "event"]
    deltas = [event["upp"]["delta"]["text"] for event in events if event.get("upp", {}).get("type") == "text_delta"]
    assert "".join(deltas) == "You said: Hi"
    (turn,) = [row for row in found if row["type"] == "turn"]
    assert (turn["text"], turn["turn"]["cycles"]) == ("You said: Hi", 1)
    assert [row["name"] for row in found if row["type"] == "node"] == ["main", "june"]
    assert [row["message"]["type"] for row in found if row["type"] == "message"] == ["user", "assistant"]
    assert found[-2]["commands"]["/history"] == "show the conversation"
    message = "there is no command /jump; /help lists them"
    assert found[-1] == {"type": "error", "error": None, "message": message, "status": None}


@pytest.mark.usefixtures("folder")
def test_a_program_answers_about_calls():
    found, done = chat("pay\ny\nfail\n")

    (question,) = [row for row in found if row["type"] == "approval"]
    assert [(call["toolName"], call["arguments"]) for call in question["calls"]] == [("pay", {"to": "Ann"})]
    (turn,) = [row for row in found if row["type"] == "turn"]
    assert turn["text"] == "Done: paid Ann"
    assert b"paying" in done.stderr
    assert done.returncode == 1
    assert (found[-1]["type"], found[-1]["status"]) == ("error", 1)
    assert "out of tea" in found[-1]["message"]


@pytest.mark.usefixtures("folder")
def test_an_input_that_ends_before_the_answer_is_an_error():
    found, done = chat("pay\n")

    assert (found[-1]["error"], done.returncode) == ("EOFError", 1)
    fails(2, "'printing_app:pay' is not an agent", "chat", "printing_app:pay", "--json")


def test_the_graph_of_a_workflow_is_json(folder):
    (folder / "shops.py").write_text(
        "from turntree import uaip\nprint('printed')\nshop = uaip.Workflow('shop')\nshop.stage('cart', initial=True)\n"
    )
    long = turntree("uaip", "graph", "shops:shop", "--format", "json")

    assert long.returncode == 0, long.stderr
    assert json.loads(turntree("uaip", "graph", "shops:shop", "--json").stdout) == json.loads(long.stdout)
    assert long.stderr == b"printed\n"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "command",
    [
        ("enqueue", "Hi", "--session", "a", "--store", "sqlite:///missing/a.db"),
        ("worker", "printing_app:helper", "--store", "sqlite:///missing/a.db"),
        ("serve", "printing_app:helper", "--port", "99999"),
    ],
)
def test_an_error_of_a_store_or_a_port_is_one_object(command):
    done = turntree(*command, "--json")

    assert done.returncode == 1
    error = json.loads(done.stderr.splitlines()[-1])
    assert (error["type"], error["status"]) == ("error", 1)
    assert b"Traceback" not in done.stderr

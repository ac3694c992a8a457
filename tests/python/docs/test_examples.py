"""Every example runs offline and without keys; an expected failure prints a message of one line."""

import importlib.util
import os
import pickle
import re
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from turntree import agent, testing
from turntree import thread_protocol as tp
from turntree.upp import openai

ROOT = Path(__file__).resolve().parents[3]
# Ray is large and has no wheel for every Python: its example has separate tests, in test_ray.py and one below.
EXAMPLES = [path for path in sorted((ROOT / "examples").glob("*.py")) if path.stem not in {"ray_agents", "ray_data"}]
NOBODY = "127.0.0.1:1"  # no server listens on this port


def run(script, *arguments, python=(), **environment):
    """Run a script as a user does, without the keys, the proxy and the Ollama server of this machine."""
    private = ("_API_KEY", "_PROXY", "PYTHONPATH", "OLLAMA_HOST")
    kept = {k: v for k, v in os.environ.items() if not k.upper().endswith(private)}
    return subprocess.run(
        [sys.executable, *python, str(script), *arguments],
        env={**kept, "OLLAMA_HOST": NOBODY, "PYTHONIOENCODING": "utf-8", **environment},
        capture_output=True,
        encoding="utf-8",
        timeout=50,
    )


def assert_fails_with_one_line(done, *words):
    assert done.returncode == 1, done
    assert "Traceback" not in done.stdout + done.stderr
    (sentence,) = done.stderr.strip().splitlines()
    assert sentence.endswith(".")
    for word in words:
        assert word in sentence


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_offline(script):
    done = run(script)

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("script", "lines"),
    [
        ("research_assistant", ["ask_pilot: calls a tool", "Why ships wait"]),
        ("coding_helper", ["write_file greet.py: approved", "print('Hello')  # tested"]),
        ("chat_server", ["Question 1 was: Is the sea salty?", "Question 2 was: Why?"]),
        ("batch_with_budget", ["{'good': 50, 'bad': 50, 'neutral': 50}, 50 over budget, 1200 tokens"]),
        ("explore_branches", ["└─ plane · 6 messages · And by plane?  ← current"]),
        ("crash_and_resume", ["found an unfinished run", "Seat 12A costs 43 euros.", "reservations: ['12A']"]),
        ("from_pydantic_ai", ["equal objects come back: True", "At 18 degrees, a light jacket."]),
        ("debate", ["The judge: tea, because tea has said more."]),
    ],
)
def test_example_prints_what_it_shows(script, lines):
    done = run(ROOT / "examples" / f"{script}.py")

    assert set(lines) <= set(done.stdout.splitlines())


@pytest.mark.parametrize(("script", "requests"), [("shop", 9), ("support_desk", 5), ("research", 7)])
def test_an_example_of_workflows_says_what_stages_save_and_how_it_was_counted(script, requests):
    done = run(ROOT / "examples" / f"uaip_{script}.py")

    line = done.stdout.splitlines()[-1]
    found = re.fullmatch(
        r"tool schemas in (\d+) requests: (\d+) tokens .*, (\d+) with .* \((\d+) % saved; (.+)\)", line
    )
    assert found, line
    assert int(found[1]) == requests
    assert 0 < int(found[2]) < int(found[3])
    assert found[5].startswith(("tokenizer: ", "estimate: "))


def test_the_function_of_the_ray_example_converts_a_table(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples")
    ray_data = importlib.import_module("ray_data")
    table = ray_data.histories()

    done = ray_data.to_threads(table)

    assert done.column_names == ["name", "history", "thread"]
    expected = [tp.from_pydantic_ai(history).model_dump_json() for history in table["history"].to_pylist()]
    assert done["thread"].to_pylist() == expected


def test_the_functions_of_the_ray_example_run_a_pickled_agent(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples")
    monkeypatch.setenv("OPENAI_API_KEY", "not-checked")
    ray_agents = importlib.import_module("ray_agents")

    with testing.serve(lambda _request: "billing") as server:
        stored = pickle.dumps(agent(model=openai("gpt-5", base_url=server.base_url)))
        texts = ray_agents.answers(pickle.loads(stored), ["a", "b"])

    assert texts == ["billing", "billing"]
    assert [len(block) for block in ray_agents.blocks(["x"] * 1001)] == [500, 500, 1]


@pytest.mark.parametrize("name", ["ray_agents.py", "ray_data.py"])
def test_the_ray_examples_without_ray_give_a_message_of_one_line(name):
    if importlib.util.find_spec("ray") is not None:
        pytest.skip("ray is installed")
    assert_fails_with_one_line(run(ROOT / "examples" / name), "ray is not installed")


def test_quickstart_converts_every_history():
    done = run(ROOT / "examples" / "quickstart.py")

    for path in (ROOT / "examples" / "data").glob("*.json"):
        (line,) = [row for row in done.stdout.splitlines() if f"  {path.stem} " in row]
        assert "valid, bytes equal, objects equal" in line


def test_quickstart_shows_answer_tools_tokens_and_thread():
    done = run(ROOT / "examples" / "quickstart.py")

    out = done.stdout
    assert "model: a stand-in for OpenAI at http://127.0.0.1:" in out
    assert "In Tokyo it is sunny, up to 21 degrees, and the clocks there say" in out
    assert "weather(city='Tokyo') -> " in out
    assert "local_time(utc_offset=9) -> " in out
    assert "in 2 model calls" in out
    assert "├─ user" in out
    assert "└─ assistant" in out


def test_quickstart_prints_on_a_plain_terminal():
    done = run(ROOT / "examples" / "quickstart.py", PYTHONIOENCODING="ascii")

    assert done.returncode == 0, done.stderr


def test_quickstart_without_turntree_gives_a_message_of_one_line():
    done = run(ROOT / "examples" / "quickstart.py", python=("-S",))

    assert_fails_with_one_line(done, "turntree is not installed", "make demo")


def test_quickstart_connects_to_its_server_without_a_proxy():
    proxy = f"http://{NOBODY}"

    done = run(ROOT / "examples" / "quickstart.py", HTTP_PROXY=proxy, http_proxy=proxy)

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("damage", [b"", b"[{", b"\xff\xfe", b'{"kind": 1}', b"[1]"])
def test_quickstart_with_a_damaged_history_gives_a_message_of_one_line(tmp_path, damage):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "examples" / "data" / "aaa.json").write_bytes(damage)

    done = run(tmp_path / "examples" / "quickstart.py")

    assert_fails_with_one_line(done)


def test_quickstart_with_no_histories_gives_a_message_of_one_line(tmp_path):
    shutil.copy(ROOT / "examples" / "quickstart.py", tmp_path)

    assert_fails_with_one_line(run(tmp_path / "quickstart.py"), "no histories")


@pytest.mark.parametrize(
    ("key", "said"),
    [("OPENAI_API_KEY", "model: OpenAI"), ("ANTHROPIC_API_KEY", "model: Anthropic")],
)
def test_quickstart_with_an_unreachable_provider_gives_a_message_of_one_line(key, said):
    # The proxy does not exist: the request cannot leave this machine.
    proxy = f"http://{NOBODY}"
    secret = "sk-secret-0123456789"

    done = run(ROOT / "examples" / "quickstart.py", HTTPS_PROXY=proxy, HTTP_PROXY=proxy, **{key: secret})

    assert_fails_with_one_line(done)
    assert said in done.stdout
    assert secret not in done.stdout + done.stderr


class OverloadedOllama(BaseHTTPRequestHandler):
    """Lists a model, and cannot run it."""

    def do_GET(self):
        self.reply(200, b'{"models": [{"name": "tiny"}]}')

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.reply(500, b'{"error": "model requires more system memory"}')

    def reply(self, status, body):
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_quickstart_uses_ollama_if_it_answers():
    with ThreadingHTTPServer(("127.0.0.1", 0), OverloadedOllama) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        host = f"127.0.0.1:{server.server_address[1]}"

        done = run(ROOT / "examples" / "quickstart.py", OLLAMA_HOST=host)

        server.shutdown()

    assert f"model: Ollama tiny, because it answers at http://{host}" in done.stdout
    assert_fails_with_one_line(done, "memory")


def test_the_example_histories_are_in_the_format_of_pydantic_ai():
    done = run(ROOT / "examples" / "data" / "make_histories.py", "--check")

    assert done.returncode == 0, done.stderr

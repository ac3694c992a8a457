"""What all commands share: help with examples, exit statuses, JSON, and the file .env."""

import argparse
import json
import os
import shlex
import subprocess
import sys

import pytest
from shell_command import DATA, ROOT
from support.ports import reserved_port

from turntree import agent, session
from turntree._cli import _parser, main
from turntree._cli._examples import EXAMPLES, STATUSES
from turntree._cli._reach import KEYS, keys
from turntree.testing import serve
from turntree.upp import scripted


def commands(parser, name=""):
    """All commands with their parsers, by their words."""
    yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, each in action.choices.items():
                yield from commands(each, f"{name} {word}".strip())


ALL = dict(commands(_parser()))
# What prints data, and how it prints JSON.
DATA_COMMANDS = [
    *("validate", "show", "tree", "sessions", "import", "enqueue", "runs", "doctor"),
    *("harness status", "harness doctor", "policy check", "policy list", "policy audit", "config explain"),
    *("coord status", "coord inbox", "worktree list"),
    *("convert", "serve", "worker", "chat", "acp", "mcp", "uaip graph"),
]
IMPORTS = {
    "worker": ["app:helper", "--store", "sqlite:///:memory:"],
    "serve": ["app:helper"],
    "acp": ["app:helper"],
    "mcp": ["app:helper"],
    "chat": ["app:helper"],
    "uaip graph": ["app:helper"],
}


def run(*arguments):
    """Run a command in this process, and return its exit status."""
    try:
        return main(list(map(str, arguments)))
    except SystemExit as ended:
        return ended.code


def test_every_command_has_examples():
    assert sorted(EXAMPLES) == sorted(ALL)


@pytest.mark.parametrize("example", [line for lines in EXAMPLES.values() for line in lines])
def test_an_example_is_a_valid_command(example):
    words = shlex.split(example.partition("|")[0].partition(">>")[0])

    assert words[0] == "turntree"
    assert callable(_parser().parse_args(words[1:]).run)


@pytest.mark.parametrize("name", ALL)
def test_the_help_has_the_examples_on_lines_of_their_own(name, capsys):
    assert run(*name.split(), "--help") == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in lines if line.startswith("  turntree ")] == list(EXAMPLES[name])


def test_the_exit_statuses_of_the_help_are_those_of_the_guide():
    guide = (ROOT / "docs" / "command-line.md").read_text("utf-8")

    for line in STATUSES.splitlines()[1:]:
        assert f"| {line.split()[0]} | " in guide


@pytest.mark.parametrize("name", DATA_COMMANDS)
def test_a_command_that_prints_data_prints_json(name):
    assert "--json" in ALL[name].format_help()


@pytest.fixture
def stored(tmp_path):
    """A file with a session of two branches."""
    talk = session(agent(model=scripted(["One.", "Two.\u202e\x1b[2J"])))
    talk.run_sync("First")
    talk.tree.checkout(talk.tree.branch(talk.tree.root.id, "other"))
    talk.run_sync("Second")
    path = tmp_path / "session.json"
    path.write_text(talk.to_json(), "utf-8")
    return talk, path


def rows(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_tree_is_printed_as_one_object_for_each_node(stored, capsys):
    talk, path = stored
    assert run("tree", "--json", path) == 0

    root, other = rows(capsys)
    assert root == {
        "node": talk.tree.root.id,
        "name": "main",
        "parent": None,
        "branch_point": None,
        "messages": 2,
        "current": False,
    }
    assert (other["name"], other["parent"], other["current"]) == ("other", root["node"], True)


def test_a_conversation_is_printed_as_one_object_for_each_message_or_action(stored, capsys):
    assert run("show", "--json", stored[1]) == 0
    found = rows(capsys)
    assert [row["name"] for row in found] == ["main", "main", "other", "other"]
    assert found[3]["message"]["content"][0]["text"] == "Two.\u202e\x1b[2J"

    assert run("show", "--json", DATA / "plain-text.json") == 0
    assert [row["action_type"] for row in rows(capsys)] == ["user_message", "assistant_message"]


def test_documents_without_nodes_and_two_forms_at_once_are_refused(stored, capsys):
    assert run("tree", "--json", DATA / "plain-text.json") == 1
    error = json.loads(capsys.readouterr().err)
    assert error["type"] == "error"
    assert error["message"].endswith('has no branches; "show" shows it')
    assert run("show", "--json", "--html", stored[1]) == 2
    assert "--json and --html exclude each other" in capsys.readouterr().err


# doctor


@pytest.fixture
def no_keys(monkeypatch):
    for variables in KEYS.values():
        for variable in variables:
            monkeypatch.delenv(variable, raising=False)


@pytest.mark.usefixtures("no_keys")
def test_the_doctor_names_versions_extras_loop_and_keys(monkeypatch, capsys):
    monkeypatch.setenv("CO_API_KEY", "secret-of-mine")
    assert run("doctor", "--json") == 0
    text = capsys.readouterr().out
    found = json.loads(text)

    assert found["keys"] == {"cohere": "CO_API_KEY"}
    assert "secret-of-mine" not in text
    assert found["extras"]["pydantic"] == []
    assert set(found["extras"]) >= {"arrow", "notebook", "otel", "import"}
    assert found["event loop"].endswith("EventLoop")
    assert "Policy" in found["event loop policy"]
    assert found["problems"] == []
    assert "reached" not in found

    assert run("doctor") == 0
    assert "cohere (CO_API_KEY)" in capsys.readouterr().out


@pytest.mark.usefixtures("no_keys")
def test_the_doctor_says_which_providers_can_be_reached(capsys):
    with serve(["Hi."]) as server:
        url = server.base_url
        assert run("doctor", "--reach", url) == 0
        assert f"{url}" in capsys.readouterr().out
        assert server.requests[0].headers["authorization"] == "Bearer none"
    with reserved_port() as port:
        url = f"http://127.0.0.1:{port}/v1"
        assert run("doctor", "--json", "--reach", url) == 1
    (one,) = json.loads(capsys.readouterr().out)["reached"]
    assert (one["provider"], one["reachable"]) == (url, False)
    assert "refused" in one["answer"]

    assert run("doctor", "--json", "--reach") == 0  # no keys, nobody to ask
    assert json.loads(capsys.readouterr().out)["reached"] == []
    assert run("doctor", "--reach", "nobody") == 2
    assert "--reach nobody: expected an address" in capsys.readouterr().err


def test_the_keys_of_the_doctor_are_those_of_the_guide(monkeypatch):
    guide = (ROOT / "docs" / "providers.md").read_text("utf-8")
    for name, variables in KEYS.items():
        row = next(line for line in guide.splitlines() if line.startswith(f"| `{name}"))
        assert [variable for variable in variables if f"`{variable}`" not in row] == []
    monkeypatch.setenv("HF_TOKEN", "x")
    assert keys()["huggingface"] == "HF_TOKEN"


def test_a_package_and_a_native_module_of_two_versions_are_a_problem(monkeypatch, capsys):
    monkeypatch.setattr("turntree.__version__", "99.0.0")

    assert run("doctor") == 1
    assert "the native module is of turntree 99.0.0" in capsys.readouterr().err


# .env


@pytest.mark.parametrize("name", IMPORTS)
def test_commands_that_import_an_application_read_a_file_of_variables(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BOOK_CITY", "from the shell")
    (tmp_path / "own.env").write_text("BOOK_CITY=Oslo\nBOOK_NUMBER = '5' \n")
    (tmp_path / "app.py").write_text("raise ValueError(str(__import__('os').environ['BOOK_NUMBER']))")
    monkeypatch.delenv("BOOK_NUMBER", raising=False)
    monkeypatch.delitem(sys.modules, "app", raising=False)

    assert run(*name.split(), *IMPORTS[name], "--env", "missing.env") == 2
    assert "missing.env: there is no such file" in capsys.readouterr().err
    assert run(*name.split(), *IMPORTS[name], "--env", "own.env") == 1
    assert "turntree: 5" in capsys.readouterr().err
    assert os.environ.pop("BOOK_NUMBER") == "5"
    assert os.environ["BOOK_CITY"] == "from the shell"


def test_the_library_and_other_commands_do_not_read_it(tmp_path):
    (tmp_path / ".env").write_text("BOOK_NUMBER=5\nnot a variable\n")
    code = (
        "import os, turntree.upp; from turntree._cli import main; main(['doctor']); "
        "assert 'BOOK_NUMBER' not in os.environ"
    )

    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

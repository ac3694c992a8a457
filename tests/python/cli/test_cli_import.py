"""The command `turntree import`."""

import json
import sqlite3

from shell_command import DATA, ROOT, fails, turntree

from turntree import store

SOURCE = ROOT / "tests" / "data" / "imports" / "openai.db"


def test_conversations_are_imported_with_a_report(tmp_path):
    url = f"sqlite:///{tmp_path}/sessions.db"

    done = turntree("import", SOURCE, "--store", url, "--agent", "clerk")

    assert (done.returncode, done.stderr) == (0, b"")
    lines = done.stdout.decode().splitlines()
    assert lines[1].split() == ["imported", "6", "0", "shop"]
    assert "in metadata: 1 item 'web_search_call'; 1 system message" in lines[2]
    assert "omitted: 1 annotations of a text; 3 id of an item; 1 signature of reasoning" in lines[3]
    assert lines[-1] == "2 sessions of openai-agents imported"
    with store.from_url(url) as sessions:
        assert {(info.id, info.agent) for info in sessions.sessions_sync()} == {("shop", "clerk"), ("stopped", "clerk")}


def test_a_dry_run_stores_nothing(tmp_path):
    url = f"sqlite:///{tmp_path}/sessions.db"

    done = turntree("import", DATA, "--from", "pydantic-ai", "--store", url, "--dry-run", "--json")

    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {row["status"] for row in rows} == {"imported"}
    assert turntree("sessions", "--store", url, "--json").stdout == b""


def test_existing_sessions_stop_the_import_or_are_skipped(tmp_path):
    url = f"sqlite:///{tmp_path}/sessions.db"
    assert turntree("import", SOURCE, "--store", url).returncode == 0

    fails(1, "the store has a session", "import", SOURCE, "--store", url)
    done = turntree("import", SOURCE, "--store", url, "--on-error", "skip")

    assert done.returncode == 1
    assert done.stdout.decode().splitlines()[-1] == "0 sessions of openai-agents imported, 2 in the store already"
    assert done.stderr.count(b"the store has a session") == 2


def test_other_sources_are_refused(tmp_path):
    other = tmp_path / "other.db"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE things (id)")
    connection.commit()
    connection.close()
    url = f"sqlite:///{tmp_path}/sessions.db"

    fails(1, "neither the tables of LangGraph's SqliteSaver nor", "import", other, "--store", url)
    fails(2, "missing.db: No such file or directory", "import", tmp_path / "missing.db", "--store", url)
    fails(2, "the following arguments are required: --store", "import", SOURCE)

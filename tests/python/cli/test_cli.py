"""The command ``turntree``, as a shell runs it: files, pipes, signals, and messages for bad input."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from shell_command import BROKEN, COMMAND, DATA, HISTORIES, THREADS, fails, turntree

from turntree import agent, session
from turntree import thread_protocol as tp
from turntree._cli import main
from turntree.upp import scripted

if sys.version_info >= (3, 14):
    from compression import zstd as zstandard
else:
    import zstandard

TRANSCRIPT = """\
Which city was the capital of Japan before Tokyo?
2 actions · 1 agent · 2026-01-15T09:00:00.125000Z · thread 17345e6e-be73-5988-99ad-fa752ce4e9bf

user  2026-01-15T09:00:00.125000Z
  Which city was the capital of Japan before Tokyo?

Assistant  2026-01-15T09:00:00.625000Z
  Kyoto was the capital of Japan until 1868.
"""

pytestmark = pytest.mark.skipif(not COMMAND.exists(), reason="the wheel is not installed beside this interpreter")


@pytest.fixture
def folder(tmp_path):
    """A directory of mixed files."""
    (tmp_path / "in" / "deep").mkdir(parents=True)
    for path in DATA.glob("*.json"):
        (tmp_path / "in" / "deep" / path.name).write_bytes(path.read_bytes())
    (tmp_path / "in" / "all.jsonl").write_text("\n".join(HISTORIES), encoding="utf-8")
    (tmp_path / "in" / "all.jsonl.gz").write_bytes(gzip.compress("\n".join(HISTORIES).encode()))
    (tmp_path / "in" / "all.ndjson.zst").write_bytes(zstandard.compress("\n".join(HISTORIES).encode()))
    (tmp_path / "in" / "README.md").write_text("not a conversation")
    (tmp_path / "in" / ".hidden.json").write_text("not a conversation")
    return tmp_path


# convert


def test_convert_reads_standard_input_and_writes_standard_output():
    there = turntree("convert", stdin="\n".join(HISTORIES).encode())
    back = turntree("convert", "--to", "pydantic-ai", "-", stdin=there.stdout)

    assert there.stdout.decode().splitlines() == THREADS
    assert back.stdout.decode().splitlines() == HISTORIES
    assert (there.returncode, there.stderr, back.stderr) == (0, b"", b"")


def test_python_m_turntree_runs_the_command():
    done = subprocess.run([sys.executable, "-m", "turntree", "--version"], capture_output=True, text=True)

    assert done.stdout.startswith("turntree ")
    assert turntree("--version").stdout.decode() == done.stdout


def test_a_single_document_of_many_lines_is_converted():
    pretty = json.dumps(json.loads(HISTORIES[0]), indent=2)

    done = turntree("convert", stdin=pretty.encode())

    assert len(done.stdout.splitlines()) == 1
    assert tp.Thread.from_json(done.stdout).check() is None


def test_a_directory_is_converted_to_a_directory(folder):
    done = turntree("convert", folder / "in", "-o", folder / "out")

    assert (done.returncode, done.stderr) == (0, b"")
    found = {str(path.relative_to(folder / "out")) for path in (folder / "out").rglob("*") if path.is_file()}
    names = {f"deep/{path.name}" for path in DATA.glob("*.json")}
    assert found == names | {"all.jsonl", "all.jsonl.gz", "all.ndjson.zst"}
    out = folder / "out"
    assert (out / "all.jsonl").read_text(encoding="utf-8").splitlines() == THREADS
    assert gzip.decompress((out / "all.jsonl.gz").read_bytes()).decode().splitlines() == THREADS
    with zstandard.open(out / "all.ndjson.zst", "rb") as file:
        assert file.read().decode().splitlines() == THREADS
    each = [(out / "deep" / path.name).read_text(encoding="utf-8").strip() for path in sorted(DATA.glob("*.json"))]
    assert each == THREADS


def test_an_existing_file_is_overwritten_only_with_force(folder):
    target = folder / "x.jsonl"
    target.write_text("mine")

    fails(2, "--force", "convert", folder / "in" / "all.jsonl", "-o", target)
    assert target.read_text() == "mine"
    assert turntree("convert", folder / "in" / "all.jsonl", "-o", target, "--force").returncode == 0
    assert target.read_text(encoding="utf-8").splitlines() == THREADS


def test_a_failure_stops_the_conversion_or_is_skipped(tmp_path):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text(f"{HISTORIES[0]}\n{BROKEN}\n{HISTORIES[1]}\n", encoding="utf-8")

    fails(1, "in.jsonl: line 2: /0/parts/0: ", "convert", source, "-o", target)
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]
    done = fails(1, "1 of 3 documents were skipped", "convert", source, "-o", target, "--on-error", "skip")
    assert "line 2: /0/parts/0: " in done.stderr.decode()
    assert target.read_text(encoding="utf-8").splitlines() == THREADS[:2]


def test_a_bad_file_gives_a_message_of_one_line(tmp_path):
    for name, data, words in [
        ("cut.jsonl.gz", gzip.compress(HISTORIES[0].encode() * 50)[:-30], "cut short"),
        ("cut.jsonl.zst", zstandard.compress(os.urandom(99_999))[:5000], "cut.jsonl.zst"),
        ("text.jsonl", b"\xff\xfe\n", "the format cannot be detected"),
        ("utf8.jsonl", HISTORIES[0].encode() + b'\n["\xff"]\n', "line 2: invalid UTF-8 at byte 2"),
        ("huge.jsonl", b"[" * 3_000_000, "nested deeper"),
        ("cut.json", HISTORIES[0].encode()[:-9], "the JSON ends in"),
    ]:
        path = tmp_path / name
        path.write_bytes(data)
        fails(1, words, "convert", path, "-o", tmp_path / "out.jsonl")
        path.unlink()
    assert list(tmp_path.iterdir()) == []


def test_wrong_arguments_exit_with_status_2(folder):
    source = folder / "in" / "all.jsonl"
    (folder / "empty").mkdir()

    fails(2, "No such file or directory", "convert", folder / "missing.jsonl")
    fails(2, "invalid choice", "convert", source, "--to", "yaml")
    fails(2, "must be a number from 1", "convert", source, "--jobs", "0")
    fails(2, "usage", "transmogrify")
    fails(2, "COMMAND")
    fails(2, "--output", "convert", folder / "in")
    fails(2, "once", "convert", "-", "-", "-o", folder / "out")
    fails(2, "--column", "convert", source, "--column", "x", "-o", folder / "y.jsonl")
    fails(1, "no file in it", "convert", folder / "empty", "-o", folder / "out")


def test_a_column_of_a_parquet_file_is_converted(tmp_path):
    table = pa.table({"id": range(len(HISTORIES) + 1), "history": [*HISTORIES, None]})
    pq.write_table(table, tmp_path / "in.parquet")
    target = tmp_path / "out.parquet"

    fails(2, "one of id, history", "convert", tmp_path / "in.parquet", "-o", target)
    done = turntree("convert", tmp_path / "in.parquet", "--column", "history", "-o", target)

    assert (done.returncode, done.stderr) == (0, b"")
    written = pq.read_table(target)
    assert written.schema == table.schema
    assert written["history"].to_pylist() == [*THREADS, None]
    assert written["id"].equals(table["id"])
    bad = pa.table({"history": [HISTORIES[0], "["]})
    pq.write_table(bad, tmp_path / "bad.parquet")
    fails(1, "row 1: ", "convert", tmp_path / "bad.parquet", "--column", "history", "-o", tmp_path / "no.parquet")
    assert not (tmp_path / "no.parquet").exists()
    skipped = (
        "convert",
        tmp_path / "bad.parquet",
        "--column",
        "history",
        "-o",
        target,
        "--force",
        "--on-error",
        "skip",
    )
    fails(1, "1 of 2 documents", *skipped)
    assert pq.read_table(target)["history"].to_pylist() == [THREADS[0], None]


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 128 + signal.SIGTERM)])
def test_a_signal_ends_the_command_and_leaves_no_file(tmp_path, number, status):
    target = tmp_path / "out.jsonl"
    command = [str(COMMAND), "convert", "--from", "pydantic-ai", "-o", str(target)]

    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdin.write((HISTORIES[0] + "\n").encode() * 500)
        process.stdin.flush()
        until = time.monotonic() + 20
        while not any(tmp_path.iterdir()) and time.monotonic() < until:
            time.sleep(0.01)  # the poll interval
        assert [path.name for path in tmp_path.iterdir()] != ["out.jsonl"]
        process.send_signal(number)
        assert process.wait(20) == status
        said = process.stderr.read().decode()

    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of POSIX")
def test_a_closed_standard_output_is_not_an_error(tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text((HISTORIES[0] + "\n") * 3000, encoding="utf-8")

    for command in ("convert", "show"):
        with subprocess.Popen([str(COMMAND), command, str(source)], stdout=-1, stderr=-1) as process:
            process.stdout.read(100)
            process.stdout.close()
            said = process.stderr.read()
            assert (process.wait(30), said) == (0, b"")


# validate


@pytest.mark.parametrize("command", ["convert", "validate", "show", "tree"])
def test_a_missing_file_is_wrong_use(tmp_path, command):
    (tmp_path / "file").write_text("")

    fails(2, f"{tmp_path / 'missing.json'}: No such file or directory", command, tmp_path / "missing.json")
    fails(2, f"{tmp_path / 'file/x.json'}: Not a directory", command, tmp_path / "file" / "x.json")


def test_validate_groups_issues_by_rule_and_prints_the_first_of_each(tmp_path):
    thread = json.loads(THREADS[0])
    for action in thread["actions"]:
        action["sequence"] = 9
    path = tmp_path / "bad.jsonl"
    path.write_text("\n".join([json.dumps(thread)] * 5 + ["["]) + "\n", encoding="utf-8")

    said = fails(1, "6 documents, 6 with errors", "validate", path).stdout.decode().splitlines()
    rows = [json.loads(row) for row in turntree("validate", "--json", path).stdout.splitlines()]

    count = sum(row["rule"] == "sequence" for row in rows)
    assert count >= 5
    assert said[0] == f"sequence: {count} errors"
    assert [line[:2] for line in said[1:5]] == ["  "] * 4
    assert all(line.startswith(f"  {path}:") and line.endswith("[sequence]") for line in said[1:4])
    assert said[4] == f"  … and {count - 3} more; --json prints all"
    assert said[5].startswith(f"{path}:6: error: ")
    assert len(said) == 6


def test_validate_prints_the_file_the_line_and_the_json_pointer(tmp_path):
    thread = json.loads(THREADS[0])
    thread["actions"][0]["sequence"] = 9
    good, bad = tmp_path / "good.json", tmp_path / "bad.jsonl"
    good.write_text(THREADS[0], encoding="utf-8")
    bad.write_text(f"{THREADS[0]}\n{json.dumps(thread)}\n[\n", encoding="utf-8")

    fine = turntree("validate", good)
    done = turntree("validate", good, bad)

    assert (fine.returncode, fine.stdout) == (0, b"")
    assert done.returncode == 1
    said = done.stdout.decode().splitlines()
    assert said[0] == "sequence: 2 errors"
    assert said[1].startswith(f"  {bad}:2:/actions/0/sequence: error: ")
    assert said[1].endswith("[sequence]")
    assert any(line.startswith(f"{bad}:3: error: ") for line in said)
    fails(2, f"{tmp_path / 'missing.json'}: No such file", "validate", good, tmp_path / "missing.json")
    rows = [json.loads(row) for row in turntree("validate", "--json", bad).stdout.splitlines()]
    assert sorted({row["line"] for row in rows}) == [2, 3]
    assert rows[0]["path"] == str(bad)


# show and tree


def test_show_prints_a_transcript():
    done = turntree("show", DATA / "plain-text.json")

    assert done.stdout.decode() == TRANSCRIPT
    assert turntree("show", stdin=tp.from_pydantic_ai(HISTORIES[2]).model_dump_json().encode()).stdout == done.stdout


def test_show_prints_colours_only_on_request():
    always = turntree("show", DATA / "plain-text.json", "--color", "always").stdout.decode()

    assert "\x1b[1;36muser\x1b[0m" in always
    assert b"\x1b" not in turntree("show", DATA / "plain-text.json", TERM="xterm", FORCE_COLOR="1").stdout


def test_show_html_escapes_the_content():
    history = HISTORIES[2].replace("Kyoto", "<script>alert(1)</script>\\u001b[2J")

    page = turntree("show", "--html", stdin=history.encode()).stdout.decode()

    assert page.startswith("<!doctype html>")
    assert "&lt;script&gt;" in page
    assert "<script" not in page
    assert b"\x1b" not in turntree("show", stdin=history.encode()).stdout


def test_show_html_of_a_session_is_the_page_of_the_inspector(tmp_path):
    talk = session(agent(model=scripted(["<script>alert(1)</script>"])))
    talk.run_sync("Hi")
    for text in (talk.to_json(), json.dumps(talk.to_dict(), indent=1)):
        page = turntree("show", "--html", stdin=text.encode()).stdout.decode()
        assert talk.checkpoints[0].id in page
        assert '<h2 id="requests">' in page
        assert "<script" not in page
        assert "Content-Security-Policy" in page
    path = tmp_path / "damaged.json"
    path.write_text(talk.to_json().replace('"rootId"', '"root"'))
    fails(1, f"{path}: ", "show", "--html", path)


def test_tree_prints_a_session_as_a_tree():
    talk = session(agent(model=scripted(["One.", "Two."])))
    talk.run_sync("First")
    talk.tree.checkout(talk.tree.branch(talk.tree.root.id, "other"))
    talk.run_sync("Second")
    text = talk.to_json().encode()

    drawn = turntree("tree", stdin=text).stdout.decode()
    shown = turntree("show", stdin=text).stdout.decode()

    assert f"Session {talk.id}" in drawn
    assert "└─ other · 2 messages · Second" in drawn
    assert "First\n" in shown
    assert "Two.\n" in shown
    tree = turntree("tree", stdin=talk.tree.to_json().encode()).stdout.decode()
    assert "└─ other" in tree
    fails(1, "has no branches", "tree", DATA / "plain-text.json")
    fails(1, "not a document that turntree shows", "show", stdin=b'{"a": 1}')


def test_show_prints_one_chosen_line_of_a_file(tmp_path):
    path = tmp_path / "all.jsonl"
    path.write_text("\n".join(HISTORIES), encoding="utf-8")

    assert turntree("show", path, "--line", 3).stdout.decode() == TRANSCRIPT
    fails(1, "no document in line 99", "show", path, "--line", 99)


# Stores


@pytest.mark.parametrize(
    "command",
    [
        ["sessions"],
        ["runs"],
        ["doctor"],
        ["show", "--session", "s"],
        ["tree", "--session", "s"],
        ["convert", "--session", "s"],
    ],
    ids=lambda command: command[0],
)
def test_a_command_that_reads_does_not_create_a_store_that_is_missing(command, tmp_path, capsys):
    for url in (f"sqlite:///{tmp_path}/missing.db", f"file://{tmp_path}/missing"):
        assert main([*command, "--store", url]) == 2

        assert "No such file or directory; check the URL of the store" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_folder_of_rules_that_is_missing_is_wrong_usage(tmp_path, capsys):
    assert main(["policy", "test", str(tmp_path / "missing"), "--project", str(tmp_path)]) == 2

    assert "there is no such folder" in capsys.readouterr().err


# doctor


def test_doctor_prints_the_versions():
    facts = json.loads(turntree("doctor", "--json").stdout)

    assert facts["turntree"] in turntree("doctor").stdout.decode()
    assert facts["python"].endswith(sys.version.split()[0])
    assert facts["optional"]["pyarrow"] == pa.__version__


def test_convert_writes_one_event_stream_file_for_each_document(folder):
    out, back = folder / "out", folder / "back"

    assert turntree("convert", folder / "in" / "deep", "-o", out, "--to", "ui-stream").returncode == 0
    assert turntree("convert", out, "-o", back).returncode == 0

    names = sorted(path.stem for path in DATA.glob("*.json"))
    assert sorted(path.name for path in out.iterdir()) == [f"{name}.sse" for name in names]
    assert sorted(path.name for path in back.iterdir()) == [f"{name}.json" for name in names]
    for name in names:
        body = (out / f"{name}.sse").read_bytes()
        assert body.strip() == tp.from_pydantic_ai((DATA / f"{name}.json").read_bytes()).to_ui_stream_bytes().strip()
        assert tp.Thread.model_validate_json((back / f"{name}.json").read_bytes()) == tp.from_ui_stream(body)

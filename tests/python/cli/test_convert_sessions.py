"""``turntree convert`` and ``convert_jsonl`` of sessions and trees: the current branch becomes a thread."""

import asyncio
import gzip
import io
import json

import pytest
from shell_command import fails, turntree

from turntree import ThreadTree, agent, session
from turntree import thread_protocol as tp
from turntree.upp import UserMessage, scripted


def talk(branches=1):
    """A session with this number of branches; the last one is current."""

    async def run():
        made = session(agent(model=scripted(lambda request: f"You said: {request.messages[-1].text}")), id="trip")
        await made.run("Hello!")
        for number in range(1, branches):
            made.tree.checkout(made.tree.branch(made.tree.root.id, f"try {number}"))
            await made.run(f"Number {number}?")
        return made

    return asyncio.run(run())


def texts(document):
    return [message.text for message in tp.Thread.from_json(document).to_upp()]


def test_the_json_of_a_session_is_converted_to_the_thread_of_its_current_branch(tmp_path):
    made = talk(branches=3)
    path = tmp_path / "session.json"
    path.write_text(made.to_json(), "utf-8")

    done = turntree("convert", path)

    assert done.returncode == 0
    assert texts(done.stdout) == ["Hello!", "You said: Hello!", "Number 2?", "You said: Number 2?"]
    assert tp.Thread.from_json(done.stdout).thread_id == "trip"
    note = f'turntree: {path}: the thread is the current branch, "try 2"; 1 other branch is left out; '
    assert done.stderr.decode() == note + "turntree tree draws all\n"


def test_other_branches_are_mentioned_also_for_trees_archives_standard_input_and_programs(tmp_path):
    made = talk(branches=2)
    made.tree.checkout(made.tree.root.id)
    tree, packed = tmp_path / "tree.json", tmp_path / "session.json.gz"
    tree.write_text(made.tree.to_json(), "utf-8")
    packed.write_bytes(gzip.compress(made.to_json().encode()))

    calls = [
        (turntree("convert", tree), tree),
        (turntree("convert", packed), packed),
        (turntree("convert", stdin=b"\n" + made.to_json().encode()), "standard input"),
    ]
    program = turntree("convert", tree, "--json")

    for done, name in calls:
        assert texts(done.stdout) == ["Hello!", "You said: Hello!"]
        assert done.stderr.decode().startswith(f'turntree: {name}: the thread is the current branch, "main"; 1 other ')
    note, summary = [json.loads(line) for line in program.stderr.splitlines()]
    assert (note["type"], summary["type"]) == ("note", "summary")
    assert note["message"].startswith(f"{tree}: the thread is the current branch")
    assert turntree("convert", tree, "--quiet").stderr == b""


def test_a_session_with_one_branch_is_converted_without_a_note(tmp_path):
    path = tmp_path / "session.json"
    path.write_text(talk().to_json(), "utf-8")

    done = turntree("convert", path, "--from", "session", "--to", "pydantic-ai")

    assert (done.returncode, done.stderr) == (0, b"")
    assert [part["content"] for each in json.loads(done.stdout) for part in each["parts"]] == [
        "Hello!",
        "You said: Hello!",
    ]


def test_the_rules_of_threads_are_checked_for_sessions_and_their_errors_name_the_place(tmp_path):
    path = tmp_path / "session.json"
    path.write_text(talk().to_json(), "utf-8")
    damaged = json.loads(talk().to_json())
    damaged["threadTree"]["nodes"][0]["thread"]["messages"][0]["type"] = "letter"

    assert turntree("validate", path).returncode == 0
    path.write_text(json.dumps(damaged), "utf-8")
    fails(1, "session.json: /threadTree/nodes/0/thread/messages/0", "convert", path)
    fails(2, "invalid choice: 'session'", "convert", path, "--to", "session")


def test_lines_of_sessions_are_converted_by_the_functions(tmp_path):
    sessions = [talk(branches=2), talk()]
    source = io.BytesIO("\n".join(made.to_json() for made in sessions).encode())
    written = io.BytesIO()

    report = tp.convert_jsonl(source, written, from_=None, profile="portable")

    assert report.documents == 2
    lines = written.getvalue().splitlines()
    assert [texts(line)[-1] for line in lines] == ["You said: Number 1?", "You said: Hello!"]
    with pytest.raises(ValueError, match="to must be one of .*thread-protocol-canonical, not"):
        tp.convert_jsonl(io.BytesIO(), io.BytesIO(), to="session")


def test_the_full_profile_restores_the_messages_of_a_tree():
    tree = ThreadTree([UserMessage("Hello!", metadata={"app": {"a": 1}})])
    written = io.BytesIO()

    tp.convert_jsonl(io.BytesIO(tree.to_json().encode()), written, "tree")

    assert tp.Thread.from_json(written.getvalue()).to_upp() == tree.history()


def test_branch_chooses_the_branch_that_is_converted_by_its_name_or_id(tmp_path):
    made = talk(branches=3)
    path, tree = tmp_path / "session.json", tmp_path / "tree.json.gz"
    path.write_text(made.to_json(), "utf-8")
    tree.write_bytes(gzip.compress(made.tree.to_json().encode()))
    id = next(id for id, node in made.tree.nodes.items() if node.name == "try 1")

    calls = [
        turntree("convert", path, "--branch", "try 1"),
        turntree("convert", path, "--branch", id, "--from", "session"),
        turntree("convert", tree, "--branch", "try 1"),
        turntree("convert", "--branch", "try 1", stdin=made.to_json().encode()),
    ]

    for done in calls:
        assert (done.returncode, done.stderr) == (0, b"")
        assert texts(done.stdout)[-1] == "You said: Number 1?"
    assert tp.Thread.from_json(calls[0].stdout).thread_id == "trip"
    assert texts(turntree("convert", path, "--branch", "main").stdout) == ["Hello!", "You said: Hello!"]


def test_branch_chooses_a_branch_of_a_stored_session(tmp_path):
    url = f"sqlite:///{tmp_path / 'sessions.db'}"

    async def save():
        made = session(agent(model=scripted(["Hi", "Again"])), id="trip", persistence=url)
        await made.run("Hello!")
        made.tree.checkout(made.tree.branch(made.tree.root.id, "second"))
        await made.run("Once more")

    asyncio.run(save())

    done = turntree("convert", "--store", url, "--session", "trip", "--branch", "main")

    assert (done.returncode, done.stderr) == (0, b"")
    assert texts(done.stdout) == ["Hello!", "Hi"]
    fails(
        1,
        'session trip: no branch is called "third"',
        "convert",
        "--store",
        url,
        "--session",
        "trip",
        "--branch",
        "third",
    )


def test_branch_refuses_names_that_are_unknown_or_not_unique_and_documents_without_branches(tmp_path):
    made = talk(branches=2)
    made.tree.branch(made.tree.root.id, "try 1")
    path, thread, lines = tmp_path / "session.json", tmp_path / "thread.json", tmp_path / "threads.jsonl"
    path.write_text(made.to_json(), "utf-8")
    thread.write_text('{"threadId": "t", "actions": []}', "utf-8")
    lines.write_text("", "utf-8")

    fails(
        1,
        f'{path}: no branch is called "try 9"; turntree tree draws the branches',
        "convert",
        path,
        "--branch",
        "try 9",
    )
    fails(1, f'{path}: 2 branches are called "try 1"; pass the id of one', "convert", path, "--branch", "try 1")
    fails(1, f"{thread}: is no session or tree, and has no branches", "convert", thread, "--branch", "main")
    fails(2, f"{lines}: --branch is for files with one session or tree", "convert", lines, "--branch", "main")
    fails(2, "pydantic-ai has no branches", "convert", path, "--branch", "main", "--from", "pydantic-ai")


def directory_of(tmp_path, branches):
    folder = tmp_path / "sessions"
    folder.mkdir()
    for number, count in enumerate(branches):
        (folder / f"{number:02}.json").write_text(talk(branches=count).to_json(), "utf-8")
    return folder


def test_branch_of_a_directory_skips_and_reports_sessions_without_it(tmp_path):
    folder = directory_of(tmp_path, [2, 1, 2])

    done = turntree("convert", folder, "-o", tmp_path / "out", "--branch", "try 1", "--on-error", "skip")
    fails(1, 'no branch is called "try 1"', "convert", folder, "-o", tmp_path / "stopped", "--branch", "try 1")

    assert done.returncode == 1
    assert f"{folder / '01.json'}" in done.stderr.decode()
    assert "1 of 3 documents were skipped" in done.stderr.decode()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["00.json", "02.json"]
    assert texts((tmp_path / "out" / "02.json").read_bytes())[-1] == "You said: Number 1?"


def test_the_conversion_of_a_directory_mentions_branches_that_are_left_out(tmp_path):
    folder = directory_of(tmp_path, [3, 1, 4])

    done = turntree("convert", folder, "-o", tmp_path / "out")
    quiet = turntree("convert", folder, "-o", tmp_path / "quiet", "--quiet")

    assert (done.returncode, quiet.stderr) == (0, b"")
    assert [line.split(": the thread is")[0] for line in done.stderr.decode().splitlines()] == [
        f"turntree: {folder / '00.json'}",
        f"turntree: {folder / '02.json'}",
    ]
    assert len(list((tmp_path / "out").iterdir())) == 3


def test_the_notes_of_a_large_directory_are_limited(tmp_path):
    folder = directory_of(tmp_path, [3])
    document = (folder / "00.json").read_bytes()
    for number in range(1, 23):
        (folder / f"{number:02}.json").write_bytes(document)

    notes = turntree("convert", folder, "-o", tmp_path / "out").stderr.decode().splitlines()

    assert len(notes) == 21
    assert notes[-1] == "turntree: … and 3 more files with branches that are left out"

"""Conversations of other packages are imported into stores."""

import json
import sqlite3
from datetime import datetime, timezone

import pytest
from import_support import HISTORIES, SOURCES, change, copy_of, drawn, needs_msgpack, texts

from turntree import ConflictError, CorruptDataError, Session, agent, store
from turntree.upp import scripted


async def opened(sessions, id):
    helper = agent(model=scripted(lambda request: f"{len(request.messages)} messages"))
    return await Session.load(sessions, id, helper)


def by_id(report):
    return {session.id: session for session in report.sessions}


@needs_msgpack
async def test_a_langgraph_thread_becomes_a_session_with_its_fork_as_a_branch():
    sessions = store.memory()

    report = await sessions.import_from(SOURCES / "langgraph.db")

    session = await opened(sessions, "shop")
    assert (report.format, report.count("imported")) == ("langgraph", 5)
    kinds = ["user", "assistant", "tool_result", "assistant", "user", "assistant"]
    assert [kind for kind, _ in texts(session)] == kinds
    assert [text for _, text in texts(session)][3:] == ["Tea costs 5 EUR.", "I go to bed.", "Good night."]
    main, branch = session.tree.nodes.values()
    assert (main.name, len(main.thread), branch.branch_point, session.tree.current.id) == ("main", 6, 4, branch.id)
    assert main.thread[4].images[0].mime_type == "image/png"
    assert session.tree.history()[-1].reasoning[0].text == "It is late."


@needs_msgpack
async def test_tool_calls_ids_times_usage_and_state_of_langgraph_are_kept():
    sessions = store.memory()

    report = await sessions.import_from(SOURCES / "langgraph.db")

    session = await opened(sessions, "shop")
    question, asked, results, *_ = session.tree.history()
    assert [call.tool_name for call in asked.tool_calls] == ["price", "price"]
    assert [result.tool_call_id for result in results.results] == [call.tool_call_id for call in asked.tool_calls]
    assert [result.is_error for result in results.results] == [False, True]
    assert results.results[0].result == "tea: 5 EUR"
    assert (question.id, asked.id) == ("h_1", "ai_tea")
    assert asked.metadata["langchain"]["usage_metadata"]["total_tokens"] == 27
    assert session.created_at <= question.timestamp <= asked.timestamp <= session.updated_at
    assert session.updated_at < datetime.now(timezone.utc)
    imported = session.metadata["imported"]
    assert imported["system"] == ["Answer in one sentence."]
    assert imported["channels"] == {"visits": 1, "labels": ["new"]}
    shop = by_id(report)["shop"]
    assert shop.omitted == {"checkpoint": 11}
    assert shop.in_metadata["system message"] == 1
    assert shop.in_metadata["channel 'visits'"] == 1


@needs_msgpack
async def test_edited_and_removed_messages_of_langgraph_become_branches():
    sessions = store.memory()

    await sessions.import_from(SOURCES / "langgraph.db")

    session = await opened(sessions, "edited")
    assert texts(session) == [("user", "First, please")]
    assert [(point, size) for _, point, size in drawn(session)] == [(None, 2), (0, 2), (1, 0)]
    assert session.tree.root.thread[0].text == "First"


@needs_msgpack
async def test_the_namespace_of_a_subgraph_is_a_session_of_its_own():
    sessions = store.memory()

    await sessions.import_from(SOURCES / "langgraph.db")

    session = await opened(sessions, "nested/child")
    assert texts(session) == [("user", "Delegate"), ("assistant", "From inside.")]
    assert session.metadata["imported"]["checkpoint_ns"] == "child"


@needs_msgpack
async def test_checkpoints_that_store_changes_only_are_replayed():
    sessions = store.memory()

    report = await sessions.import_from(SOURCES / "langgraph-changes.db")

    session = await opened(sessions, "changes")
    assert [text for _, text in texts(session)] == ["Tea?", "", "tea: 5 EUR", "5 EUR.", "Thanks", "Bye."]
    assert report.sessions[0].branches == 0


async def test_items_of_the_openai_agents_sdk_become_messages():
    sessions = store.memory()

    report = await sessions.import_from(SOURCES / "openai.db")

    session = await opened(sessions, "shop")
    _, asked, results, answer, picture, looked = session.tree.history()
    assert report.format == "openai-agents"
    assert asked.reasoning[0].text == "I need prices."
    assert [call.arguments for call in asked.tool_calls] == [{"item": "tea"}, {"item": "moon"}]
    assert [result.result for result in results.results] == ["tea: 5 EUR", "not for sale"]
    assert (answer.id, answer.text) == ("msg_1", "Tea costs 5 EUR.")
    assert picture.images[0].mime_type == "image/png"
    assert looked.metadata["openai-agents"]["items"][0]["type"] == "web_search_call"
    assert session.metadata["imported"]["system"] == ["Answer in one sentence."]
    assert by_id(report)["shop"].omitted == {
        "annotations of a text": 1,
        "id of an item": 3,
        "signature of reasoning": 1,
    }
    assert answer.timestamp.year == 2026


async def test_branches_of_the_openai_agents_sdk_are_branches():
    sessions = store.memory()

    await sessions.import_from(SOURCES / "openai-branches.db")

    session = await opened(sessions, "shop")
    assert drawn(session) == [("main", None, 6), ("bedtime", 4, 2)]
    assert texts(session)[-2:] == [("user", "I go to bed."), ("assistant", "Good night.")]


async def test_a_call_without_a_result_gets_an_error_result():
    sessions = store.memory()

    report = await sessions.import_from(SOURCES / "openai.db")

    session = await opened(sessions, "stopped")
    asked, result = session.tree.history()[-2:]
    assert result.results[0].tool_call_id == asked.tool_calls[0].tool_call_id
    assert result.results[0].is_error
    assert by_id(report)["stopped"].omitted["tool call without a result"] == 1


async def test_a_folder_of_pydantic_ai_histories_becomes_sessions_named_by_the_files():
    sessions = store.memory()

    report = await sessions.import_from(HISTORIES)

    session = await opened(sessions, "system-prompt-and-turns")
    assert report.format == "pydantic-ai"
    assert set(by_id(report)) == {path.stem for path in HISTORIES.glob("*.json")}
    assert session.tree.history()[0].text == "Hi, I am Ada."
    imported = session.metadata["imported"]
    assert imported["system"] == ["Answer in one sentence.", "You teach data structures."]
    assert session.tree.history()[1].metadata["pydantic-ai"]["usage"]["input_tokens"] == 41
    assert session.created_at == datetime(2026, 1, 15, 9, 0, 0, 375000, tzinfo=timezone.utc)
    assert by_id(report)["retries"].omitted == {"part 'retry-feedback'": 1}


async def test_each_line_of_json_lines_is_a_session(tmp_path):
    path = tmp_path / "talks.jsonl"
    history = json.loads((HISTORIES / "plain-text.json").read_text(encoding="utf-8"))
    path.write_text(f"{json.dumps(history)}\n\n{json.dumps(history)}\n", encoding="utf-8")
    sessions = store.memory()

    report = await sessions.import_from(path)

    assert [session.id for session in report.sessions] == ["talks-1", "talks-3"]


async def test_an_imported_session_is_opened_and_continued(url):
    helper = agent(model=scripted(lambda request: f"{len(request.messages)} messages"))
    async with store.from_url(url) as sessions:
        await sessions.import_from(SOURCES / "openai.db", agent=helper)

        session = await Session.open(sessions, "shop", helper)
        turn = await session.run("And now?")

        again = await Session.load(sessions, "shop", helper)
        listed = await sessions.sessions(agent=helper.id)
        assert turn.response.text == "7 messages"
        assert texts(again)[-2:] == [("user", "And now?"), ("assistant", "7 messages")]
        assert {info.id for info in listed} == {"shop", "stopped"}
        assert await sessions.check() == []


async def test_an_import_overwrites_nothing(tmp_path):
    sessions = store.memory()
    other = await Session.open(sessions, "stopped", agent(model=scripted(["Mine."])))
    await other.run("Hello")

    with pytest.raises(ConflictError, match="session 'stopped'.*has a session \"stopped\""):
        await sessions.import_from(SOURCES / "openai.db")

    assert [info.id for info in await sessions.sessions()] == ["stopped"]
    report = await sessions.import_from(SOURCES / "openai.db", on_error="skip")
    assert [(session.id, session.status) for session in report.sessions] == [
        ("shop", "imported"),
        ("stopped", "exists"),
    ]
    assert texts(await opened(sessions, "stopped")) == [("user", "Hello"), ("assistant", "Mine.")]


async def test_a_dry_run_stores_nothing():
    sessions = store.memory()

    report = await sessions.import_from(SOURCES / "openai.db", dry_run=True)

    assert report.dry_run
    assert report.count("imported") == 2
    assert await sessions.sessions() == []


def test_the_source_does_not_change(tmp_path):
    folder = tmp_path / "source"
    folder.mkdir()
    path = copy_of("openai.db", folder)
    before = path.read_bytes(), path.stat().st_mtime_ns

    store.memory().import_from_sync(path)

    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert [file.name for file in folder.iterdir()] == ["openai.db"]


def test_what_is_in_the_log_of_an_open_database_is_imported_without_changing_it(tmp_path):
    path = copy_of("openai.db", tmp_path)
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA wal_autocheckpoint = 0")
    with writer:
        item = json.dumps({"role": "user", "content": "New"})
        writer.execute("INSERT INTO agent_messages (session_id, message_data) VALUES ('new', ?)", (item,))
    log = path.with_name("openai.db-wal")
    before = path.read_bytes(), log.read_bytes()

    report = store.memory().import_from_sync(path)

    assert "new" in by_id(report)
    assert (path.read_bytes(), log.read_bytes()) == before
    writer.close()


def test_a_log_whose_index_is_missing_is_read_from_a_copy(tmp_path):
    original = tmp_path / "original"
    original.mkdir()
    path = copy_of("openai.db", original)
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA wal_autocheckpoint = 0")
    with writer:
        item = json.dumps({"role": "user", "content": "New"})
        writer.execute("INSERT INTO agent_messages (session_id, message_data) VALUES ('new', ?)", (item,))
    folder = tmp_path / "backup"
    folder.mkdir()
    for name in ("openai.db", "openai.db-wal"):
        (folder / name).write_bytes((original / name).read_bytes())
    writer.close()

    report = store.memory().import_from_sync(folder / "openai.db")

    assert "new" in by_id(report)
    assert sorted(file.name for file in folder.iterdir()) == ["openai.db", "openai.db-wal"]


async def test_a_damaged_item_names_file_session_and_row(tmp_path):
    path = copy_of("openai.db", tmp_path)
    change(path, "UPDATE agent_messages SET message_data = '{\"role\"' WHERE id = 5")
    sessions = store.memory()

    with pytest.raises(CorruptDataError, match=r"openai\.db: session 'shop', row 5: message_data is not JSON"):
        await sessions.import_from(path)

    assert await sessions.sessions() == []
    report = await sessions.import_from(path, on_error="skip")
    assert [session.status for session in report.sessions] == ["failed", "imported"]
    assert "row 5" in report.sessions[0].error


@needs_msgpack
@pytest.mark.parametrize(
    ("kind", "data", "reason"),
    [
        ("msgpack", b"\x81", "MessagePack data are damaged"),
        ("msgpack", b"\x93\x01\x02\x03", "not an object"),
        ("pickle", b"cos\nsystem\n(S'true'\ntR.", "pickled"),
        ("msgpack+aes", b"xx", "encrypted"),
        ("json", b'{"channel_values": []}', "no channel_values"),
    ],
)
def test_a_damaged_checkpoint_names_file_thread_and_checkpoint(tmp_path, kind, data, reason):
    path = copy_of("langgraph-changes.db", tmp_path)
    change(path, "UPDATE checkpoints SET type = ?, checkpoint = ?", kind, data)

    with pytest.raises(
        CorruptDataError, match=rf"langgraph-changes\.db: thread 'changes', checkpoint \S+: .*({reason})"
    ):
        store.memory().import_from_sync(path)


def checkpoint_with(*messages):
    """A checkpoint with messages that are MessagePack extensions."""
    import msgpack

    values = {"channel_values": {"messages": list(messages)}, "channel_versions": {"messages": "1"}}
    return msgpack.packb({"v": 4, "ts": "2026-01-01T00:00:00+00:00", **values})


@needs_msgpack
def test_objects_of_a_checkpoint_are_not_constructed(tmp_path):
    import msgpack

    path, proof = copy_of("langgraph-changes.db", tmp_path), tmp_path / "executed"
    call = msgpack.ExtType(0, msgpack.packb(["os", "mkdir", str(proof)]))
    human = msgpack.packb(["langchain_core.messages.human", "HumanMessage", {"type": "human", "content": [call]}])
    data = checkpoint_with(msgpack.ExtType(5, human))
    change(path, "UPDATE checkpoints SET type = 'msgpack', checkpoint = ?", data)

    report = store.memory().import_from_sync(path)

    assert report.sessions[0].omitted["content block of an unknown form"] == 1
    assert not proof.exists()


@needs_msgpack
def test_objects_in_objects_without_end_are_refused(tmp_path):
    import msgpack

    path, value = copy_of("langgraph-changes.db", tmp_path), msgpack.packb(None)
    for _ in range(2000):
        value = msgpack.packb(msgpack.ExtType(7, value))
    change(path, "UPDATE checkpoints SET type = 'msgpack', checkpoint = ?", value)

    with pytest.raises(CorruptDataError, match="nested in more than 32 levels"):
        store.memory().import_from_sync(path)


@needs_msgpack
def test_a_thread_without_the_channel_of_messages_is_reported(tmp_path):
    sessions = store.memory()

    report = sessions.import_from_sync(SOURCES / "langgraph.db", messages_key="chat")

    assert report.count("empty") == 5
    assert by_id(report)["shop"].in_metadata["channel 'visits'"] == 1
    assert sessions.sessions_sync() == []


def test_damaged_and_foreign_files_are_refused(tmp_path):
    sessions = store.memory()
    damaged = copy_of("openai.db", tmp_path)
    content = damaged.read_bytes()
    damaged.write_bytes(content[:100] + b"\xff" * (len(content) - 100))
    foreign, text, none = tmp_path / "foreign.db", tmp_path / "text.json", tmp_path / "none"
    connection = sqlite3.connect(foreign)
    connection.execute("CREATE TABLE things (id)")
    connection.commit()
    connection.close()
    text.write_text("[{", encoding="utf-8")
    none.mkdir()

    for path, words in [(damaged, r"openai\.db: "), (text, r"text\.json: "), (none, "no file in it ends in")]:
        with pytest.raises(CorruptDataError, match=words):
            sessions.import_from_sync(path)
    with pytest.raises(ValueError, match="neither the tables of LangGraph"):
        sessions.import_from_sync(foreign)
    with pytest.raises(ValueError, match="without the tables of the format langgraph"):
        sessions.import_from_sync(SOURCES / "openai.db", format="langgraph")
    with pytest.raises(FileNotFoundError):
        sessions.import_from_sync(tmp_path / "missing.db")
    with pytest.raises(ValueError, match="unknown format 'excel'"):
        sessions.import_from_sync(text, format="excel")


def test_an_id_that_a_session_cannot_have_is_replaced_and_reported(tmp_path):
    path = copy_of("openai.db", tmp_path)
    change(path, "UPDATE agent_messages SET session_id = ? WHERE session_id = 'shop'", "line\nbreak")
    sessions = store.memory()

    first = sessions.import_from_sync(path, dry_run=True)
    report = sessions.import_from_sync(path)

    renamed = next(session for session in report.sessions if session.in_metadata.get("id that a session cannot have"))
    assert renamed.id.startswith("imported-")
    assert renamed.id in by_id(first)
    assert json.loads(sessions.load_sync(renamed.id))["metadata"]["imported"]["id"] == "line\nbreak"


def test_surrogates_without_a_pair_are_replaced_and_reported(tmp_path):
    path = copy_of("openai.db", tmp_path)
    change(path, "UPDATE agent_messages SET message_data = ? WHERE id = 2", '{"role": "user", "content": "a\\ud800"}')
    sessions = store.memory()

    report = sessions.import_from_sync(path)

    assert by_id(report)["shop"].omitted["invalid character"] == 1
    assert "a\ufffd" in sessions.load_sync("shop")

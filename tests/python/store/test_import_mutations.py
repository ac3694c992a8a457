"""Sources with any values where others are expected are imported or refused; nothing else is raised."""

import json
import sqlite3

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from import_support import needs_msgpack
from support.laws import cases

from turntree import store

WORDS = st.sampled_from(
    [
        *("", "user", "assistant", "system", "tool", "human", "ai", "text", "image", "image_url", "file", "reasoning"),
        *("message", "function_call", "function_call_output", "c1", "add", '{"a": 1}', "data:image/png;base64,eA=="),
    ]
)
KEYS = st.sampled_from(
    [
        *("type", "role", "content", "id", "name", "call_id", "tool_call_id", "arguments", "output", "tool_calls"),
        *("args", "summary", "text", "image_url", "url", "source", "additional_kwargs", "usage_metadata", "file_data"),
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | WORDS | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
ITEMS = st.lists(st.dictionaries(KEYS, VALUES, max_size=6), max_size=5)
MANY = settings(max_examples=cases(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def imported(path):
    """The report of an import that skips errors, into a store whose sessions are readable."""
    sessions = store.memory()
    report = sessions.import_from_sync(path, on_error="skip")
    assert {session.status for session in report.sessions} <= {"imported", "empty", "failed"}
    assert all(session.error for session in report.sessions if session.status == "failed")
    assert sessions.check_sync() == []
    return report


@pytest.fixture
def openai(tmp_path):
    connection = sqlite3.connect(tmp_path / "openai.db")
    connection.execute("CREATE TABLE agent_sessions (session_id, created_at, updated_at)")
    connection.execute("CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, session_id, message_data, created_at)")
    yield connection, tmp_path / "openai.db"
    connection.close()


@MANY
@given(items=ITEMS, times=st.sampled_from(["2026-01-01 00:00:00", "0001-01-01T00:00:00+23:00", "soon", 7, None]))
def test_any_items_are_imported_or_refused(openai, items, times):
    connection, path = openai
    with connection:
        connection.execute("DELETE FROM agent_messages")
        rows = [("s", json.dumps(item), times) for item in items]
        connection.executemany(
            "INSERT INTO agent_messages (session_id, message_data, created_at) VALUES (?, ?, ?)", rows
        )

    assert len(imported(path).sessions) == (1 if items else 0)


@pytest.fixture
def langgraph(tmp_path):
    connection = sqlite3.connect(tmp_path / "langgraph.db")
    connection.execute(
        "CREATE TABLE checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint)"
    )
    connection.execute(
        "CREATE TABLE writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, value)"
    )
    yield connection, tmp_path / "langgraph.db"
    connection.close()


@needs_msgpack
@MANY
@given(messages=st.lists(ITEMS, max_size=3), values=st.dictionaries(KEYS | st.integers(0, 9), VALUES, max_size=3))
def test_any_checkpoints_are_imported_or_refused(langgraph, messages, values):
    import msgpack

    connection, path = langgraph
    with connection:
        connection.execute("DELETE FROM checkpoints")
        for number, listed in enumerate(messages):
            objects = [
                msgpack.ExtType(5, msgpack.packb(["langchain_core.messages", "AIMessage", item])) for item in listed
            ]
            state = {"channel_values": {**values, "messages": objects}, "channel_versions": {"messages": 1}, "ts": "x"}
            row = ("t", "", str(number), str(number - 1), "msgpack", msgpack.packb(state))
            connection.execute("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?)", row)

    assert len(imported(path).sessions) == (1 if messages else 0)


@needs_msgpack
@MANY
@given(data=st.binary(max_size=60), kind=st.sampled_from(["msgpack", "json", "bytes", "null", "pickle"]))
def test_any_bytes_are_refused(langgraph, data, kind):
    connection, path = langgraph
    with connection:
        connection.execute("DELETE FROM checkpoints")
        connection.execute("INSERT INTO checkpoints VALUES ('t', '', '1', NULL, ?, ?)", (kind, data))

    assert imported(path).sessions[0].status == "failed"


@MANY
@given(history=st.lists(st.dictionaries(st.sampled_from(["kind", "parts", "usage", "timestamp"]), VALUES), max_size=3))
def test_any_histories_are_imported_or_refused(tmp_path, history):
    path = tmp_path / "history.json"
    path.write_text(json.dumps(history), encoding="utf-8")

    assert len(imported(path).sessions) == 1

"""The list of queued and finished runs, their removal, and the queue of encrypted stores."""

import asyncio
import json
import subprocess
import sys
from datetime import timedelta

import pytest

from turntree import StoreError, agent, store
from turntree._worker import Worker
from turntree.upp import scripted

OLD, NEW = {"old": bytes(32)}, {"new": bytes(range(32)), "old": bytes(32)}


@pytest.fixture(params=["memory", "sqlite", "encrypted"])
async def saved(request, tmp_path):
    opened = store.memory() if request.param == "memory" else store.sqlite(tmp_path / "s.db")
    async with store.encrypted(opened, OLD) if request.param == "encrypted" else opened as one:
        yield one


def reply(request):
    if request.messages[-1].text == "fail":
        message = "secret reason"
        raise ValueError(message)
    return "secret answer"


async def execute(saved, count):
    """Execute runs until so many have ended."""
    worker = Worker(saved, agent(name="helper", model=scripted(reply)), max_attempts=1, backoff=0.01)
    task = asyncio.create_task(worker.run())
    while len([one for one in await saved.runs() if one.status in ("done", "failed")]) < count:
        await asyncio.sleep(0.02)
    worker.stop()
    await task


async def test_runs_are_listed_and_removed_when_they_are_old(saved):
    ids = [await saved.enqueue(f"s{number}", "Hello") for number in range(3)]
    bad = await saved.enqueue("bad", "fail")
    assert [one.status for one in await saved.runs()] == ["queued"] * 4
    await execute(saved, 4)
    waiting = await saved.enqueue("s0", "later", agent="another")

    first = await saved.runs(limit=2)
    second = await saved.runs(limit=2, after=first.next)
    third = saved.runs_sync(limit=2, after=second.next)

    assert [one.id for one in [*first, *second, *third]] == [waiting, bad, *reversed(ids)]
    assert third.next is None
    (failed,) = await saved.runs(status="failed")
    assert "secret reason" in failed.error
    assert failed.created_at <= failed.updated_at
    (of_session,) = await saved.runs("done", session="s1")
    assert of_session.turn.response.text == "secret answer"
    assert (await saved.prune(timedelta(days=1))).runs == 0
    assert (await saved.prune(timedelta())).runs == 4
    assert [(one.id, one.agent) for one in await saved.runs()] == [(waiting, "another")]
    with pytest.raises(KeyError):
        await saved.run(bad)


async def test_wrong_arguments_of_a_list_are_refused(saved, tmp_path):
    with pytest.raises(ValueError, match="limit"):
        await saved.runs(limit=0)
    with pytest.raises(ValueError, match="position"):
        await saved.runs(after="x")
    with pytest.raises(ValueError, match="queued, running"):
        await saved.runs("nothing")
    with pytest.raises(ValueError, match="no queue"):
        await store.file(tmp_path / "files").runs()


async def test_an_encrypted_queue_shows_no_content_and_its_key_can_be_changed(tmp_path):
    async with store.sqlite(tmp_path / "s.db") as plain:
        secret = store.encrypted(plain, OLD)
        await secret.enqueue("s0", "secret question")
        await secret.enqueue("bad", "fail")
        await execute(secret, 2)
        waiting = await secret.enqueue("s1", "secret question")
        content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert b"secret" not in content

        changed = store.encrypted(plain, NEW)
        await changed.rotate()
        only_new = store.encrypted(plain, {"new": NEW["new"]})
        assert [one.status for one in await only_new.runs()] == ["queued", "failed", "done"]
        with pytest.raises(StoreError, match='encrypted with the key "new", which was not given'):
            await secret.runs()
        with pytest.raises(StoreError, match="which was not given"):
            await secret._native.claim("worker", [], 60)
        # The worker with the wrong key has given it back.
        await execute(only_new, 3)
        assert (await only_new.run(waiting)).status == "done"


def test_commands_use_a_store_of_a_module(tmp_path):
    (tmp_path / "app.py").write_text(f"""
from turntree import agent, store
from turntree.upp import scripted

sessions = store.encrypted("sqlite:///{tmp_path}/s.db", {{"2026": bytes(32)}})
""")

    def run(*arguments):
        command = [sys.executable, "-m", "turntree", *arguments]
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=50, cwd=tmp_path)

    id = run("enqueue", "--store", "app:sessions", "--session", "s", "secret question").stdout.strip()
    assert run("runs", "--store", "app:sessions").stdout.splitlines()[1].split()[-2:] == [id, "s"]
    assert b"secret" not in (tmp_path / "s.db").read_bytes()
    wrong = run("runs", "--store", "app:store")
    assert wrong.returncode == 2
    assert "is not a store but module" in wrong.stderr
    assert "MODULE:STORE" in run("runs", "--store", "nothing").stderr


def test_the_command_lists_runs(tmp_path):
    url = f"sqlite:///{tmp_path}/s.db"
    with store.from_url(url) as saved:
        ids = [saved.enqueue_sync(f"s{number}", "Hello", priority=number) for number in range(3)]

    def run(*arguments):
        command = [sys.executable, "-m", "turntree", "runs", "--store", url, *arguments]
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=50)

    lines = [json.loads(line) for line in run("--json", "--all", "--limit", "1").stdout.splitlines()]
    assert [line["id"] for line in lines] == ids[::-1]
    assert lines[0].keys() >= {"session", "status", "attempts", "error", "turn", "created_at", "updated_at"}
    table = run("--status", "queued", "--limit", "2")
    assert [line.split()[-1] for line in table.stdout.splitlines()] == ["session", "s2", "s1"]
    assert "go on with --after" in table.stderr
    assert run("--session", "s9").stdout.count("\n") == 1
    assert run("--after", "x").returncode == 2
    assert run("--limit", "0").returncode == 2

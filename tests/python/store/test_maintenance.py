"""Stores as a whole: check, export, import, prune, encryption, and the commands that show them."""

import asyncio
import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone

import pytest
from store_engines import texts, url_of

from turntree import ConflictError, CorruptDataError, Session, StoreError, agent, store
from turntree.upp import scripted

LARGE = "large attachment " * 40_000


async def fill(saved, helper, count=3):
    for number in range(count):
        sess = await Session.open(saved, f"s{number}", helper, metadata={"number": number})
        await sess.run(f"first secret {number}")
        branch = sess.fork(sess.tree.root.id)
        await sess.run(f"dropped secret {number}")
        sess.tree.checkout(branch)
        await sess.run(f"second secret {number}")
    big = await Session.open(saved, "big", helper)
    await big.run(LARGE)


@contextmanager
def opened(path):
    connection = sqlite3.connect(path)
    try:
        with connection:
            yield connection
    finally:
        connection.close()


async def everything(saved):
    return {info.id: await saved.load(info.id) for info in await saved.sessions()}


async def test_a_store_without_defects_has_no_issues(url, helper):
    async with store.from_url(url) as saved:
        assert await saved.check() == []
        await fill(saved, helper)

        assert await saved.check() == []
        assert saved.check_sync() == []


async def test_a_damaged_session_is_named_and_the_others_are_read(tmp_path, helper):
    async with store.sqlite(tmp_path / "s.db") as saved:
        await fill(saved, helper)
    with opened(tmp_path / "s.db") as database:
        number = database.execute("SELECT number FROM sessions WHERE id = 's1'").fetchone()[0]
        key, data = database.execute(
            "SELECT key, data FROM entries WHERE key >> 32 = ? ORDER BY key LIMIT 1", [number]
        ).fetchone()
        database.execute("UPDATE entries SET data = ? WHERE key = ?", [data[:-1] + bytes([data[-1] ^ 1]), key])
        database.execute("UPDATE sessions SET turns = 7 WHERE id = 's2'")
        database.execute("DELETE FROM blobs")

    async with store.sqlite(tmp_path / "s.db") as saved:
        issues = {issue.session: issue.message for issue in await saved.check()}

        assert set(issues) == {"s1", "s2", "big"}
        assert "digest does not match" in issues["s1"]
        assert "turns 7" in issues["s2"]
        assert "is missing" in issues["big"]
        assert (await Session.load(saved, "s0", helper)).id == "s0"


async def test_an_export_has_all_sessions_but_the_damaged_ones_which_it_names(tmp_path, helper):
    path = tmp_path / "export.jsonl"
    async with store.sqlite(tmp_path / "s.db") as saved:
        await fill(saved, helper)
    with opened(tmp_path / "s.db") as database:
        number = database.execute("SELECT number FROM sessions WHERE id = 's1'").fetchone()[0]
        database.execute("UPDATE entries SET data = zeroblob(9) WHERE key >> 32 = ?", [number])
        database.execute("DELETE FROM blobs")

    async with store.sqlite(tmp_path / "s.db") as saved:
        with pytest.raises(CorruptDataError, match=r"export\.jsonl has 2 sessions") as raised:
            await saved.export(path)

        assert {id for id in ("s0", "s1", "s2", "big") if f'session "{id}": ' in str(raised.value)} == {"s1", "big"}
        before = await everything_but(saved, {"s1", "big"})
    async with store.memory() as other:
        assert await other.load_export(path) == 2
        assert await everything(other) == before

    # Nothing can be read: an earlier export is worth more than an empty one.
    with opened(tmp_path / "s.db") as database:
        database.execute("UPDATE entries SET data = zeroblob(9)")
    content = path.read_bytes()
    async with store.sqlite(tmp_path / "s.db") as saved:
        with pytest.raises(CorruptDataError, match="has 0 sessions"):
            await saved.export(path)
    assert path.read_bytes() == content
    assert {one.suffix for one in tmp_path.iterdir()} == {".db", ".jsonl"}


async def test_an_export_names_a_log_that_no_list_has(tmp_path, helper):
    async with store.file(tmp_path / "store") as saved:
        await fill(saved, helper, count=2)
        log = tmp_path / "store/sessions/s-s1/log"
        log.write_bytes(b"x" * 100 + log.read_bytes()[100:-1])

        with pytest.raises(CorruptDataError, match=r'has 2 sessions.*"s-s1"'):
            await saved.export(tmp_path / "export.jsonl")

    async with store.memory() as other:
        assert await other.load_export(tmp_path / "export.jsonl") == 2


async def everything_but(saved, damaged):
    return {info.id: await saved.load(info.id) for info in await saved.sessions() if info.id not in damaged}


async def test_an_export_is_loaded_into_another_store(url, helper, tmp_path):
    path = tmp_path / "export.jsonl"
    async with store.from_url(url) as saved:
        await fill(saved, helper)
        before = await everything(saved)
        assert await saved.export(path) == 4
        path.write_bytes(b"older")
        assert saved.export_sync(path) == 4

    async with store.memory() as other:
        assert await other.load_export(path) == 4
        assert await everything(other) == before
        assert await other.check() == []
        sess = await Session.load(other, "s1", helper)
        await sess.run("on")
        assert texts(await Session.load(other, "s1", helper))[-2:] == ["on", "you said on"]
        with pytest.raises(ConflictError, match='"(s.|big)" already'):
            await other.load_export(path)
        for info in await other.sessions():
            await other.delete(info.id)
        assert other.load_export_sync(path) == 4
    async with store.from_url(url_of("sqlite", tmp_path, "copy")) as other:
        assert await other.load_export(path) == 4
        assert await everything(other) == before
    assert [name.name for name in tmp_path.glob("*.tmp")] == []


async def test_lines_of_an_export_can_be_read_in_any_language(helper, tmp_path):
    path = tmp_path / "export.jsonl"
    async with store.memory() as saved:
        await fill(saved, helper)
        await saved.export(path)

    lines = path.read_bytes().splitlines()
    assert json.loads(lines[0]) == {"format": "turntree-export", "version": 1}
    assert json.loads(lines[-1])["end"] == {"sessions": 4, "entries": len(lines) - 6}
    digest, id = bytes(32), ""
    for line in lines[1:-1]:
        value = json.loads(line)
        if "session" in value:
            digest, id = bytes(32), value["session"]["id"]
            continue
        entry = line[line.index(b'"entry":') + len(b'"entry":') : -1]
        digest = hashlib.sha256(digest + id.encode() + b"\0" + entry).digest()
        assert value["digest"] == digest.hex()


@pytest.mark.parametrize("damage", ["cut", "half line", "changed", "swapped", "missing entry", "twice", "more"])
async def test_nothing_of_a_damaged_export_is_imported(helper, tmp_path, damage):
    path = tmp_path / "export.jsonl"
    async with store.memory() as saved:
        await fill(saved, helper)
        await saved.export(path)
    lines = path.read_bytes().splitlines(keepends=True)
    sessions = [number for number, line in enumerate(lines) if line.startswith(b'{"session"')]
    changed = {
        "cut": lines[:-1],
        "half line": [*lines[:5], lines[5][:20]],
        "changed": [*lines[:-2], lines[-2].replace(b'"entry":{', b'"entry":{ '), lines[-1]],
        "swapped": [*lines[:3], lines[4], lines[3], *lines[5:]],
        "missing entry": [*lines[:3], *lines[4:]],
        "twice": [*lines[:-1], *lines[sessions[-1] : -1], lines[-1]],
        "more": [*lines, b"{}\n"],
    }[damage]
    path.write_bytes(b"".join(changed))

    async with store.memory() as other:
        with pytest.raises(CorruptDataError, match=r"export\.jsonl, line \d+: .*nothing was imported"):
            await other.load_export(path)
        assert await other.sessions() == []


async def test_an_export_with_wrong_counts_names_both(tmp_path):
    path = tmp_path / "export.jsonl"
    path.write_text('{"format":"turntree-export","version":1}\n{"end":{"sessions":1,"entries":2}}\n')
    async with store.memory() as saved:
        with pytest.raises(CorruptDataError, match=r"line 2: .* counts 1 and 2, the lines before it are 0 and 0"):
            await saved.load_export(path)


async def test_other_files_are_refused(helper, tmp_path):
    path = tmp_path / "x.jsonl"
    async with store.memory() as saved:
        for content in (b"", b"hello\n", b'{"a":1}\n', b'{"format":"other","version":1}\n', b"\xff\n"):
            path.write_bytes(content)
            with pytest.raises(CorruptDataError, match="line 1: expected"):
                await saved.load_export(path)
        path.write_bytes(b'{"format":"turntree-export","version":2}\n')
        with pytest.raises(CorruptDataError, match="newer version of turntree"):
            await saved.load_export(path)
        with pytest.raises(StoreError, match=r"missing\.jsonl: No such file"):
            await saved.load_export(tmp_path / "missing.jsonl")
        with pytest.raises(StoreError, match="No such file"):
            await saved.export(tmp_path / "missing" / "x.jsonl")


async def test_an_import_that_fails_in_the_middle_is_undone(helper, tmp_path):
    path = tmp_path / "export.jsonl"
    async with store.memory() as saved:
        await fill(saved, helper)
        await saved.export(path)
    async with store.sqlite(tmp_path / "s.db") as other:
        await (await Session.open(other, "mine", helper)).run("hi")
        with opened(tmp_path / "s.db") as database:
            lines = [json.loads(line) for line in path.read_bytes().splitlines()]
            last = [line["session"]["id"] for line in lines if "session" in line][-1]
            database.execute(
                f"CREATE TRIGGER fails BEFORE INSERT ON sessions WHEN new.id = '{last}' "
                "BEGIN SELECT RAISE(ABORT, 'refused'); END"
            )

        with pytest.raises(StoreError, match="refused"):
            await other.load_export(path)

        assert [info.id for info in await other.sessions()] == ["mine"]


async def test_pruned_sessions_keep_the_current_branch_only(url, helper):
    async with store.from_url(url) as saved:
        await fill(saved, helper)
        stale = await Session.load(saved, "s0", helper)
        before = {id: texts(await Session.load(saved, id, helper)) for id in ("s0", "s1", "s2", "big")}
        assert await saved.prune(timedelta(days=1)) == store.PruneResult(0, 0, 0)

        pruned = await saved.prune(timedelta())

        assert (pruned.shortened, pruned.deleted, pruned.spared) == (4, 0, 0)
        assert {id: texts(await Session.load(saved, id, helper)) for id in before} == before
        short = await Session.load(saved, "s1", helper)
        assert (len(short.tree.nodes), list(short.checkpoints), short.metadata) == (2, [], {"number": 1})
        assert await saved.check() == []
        with pytest.raises(ConflictError):
            await stale.run("more")
        assert saved.prune_sync(datetime.now(timezone.utc)).shortened == 0
        await short.run("on")
        assert texts(await Session.load(saved, "s1", helper)) == [*before["s1"], "on", "you said on"]


async def test_deleted_by_age(url, helper):
    async with store.from_url(url) as saved:
        await fill(saved, helper)
        limit = datetime.now(timezone.utc)
        await asyncio.sleep(0.01)
        await (await Session.open(saved, "young", helper)).run("hi")

        assert (await saved.prune(limit, keep_heads=False)).deleted == 4
        assert [info.id for info in await saved.sessions()] == ["young"]
        with pytest.raises(ValueError, match="negative"):
            await saved.prune(timedelta(days=-1))
        with pytest.raises(TypeError, match="timedelta or a datetime"):
            await saved.prune(3)


async def test_sessions_with_a_run_to_resume_are_spared(url):
    def fails(request):
        raise RuntimeError("no model")

    async with store.from_url(url) as saved:
        sess = await Session.open(saved, "s", agent(model=scripted(fails)))
        with pytest.raises(Exception, match="no model"):
            await sess.run("hi")
        await sess.save()
        before = await saved.load("s")

        assert await saved.prune(timedelta(), keep_heads=False) == store.PruneResult(0, 0, 1)
        assert await saved.load("s") == before


async def test_what_is_pruned_leaves_the_file(tmp_path, helper):
    def stored():
        return b"".join(path.read_bytes() for path in tmp_path.iterdir())

    async with store.sqlite(tmp_path / "s.db") as saved:
        sess = await Session.open(saved, "s", helper)
        await sess.run("a short secret: hunter2")
        branch = sess.fork(sess.tree.root.id)
        await sess.run(os.urandom(300).hex())
        with opened(tmp_path / "s.db") as database:
            (data,) = database.execute("SELECT data FROM entries ORDER BY length(data) DESC LIMIT 1").fetchone()
        # Entries are compressed and cross the borders of pages.
        parts = [data[start : start + 16] for start in range(0, len(data) - 16, 8)]
        assert any(part in stored() for part in parts)
        sess.tree.checkout(branch)
        for number in range(30):
            await sess.run(f"message {number}")

        assert (await saved.prune(timedelta())).shortened == 1

        with opened(tmp_path / "s.db") as database:
            # Ids of nodes that are still there may be compressed to the same bytes.
            kept = b"".join(data for (data,) in database.execute("SELECT data FROM entries"))
        content = stored()
        assert not [part for part in parts if part in content and part not in kept]
        assert (await saved.prune(timedelta(), keep_heads=False)).deleted == 1
        assert b"hunter2" not in stored()


KEYS = {"2026": bytes(range(32)), "2025": bytes(32)}


async def test_an_encrypted_store_works_as_others_and_shows_no_content(url, helper):
    async with store.from_url(url) as plain:
        secret = store.encrypted(plain, KEYS)
        await fill(secret, helper)
        loaded = await Session.load(secret, "s1", helper)
        assert texts(loaded)[-1] == "you said second secret 1"
        stale = await Session.load(secret, "s1", helper)
        await loaded.run("on")
        with pytest.raises(ConflictError):
            await stale.run("off")
        other = store.encrypted(plain, KEYS)
        again = await Session.load(other, "s1", helper)
        await again.run("and on")
        with pytest.raises(ConflictError):
            await loaded.run("stale now")
        assert texts(await Session.load(secret, "big", helper))[0] == LARGE
        assert await secret.check() == []
        assert {info.id for info in await plain.sessions()} == {"s0", "s1", "s2", "big"}
        with pytest.raises(CorruptDataError, match="encrypted"):
            await plain.load("s1")
        assert len(await plain.check()) == 4
        assert "2026" not in repr(secret)
        assert "encrypted" in repr(secret)
        assert (await secret.prune(timedelta())).shortened == 4
        assert await secret.check() == []


async def test_nothing_but_the_list_is_readable_in_the_file(tmp_path, helper):
    async with store.encrypted(f"sqlite:///{tmp_path}/s.db", KEYS) as secret:
        await fill(secret, helper)
        # Records are not compressible, so that nothing of the content is in them.
        stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert b"secret" not in stored
        assert b"messages" not in stored
        assert b"large attachment" not in stored
    with opened(tmp_path / "s.db") as database:
        blobs = database.execute("SELECT address, data FROM blobs").fetchall()
    assert blobs
    assert all(address != hashlib.sha256(LARGE.encode()).digest() for address, _ in blobs)


async def test_wrong_and_unknown_keys_are_named(tmp_path, helper):
    url = f"sqlite:///{tmp_path}/s.db"
    async with store.encrypted(url, {"a": bytes(32)}) as secret:
        await (await Session.open(secret, "s", helper)).run("hi")
    async with store.encrypted(url, {"a": b"x" * 32}) as secret:
        with pytest.raises(CorruptDataError, match='key "a" is wrong') as caught:
            await secret.load("s")
        assert "xxx" not in str(caught.value)
    async with store.encrypted(url, {"b": bytes(32)}) as secret:
        with pytest.raises(CorruptDataError, match='key "a", which was not given'):
            await Session.open(secret, "s", helper)
        issues = await secret.check()
        assert [issue.session for issue in issues] == ["s"]
    for keys, error, text in [
        ({}, ValueError, "at least one key"),
        ({"a": b"short"}, ValueError, "has 5 bytes: expected 32"),
        ({"a": "text"}, TypeError, "bytes, not str and str"),
        ({1: bytes(32)}, TypeError, "not int"),
        ({"": bytes(32)}, ValueError, "id of a key"),
        ([("a", bytes(32))], TypeError, "must be a dict"),
    ]:
        with pytest.raises(error, match=text):
            store.encrypted(url, keys)
    with pytest.raises(TypeError, match="store must be"):
        store.encrypted(3, KEYS)


async def test_swapped_moved_and_changed_records_are_refused(tmp_path, helper):
    async def damaged(change):
        path = tmp_path / "s.db"
        path.unlink(missing_ok=True)
        async with store.encrypted(store.sqlite(path), KEYS) as secret:
            for id in ("one", "two"):
                sess = await Session.open(secret, id, helper)
                for text in "abc":
                    await sess.run(text)
        with opened(path) as database:
            numbers = dict(database.execute("SELECT id, number FROM sessions").fetchall())
            rows = database.execute("SELECT key, data, digest FROM entries ORDER BY key").fetchall()
            own = [row for row in rows if row[0] >> 32 == numbers["one"]]
            other = [row for row in rows if row[0] >> 32 == numbers["two"]]
            change(database, own, other)
        async with store.encrypted(store.sqlite(path), KEYS) as secret:
            with pytest.raises(CorruptDataError, match="changed or moved|digest"):
                await secret.load("one")
            assert {issue.session for issue in await secret.check()} == {"one"}

    def put(database, row, source):
        database.execute("UPDATE entries SET data = ?, digest = ? WHERE key = ?", [source[1], source[2], row[0]])

    def swap(database, own, _other):
        put(database, own[1], own[2])
        put(database, own[2], own[1])

    def move(database, own, other):
        for mine, theirs in zip(own, other, strict=True):
            put(database, mine, theirs)

    def flip(database, own, _other):
        key, data, digest = own[1]
        put(database, own[1], (key, data[:30] + bytes([data[30] ^ 1]) + data[31:], digest))

    for change in (swap, move, flip):
        await damaged(change)


async def test_keys_are_rotated(url, helper):
    old, new = {"old": bytes(32)}, {"new": b"n" * 32}
    async with store.from_url(url) as plain:
        secret = store.encrypted(plain, old)
        await fill(secret, helper)
        before = await everything(secret)
        both = store.encrypted(plain, {**new, **old})
        sess = await Session.load(both, "s0", helper)
        await sess.run("mixed keys")
        before["s0"] = await both.load("s0")

        assert await both.rotate() == 4
        assert both.rotate_sync() == 0

        newest = store.encrypted(plain, new)
        assert await everything(newest) == before
        assert await newest.check() == []
        with pytest.raises(CorruptDataError, match='"new", which was not given'):
            await secret.load("s1")
        with pytest.raises(ConflictError):
            await sess.run("stale")
        with pytest.raises(ValueError, match="not encrypted"):
            await plain.rotate()


async def test_sessions_are_read_while_others_rotate_their_keys(url, helper):
    one, two = {"one": bytes(32)}, {"two": b"2" * 32}
    async with store.from_url(url) as plain:
        stores = [store.encrypted(plain, {**one, **two}), store.encrypted(plain, {**two, **one})]
        # Stored apart from the log, under an address that the key decides.
        large = "large" * 60_000
        await (await Session.open(stores[0], "s", helper)).run(large)

        for number in range(8):
            rotated, *read = await asyncio.gather(
                stores[(number + 1) % 2].rotate(), *(Session.load(stores[0], "s", helper) for _ in range(4))
            )
            assert rotated == 1
            assert [texts(sess)[0] for sess in read] == [large] * 4
        assert sum(await asyncio.gather(*(stores[1].rotate() for _ in range(4)))) == 1
        assert await stores[0].check() == []


# In a process of its own: two copies of the SQLite library in one process do not see each other's locks of readers.
BACKUP = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).backup(sqlite3.connect(sys.argv[2]))"


async def test_a_store_is_exported_and_copied_while_a_writer_runs(tmp_path, helper):
    async with store.sqlite(tmp_path / "s.db") as saved:
        await fill(saved, helper)
        stop = threading.Event()

        async def write():
            sess = await Session.open(saved, "busy", helper)
            while not stop.is_set():
                await sess.run("tick")

        writer = threading.Thread(target=asyncio.run, args=[write()])
        writer.start()
        try:
            for number in range(3):
                await saved.export(tmp_path / f"{number}.jsonl")
                subprocess.run(
                    [sys.executable, "-c", BACKUP, str(tmp_path / "s.db"), str(tmp_path / f"{number}.db")],
                    check=True,
                    timeout=60,
                )
        finally:
            stop.set()
            writer.join()
        for number in range(3):
            async with store.memory() as other:
                await other.load_export(tmp_path / f"{number}.jsonl")
                assert await other.check() == []
            async with store.sqlite(tmp_path / f"{number}.db") as other:
                assert await other.check() == []
                assert len(await other.sessions()) >= 4


def command(*arguments):
    done = subprocess.run([sys.executable, "-m", "turntree", *arguments], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


async def test_commands_show_a_store(tmp_path, helper):
    url = f"sqlite:///{tmp_path}/s.db"
    async with store.from_url(url) as saved:
        await fill(saved, helper, 2)

    status, out, _ = command("sessions", "--store", url, "--json")
    assert status == 0
    assert {json.loads(line)["id"] for line in out.splitlines()} == {"s0", "s1", "big"}
    status, out, err = command("sessions", "--store", url, "--limit", "2")
    assert (status, len(out.splitlines())) == (0, 3)
    after = err.split("--after ")[1].strip().strip("'")
    assert len(command("sessions", "--store", url, "--after", after)[1].splitlines()) == 2
    assert len(command("sessions", "--store", url, "--all", "--limit", "1", "--json")[1].splitlines()) == 3
    assert command("sessions", "--store", url, "--status", "waiting", "--json")[:2] == (0, "")
    assert command("sessions", "--store", url, "--updated-after", "2999-01-01", "--json")[:2] == (0, "")
    assert command("sessions", "--store", "nothing")[0] in (1, 2)

    status, out, _ = command("tree", "--store", url, "--session", "s1")
    assert status == 0
    assert "second secret 1" in out
    status, out, _ = command("show", "--store", url, "--session", "s1")
    assert "you said second secret 1" in out
    status, out, err = command("convert", "--store", url, "--session", "s1", "--to", "thread-protocol", "--quiet")
    assert status == 0, err
    assert json.loads(out)
    assert "second secret 1" in out
    assert command("show", "--store", url, "--session", "none")[0] == 1
    assert command("show", "--store", url)[0] == 2
    assert command("show", "--session", "s1")[0] == 2

    status, out, _ = command("doctor", "--store", url)
    assert (status, "no issues" in out) == (0, True)
    with opened(tmp_path / "s.db") as database:
        database.execute("UPDATE entries SET data = x'7b7d' WHERE key = (SELECT min(key) FROM entries)")
    status, out, _ = command("doctor", "--store", url)
    assert (status, "1 issue" in out) == (1, True)
    status, out, _ = command("doctor", "--store", url, "--json")
    assert status == 1
    report = json.loads(out)
    assert (report["sessions"], report["schema"], len(report["issues"])) == (3, report["schema"], 1)
    assert report["issues"][0]["session"] == "s0"

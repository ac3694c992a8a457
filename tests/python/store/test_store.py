"""Stores of turntree: the same behaviour for every engine."""

import asyncio
from datetime import datetime, timedelta, timezone

import pytest
from store_engines import texts

from turntree import ConflictError, CorruptDataError, Session, StoreError, ValidationError, agent, session, store
from turntree.upp import scripted


async def test_a_session_is_saved_after_each_run_and_loaded(url, helper):
    async with store.from_url(url) as saved:
        sess = await Session.open(saved, "a/b ü'", helper, metadata={"user": 7})
        await sess.run("one")
        sess.fork(sess.tree.root.id)
        await sess.run("two")

        again = await Session.load(saved, "a/b ü'", helper)

        assert again.to_json() == sess.to_json()
        assert again.metadata == {"user": 7}
        await again.run("three")
        assert texts(await Session.load(saved, "a/b ü'", helper)) == [
            "one", "you said one", "two", "you said two", "three", "you said three",
        ]  # fmt: skip


async def test_the_stale_one_of_two_writers_gets_a_conflict_and_loses_nothing(url, helper):
    async with store.from_url(url) as saved:
        first = await Session.open(saved, "s", helper)
        await first.run("start")
        second = await Session.load(saved, "s", helper)
        await first.run("first")

        with pytest.raises(ConflictError, match='session "s"'):
            await second.run("second")
        with pytest.raises(ConflictError, match='session "s"'):
            await second.save()
        await second.rebase()
        if second.is_unfinished:
            await second.resume()
        await second.save()

        loaded = await Session.load(saved, "s", helper)
        everything = {message.text for node in loaded.tree.nodes.values() for message in node.thread.messages}
        assert {"start", "first", "second"} <= everything
        with pytest.raises(ConflictError):
            await first.save()
        await first.reload()
        assert first.to_json() == loaded.to_json()


async def test_a_turn_that_was_added_to_a_stale_session_is_on_a_branch_after_a_rebase(url, helper):
    async with store.from_url(url) as saved:
        first = await Session.open(saved, "s", helper, save_interval="turn")
        await first.run("start")
        second = await Session.load(saved, "s", helper, save_interval="turn")
        await first.run("first")
        with pytest.raises(ConflictError) as caught:
            await second.run("second")
        assert caught.value.turn.response.text == "you said second"

        await second.rebase()

        assert texts(second) == ["start", "you said start", "second", "you said second"]
        assert second.tree.current.name == "rebased"
        await second.save()
        assert texts(await Session.load(saved, "s", helper)) == texts(second)


async def test_a_save_after_a_delete_is_a_conflict(url, helper):
    async with store.from_url(url) as saved:
        sess = await Session.open(saved, "s", helper)
        await sess.run("one")

        assert await saved.delete("s") is True
        assert await saved.delete("s") is False

        with pytest.raises(ConflictError, match=r"deleted .*; to store it again, save a copy") as caught:
            await sess.save()
        assert "reload" not in str(caught.value)
        assert "rebase" not in str(caught.value)
        with pytest.raises(ConflictError, match="deleted"):
            await sess.reload()
        assert await saved.load("s") is None


async def test_sessions_are_listed_in_pages_with_filters(url, helper):
    async with store.from_url(url) as saved:
        for number in range(5):
            await (await Session.open(saved, f"s{number}", helper)).run("hi")
        other = agent(model=scripted(["ho"]), id="other")
        await (await Session.open(saved, "of-other", other)).run("hi")

        first = await saved.sessions(limit=4)
        second = saved.sessions_sync(limit=4, after=first.next)

        assert [len(first), len(second), second.next] == [4, 2, None]
        assert {info.id for info in [*first, *second]} == {"of-other", *(f"s{number}" for number in range(5))}
        assert [info.id for info in await saved.sessions(agent="other")] == ["of-other"]
        assert await saved.sessions(status="unfinished") == []
        now = datetime.now(timezone.utc)
        assert len(await saved.sessions(updated_after=now - timedelta(hours=1))) == 6
        assert await saved.sessions(updated_after=now + timedelta(hours=1)) == []
        (info,) = await saved.sessions(agent="other")
        assert (info.turns, info.nodes, info.status) == (1, 1, "idle")
        assert info.bytes > 100
        with pytest.raises(ValueError, match="status must be"):
            await saved.sessions(status="done")
        with pytest.raises(ValueError, match="limit must be"):
            await saved.sessions(limit=0)
        for wrong in ("2", 1.5, None, True):
            with pytest.raises(TypeError, match=f"limit must be an int, not {type(wrong).__name__}"):
                await saved.sessions(limit=wrong)
        assert [info.id for info in await saved.sessions(limit=10**30)] == [info.id for info in await saved.sessions()]


async def test_a_store_has_sessions_as_json_by_key(url, helper):
    async with store.from_url(url) as saved:
        sess = session(helper, persistence=saved)
        await sess.run("one")

        data = await saved.load(f"session:{sess.id}")
        assert Session.from_json(data, helper).to_json() == sess.to_json()
        await saved.delete(sess.id)
        await saved.save(f"session:{sess.id}", data)

        assert (await Session.load(saved, sess.id, helper)).to_json() == sess.to_json()
        with pytest.raises(ValidationError):
            await saved.save("x", "{")
        with pytest.raises(ValueError, match='not "x"'):
            await saved.save("x", data)


async def test_a_closed_store_says_so(url, helper):
    saved = store.from_url(url)
    sess = await Session.open(saved, "s", helper)
    await sess.run("one")
    await saved.close()

    with pytest.raises(StoreError, match="is closed"):
        await sess.run("two")
    with pytest.raises(StoreError, match="is closed"):
        await Session.load(saved, "s", helper)


async def test_sessions_of_many_tasks_and_threads_share_a_store(url, helper):
    async with store.from_url(url) as saved:

        async def talk(number):
            sess = await Session.open(saved, f"s{number}", helper)
            for turn in range(3):
                await sess.run(f"{number}-{turn}")

        await asyncio.gather(*(talk(number) for number in range(8)), asyncio.to_thread(asyncio.run, talk(8)))

        assert len(await saved.sessions()) == 9
        for number in range(9):
            assert len((await Session.load(saved, f"s{number}", helper)).tree.history()) == 6


def test_urls():
    shared = store.from_url("memory://a")
    assert store.from_url("memory://a") is shared
    assert store.from_url("memory://b") is not shared
    with pytest.raises(ValueError, match="starts with one of"):
        store.from_url("mysql://user:secret@host/db")
    with pytest.raises(ValueError, match="starts with one of"):
        store.from_url("sessions.db")
    with pytest.raises(ValueError, match="has no path"):
        store.from_url("sqlite://x.db")
    with pytest.raises(TypeError, match="url must be a str, not int"):
        store.from_url(5)
    with pytest.raises(ValueError) as caught:
        store.from_url("mysql://user:secret@host/db")
    assert "secret" not in str(caught.value)


async def test_sqlite_urls_are_relative_or_absolute(tmp_path, monkeypatch, helper):
    monkeypatch.chdir(tmp_path)

    await (await Session.open("sqlite:///near.db", "s", helper)).run("hi")
    await session(helper, persistence=f"sqlite:///{tmp_path}/far.db").run("hi")

    assert {path.name for path in tmp_path.glob("*.db")} == {"near.db", "far.db"}
    assert texts(await Session.load("sqlite:///near.db", "s", helper)) == ["hi", "you said hi"]


async def test_a_damaged_file_is_named(tmp_path, helper):
    path = tmp_path / "s.db"
    path.write_bytes(b"not a database" * 100)

    with pytest.raises((CorruptDataError, StoreError), match=r"s\.db"):
        await Session.load(store.sqlite(path), "s", helper)


async def test_a_url_opens_a_closed_store_anew(tmp_path, helper):
    url = f"sqlite:///{tmp_path}/s.db"
    async with store.from_url(url) as saved:
        sess = await Session.open(saved, "s", helper)
        await sess.run("one")

    assert texts(await Session.load(url, "s", helper)) == texts(sess)

"""Stores of the application with a fourth method, which compares: two writers of one session are found."""

import asyncio

import pytest

from turntree import ConflictError, Session, StoreError, agent
from turntree.upp import scripted


class Texts:
    """Texts by key. `after` is called when a text was stored."""

    def __init__(self):
        self.texts = {}
        self.after = None

    def save(self, key, data):
        raise AssertionError("a store that compares is only asked to compare")

    def load(self, key):
        return self.texts.get(key)

    def delete(self, key):
        self.texts.pop(key, None)

    def compare_and_save(self, key, data, expected):
        if self.texts.get(key) != expected:
            return False
        self.texts[key] = data
        return self.after() if self.after else True


class AsyncTexts(Texts):
    async def load(self, key):
        return super().load(key)

    async def compare_and_save(self, key, data, expected):
        answer = super().compare_and_save(key, data, expected)
        return await answer if asyncio.iscoroutine(answer) else answer


@pytest.fixture(params=[Texts, AsyncTexts])
def texts(request):
    return request.param()


@pytest.fixture
def helper():
    return agent(model=scripted(lambda request: f"you said {request.messages[-1].text}"))


def said(session):
    return [message.text for message in session.tree.history()]


def said_anywhere(session):
    return {message.text for node in session.tree.nodes.values() for message in node.thread.messages}


async def test_the_stale_writer_gets_a_conflict_and_keeps_its_turn(texts, helper):
    first = await Session.open(texts, "s", helper)
    await first.run("start")
    second = await Session.load(texts, "s", helper)
    await first.run("first")

    with pytest.raises(ConflictError, match='session "s"'):
        await second.run("second")
    assert said(await Session.load(texts, "s", helper)) == said(first)
    await second.rebase()
    await second.save()

    assert {"start", "first", "second"} <= said_anywhere(await Session.load(texts, "s", helper))
    with pytest.raises(ConflictError, match='session "s"'):
        await first.save()


async def test_a_loaded_session_is_continued_and_saved(texts, helper):
    await (await Session.open(texts, "s", helper, metadata={"user": 7})).run("one")

    for text in ("two", "three"):
        loaded = await Session.load(texts, "s", helper)
        assert loaded.metadata == {"user": 7}
        await loaded.run(text)

    stored = await Session.open(texts, "s", helper)
    assert said(stored)[::2] == ["one", "two", "three"]
    assert await Session.open(texts, "other", helper)


async def test_one_of_two_writers_that_create_a_session_gets_a_conflict(texts, helper):
    first, second = await Session.open(texts, "s", helper), await Session.open(texts, "s", helper)
    await first.run("first")

    with pytest.raises(ConflictError):
        await second.run("second")
    assert said(await Session.load(texts, "s", helper)) == said(first)


async def test_a_session_that_was_deleted_is_not_stored_again(texts, helper):
    session = await Session.open(texts, "s", helper)
    await session.run("start")
    texts.texts.clear()

    with pytest.raises(ConflictError):
        await session.run("more")
    assert texts.texts == {}


@pytest.mark.parametrize("is_new", [True, False])
async def test_a_save_whose_answer_was_lost_is_found_by_the_next_one(texts, helper, is_new):
    def lose():
        raise OSError("the connection was reset")

    session = await Session.open(texts, "s", helper)
    if not is_new:
        await session.run("start")
    texts.after = lose
    with pytest.raises(StoreError, match="the connection was reset"):
        await session.run("lost")
    texts.after = None

    await session.save()
    await session.run("more")

    assert said(await Session.load(texts, "s", helper)) == said(session)
    assert said(session)[-2:] == ["more", "you said more"]


async def test_another_writer_after_a_lost_answer_is_a_conflict(texts, helper):
    def lose():
        raise OSError("the connection was reset")

    session = await Session.open(texts, "s", helper)
    texts.after = lose
    with pytest.raises(StoreError, match="the connection was reset"):
        await session.run("lost")
    texts.after = None
    await (await Session.load(texts, "s", helper)).run("other")

    with pytest.raises(ConflictError):
        await session.save()


async def test_a_save_that_was_cancelled_is_found_by_the_next_one(helper):
    texts, stored = AsyncTexts(), asyncio.Event()

    async def hang():
        stored.set()
        await asyncio.Event().wait()

    session = await Session.open(texts, "s", helper)
    texts.after = hang
    running = asyncio.create_task(session.run("start"))
    await stored.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    texts.after = None

    await session.save()

    assert said(await Session.load(texts, "s", helper)) == said(session)


async def test_an_answer_that_is_no_bool_is_named(texts, helper):
    texts.after = lambda: None

    with pytest.raises(StoreError, match="compare_and_save") as caught:
        await (await Session.open(texts, "s", helper)).run("start")
    assert "a bool" in str(caught.value)

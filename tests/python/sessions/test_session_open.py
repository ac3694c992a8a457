"""Opening sessions, their ids, and the errors of stores."""

import json
from urllib.parse import quote

import pytest
from session_support import (
    FAILING,
    echo,
    noting,
    succeed,  # noqa: F401
    texts,
)

from turntree import (
    ConflictError,
    CorruptDataError,
    Session,
    SessionError,
    StoreError,
    agent,
    session,
)
from turntree.store import memory
from turntree.upp import UPPError, scripted


async def test_open_creates_a_session_and_loads_it_the_next_time():
    store = memory()
    helper = agent(model=scripted(echo))

    first = await Session.open(store, "ticket/7", helper, metadata={"user": "ann"}, checkpoint_interval="turn")
    assert await store.sessions() == []
    await first.run("one")
    second = await Session.open(store, "ticket/7", helper, metadata={"user": "bob"}, checkpoints=False)
    await second.run("two")

    assert (first.id, second.id) == ("ticket/7", "ticket/7")
    assert second.metadata == {"user": "ann"}
    assert len(second.checkpoints) == 2
    assert texts((await Session.open(store, "ticket/7", helper)).tree.history())[::2] == ["one", "two"]


async def test_opened_session_is_stored_by_save():
    store = memory()
    helper = agent(model=scripted(echo))

    await (await Session.open(store, "a", helper)).save()

    assert (await Session.load(store, "a", helper)).id == "a"


@pytest.mark.parametrize("id", ["x" * 200, "../../etc/passwd", "a b\"c'", "日本 🦀", "%2e", "\u0301e"])
async def test_ids_are_any_printable_text(id):
    store = memory()
    helper = agent(model=scripted(echo))

    await (await Session.open(store, id, helper)).run("one")

    assert (await Session.load(store, id, helper)).id == id
    assert session(helper, id=id).id == id


@pytest.mark.parametrize(
    ("id", "error"),
    [
        ("", ValueError),
        ("x" * 201, ValueError),
        ("a\tb", ValueError),
        ("\u00a0", ValueError),
        (7, TypeError),
        (None, TypeError),
    ],
)
async def test_other_ids_are_rejected(id, error):
    helper = agent(model=scripted(echo))

    for attempt in (Session.open, Session.load):
        with pytest.raises(error, match="id"):
            await attempt(memory(), id, helper)


async def test_open_rejects_invalid_arguments():
    helper = agent(model=scripted(echo))

    with pytest.raises(TypeError, match="store must have the methods"):
        await Session.open(None, "a", helper)
    with pytest.raises(TypeError, match="save is missing"):
        await Session.open(object(), "a", helper)
    with pytest.raises(TypeError, match="agent must be an Agent"):
        await Session.open(memory(), "a", "helper")
    with pytest.raises(ValueError, match="save_interval must be"):
        await Session.open(memory(), "a", helper, save_interval="day")
    with pytest.raises(ValueError, match="checkpoint_interval must be"):
        await Session.open(memory(), "a", helper, checkpoint_interval="day")
    store = Texts()
    await store.save("session:a", "{}")
    with pytest.raises(CorruptDataError, match='session "a" cannot be read'):
        await Session.open(store, "a", helper)


async def test_is_unfinished_says_whether_resume_has_a_run_to_continue():
    helper, _ = noting()
    sess = session(helper)
    assert not sess.is_unfinished
    FAILING.set()
    with pytest.raises(UPPError):
        await sess.run("1 fail")

    assert sess.is_unfinished
    assert Session.from_json(sess.to_json(), helper).is_unfinished
    FAILING.clear()
    await sess.resume()
    assert not sess.is_unfinished
    with pytest.raises(SessionError, match="no unfinished run"):
        await sess.resume()
    await sess.restore(sess.checkpoints[-1].id)
    assert not sess.is_unfinished


class Texts:
    """A store of texts."""

    def __init__(self):
        self.texts = {}

    async def save(self, key, data):
        self.texts[key] = data

    async def load(self, key):
        return self.texts.get(key)

    async def delete(self, key):
        self.texts.pop(key, None)


class Versioned:
    """A store that compares versions: it refuses to overwrite a newer text."""

    def __init__(self, error=ConflictError):
        self.texts = {}
        self.error = error

    async def save(self, key, data):
        stored = self.texts.get(key)
        if stored is not None and json.loads(stored)["updatedAt"] > json.loads(data)["updatedAt"]:
            raise self.error("the version is stale")
        self.texts[key] = data

    async def load(self, key):
        return self.texts.get(key)

    async def delete(self, key):
        self.texts.pop(key, None)


def overwrite(store, sess):
    """Store the session as a writer with a clock that is ahead."""
    newer = {**sess.to_dict(), "updatedAt": "2999-01-01T00:00:00.000Z"}
    store.texts[f"session:{quote(sess.id)}"] = json.dumps(newer)


async def test_conflict_of_a_store_is_a_conflict_error_with_the_turn():
    store = Versioned()
    sess = session(agent(model=scripted(echo)), id="ticket 7", persistence=store)
    overwrite(store, sess)

    with pytest.raises(ConflictError, match='session "ticket 7"') as after_run:
        await sess.run("one")
    with pytest.raises(ConflictError, match='session "ticket 7"') as streamed:
        await sess.stream("two")
    with pytest.raises(ConflictError, match='session "ticket 7"') as saved:
        await sess.save()

    assert after_run.value.turn.response.text == "you said one"
    assert streamed.value.turn.response.text == "you said two"
    assert saved.value.turn is None
    for caught in (after_run, streamed, saved):
        assert type(caught.value.__cause__) is ConflictError
        assert str(caught.value.__cause__) == "the version is stale"
    assert len(sess.tree.history()) == 4


async def test_conflict_during_a_run_is_a_conflict_error():
    store = Versioned()
    helper, noted = noting()
    sess = session(helper, id="a", persistence=store, save_interval="tool")
    overwrite(store, sess)

    with pytest.raises(ConflictError, match='session "a"') as caught:
        await sess.run("1")

    assert isinstance(caught.value.__cause__, ConflictError)
    assert noted == []


@pytest.mark.parametrize(
    ("raised", "expected"), [(CorruptDataError, CorruptDataError), (StoreError, StoreError), (OSError, StoreError)]
)
async def test_error_of_a_store_after_a_run_has_the_class_of_its_kind(raised, expected):
    store = Versioned(raised)
    sess = session(agent(model=scripted(echo)), id="a", persistence=store)
    overwrite(store, sess)

    with pytest.raises(expected, match='session "a"') as caught:
        await sess.run("one")
    with pytest.raises(raised, match="stale"):
        await sess.save()

    assert type(caught.value) is expected
    assert type(caught.value.__cause__) is raised
    assert caught.value.turn.response.text == "you said one"

"""A store that does not finish cannot keep a run with `timeout=` from ending, and nothing is lost."""

import asyncio
import threading
import time

import pytest

from turntree import Session, StoreError, agent, session
from turntree.tools import tool
from turntree.upp import Reply, UPPError, scripted


class Store:
    """A store in memory, whose `save` hangs while `hangs(number of saves)` is true."""

    def __init__(self, hangs):
        self.data, self.hangs, self.saves, self.cancelled = {}, hangs, 0, 0

    async def save(self, key, data):
        self.saves += 1
        if self.hangs(self.saves):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        self.data[key] = data

    async def load(self, key):
        return self.data.get(key)

    async def delete(self, key):
        self.data.pop(key, None)


@tool
def book(seat: str) -> str:
    """Book a seat."""
    return f"booked {seat}"


def booking():
    return agent(
        model=scripted([{"toolName": "book", "arguments": {"seat": "12A"}}, "Seat 12A is yours."]), tools=[book]
    )


async def test_a_save_at_the_end_that_hangs_ends_with_the_turn_in_the_error():
    store = Store(lambda number: number == 1)
    chat = session(agent(model=scripted(["Hello."])), persistence=store)
    began = time.monotonic()

    with pytest.raises(
        StoreError, match=r"was not saved: the store has not finished within 5 s; `save` tries"
    ) as caught:
        await chat.run("Hi", timeout=4)  # the model is called within it

    # A second wait would take as long again.
    assert time.monotonic() - began < 9.5
    assert caught.value.turn.text == "Hello."
    assert [message.text for message in chat.tree.history()] == ["Hi", "Hello."]
    assert store.cancelled == 1
    await chat.save()
    loaded = await Session.load(store, chat.id, chat.agent)
    assert [message.text for message in loaded.tree.history()] == ["Hi", "Hello."]


async def test_the_last_save_has_the_rest_of_a_longer_timeout():
    store = Store(lambda number: False)

    async def slow(key, data):
        await asyncio.sleep(5.5)
        store.data[key] = data

    store.save = slow
    chat = session(agent(model=scripted(["Hello."])), persistence=store)

    turn = await chat.run("Hi", timeout=30)

    assert turn.text == "Hello."
    assert store.data


async def test_a_save_after_a_tool_that_hangs_is_bounded_and_the_run_can_be_resumed():
    store = Store(lambda number: number > 1)
    chat = session(booking(), persistence=store, save_interval="tool")
    began = time.monotonic()

    with pytest.raises(
        UPPError,
        match=r"has not ended within 2 s.*; session \".*\" was not saved: the store has not finished within 5 s",
    ) as caught:
        await chat.run("Book 12A.", timeout=2)

    # A second wait for the store would take 5 s more.
    assert time.monotonic() - began < 11.5
    assert caught.value.code == "TIMEOUT"
    assert caught.value.partial is not None
    assert chat.is_unfinished
    store.hangs = lambda number: False
    turn = await chat.resume()
    assert turn.text == "Seat 12A is yours."
    assert store.data


async def test_a_save_at_the_start_that_hangs_is_a_timeout_and_the_input_is_not_lost():
    store = Store(lambda number: number <= 2)
    chat = session(booking(), persistence=store, save_interval="tool")
    began = time.monotonic()

    # The store has what is left of the time of the run.
    message = (
        r"has not ended within 2 s.*; session \".*\" was not saved: the store has not finished within "
        r"([01](\.\d)?|2) s;"
    )
    with pytest.raises(UPPError, match=message) as caught:
        await chat.run("Book 12A.", timeout=2)

    # The 5 s of the last save of other runs are not added.
    assert time.monotonic() - began < 6.5
    assert caught.value.code == "TIMEOUT"
    assert chat.is_unfinished
    store.hangs = lambda number: False
    turn = await chat.resume()
    assert turn.text == "Seat 12A is yours."


async def test_a_run_that_took_too_long_is_saved():
    store = Store(lambda number: False)
    chat = session(agent(model=scripted([Reply("Hello.", delay=30)])), persistence=store)

    with pytest.raises(UPPError) as caught:
        await chat.run("Hi", timeout=2)

    assert caught.value.message == "the run has not ended within 2 s; raise timeout, or resume its session"
    assert (await Session.load(store, chat.id, chat.agent)).is_unfinished


async def test_a_stream_ends_too():
    store = Store(lambda number: True)
    chat = session(agent(model=scripted(["Hello."])), persistence=store)
    stream = chat.stream("Hi", timeout=4)

    with pytest.raises(StoreError, match="has not finished within 5 s"):
        async for _ in stream:
            pass


def test_a_sync_save_that_hangs_in_its_thread_is_bounded():
    release = threading.Event()

    class Blocking:
        def save(self, key, data):
            release.wait(60)

        def load(self, key):
            return None

        def delete(self, key):
            pass

    chat = session(agent(model=scripted(["Hello."]), cleanup_timeout=0.1), persistence=Blocking())
    began = time.monotonic()
    try:
        with pytest.raises(StoreError, match="has not finished within 5 s") as caught:
            chat.run_sync("Hi", timeout=4)
    finally:
        release.set()

    assert time.monotonic() - began < 9.5
    assert caught.value.turn.text == "Hello."

"""Large sessions are loaded and saved while the event loop runs other tasks."""

import asyncio
import time

import pytest

from turntree import CorruptDataError, Session, agent
from turntree.store import encrypted, memory, sqlite
from turntree.upp import AssistantMessage, UserMessage, scripted

TURNS = 10_000  # So much that a turn of another process on the processor is a small share.


class Adapter:
    """An application's own store."""

    def __init__(self):
        self.texts = {}

    async def save(self, key, data):
        self.texts[key] = data

    async def load(self, key):
        return self.texts.get(key)

    async def delete(self, key):
        self.texts.pop(key, None)


class ComparingAdapter(Adapter):
    """A store that finds changes of other writers."""

    async def compare_and_save(self, key, data, expected):
        if self.texts.get(key) != expected:
            return False
        self.texts[key] = data
        return True


@pytest.fixture(params=["memory", "sqlite", "encrypted", "adapter", "comparing adapter"])
def store(request, tmp_path):
    makers = {
        "memory": memory,
        "sqlite": lambda: sqlite(tmp_path / "sessions.db"),
        "encrypted": lambda: encrypted(memory(), {"key": bytes(32)}),
        "adapter": Adapter,
        "comparing adapter": ComparingAdapter,
    }
    return makers[request.param]()


async def longest_pause(work):
    """Await work beside a task that ticks. Returns the longest time between two ticks, as a share of the whole time."""
    longest, done = 0.0, False

    async def tick():
        nonlocal longest
        last = time.perf_counter()
        while not done:
            await asyncio.sleep(0)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0)
    start = time.perf_counter()
    value = await work
    whole = time.perf_counter() - start
    done = True
    await ticking
    return longest / whole, value


async def test_the_event_loop_runs_other_tasks_while_a_large_session_is_saved_and_loaded(store):
    helper = agent(model=scripted([]))
    saves, loads, reloads, rebases = [], [], [], []

    # The system may stop this process at any time: the best of several attempts counts.
    for id in "abcdefghij":
        made = await Session.open(store, id, helper)
        for number in range(TURNS):
            made.tree.push(UserMessage(f"question {number}"), AssistantMessage("word " * 40))
        saves.append((await longest_pause(made.save()))[0])
        pause, loaded = await longest_pause(Session.load(store, id, helper))
        loads.append(pause)
        reloads.append((await longest_pause(loaded.reload()))[0])
        loaded.tree.push(UserMessage("not saved"))
        rebases.append((await longest_pause(loaded.rebase()))[0])
        assert len(loaded.tree.history()) == 2 * TURNS + 1
        if max(min(saves), min(loads), min(reloads), min(rebases)) < 1 / 3:
            break

    assert min(saves) < 1 / 3
    assert min(loads) < 1 / 3
    assert min(reloads) < 1 / 3
    assert min(rebases) < 1 / 3


async def test_the_event_loop_runs_other_tasks_while_few_huge_messages_are_saved_for_the_first_time(store):
    helper = agent(model=scripted([]))
    saves = []

    for id in "abcdefghij":
        made = await Session.open(store, id, helper)
        for _ in range(3):
            made.tree.push(UserMessage('one "quoted" word\n' * 200_000))
        saves.append((await longest_pause(made.save()))[0])
        if min(saves) < 1 / 3:
            break

    assert min(saves) < 1 / 3


async def test_messages_that_are_added_while_a_large_session_is_rebased_are_kept():
    store = memory()
    helper = agent(model=scripted([]))
    made = await Session.open(store, "large", helper)
    for number in range(TURNS):
        made.tree.push(UserMessage(f"question {number}"), AssistantMessage("word " * 40))
    await made.save()
    loaded = await Session.load(store, "large", helper)

    rebasing = asyncio.create_task(loaded.rebase())
    added = 0
    while not rebasing.done():
        loaded.tree.push(UserMessage(f"added {added}"))
        added += 1
        await asyncio.sleep(0)
    await rebasing

    texts = [message.text for message in loaded.tree.history()[2 * TURNS :]]
    # The loop adds one message at least after the rebase has read the store, and none after its end.
    assert added > 1
    assert texts == [f"added {number}" for number in range(added)]


async def test_a_damaged_large_session_is_an_error():
    store = Adapter()
    helper = agent(model=scripted([]))
    made = await Session.open(store, "large", helper)
    for _ in range(2_000):
        made.tree.push(UserMessage("word " * 10))
    await made.save()
    (key,) = store.texts
    store.texts[key] = store.texts[key][:-1]

    with pytest.raises(CorruptDataError, match='session "large" cannot be read: the JSON ends'):
        await Session.load(store, "large", helper)

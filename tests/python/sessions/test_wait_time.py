"""`timeout=` of a run includes the time that it waits for an earlier run of its session."""

import asyncio
import threading
import time

import pytest

from turntree import agent, session
from turntree.tools import tool
from turntree.upp import ErrorCode, UPPError, scripted

WAITED = (
    r'the run has not begun within 0\.2 s: an earlier run of session "chat" is under way; wait for it, cancel it, or '
    r"raise timeout"
)


def chatting(replies, **options):
    return session(agent(model=scripted(replies), **options), id="chat")


def held():
    """Return a model that answers when it is released, and the events of its first call and of its release."""
    begun, ends = asyncio.Event(), asyncio.Event()

    async def reply(request):
        begun.set()
        await ends.wait()
        return request.messages[-1].text.upper()

    return reply, begun, ends


def texts(chat):
    return [message.text for message in chat.tree.history()]


async def test_a_run_that_waits_too_long_fails_and_leaves_the_session_unchanged():
    reply, begun, ends = held()
    chat = chatting(reply)
    first = asyncio.ensure_future(chat.run("first"))
    await begun.wait()

    with pytest.raises(UPPError, match=WAITED) as caught:
        await chat.run("second", timeout=0.2)

    assert not first.done()
    ends.set()
    assert caught.value.code == ErrorCode.TIMEOUT
    assert [message.text for message in caught.value.partial.messages] == ["second", ""]
    assert (await first).text == "FIRST"
    assert texts(chat) == ["first", "FIRST"]
    assert not chat.is_unfinished
    assert (await chat.run("third", timeout=30)).text == "THIRD"


async def test_the_time_of_the_wait_is_part_of_the_time_of_the_run():
    begun, ends, never = asyncio.Event(), asyncio.Event(), asyncio.Event()
    waits = iter([ends, never, ends])

    async def reply(request):
        begun.set()
        await next(waits).wait()
        return request.messages[-1].text.upper()

    chat = chatting(reply)
    first = asyncio.ensure_future(chat.run("first"))
    await begun.wait()
    second = asyncio.ensure_future(chat.run("second", timeout=6))
    await asyncio.sleep(3)
    ends.set()
    assert (await first).text == "FIRST"
    began = time.monotonic()

    with pytest.raises(UPPError, match=r"the run has not ended within 6 s") as caught:
        await second

    # About 3 seconds are left of the 6, which it would have if the wait did not count.
    assert time.monotonic() - began < 5.5
    assert caught.value.code == ErrorCode.TIMEOUT
    assert chat.is_unfinished
    assert (await chat.resume(timeout=30)).text == "SECOND"


async def test_a_stream_and_a_resume_wait_no_longer_than_their_timeout():
    reply, begun, ends = held()
    chat = chatting(reply)
    first = asyncio.ensure_future(chat.run("first"))
    await begun.wait()

    with pytest.raises(UPPError, match=WAITED):
        async for _ in chat.stream("second", timeout=0.2):
            pass
    with pytest.raises(UPPError, match=WAITED):
        await chat.resume(timeout=0.2)

    ends.set()
    assert (await first).text == "FIRST"
    assert texts(chat) == ["first", "FIRST"]


async def test_runs_that_follow_a_run_that_waited_too_long_keep_their_order():
    reply, begun, ends = held()
    chat = chatting(reply)
    first = asyncio.ensure_future(chat.run("first"))
    await begun.wait()
    second = asyncio.ensure_future(chat.run("second", timeout=0.1))
    third = asyncio.ensure_future(chat.run("third", timeout=30))

    with pytest.raises(UPPError, match="has not begun within"):
        await second
    ends.set()
    await asyncio.gather(first, third)

    assert texts(chat) == ["first", "FIRST", "third", "THIRD"]


def test_a_blocking_run_waits_no_longer_than_its_timeout():
    begun, release = threading.Event(), threading.Event()

    @tool
    def work():
        """Work."""
        begun.set()
        release.wait(20)
        return "done"

    chat = chatting([{"toolName": "work", "arguments": {}}, "Done."], tools=[work])
    thread = threading.Thread(target=chat.run_sync, args=("first",))
    thread.start()
    try:
        assert begun.wait(20)
        with pytest.raises(UPPError, match=WAITED):
            chat.run_sync("second", timeout=0.2)
    finally:
        release.set()
        thread.join()
    assert texts(chat)[0] == "first"
    assert "second" not in texts(chat)


async def test_the_cleanup_of_an_earlier_run_is_waited_for_no_longer_than_the_timeout():
    begun, release = asyncio.Event(), asyncio.Event()

    @tool
    async def work():
        """Work."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await release.wait()
        return "late"

    chat = chatting(lambda _: {"toolName": "work", "arguments": {}}, tools=[work], cleanup_timeout=60)
    first = asyncio.ensure_future(chat.run("first"))
    await begun.wait()
    first.cancel()

    with pytest.raises(UPPError, match=WAITED):
        await chat.resume(timeout=0.2)
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await first

"""The coroutine: await, wake, cancellation, and its behaviour under asyncio."""

from __future__ import annotations

import asyncio
import collections.abc
import gc
import random
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

from turntree._core import _bridge_selftest as bridge


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for what another thread does."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)  # the poll interval


def test_a_ready_future_is_awaited_without_a_loop() -> None:
    async def main() -> list[object]:
        return [await bridge.ready(value) for value in (None, 1, (1, 2), StopIteration(3))]

    coroutine = main()
    with pytest.raises(StopIteration) as stopped:
        coroutine.send(None)

    values = stopped.value.value
    assert values[:3] == [None, 1, (1, 2)]
    assert isinstance(values[3], StopIteration)


def test_abc_and_asyncio_accept_the_object_as_a_coroutine(run) -> None:
    async def main() -> None:
        assert isinstance(bridge.ready(1), collections.abc.Coroutine)
        assert await asyncio.create_task(bridge.ready(1)) == 1
        assert await asyncio.gather(bridge.ready(1), bridge.sleeps(100), bridge.yields(3)) == [1, 1, 3]
        assert await asyncio.wait_for(bridge.sleeps(100), 20) == 1
        assert await asyncio.shield(bridge.sleeps(100, 2)) == 2
        assert "sleeps" in repr(asyncio.ensure_future(bridge.sleeps(1)))
        if hasattr(asyncio, "TaskGroup"):
            async with asyncio.TaskGroup() as group:
                task = group.create_task(bridge.sleeps(100))
            assert task.result() == 1

    run(main())


def test_asyncio_run_accepts_the_coroutine() -> None:
    assert asyncio.run(bridge.sleeps(100, 3)) == 3


def test_another_thread_wakes_the_coroutine_many_times(run) -> None:
    assert run(bridge.sleeps(50, 200)) == 200


def test_a_wake_during_the_poll_schedules_another_poll(run) -> None:
    assert run(bridge.yields(50)) == 50


def test_the_raised_exception_is_the_original_object(run) -> None:
    error = ValueError("mine")

    async def main() -> None:
        with pytest.raises(ValueError) as caught:
            await bridge.fails(error)
        assert caught.value is error

    run(main())


def test_a_stop_iteration_error_is_not_a_result(run) -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError) as caught:
            await bridge.fails(StopIteration(3))
        assert isinstance(caught.value.__cause__, StopIteration)

    run(main())


def test_cancelling_drops_the_future_before_the_task_returns(run) -> None:
    async def main() -> None:
        alive = bridge.alive()
        seen = []

        async def waits() -> None:
            try:
                await bridge.sleeps(10_000_000)
            finally:
                seen.append(bridge.alive())

        task = asyncio.ensure_future(waits())
        await asyncio.sleep(0)  # the first step of the task creates the future and polls it
        assert bridge.alive() == alive + 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert seen == [alive]

    run(main())


def test_a_timeout_drops_the_future(run) -> None:
    async def main() -> None:
        alive = bridge.alive()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(bridge.sleeps(10_000_000), 0.01)
        assert bridge.alive() == alive

    run(main())


def test_a_second_await_raises(run) -> None:
    async def main() -> None:
        coroutine = bridge.ready(1)
        await coroutine
        with pytest.raises(RuntimeError, match="already awaited"):
            await coroutine

    run(main())


def test_close_and_throw_follow_the_coroutine_protocol() -> None:
    closed = bridge.sleeps(1)
    closed.close()
    closed.close()
    with pytest.raises(RuntimeError):
        closed.send(None)

    thrown = bridge.sleeps(1)
    with pytest.raises(KeyError, match="x"):
        thrown.throw(KeyError, KeyError("x"), None)
    with pytest.raises(LookupError):
        bridge.sleeps(1).throw(LookupError)
    with pytest.raises(LookupError, match="why"):
        bridge.sleeps(1).throw(LookupError, "why")


def test_without_a_loop_the_error_recommends_run_sync() -> None:
    with pytest.raises(RuntimeError, match="run_sync"):
        bridge.sleeps(1_000_000).send(None)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_panic_raises_an_exception_and_drops_the_future(run) -> None:
    async def main() -> None:
        alive = bridge.alive()
        coroutine = bridge.panics()
        with pytest.raises(BaseException, match="on purpose"):
            await coroutine
        assert bridge.alive() == alive
        with pytest.raises(RuntimeError):
            await coroutine

    run(main())


def test_the_debug_mode_of_asyncio_accepts_the_coroutine(new_loop) -> None:
    loop = new_loop()
    loop.set_debug(True)
    try:
        assert loop.run_until_complete(bridge.sleeps(100, 20)) == 20
    finally:
        loop.close()


def test_two_loops_run_in_two_threads(new_loop) -> None:
    results = []

    def work() -> None:
        loop = new_loop()
        try:
            for _ in range(20):
                results.append(loop.run_until_complete(bridge.sleeps(100, 10)))
        finally:
            loop.close()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert results == [10] * 40


def test_closing_a_loop_early_drops_the_pending_futures(new_loop) -> None:
    alive = bridge.alive()
    for _ in range(20):
        loop = new_loop()
        loop.set_exception_handler(lambda *_: None)
        task = loop.create_task(bridge.sleeps(2_000))
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
        del task, loop
    bridge.sleeps_sync(2_000)  # the thread of the timers keeps the order: the wakes come after the loops are closed

    wait_until(lambda: gc.collect() >= 0 and bridge.alive() == alive)


def test_many_loops_leak_no_file_descriptor(new_loop) -> None:
    def open_descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    def turn() -> None:
        loop = new_loop()
        loop.run_until_complete(bridge.sleeps(10, 2))
        loop.close()

    turn()
    gc.collect()
    before = open_descriptors()
    for _ in range(30):
        turn()

    wait_until(lambda: gc.collect() >= 0 and open_descriptors() <= before + 1)


def test_a_reference_cycle_through_the_future_is_collected() -> None:
    class Owner:
        pass

    owner = Owner()
    owner.coroutine = bridge.forever(owner)
    gone = weakref.ref(owner)
    del owner
    gc.collect()

    assert gone() is None


def test_a_reference_cycle_through_an_abandoned_task_is_collected(new_loop) -> None:
    class Owner:
        pass

    alive = bridge.alive()
    loop = new_loop()
    loop.set_exception_handler(lambda *_: None)
    owner = Owner()
    owner.task = loop.create_task(bridge.forever(owner))
    loop.run_until_complete(asyncio.sleep(0))
    assert bridge.alive() == alive + 1
    loop.close()
    gone = weakref.ref(owner)
    del owner, loop
    gc.collect()

    assert gone() is None
    assert bridge.alive() == alive


def test_random_cancellations_do_not_affect_other_tasks(run) -> None:
    async def one_round(generator: random.Random) -> int:
        async def hops() -> int:
            total = 0
            for _ in range(20):
                total += await bridge.sleeps(generator.randrange(1, 400))
            return total

        tasks = [asyncio.ensure_future(hops()) for _ in range(500)]
        chosen = generator.sample(tasks, 150)
        for victim in chosen:
            if generator.random() < 0.3:
                await asyncio.sleep(0)
            victim.cancel()
        results = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)
        return sum(result == 20 for result in results)

    async def main() -> None:
        alive = bridge.alive()
        generator = random.Random(7)
        for _ in range(10):
            assert await one_round(generator) >= 350
        assert bridge.alive() == alive

    run(main())

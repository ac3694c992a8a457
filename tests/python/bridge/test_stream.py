"""The event stream: order, cancellation, batches, end."""

from __future__ import annotations

import asyncio
import threading
import weakref

import pytest

from turntree._core import _bridge_selftest as bridge


def test_ready_events_need_no_loop() -> None:
    async def main() -> list[int]:
        return [number async for number in bridge.ready_numbers(1000)]

    with pytest.raises(StopIteration) as stopped:
        main().send(None)

    assert stopped.value.value == list(range(1000))


@pytest.mark.parametrize("burst", [1, 7, 64])
def test_live_events_arrive_in_order(run, burst: int) -> None:
    async def main() -> None:
        assert [number async for number in bridge.numbers(300, 100, burst)] == list(range(300))

    run(main())


def test_a_timeout_of_anext_loses_no_event(run) -> None:
    async def main() -> None:
        stream = bridge.numbers(1_000_000, 20_000)
        received, timeouts = [], 0
        while len(received) < 6 or timeouts < 6:  # both happen sooner or later, whatever the machine does in between
            try:
                received.append(await asyncio.wait_for(stream.__anext__(), 0.005))
            except asyncio.TimeoutError:
                timeouts += 1
        assert received == list(range(len(received)))

    run(main())


def test_a_second_reader_is_refused_and_the_first_continues(run) -> None:
    async def main() -> None:
        stream = bridge.numbers(1, 2_000_000)  # the second reader comes before the number, even after a second
        first = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)  # the first step of the task begins to read
        with pytest.raises(RuntimeError, match="another task"):
            await anext(stream)
        assert await first == 0

    run(main())


def test_a_reader_cancelled_before_its_start_does_not_block_another_reader(run) -> None:
    async def main() -> None:
        stream = bridge.numbers(1, 10_000)
        early = stream.__anext__()
        first = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)  # the first step of the task begins to read
        with pytest.raises(KeyError):
            early.throw(KeyError())
        assert await asyncio.wait_for(first, 20) == 0

    run(main())


def test_an_error_is_raised_after_all_earlier_events(run) -> None:
    error = ValueError("end")

    async def main() -> None:
        received = []
        stream = bridge.numbers(5, 100, 2, error)
        with pytest.raises(ValueError) as caught:
            async for number in stream:
                received.append(number)
        assert caught.value is error
        assert received == [0, 1, 2, 3, 4]
        assert [number async for number in stream] == []

    run(main())


def test_a_batch_contains_the_ready_events(run) -> None:
    error = ValueError("end")

    async def main() -> None:
        batches = [batch async for batch in bridge.ready_numbers(1000).batches(300)]
        assert [len(batch) for batch in batches] == [300, 300, 300, 100]

        received = []
        with pytest.raises(ValueError):
            async for batch in bridge.numbers(40, 500, 10, error).batches():
                assert batch
                received.extend(batch)
        assert received == list(range(40))

    run(main())


def test_closing_drops_the_source_and_wakes_the_reader(run) -> None:
    async def main() -> None:
        alive = bridge.alive()
        stream = bridge.numbers(10, 10_000_000)
        reader = asyncio.ensure_future(anext(stream, "end"))
        await asyncio.sleep(0)  # the first step of the task begins to read
        assert bridge.alive() == alive + 1
        stream.close()
        assert bridge.alive() == alive
        assert await asyncio.wait_for(reader, 20) == "end"

        async with bridge.numbers(10, 10_000_000) as other:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(anext(other), 0.005)
            assert bridge.alive() == alive + 1
        assert bridge.alive() == alive
        await other.aclose()

    run(main())


def test_dropping_the_stream_drops_the_source(run) -> None:
    async def main() -> None:
        alive = bridge.alive()
        stream = bridge.numbers(10, 100)
        async for _ in stream:
            break
        assert bridge.alive() == alive + 1
        del stream
        assert bridge.alive() == alive

    run(main())


def test_waiting_for_the_end_reads_the_source_and_keeps_the_events(run) -> None:
    async def main() -> None:
        stream = bridge.numbers(50, 100, 5)
        assert await bridge.finished(stream) == "finished"
        assert [number async for number in stream] == list(range(50))

    run(main())


def test_one_task_iterates_while_others_wait_for_the_end(run) -> None:
    async def main() -> None:
        stream = bridge.numbers(200, 50, 3)

        async def iterate() -> list[int]:
            return [number async for number in stream]

        results = await asyncio.wait_for(
            asyncio.gather(bridge.finished(stream), iterate(), bridge.finished(stream)), 20
        )
        assert results == ["finished", list(range(200)), "finished"]

    run(main())


def test_the_end_is_reached_after_the_reader_is_cancelled(run) -> None:
    async def main() -> None:
        stream = bridge.numbers(30, 500)
        end = asyncio.ensure_future(bridge.finished(stream))
        reader = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.002)  # a number comes every 0.5 ms: the reader usually has one before it is cancelled
        reader.cancel()
        assert await asyncio.wait_for(end, 20) == "finished"

    run(main())


def test_the_synchronous_stream_returns_the_events_and_raises_the_error() -> None:
    error = ValueError("end")
    assert list(bridge.numbers_sync(100, 100, 3)) == list(range(100))
    iterator = bridge.numbers_sync(3, 100, 1, error)
    assert [next(iterator) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError):
        next(iterator)


def test_the_synchronous_stream_works_inside_a_running_loop(run) -> None:
    async def main() -> None:
        assert list(bridge.numbers_sync(10, 100)) == list(range(10))

    run(main())


def test_a_reference_cycle_through_an_unfinished_stream_is_collected(run, is_collected) -> None:
    class Owner:
        pass

    alive = bridge.alive()

    async def main() -> weakref.ref:
        owner = Owner()
        owner.stream = bridge.numbers(10, 100, keep=owner)
        await anext(owner.stream)
        return weakref.ref(owner)

    # The thread of the timers holds the stream for the moment in which it wakes it.
    assert is_collected(run(main()))
    assert bridge.alive() == alive


def test_a_stream_is_read_on_two_loops_in_turn(new_loop) -> None:
    stream = bridge.numbers(4, 200)

    async def take() -> list[int]:
        return [await anext(stream), await anext(stream)]

    taken = []
    for _ in range(2):

        def work() -> None:
            loop = new_loop()
            taken.extend(loop.run_until_complete(take()))
            loop.close()

        thread = threading.Thread(target=work)
        thread.start()
        thread.join(10)

    assert taken == [0, 1, 2, 3]

"""Calls of Python tools: thread and loop, context variables, errors and cancellation."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest

from turntree._core import _bridge_selftest as bridge

number = contextvars.ContextVar("number", default=0)


class Odd(Exception):
    """An exception of a tool."""


async def double(value: int, *, add: int = 0) -> int:
    await asyncio.sleep(0.001)  # the pace of the tool; no assertion depends on it
    return 2 * value + add


def test_an_async_tool_runs_as_a_task_on_the_loop_of_the_caller(run) -> None:
    async def main() -> None:
        home, loop = asyncio.current_task(), asyncio.get_running_loop()

        async def tool() -> tuple[bool, bool, int]:
            return (
                asyncio.current_task() is not home,
                asyncio.get_running_loop() is loop,
                threading.get_ident(),
            )

        assert await bridge.tool(tool, "auto") == (True, True, threading.get_ident())
        assert await bridge.tool(double, "auto", 4, add=1) == 9

    run(main())


def test_a_sync_tool_runs_in_a_turntree_thread_unless_its_mode_is_inline(run) -> None:
    async def main() -> None:
        def name() -> str:
            return threading.current_thread().name

        assert (await bridge.tool(name, "auto")).startswith("turntree-tool")
        assert await bridge.tool(name, "inline") == threading.current_thread().name

    run(main())


def test_sync_tools_run_in_parallel(run) -> None:
    async def main() -> None:
        # One after another, the first would wait for the others until the barrier breaks.
        together = threading.Barrier(8)
        await bridge.tools([lambda: together.wait(20)] * 8, "thread")

    run(main())


@pytest.mark.parametrize("mode", ["thread", "inline"])
def test_a_coroutine_that_a_sync_tool_returns_is_awaited(run, mode: str) -> None:
    async def main() -> None:
        assert await bridge.tool(lambda: double(2), mode) == 4
        assert await bridge.tool(lambda: bridge.sleeps(100, 7), mode) == 7

    run(main())
    assert bridge.tool_sync(lambda: double(2), mode) == 4


@pytest.mark.parametrize("mode", ["task", "thread", "inline"])
def test_tools_read_the_context_variables_of_the_caller_and_do_not_change_them(run, mode: str) -> None:
    def body() -> int:
        seen = number.get()
        number.set(99)
        return seen

    async def async_body() -> int:
        return body()

    tool = async_body if mode == "task" else body

    async def main() -> None:
        number.set(5)
        assert await bridge.tool(tool, mode) == 5
        assert await bridge.tools([tool] * 5, mode) == [5] * 5
        assert number.get() == 5

    run(main())
    number.set(6)
    assert bridge.tool_sync(tool, mode) == 6
    assert number.get() == 6


@pytest.mark.parametrize("mode", ["task", "thread", "inline"])
def test_the_raised_exception_is_the_original_object(run, mode: str) -> None:
    error = Odd()

    def body() -> None:
        raise error

    async def async_body() -> None:
        await asyncio.sleep(0)
        raise error

    tool = async_body if mode == "task" else body

    async def main() -> None:
        with pytest.raises(Odd) as caught:
            await bridge.tool(tool, mode)
        assert caught.value is error
        assert any("body" in frame.name for frame in __import__("traceback").extract_tb(error.__traceback__))

    run(main())
    with pytest.raises(Odd) as caught:
        bridge.tool_sync(tool, mode)
    assert caught.value is error


def test_cancelling_the_run_cancels_the_tool(run) -> None:
    async def main() -> None:
        events = []
        begun = asyncio.Semaphore(0)

        async def tool() -> None:
            begun.release()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                events.append("cancelled")
                raise

        task = asyncio.ensure_future(bridge.tools([tool, tool], "task"))
        for _ in range(2):
            await asyncio.wait_for(begun.acquire(), 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)
        assert events == ["cancelled", "cancelled"]

    run(main())


def test_a_tool_that_cancels_itself_raises_in_the_run(run) -> None:
    async def main() -> None:
        async def tool() -> None:
            asyncio.current_task().cancel()
            await asyncio.sleep(1)

        with pytest.raises(asyncio.CancelledError):
            await bridge.tool(tool, "task")

    run(main())


@pytest.mark.parametrize("mode", ["task", "thread"])
def test_a_rust_thread_calls_an_async_tool_on_the_loop(run, mode: str) -> None:
    async def main() -> None:
        home = threading.get_ident()

        async def async_tool() -> int:
            await asyncio.sleep(0)
            return threading.get_ident()

        tool = async_tool if mode == "task" else threading.get_ident
        assert (await bridge.tool_from_elsewhere(tool, mode) == home) is (mode == "task")

    run(main())


def test_tools_run_with_the_eager_task_factory(new_loop) -> None:
    if not hasattr(asyncio, "eager_task_factory"):
        pytest.skip("3.12")
    loop = new_loop()
    if type(loop).__module__.startswith("uvloop"):
        loop.close()
        pytest.skip("uvloop passes an argument that eager_task_factory of 3.13 does not take")
    loop.set_task_factory(asyncio.eager_task_factory)

    async def at_once() -> int:
        return 1

    async def main() -> list[int]:
        return [
            await bridge.tool(at_once, "task"),
            await bridge.tool(double, "task", 1),
            await asyncio.create_task(bridge.sleeps(100)),
        ]

    try:
        assert loop.run_until_complete(main()) == [1, 2, 1]
    finally:
        loop.close()


def test_tools_run_in_the_debug_mode_of_asyncio(new_loop) -> None:
    loop = new_loop()
    loop.set_debug(True)
    try:
        assert loop.run_until_complete(bridge.tools([lambda: double(1)] * 10, "thread")) == [2] * 10
    finally:
        loop.close()


def test_a_run_awaited_on_another_loop_calls_its_tools_on_the_first_loop(new_loop) -> None:
    home = new_loop()
    thread = threading.Thread(target=home.run_forever)
    thread.start()

    async def where() -> int:
        await asyncio.sleep(0)
        return threading.get_ident()

    async def make() -> object:
        return [bridge.tool(where, "task")]

    try:
        [coroutine] = asyncio.run_coroutine_threadsafe(make(), home).result(5)
        assert asyncio.run(asyncio.wait_for(coroutine, 20)) == thread.ident
    finally:
        home.call_soon_threadsafe(home.stop)
        thread.join(5)
        home.close()


def test_a_tool_call_on_a_closed_loop_raises(new_loop) -> None:
    home = new_loop()

    async def make() -> object:
        return [bridge.tool(double, "task", 1)]

    [coroutine] = home.run_until_complete(make())
    home.close()

    with pytest.raises(RuntimeError, match="loop"):
        asyncio.run(asyncio.wait_for(coroutine, 20))

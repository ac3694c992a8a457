"""Runs one call for each input with limited concurrency. `Agent.map` uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from asyncio import Task
    from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable

T = TypeVar("T")
R = TypeVar("R")


def map_in_order(
    call: Callable[[T], Awaitable[R]],
    inputs: Iterable[T] | AsyncIterable[T],
    concurrency: int,
    *,
    return_exceptions: bool,
) -> AsyncGenerator[R, None]:
    """Yield the results of the calls in the order of the inputs.

    Raises:
        ValueError: `concurrency` is not positive.
        TypeError: `inputs` is neither iterable nor async iterable.
    """
    if concurrency < 1:
        message = f"concurrency must be at least 1, not {concurrency}"
        raise ValueError(message)
    return _in_order(call, _each(inputs), concurrency, return_exceptions=return_exceptions)


async def _in_order(
    call: Callable[[T], Awaitable[R]], inputs: AsyncIterator[T], concurrency: int, *, return_exceptions: bool
) -> AsyncGenerator[R, None]:
    import asyncio

    # Tasks in order; then None, or the exception that the input iterator raised.
    calls: asyncio.Queue[Task[R] | BaseException | None] = asyncio.Queue()
    places = asyncio.Semaphore(concurrency)
    started: set[Task[R]] = set()

    async def one(given: T) -> R:
        return await call(given)

    async def start() -> None:
        try:
            await places.acquire()
            async for given in inputs:
                task = asyncio.create_task(one(given))
                started.add(task)
                calls.put_nowait(task)
                await places.acquire()
            calls.put_nowait(None)
        except Exception as error:  # the consumer raises it after the results before it
            calls.put_nowait(error)

    starting = asyncio.create_task(start())
    try:
        while True:
            task = await calls.get()
            if task is None:
                return
            if isinstance(task, BaseException):
                raise task
            try:
                result = await task
            except Exception as error:
                if not return_exceptions:
                    raise
                result = cast("R", error)
            started.discard(task)
            places.release()
            yield result
    finally:
        left: list[Task[Any]] = [starting, *started]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


def _each(inputs: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
    if hasattr(inputs, "__aiter__"):
        return cast("AsyncIterable[T]", inputs).__aiter__()
    try:
        given = iter(cast("Iterable[T]", inputs))
    except TypeError:
        message = f"inputs must be iterable or async iterable, not {type(inputs).__name__}"
        raise TypeError(message) from None

    async def each() -> AsyncIterator[T]:
        for one in given:
            yield one

    return each()

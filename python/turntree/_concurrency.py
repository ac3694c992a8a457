"""Runs one call for each input with limited concurrency. `Agent.map` uses it."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, NoReturn, TypeVar, cast

from turntree._called_as import called_as
from turntree._typing import Self

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task

    from turntree._progress import Tokens

T = TypeVar("T")
R = TypeVar("R")

# How many characters of an input a note shows.
_SHOWN = 80


class Reports(NamedTuple):
    """What is called before the first call, with the number of ended calls and the last outcome, and at the end."""

    begin: Callable[[], None] | None = None
    ended: Callable[[int, object], None] | None = None
    end: Callable[[], None] | None = None


def map_in_order(
    call: Callable[[T], Awaitable[R]],
    inputs: Iterable[T] | AsyncIterable[T],
    concurrency: int,
    *,
    return_exceptions: bool,
    reports: Reports | None = None,
) -> AsyncGenerator[R, None]:
    """Yield the results of the calls in the order of the inputs.

    Raises:
        ValueError: `concurrency` is not positive.
        TypeError: `inputs` is neither iterable nor async iterable, or `concurrency` is not an int.
    """
    if not isinstance(concurrency, int) or isinstance(concurrency, bool):
        message = f"concurrency must be an int, not {type(concurrency).__name__}"
        raise TypeError(message)
    if concurrency < 1:
        message = f"concurrency must be at least 1, not {concurrency}"
        raise ValueError(message)
    calls = _Calls()
    reports = reports or Reports()
    results = _in_order(call, _each(inputs), concurrency, calls, return_exceptions=return_exceptions, reports=reports)
    return _Results(results, calls)


def reporter(
    progress: Callable[[int], Any] | bool | None,  # noqa: FBT001
    inputs: object,
) -> Reports:
    """Return the functions that report the progress of calls.

    Raises:
        TypeError: `progress` is neither a function nor True.
    """
    if progress is None or progress is False:
        return Reports()
    if progress is True:
        return _bar(len(cast("Any", inputs)) if hasattr(inputs, "__len__") else None)
    if not callable(progress):
        message = f"progress must be a function, not {type(progress).__name__}"
        raise TypeError(message)
    function = progress

    def report(ended: int, _: object) -> None:
        function(ended)

    return Reports(ended=report)


def _bar(total: int | None) -> Reports:
    """Return the functions that draw a bar. It is visible from the first call on, not only after its end."""
    bar: list[Tokens] = []

    def begin() -> None:
        from turntree._progress import Tokens

        bar.append(Tokens(total))

    def ended(_: int, outcome: object) -> None:
        bar[0].ended(outcome)

    return Reports(begin, ended, end=lambda: bar[0].close())


def observed(
    call: Callable[[T], Awaitable[R]], report: Callable[[int, object], None] | None
) -> Callable[[T], Awaitable[R]]:
    """Return the call with a note about its input on its exceptions, and with a report of its outcome."""
    begun = ended = 0

    async def run(given: T) -> R:
        nonlocal begun, ended
        place = begun
        begun += 1
        try:
            result = await call(given)
        except Exception as error:
            called_as(error, "Agent.run", "Agent.map")
            _note(error, place, given)
            ended += 1
            if report is not None:
                report(ended, error)
            raise
        ended += 1
        if report is not None:
            report(ended, result)
        return result

    return run


def _note(error: Exception, place: int, given: object) -> None:
    """Add the place and the start of the input to an exception. Python 3.10 has no notes."""
    add = getattr(error, "add_note", None)
    if add is not None:
        text = given if isinstance(given, str) else repr(given)
        shown = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
        add(f"raised for input {place} of map: {shown!r}")


class _Calls:
    """The tasks of the calls that have no consumed result, and of the input iterator."""

    __slots__ = ("_loop", "is_left", "tasks")

    def __init__(self) -> None:
        self._loop: AbstractEventLoop | None = None
        self.tasks: set[Task[Any]] = set()
        self.is_left = False

    def begin(self, loop: AbstractEventLoop) -> None:
        self._loop = loop

    def leave(self) -> None:
        """Cancel all calls. Also called by the garbage collector, in any thread."""
        if not self.tasks or self._loop is None or self._loop.is_closed():
            return
        import asyncio

        self.is_left = True
        if asyncio._get_running_loop() is self._loop:
            self.cancel()
        else:
            self._loop.call_soon_threadsafe(self.cancel)

    def cancel(self) -> None:
        for task in self.tasks:
            task.cancel()


class _Results(AsyncGenerator[R, None]):
    """The results of `map_in_order`. Each loop has an iterator of its own."""

    __slots__ = ("_calls", "_results")

    def __init__(self, results: AsyncGenerator[R, None], calls: _Calls) -> None:
        self._results = results
        self._calls = calls

    def __aiter__(self) -> _Loop[R]:
        return _Loop(self._results, self._calls)

    def __iter__(self) -> NoReturn:
        message = "the turns of map() arrive asynchronously: write `async for turn in agent.map(inputs)`"
        raise TypeError(message)

    def __await__(self) -> NoReturn:
        message = "map() is a loop, not a call: write `[turn async for turn in agent.map(inputs)]`"
        raise TypeError(message)

    def __anext__(self) -> Any:
        return self._results.__anext__()

    def asend(self, value: None) -> Any:
        return self._results.asend(value)

    def athrow(self, *arguments: Any) -> Any:
        return self._results.athrow(*arguments)

    def aclose(self) -> Any:
        return self._results.aclose()


class _Loop(Generic[R]):
    """The iterator of one loop over the results. Dropping it before the end cancels the calls."""

    __slots__ = ("_calls", "_results")

    def __init__(self, results: AsyncGenerator[R, None], calls: _Calls) -> None:
        self._results = results
        self._calls = calls

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Awaitable[R]:
        return self._results.__anext__()

    def __del__(self) -> None:
        self._calls.leave()


async def _in_order(
    call: Callable[[T], Awaitable[R]],
    inputs: AsyncIterator[T],
    concurrency: int,
    running: _Calls,
    *,
    return_exceptions: bool,
    reports: Reports,
) -> AsyncGenerator[R, None]:
    import asyncio

    if reports.begin is not None:
        reports.begin()
    running.begin(asyncio.get_running_loop())
    # Tasks in order; then None, or the exception that the input iterator raised.
    calls: asyncio.Queue[Task[R] | BaseException | None] = asyncio.Queue()
    places = asyncio.Semaphore(concurrency)

    async def one(given: T) -> R:
        return await call(given)

    async def start() -> None:
        try:
            await places.acquire()
            async for given in inputs:
                task = asyncio.create_task(one(given))
                running.tasks.add(task)
                calls.put_nowait(task)
                await places.acquire()
            calls.put_nowait(None)
        except Exception as error:  # the consumer raises it after the results before it
            calls.put_nowait(error)

    starting = asyncio.create_task(start())
    running.tasks.add(starting)
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
            running.tasks.discard(task)
            places.release()
            yield result
            if running.is_left:
                return
    except asyncio.CancelledError as error:
        if "ipykernel" in sys.modules:
            from turntree._stops import shorten

            shorten(error)
        raise
    finally:
        running.cancel()
        await asyncio.gather(*running.tasks, return_exceptions=True)
        running.tasks.clear()
        if reports.end is not None:
            reports.end()


def _each(inputs: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
    if hasattr(inputs, "__aiter__"):
        return cast("AsyncIterable[T]", inputs).__aiter__()
    if isinstance(cast("object", inputs), (bytes, Mapping)):
        # Numbers and keys are no inputs.
        message = f"inputs must be a list of inputs, not {type(cast('object', inputs)).__name__}; write [input]"
        raise TypeError(message)
    try:
        given = iter(cast("Iterable[T]", inputs))
    except TypeError:
        message = f"inputs must be iterable or async iterable, not {type(inputs).__name__}"
        raise TypeError(message) from None

    async def each() -> AsyncIterator[T]:
        for one in given:
            yield one

    return each()

"""Fixtures: every test runs under asyncio and, if it is installed, under uvloop."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

core = pytest.importorskip("turntree._core")
if not hasattr(core, "_bridge_selftest"):
    pytest.skip("built without the feature bridge-selftest", allow_module_level=True)

try:
    import uvloop
except ImportError:
    uvloop = None


class LoopWithoutReaders(asyncio.SelectorEventLoop):
    """Simulates the proactor loop of Windows: it cannot watch descriptors, so the wake thread of turntree wakes it."""

    def add_reader(self, *_arguments: Any) -> None:
        raise NotImplementedError


FACTORIES: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.SelectorEventLoop,
    "no-readers": LoopWithoutReaders,
}
if uvloop is not None:
    FACTORIES["uvloop"] = uvloop.new_event_loop


@pytest.fixture(params=list(FACTORIES))
def new_loop(request: pytest.FixtureRequest) -> Callable[[], asyncio.AbstractEventLoop]:
    """A factory of event loops."""
    return FACTORIES[request.param]


def run_on(loop: asyncio.AbstractEventLoop, main: Awaitable[Any]) -> Any:
    """Run a coroutine on a given loop like `asyncio.run`, on all versions of Python."""
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(main)
    finally:
        pending = asyncio.all_tasks(loop)
        for task in pending:
            task.cancel()
        if pending:
            loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        asyncio.set_event_loop(None)
        loop.close()


@pytest.fixture
def run(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> Callable[[Awaitable[Any]], Any]:
    """Run a coroutine to its end on a fresh loop."""
    return lambda main: run_on(new_loop(), main)


@pytest.fixture(autouse=True)
def no_future_stays_alive() -> Any:
    """After every test no Rust future is alive."""
    bridge = core._bridge_selftest
    before = bridge.alive()
    yield
    deadline = time.monotonic() + 10
    while bridge.alive() > before and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)  # the poll interval
    assert bridge.alive() <= before

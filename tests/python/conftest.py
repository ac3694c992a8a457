"""Fixtures that every test may use."""

import asyncio
import gc
import importlib.util
import os
import signal
import time
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from support.laws import FACTOR

from turntree.testing import LoopbackServer, Script, serve

ROOT = Path(__file__).resolve().parents[2]

# A background job of a shell ignores SIGINT, and its child processes inherit this; the tests need the default.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# The deadline of an example is wall time: another process may have the processor.
settings.register_profile("turntree", deadline=None, derandomize=FACTOR == 1)
settings.load_profile("turntree")

# Tests count requests: retries are those that a test configures. `test_default_retries.py` removes the variable.
os.environ["TURNTREE_MAX_RETRIES"] = "0"


def pytest_report_header() -> str:
    """Print the path of the tested turntree: it must be the installed wheel."""
    spec = importlib.util.find_spec("turntree")
    return f"turntree: {spec.origin if spec else 'not installed, run make test'}"


def pytest_collection_finish() -> None:
    """Leave what collection has made out of garbage collection: many tests collect, and each would walk all tests."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    """Escape lone surrogates in captured output: pytest-xdist sends reports as UTF-8."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report


@pytest.fixture
def root() -> Path:
    """The root of the repository."""
    return ROOT


@pytest.fixture
def loopback() -> Iterator[Callable[..., LoopbackServer]]:
    """Starts loopback servers and closes them after the test."""
    with ExitStack() as stack:

        def start(script: Script, *, strict: bool = True) -> LoopbackServer:
            return stack.enter_context(serve(script, strict=strict))

        yield start


@pytest.fixture
def wait_for_log(caplog: pytest.LogCaptureFixture) -> Callable[[str], pytest.LogCaptureFixture]:
    """Wait for a record of the crates: a thread of its own writes them, after the call that they report."""

    def wait(text: str) -> pytest.LogCaptureFixture:
        deadline = time.monotonic() + 10
        while text not in caplog.text:
            assert time.monotonic() < deadline, f"no record with {text!r}, only {caplog.text!r}"
            time.sleep(0.001)
        return caplog

    return wait


@pytest.fixture
def is_collected() -> Callable[[Callable[[], object]], bool]:
    """Whether an object is freed. A thread of a tool forgets its call after the run has the result."""

    def wait(reference: Callable[[], object]) -> bool:
        deadline = time.monotonic() + 10
        while reference() is not None and time.monotonic() < deadline:
            gc.collect()
            time.sleep(0.001)
        return reference() is None

    return wait


def _loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    factories: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.SelectorEventLoop}
    if importlib.util.find_spec("uvloop") is not None:
        import uvloop

        factories["uvloop"] = uvloop.new_event_loop
    return factories


@pytest.fixture(params=list(_loop_factories()))
def new_loop(request: pytest.FixtureRequest) -> Callable[[], asyncio.AbstractEventLoop]:
    """A factory of event loops, one for each kind of loop."""
    return _loop_factories()[request.param]


@pytest.fixture
def run(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Runs a coroutine to its end on a new loop."""

    def on_a_fresh_loop(main: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            return runner.run(main)

    return on_a_fresh_loop

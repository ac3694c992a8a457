"""Fixtures that every test may use."""

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from turntree.testing import LoopbackServer, Script, serve

ROOT = Path(__file__).resolve().parents[2]


def pytest_report_header() -> str:
    """Say which turntree is tested: it must be the installed wheel."""
    spec = importlib.util.find_spec("turntree")
    return f"turntree: {spec.origin if spec else 'not installed, run make test'}"


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

"""The pytest plugin: the fixture ``turntree``, ``--turntree-record``, and the guard against real requests.

pytest loads it by its entry point where turntree is installed.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path
from typing import Any, Literal

import pytest

from turntree._core import guard_requests
from turntree.testing._expect import Expectation
from turntree.testing._replies import Script
from turntree.testing._server import LoopbackServer
from turntree.upp import ModelReference, Turn
from turntree.upp import Replay as Recording

__all__ = ["Turntree"]

_MARKER = "turntree_requests"


class Turntree:
    """What a test needs: scripted models, a loopback server, recordings, assertions."""

    def __init__(self, recording: Path, mode: Literal["record", "replay"]) -> None:
        """Take the file of the test's recording."""
        self._recording = recording
        self._mode: Literal["record", "replay"] = mode

    def scripted(self, *replies: Any) -> ModelReference:
        """Return a model that answers with these replies, one for each call; see `turntree.upp.scripted`."""
        from turntree.upp import scripted

        return scripted(list(replies))

    def serve(self, script: Script, *, strict: bool = True) -> LoopbackServer:
        """Return a fake model server on the loopback interface, for ``with``; see `turntree.testing.serve`."""
        from turntree.testing import serve

        return serve(script, strict=strict)

    def replay(self, **options: Any) -> Recording:
        """Return the recording of this test, for ``with``: all requests inside are played from a file.

        The file is ``recordings/<module>/<test>.jsonl`` beside the test. ``pytest --turntree-record`` writes it, with
        real requests. The options are those of `turntree.upp.replay`.
        """
        from turntree.upp import replay

        if self._mode == "record":
            self._recording.parent.mkdir(parents=True, exist_ok=True)
        return replay(self._recording, self._mode, **options)

    def expect(self, turn: Turn) -> Expectation:
        """Start assertions about a turn; see `turntree.testing.expect`."""
        from turntree.testing import expect

        return expect(turn)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("turntree")
    group.addoption("--turntree-record", action="store_true", help="record the requests inside of turntree.replay()")
    parser.addini(
        "turntree_requests",
        'requests of models to other machines: "refuse" (default) or "allow"',
        default="refuse",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Describe the marker, and begin to refuse requests."""
    config.addinivalue_line(
        "markers", f"{_MARKER}(*hosts): models may send requests to these hosts; without hosts, to all"
    )
    choice = config.getini("turntree_requests")
    if choice not in {"refuse", "allow"}:
        message = f'turntree_requests must be "refuse" or "allow", not "{choice}"'
        raise pytest.UsageError(message)
    if choice == "refuse":
        before = guard_requests([])
        config.add_cleanup(lambda: _restore(before))


def _restore(hosts: list[str] | None) -> None:
    guard_requests(hosts)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let a test with the marker send requests."""
    marker = item.get_closest_marker(_MARKER)
    if marker is None:
        return (yield)
    before = guard_requests([str(host) for host in marker.args] if marker.args else None)
    try:
        return (yield)
    finally:
        guard_requests(before)


@pytest.fixture
def turntree(request: pytest.FixtureRequest) -> Turntree:
    """Scripted models, recordings and assertions for a test of an agent."""
    name = re.sub(r"[^\w.-]+", "-", request.node.name).strip("-")
    path = request.path.parent / "recordings" / request.path.stem / f"{name}.jsonl"
    return Turntree(path, "record" if request.config.getoption("--turntree-record") else "replay")

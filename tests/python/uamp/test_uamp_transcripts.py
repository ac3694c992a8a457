"""The transcripts of ``tests/conformance/uamp`` over sockets, by both faces and over every transport."""

from __future__ import annotations

import contextlib
import json
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from uamp_support import FACES, frames, http, served

from turntree import agent
from turntree.upp import ToolCall, UPPError, scripted

FILES = sorted((Path(__file__).resolve().parents[2] / "conformance" / "uamp").glob("*.json"))
TRANSCRIPTS: dict[str, dict[str, Any]] = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in FILES}
SEQUENTIAL = [name for name, transcript in TRANSCRIPTS.items() if "transport" not in transcript]
BATCHES = [name for name, transcript in TRANSCRIPTS.items() if transcript.get("batch")]

pytestmark = pytest.mark.parametrize("face", FACES)


def helper(transcript: dict[str, Any]) -> Any:
    """The agent of a transcript."""

    def reply(given: Any) -> Any:
        if isinstance(given, str):
            return given
        if "error" in given:
            return UPPError(given["error"], "PROVIDER_ERROR")
        return ToolCall(tool_call_id="c1", tool_name=given["tool"], arguments={})

    return agent(name="helper", model=scripted([reply(given) for given in transcript["replies"]]))


class Values:
    """The values of the placeholders."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}

    def match(self, expected: Any, found: Any) -> bool:
        """Whether a value is the expected one, or has its members."""
        if expected == "$*":
            return True
        if isinstance(expected, str) and expected.startswith("$"):
            return found is not None and self.known.setdefault(expected, found) == found
        if isinstance(expected, dict) and isinstance(found, dict):
            members, others = cast("dict[str, Any]", expected), cast("dict[str, Any]", found)
            return all(self.match(value, others.get(key)) for key, value in members.items())
        if isinstance(expected, list) and isinstance(found, list):
            pairs = [*zip(cast("list[Any]", expected), cast("list[Any]", found), strict=False)]
            return len(pairs) == len(cast("list[Any]", expected)) == len(cast("list[Any]", found)) and all(
                self.match(*pair) for pair in pairs
            )
        return bool(expected == found)

    def fill(self, event: dict[str, Any]) -> dict[str, Any]:
        """An event to send; members whose placeholder has no value are left out."""
        filled: dict[str, Any] = {}
        for key, value in event.items():
            if not (isinstance(value, str) and value.startswith("$")):
                filled[key] = value
            elif value in self.known:
                filled[key] = self.known[value]
        return filled


class Checker:
    """Compares received events with a transcript, after text deltas were joined."""

    def __init__(self) -> None:
        self.values = Values()
        self.ready: deque[dict[str, Any]] = deque()
        self._held: dict[str, Any] | None = None

    def receive(self, event: dict[str, Any]) -> None:
        """Take an event; a text delta waits for its neighbours."""
        assert event.get("session_id") or event.get("reply_to"), event
        kind = event.get("delta", {}).get("type") if event["type"] == "response.delta" else None
        if kind == "text" and self._held is not None:
            self._held["delta"]["text"] += event["delta"]["text"]
        elif kind == "text":
            self._held = event
        elif kind != "tool_call" and event["type"] not in {"usage.delta", "progress"}:
            if self._held is not None:
                self.ready.append(self._held)
                self._held = None
            self.ready.append(event)

    async def expect(self, expected: dict[str, Any], events: AsyncIterator[dict[str, Any]]) -> None:
        """Compare the next event."""
        while not self.ready:
            self.receive(await anext(events))
        self.check(expected)

    def check(self, expected: dict[str, Any]) -> None:
        """Compare the next event, which has come."""
        found = self.ready.popleft()
        assert self.values.match(expected, found), (expected, found)


@pytest.mark.parametrize("path", ["/ws", "/agents/helper/uamp"])
@pytest.mark.parametrize("name", TRANSCRIPTS)
async def test_a_transcript_holds_over_websocket(face: str, name: str, path: str) -> None:
    websockets = pytest.importorskip("websockets")
    checker = Checker()
    async with (
        served(face, helper(TRANSCRIPTS[name])) as url,
        websockets.connect(url.replace("http", "ws") + path, proxy=None) as socket,
    ):

        async def received() -> AsyncGenerator[dict[str, Any]]:
            while True:
                yield json.loads(await socket.recv())

        events = received()
        for step in TRANSCRIPTS[name]["steps"]:
            if "send" in step:
                await socket.send(json.dumps(checker.values.fill(step["send"])))
            else:
                await checker.expect(step["expect"], events)


async def data_of(response: httpx.Response) -> AsyncGenerator[dict[str, Any]]:
    """The events of a stream of server-sent events."""
    async for line in response.aiter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


@pytest.mark.parametrize("name", SEQUENTIAL)
async def test_a_transcript_holds_over_server_sent_events(face: str, name: str) -> None:
    checker = Checker()
    async with (
        served(face, helper(TRANSCRIPTS[name])) as url,
        http(url) as client,
        contextlib.AsyncExitStack() as open_streams,
    ):
        events: AsyncIterator[dict[str, Any]] | None = None
        for step in TRANSCRIPTS[name]["steps"]:
            if "expect" in step:
                assert events is not None
                await checker.expect(step["expect"], events)
                continue
            response = await client.post("/events", json=checker.values.fill(step["send"]))
            assert response.is_success, response.text
            if events is None:
                client.headers["x-session-id"] = response.headers["x-session-id"]
                stream = await open_streams.enter_async_context(client.stream("GET", "/events/stream"))
                events = data_of(stream)


@pytest.mark.parametrize("path", ["/uamp", "/uamp/stream"])
@pytest.mark.parametrize("name", BATCHES)
async def test_a_transcript_holds_as_a_batch(face: str, name: str, path: str) -> None:
    checker = Checker()
    steps = TRANSCRIPTS[name]["steps"]
    batch = [checker.values.fill(step["send"]) for step in steps if "send" in step]
    async with served(face, helper(TRANSCRIPTS[name])) as url, http(url) as client:
        response = await client.post(path, json=batch)
        assert response.status_code == 200, response.text

    for event in response.json() if path == "/uamp" else frames(response.text)[:-1]:
        checker.receive(event)
    for step in steps:
        if "expect" in step:
            checker.check(step["expect"])
    assert not checker.ready

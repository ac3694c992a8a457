"""Plays the steps of a vector against a server, and compares its answers; the README describes the format."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from typing import Any
from uuid import UUID

import httpx

PLACEHOLDER = re.compile(r"\{(\w+)\}")


class Player:
    """Plays one case."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http
        self.saved: dict[str, str] = {}

    async def play(self, steps: list[dict[str, Any]]) -> None:
        """Play steps one after the other.

        Raises:
            AssertionError: An answer is another than the vector says.
        """
        for number, step in enumerate(steps):
            try:
                await self._step(step)
            except AssertionError as error:
                raise AssertionError(f"step {number}: {json.dumps(step)[:400]}\n{error}") from None

    async def _step(self, step: dict[str, Any]) -> None:
        if "wait" in step:
            await asyncio.sleep(step["wait"])
        elif "concurrent" in step:
            answers = await asyncio.gather(*(self._send(request) for request in step["concurrent"]))
            found = Counter(str(answer.status_code) for answer in answers)
            assert found == step["statuses"], f"statuses {dict(found)}"
        else:
            self._check(await self._send(step["request"]), step["response"])

    async def _send(self, request: dict[str, Any]) -> httpx.Response:
        headers = {name: self._filled(value) for name, value in request.get("headers", {}).items()}
        content = self._content(request)
        if content and not any(name.lower() == "content-type" for name in headers):
            headers["Content-Type"] = "application/json"
        headers = {name: value for name, value in headers.items() if value}
        path = self._filled(request["path"])
        return await self.http.request(request["method"], path, content=content, headers=headers)

    def _content(self, request: dict[str, Any]) -> bytes:
        if "json" in request:
            return self._filled(json.dumps(request["json"])).encode()
        if "raw_hex" in request:
            return bytes.fromhex(request["raw_hex"])
        if "raw_spaces" in request:
            return b" " * request["raw_spaces"]
        return request.get("raw", "").encode()

    def _filled(self, text: str) -> str:
        return PLACEHOLDER.sub(lambda match: self.saved.get(match[1], match[0]), text)

    def _check(self, answer: httpx.Response, expected: dict[str, Any]) -> None:
        text = answer.text
        assert answer.status_code == expected["status"], f"status {answer.status_code}: {text[:1000]}"
        for name, value in expected.get("headers", {}).items():
            assert_like(answer.headers.get(name), value, f"header {name}", self.saved)
        if "events" in expected:
            assert answer.headers["content-type"].startswith("text/event-stream")
            assert_like(events_of(text), expected["events"], "events", self.saved)
            return
        body = answer.json() if text else None
        if "json" in expected:
            assert_like(body, expected["json"], "", self.saved)
        if "tools" in expected:
            assert [tool["name"] for tool in body["tools"]] == expected["tools"], text
        for pointer in expected.get("absent", ()):
            assert not has(body, pointer), f"{pointer} is there: {text}"
        compact = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
        for part in expected.get("contains", ()):
            assert part in compact, f"{part!r} is not in {text}"
        for part in expected.get("lacks", ()):
            assert part not in text, f"{part!r} is in {text}"
        assert len(answer.content) <= expected.get("max_bytes", 1 << 30)
        if answer.status_code >= 400:
            assert isinstance(body["detail"], str), text
        for name, pointer in expected.get("save", {}).items():
            self.saved[name] = value_at(body, pointer)


def events_of(text: str) -> list[list[Any]]:
    """Return the name and the data of each server-sent event; comments are left out."""
    frames = [frame for frame in text.replace("\r\n", "\n").split("\n\n") if frame.strip()]
    fields = [dict(line.split(": ", 1) for line in frame.splitlines() if ": " in line) for frame in frames]
    return [[event["event"], json.loads(event["data"])] for event in fields if "event" in event]


def value_at(body: Any, pointer: str) -> Any:
    """Return the value at a JSON Pointer."""
    for part in pointer.split("/")[1:]:
        body = body[part.replace("~1", "/").replace("~0", "~")]
    return body


def has(body: Any, pointer: str) -> bool:
    """Return whether there is a value at a JSON Pointer."""
    try:
        value_at(body, pointer)
    except KeyError:
        return False
    return True


def assert_like(found: Any, expected: Any, place: str, saved: dict[str, str]) -> None:
    """Compare: objects may have more members, lists have the same length, placeholders stand for values.

    Raises:
        AssertionError: They differ; the message has the place.
    """
    if isinstance(expected, dict):
        assert isinstance(found, dict), f"{place}: {found!r} is no object"
        for name, value in expected.items():
            assert name in found, f"{place}/{name} is missing in {found}"
            assert_like(found[name], value, f"{place}/{name}", saved)
    elif isinstance(expected, list):
        assert isinstance(found, list), f"{place}: {found!r} is no list"
        assert len(found) == len(expected), f"{place}: {found}"
        for index, (item, value) in enumerate(zip(found, expected, strict=True)):
            assert_like(item, value, f"{place}/{index}", saved)
    elif isinstance(expected, str) and PLACEHOLDER.fullmatch(expected):
        assert_placeholder(found, expected, place, saved)
    else:
        assert found == expected, f"{place}: {found!r} is not {expected!r}"
        assert type(found) is type(expected), f"{place}: {found!r} is not {expected!r}"


def assert_placeholder(found: Any, expected: str, place: str, saved: dict[str, str]) -> None:
    """Compare a value with a placeholder."""
    if expected == "{any}":
        assert found is not None, f"{place} is missing"
    elif expected == "{text}":
        assert isinstance(found, str), f"{place}: {found!r} is no text"
        assert found, f"{place} is empty"
    elif expected == "{uuid}":
        assert UUID(found).version == 4, f"{place}: {found!r}"
    else:
        assert found == saved[expected[1:-1]], f"{place}: {found!r}"

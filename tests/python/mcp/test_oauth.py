"""OAuth 2.1 at a server of the official SDK."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlsplit
from urllib.request import HTTPRedirectHandler, build_opener, urlopen

import pytest
from mcp_support import environment
from support.ports import reserved_port

from turntree import agent, mcp
from turntree.upp import scripted

PROGRAM = Path(__file__).parent / "official_oauth_server.py"


@contextmanager
def listening(*arguments: str) -> Iterator[str]:
    process = subprocess.Popen([environment(), str(PROGRAM), *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with listening() as address:
        yield address


@pytest.fixture(scope="module")
def short() -> Iterator[str]:
    with listening("short") as address:
        yield address


class Kept:
    """A token store."""

    def __init__(self) -> None:
        self.data: dict[str, str] = {}

    async def save(self, key: str, data: str) -> None:
        self.data[key] = data

    async def load(self, key: str) -> str | None:
        return self.data.get(key)


class Person:
    """Opens the page, and returns where it leads to."""

    def __init__(self, **changes: str) -> None:
        self.pages: list[str] = []
        self._changes = changes

    async def __call__(self, page: str) -> str:
        self.pages.append(page)
        address = await asyncio.to_thread(self._open, page)
        for old, new in self._changes.items():
            address = address.replace(f"{old}=", f"{new}=")
        return address

    @staticmethod
    def _open(page: str) -> str:
        class Stop(HTTPRedirectHandler):
            def redirect_request(self, *_: Any) -> None:
                return None

        with pytest.raises(HTTPError) as answer:
            build_opener(Stop).open(page)
        answer.value.close()
        return str(answer.value.headers["location"])


async def test_an_agent_uses_a_server_that_requires_oauth(url: str):
    person = Person()
    async with mcp.http(url, auth=mcp.oauth(url, authorize=person)) as server:
        turn = await agent(model=scripted([{"toolName": "secret", "arguments": {}}, "ok"]), tools=[server]).run("Go.")
    assert turn.tool_executions[0].result == {"result": "swordfish"}
    query = parse_qs(urlsplit(person.pages[0]).query)
    assert query["code_challenge_method"] == ["S256"]
    assert query["resource"] == [url]
    assert query["scope"] == ["user"]


async def test_tokens_are_kept_and_the_person_is_asked_once(url: str):
    person, kept = Person(), Kept()
    for _ in range(2):
        async with mcp.http(url, auth=mcp.oauth(url, authorize=person, store=kept)) as server:
            assert [tool.name for tool in await server.tools()] == ["secret"]
    assert len(person.pages) == 1
    again = mcp.oauth(url, authorize=person, store=kept)
    await again.forget()
    assert "access_token" not in json.loads(kept.data[url])
    await again()
    assert len(person.pages) == 2
    first, second = (parse_qs(urlsplit(page).query)["client_id"] for page in person.pages)
    assert first == second


async def test_an_expired_token_is_refreshed_without_the_person(short: str):
    person, kept = Person(), Kept()
    auth = mcp.oauth(short, authorize=person, store=kept)
    first, second = await auth(), await auth()
    assert first != second
    async with mcp.http(short, auth=auth) as server:
        assert len(await server.tools()) == 1
    assert len(person.pages) == 1


async def test_a_grant_that_has_ended_asks_the_person_again(short: str):
    person, kept = Person(), Kept()
    auth = mcp.oauth(short, authorize=person, store=kept)
    await auth()
    kept.data[short] = json.dumps({**json.loads(kept.data[short]), "refresh_token": "gone"})
    await auth()
    assert len(person.pages) == 2


async def test_an_answer_with_another_state_is_refused(url: str):
    with pytest.raises(mcp.McpError, match="has another state"):
        await mcp.oauth(url, authorize=Person(state="other"))()
    with pytest.raises(mcp.McpError, match="the authorization was refused: no thanks"):
        await mcp.oauth(
            url, authorize=lambda page: "http://127.0.0.1/?error=access_denied&error_description=no+thanks"
        )()


async def test_without_a_token_the_server_refuses(url: str):
    with pytest.raises(mcp.McpError):
        async with mcp.http(url):
            pass


def test_tokens_are_sent_over_https_only():
    with pytest.raises(ValueError, match="must begin with https://"):
        mcp.oauth("http://example.com/mcp")


async def test_the_browser_of_this_machine_is_opened_by_default(url: str, monkeypatch: pytest.MonkeyPatch):
    read: list[bytes] = []

    def browse(page: str) -> bool:
        with urlopen(page) as answer:
            read.append(answer.read())
        return True

    monkeypatch.setattr("webbrowser.open", browse)
    with reserved_port() as port:
        auth = mcp.oauth(url, redirect_uri=f"http://127.0.0.1:{port}/callback")
        assert await auth() == await auth()
    assert read == [b"You can close this window.\n"]


async def test_a_redirect_to_another_machine_needs_a_function(url: str):
    with pytest.raises(mcp.McpError, match="give authorize= a function"):
        await mcp.oauth(url, redirect_uri="https://example.com/callback")()

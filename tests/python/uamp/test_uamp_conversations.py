"""Conversations of a server in stores: restarts, other principals, stores written in Python, killed servers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from uamp_support import FACES, http, served

from turntree import agent
from turntree.store import memory, sqlite
from turntree.upp import scripted


def remembering() -> Any:
    """An agent that says how many messages it was given."""
    return agent(name="helper", model=scripted(lambda request: f"{len(request.messages)} messages"))


def text_of(body: dict[str, Any]) -> str:
    return "".join(part["text"] for item in body["output"] if item["type"] == "message" for part in item["content"])


def ask(text: str, previous: str | None = None) -> dict[str, Any]:
    return {"model": "helper", "input": text, "previous_response_id": previous}


class OwnStore:
    """A store of an application: async and sync methods."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    async def save(self, key: str, data: str) -> None:
        self.texts[key] = data

    def load(self, key: str) -> str | None:
        return self.texts.get(key)

    def delete(self, key: str) -> None:
        self.texts.pop(key, None)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("kind", ["memory", "sqlite", "own"])
async def test_a_conversation_continues_after_a_restart(face: str, kind: str, tmp_path: Path) -> None:
    own, in_memory = OwnStore(), memory()

    def store() -> Any:
        return {"own": own, "memory": in_memory}.get(kind) or sqlite(tmp_path / "conversations.db")

    async with served(face, remembering(), store=store()) as url, http(url) as client:
        first = (await client.post("/responses", json=ask("one"))).json()
        assert text_of(first) == "1 messages"
        second = (await client.post("/responses", json=ask("two", first["id"]))).json()
        assert text_of(second) == "3 messages"
    async with served(face, remembering(), store=store()) as url, http(url) as client:
        third = (await client.post("/responses", json=ask("three", second["id"]))).json()
        assert text_of(third) == "5 messages"


@pytest.mark.parametrize("face", FACES)
async def test_the_conversations_of_another_principal_are_not_found(face: str) -> None:
    def auth(token: str) -> str:
        return token

    async with served(face, remembering(), auth=auth) as url, http(url) as client:
        headers = [{"authorization": f"Bearer {name}"} for name in ("anna", "ben")]
        first = (await client.post("/responses", json=ask("one"), headers=headers[0])).json()
        stolen = await client.post("/responses", json=ask("two", first["id"]), headers=headers[1])
        assert stolen.status_code == 404, stolen.text
        assert (await client.post("/responses", json=ask("two", first["id"]), headers=headers[0])).status_code == 200


KILLED = """
import asyncio, sys
from turntree import agent, uamp
from turntree.upp import scripted

helper = agent(name="helper", model=scripted(lambda request: f"{len(request.messages)} messages"))

async def main():
    async with uamp.serve(helper, store=sys.argv[1]) as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


def test_a_killed_server_loses_no_turn_that_it_has_answered(tmp_path: Path) -> None:
    program = tmp_path / "killed_server_of_agents.py"
    program.write_text(KILLED, encoding="utf-8")
    store = f"sqlite:///{tmp_path / 'conversations.db'}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def start() -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen([sys.executable, str(program), store], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        return process, process.stdout.readline().strip()

    def post(url: str, text: str, previous: str | None) -> dict[str, Any]:
        body = json.dumps(ask(text, previous)).encode()
        request = urllib.request.Request(f"{url}/responses", body, {"content-type": "application/json"})
        with opener.open(request, timeout=30) as answer:
            return json.load(answer)

    acknowledged: dict[int, tuple[str, int]] = {}
    process, url = start()

    def talk(number: int) -> None:
        previous = None
        for turn in range(1000):
            try:
                previous = post(url, f"turn {turn}", previous)["id"]
            except (urllib.error.URLError, ConnectionError, OSError, ValueError):
                return
            acknowledged[number] = (previous, turn + 1)

    threads = [threading.Thread(target=talk, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    while sum(turns for _, turns in acknowledged.copy().values()) < 60:
        threads[0].join(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    for thread in threads:
        thread.join()

    process, url = start()
    try:
        for last, turns in acknowledged.values():
            assert text_of(post(url, "after", last)) == f"{2 * turns + 1} messages"
    finally:
        process.terminate()
        process.communicate()

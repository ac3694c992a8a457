"""Two servers on one PostgreSQL continue each other's sessions; a killed server loses no turn that it has answered."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import uuid
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from uamp_support import FACES, served

from turntree import agent
from turntree.upp import scripted

websockets = pytest.importorskip("websockets")


@pytest.fixture
def store() -> str:
    server = os.environ.get("TURNTREE_TEST_POSTGRES")
    if server is None:
        if os.environ.get("TURNTREE_REQUIRE_SERVICES"):
            pytest.fail("TURNTREE_TEST_POSTGRES is not set")
        pytest.skip("NOT TESTED with postgres: TURNTREE_TEST_POSTGRES is not set")
    joint = "&" if "?" in server else "?"
    return f"{server}{joint}schema=uamp_{uuid.uuid4().hex[:12]}"


def remembering() -> Any:
    return agent(name="helper", model=scripted(lambda request: f"{len(request.messages)} messages"))


class Socket:
    """A client of UAMP that is not of this package."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.seq = 0

    async def send(self, kind: str, **members: Any) -> None:
        await self._connection.send(json.dumps({"type": kind, **members}))

    async def until(self, kind: str) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = []
        while not events or events[-1]["type"] != kind:
            events.append(json.loads(await asyncio.wait_for(self._connection.recv(), 30)))
            self.seq = events[-1].get("seq", self.seq)
        return events

    async def create(self, session: str | None = None, after: int = 0) -> dict[str, Any]:
        """Open a session, or resume one."""
        resume = {"resume": {"session_id": session, "after_seq": after}} if session else {}
        await self.send("session.create", session={"extensions": {"uamp": resume}})
        return (await self.until("capabilities"))[0]

    async def ask(self, text: str) -> str:
        """The text of a response."""
        await self.send("input.text", text=text)
        await self.send("response.create")
        done = (await self.until("response.done"))[-1]
        return "".join(item["text"] for item in done["response"]["output"])


@contextlib.asynccontextmanager
async def connected(url: str) -> AsyncGenerator[Socket]:
    async with websockets.connect(url.replace("http", "ws") + "/ws", proxy=None) as connection:
        yield Socket(connection)


@pytest.mark.parametrize("face", FACES)
async def test_servers_continue_each_other_s_sessions(face: str, store: str) -> None:
    async with served(face, remembering(), store=store) as first, served(face, remembering(), store=store) as second:
        async with connected(first) as socket:
            session = (await socket.create())["session_id"]
            assert await socket.ask("one") == "1 messages"
            seq = socket.seq
        async with connected(second) as socket:
            resumed = await socket.create(session, seq)
            assert (resumed["type"], resumed["session_id"], resumed["resumed"]) == ("session.created", session, True)
            assert await socket.ask("two") == "3 messages"
            assert socket.seq > seq
            seq = socket.seq
        async with connected(first) as socket:
            assert (await socket.create(session, seq))["session_id"] == session
            assert await socket.ask("three") == "5 messages"


PROGRAM = """
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


async def start(program: Path, store: str) -> tuple[asyncio.subprocess.Process, str]:
    process = await asyncio.create_subprocess_exec(sys.executable, str(program), store, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    return process, (await process.stdout.readline()).decode().strip()


async def test_a_server_that_is_killed_under_load_loses_no_turn_that_it_has_answered(
    store: str, tmp_path: Path
) -> None:
    program = tmp_path / "killed_uamp_server.py"
    program.write_text(PROGRAM, encoding="utf-8")
    process, url = await start(program, store)
    acknowledged: dict[str, tuple[int, int]] = {}
    busy = asyncio.Condition()

    async def talk() -> None:
        with contextlib.suppress(OSError, websockets.ConnectionClosed, TimeoutError):
            async with connected(url) as socket:
                session = (await socket.create())["session_id"]
                for turn in range(1000):
                    await socket.ask(f"turn {turn}")
                    acknowledged[session] = (turn + 1, socket.seq)
                    async with busy:
                        busy.notify_all()

    talking = [asyncio.create_task(talk()) for _ in range(8)]
    async with busy:

        def is_busy() -> bool:
            return len(acknowledged) == 8 and sum(turns for turns, _ in acknowledged.values()) >= 80

        await asyncio.wait_for(busy.wait_for(is_busy), 60)
    process.send_signal(signal.SIGKILL)
    await process.wait()
    await asyncio.gather(*talking)

    process, url = await start(program, store)
    try:
        assert len(acknowledged) == 8
        for session, (turns, seq) in acknowledged.items():
            async with connected(url) as socket:
                await socket.create(session, seq)
                # A turn that was stored and not yet answered may be there as well, or its beginning.
                found = int((await socket.ask("after")).split()[0])
                assert found >= 2 * turns + 1
    finally:
        process.terminate()
        await process.wait()

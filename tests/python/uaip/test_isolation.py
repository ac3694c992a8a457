"""Sessions never see each other's state: 1000 sessions, whose actions 32 clients send in turn."""

import asyncio

import httpx
import pytest
from uaip_support import served

from turntree.uaip import State, Workflow

SESSIONS, CLIENTS, ACTIONS = 1000, 32, 3


def counters() -> Workflow:
    made = Workflow("counters")
    made.stage("count")

    @made.task(stage="count")
    async def add(mark: str, state: State) -> list[str]:
        """Add a mark to those of the session."""
        marks = [*state.get("marks", []), mark]
        await asyncio.sleep(0)
        state.set("marks", marks)
        return marks

    return made


@pytest.mark.timeout(180)
async def test_sessions_of_many_clients_do_not_see_each_other():
    limits = httpx.Limits(max_connections=CLIENTS)
    async with (
        served("native", counters()) as url,
        httpx.AsyncClient(base_url=url, trust_env=False, timeout=60, limits=limits) as http,
    ):
        opened = [(await http.post("/initialize", json={"workflow_name": "counters"})).json() for _ in range(SESSIONS)]
        ids = [session["session_id"] for session in opened]
        # Every client acts in all sessions in turn, so that sessions are shared by clients.
        work = [(index, step) for step in range(ACTIONS) for index in range(SESSIONS)]
        results: dict[int, list[str]] = {}

        async def client(share: list[tuple[int, int]]) -> None:
            for index, step in share:
                body = {"action": "method_call", "task": "add", "args": {"mark": f"{index}-{step}"}}
                answer = await http.post("/execute", json=body, headers={"x-session-id": ids[index]})
                assert answer.status_code == 200, answer.text
                marks = answer.json()["result"]
                results[index] = max(results.get(index, []), marks, key=len)

        await asyncio.gather(*(client(work[number::CLIENTS]) for number in range(CLIENTS)))

    assert len(set(ids)) == SESSIONS
    for index in range(SESSIONS):
        assert sorted(results[index]) == [f"{index}-{step}" for step in range(ACTIONS)]

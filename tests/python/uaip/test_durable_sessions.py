"""Sessions on durable stores: they go on in another server, and two servers on one store agree."""

import asyncio
from collections import Counter

import pytest
from uaip_stores import STORES, store_url
from uaip_support import FACES, Wire, served, shop

from turntree import uaip
from turntree.uaip import State, Workflow

pytestmark = pytest.mark.parametrize("kind", STORES)


def counter() -> Workflow:
    made = Workflow("counter")
    made.stage("count")
    made.runs = 0

    @made.task(stage="count")
    async def add(state: State) -> int:
        made.runs += 1
        count = state.get("count", 0)
        await asyncio.sleep(0.005)
        state.set("count", count + 1)
        return count + 1

    return made


@pytest.mark.parametrize("face", FACES)
async def test_a_session_goes_on_in_another_server(kind, face, tmp_path):
    store = store_url(kind, tmp_path)
    async with served(face, shop(), store=store) as url, Wire(url) as wire:
        await wire.start()
        await wire.go("cart")
        added = await wire.call("add", headers={"idempotency-key": "a"}, product="tea", count=1)
        session = wire.session
    async with served(face, shop(), store=store) as url, Wire(url) as wire:
        wire.session = session
        again = await wire.call("add", headers={"idempotency-key": "a"}, product="tea", count=1)
        await wire.execute("state_input", state_updates={"street": "Main Street", "number": 3})
        moved = await wire.go("checkout")
        view = (await wire.http.get(f"/sessions/{session}")).json()
        ended = await wire.execute("terminate_session")
        gone = await wire.http.get(f"/sessions/{session}")

    assert again.json() == added.json()
    assert moved.json()["current_stage"] == "checkout"
    assert view["state"]["lines"] == [{"product": "tea", "count": 1}]
    assert (ended.json()["status"], gone.status_code) == ("terminated", 404)


async def add(wire, key=None):
    headers = {"idempotency-key": key} if key else {}
    return await wire.execute("method_call", headers, workflow_name="counter", task="add")


async def test_two_servers_lose_no_action(kind, tmp_path):
    store = store_url(kind, tmp_path)
    async with (
        served("native", counter(), store=store) as first,
        served("native", counter(), store=store) as second,
        Wire(first) as one,
        Wire(second) as two,
    ):
        await one.start("counter")
        two.session = one.session
        answers = await asyncio.gather(*(add(wire) for _ in range(20) for wire in (one, two)))
        view = (await two.http.get(f"/sessions/{one.session}")).json()

    statuses = Counter(answer.status_code for answer in answers)
    # What the other server has changed meanwhile is refused, and nothing of it is stored.
    assert set(statuses) <= {200, 409}
    assert statuses[200] >= 20
    assert view["state"]["count"] == statuses[200]


async def test_two_servers_run_a_repeated_request_once(kind, tmp_path):
    store = store_url(kind, tmp_path)
    async with (
        served("native", counter(), store=store) as first,
        served("native", counter(), store=store) as second,
        Wire(first) as one,
        Wire(second) as two,
    ):
        await one.start("counter")
        two.session = one.session
        answers = await asyncio.gather(*(add(wire, "same") for _ in range(5) for wire in (one, two)))
        view = (await two.http.get(f"/sessions/{one.session}")).json()

    assert {answer.status_code for answer in answers} == {200}
    assert {answer.json()["result"] for answer in answers} == {1}
    assert view["state"]["count"] == 1


async def test_an_approval_of_one_server_is_used_by_another(kind, tmp_path):
    store = store_url(kind, tmp_path)
    deciding, paying = shop(), shop()
    values = {"street": "Main Street", "number": 3}
    async with (
        served("native", deciding, store=store),
        served("native", paying, store=store) as url,
        uaip.connect(url) as client,
    ):
        session = await client.open("shop")
        await session.go("cart")
        await session.call("add", product="tea", count=1)
        await session.provide(values)
        await session.go("checkout")
        with pytest.raises(uaip.UaipError, match="approval_required"):
            await session.call("pay", amount=5)
        (waiting,) = deciding.approvals
        assert paying.approvals == [waiting]
        deciding.approve(waiting.id)
        assert paying.approvals == []
        calls = await asyncio.gather(*(session.call("pay", amount=5) for _ in range(4)), return_exceptions=True)

    assert calls.count("paid 5") == 1
    assert [call.code for call in calls if call != "paid 5"] == ["approval_required"] * 3

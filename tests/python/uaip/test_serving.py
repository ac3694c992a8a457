"""Workflows over both faces: the native server, and the ASGI application under uvicorn."""

import asyncio
import json
import logging

import pytest
from uaip_support import FACES, Wire, served, shop

from turntree import uaip
from turntree.uaip import State, Workflow

pytestmark = pytest.mark.parametrize("face", FACES)


async def test_an_agent_walks_through_the_shop(face):
    async with served(face, shop()) as url, Wire(url) as wire:
        started = await wire.start()
        assert started["stages"] == ["browse", "cart", "checkout", "done"]
        found = (await wire.call("search", query="tea")).json()
        assert (found["status"], found["result"]) == ("ok", ["tea 0", "tea 1"])
        assert [tool["name"] for tool in found["tools"]] == ["search", "transition_stage", "terminate_session"]
        assert (await wire.go("cart")).json()["current_stage"] == "cart"
        assert (await wire.call("add", product="tea", count=2)).json()["result"] == {"product": "tea", "count": 2}
        missing = await wire.go("checkout")
        assert (missing.status_code, missing.json()["missing"]) == (422, ["street", "number"])
        updates = {"street": "Main Street", "number": 3}
        assert (await wire.execute("state_input", state_updates=updates)).json()["updated"] == ["street", "number"]
        assert (await wire.go("checkout")).json()["current_stage"] == "checkout"
        view = (await wire.http.get(f"/sessions/{wire.session}")).json()

    assert view["state"] == {
        "greeting": "hello",
        "lines": [{"count": 2, "product": "tea"}],
        "number": 3,
        "street": "Main Street",
    }


async def test_a_task_of_another_stage_is_not_called(face):
    async with served(face, shop()) as url, Wire(url) as wire:
        await wire.start()
        answer = await wire.call("add", product="tea", count=1)

    assert answer.status_code == 422
    assert answer.json()["code"] == "task_not_in_stage"
    assert answer.json()["allowed"] == ["search"]


async def test_a_task_error_is_shown_and_the_state_rolled_back(face):
    async with served(face, shop()) as url, Wire(url) as wire:
        await wire.start()
        await wire.go("cart")
        before = (await wire.execute("handshake")).json()["state_version"]
        answer = await wire.call("fail")
        after = (await wire.execute("handshake")).json()["state_version"]

    assert answer.status_code == 200
    assert answer.json()["status"] == "task_error"
    assert answer.json()["content"] == "Error: the product is sold out"
    assert after == before


async def test_another_exception_is_logged_with_the_id_that_the_agent_sees(face, caplog):
    with caplog.at_level(logging.ERROR, "turntree.uaip"):
        async with served(face, shop()) as url, Wire(url) as wire:
            await wire.start()
            await wire.go("cart")
            answer = await wire.call("fail", kind="other")

    assert "password" not in answer.text
    (record,) = [record for record in caplog.records if record.name == "turntree.uaip"]
    assert record.getMessage().split(":")[0] in answer.text
    assert 'task "fail" of stage "cart"' in record.getMessage()
    assert "password=1234" in str(record.exc_info[1])


async def test_a_result_that_the_schema_forbids_is_an_error(face):
    async with served(face, shop()) as url, Wire(url) as wire:
        await wire.start()
        await wire.go("cart")
        answer = await wire.call("wrong")

    assert (answer.status_code, answer.json()["status"]) == (200, "task_error")
    assert "three" not in answer.text


async def test_a_task_that_hangs_ends_at_its_time_limit(face):
    async with served(face, shop()) as url, Wire(url) as wire:
        await wire.start()
        await wire.go("cart")
        answer = await wire.call("hang")
        reference = await wire.call("hang", headers={"x-uaip-profile": "reference"})
        again = await wire.call("add", product="tea", count=1)

    assert (answer.status_code, answer.json()["code"]) == (504, "task_timeout")
    assert reference.status_code == 200
    assert reference.json()["content"].startswith("Error: ")
    assert again.json()["status"] == "ok"


async def test_what_the_engine_finds_is_logged_with_the_id_that_the_agent_sees(face, caplog):
    def records():
        return [record for record in caplog.records if record.name == "turntree.uaip"]

    with caplog.at_level(logging.WARNING, "turntree.uaip"):
        async with served(face, shop()) as url, Wire(url) as wire:
            await wire.start()
            await wire.go("cart")
            wrong = await wire.call("wrong")
            await wire.call("hang")
            async with asyncio.timeout(10):
                # Another thread writes them.
                while len(records()) < 2:
                    await asyncio.sleep(0.01)

    forbidden, slow = records()
    assert forbidden.levelno == logging.ERROR
    assert 'task "wrong" has returned what its schema forbids' in forbidden.getMessage()
    assert forbidden.getMessage().split(":")[0] == wrong.json()["correlation_id"]
    assert slow.levelno == logging.WARNING
    assert 'a call in stage "cart" took longer than 0.2 s' in slow.getMessage()


async def test_arguments_that_do_not_match_are_refused(face):
    async with served(face, shop()) as url, Wire(url) as wire:
        await wire.start()
        answer = await wire.call("search", query=3, more=True)

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_args")
    assert {error["loc"][0] if error["loc"] else "" for error in answer.json()["errors"]} >= {"query"}


async def test_a_stream_has_the_reports_and_then_the_result(face):
    async with served(face, shop()) as url, Wire(url) as wire:
        await wire.start()
        await wire.go("cart")
        answer = await wire.call("walk", headers={"accept": "text/event-stream", "idempotency-key": "k1"})

    events = [
        dict(line.split(": ", 1) for line in frame.splitlines() if ": " in line) for frame in _frames(answer.text)
    ]
    kinds = [event["event"] for event in events]
    assert kinds == ["progress", "progress", "progress", "result"]
    assert [json.loads(event["data"]) for event in events[:3]] == [
        {"message": "begins"},
        {"step": "one", "message": "half"},
        {"data": {"done": 2}},
    ]
    result = json.loads(events[-1]["data"])["result"]
    assert result == {"key": "k1", "metadata": {"workflow": "shop", "stage": "cart"}, "cancelled": False}


def _frames(text):
    return [frame for frame in text.replace("\r\n", "\n").split("\n\n") if frame.strip() and not frame.startswith(":")]


async def test_an_idempotency_key_runs_a_task_once(face):
    async with served(face, shop()) as url, Wire(url) as wire:
        await wire.start()
        await wire.go("cart")
        first = await wire.call("add", headers={"idempotency-key": "a"}, product="tea", count=1)
        second = await wire.call("add", headers={"idempotency-key": "a"}, product="tea", count=1)
        other = await wire.call("add", headers={"idempotency-key": "a"}, product="rum", count=1)
        view = (await wire.http.get(f"/sessions/{wire.session}")).json()

    assert first.json() == second.json()
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    assert len(view["state"]["lines"]) == 1


async def test_a_call_that_needs_an_approval_goes_on_after_the_decision(face):
    made = shop()
    async with served(face, made) as url, Wire(url) as wire:
        await wire.start()
        await wire.go("cart")
        await wire.call("add", product="tea", count=1)
        await wire.execute("state_input", state_updates={"street": "Main Street", "number": 3})
        await wire.go("checkout")
        asked = (await wire.call("pay", amount=5)).json()
        (waiting,) = made.approvals
        made.approve(waiting.id)
        paid = (await wire.call("pay", amount=5)).json()
        await wire.call("pay", amount=6)
        (denied,) = made.approvals
        made.deny(denied.id, "too much")
        refused = (await wire.call("pay", amount=6)).json()

    assert asked["status"] == "approval_required"
    assert asked["approval"] == {"id": waiting.id, "task": "pay", "arguments": {"amount": 5}}
    assert (paid["status"], paid["result"]) == ("ok", "paid 5")
    assert (refused["status"], refused["content"]) == ("task_error", "Error: a person has denied the call: too much")
    with pytest.raises(KeyError, match="no call with the id"):
        made.approve(waiting.id)


async def test_sessions_belong_to_the_principal_who_opened_them(face):
    async def auth(token):
        return {"ada": "ada", "bob": {"id": "bob", "role": "clerk"}}.get(token)

    async with served(face, shop(), auth=auth) as url, Wire(url, headers={"authorization": "Bearer ada"}) as ada:
        await ada.start()
        async with Wire(url, headers={"authorization": "Bearer bob"}) as bob, Wire(url) as nobody:
            bob.session = nobody.session = ada.session
            stolen = await bob.call("search", query="tea")
            refused = await nobody.call("search", query="tea")
        own = await ada.call("search", query="tea")

    assert (stolen.status_code, refused.status_code, own.status_code) == (404, 401, 200)


async def test_a_sync_task_runs_in_a_thread_and_an_async_one_on_the_loop(face):
    import threading

    made = Workflow("threads")
    made.stage("one")
    here = threading.get_ident()

    @made.task(stage="one")
    def sync() -> bool:
        return threading.get_ident() == here

    @made.task(stage="one")
    async def on_loop() -> bool:
        return threading.get_ident() == here

    async with served(face, made) as url, Wire(url) as wire:
        await wire.start("threads")
        results = []
        for task in ("sync", "on_loop"):
            answer = await wire.execute("method_call", workflow_name="threads", task=task)
            results.append(answer.json()["result"])

    assert results == [False, True]


async def test_state_cannot_be_used_after_the_call(face):
    kept: list[State] = []
    made = Workflow("kept")
    made.stage("one")

    @made.task(stage="one")
    async def keep(state: State) -> None:
        state.set("user.email", "a@b.c")
        state.set("user", {"name": "Ada", "deep": {"x": 1}})
        assert state.get("user.email") == "a@b.c"
        assert state.ns("user").get("name") == "Ada"
        assert state.get("user.deep.x") == 1
        assert state.has("user.deep")
        assert "user.none" not in state
        assert state.get("none", 3) == 3
        assert state.delete("user.email") is True
        assert state.delete("user.email") is False
        state.ns("user").set("age", 3)
        assert state.keys() == ["user", "user.age"]
        assert state.shared.to_dict() == state.to_dict() == {"user": {"name": "Ada", "deep": {"x": 1}}, "user.age": 3}
        with pytest.raises(TypeError, match="no JSON form"):
            state.set("x", object())
        with pytest.raises(ValueError, match="a key of the state has 1 to 512 bytes"):
            state.set("", 1)
        kept.append(state)

    async with served(face, made) as url, Wire(url) as wire:
        await wire.start("kept")
        answer = await wire.execute("method_call", workflow_name="kept", task="keep")

    assert answer.json()["status"] == "ok", answer.text
    with pytest.raises(RuntimeError, match="is over"):
        kept[0].get("user")


async def test_a_guard_that_writes_is_an_error(face, caplog):
    made = Workflow("guarded")
    made.stage("one")
    made.stage("two")
    made.transition("one", "two", when=lambda state: state.set("x", 1) or True)

    async with served(face, made) as url, Wire(url) as wire:
        await wire.start("guarded")
        answer = await wire.execute("stage_transition", workflow_name="guarded", stage="two")

    assert answer.json()["status"] == "task_error"
    assert "a guard only reads the state" in caplog.text


async def test_the_openapi_document_is_that_of_the_workflows(face):
    async with served(face, shop()) as url, Wire(url) as wire:
        document = (await wire.http.get("/openapi.json")).json()

    assert document == uaip.openapi(shop())
    assert document["openapi"].startswith("3.1")

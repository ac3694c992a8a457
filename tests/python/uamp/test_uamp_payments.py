"""Responses that must be paid: a gate written in Python, on all wires."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from uamp_support import FACES, frames, http, served

from turntree import agent, uamp
from turntree.upp import scripted

REQUIRED = {
    "amount": "0.10",
    "currency": "USD",
    "schemes": [{"scheme": "token", "network": "acme"}],
    "expires_at": 2_000_000_000,
    "reason": "one answer",
}


class Gate:
    """Takes the token ``gold``; ``tin`` may be replaced, ``stolen`` may not."""

    def __init__(self) -> None:
        self.requests: list[uamp.PaymentRequest] = []
        self.payments: list[dict[str, Any]] = []

    async def required(self, request: uamp.PaymentRequest) -> dict[str, Any] | None:
        self.requests.append(request)
        if request.payment_token == "expired":
            raise uamp.PaymentError("token_expired", "the token has expired")
        return None if request.payment_token == "gold" else REQUIRED

    async def submit(self, payment: dict[str, Any], request: uamp.PaymentRequest) -> dict[str, Any]:
        assert request.response_id == self.requests[-1].response_id
        self.payments.append(payment)
        token = payment.get("token")
        if token == "gold":
            return {"payment_id": "p1", "balance_remaining": "9.90", "currency": "USD", "expires_at": 2_000_000_000}
        raise uamp.PaymentError(
            "insufficient_balance",
            "not enough",
            can_retry=token == "tin",
            balance_required="0.10",
            balance_current="0.02",
        )


class SyncGate:
    """The same with functions that are not async."""

    def required(self, request: uamp.PaymentRequest) -> dict[str, Any] | None:
        return None if request.payment_token == "gold" else REQUIRED

    def submit(self, payment: dict[str, Any], request: uamp.PaymentRequest) -> None:
        if payment.get("token") != "gold":
            raise uamp.PaymentError("token_invalid")


def helper(*replies: str) -> Any:
    return agent(name="helper", model=scripted([*replies] or ["done"]))


EVENTS = [
    {"type": "session.create"},
    {"type": "input.text", "text": "hi"},
    {"type": "response.create"},
]
CHAT = {"model": "helper", "messages": [{"role": "user", "content": "hi"}]}


class Socket:
    """A client of UAMP's WebSocket that is not of this package."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def send(self, kind: str, **members: Any) -> None:
        await self._connection.send(json.dumps({"type": kind, **members}))

    async def until(self, kind: str) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = []
        while not events or events[-1]["type"] != kind:
            events.append(json.loads(await self._connection.recv()))
        return events


@contextlib.asynccontextmanager
async def connected(url: str) -> AsyncGenerator[Socket]:
    websockets = pytest.importorskip("websockets")
    async with websockets.connect(url.replace("http", "ws") + "/ws", proxy=None) as connection:
        yield Socket(connection)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("make", [Gate, SyncGate])
async def test_a_batch_that_is_not_paid_answers_402_and_a_token_pays(face: str, make: Any) -> None:
    gate = make()
    async with served(face, helper("one", "two", *"abcdef"), payment_gate=gate) as url, http(url) as client:
        for path, body in (("/chat/completions", CHAT), ("/v1/responses", {"model": "helper", "input": "hi"})):
            refused = await client.post(path, json=body)
            error = refused.json()["error"]
            assert (refused.status_code, error["code"], error["type"]) == (
                402,
                "payment_required",
                "invalid_request_error",
            )
            assert error["requirements"]["amount"] == "0.10"
        refused = await client.post("/uamp", json=EVENTS)
        assert (refused.status_code, refused.json()[-1]["type"]) == (402, "payment.required")
        assert (await client.post("/ag-ui", json=AG_UI)).status_code == 402

        paid = await client.post("/chat/completions", json=CHAT, headers={"x-payment-token": "gold"})
        assert paid.json()["choices"][0]["message"]["content"] == "one"
        paid = await client.post("/chat/completions", json=CHAT, headers={"X-PAYMENT": "gold"})
        assert (paid.status_code, paid.json()["choices"][0]["message"]["content"]) == (200, "two")
        for path in ("/uamp", "/uamp/stream"):
            paid = await client.post(path, json=EVENTS, headers={"X-PAYMENT": "gold"})
            assert (paid.status_code, "response.done" in paid.text) == (200, True), path
        refused = await client.post("/uamp", json=EVENTS, headers={"X-PAYMENT": "lead"})
        assert refused.status_code == 402
        paid = await client.post("/uamp?payment_token=gold", json=EVENTS)
        assert (paid.status_code, paid.json()[-1]["type"]) == (200, "response.done")
        for payment in ({"payment_token": "gold"}, {"session": {"extensions": {"X-Payment-Token": "gold"}}}):
            paid = await client.post("/uamp", json=[{**EVENTS[0], **payment}, *EVENTS[1:]])
            assert (paid.status_code, paid.json()[-1]["type"]) == (200, "response.done")


AG_UI: dict[str, Any] = {
    "threadId": "t",
    "runId": "r",
    "messages": [{"id": "m", "role": "user", "content": "hi"}],
    "tools": [],
    "context": [],
    "state": {},
    "forwardedProps": {},
}


@pytest.mark.parametrize("face", FACES)
async def test_a_websocket_pays_refuses_and_fails(face: str) -> None:
    gate = Gate()
    async with served(face, helper("one"), payment_gate=gate) as url, connected(url) as socket:
        for event in EVENTS:
            await socket.send(**{"kind": event["type"], **{k: v for k, v in event.items() if k != "type"}})
        required = (await socket.until("payment.required"))[-1]
        assert required["requirements"] == REQUIRED
        await socket.send("payment.submit", payment={"scheme": "token", "token": "tin", "amount": "0.10"})
        error = (await socket.until("payment.error"))[-1]
        assert (error["code"], error["message"], error["can_retry"]) == ("insufficient_balance", "not enough", True)
        assert (error["balance_required"], error["balance_current"]) == ("0.10", "0.02")
        await socket.send("payment.submit", payment={"scheme": "token", "token": "gold"})
        events = await socket.until("payment.balance")
        assert [event["type"] for event in events if event["type"].startswith("payment.")] == [
            "payment.accepted",
            "payment.balance",
        ]
        assert (events[0]["payment_id"], events[-1]["balance"]) == ("p1", "9.90")
        assert events[-2]["type"] == "response.done"
        assert gate.payments == [
            {"scheme": "token", "token": "tin", "amount": "0.10"},
            {"scheme": "token", "token": "gold"},
        ]
        assert gate.requests[0].agent == "helper"
        assert gate.requests[0].session_id == required["session_id"]

        await socket.send("input.text", text="again")
        await socket.send("response.create")
        await socket.until("payment.required")
        await socket.send("payment.submit", payment={"scheme": "token", "token": "stolen"})
        assert (await socket.until("response.error"))[-1]["error"]["code"] == "payment_required"


@pytest.mark.parametrize("face", FACES)
async def test_server_sent_events_show_the_payment(face: str) -> None:
    async with served(face, helper("one"), payment_gate=Gate()) as url, http(url) as client:
        body = (await client.post("/uamp/stream", json=EVENTS)).text
        required = frames(body)[-2]
        assert required["type"] == "payment.required"
        submit = {"type": "payment.submit", "payment": {"scheme": "token", "token": "gold"}}
        headers = {"x-session-id": required["session_id"]}
        events = frames((await client.post("/uamp/stream", json=[submit], headers=headers)).text)[:-1]
        kinds = [event["type"] for event in events]
        assert kinds[0] == "payment.accepted"
        assert kinds[-2:] == ["response.done", "payment.balance"]


@pytest.mark.parametrize("face", FACES)
async def test_the_gate_sees_who_pays(face: str) -> None:
    gate = Gate()

    def auth(token: str) -> dict[str, Any]:
        return {"id": token, "plan": "pro"}

    async with served(face, helper(), auth=auth, payment_gate=gate) as url, http(url) as client:
        await client.post("/chat/completions", json=CHAT, headers={"authorization": "Bearer anna"})
    (request,) = gate.requests
    assert (request.principal, request.claims["plan"], request.payment_token) == ("anna", "pro", None)
    assert request.response_id.startswith("chatcmpl-")


async def test_a_response_that_cannot_be_paid_fails() -> None:
    async with served("native", helper(), payment_gate=Gate()) as url, http(url) as client:
        refused = await client.post("/chat/completions", json=CHAT, headers={"x-payment-token": "expired"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (402, "token_expired")
        events = (await client.post("/uamp", json=EVENTS, headers={"x-payment": "expired"})).json()
        kinds = [event["type"] for event in events]
        assert kinds[-2:] == ["payment.error", "response.error"]
        assert events[-2]["can_retry"] is False


async def test_a_task_of_a2a_that_is_not_paid_fails() -> None:
    message = {"role": "user", "parts": [{"kind": "text", "text": "hi"}], "messageId": "m", "kind": "message"}
    call = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
    async with served("native", helper("one"), payment_gate=Gate()) as url, http(url) as client:
        task = (await client.post("/a2a", json=call)).json()["result"]
        assert task["status"]["state"] == "failed"
        task = (await client.post("/a2a", json=call, headers={"x-payment-token": "gold"})).json()["result"]
        assert task["status"]["state"] == "completed"


@pytest.mark.parametrize("answer", [RuntimeError("no database"), {"amount": 3}, "free", {"amount": {1, 2}}])
async def test_a_gate_that_fails_refuses_the_payment_and_hides_why(answer: Any, caplog: Any) -> None:
    class Broken:
        def required(self, request: uamp.PaymentRequest) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

        def submit(self, payment: dict[str, Any], request: uamp.PaymentRequest) -> Any: ...

    async with served("native", helper(), payment_gate=Broken()) as url, http(url) as client:
        refused = await client.post("/chat/completions", json=CHAT)
    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (402, "payment_failed")
    assert "database" not in refused.text
    assert "the payment gate failed" in caplog.text


class Half:
    """Has one of the methods."""

    def required(self, request: uamp.PaymentRequest) -> None: ...


@pytest.mark.parametrize("gate", [object(), 3, Half()])
def test_a_gate_without_its_methods_is_an_error(gate: Any) -> None:
    for make in (uamp.serve, uamp.serve_sync, uamp.asgi_app):
        with pytest.raises(TypeError, match="payment_gate must have the methods required"):
            make(helper(), payment_gate=gate)

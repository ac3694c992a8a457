"""The ASGI application as an ASGI server uses it."""

import asyncio
import gc
import json
import weakref

import pytest
from uaip_support import Wire, served, shop

from turntree import store, uaip


async def test_a_response_of_known_length_says_it():
    pytest.importorskip("uvicorn")
    async with served("asgi", shop()) as url, Wire(url) as wire:
        response = await wire.http.get("/")
        assert response.headers["content-length"] == str(len(response.content))
        assert "transfer-encoding" not in response.headers


async def test_the_garbage_collector_does_not_end_a_lifespan():
    events: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    answers: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    app = uaip.asgi_app(shop())

    async def lifespan():
        await app({"type": "lifespan", "asgi": {"version": "3.0"}}, events.get, answers.put)

    # Servers such as uvicorn do not keep a reference to this task, and asyncio has none either.
    task = weakref.ref(asyncio.create_task(lifespan()))
    await events.put({"type": "lifespan.startup"})
    assert await answers.get() == {"type": "lifespan.startup.complete"}
    gc.collect()
    assert task() is not None
    await events.put({"type": "lifespan.shutdown"})
    assert await answers.get() == {"type": "lifespan.shutdown.complete"}


async def answer(scope):
    """Call the application as a server does, and return the status and the body."""
    sent = []

    async def receive():
        if not sent:
            return {"type": "http.request", "body": b"", "more_body": False}
        return await asyncio.Event().wait()

    async def send(event):
        sent.append(event)

    whole = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "path": "/",
        "query_string": b"",
        "headers": [],
        **scope,
    }
    await uaip.asgi_app(shop())(whole, receive, send)
    body = b"".join(event.get("body", b"") for event in sent)
    return sent[0]["status"], json.loads(body)


@pytest.mark.parametrize(
    ("scope", "status", "code"),
    [
        ({"path": "/" + "a" * 70_000}, 414, "url_too_long"),
        ({"query_string": b"a=" + b"b" * 70_000}, 414, "url_too_long"),
        ({"query_string": b"a=\xff"}, 400, "invalid_head"),
        ({"method": "GE T"}, 400, "invalid_head"),
        ({"headers": [(b"a b", b"c")]}, 400, "invalid_head"),
        ({"headers": [(b"a", b"b\nc")]}, 400, "invalid_head"),
        ({"headers": [(b"x-%d" % number, b"y") for number in range(40_000)]}, 400, "invalid_head"),
    ],
    ids=["path", "query", "bytes", "method", "name", "value", "many"],
)
async def test_a_head_that_cannot_be_read_is_a_mistake_of_the_client(scope, status, code):
    found, body = await answer(scope)

    assert (found, body["code"]) == (status, code)
    assert isinstance(body["detail"], str)


async def test_a_websocket_whose_head_cannot_be_read_is_refused():
    sent = []

    async def receive():
        return {"type": "websocket.connect"}

    async def send(event):
        sent.append(event["type"])

    scope = {"type": "websocket", "path": "/" + "a" * 70_000, "query_string": b"", "headers": []}
    await uaip.asgi_app(shop())(scope, receive, send)

    assert sent == ["websocket.close"]


@pytest.mark.parametrize("face", [uaip.asgi_app, uaip.serve, uaip.serve_sync])
def test_a_store_without_transactions_is_refused_by_its_name(face, tmp_path):
    encrypted = store.encrypted(store.sqlite(tmp_path / "s.db"), {"key": bytes(32)})
    for saved in (store.file(tmp_path / "folder"), encrypted):
        with pytest.raises(ValueError, match=r"cannot store sessions of workflows; use the memory store, SQLite"):
            face(shop(), store=saved)

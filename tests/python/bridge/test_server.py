"""Servers on event loops: the native server and the ASGI application, with an application of the tests."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import json
import logging
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from turntree import _core
from turntree._server import AsgiApplication, Server, SyncServer

bridge = _core._bridge_selftest
Run = Callable[[Awaitable[Any]], Any]
USER: contextvars.ContextVar[str] = contextvars.ContextVar("USER", default="nobody")


def server(*arguments: Any, **options: Any) -> Server:
    return Server(bridge.server_core(*arguments, **options))


def client(**options: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(trust_env=False, timeout=20, **options)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)  # the poll interval


def authenticate(token: str) -> object:
    return {"alice-token": "alice", "claims": {"sub": "bob", "role": "admin"}, "wrong": 7}.get(token)


class TestNative:
    def test_functions_run_on_the_loop_with_the_callers_context(self, run: Run) -> None:
        threads = []

        async def function() -> str:
            threads.append(threading.get_ident())
            await asyncio.sleep(0)
            return USER.get()

        async def main() -> httpx.Response:
            USER.set("alice")
            async with server(function) as running, client() as http:
                return await http.get(f"{running.url}/python")

        answer = run(main())

        assert (answer.status_code, answer.text) == (200, "alice")
        assert threads == [threading.get_ident()]

    def test_functions_that_are_not_async_run_in_threads(self, run: Run) -> None:
        async def main() -> httpx.Response:
            async with server(lambda: str(threading.get_ident())) as running, client() as http:
                return await http.get(f"{running.url}/python")

        assert run(main()).text != str(threading.get_ident())

    def test_a_disconnect_cancels_the_function(self, run: Run) -> None:
        cancelled = []

        async def main() -> None:
            started = asyncio.Event()

            async def function() -> str:
                started.set()
                try:
                    return await asyncio.Future()
                except asyncio.CancelledError:
                    cancelled.append(True)
                    raise

            async with server(function) as running:
                request = asyncio.ensure_future(client().get(f"{running.url}/python"))
                await started.wait()
                request.cancel()
                await until(lambda: bool(cancelled))

        run(main())

    def test_many_requests_at_the_same_time(self, run: Run) -> None:
        async def function() -> str:
            await asyncio.sleep(0.001)  # the tasks overlap
            return "done"

        async def main() -> list[httpx.Response]:
            async with server(function) as running, client() as http:
                return await asyncio.gather(*(http.get(f"{running.url}/python") for _ in range(100)))

        assert [answer.text for answer in run(main())] == ["done"] * 100

    def test_auth_finds_the_principal(self, run: Run) -> None:
        async def main() -> list[httpx.Response]:
            async with server(auth=authenticate) as running, client() as http:
                tokens = ("alice-token", "claims", "unknown", "wrong")
                return [
                    await http.get(f"{running.url}/request", headers={"authorization": f"Bearer {token}"})
                    for token in tokens
                ]

        alice, bob, unknown, wrong = run(main())

        assert alice.json()["principal"] == ["alice", {}]
        assert bob.json()["principal"] == ["bob", {"sub": "bob", "role": "admin"}]
        assert (unknown.status_code, wrong.status_code) == (401, 503)

    def test_an_exception_of_auth_is_logged_and_hidden(self, run: Run, caplog: pytest.LogCaptureFixture) -> None:
        async def auth(_token: str) -> str:
            raise RuntimeError("the database at db.internal is down")

        async def main() -> httpx.Response:
            async with server(auth=auth) as running, client() as http:
                return await http.get(f"{running.url}/request", headers={"authorization": "Bearer x"})

        answer = run(main())

        assert answer.status_code == 503
        assert "db.internal" not in answer.text
        assert "db.internal" in caplog.text

    def test_requests_are_logged_without_secrets(self, run: Run, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, "turntree.server")

        async def main() -> None:
            async with server() as running, client() as http:
                await http.get(f"{running.url}/sessions/s-1?token=secret")
                await until(lambda: any(record.name == "turntree.server" for record in caplog.records))

        run(main())

        (record,) = [record for record in caplog.records if record.name == "turntree.server"]
        assert (record.path, record.status, record.method) == ("/sessions/***", 200, "GET")  # type: ignore[attr-defined]
        assert "secret" not in caplog.text
        assert "s-1" not in caplog.text

    def test_an_open_address_needs_auth(self, run: Run) -> None:
        async def main(**options: Any) -> None:
            async with server(host="0.0.0.0", **options):
                pass

        with pytest.raises(ValueError, match=r"cannot listen on 0\.0\.0\.0:\d+ without authentication"):
            run(main())

    def test_a_port_in_use_is_an_os_error(self, run: Run) -> None:
        async def main() -> None:
            async with server() as first, server(port=int(first.url.rsplit(":", 1)[1])):
                pass

        with pytest.raises(OSError, match=r"cannot listen on 127\.0\.0\.1:\d+"):
            run(main())

    def test_the_url_is_known_while_it_runs(self, run: Run) -> None:
        async def main() -> Server:
            async with server() as running:
                assert running.url.startswith("http://127.0.0.1:")
            return running

        stopped = run(main())

        with pytest.raises(RuntimeError, match="does not run"):
            stopped.url  # noqa: B018

    def test_a_shutdown_waits_for_open_requests(self, run: Run) -> None:
        async def main() -> httpx.Response:
            started, finish = asyncio.Event(), asyncio.Event()

            async def function() -> str:
                started.set()
                await finish.wait()
                return "finished"

            async with client() as http:
                async with server(function, drain=20) as running:
                    request = asyncio.ensure_future(http.get(f"{running.url}/python"))
                    await started.wait()
                    asyncio.get_running_loop().call_soon(finish.set)
                return await request

        assert run(main()).text == "finished"

    def test_a_synchronous_server_runs_without_a_loop(self) -> None:
        async def function() -> str:
            return threading.current_thread().name

        with SyncServer(bridge.server_core(function, auth=authenticate)) as running:
            headers = {"authorization": "Bearer alice-token"}
            answers = [httpx.get(f"{running.url}/python", headers=headers, trust_env=False) for _ in range(2)]

        assert [answer.text for answer in answers] == ["turntree-tools-loop"] * 2

    def test_a_server_is_collected_with_its_functions(self) -> None:
        class Owner:
            def __init__(self) -> None:
                self.server = server(self.function)

            async def function(self) -> str:
                return ""

        owner = weakref.ref(Owner())
        gc.collect()

        assert owner() is None


def scope(path: str, **members: Any) -> dict[str, Any]:
    head = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [],
    }
    return {**head, "http_version": "1.1", "asgi": {"version": "3.0"}, **members}


class Exchange:
    """Calls an ASGI application without a server."""

    def __init__(self, *events: dict[str, Any]) -> None:
        self.events = list(events)
        self.sent: list[dict[str, Any]] = []
        self.disconnected = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        if self.events:
            return self.events.pop(0)
        await self.disconnected.wait()
        return {"type": "http.disconnect"}

    async def send(self, event: dict[str, Any]) -> None:
        self.sent.append(event)

    @property
    def status(self) -> int:
        return self.sent[0]["status"]

    @property
    def body(self) -> bytes:
        return b"".join(event["body"] for event in self.sent[1:])


def application(*arguments: Any, **options: Any) -> AsgiApplication:
    return AsgiApplication(bridge.asgi_core(*arguments, **options))


class TestAsgi:
    @pytest.mark.parametrize(
        ("members", "expected"),
        [
            ({"path": "/request"}, "/request"),
            ({"path": "/request", "query_string": b"a=1%20&b"}, "/request?a=1%20&b"),
            ({"path": "/api/request", "root_path": "/api"}, "/request"),
            ({"path": "/request", "raw_path": b"/api/request", "root_path": "/api"}, "/request"),
            ({"path": "/api/request", "raw_path": None, "root_path": "/api"}, "/request"),
            ({"path": "/apis/x", "raw_path": b"/apis/x", "root_path": "/api"}, "/apis/x"),
            ({"path": "/grün/a/b", "raw_path": b"/gr%C3%BCn/a%2Fb"}, "/gr%C3%BCn/a%2Fb"),
            ({"path": "/grün ?", "raw_path": None}, "/gr%C3%BCn%20%3F"),
        ],
    )
    def test_the_path_is_relative_to_the_mount_point(self, run: Run, members: dict[str, Any], expected: str) -> None:
        async def function() -> str:
            return ""

        async def main() -> Exchange:
            exchange = Exchange()
            head = scope(members["path"]) | {"raw_path": members["path"].encode()} | members
            await application(function)(head, exchange.receive, exchange.send)
            return exchange

        exchange = run(main())

        assert json.loads(exchange.body)["uri"] == expected

    def test_a_body_in_parts_is_read_as_the_application_needs_it(self, run: Run) -> None:
        parts = [{"type": "http.request", "body": bytes([65 + n]) * 10, "more_body": n < 4} for n in range(5)]

        async def main() -> Exchange:
            exchange = Exchange(*parts)
            head = scope("/echo", method="POST", headers=[(b"transfer-encoding", b"chunked")])
            await application()(head, exchange.receive, exchange.send)
            return exchange

        exchange = run(main())

        assert exchange.body == b"".join(part["body"] for part in parts)

    def test_a_body_over_the_limit_is_refused(self, run: Run) -> None:
        part = {"type": "http.request", "body": b"x" * 60, "more_body": True}

        async def main(*headers: tuple[bytes, bytes]) -> Exchange:
            exchange = Exchange(part, part, part)
            head = scope("/echo", method="POST", headers=list(headers))
            await application(max_body=100)(head, exchange.receive, exchange.send)
            return exchange

        async def both() -> tuple[Exchange, Exchange]:
            return await main((b"content-length", b"180")), await main((b"transfer-encoding", b"chunked"))

        declared, streamed = run(both())

        assert (declared.status, streamed.status) == (413, 413)

    @pytest.mark.parametrize("path", ["/hang", "/endless", "/python"])
    def test_a_disconnect_ends_the_request(self, run: Run, path: str) -> None:
        async def function() -> str:
            return await asyncio.Future()

        async def main() -> None:
            exchange = Exchange()
            serving = asyncio.ensure_future(application(function)(scope(path), exchange.receive, exchange.send))
            await until(lambda: bridge.alive() > 0)
            exchange.disconnected.set()
            async with asyncio.timeout(20):
                await serving
            # Another thread may hold the call a little longer.
            await until(lambda: bridge.alive() == 0)

        run(main())

    def test_the_next_chunk_is_made_when_the_server_has_taken_the_one_before(self, run: Run) -> None:
        async def main() -> int:
            chunks = asyncio.Semaphore(0)
            exchange = Exchange()

            async def send(event: dict[str, Any]) -> None:
                await chunks.acquire()
                exchange.sent.append(event)

            serving = asyncio.ensure_future(application()(scope("/endless"), exchange.receive, send))
            for sent in range(1, 10):
                chunks.release()
                await until(lambda expected=sent: len(exchange.sent) == expected)
            count = len(exchange.sent)
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            return count

        assert run(main()) == 9

    def test_a_body_that_fails_is_an_exception_for_the_server(self, run: Run) -> None:
        async def main() -> None:
            exchange = Exchange()
            with pytest.raises(RuntimeError, match="broken"):
                await application()(scope("/broken"), exchange.receive, exchange.send)
            assert exchange.sent[-1]["more_body"] is True
            assert exchange.body == b"some"

        run(main())

    def test_chunks_that_are_ready_are_sent_together(self, run: Run) -> None:
        async def main() -> Exchange:
            exchange = Exchange()
            await application()(scope("/count"), exchange.receive, exchange.send)
            return exchange

        exchange = run(main())

        assert [(event["body"].count(b"data:"), event["more_body"]) for event in exchange.sent[1:]] == [
            (3, True),
            (0, False),
        ]

    def test_the_lifespan_is_answered(self, run: Run) -> None:
        async def main() -> Exchange:
            exchange = Exchange({"type": "lifespan.startup"}, {"type": "lifespan.shutdown"})
            await application()({"type": "lifespan"}, exchange.receive, exchange.send)
            return exchange

        assert [event["type"] for event in run(main()).sent] == [
            "lifespan.startup.complete",
            "lifespan.shutdown.complete",
        ]

    def test_a_scope_of_another_protocol_is_an_error(self, run: Run) -> None:
        async def main() -> None:
            exchange = Exchange()
            with pytest.raises(ValueError, match="smtp"):
                await application()({"type": "smtp"}, exchange.receive, exchange.send)
            assert exchange.sent == []

        run(main())

    @pytest.mark.parametrize(
        ("head", "part"),
        [
            (scope("/", method="GE T"), b"method"),
            (scope("/", headers=[(b"a b", b"")]), b"header name"),
            (scope("/", headers=[(b"a", b"\n")]), b"header value"),
        ],
    )
    def test_a_head_that_cannot_be_read_is_refused(self, run: Run, head: dict[str, Any], part: bytes) -> None:
        async def main() -> Exchange:
            exchange = Exchange()
            await application()(head, exchange.receive, exchange.send)
            return exchange

        refused = run(main())

        assert refused.status == 400
        assert part in refused.body

    def test_a_websocket_passes_messages_until_the_application_ends_it(self, run: Run) -> None:
        received = [{"type": "websocket.connect"}]
        received += [{"type": "websocket.receive", "text": "grüße"}, {"type": "websocket.receive", "bytes": b"\0"}]
        received += [{"type": "websocket.receive", "text": "bye"}]

        async def main() -> Exchange:
            exchange = Exchange(*received)
            head = scope("/echo", type="websocket", subprotocols=["chat"])
            await application()(head, exchange.receive, exchange.send)
            return exchange

        assert run(main()).sent == [
            {"type": "websocket.accept", "subprotocol": "chat"},
            {"type": "websocket.send", "text": "grüße"},
            {"type": "websocket.send", "bytes": b"\0"},
            {"type": "websocket.close", "code": 1000, "reason": ""},
        ]

    def test_a_websocket_can_be_refused(self, run: Run) -> None:
        async def refused(path: str, **members: Any) -> list[dict[str, Any]]:
            exchange = Exchange({"type": "websocket.connect"})
            head = scope(path, type="websocket", **members)
            await application(auth=authenticate)(head, exchange.receive, exchange.send)
            return exchange.sent

        async def main() -> list[list[dict[str, Any]]]:
            token = {"headers": [(b"authorization", b"Bearer alice-token")]}
            response = {"extensions": {"websocket.http.response": {}}}
            return [
                await refused("/nowhere", **token),
                await refused("/full", **token, **response),
                await refused("/echo", **response),
            ]

        nowhere, full, no_token = run(main())

        assert [event["type"] for event in nowhere] == ["websocket.close"]
        assert [event["type"] for event in full] == ["websocket.http.response.start", "websocket.http.response.body"]
        assert (full[0]["status"], no_token[0]["status"]) == (429, 401)


@asynccontextmanager
async def uvicorn_server(asgi: Any, **options: Any) -> AsyncIterator[str]:
    """Run an application under uvicorn."""
    uvicorn = pytest.importorskip("uvicorn")
    config = uvicorn.Config(asgi, port=0, log_level="warning", lifespan="on", **options)
    running = uvicorn.Server(config)
    serving = asyncio.ensure_future(running.serve())
    await until(lambda: running.started or serving.done())
    try:
        port = running.servers[0].sockets[0].getsockname()[1]
        yield f"127.0.0.1:{port}"
    finally:
        running.should_exit = True
        await serving


def fastapi_with(mounted: Any) -> Any:
    fastapi = pytest.importorskip("fastapi")
    host = fastapi.FastAPI()
    host.mount("/shop", mounted)
    return host


class TestUvicorn:
    def test_it_serves_requests_and_event_streams(self) -> None:
        async def main() -> tuple[httpx.Response, httpx.Response, httpx.Response]:
            async with uvicorn_server(application()) as address, client(base_url=f"http://{address}") as http:
                body = b"x" * 1_000_000
                return await http.get("/request?a=1"), await http.post("/echo", content=body), await http.get("/count")

        request, echo, events = asyncio.run(main())

        assert request.json()["uri"] == "/request?a=1"
        assert request.json()["peer"] is True
        assert len(echo.content) == 1_000_000
        assert events.headers["content-type"] == "text/event-stream"
        assert events.text == "".join(f"id: {n}\ndata: {n}\n\n" for n in (1, 2, 3))

    def test_it_is_mounted_in_fastapi(self) -> None:
        async def main() -> httpx.Response:
            host = fastapi_with(application(auth=authenticate))
            async with uvicorn_server(host) as address, client(base_url=f"http://{address}") as http:
                assert (await http.get("/shop/request")).status_code == 401
                return await http.get("/shop/request", headers={"authorization": "Bearer alice-token"})

        answer = asyncio.run(main()).json()

        assert (answer["uri"], answer["root_path"]) == ("/request", "/shop")
        assert answer["principal"] == ["alice", {}]

    def test_a_disconnect_drops_the_request(self) -> None:
        async def main() -> None:
            async with uvicorn_server(application()) as address:
                request = asyncio.ensure_future(client().get(f"http://{address}/hang"))
                await until(lambda: bridge.alive() > 0)
                request.cancel()
                await until(lambda: bridge.alive() == 0)

        asyncio.run(main())

    def test_a_client_that_stops_reading_stops_the_stream(self) -> None:
        async def main() -> None:
            async with uvicorn_server(application()) as address:
                async with client() as http, http.stream("GET", f"http://{address}/endless") as response:
                    async for _chunk in response.aiter_raw():
                        break
                await until(lambda: bridge.alive() == 0)

        asyncio.run(main())

    def test_websockets(self) -> None:
        websockets = pytest.importorskip("websockets")

        async def main() -> tuple[list[Any], str | None, int | None, int]:
            host = fastapi_with(application())
            async with uvicorn_server(host, ws="websockets-sansio") as address:
                async with websockets.connect(f"ws://{address}/shop/echo", subprotocols=["chat"], proxy=None) as socket:
                    answers = []
                    for message in ("one", b"two"):
                        await socket.send(message)
                        answers.append(await socket.recv())
                    await socket.send("bye")
                    await socket.wait_closed()
                with pytest.raises(websockets.InvalidStatus) as refused:
                    await websockets.connect(f"ws://{address}/shop/full", proxy=None)
                return answers, socket.subprotocol, socket.close_code, refused.value.response.status_code

        assert asyncio.run(main()) == (["one", b"two"], "chat", 1000, 429)

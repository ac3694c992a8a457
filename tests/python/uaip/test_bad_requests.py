"""Clients that misbehave do not harm others: slow ones, half requests, large, deep and invalid bodies, disconnects."""

import asyncio
import contextlib
import json
import re
import socket
import time
from urllib.parse import urlsplit

import pytest
from uaip_support import FACES, Wire, served, shop

from turntree.uaip import State, Workflow

pytestmark = pytest.mark.parametrize("face", FACES)


async def raw(url, data, *, patience=20):
    """Send bytes, and read what comes back: until the answer is whole or the connection is closed."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(data)
    await writer.drain()
    answer = b""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(patience):
            while not is_whole(answer) and (chunk := await reader.read(65536)):
                answer += chunk
    writer.close()
    return answer


def is_whole(answer):
    """Whether an answer has all the bytes that its head announces. The close of the connection ends one without."""
    head, end, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)^content-length: *(\d+)", head, re.MULTILINE)
    return bool(end and length) and len(body) >= int(length[1])


def post(body, length=None):
    size = len(body) if length is None else length
    lines = ["POST /execute HTTP/1.1", "Host: x", "Content-Type: application/json", "X-Session-Id: s"]
    head = "\r\n".join([*lines, f"Content-Length: {size}", "", ""])
    return head.encode() + body


DEEP = (
    b'{"workflow_name":"shop","action":"method_call","task":"search","args":{"query":'
    + b"[" * 5000
    + b"]" * 5000
    + b"}}"
)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"\xff\xfe{}", 400),
        (b'{"workflow_name": "\xc3\x28"}', 400),
        (b"[1, 2]", 400),
        (b"", 400),
        (b"{", 400),
        (DEEP, 400),
        (b'{"workflow_name":"shop","workflow_name":["shop"]}', 400),
        (b'{"workflow_name":"shop","action":"method_call","task":"search","args":null}', 404),
    ],
    ids=["bom", "utf8", "array", "empty", "half", "deep", "list", "session"],
)
async def test_a_body_that_is_not_a_request_is_refused(face, body, status):
    async with served(face, shop()) as url, Wire(url) as wire:
        answer = await wire.http.post(
            "/execute", content=body, headers={"content-type": "application/json", "x-session-id": "s"}
        )
        await wire.start()

    assert answer.status_code == status, answer.text
    assert isinstance(answer.json()["detail"], str)
    assert len(answer.content) < 20_000


async def test_a_body_over_the_limit_is_refused_before_it_is_sent(face):
    async with served(face, shop()) as url:
        answer = await raw(url, post(b"", 2 << 20))

    assert answer.startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("framing", ["length", "chunks"])
async def test_a_client_that_sends_too_much_reads_the_answer(face, framing):
    """The client sends all of a large body before it reads: the connection must not be reset before that."""
    body = b"x" * (6 << 20)
    if framing == "length":
        request = post(body)
    else:
        head = post(b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        request = head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)

    def send(url):
        parts = urlsplit(url)
        with socket.create_connection((parts.hostname, parts.port), timeout=20) as client:
            client.sendall(request)
            time.sleep(0.2)
            # The same connection answers the next request, or is closed in order.
            answer = b""
            while b'"body_too_large"' not in answer and (chunk := client.recv(65536)):
                answer += chunk
            return answer

    async with served(face, shop()) as url, Wire(url) as wire:
        answers = await asyncio.gather(*(asyncio.to_thread(send, url) for _ in range(4)))
        await wire.start()

    for answer in answers:
        assert answer.startswith(b"HTTP/1.1 413 "), answer
        assert b'"body_too_large"' in answer


async def test_half_requests_and_slow_clients_do_not_stop_others(face):
    async with served(face, shop()) as url, Wire(url) as wire:
        waiting = [asyncio.create_task(raw(url, post(b'{"workflow', 1000), patience=1)) for _ in range(50)]
        waiting += [asyncio.create_task(raw(url, b"POST /exe", patience=1)) for _ in range(50)]
        await asyncio.sleep(0)
        await wire.start()
        answer = await wire.call("search", query="tea")
        await asyncio.gather(*waiting)

    assert answer.json()["status"] == "ok"


async def test_a_disconnect_stops_the_task_and_keeps_the_state(face):
    made = Workflow("slow")
    made.stage("one")
    started, stopped = asyncio.Event(), asyncio.Event()

    @made.task(stage="one")
    async def wait(state: State) -> None:
        state.set("written", True)
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with served(face, made) as url, Wire(url) as wire:
        await wire.start("slow")
        body = json.dumps({"workflow_name": "slow", "action": "method_call", "task": "wait"}).encode()
        request = post(body).replace(b"X-Session-Id: s", f"X-Session-Id: {wire.session}".encode())
        parts = urlsplit(url)
        _, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(request)
        await asyncio.wait_for(started.wait(), 10)
        writer.close()
        await asyncio.wait_for(stopped.wait(), 10)
        answer = await wire.execute("handshake", workflow_name="slow")
        view = (await wire.http.get(f"/sessions/{wire.session}")).json()

    assert answer.json()["status"] == "ok"
    assert view["state"] == {}


async def test_actions_of_one_session_run_one_after_the_other(face):
    made = Workflow("counter")
    made.stage("one")
    running = 0

    @made.task(stage="one")
    async def add(state: State) -> int:
        nonlocal running
        running += 1
        assert running == 1
        count = state.get("count", 0)
        await asyncio.sleep(0.001)
        state.set("count", count + 1)
        running -= 1
        return count + 1

    async with served(face, made) as url, Wire(url) as wire:
        await wire.start("counter")
        answers = await asyncio.gather(
            *(wire.execute("method_call", workflow_name="counter", task="add") for _ in range(40))
        )

    assert sorted(answer.json()["result"] for answer in answers) == list(range(1, 41))


async def test_a_websocket_handshake_is_refused(face):
    head = [
        "GET / HTTP/1.1",
        "Host: x",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
        "",
        "",
    ]
    async with served(face, shop()) as url:
        answer = await raw(url, "\r\n".join(head).encode())

    if face == "native":
        assert answer.startswith(b"HTTP/1.1 404 "), answer
        body = json.loads(answer.split(b"\r\n\r\n", 1)[1])
        assert body == {"detail": "no WebSocket connections are served here", "code": "not_found"}
    else:
        # An ASGI server without the extension `websocket.http.response` knows no other status.
        assert b" 403 " in answer.split(b"\r\n", 1)[0] or b" 404 " in answer.split(b"\r\n", 1)[0]

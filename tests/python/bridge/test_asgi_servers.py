"""The ASGI application under the servers that run it: uvicorn, hypercorn and granian, each in a process of its own."""

from __future__ import annotations

import contextlib
import importlib.util
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

websockets = pytest.importorskip("websockets")
client = pytest.importorskip("websockets.sync.client")

COMMANDS = {
    "uvicorn": ["uvicorn", "asgi_test_app:app", "--port", "{port}", "--ws", "websockets-sansio"],
    "hypercorn": ["hypercorn", "asgi_test_app:app", "--bind", "127.0.0.1:{port}"],
    "granian": ["granian", "--interface", "asgi", "--port", "{port}", "asgi_test_app:app"],
}


@pytest.fixture(params=list(COMMANDS))
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a running server."""
    if importlib.util.find_spec(request.param) is None:
        pytest.skip(f"NOT TESTED: {request.param} is not installed")
    with socket.socket() as chosen:
        # Kept open, so that nobody else gets the port: a server that also sets SO_REUSEADDR may bind and listen to it.
        chosen.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        chosen.bind(("127.0.0.1", 0))
        port = chosen.getsockname()[1]
        command = [part.format(port=port) for part in COMMANDS[request.param]]
        folder = Path(__file__).parent
        with subprocess.Popen([sys.executable, "-m", *command], cwd=folder) as process:
            try:
                until_it_listens(port, process)
                yield f"127.0.0.1:{port}"
            finally:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(10)
                process.kill()


def until_it_listens(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)  # the poll interval
    pytest.fail("the server does not listen")


def test_requests_and_event_streams(address: str) -> None:
    with httpx.Client(base_url=f"http://{address}", trust_env=False, timeout=20) as http:
        echo = http.post("/echo", content=b"x" * 1_000_000)
        events = http.get("/count")
        missing = http.get("/healthz")

    assert len(echo.content) == 1_000_000
    assert events.text == "".join(f"id: {n}\ndata: {n}\n\n" for n in (1, 2, 3))
    assert missing.status_code == 200


def test_a_websocket_that_the_application_closes_ends(address: str) -> None:
    for _ in range(3):
        with client.connect(f"ws://{address}/echo", subprotocols=["chat"], proxy=None) as socket:
            answers = []
            for message in ("one", b"two"):
                socket.send(message)
                answers.append(socket.recv(timeout=10))
            socket.send("bye")
            with pytest.raises(websockets.ConnectionClosed):
                socket.recv(timeout=10)
            assert (answers, socket.subprotocol, socket.close_code) == (["one", b"two"], "chat", 1000)


def test_a_websocket_that_the_client_closes_ends(address: str) -> None:
    with client.connect(f"ws://{address}/echo", proxy=None) as socket:
        socket.send("one")
        assert socket.recv(timeout=10) == "one"

    assert socket.close_code == 1000


def test_a_websocket_that_is_refused_is_an_http_error(address: str) -> None:
    with pytest.raises(websockets.InvalidStatus) as refused:
        client.connect(f"ws://{address}/nowhere", proxy=None)

    assert refused.value.response.status_code >= 400

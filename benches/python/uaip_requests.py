"""Requests a second of a task without work: turntree's servers beside FastAPI under uvicorn.

    python benches/python/uaip_requests.py [--requests 20000] [--connections 32] [--repetitions 3]

Each server runs in a process of its own; one client process sends the same requests to each, one after the other on
each connection. The output is the number of requests for each second of the server's CPU time (user and system), and
the median and the 99th percentile of the response time. FastAPI validates the same body with a Pydantic model, finds
the session in a dictionary, calls the function and returns the same members; it stores nothing. PostgreSQL is measured
if TURNTREE_TEST_POSTGRES has its URL. uvicorn runs with httptools and uvloop if this environment has them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WORKFLOW = "bench"
SERVERS = {
    "turntree native, memory": ("native", None),
    "turntree native, SQLite": ("native", "sqlite:///{folder}/native.db"),
    "turntree native, PostgreSQL": ("native", "{postgres}"),
    "turntree ASGI + uvicorn, memory": ("asgi", None),
    "turntree ASGI + uvicorn, SQLite": ("asgi", "sqlite:///{folder}/asgi.db"),
    "turntree ASGI + uvicorn, PostgreSQL": ("asgi", "{postgres}"),
    "FastAPI + uvicorn, dictionary": ("fastapi", None),
}


def workflow() -> Any:
    """Make a workflow with one task, which does nothing."""
    from turntree.uaip import Workflow

    made = Workflow(WORKFLOW)
    made.stage("only")

    @made.task(stage="only")
    async def nothing(number: int) -> int:
        """Return the number."""
        return number

    return made


async def serve(kind: str, store: str | None, port: int) -> None:
    """Serve until standard input ends, then print the CPU time of this process since the start of the requests."""
    closed = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    if kind == "native":
        from turntree import uaip

        async with uaip.serve(workflow(), port=port, store=store):
            await closed
    else:
        import uvicorn

        if kind == "asgi":
            from turntree import uaip

            app = uaip.asgi_app(workflow(), store=store)
        else:
            from peers.fastapi_tasks import app
        server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning", access_log=False))
        task = asyncio.ensure_future(server.serve())
        await closed
        server.should_exit = True
        await task


class Connection:
    """A connection that sends one request after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        self.reader, self.writer = reader, writer
        self.head = f"Host: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"

    async def post(self, path: str, body: dict[str, Any], headers: str = "") -> dict[str, Any]:
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\n{self.head}{headers}Content-Length: {len(data)}\r\n\r\n"
        self.writer.write(head.encode() + data)
        answer = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        content = json.loads(await self.content(answer))
        if not answer.startswith(b"http/1.1 200"):
            raise ValueError(content)
        return content

    async def content(self, head: bytes) -> bytes:
        """Read the body of a response: of known length, or in chunks."""
        if b"content-length:" in head:
            return await self.reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
        content = b""
        while length := int(await self.reader.readuntil(b"\r\n"), 16):
            content += (await self.reader.readexactly(length + 2))[:-2]
        await self.reader.readuntil(b"\r\n")
        return content


async def load(port: int, connections: int, requests: int) -> list[float]:
    """Send requests and return their durations, in seconds."""
    durations: list[float] = []

    async def one(count: int) -> None:
        connection = Connection(*await asyncio.open_connection("127.0.0.1", port), port)
        started = await connection.post("/initialize", {"workflow_name": WORKFLOW})
        header = f"X-Session-Id: {started['session_id']}\r\n"
        for number in range(count):
            body = {
                "workflow_name": WORKFLOW, "action": "method_call", "task": "nothing", "args": {"number": number}
            }  # fmt: skip
            begun = time.perf_counter()
            answer = await connection.post("/execute", body, header)
            durations.append(time.perf_counter() - begun)
            if answer["result"] != number:
                raise ValueError(answer)
        connection.writer.close()

    await asyncio.gather(*(one(requests // connections) for _ in range(connections)))
    return durations


def cpu_of(pid: int) -> float:
    """Return the CPU time of a process, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def running(kind: str, store: str | None) -> Iterator[tuple[int, int]]:
    """Run a server; give the id of its process and its port."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [sys.executable, __file__, "--serve", kind, "--port", str(port), *(["--store", store] if store else [])]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 30
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server {kind} did not start")
            time.sleep(0.05)
        yield process.pid, port
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)


def measure(kind: str, store: str | None, connections: int, requests: int) -> tuple[float, float, float]:
    """Return the requests for each second of CPU, and the median and the 99th percentile in milliseconds."""
    with running(kind, store) as (pid, port):
        asyncio.run(load(port, connections, min(requests, 2000)))
        before = cpu_of(pid)
        durations = sorted(asyncio.run(load(port, connections, requests)))
        cpu = cpu_of(pid) - before
    return len(durations) / cpu, statistics.median(durations) * 1000, durations[len(durations) * 99 // 100] * 1000


def main() -> None:
    """Measure all servers in turn, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--store", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        asyncio.run(serve(options.serve, options.store, options.port))
        return

    postgres = os.environ.get("TURNTREE_TEST_POSTGRES")
    results: dict[str, list[tuple[float, float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for repetition in range(options.repetitions):
            for name, (kind, store) in SERVERS.items():
                if store and "{postgres}" in store and not postgres:
                    print(f"NOT MEASURED: {name}: TURNTREE_TEST_POSTGRES is not set") if not repetition else None
                    continue
                url = store and store.format(folder=folder, postgres=postgres)
                results.setdefault(name, []).append(measure(kind, url, options.connections, options.requests))
    best = {name: max(rates) for name, rates in results.items()}
    floor = best["FastAPI + uvicorn, dictionary"][0]
    print("| server | requests for each CPU second | ratio to FastAPI | median ms | p99 ms |\n|---|---|---|---|---|")
    for name, (rate, median, p99) in best.items():
        print(f"| {name} | {rate:,.0f} | {rate / floor:.2f} | {median:.2f} | {p99:.2f} |")


if __name__ == "__main__":
    main()

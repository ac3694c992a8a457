"""CPU time of streamed tokens and of requests: turntree's server beside the same agent behind FastAPI and a2a-sdk.

    python benches/python/uamp_streams.py [--requests 400] [--connections 16] [--tokens 410] [--repetitions 3]

Each server runs in a process of its own, with the same agent: a scripted model that streams words. One client process
sends the same requests to each, one after the other on each connection, and counts the pieces of text that arrive.
Each server answers with few tokens and with many; the difference is the CPU time of the server (user and system) for
each token, the rest that for each request. The work of the agent is part of all figures; the line "agent alone" is the
same agent in a loop without a server. uvicorn runs with httptools and uvloop if this environment has them. Needs
fastapi, uvicorn and a2a-sdk[http-server].
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

CHAT = "/v1/chat/completions"
SERVERS = {
    "turntree native, chat completions": ("native", CHAT),
    "turntree native, UAMP": ("native", "/uamp/stream"),
    "turntree native, A2A": ("native", "/a2a"),
    "turntree ASGI + uvicorn, chat completions": ("asgi", CHAT),
    "FastAPI + uvicorn, chat completions": ("fastapi", CHAT),
    "a2a-sdk + uvicorn, A2A": ("a2a", "/"),
}
FEW = 10
FLOORS = {CHAT: "FastAPI + uvicorn, chat completions", "/a2a": "a2a-sdk + uvicorn, A2A"}


def agent_of(tokens: int) -> Any:
    """Make an agent that streams this many words."""
    from turntree import agent
    from turntree.upp import scripted

    text = "word " * tokens
    return agent(name="bench", model=scripted(lambda _: text))


async def serve(kind: str, tokens: int, port: int) -> None:
    """Serve until standard input ends."""
    closed = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    agent = agent_of(tokens)
    if kind == "native":
        from turntree import uamp

        async with uamp.serve(agent, port=port):
            await closed
        return
    import uvicorn

    if kind == "asgi":
        from turntree import uamp

        app: Any = uamp.asgi_app(agent)
    elif kind == "fastapi":
        from peers.fastapi_agent import app_of

        app = app_of(agent)
    else:
        from peers.a2a_server import app_of as a2a_app_of

        app = a2a_app_of(agent, f"http://127.0.0.1:{port}/")
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning", access_log=False))
    task = asyncio.ensure_future(server.serve())
    await closed
    server.should_exit = True
    await task


def body_of(path: str, number: int) -> bytes:
    """Return the body of a request."""
    if path == CHAT:
        body: Any = {"model": "bench", "stream": True, "messages": [{"role": "user", "content": "write"}]}
    elif path == "/uamp/stream":
        body = [{"type": "session.create"}, {"type": "input.text", "text": "write"}, {"type": "response.create"}]
    else:
        message = {"role": "ROLE_USER", "messageId": f"m{number}-{time.monotonic_ns()}", "parts": [{"text": "write"}]}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message}}
    return json.dumps(body).encode()


async def content_of(reader: asyncio.StreamReader) -> bytes:
    """Read the body of a response in chunks."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if not head.startswith(b"http/1.1 200") or b"chunked" not in head:
        raise ValueError(head)
    parts: list[bytes] = []
    while length := int(await reader.readuntil(b"\r\n"), 16):
        parts.append((await reader.readexactly(length + 2))[:-2])
    await reader.readuntil(b"\r\n")
    return b"".join(parts)


async def load(port: int, path: str, connections: int, requests: int, tokens: int) -> None:
    """Send requests, and check that each answer has all words."""
    expected = b"word"

    async def one(count: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nA2A-Version: 1.0\r\n"
        head = f"{head}Content-Type: application/json\r\n"
        for number in range(count):
            body = body_of(path, number)
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            found = (await content_of(reader)).count(expected)
            if found < tokens:
                message = f"{path}: {found} words of {tokens}"
                raise ValueError(message)
        writer.close()

    await asyncio.gather(*(one(requests // connections) for _ in range(connections)))


def cpu_of(pid: int) -> float:
    """Return the CPU time of a process, in seconds."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


@contextlib.contextmanager
def running(kind: str, tokens: int) -> Generator[tuple[int, int]]:
    """Run a server; give the id of its process and its port."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [sys.executable, __file__, "--serve", kind, "--port", str(port), "--tokens", str(tokens)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 30
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            if process.poll() is not None or time.monotonic() > deadline:
                message = f"the server {kind} did not start"
                raise RuntimeError(message)
            time.sleep(0.05)
        yield process.pid, port
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)


def measure(kind: str, path: str, tokens: int, options: argparse.Namespace) -> float:
    """Return the CPU time of a request with this many tokens, in microseconds."""
    requests = max(options.requests // options.connections, 1) * options.connections
    with running(kind, tokens) as (pid, port):
        asyncio.run(load(port, path, options.connections, options.connections * 4, tokens))
        before = cpu_of(pid)
        asyncio.run(load(port, path, options.connections, requests, tokens))
        return (cpu_of(pid) - before) / requests * 1e6


def measure_alone(tokens: int, requests: int) -> float:
    """Return the CPU time of the agent without a server, in microseconds for each run."""
    agent = agent_of(tokens)

    async def run() -> None:
        for _ in range(requests):
            async for _ in agent.stream("write").text():
                pass

    asyncio.run(run())
    before = time.process_time()
    asyncio.run(run())
    return (time.process_time() - before) / requests * 1e6


def main() -> None:
    """Measure all servers in turn, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=410)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--only", choices=["turntree"], help="leaves out the servers of other packages")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        asyncio.run(serve(options.serve, options.tokens, options.port))
        return

    best: dict[str, tuple[float, float]] = {}
    for _ in range(options.repetitions):
        for name, (kind, path) in {"agent alone": ("alone", ""), **SERVERS}.items():
            if options.only and name.partition(" ")[0] not in {"agent", options.only}:
                continue
            if kind == "alone":
                few, many = (measure_alone(tokens, options.requests) for tokens in (FEW, options.tokens))
            else:
                few, many = (measure(kind, path, tokens, options) for tokens in (FEW, options.tokens))
            token = (many - few) / (options.tokens - FEW)
            figures = (token, few - FEW * token)
            best[name] = min(best.get(name, figures), figures)
    print("| server | µs of CPU for each token | ratio | µs of CPU for each request without its tokens | ratio |")
    print("|---|---|---|---|---|")
    for name, (token, request) in best.items():
        floor = best.get(FLOORS.get(SERVERS.get(name, ("", ""))[1], ""), (token, request))
        print(f"| {name} | {token:.2f} | {floor[0] / token:.1f} | {request:,.0f} | {floor[1] / request:.1f} |")


if __name__ == "__main__":
    main()

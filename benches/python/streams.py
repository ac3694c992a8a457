"""A thousand streams in one event loop: memory per stream, number of threads, and latency of deltas.

    python benches/python/streams.py [--streams 1000] [--deltas 100] [--interval 0.2]

The server is a separate process of this file. Requires Linux, an installed turntree, and one open file per stream.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from pathlib import Path

DELTA = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1741569952,"model":"m",'
    b'"choices":[{"index":0,"delta":%s,"finish_reason":%s}]}\n\n'
)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def serve(deltas: int, interval: float) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD)
        for _ in range(deltas):
            writer.write(chunk(DELTA % (b'{"content":" token"}', b"null")))
            await asyncio.sleep(interval)
        writer.write(chunk(DELTA % (b"{}", b'"stop"')) + chunk(b"data: [DONE]\n\n") + chunk(b""))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def process(name: str) -> int:
    """Return a number from /proc/self/status: threads, or anonymous memory in KiB."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(name))


async def measure(port: int, streams: int, deltas: int, interval: float) -> None:
    from turntree import agent
    from turntree.upp import openai

    model = openai("m", api="completions", base_url=f"http://127.0.0.1:{port}/v1", api_key="x")
    gaps: list[float] = []

    async def consume(gaps: list[float]) -> None:
        last, seen = None, 0
        async for event in agent(model=model).stream("Hello"):
            if event.upp is not None and event.upp.type == "text_delta":
                now = time.perf_counter()
                if last is not None:
                    gaps.append(now - last)
                last, seen = now, seen + 1
        assert seen == deltas, f"{seen} deltas of {deltas}"

    await consume([])
    # Allocate the memory of the measurement before the first sample.
    gaps.extend([0.0] * (streams * deltas))
    gaps.clear()
    memory, threads, start = process("RssAnon"), process("Threads"), time.perf_counter()
    most_memory, most_threads = memory, threads
    tasks = [asyncio.create_task(consume(gaps)) for _ in range(streams)]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0.5)
        most_memory, most_threads = max(most_memory, process("RssAnon")), max(most_threads, process("Threads"))
    await asyncio.gather(*tasks)

    gaps.sort()
    of = len(gaps)
    print(f"{streams} streams of {deltas} deltas, one every {interval * 1000:.0f} ms")
    print(f"time       {time.perf_counter() - start:.1f} s; paced for {deltas * interval:.1f} s")
    print(f"memory     {(most_memory - memory) / streams:.1f} KiB a stream at most, the list of gaps included")
    print(f"threads    {threads} before, {most_threads} at most")
    for share in (0.5, 0.99, 0.999, 1.0):
        print(f"gap        {share} of them within {gaps[min(int(of * share), of - 1)] * 1000:.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--deltas", type=int, default=100)
    parser.add_argument("--interval", type=float, default=0.2, help="seconds between two deltas of a stream")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(options.deltas, options.interval))
        return
    command = [sys.executable, __file__, "--serve", f"--deltas={options.deltas}", f"--interval={options.interval}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            asyncio.run(measure(port, options.streams, options.deltas, options.interval))
        finally:
            server.terminate()


if __name__ == "__main__":
    main()

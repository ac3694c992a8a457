"""Many calls leave nothing behind: no connections, file descriptors, tasks, objects or memory.

`make test-long` makes 20 000 calls in each case.
"""

import asyncio
import gc
import os
import sys
import time
from pathlib import Path

import pytest
from http2_server import http2_server

from turntree.upp import AccessToken, llm, openai_compatible

CALLS = int(os.environ.get("TURNTREE_MANY_CALLS", "60"))
AT_ONCE = 20

pytestmark = [
    pytest.mark.timeout(120 + CALLS // 10),
    pytest.mark.skipif(sys.platform != "linux", reason="counts file descriptors in /proc"),
]


class Passing:
    """A transport that passes requests on."""

    async def send(self, request):
        return await request.send()


def measure():
    """The number of open files and of objects, and the memory in bytes."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return len(list(Path("/proc/self/fd").iterdir())), len(gc.get_objects()), pages * os.sysconf("SC_PAGE_SIZE")


async def call_many(model, number, mode):
    async def call(kind):
        match kind % 4 if mode == "mixed" else 0:
            case 1:
                async with model.stream("Hi") as stream:
                    await anext(stream)
            case 2:
                task = asyncio.ensure_future(model.generate("Hi"))
                await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
            case _:
                await model.generate("Hi")

    for start in range(0, number, AT_ONCE):
        await asyncio.gather(*(call(start + index) for index in range(AT_ONCE)))


@pytest.mark.parametrize("mode", ["plain", "mixed"])
@pytest.mark.parametrize(
    "options",
    [{}, {"http2": False}, {"transport": Passing()}, {"auth": lambda: AccessToken("token", time.time() + 130)}],
    ids=["http2", "http1", "transport", "auth"],
)
async def test_many_calls_leave_nothing_behind(options, mode):
    with http2_server() as server:
        model = openai_compatible("m", server.url, ca_certificates=server.ca_certificates, **options)
        model = llm(model=model)
        await call_many(model, max(CALLS // 4, AT_ONCE), mode)
        files, objects, memory = measure()
        before = server.requests

        await call_many(model, CALLS, mode)
        more_files, more_objects, more_memory = measure()
        growth = f"{more_files - files} files, {more_objects - objects} objects, {(more_memory - memory) >> 10} KiB"
        print(f"{server.requests - before} calls: {growth}, {len(server.protocols)} connections")

    assert more_files - files <= AT_ONCE * 2, growth
    assert more_objects - objects < 2000, growth
    assert more_memory - memory < 16 << 20, growth

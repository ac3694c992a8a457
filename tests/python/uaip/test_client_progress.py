"""Clients read what a task reports while it runs."""

import asyncio
import contextlib
import threading

import pytest
from uaip_support import served, shop

from turntree import ToolContext, uaip
from turntree.uaip import State, TaskError, UaipError, Workflow


def reporting(go_on: asyncio.Event | None = None) -> Workflow:
    made = Workflow("reporting")
    made.stage("one")
    made.runs = 0

    @made.task(stage="one")
    async def work(context: ToolContext, state: State, fails: bool = False) -> int:
        made.runs += 1
        context.report("begins")
        context.report({"step": "two", "data": [1]})
        if go_on is not None:
            await asyncio.wait_for(go_on.wait(), 20)
        if fails:
            raise TaskError("sold out")
        state.set("done", True)
        return 7

    return made


@contextlib.asynccontextmanager
async def client_of(kind, workflow):
    if kind == "process":
        async with uaip.connect(workflow) as client:
            yield client
        return
    async with served(kind, workflow) as url, uaip.connect(url) as client:
        yield client


KINDS = ["native", "asgi", "process"]
REPORTS = [{"message": "begins"}, {"step": "two", "data": [1]}]


@pytest.mark.parametrize("kind", KINDS)
async def test_reports_arrive_while_the_task_runs(kind):
    go_on, reports = asyncio.Event(), []

    def note(report):
        reports.append(report)
        if len(reports) == 2:
            # The task waits for this: it ends only if the reports come before its result.
            go_on.set()

    async with client_of(kind, reporting(go_on)) as client:
        session = await client.open()
        assert await session.call("work", on_progress=note) == 7
        assert session.state == {"done": True}

    assert reports == REPORTS


@pytest.mark.parametrize("kind", KINDS)
async def test_an_async_function_is_awaited(kind):
    reports = []

    async def note(report):
        await asyncio.sleep(0.01)
        reports.append(report)

    async with client_of(kind, reporting()) as client:
        session = await client.open()
        assert await session.call("work", on_progress=note) == 7

    assert reports == REPORTS


@pytest.mark.parametrize("kind", KINDS)
async def test_errors_of_the_task_and_of_the_server_are_raised(kind):
    async with client_of(kind, reporting()) as client:
        session = await client.open()
        with pytest.raises(UaipError) as failed:
            await session.call("work", on_progress=print, fails=True)
        with pytest.raises(UaipError) as refused:
            await session.call("other", on_progress=print)
        assert session.state == {}

    assert (failed.value.code, failed.value.detail) == ("task_error", "sold out")
    assert (refused.value.code, refused.value.status) == ("task_not_in_stage", 422)


@pytest.mark.parametrize("kind", KINDS)
async def test_an_exception_of_the_function_cancels_the_call(kind):
    def fail(report):
        raise LookupError("no place")

    async with client_of(kind, reporting(asyncio.Event())) as client:
        session = await client.open()
        with pytest.raises(LookupError, match="no place"):
            await session.call("work", on_progress=fail)
        # The task was cancelled with the request: the session is free, and nothing was written.
        async with asyncio.timeout(10):
            await session.provide(a=1)
        assert session.state == {"a": 1}


async def test_a_connection_that_breaks_runs_the_task_once():
    made = reporting()
    async with uaip.serve(made) as server, BreakingProxy(server.url) as proxy, uaip.connect(proxy.url) as client:
        session = await client.open()
        proxy.breaks_after = b"result"
        assert await session.call("work", on_progress=lambda report: None) == 7
        assert session.state == {"done": True}

    assert proxy.broken == 1
    assert made.runs == 1


class BreakingProxy:
    """Passes bytes on; once, it ends a connection instead of passing on what contains `breaks_after`."""

    def __init__(self, url):
        self.host, self.port = url.removeprefix("http://").split(":")
        self.breaks_after = None
        self.broken = 0
        self.tasks = set()

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.connection, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self.server.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def connection(self, reader, writer):
        self.tasks.add(asyncio.current_task())
        upstream_reader, upstream_writer = await asyncio.open_connection(self.host, int(self.port))

        async def forward(source, target, *, may_break):
            with contextlib.suppress(ConnectionError):
                while data := await source.read(65536):
                    if may_break and self.breaks_after and self.breaks_after in data:
                        self.breaks_after, self.broken = None, self.broken + 1
                        break
                    target.write(data)
                    await target.drain()
            target.close()

        try:
            await asyncio.gather(
                forward(reader, upstream_writer, may_break=False), forward(upstream_reader, writer, may_break=True)
            )
        finally:
            for end in (writer, upstream_writer):
                end.close()
                with contextlib.suppress(ConnectionError):
                    await end.wait_closed()


def test_a_sync_session_reads_reports_too():
    reports, threads = [], set()

    def note(report):
        reports.append(report)
        threads.add(threading.get_ident())

    with uaip.serve_sync(reporting()) as server, uaip.connect_sync(server.url) as client:
        assert client.open().call("work", on_progress=note) == 7
    with uaip.connect_sync(reporting()) as client:
        assert client.open().call("work", on_progress=note) == 7

    assert reports == REPORTS * 2
    assert threads == {threading.get_ident()}


async def test_a_task_without_reports_and_a_wrong_function():
    async with uaip.connect(shop()) as client:
        session = await client.open()
        reports = []
        assert await session.call("search", query="tea", limit=1, on_progress=reports.append) == ["tea 0"]
        assert reports == []
        with pytest.raises(TypeError, match="on_progress must be a function of a report, not int"):
            await session.call("search", query="tea", on_progress=3)

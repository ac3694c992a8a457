"""Functions of applications that misbehave harm neither the server nor other sessions."""

import asyncio
import json
import sys
import threading
from urllib.parse import urlsplit

import pytest
from uaip_support import FACES, Wire, served

from turntree import ToolContext
from turntree.uaip import State, Workflow

pytestmark = pytest.mark.parametrize("face", FACES)


def deep():
    value: list = []
    for _ in range(5000):
        value = [value]
    return value


def circular():
    value: list = []
    value.append(value)
    return value


class Odd:
    def __bool__(self):
        raise RuntimeError("password=1234")


VALUES = {
    "object": object(),
    "nan": float("nan"),
    "surrogate": "\ud800",
    "circular": circular(),
    "deep": deep(),
    "large": "x" * (9 << 20),
    "number": 10**400,
}

ERRORS = {
    "system_exit": SystemExit(3),
    "interrupt": asyncio.CancelledError("stop"),
    "stop": StopAsyncIteration("stop"),
    "generator": GeneratorExit(),
    "surrogate": ValueError("\ud800"),
    "secret": ValueError("password=1234"),
    "recursion": RecursionError("deep"),
}


def workflow() -> Workflow:
    made = Workflow("bad")
    made.stage("one", on_exit=lambda state: None)
    made.stage("odd")
    made.transition("one", "odd", when=lambda state: Odd())

    @made.task(stage="one")
    async def returns(kind: str):
        return VALUES[kind]

    @made.task(stage="one")
    def writes(kind: str, state: State) -> None:
        state.set("value", VALUES[kind])

    @made.task(stage="one")
    async def raises(kind: str, state: State) -> None:
        state.set("written", True)
        raise ERRORS[kind]

    @made.task(stage="one")
    def raises_in_a_thread(kind: str, state: State) -> None:
        state.set("written", True)
        raise ERRORS[kind]

    @made.task(stage="one")
    async def reports(context: ToolContext) -> int:
        for number in range(30_000):
            context.report({"data": number})
        return 1

    @made.task(stage="one")
    async def fine() -> str:
        return "fine"

    @made.task(stage="one")
    def fine_in_a_thread() -> str:
        return "fine"

    return made


async def call(wire, task, headers=None, **args):
    return await wire.execute("method_call", headers, workflow_name="bad", task=task, args=args)


async def assert_alive(wire):
    for task in ("fine", "fine_in_a_thread"):
        answer = await call(wire, task)
        assert answer.json()["result"] == "fine", answer.text


@pytest.mark.parametrize("task", ["returns", "writes"])
async def test_values_that_json_cannot_express_fail_the_task(face, task):
    async with served(face, workflow()) as url, Wire(url) as wire:
        await wire.start("bad")
        for kind in VALUES:
            answer = await call(wire, task, kind=kind)
            assert answer.status_code == 200, (kind, answer.text[:300])
            body = answer.json()
            assert (body["status"], body["state_version"]) == ("task_error", 0), (kind, answer.text[:300])
        view = (await wire.http.get(f"/sessions/{wire.session}")).json()
        await assert_alive(wire)

    if task == "writes":
        assert view["state"] == {}


@pytest.mark.parametrize("task", ["raises", "raises_in_a_thread"])
async def test_any_exception_fails_the_task_only(face, task):
    async with served(face, workflow()) as url, Wire(url) as wire:
        await wire.start("bad")
        for kind in ERRORS:
            answer = await call(wire, task, kind=kind)
            assert (answer.status_code, answer.json()["status"]) == (200, "task_error"), (kind, answer.text)
            assert "password" not in answer.text
        view = (await wire.http.get(f"/sessions/{wire.session}")).json()
        await assert_alive(wire)

    assert view["state"] == {}


async def test_a_guard_that_returns_what_has_no_truth_is_a_failed_action(face):
    async with served(face, workflow()) as url, Wire(url) as wire:
        await wire.start("bad")
        answer = await wire.execute("stage_transition", workflow_name="bad", stage="odd")
        await assert_alive(wire)

    assert (answer.status_code, answer.json()["status"], answer.json()["current_stage"]) == (200, "task_error", "one")
    assert "password" not in answer.text


async def test_threads_that_hang_stop_no_other_requests(face):
    made = workflow()
    release = threading.Event()
    running = []

    @made.task(stage="one", timeout=0.2)
    def hangs(state: State) -> None:
        running.append(1)
        release.wait(60)
        state.set("late", True)

    async with served(face, made) as url, Wire(url) as wire:
        try:
            ids = []
            for _ in range(60):
                await wire.start("bad")
                ids.append(wire.session)

            async def hang(session):
                body = {"workflow_name": "bad", "action": "method_call", "task": "hangs"}
                return await wire.http.post("/execute", json=body, headers={"x-session-id": session})

            answers = await asyncio.gather(*(hang(session) for session in ids))
            assert {answer.status_code for answer in answers} == {504}
            async with asyncio.timeout(20):
                assert (await call(wire, "fine")).json()["result"] == "fine"
                # All threads are taken: such a task waits for one, up to its time limit.
                assert len(running) < 60
        finally:
            release.set()
        async with asyncio.timeout(20):
            await assert_alive(wire)
        view = (await wire.http.get(f"/sessions/{ids[0]}")).json()

    # The call was over before it wrote.
    assert view["state"] == {}


async def test_a_task_that_ignores_its_cancellation_does_not_block_its_session(face):
    made = workflow()
    stubborn = []
    answered = asyncio.Event()

    @made.task(stage="one", timeout=0.2)
    async def ignores(state: State) -> None:
        while not answered.is_set():
            try:
                await answered.wait()
            except asyncio.CancelledError:
                stubborn.append(1)
        try:
            state.set("late", True)
        except RuntimeError:
            stubborn.append(2)

    async with served(face, made) as url, Wire(url) as wire:
        await wire.start("bad")
        answer = await call(wire, "ignores")
        assert answer.status_code == 504
        await assert_alive(wire)
        # The task goes on until here, so the answer and the session have not waited for it.
        assert 2 not in stubborn
        answered.set()
        async with asyncio.timeout(10):
            while 2 not in stubborn:
                await asyncio.sleep(0.05)
        view = (await wire.http.get(f"/sessions/{wire.session}")).json()

    assert view["state"] == {}


async def test_more_reports_than_a_client_reads_end_with_the_result(face):
    async with served(face, workflow()) as url, Wire(url) as wire:
        await wire.start("bad")
        answer = await call(wire, "reports", headers={"accept": "text/event-stream"})

    frames = [frame for frame in answer.text.split("\n\n") if frame.startswith("event: ")]
    assert frames[-1].startswith("event: result")
    assert json.loads(frames[-1].partition("data: ")[2])["result"] == 1


@pytest.mark.parametrize("phase", ["stream", "queue"])
async def test_clients_that_disconnect_free_the_session(face, phase):
    made = workflow()
    started, stopped = asyncio.Event(), asyncio.Event()

    @made.task(stage="one")
    async def waits(state: State, context: ToolContext) -> None:
        state.set("written", True)
        context.report("runs")
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with served(face, made) as url, Wire(url) as wire:
        await wire.start("bad")

        async def connect():
            body = json.dumps({"workflow_name": "bad", "action": "method_call", "task": "waits"})
            head = [
                "POST /execute HTTP/1.1",
                "Host: x",
                "Accept: text/event-stream",
                f"X-Session-Id: {wire.session}",
                f"Content-Length: {len(body)}",
            ]
            parts = urlsplit(url)
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
            writer.write(("\r\n".join([*head, "", ""]) + body).encode())
            await writer.drain()
            return reader, writer

        reader, writer = await connect()
        async with asyncio.timeout(20):
            await started.wait()
            await reader.readuntil(b"event: progress")
        others = [await connect() for _ in range(10)] if phase == "queue" else []
        await asyncio.sleep(0.1)
        for _, other in others:
            other.close()
        writer.close()
        async with asyncio.timeout(20):
            await stopped.wait()
            await assert_alive(wire)
        view = (await wire.http.get(f"/sessions/{wire.session}")).json()

    assert view["state"] == {}


@pytest.mark.skipif(sys.platform == "win32", reason="the loop of Windows has no such limit")
async def test_headers_that_are_no_text_are_refused(face):
    async with served(face, workflow()) as url, Wire(url) as wire:
        await wire.start("bad")
        for name, value in (
            ("x-session-id", b"\xff\xfe"),
            ("x-session-id", b"x" * 5000),
            ("idempotency-key", "schlüssel".encode()),
            ("idempotency-key", b"k" * 256),
            ("if-match", b"-1"),
            ("if-match", b"99999999999999999999999"),
            ("x-uaip-profile", b"\xff"),
        ):
            answer = await wire.execute("handshake", {name: value}, workflow_name="bad")
            assert answer.status_code in {400, 404}, (name, answer.text)
            assert isinstance(answer.json()["detail"], str)
        await assert_alive(wire)

"""Queued runs and the workers that execute them, in processes of their own."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from datetime import datetime, timedelta, timezone

import pytest

from turntree import ConflictError, Session, agent, store
from turntree._cli import main
from turntree._worker import Worker
from turntree.upp import AssistantMessage, ToolCall, UserMessage, scripted, tool

MODULE = '''
import asyncio, os, time
from turntree import agent
from turntree.upp import ToolCall, scripted, tool

def record(text):
    with open("effects", "a") as file:
        file.write(text + "\\n")
        file.flush()
        os.fsync(file.fileno())

def blocks_once(name):
    """Block until the process is killed, the first time."""
    is_first = not os.path.exists("blocked")
    open("blocked", "w").close()
    # The test kills the process after this.
    record(name)
    if is_first:
        time.sleep(600)
    return f"{name} done"

@tool(idempotent=True)
def repeatable() -> str:
    """Do it."""
    return blocks_once("repeatable")

@tool
def once() -> str:
    """Do it."""
    return blocks_once("once")

@tool
async def slow() -> str:
    """Last until the file `go` exists, and a second longer."""
    record("slow starts")
    while not os.path.exists("go"):
        await asyncio.sleep(0.02)
    await asyncio.sleep(1)
    record("slow ends")
    return "ok"

def reply(request):
    last = request.messages[-1]
    if last.type == "user" and last.text in ("repeatable", "once", "slow"):
        return ToolCall(f"call-{last.text}", last.text, {})
    if last.type == "user":
        time.sleep(0.002)
    return f"answer to {last.text}" if last.type == "user" else "finished"

helper = agent(model=scripted(reply), tools=[repeatable, once, slow], name="helper")
'''


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/runs.db"
    server = os.environ.get("TURNTREE_TEST_POSTGRES")
    if server is None:
        if os.environ.get("TURNTREE_REQUIRE_SERVICES"):
            pytest.fail("TURNTREE_TEST_POSTGRES is not set")
        pytest.skip("NOT TESTED with postgres: TURNTREE_TEST_POSTGRES is not set")
    name = "".join(letter if letter.isalnum() else "_" for letter in request.node.name).lower()[-40:]
    return f"{server}{'&' if '?' in server else '?'}schema=w_{name}_{uuid.uuid4().hex[:12]}"


@pytest.fixture
def start_worker(tmp_path, url):
    (tmp_path / "helpers.py").write_text(MODULE)
    processes = []

    def start(*options):
        command = [sys.executable, "-m", "turntree", "worker", "helpers:helper", "--store", url, *options]
        with (tmp_path / f"worker{len(processes)}.log").open("wb") as log:
            process = subprocess.Popen(command, cwd=tmp_path, stderr=log, stdout=log)
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()


async def until(saved, run_ids, status="done", seconds=60):
    """Wait for the status of all runs, and return them."""
    deadline = time.monotonic() + seconds
    while True:
        runs = [await saved.run(id) for id in run_ids]
        if all(run.status == status for run in runs):
            return runs
        assert time.monotonic() < deadline, Counter((run.status, run.error) for run in runs)
        await asyncio.sleep(0.05)


async def until_file(path, text, seconds=60):
    deadline = time.monotonic() + seconds
    while not (path.exists() and text in path.read_text()):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


def texts(sess):
    return [message.text for message in sess.tree.history()]


async def test_two_workers_execute_each_turn_once_and_in_order(url, start_worker):
    async with store.from_url(url) as saved:
        ids = [await saved.enqueue(f"s{number}", f"t{turn}") for turn in range(3) for number in range(40)]
        start_worker()
        start_worker()

        runs = await until(saved, ids, seconds=90)

        assert [run.turn.response.text for run in runs[:40]] == ["answer to t0"] * 40
        helper = agent(model=scripted(["unused"]))
        expected = [text for turn in range(3) for text in (f"t{turn}", f"answer to t{turn}")]
        for number in range(40):
            assert texts(await Session.load(saved, f"s{number}", helper)) == expected


async def test_a_killed_worker_is_taken_over_and_an_idempotent_call_repeated(url, start_worker, tmp_path):
    async with store.from_url(url) as saved:
        run_id = await saved.enqueue("s", "repeatable")
        after = await saved.enqueue("s", "next")
        first = start_worker("--lease", "5")  # longer than a stall before the tool blocks
        await until_file(tmp_path / "effects", "repeatable")
        first.kill()
        start_worker()

        run, _ = await until(saved, [run_id, after])

        assert run.attempts == 2
        assert (tmp_path / "effects").read_text().split() == ["repeatable", "repeatable"]
        helper = agent(model=scripted(["unused"]))
        sent = [message.text for message in (await Session.load(saved, "s", helper)).tree.history()]
        assert sent.count("repeatable") == 1
        assert sent[-1] == "answer to next"


async def test_a_call_of_a_killed_worker_that_is_not_idempotent_waits_for_its_resolution(url, start_worker, tmp_path):
    async with store.from_url(url) as saved:
        run_id = await saved.enqueue("s", "once")
        after = await saved.enqueue("s", "next")
        first = start_worker("--lease", "5")  # longer than a stall before the tool blocks
        await until_file(tmp_path / "effects", "once")
        first.kill()
        start_worker()
        (waiting,) = await until(saved, [run_id], "waiting")
        assert "call-once" in waiting.error
        assert (await saved.run(after)).status == "queued"

        sys.path.insert(0, str(tmp_path))
        try:
            import helpers
        finally:
            sys.path.remove(str(tmp_path))
            sys.modules.pop("helpers", None)
        sess = await Session.load(saved, "s", helpers.helper)
        sess.resolve(sess.in_doubt[0], result="it was done")
        await sess.save()
        run, _ = await until(saved, [run_id, after])

        assert (tmp_path / "effects").read_text().split() == ["once"]
        assert run.turn.response.text == "finished"


async def test_sigterm_ends_a_worker_after_its_run(url, start_worker, tmp_path):
    async with store.from_url(url) as saved:
        run_id = await saved.enqueue("s", "slow")
        after = await saved.enqueue("s", "next")
        worker = start_worker()
        await until_file(tmp_path / "effects", "slow starts")

        worker.send_signal(signal.SIGTERM)
        (tmp_path / "go").touch()

        assert await asyncio.to_thread(worker.wait, 30) == 0
        assert (await saved.run(run_id)).status == "done"
        assert (await saved.run(after)).status == "queued"


class Running:
    """A worker in this process."""

    def __init__(self, saved, model, **options):
        tools = options.pop("tools", ())
        helper = model if not callable(model) else agent(model=scripted(model), name="helper", tools=tools)
        self.worker = Worker(saved, helper, **{"backoff": 0.05, **options})

    async def __aenter__(self):
        self.task = asyncio.create_task(self.worker.run())
        return self.worker

    async def __aexit__(self, *_):
        self.worker.stop()
        await self.task


async def test_a_failed_run_is_tried_again_and_then_given_up(url):
    tries = Counter()

    def reply(request):
        text = request.messages[-1].text
        tries[text] += 1
        if text == "bad" or tries[text] < 3:
            raise RuntimeError("the model is not there")
        return "recovered"

    async with store.from_url(url) as saved:
        good = await saved.enqueue("good", "good")
        bad = await saved.enqueue("bad", "bad")
        async with Running(saved, reply):
            (run,) = await until(saved, [good])
            assert run.turn.response.text == "recovered"
            assert run.error is None
            (run,) = await until(saved, [bad], "failed")

        assert "the model is not there" in run.error
        assert tries == {"good": 3, "bad": 3}
        sess = await Session.load(saved, "good", agent(model=scripted(["unused"])))
        assert texts(sess) == ["good", "recovered"]


async def test_a_run_waits_for_approval_in_another_process(url):
    called = []

    @tool(approval="ask")
    def pay() -> str:
        """Pay."""
        called.append("pay")
        return "paid"

    def reply(request):
        return ToolCall("c1", "pay", {}) if request.messages[-1].text == "pay" else "thanks"

    async with store.from_url(url) as saved:
        run_id = await saved.enqueue("s", "pay")
        async with Running(saved, reply, tools=[pay]):
            (run,) = await until(saved, [run_id], "waiting")
            await asyncio.sleep(0.6)
            assert (await saved.run(run_id)).status == "waiting"
            assert called == []
            sess = await Session.load(saved, "s", agent(model=scripted(reply), tools=[pay]))
            sess.approve_all()
            await sess.save()
            (run,) = await until(saved, [run_id])

        assert called == ["pay"]
        assert run.turn.response.text == "thanks"


@pytest.mark.parametrize("change", ["metadata", "turn"])
async def test_a_writer_without_a_lease_does_not_repeat_the_tools_of_a_run(url, change):
    """Another process changes the session while a tool runs. The worker's next save is then a conflict."""
    called = []

    @tool
    async def pay() -> str:
        """Pay."""
        called.append("pay")
        other = await Session.load(saved, "s", agent(model=scripted(["noted"])))
        if change == "turn":
            other.discard()
            await other.run("A note.")
        else:
            other.metadata["seen"] = True
            await other.save()
        return "paid"

    def reply(request):
        if request.messages[-1].type == "user":
            return ToolCall("c1", "pay", {})
        return "thanks"

    async with store.from_url(url) as saved:
        run_id = await saved.enqueue("s", "pay")
        async with Running(saved, reply, tools=[pay]):
            (run,) = await until(saved, [run_id])

        assert called == ["pay"]
        assert (run.attempts, run.turn.response.text) == (1, "thanks")
        sess = await Session.load(saved, "s", agent(model=scripted([])))
        assert not sess.is_unfinished
        stored = [message.text for node in sess.tree.nodes.values() for message in node.thread.messages]
        assert stored.count("pay") == stored.count("thanks") == 1
        assert stored.count("noted") == (change == "turn")


async def test_a_request_for_approval_survives_a_writer_without_a_lease(url):
    called = []

    @tool
    async def look() -> str:
        """Look."""
        called.append("look")
        other = await Session.load(saved, "s", agent(model=scripted([])))
        other.metadata["seen"] = True
        await other.save()
        return "seen"

    @tool(approval="ask")
    def pay() -> str:
        """Pay."""
        called.append("pay")
        return "paid"

    def reply(request):
        if request.messages[-1].type == "user":
            return [ToolCall("c1", "look", {}), ToolCall("c2", "pay", {})]
        return "thanks"

    async with store.from_url(url) as saved:
        run_id = await saved.enqueue("s", "go")
        async with Running(saved, reply, tools=[look, pay]):
            await until(saved, [run_id], "waiting")
            sess = await Session.load(saved, "s", agent(model=scripted(reply), tools=[look, pay]))
            sess.approve_all()
            await sess.save()
            (run,) = await until(saved, [run_id])

        assert called == ["look", "pay"]
        assert run.turn.response.text == "thanks"


async def test_a_session_is_resumed(url):
    def reply(request):
        return "fine"

    def fail(request):
        raise RuntimeError("no")

    async with store.from_url(url) as saved:
        sess = await Session.open(saved, "s", agent(model=scripted(fail)))
        with pytest.raises(RuntimeError):
            await sess.run("hello")
        async with Running(saved, reply):
            (run,) = await until(saved, [await saved.enqueue("s", None)])
            assert run.turn.response.text == "fine"
            (run,) = await until(saved, [await saved.enqueue("s", None)])
            assert run.turn is None


async def test_a_committed_turn_is_not_executed_again(url):
    """The worker died between the save of the turn and the end of the run."""
    calls = []

    def reply(request):
        calls.append(1)
        return f"answer {len(calls)}"

    async with store.from_url(url) as saved:
        run_id = await saved.enqueue("s", "hello")
        (row, token, _) = await saved._native.claim("dead", [], 0.2)
        sess = await Session.open(store.Store(saved._native.with_fence(token)), "s", agent(model=scripted(reply)))
        await sess.run(UserMessage.model_validate_json(row[-1]))
        async with Running(saved, reply):
            (run,) = await until(saved, [run_id])

        assert len(calls) == 1
        assert run.turn.response.text == "answer 1"
        assert run.attempts == 2
        with pytest.raises(ConflictError, match="lease"):
            await sess.run("too late")


async def test_priority_and_not_before(url):
    order = []

    def reply(request):
        order.append(request.messages[-1].text)
        return "ok"

    async with store.from_url(url) as saved:
        ids = [
            await saved.enqueue(name, name, priority=level) for name, level in [("low", -1), ("mid", 0), ("high", 5)]
        ]
        async with Running(saved, reply, concurrency=1):
            await until(saved, ids)
            soon = datetime.now(timezone.utc) + timedelta(seconds=2)
            await until(saved, [await saved.enqueue("a", "later", not_before=soon, priority=9)])
            assert datetime.now(timezone.utc) >= soon

        assert order == ["high", "mid", "low", "later"]


async def test_an_idle_worker_wakes_within_two_seconds(url, start_worker):
    async with store.from_url(url) as saved:
        start_worker()
        await until(saved, [await saved.enqueue("s", "first")], seconds=60)
        took = []
        # On a busy machine the worker also waits for a processor: one fast answer of many shows that it was woken.
        while len(took) < 10 and min(took, default=2) >= 2:
            await asyncio.sleep(1.5)
            started = time.monotonic()
            await until(saved, [await saved.enqueue("s", "second")])
            took.append(time.monotonic() - started)

        assert min(took) < 2


async def test_a_run_for_another_agent_is_left_alone(url):
    async with store.from_url(url) as saved:
        other = await saved.enqueue("a", "hello", agent="other")
        mine = await saved.enqueue("b", "hello", agent=agent(model=scripted(["x"]), name="helper"))
        async with Running(saved, lambda request: "ok"):
            await until(saved, [mine])

        assert (await saved.run(other)).status == "queued"


async def test_arguments_of_enqueue(url):
    async with store.from_url(url) as saved:
        message = UserMessage("hello", id="order-7")
        assert await saved.enqueue("s", message) == await saved.enqueue("s", message) == "order-7"
        run = saved.run_sync(saved.enqueue_sync("s", ["two", {"type": "text", "text": "blocks"}]))
        assert (run.session, run.status, run.turn, run.error, run.attempts) == ("s", "queued", None, None, 0)
        with pytest.raises(KeyError, match="unknown"):
            await saved.run("unknown")
        with pytest.raises(ValueError, match="session id"):
            await saved.enqueue("", "x")
        with pytest.raises(TypeError, match="user message"):
            await saved.enqueue("s", AssistantMessage("x"))
        with pytest.raises(TypeError):
            await saved.enqueue("s", 7)
        with pytest.raises(TypeError, match="agent must be an agent"):
            await saved.enqueue("s", "x", agent=7)
        with pytest.raises(ValueError, match="priority must be from"):
            await saved.enqueue("s", "x", priority=2**31)
    with pytest.raises(ValueError, match="max_attempts"):
        Worker(store.memory(), agent(model=scripted(["x"])), max_attempts=0)


async def test_a_store_in_memory_has_a_queue():
    saved = store.memory()
    async with Running(saved, lambda request: "ok"):
        (run,) = await until(saved, [await saved.enqueue("s", "hello")])
        assert run.turn.response.text == "ok"


async def test_a_store_without_a_queue_says_so(tmp_path):
    with pytest.raises(ValueError, match="needs SQLite or PostgreSQL"):
        await store.file(tmp_path).enqueue("s", "hello")


def command(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "turntree", *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )


def test_enqueue_prints_the_id_of_the_run(url, tmp_path):
    plain = command("enqueue", "--store", url, "--session", "s", "hello", cwd=tmp_path)
    as_json = command("enqueue", "--store", url, "--session", "s", "--json", "again", cwd=tmp_path)
    wrong = command("enqueue", "--store", url, "--session", "s", cwd=tmp_path)

    with store.from_url(url) as saved:
        assert saved.run_sync(plain.stdout.splitlines()[-1]).status == "queued"
        assert saved.run_sync(json.loads(as_json.stdout)["run"]).session == "s"
    assert wrong.returncode == 2
    assert "--resume" in wrong.stderr


def test_a_worker_names_what_is_wrong_with_its_agent(url, tmp_path):
    (tmp_path / "helpers.py").write_text(MODULE)
    for place, reason in [("helpers", "MODULE:AGENT"), ("nowhere:x", "no module"), ("helpers:reply", "not an agent")]:
        done = command("worker", place, "--store", url, cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        assert reason in done.stderr


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["worker", "agent_of_wrong_use:MAIN", "--store", "bogus://x"], "'bogus://…' is not the URL of a store"),
        (["worker", "agent_of_wrong_use:MAIN", "--store", "file:FOLDER"], "has no queue of runs"),
        (["worker", "agent_of_wrong_use:MAIN", "--store", "memory://", "--concurrency", "0"], "must be at least 1"),
        (["enqueue", "--store", "file:FOLDER", "--session", "s", "Hi"], "has no queue of runs"),
        (["enqueue", "--store", "memory://", "--session", "s", "--priority", "99999999999", "Hi"], "priority must be"),
    ],
)
def test_a_store_or_an_option_that_cannot_serve_is_wrong_use(command, words, tmp_path, monkeypatch, capsys):
    (tmp_path / "agent_of_wrong_use.py").write_text(
        "from turntree import agent, upp\nMAIN = agent(model=upp.scripted([]))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "agent_of_wrong_use", raising=False)

    status = main([part.replace("file:FOLDER", f"file://{tmp_path}/store") for part in command])

    assert status == 2
    assert words in capsys.readouterr().err

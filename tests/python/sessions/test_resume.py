"""Runs that are cancelled, aborted or killed at any point resume to the same result. UAP-1.0 §6, §13."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from turntree import ApprovalRequired, Session, SessionError, agent, session
from turntree.upp import scripted, tool


def call(name, /, **arguments):
    return {"toolCallId": f"{name} {arguments}", "toolName": name, "arguments": arguments}


def essence(turn):
    """A turn without ids, times and the completion order of tools, which differ between runs."""
    plain = json.loads(turn.model_dump_json())

    def strip(value):
        if isinstance(value, list):
            return [strip(item) for item in value]
        if isinstance(value, dict):
            return {key: strip(item) for key, item in value.items() if key not in {"id", "timestamp", "duration"}}
        return value

    plain = strip(plain)
    plain["toolExecutions"].sort(key=lambda record: record["toolCallId"])
    return plain


class Gate:
    """Blocks the first caller that reaches `place` until it is cancelled; all other calls pass."""

    def __init__(self, place=None):
        self.place = place
        self.reached = asyncio.Event()
        self.opened = False
        self.released = asyncio.Event()

    async def __call__(self, place):
        await asyncio.sleep(0)
        if place == self.place and not self.opened:
            self.opened = True
            self.reached.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.released.set()

    async def passed(self):
        """Wait while a caller is blocked."""
        if self.opened:
            await self.released.wait()


PLACES = [
    "model 0",
    "model 1",
    "model 2",
    "tool fast",
    "tool slow",
    "tool bad",
    "approval",
    "on_tool_call",
    "on_before_call",
    "on_after_call",
    "on_tool_error",
    "on_step_start",
    "on_step_end 1",
    "on_step_end 3",
    "stop_condition 1",
    "stop_condition 3",
    "on_complete",
]


class World:
    """An agent whose model, tools and hooks call the gate, and a record of its calls."""

    def __init__(self, place=None):
        self.gate = gate = Gate(place)
        self.done = done = []
        self.answers = answers = []

        @tool
        async def fast(n: int) -> int:
            await gate("tool fast")
            done.append(("fast", n))
            return n

        @tool
        async def slow(n: int) -> int:
            await gate("tool slow")
            for _ in range(25):  # Ends after the other calls. Turns of the loop, not seconds: a machine may stall.
                await asyncio.sleep(0)
            # A call that ends at the moment of the cancellation is repeated, which no assertion expects.
            await gate.passed()
            done.append(("slow", n))
            return n

        @tool
        async def bad() -> None:
            await gate("tool bad")
            done.append(("bad", 0))
            message = "it broke"
            raise ValueError(message)

        async def approval(_params):
            await gate("approval")
            return True

        @tool(approval=approval, inline=True)  # In a thread it could also end at the moment of the cancellation.
        def guarded(n: int) -> int:
            done.append(("guarded", n))
            return n

        async def model(request):
            cycle = sum(message.type == "assistant" for message in request.messages)
            await gate(f"model {cycle}")
            answers.append(cycle)
            script = [
                [call("fast", n=1), call("slow", n=2), call("bad"), call("guarded", n=3)],
                [call("fast", n=4)],
                "done",
            ]
            return script[cycle]

        def hook(name, *, stepped=False, value=None):
            async def hooked(first=None, *_rest):
                number = getattr(first, "step", first)
                await gate(f"{name} {number}" if stepped else name)
                return value

            return hooked

        self.agent = agent(
            model=scripted(model),
            tools=[fast, slow, bad, guarded],
            strategy={
                "on_step_start": hook("on_step_start"),
                "on_step_end": hook("on_step_end", stepped=True),
                "stop_condition": hook("stop_condition", stepped=True, value=False),
                "on_complete": hook("on_complete"),
            },
            tool_strategy={
                "on_tool_call": hook("on_tool_call"),
                "on_before_call": hook("on_before_call", value=True),
                "on_after_call": hook("on_after_call"),
                "on_error": hook("on_tool_error"),
            },
        )


async def plain():
    return essence(await session(World().agent).run("go"))


DONE = [("bad", 0), ("fast", 1), ("fast", 4), ("guarded", 3), ("slow", 2)]


@pytest.mark.parametrize("how", ["cancel", "close", "cancel, then reload"])
@pytest.mark.parametrize("place", PLACES)
async def test_run_cancelled_at_any_point_resumes_to_the_same_turn(place, how):
    world = World(place)
    sess = session(world.agent)
    if how == "close":
        stream = sess.stream("go")

        async def read():
            async for _ in stream:
                pass

        reading = asyncio.create_task(read())
        await asyncio.wait_for(world.gate.reached.wait(), 30)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await stream.aclose()
    else:
        task = asyncio.create_task(sess.run("go"))
        await asyncio.wait_for(world.gate.reached.wait(), 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert sess.tree.history() == []
    if "reload" in how:
        text = sess.to_json()
        sess = Session.from_json(text, world.agent)
        assert sess.to_json() == text
    turn = await asyncio.wait_for(sess.resume(), 30)

    assert essence(turn) == await plain()
    assert sorted(world.done) == DONE
    assert world.answers == [0, 1, 2]
    assert sess.tree.history() == list(turn.messages)
    assert sess.state is None


@pytest.mark.parametrize("place", PLACES)
async def test_session_continues_after_a_stream_aborted_at_any_point(place):
    world = World(place)
    sess = session(world.agent)
    stream = sess.stream("go")
    waiting = asyncio.ensure_future(stream.turn)
    await asyncio.wait_for(world.gate.reached.wait(), 30)

    stream.abort()
    turn = await asyncio.wait_for(waiting, 30)

    assert sess.tree.history() == list(turn.messages)
    calls = [call.tool_call_id for message in turn.messages for call in getattr(message, "tool_calls", None) or ()]
    answers = [
        result.tool_call_id for message in turn.messages if message.type == "tool_result" for result in message.results
    ]
    assert calls == answers
    with pytest.raises(SessionError, match="no unfinished run"):
        await sess.resume()
    assert Session.from_json(sess.to_json(), world.agent).to_dict() == sess.to_dict()


@pytest.mark.parametrize("cuts", [2, 5])
async def test_run_cancelled_repeatedly_resumes_to_the_same_turn(cuts):
    chance = random.Random(cuts)
    for _ in range(8):
        world = World()
        sess = session(world.agent)
        for _ in range(cuts):
            start = sess.resume() if sess.state else sess.run("go")
            task = asyncio.create_task(start)
            for _ in range(chance.randrange(40)):
                await asyncio.sleep(0)
            if not task.cancel():
                break
            await asyncio.gather(task, return_exceptions=True)
            sess = Session.from_json(sess.to_json(), world.agent)
        turn = None
        if sess.tree.history() == []:
            turn = await (sess.resume() if sess.state else sess.run("go"))
        assert turn is None or essence(turn) == await plain()
        assert len(sess.tree.history()) == 6
        assert world.answers[-1] == 2


async def test_run_cancelled_during_its_save_is_in_the_tree():
    saving = asyncio.Event()

    class Slow:
        async def save(self, _key, _data):
            saving.set()
            await asyncio.Event().wait()

        async def load(self, _key):
            return None

        async def delete(self, _key):
            pass

    sess = session(agent(model=scripted(["hello"])), persistence=Slow())
    task = asyncio.create_task(sess.run("hi"))
    await saving.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert [message.text for message in sess.tree.history()] == ["hi", "hello"]
    with pytest.raises(SessionError, match="no unfinished run"):
        await sess.resume()


async def test_resume_after_a_failed_last_hook_does_not_call_the_model_again():
    asked, failing = [], [True]

    def model(_request):
        asked.append(1)
        return "done"

    def on_step_end(_step, _result):
        if failing.pop():
            message = "not yet"
            raise ValueError(message)

    sess = session(agent(model=scripted(model), strategy={"on_step_end": on_step_end}))
    with pytest.raises(ValueError, match="not yet"):
        await sess.run("hi")
    failing.append(False)

    turn = await sess.resume()

    assert (turn.response.text, len(asked)) == ("done", 1)


# Stores


class Shelf:
    """A store in one directory that writes atomically: a new file, then a rename."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.saves = 0

    def _path(self, key):
        return self.folder / (key.replace(":", "-") + ".json")

    def save(self, key, data):
        self.saves += 1
        new = self._path(key).with_suffix(".new")
        new.write_text(data)
        new.replace(self._path(key))

    def load(self, key):
        path = self._path(key)
        return path.read_text() if path.exists() else None

    def delete(self, key):
        self._path(key).unlink(missing_ok=True)


# Three steps, two answers with tool calls, five tools of which one is approved by a function, the start and the end.
# With "tool" the approval is saved too.
@pytest.mark.parametrize(
    ("interval", "saves"), [("turn", 1 + 1), ("step", 1 + 3 + 1 + 1), ("tool", 1 + 2 + 1 + 5 + 3 + 1)]
)
async def test_session_is_saved_at_the_configured_interval(tmp_path, interval, saves):
    shelf = Shelf(tmp_path)
    world = World()

    await session(world.agent, persistence=shelf, save_interval=interval).run("go")

    assert shelf.saves == saves


def test_unknown_interval_is_rejected():
    with pytest.raises(ValueError, match='save_interval must be "turn", "step" or "tool", not \'often\''):
        session(World().agent, save_interval="often")


async def test_store_failure_during_a_run_stops_it_and_loses_no_data(tmp_path):
    class Full(Shelf):
        full = False

        def save(self, key, data):
            if self.full and self.saves >= 3:
                message = "disk full"
                raise OSError(message)
            super().save(key, data)

    shelf = Full(tmp_path)
    shelf.full = True
    world = World()
    sess = session(world.agent, persistence=shelf, save_interval="tool")
    with pytest.raises(OSError, match="disk full"):
        await sess.run("go")
    shelf.full = False

    turn = await sess.resume()

    assert essence(turn) == await plain()
    assert sorted(world.done) == DONE


WORKER = """
    import asyncio, json, sys
    from pathlib import Path

    sys.path.insert(0, sys.argv[1])
    from test_resume import Shelf, call
    from turntree import ApprovalRequired, Session, agent, session
    from turntree.upp import scripted, tool

    folder, id = Path(sys.argv[2]), sys.argv[3]
    ROUNDS, CALLS = 6, 3


    class Told(Shelf):
        def save(self, key, data):
            super().save(key, data)
            # The results that the saved file contains.
            unfinished = json.loads(data)["metadata"].get("turntree", {}).get("unfinished", {})
            slots = unfinished.get("run", {}).get("phase", {})
            slots = slots.get("tools", {}).get("slots", []) if isinstance(slots, dict) else []
            answered = [slot["answered"]["toolCallId"] for slot in slots if "answered" in slot]
            with (folder / "safe.log").open("a") as log:
                log.write(" ".join(answered) + "\\n")
            print("saved", flush=True)


    def note(line):
        with (folder / "done.log").open("a") as log:
            log.write(line + "\\n")


    @tool(approval=lambda params: "ask" if params["n"] == 2 else True)
    async def work(id: str, n: int) -> str:
        await asyncio.sleep(0.02 * n)  # the pace of the tool: kills also fall between the ends of calls
        # Before the first kill the run does not end, however late the kill is.
        while id.startswith(f"c{ROUNDS - 1}-") and not (folder / "killed").exists():
            await asyncio.sleep(0.02)
        note(id)
        return id


    def model(request):
        cycle = sum(message.type == "assistant" for message in request.messages)
        if cycle == ROUNDS:
            return "all done"
        calls = [(f"c{cycle}-{n}", n) for n in range(CALLS)]
        return [{"toolCallId": id, "toolName": "work", "arguments": {"id": id, "n": n}} for id, n in calls]


    async def main():
        helper, shelf = agent(model=scripted(model), tools=[work]), Told(folder)
        if shelf.load(f"session:{id}") is None:
            sess = session(helper, id=id, persistence=shelf, save_interval="tool")
        else:
            sess = await Session.load(shelf, id, helper, save_interval="tool")
        print("ready", flush=True)
        while not sess.tree.history():
            try:
                await (sess.resume() if sess.state else sess.run("go"))
            except ApprovalRequired:
                sess.approve_all()
                for pending in sess.in_doubt:
                    sess.resolve(pending, retry=True)
        print("over", flush=True)


    asyncio.run(main())
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
def test_worker_killed_at_any_time_loses_no_saved_result(tmp_path):
    id = "00000000-0000-4000-8000-000000000001"
    script = tmp_path / "worker.py"
    script.write_text(textwrap.dedent(WORKER))
    chance, kills, over = random.Random(7), 0, False
    for _ in range(40):
        worker = subprocess.Popen(
            [sys.executable, str(script), str(Path(__file__).parent), str(tmp_path), id],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
        # Saves are counted, not seconds: on a busy machine too, each process gets further than the one before it.
        told = [worker.stdout.readline() for _ in range(chance.randrange(2, 12))]
        time.sleep(chance.uniform(0, 0.03))  # kills also fall between two saves
        worker.send_signal(signal.SIGKILL)
        rest, _ = worker.communicate()
        kills += worker.returncode == -signal.SIGKILL
        (tmp_path / "killed").touch()
        if "over\n" in told or rest.endswith("over\n"):
            over = True
            break
    assert over
    assert kills > 0

    saved = json.loads(Shelf(tmp_path).load(f"session:{id}"))
    messages = saved["threadTree"]["nodes"][0]["thread"]["messages"]
    assert len(messages) == 1 + 6 * 2 + 1
    calls = [call["toolCallId"] for message in messages for call in message.get("toolCalls") or []]
    assert calls == [f"c{cycle}-{n}" for cycle in range(6) for n in range(3)]
    answers = [result["toolCallId"] for message in messages for result in message.get("results", [])]
    assert answers == calls

    # A tool runs again only if the process was killed between its end and the save of its result.
    ran = (tmp_path / "done.log").read_text().split()
    assert set(ran) == set(calls)
    assert len(ran) - len(calls) <= kills * 3
    safe = {id for line in (tmp_path / "safe.log").read_text().splitlines() for id in line.split()}
    assert safe <= set(calls)


async def test_tool_calls_with_saved_results_never_run_again(tmp_path):
    """Each saved version of the file is resumed by a separate process."""
    texts = []

    class Every(Shelf):
        def save(self, key, data):
            super().save(key, data)
            texts.append((data, len(world.done), len(world.answers)))

    world = World()
    await session(world.agent, persistence=Every(tmp_path), save_interval="tool").run("go")
    expected = await plain()

    for text, _, answers in texts[:-1]:
        other = World()
        sess = Session.from_json(text, other.agent)
        run = json.loads(text)["metadata"]["turntree"]["unfinished"]["run"]
        slots = run["phase"]["tools"]["slots"] if "tools" in run["phase"] else []
        # A tool that has returned may still wait for its later hooks.
        answered = len(run["collected"]["executions"]) + sum("returned" in slot for slot in slots)
        for pending in sess.in_doubt:
            sess.resolve(pending, retry=True)
        turn = await sess.resume()
        assert essence(turn) == expected
        assert len(other.done) == 5 - answered
        assert len(other.answers) == 3 - answers


async def test_run_waiting_for_approval_is_saved_before_a_kill():
    @tool(approval="ask")
    def pay() -> str:
        return "paid"

    def model(request):
        return "done" if request.messages[-1].type == "tool_result" else call("pay")

    kept = {}

    class Dict:
        def save(self, key, data):
            kept[key] = data

        def load(self, key):
            return kept.get(key)

        def delete(self, key):
            kept.pop(key, None)

    helper = agent(model=scripted(model), tools=[pay])
    sess = session(helper, persistence=Dict())
    with pytest.raises(ApprovalRequired):
        await sess.run("go")
    loaded = await Session.load(Dict(), sess.id, helper)

    assert loaded.pending == sess.pending
    with pytest.raises(SessionError, match="wait for approval"):
        await loaded.run("something else")

"""Tool calls that may have been executed before their process was killed, and how they are resolved."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from session_support import call

from turntree import ApprovalRequired, Session, SessionError, agent, handoff, session
from turntree.execution import parallel, route, sequence
from turntree.store import memory
from turntree.upp import ToolCall, scripted, tool

PROGRAM = Path(__file__).with_name("killed_program.py")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL on Windows")


class Process:
    """Starts the program on one folder."""

    def __init__(self, folder, kind="plain"):
        self.folder = folder
        self.kind = kind
        (folder / "deadly").touch()

    def start(self, command, *arguments):
        arguments = [sys.executable, str(PROGRAM), str(self.folder), command, self.kind, *map(json.dumps, arguments)]
        return subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)

    def kill(self, command="run", *arguments):
        """The process dies in `pay`."""
        ended = self.start(command, *arguments)
        assert ended.returncode == -signal.SIGKILL, ended.stderr

    def resume(self, *arguments):
        """The process lives."""
        (self.folder / "deadly").unlink(missing_ok=True)
        ended = self.start("resume", *arguments)
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    def effects(self):
        return [tuple(json.loads(line)) for line in (self.folder / "effects").read_text().splitlines()]

    def names(self):
        return [name for name, _ in self.effects()]


def test_killed_call_is_in_doubt_and_resume_asks(tmp_path):
    process = Process(tmp_path)
    process.kill()

    for _ in range(2):
        found = process.resume()
        assert found["unfinished"]
        assert found["in_doubt"] == found["required"] == ["pay"]
        assert "may have been executed: pay (" in found["message"]
        assert "`resolve`" in found["message"]
    assert process.names() == ["look", "pay"]


@pytest.mark.parametrize(
    ("resolution", "result", "payments"),
    [
        ({"result": {"receipt": 7}}, [{"receipt": 7}, False], 1),
        ({"result": None}, [None, False], 1),
        ({"error": "It was refused."}, ["It was refused.", True], 1),
        ({"retry": True}, ["paid", False], 2),
    ],
)
def test_killed_call_is_resolved_in_another_process(tmp_path, resolution, result, payments):
    process = Process(tmp_path)
    process.kill()

    found = process.resume(resolution)

    assert found["left"] == 0
    assert found["records"] == [["look", "seen", False], ["pay", *result]]
    assert found["text"] == "done"
    assert process.names() == ["look"] + ["pay"] * payments
    keys = {key for name, key in process.effects() if name == "pay"}
    assert len(keys) == 1


def test_retried_call_is_in_doubt_again_after_another_kill(tmp_path):
    process = Process(tmp_path)
    process.kill()

    process.kill("resume", {"retry": True})

    assert process.resume()["required"] == ["pay"]
    assert process.names() == ["look", "pay", "pay"]


def test_idempotent_call_is_repeated_with_the_same_key(tmp_path):
    process = Process(tmp_path, "idempotent")
    process.kill()
    process.kill("resume")

    found = process.resume()

    assert found["in_doubt"] == []
    assert found["records"] == [["look", "seen", False], ["pay", "paid", False]]
    assert process.names() == ["look", "pay", "pay", "pay"]
    assert len(set(process.effects()[1:])) == 1
    assert process.effects()[0][1] != process.effects()[1][1]


def test_killed_call_of_a_sub_agent_is_in_doubt(tmp_path):
    process = Process(tmp_path, "nested")
    process.kill()
    assert process.resume()["required"] == ["pay"]

    found = process.resume({"result": "paid before"})

    assert found["records"] == [["helper", "done", False]]
    assert process.names() == ["look", "pay"]


# In one process


async def interrupted():
    """A session as it was while two calls of its run had no result, and the agent."""
    texts = []

    @tool
    async def pay(n: int) -> str:
        texts.append(sess.to_json())
        return f"paid {n}"

    def answer(request):
        return "done" if len(request.messages) > 1 else [call("pay", n=1), call("pay", n=2)]

    helper = agent(model=scripted(answer), tools=[pay])
    sess = session(helper)
    await sess.run("go")
    return texts[0], helper


async def test_store_knows_the_calls_that_run():
    """A second handle of the session loads what a process would load that starts after a crash."""
    store, found = memory(), []

    def answer(request):
        done = sum(message.type == "tool_result" for message in request.messages)
        return [[call("pay"), call("look")], [call("pay")], "done"][done]

    @tool
    async def pay() -> str:
        other = await Session.load(store, sess.id, helper)
        found.append([call.tool_name for call in other.in_doubt])
        return "paid"

    @tool(idempotent=True)
    async def look() -> str:
        return "seen"

    helper = agent(model=scripted(answer), tools=[pay, look])
    sess = await Session.open(store, "s", helper)
    await sess.run("go")

    assert found == [["pay"], ["pay"]]
    assert (await Session.load(store, "s", helper)).in_doubt == []


async def test_calls_are_resolved_by_call_or_id():
    text, helper = await interrupted()
    sess = Session.from_json(text, helper)
    first, second = sess.in_doubt
    assert sess.to_dict() == json.loads(text)

    sess.resolve(first, result=1)
    sess.resolve(second.tool_call_id, error="no")
    turn = await sess.resume()

    assert [(call.result, call.is_error) for call in turn.tool_executions] == [(1, False), ("no", True)]
    assert sess.in_doubt == []


async def test_resolve_takes_exactly_one_resolution():
    text, helper = await interrupted()
    sess = Session.from_json(text, helper)
    pay = sess.in_doubt[0]

    for options in ({}, {"retry": False}, {"result": 1, "retry": True}, {"retry": True, "error": "x"}):
        with pytest.raises(TypeError, match="exactly one of result, retry=True and error"):
            sess.resolve(pay, **options)
    for options in ({"retry": "yes"}, {"error": 7}):
        with pytest.raises(TypeError, match="retry must be a bool and error a str"):
            sess.resolve(pay, **options)
    with pytest.raises(TypeError, match="result"):
        sess.resolve(pay, result=object())
    with pytest.raises(TypeError, match="call must be a ToolCall"):
        sess.resolve(7, retry=True)
    with pytest.raises(SessionError, match='no call "x" in doubt; these are: pay'):
        sess.resolve("x", retry=True)
    sess.resolve(pay, retry=True)
    with pytest.raises(SessionError, match="already decided"):
        sess.resolve(pay, retry=True)


async def test_streams_end_and_their_turn_raises():
    text, helper = await interrupted()
    sess = Session.from_json(text, helper)

    stream = sess.resume_stream()
    assert [event async for event in stream] == []
    with pytest.raises(ApprovalRequired) as caught:
        await stream.turn
    assert caught.value.session is sess
    assert caught.value.calls == sess.in_doubt
    assert len(caught.value.partial.messages) == 3
    for stream in (sess.resume_stream_sync(),):
        assert list(stream) == []
    with pytest.raises(ApprovalRequired, match="may have been executed"):
        sess.resume_sync()


async def test_run_does_not_drop_calls_in_doubt_and_discard_does():
    text, helper = await interrupted()
    sess = Session.from_json(text, helper)

    with pytest.raises(SessionError, match="`resolve` the calls in doubt"):
        await sess.run("other")
    assert sess.discard()
    assert (sess.in_doubt, sess.is_unfinished) == ([], False)


@pytest.mark.parametrize(
    "execution",
    [
        sequence,
        lambda *agents: parallel(*agents, merge=lambda turns: turns[0].text),
        lambda *agents: route(lambda c: agents[0]),
    ],
    ids=["sequence", "parallel", "route"],
)
@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("nested", [True, False])
async def test_idempotent_calls_of_the_agents_of_a_strategy_are_repeated(execution, idempotent, nested):
    adapter, saved, read = memory(), [], []

    @tool(idempotent=idempotent)
    async def look(at: str) -> str:
        saved.append((await Session.load(adapter, "s", desk)).to_json())
        read.append(at)
        return "seen"

    def reply(request):
        last = request.messages[-1]
        return "done" if last.type == "tool_result" else call("look", at="x")

    reader = agent(model=scripted(reply), tools=[look], name="reader")
    if nested:
        model = scripted(
            lambda request: "done" if request.messages[-1].type == "tool_result" else call("ask", task="x")
        )
        reader = agent(model=model, tools=[reader.to_tool("ask")], name="outer")
    desk = agent(
        model=scripted([]),
        execution=execution(reader, agent(model=scripted(lambda request: "other"), name="other")),
    )
    live = session(desk, id="s", persistence=adapter, save_interval="tool")
    await live.run("Go")

    crashed = Session.from_json(saved[0], desk)

    if not idempotent:
        assert [doubtful.tool_name for doubtful in crashed.in_doubt] == ["look"]
        with pytest.raises(ApprovalRequired):
            await crashed.resume()
        crashed.resolve(crashed.in_doubt[0], retry=True)
    assert crashed.in_doubt == []
    await crashed.resume()
    assert read == ["x", "x"]


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("place", ["own", "sub-agent", "strategy", "after a handoff"])
async def test_idempotent_calls_of_toolsets_are_repeated(place, idempotent):
    adapter, saved, read = memory(), [], []

    @tool(idempotent=idempotent)
    async def look(at: str) -> str:
        saved.append((await Session.load(adapter, "s", desk)).to_json())
        read.append(at)
        return "seen"

    class Eyes:
        def tools(self, context):
            return [look]

    def reply(request):
        last = request.messages[-1]
        return "done" if last.type == "tool_result" and "seen" in last.to_json() else call("look", at="x")

    def ask(request):
        return "done" if request.messages[-1].type == "tool_result" else call("transfer", task="x")

    desk = reader = agent(model=scripted(reply), tools=[Eyes()], name="reader")
    if place == "sub-agent":
        desk = agent(model=scripted(ask), tools=[reader.to_tool("transfer")])
    elif place == "strategy":
        desk = agent(model=scripted([]), execution=sequence(reader))
    elif place == "after a handoff":
        model = scripted([ToolCall("h", "transfer_to_reader", {})])
        desk = agent(model=model, tools=[handoff(reader)], name="first")
    await session(desk, id="s", persistence=adapter, save_interval="tool").run("Go")

    crashed = Session.from_json(saved[0], desk)

    if not idempotent:
        assert [doubtful.tool_name for doubtful in crashed.in_doubt] == ["look"]
        with pytest.raises(ApprovalRequired):
            await crashed.resume()
        crashed.resolve(crashed.in_doubt[0], retry=True)
    assert crashed.in_doubt == []
    await crashed.resume()
    assert read == ["x", "x"]


@pytest.mark.parametrize("source", ["agent", "toolset"])
@pytest.mark.parametrize("place", ["own", "sub-agent", "nested sub-agent", "strategy", "after a handoff"])
async def test_calls_that_were_not_approved_when_the_process_ended_never_started(place, source):
    adapter, saved, paid = memory(), [], []

    async def decide(arguments):
        saved.append((await Session.load(adapter, "s", desk)).to_json())
        return True

    @tool(approval=decide)
    async def pay(at: str) -> str:
        saved.append((await Session.load(adapter, "s", desk)).to_json())
        paid.append(at)
        return "paid"

    class Bank:
        def tools(self, context):
            return [pay]

    def reply(request):
        last = request.messages[-1]
        return "done" if last.type == "tool_result" and "paid" in last.to_json() else call("pay", at="x")

    def ask(request):
        return "done" if request.messages[-1].type == "tool_result" else call("transfer", task="x")

    desk = clerk = agent(model=scripted(reply), tools=[Bank() if source == "toolset" else pay], name="clerk")
    if place == "nested sub-agent":
        clerk = agent(model=scripted(ask), tools=[clerk.to_tool("transfer")], name="middle")
    if place in ("sub-agent", "nested sub-agent"):
        desk = agent(model=scripted(ask), tools=[clerk.to_tool("transfer")])
    elif place == "strategy":
        desk = agent(model=scripted([]), execution=sequence(clerk))
    elif place == "after a handoff":
        model = scripted([ToolCall("h", "transfer_to_clerk", {})])
        desk = agent(model=model, tools=[handoff(clerk)], name="first")
    await session(desk, id="s", persistence=adapter, save_interval="tool").run("Go")
    before_approval, while_it_ran = (Session.from_json(data, desk) for data in saved)

    assert before_approval.in_doubt == []
    assert [doubtful.tool_name for doubtful in while_it_ran.in_doubt] == ["pay"]
    await before_approval.resume()
    assert paid == ["x", "x"]

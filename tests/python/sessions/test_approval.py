"""Tool calls that wait for a decision of a person: runs stop, and resume in this or another process. UPP-1.2 §10.4."""

import asyncio
import copy
import pickle

import pytest

from turntree import ApprovalRequired, Session, SessionError, TurntreeError, agent, session
from turntree.store import memory
from turntree.upp import Thread, ToolCall, Turn, llm, scripted, tool


def call(name, /, **arguments):
    return {"toolName": name, "arguments": arguments}


def bank(approval="ask", reply=None):
    """An agent that calls `pay` twice and `look` once, and the record of its tool calls."""
    done = []

    @tool(approval=approval)
    def pay(to: str, amount: int) -> str:
        """Pay somebody."""
        done.append((to, amount))
        return f"paid {to} {amount}"

    @tool
    async def look(n: int) -> str:
        """Look."""
        await asyncio.sleep(0)
        done.append(("look", n))
        return "seen"

    def model(request):
        messages = list(request.messages)
        if messages[-1].type == "user" and "pay" in messages[-1].text:
            return [call("pay", to="ann", amount=1), call("look", n=1), call("pay", to="bob", amount=2)]
        return reply or "done"

    return agent(model=scripted(model), tools=[pay, look]), done


async def stopped(sess, text="pay"):
    with pytest.raises(ApprovalRequired) as caught:
        await sess.run(text)
    return caught.value


def results(turn):
    return [
        (result.result, result.is_error)
        for message in turn.messages
        if message.type == "tool_result"
        for result in message.results
    ]


# Stop


@pytest.mark.parametrize("approval", ["ask", lambda _: "ask", "async"], ids=["constant", "function", "coroutine"])
async def test_run_stops_for_approval_after_the_other_calls_end(approval):
    async def asks(_):
        await asyncio.sleep(0)
        return "ask"

    helper, done = bank(asks if approval == "async" else approval)
    sess = session(helper)

    error = await stopped(sess)

    assert isinstance(error, TurntreeError)
    assert error.session is sess
    assert [(waiting.tool_name, waiting.arguments) for waiting in error.calls] == [
        ("pay", {"to": "ann", "amount": 1}),
        ("pay", {"to": "bob", "amount": 2}),
    ]
    assert all(type(waiting) is ToolCall for waiting in error.calls)
    assert sess.pending == error.calls
    assert isinstance(error.partial, Turn)
    assert [record.tool_name for record in error.partial.tool_executions] == ["look"]
    assert done == [("look", 1)]
    assert sess.tree.history() == []
    assert "`approve` or `deny`" in str(error)


async def test_handler_approves_some_calls_and_defers_others():
    helper, done = bank(lambda params: params["amount"] < 2 or "ask")
    sess = session(helper)

    error = await stopped(sess)

    assert [waiting.arguments["to"] for waiting in error.calls] == ["bob"]
    assert sorted(done) == [("ann", 1), ("look", 1)]
    sess.approve_all()
    turn = await sess.resume()
    assert sorted(str(record.approved) for record in turn.tool_executions) == ["None", "True", "True"]


@pytest.mark.parametrize("answer", ["no", "yes", "", "ASK"])
async def test_approval_result_other_than_bool_or_ask_raises(answer):
    helper, done = bank(lambda _: answer)

    with pytest.raises(TypeError, match=r'approval must return True, False or "ask"'):
        await session(helper).run("pay")

    assert done == [("look", 1)]


@pytest.mark.parametrize("approval", ["Ask", "always", True, 1])
def test_approval_must_be_a_function_or_ask(approval):
    with pytest.raises(TypeError, match=r'approval must be a function or "ask", not '):
        tool(approval=approval)(lambda: None)


# Resume


async def test_resume_applies_decisions_and_runs_no_call_twice():
    helper, done = bank()
    sess = session(helper)
    first, second = (await stopped(sess)).calls

    sess.approve(first)
    sess.deny(second.tool_call_id, "too dear")
    assert sess.pending == []
    assert done == [("look", 1)]
    turn = await sess.resume()

    assert done == [("look", 1), ("ann", 1)]
    assert results(turn) == [
        ("paid ann 1", False),
        ("seen", False),
        ("Tool execution denied: too dear", True),
    ]
    approved = {record.tool_call_id: record.approved for record in turn.tool_executions}
    assert (approved[first.tool_call_id], approved[second.tool_call_id]) == (True, False)
    assert turn.response.text == "done"
    assert sess.tree.history() == list(turn.messages)
    assert sess.state is None


async def test_denial_without_a_reason_uses_the_specified_message():
    helper, _ = bank()
    sess = session(helper)
    await stopped(sess)

    assert len(sess.deny_all()) == 2
    turn = await sess.resume()

    assert results(turn)[0] == ("Tool execution denied by approval handler", True)


async def test_calls_can_be_decided_in_separate_resumes():
    helper, done = bank()
    sess = session(helper)
    first, second = (await stopped(sess)).calls

    sess.approve(second)
    with pytest.raises(ApprovalRequired) as caught:
        await sess.resume()
    assert caught.value.calls == sess.pending == [first]
    assert caught.value.session is sess
    assert done == [("look", 1), ("bob", 2)]
    sess.approve(first)
    await sess.resume()

    assert done == [("look", 1), ("bob", 2), ("ann", 1)]


async def test_approve_can_change_the_arguments():
    helper, done = bank()
    sess = session(helper)
    first, second = (await stopped(sess)).calls

    with pytest.raises(TypeError, match="arguments must be a dict, not list"):
        sess.approve(first, arguments=[1])
    sess.approve(first, arguments={"to": "ann", "amount": 100})
    sess.approve(second, arguments={"amount": "many"})
    turn = await sess.resume()

    assert done == [("look", 1), ("ann", 100)]
    assert results(turn)[0] == ("paid ann 100", False)
    # Changed arguments are validated like those of a model.
    assert results(turn)[2][1] is True
    assert "to" in results(turn)[2][0]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_pending_approvals_survive_a_restart(when):
    store = memory()
    helper, done = bank()
    sess = session(helper, persistence=store)
    calls = (await stopped(sess)).calls
    if when == "after":
        sess.approve(calls[0])
        sess.deny(calls[1], "no")
        await sess.save()
    id = sess.id
    del sess

    loaded = await Session.load(store, id, helper)
    assert Session.from_json(loaded.to_json(), helper).to_dict() == loaded.to_dict()
    if when == "before":
        assert loaded.pending == calls
        loaded.approve(calls[0])
        loaded.deny(calls[1], "no")
    turn = await loaded.resume()

    assert done == [("look", 1), ("ann", 1)]
    assert results(turn)[2] == ("Tool execution denied: no", True)
    again = await Session.load(store, loaded.id, helper)
    assert again.tree.history() == list(turn.messages)


def test_sync_methods_support_approval():
    helper, done = bank()
    sess = session(helper)

    with pytest.raises(ApprovalRequired) as caught:
        sess.run_sync("pay")
    assert caught.value.session is sess
    with pytest.raises(ApprovalRequired) as caught:
        sess.resume_sync()
    assert caught.value.session is sess
    sess.approve_all()
    turn = sess.resume_sync()

    assert sorted(done) == [("ann", 1), ("bob", 2), ("look", 1)]
    assert turn.response.text == "done"


# Streams


async def test_stream_ends_and_its_turn_raises_approval_required():
    helper, done = bank()
    sess = session(helper)
    stream = sess.stream("pay")

    kinds = [event.upp.type async for event in stream if event.source == "upp"]

    assert kinds.count("tool_execution_start") == 3
    assert kinds.count("tool_execution_end") == 1
    for _ in range(2):
        with pytest.raises(ApprovalRequired) as caught:
            await stream.turn
        assert caught.value.session is sess
        assert caught.value.calls == sess.pending
    sess.approve_all()
    stream = sess.resume_stream()
    ended = [event.upp.index async for event in stream if event.upp and event.upp.type == "tool_execution_end"]
    assert sorted(ended) == [0, 2]
    assert (await stream.turn).response.text == "done"
    assert len(done) == 3


def test_sync_streams_support_approval():
    helper, _ = bank()
    sess = session(helper)

    stream = sess.stream_sync("pay")
    assert list(stream)
    with pytest.raises(ApprovalRequired) as caught:
        _ = stream.turn
    assert caught.value.session is sess
    sess.approve_all()
    stream = sess.resume_stream_sync()
    assert list(stream)
    assert stream.turn.response.text == "done"


async def test_resume_stream_without_a_stopped_run_raises_when_read():
    sess = session(bank()[0])

    with pytest.raises(SessionError, match="no unfinished run"):
        await sess.resume_stream().turn


# Invalid use


async def test_invalid_decisions_raise_and_change_nothing():
    sess = session(bank()[0])
    with pytest.raises(SessionError, match=r'no call "x" that waits for a decision; none does'):
        sess.approve("x")
    first, second = (await stopped(sess)).calls
    sess.approve(first)
    before = sess.to_json()

    with pytest.raises(SessionError, match="is already decided"):
        sess.deny(first)
    with pytest.raises(SessionError, match=r"these do: pay \(" + second.tool_call_id):
        sess.deny("x")
    for wrong in (None, 1, {"toolCallId": "x"}):
        with pytest.raises(TypeError, match="call must be a ToolCall or the id of one"):
            sess.approve(wrong)

    assert sess.to_json() == before


async def test_new_run_is_rejected_while_calls_are_pending():
    helper, done = bank()
    sess = session(helper)
    await stopped(sess)
    before = sess.to_dict()

    for start in (lambda: sess.run("hello"), lambda: sess.stream("hello").turn):
        with pytest.raises(SessionError, match=r"wait for approval: pay .*`discard` it"):
            await start()

    before.pop("updatedAt")
    assert {**sess.to_dict(), "updatedAt": None} == {**before, "updatedAt": None}
    assert sess.discard() is True
    assert sess.discard() is False
    assert sess.pending == []
    await sess.run("hello")
    assert [message.text for message in sess.tree.history()] == ["hello", "done"]
    assert done == [("look", 1)]


async def test_decisions_are_rejected_during_a_run():
    inside = []

    @tool(approval="ask")
    def pay() -> None:
        """Pay."""

    @tool
    def look() -> None:
        """Look."""
        for act in (sess.discard, lambda: sess.approve("x")):
            try:
                act()
            except SessionError as error:
                inside.append(str(error))

    def model(request):
        return "done" if request.messages[-1].type == "tool_result" else [call("look"), call("pay")]

    sess = session(agent(model=scripted(model), tools=[pay, look]))
    await stopped(sess)

    assert len(inside) == 2
    assert all("is active" in words for words in inside)


async def test_resume_inside_a_tool_of_the_same_session_is_rejected():
    refused = []

    @tool
    async def look() -> str:
        """Look."""
        for start in (sess.resume, sess.resume_stream):
            try:
                await start()
            except SessionError as error:
                refused.append(str(error))
        return "seen"

    def model(request):
        return "done" if request.messages[-1].type == "tool_result" else call("look")

    sess = session(agent(model=scripted(model), tools=[look]))
    await sess.run("look")

    assert len(refused) == 2
    assert all("from inside its own run" in words for words in refused)


async def test_queued_runs_fail_while_approval_is_pending_and_resumes_run_in_order():
    helper, done = bank()
    sess = session(helper)
    first, second = await asyncio.gather(sess.run("pay"), sess.run("hello"), return_exceptions=True)
    assert isinstance(first, ApprovalRequired)
    assert isinstance(second, SessionError)

    sess.approve_all()
    resumed, later, after = await asyncio.gather(
        sess.resume(), sess.resume(), sess.run("hello"), return_exceptions=True
    )

    assert resumed.response.text == "done"
    assert isinstance(later, SessionError)
    assert after.response.text == "done"
    assert len(done) == 3


@pytest.mark.parametrize("start", ["run", "stream", "run_sync", "llm"])
async def test_approval_without_a_session_raises_a_helpful_error(start):
    helper, done = bank()
    with pytest.raises(ApprovalRequired, match="only a session can resume such a run") as caught:
        if start == "run":
            await helper.run("pay")
        elif start == "run_sync":
            await asyncio.to_thread(helper.run_sync, "pay")
        elif start == "llm":
            await llm(model=helper.model, tools=list(helper.tools)).generate("pay")
        else:
            # Without a session the run cannot resume, so iterating the events raises.
            async for _ in helper.stream("pay"):
                pass

    assert caught.value.session is None
    assert len(caught.value.calls) == 2
    assert done == [("look", 1)]


async def test_approval_required_can_be_copied_and_pickled():
    sess = session(bank()[0])
    error = await stopped(sess)

    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (str(twin), twin.calls, twin.partial) == (str(error), error.calls, error.partial)
        assert twin.session is None


async def test_cancelled_resume_preserves_decisions():
    entered, done = asyncio.Event(), []

    @tool(approval="ask")
    async def pay(to: str) -> str:
        """Pay."""
        if to == "bob" and not entered.is_set():
            entered.set()
            await asyncio.sleep(60)
        done.append(to)
        return "paid"

    def model(request):
        if request.messages[-1].type == "tool_result":
            return "done"
        return [call("pay", to="ann"), call("pay", to="bob")]

    sess = session(agent(model=scripted(model), tools=[pay]))
    await stopped(sess, "go")
    sess.approve_all()
    task = asyncio.create_task(sess.resume())
    await entered.wait()
    deadline = asyncio.get_running_loop().time() + 10
    while '"answered"' not in sess.to_json() and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(0)
    assert '"answered"' in sess.to_json()
    assert done == ["ann"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert sess.pending == []
    loaded = Session.from_json(sess.to_json(), sess.agent)
    await loaded.resume()
    assert done == ["ann", "bob"]


async def test_on_before_call_is_not_repeated_for_an_approved_call():
    heard = []

    @tool(approval="ask")
    def pay(amount: int) -> int:
        """Pay."""
        return amount

    def before(_tool, params):
        heard.append(params)
        return {"proceed": True, "params": {"amount": params["amount"] + 1}}

    def model(request):
        return "done" if request.messages[-1].type == "tool_result" else call("pay", amount=1)

    helper = agent(model=scripted(model), tools=[pay], tool_strategy={"on_before_call": before})
    sess = session(helper)
    (waiting,) = (await stopped(sess, "go")).calls
    assert waiting.arguments == {"amount": 2}
    sess.approve(waiting)
    turn = await sess.resume()

    assert heard == [{"amount": 1}]
    assert results(turn) == [(2, False)]


async def test_run_that_requires_approval_does_not_change_the_thread():
    helper, _ = bank()
    thread = Thread()

    with pytest.raises(ApprovalRequired):
        await helper.run(thread, "pay")

    assert len(thread) == 0

"""Calls of sub-agents that wait for approval: the outermost session lists them, and `resume` continues inside."""

import asyncio

import pytest
from approval_support import call, once

from turntree import ApprovalRequired, Session, SessionError, agent, session
from turntree.execution import fallback, loop, select
from turntree.store import memory
from turntree.upp import scripted, tool


class Family:
    """An agent over two levels of sub-agents, whose innermost one pays Ann and Bob, and what they did."""

    def __init__(self):
        self.paid, self.looked, self.before = [], [], []

        @tool(approval="ask")
        def pay(to: str) -> str:
            self.paid.append(to)
            return f"paid {to}"

        @tool
        def look() -> str:
            self.looked.append(1)
            return "seen"

        self.inner = agent(model=once(call("pay", to="ann"), call("look"), call("pay", to="bob")), tools=[pay, look])
        self.middle = agent(
            model=once(call("inner", task="pay")),
            tools=[self.inner.to_tool("inner")],
            tool_strategy={"on_before_call": lambda tool, arguments: self.before.append(tool.name) or True},
        )
        self.outer = agent(
            model=once(call("middle", task="pay"), call("look")), tools=[self.middle.to_tool("middle"), look]
        )


async def stopped(sess):
    with pytest.raises(ApprovalRequired) as caught:
        await sess.run("Go")
    return caught.value


def waiting(sess):
    return [(pending.tool_name, pending.arguments) for pending in sess.pending]


async def test_the_outermost_session_lists_the_calls_and_resume_continues_inside():
    family = Family()
    sess = session(family.outer)

    error = await stopped(sess)

    assert error.session is sess
    assert waiting(sess) == [("pay", {"to": "ann"}), ("pay", {"to": "bob"})]
    assert error.calls == sess.pending
    assert (family.paid, family.looked) == ([], [1, 1])
    assert sess.is_unfinished
    assert sess.tree.history() == []

    ann, bob = sess.pending
    sess.approve(ann)
    sess.deny(bob, "too much")
    assert sess.pending == []
    turn = await sess.resume()

    assert (family.paid, family.looked, family.before) == (["ann"], [1, 1], ["inner"])
    assert turn.response.text == "paid ann / seen / Tool execution denied: too much / seen"
    assert not sess.is_unfinished


async def test_some_decisions_are_executed_and_the_others_asked_again():
    family = Family()
    sess = session(family.outer)
    await stopped(sess)

    sess.approve(sess.pending[1], arguments={"to": "eve"})
    with pytest.raises(ApprovalRequired) as caught:
        await sess.resume()

    assert [pending.arguments for pending in caught.value.calls] == [{"to": "ann"}]
    assert waiting(sess) == [("pay", {"to": "ann"})]
    assert family.paid == ["eve"]
    sess.approve_all()
    turn = await sess.resume()
    assert family.paid == ["eve", "ann"]
    assert turn.response.text == "paid ann / seen / paid eve / seen"


@pytest.mark.parametrize("decided", ["before", "after"])
async def test_another_process_decides_and_resumes(decided):
    family = Family()
    sess = session(family.outer)
    await stopped(sess)
    if decided == "before":
        sess.approve_all()

    again = Session.from_json(sess.to_json(), family.outer)
    if decided == "after":
        assert len(again.approve_all()) == 2
    turn = await again.resume()

    assert sorted(family.paid) == ["ann", "bob"]  # both at once
    assert turn.response.text == "paid ann / seen / paid bob / seen"


class InParts:
    """Runs two strategies one after the other."""

    name = "in parts"

    async def execute(self, context):
        first = await context.run(loop())
        return await context.run(loop(), history=first.messages, input="And again")


@pytest.mark.parametrize("reloaded", [False, True])
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    "execution",
    [select(lambda context: loop()), fallback(loop(), loop()), select(lambda context: select(lambda inner: loop()))],
    ids=["select", "fallback", "nested select"],
)
async def test_sub_agents_of_a_chosen_strategy_wait_too(execution, streamed, reloaded):
    family = Family()
    sess = session(family.outer.with_(execution=execution))

    if streamed:
        stream = sess.stream("Go")
        with pytest.raises(ApprovalRequired):
            await stream.turn
    else:
        await stopped(sess)
    assert waiting(sess) == [("pay", {"to": "ann"}), ("pay", {"to": "bob"})]
    if reloaded:
        sess = Session.from_json(sess.to_json(), sess.agent)
    ann, bob = sess.pending
    sess.deny(bob, "too much")
    sess.approve(ann)
    turn = await sess.resume()

    assert (family.paid, family.looked) == (["ann"], [1, 1])
    assert "paid ann / seen / Tool execution denied: too much / seen" in turn.text
    assert not sess.is_unfinished
    assert sorted(turn.usage.by_agent) == sorted([family.middle.id, family.inner.id])


async def test_sub_agents_of_each_part_of_a_strategy_wait():
    @tool(approval="ask")
    def pay(amount: int) -> str:
        return f"paid {amount}"

    amounts = iter([1, 2])

    def cashier(request):
        last = request.messages[-1]
        return last.results[0].result if last.type == "tool_result" else call("pay", amount=next(amounts))

    worker = agent(model=scripted(cashier), tools=[pay])
    sess = session(agent(model=once(call("worker", task="pay")), tools=[worker.to_tool("worker")], execution=InParts()))

    await stopped(sess)
    for amount in (1, 2):
        assert waiting(sess) == [("pay", {"amount": amount})]
        sess.approve(sess.pending[0])
        if amount == 1:
            with pytest.raises(ApprovalRequired):
                await sess.resume()
    turn = await sess.resume()

    assert turn.text == "paid 2"


async def test_a_store_keeps_the_waiting_calls_and_the_decisions():
    family, store = Family(), memory()
    sess = await Session.open(store, "s", family.outer)
    await stopped(sess)
    assert [info.status for info in await store.sessions()] == ["waiting"]

    loaded = await Session.load(store, "s", family.outer)
    assert len(loaded.pending) == 2
    loaded.approve_all()
    await loaded.save()
    loaded = await Session.load(store, "s", family.outer)
    assert loaded.pending == []
    await loaded.resume()

    assert sorted(family.paid) == ["ann", "bob"]  # both at once
    assert not loaded.is_unfinished


async def test_resume_without_a_decision_asks_again():
    family = Family()
    sess = session(family.outer)
    await stopped(sess)

    with pytest.raises(ApprovalRequired):
        await sess.resume()

    assert len(sess.pending) == 2
    assert family.looked == [1, 1]


async def test_a_new_run_is_refused_while_calls_of_sub_agents_wait():
    family = Family()
    sess = session(family.outer)
    await stopped(sess)

    with pytest.raises(SessionError, match="wait for approval: pay"):
        await sess.run("Something else")
    sess.approve_all()
    with pytest.raises(SessionError, match="are decided and have not run: pay"):
        await sess.run("Something else")
    assert sess.discard()


async def test_concurrent_sub_agents_wait_together():
    paid = []

    @tool(approval="ask")
    async def pay(to: str) -> str:
        await asyncio.sleep(0)
        paid.append(to)
        return f"paid {to}"

    def payer(to):
        return agent(model=once(call("pay", to=to)), tools=[pay]).to_tool(f"pay_{to}")

    lead = agent(
        model=once(call("pay_ann", task="t"), call("pay_bob", task="t"), call("pay", to="eve")),
        tools=[payer("ann"), payer("bob"), pay],
    )
    sess = session(lead)
    await stopped(sess)

    assert [pending.arguments["to"] for pending in sess.pending] == ["eve", "ann", "bob"]
    sess.approve_all()
    turn = await sess.resume()

    assert sorted(paid) == ["ann", "bob", "eve"]
    assert turn.response.text == "paid ann / paid bob / paid eve"


async def test_the_call_of_a_sub_agent_is_approved_once():
    paid, asked = [], []

    @tool(approval="ask")
    def pay(to: str) -> str:
        paid.append(to)
        return f"paid {to}"

    helper = agent(model=once(call("pay", to="ann")), tools=[pay]).to_tool("helper")
    helper.approval = lambda arguments: asked.append(arguments) or True
    sess = session(agent(model=once(call("helper", task="pay")), tools=[helper]))

    await stopped(sess)
    sess.approve_all()
    turn = await sess.resume()

    assert (paid, len(asked)) == (["ann"], 1)
    assert turn.tool_executions[0].approved is True


async def test_streams_end_where_a_sub_agent_waits():
    family = Family()
    sess = session(family.outer)

    stream = sess.stream("Go")
    with pytest.raises(ApprovalRequired):
        async for _ in stream:
            pass
        await stream.turn
    sess.approve_all()
    resumed = sess.resume_stream()
    started = [event.upp.delta async for event in resumed if event.upp and event.upp.type == "tool_execution_start"]

    assert [(delta["toolName"], delta["arguments"]) for delta in started] == [("middle", {"task": "pay"})]
    assert (await resumed.turn).response.text == "paid ann / seen / paid bob / seen"


async def test_resumed_streams_show_the_approved_arguments():
    @tool(approval="ask")
    def pay(to: str) -> str:
        return f"paid {to}"

    sess = session(agent(model=once(call("pay", to="ann")), tools=[pay]))
    await stopped(sess)
    sess.approve(sess.pending[0], arguments={"to": "bob"})

    started = [
        event.upp.delta
        async for event in sess.resume_stream()
        if event.upp and event.upp.type == "tool_execution_start"
    ]

    assert [delta["arguments"] for delta in started] == [{"to": "bob"}]


async def test_without_a_session_the_caller_gets_an_error_result():
    family = Family()

    turn = await family.outer.run("Go")

    assert family.paid == []
    assert "calls wait for approval" in turn.response.text

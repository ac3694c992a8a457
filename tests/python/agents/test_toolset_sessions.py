"""Toolsets of sessions: approvals, restarts and resumed runs."""

import asyncio

import pytest
from toolset_support import Fixed, Shop, Slow, call, named, offered, results

from turntree import ApprovalRequired, Session, agent, session
from turntree.store import memory
from turntree.upp import Tool, scripted


def test_approval_of_a_toolset_tool_is_found_after_a_restart(run):
    class Bank:
        def __init__(self):
            self.paid = []

        def tools(self, context):
            return [Tool("pay", "Pay.", {"type": "object"}, lambda: self.paid.append(1) or "paid", approval="ask")]

    async def main():
        store, bank = memory(), Bank()
        clerk = agent(model=scripted([[call("pay", "p1")], "Done."]), tools=[bank])
        talk = await Session.open(store, "s", clerk)
        with pytest.raises(ApprovalRequired):
            await talk.run("Pay")
        loaded = await Session.load(store, "s", clerk)
        assert [call.tool_name for call in loaded.pending] == ["pay"]
        loaded.approve("p1")
        return await loaded.resume(), bank.paid

    turn, paid = run(main())

    assert results(turn) == [("pay", "paid", False)]
    assert paid == [1]


def test_resume_asks_the_toolsets_again(run):
    class Flaky(Shop):
        failing = True

        async def tools(self, context):
            if self.failing and context.step == 2:
                raise ConnectionError("gone")
            return await super().tools(context)

    async def main():
        shop = Flaky()
        model = scripted([[call("enter")], [call("buy")], "Done."])
        talk = session(agent(model=model, tools=[shop]))
        with pytest.raises(ConnectionError):
            await talk.run("Go")
        assert talk.is_unfinished
        shop.failing = False
        return await talk.resume(), offered(model)

    turn, names = run(main())

    assert [call.result for call in turn.tool_executions] == ["inside", "bought"]
    assert names == [["enter"], ["buy"], ["buy"]]


def test_a_run_whose_toolset_fails_at_resume_can_be_resumed_again(run):
    class Bank:
        failing = False

        def tools(self, context):
            if self.failing:
                raise ConnectionError("gone")
            return [named("pay", "paid", approval="ask")]

    async def main():
        bank = Bank()
        talk = session(agent(model=scripted([[call("pay", "p1")], "Done."]), tools=[bank]))
        with pytest.raises(ApprovalRequired):
            await talk.run("Pay")
        talk.approve("p1")
        bank.failing = True
        for _ in range(2):
            with pytest.raises(ConnectionError):
                await talk.resume()
        bank.failing = False
        return await talk.resume()

    assert results(run(main())) == [("pay", "paid", False)]


def test_a_tool_that_is_gone_after_a_restart_is_reported_to_the_model(run):
    async def main():
        toolset = Fixed(named("pay", "paid", approval="ask"))
        talk = session(agent(model=scripted([[call("pay", "p1")], "Done."]), tools=[toolset]))
        with pytest.raises(ApprovalRequired):
            await talk.run("Pay")
        talk.approve("p1")
        toolset.returned = []
        return await talk.resume()

    assert results(run(main())) == [("pay", "Tool 'pay' not found", True)]


def test_cancelling_resume_cancels_the_toolset(run):
    async def main():
        bank = Fixed(named("pay", "paid", approval="ask"))
        slow = Slow()
        talk = session(agent(model=scripted([[call("pay", "p1")], "Done."]), tools=[bank]))
        with pytest.raises(ApprovalRequired):
            await talk.run("Pay")
        talk.approve("p1")
        bank.tools = slow.tools
        data = talk.to_json()
        slow_talk = Session.from_json(data, agent(model=scripted(["Done."]), tools=[slow]))
        task = asyncio.ensure_future(slow_talk.resume())
        await slow.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return slow.cancelled, slow_talk.is_unfinished

    assert run(main()) == (True, True)

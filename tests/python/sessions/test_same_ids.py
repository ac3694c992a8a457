"""Calls of two sub-agents that wait for approval and have the same id."""

import pytest
from approval_support import call, once

from turntree import ApprovalRequired, Session, SessionError, ToolContext, agent, session
from turntree.store import memory
from turntree.upp import ToolCall, tool


class Pair:
    """An agent whose two sub-agents each make a call with the id call_1_1, and whom they have paid."""

    def __init__(self, *to):
        self.paid, self.keys = [], {}

        @tool(approval="ask")
        def pay(to: str, context: ToolContext) -> str:
            self.paid.append(to)
            self.keys[context.idempotency_key] = to
            return f"paid {to}"

        first, second = to or ("ann", "bob")

        def payer(to, name):
            return agent(model=once(call("pay", to=to)), tools=[pay]).to_tool(name)

        self.agent = agent(
            model=once(call("first", task="pay"), call("second", task="pay")),
            tools=[payer(first, "first"), payer(second, "second")],
        )

    async def stopped(self, sess=None):
        sess = session(self.agent) if sess is None else sess
        with pytest.raises(ApprovalRequired):
            await sess.run("Go")
        return sess


@pytest.mark.parametrize("reloaded", [False, True])
@pytest.mark.parametrize("decide", ["approve", "deny"])
async def test_a_call_decides_about_itself_and_not_about_the_other_one(decide, reloaded):
    pair = Pair()
    sess = await pair.stopped()
    if reloaded:
        sess = Session.from_json(sess.to_json(), pair.agent)
    ann, bob = sess.pending
    assert (ann.tool_call_id, ann.arguments) == (bob.tool_call_id, {"to": "ann"})

    getattr(sess, decide)(bob)
    assert sess.pending == [ann]
    with pytest.raises(SessionError, match="already decided"):
        sess.deny(bob)
    getattr(sess, "deny" if decide == "approve" else "approve")(ann)
    turn = await sess.resume()

    assert pair.paid == (["bob"] if decide == "approve" else ["ann"])
    denied = "Tool execution denied by a person"
    results = [denied if name not in pair.paid else f"paid {name}" for name in ("ann", "bob")]
    assert [part.split(":")[0] for part in turn.text.split(" / ")] == results or turn.text.count("denied") == 1


async def test_the_second_call_runs_while_the_first_one_still_waits():
    pair = Pair()
    sess = await pair.stopped()
    ann, bob = sess.pending

    sess.approve(bob, arguments={"to": "eve"})
    with pytest.raises(ApprovalRequired) as caught:
        await sess.resume()

    assert (pair.paid, caught.value.calls, sess.pending) == (["eve"], [ann], [ann])
    sess.approve("call_1_1")  # No other call has this id now.
    turn = await sess.resume()
    assert turn.text == "paid ann / paid eve"


@pytest.mark.parametrize("decide", ["approve", "deny"])
async def test_an_id_that_two_calls_have_is_refused(decide):
    sess = await Pair().stopped()
    ann, bob = sess.pending

    with pytest.raises(SessionError, match=r'have the id "call_1_1".*: pay \{"to":"ann"\}, pay \{"to":"bob"\}'):
        getattr(sess, decide)("call_1_1")
    assert sess.pending == [ann, bob]

    sess.deny(ann)
    # Until the denial is carried out, the id could still mean the first call.
    with pytest.raises(SessionError, match="several calls"):
        getattr(sess, decide)("call_1_1")
    with pytest.raises(SessionError, match="several calls"):
        getattr(sess, decide)(ToolCall("call_1_1", "pay", {"to": "eve"}))
    assert sess.pending == [bob]


async def test_pending_by_id_tells_the_calls_apart():
    pair = Pair()
    sess = await pair.stopped()

    by_id = sess.pending_by_id
    assert list(by_id.values()) == sess.pending
    assert "call_1_1" not in by_id
    ids = {pending.arguments["to"]: id for id, pending in by_id.items()}
    sess.deny(ids["ann"], "too much")
    sess.approve(ids["bob"])
    with pytest.raises(SessionError, match="already decided"):
        sess.approve(ids["ann"])
    turn = await sess.resume()

    assert pair.paid == ["bob"]
    assert pair.keys == {ids["bob"]: "bob"}, "the id is the idempotency key of the call"
    assert "too much / paid bob" in turn.text


async def test_an_id_that_one_call_has_is_its_id_in_pending_by_id():
    @tool(approval="ask")
    def pay(to: str) -> str:
        return f"paid {to}"

    sess = session(agent(model=once(call("pay", to="ann"), call("pay", to="bob")), tools=[pay]))
    assert sess.pending_by_id == {}
    with pytest.raises(ApprovalRequired):
        await sess.run("Go")

    assert sess.pending_by_id == {pending.tool_call_id: pending for pending in sess.pending}
    assert len(sess.pending_by_id) == 2


@pytest.mark.parametrize("reloaded", [False, True])
async def test_equal_calls_are_decided_one_by_one(reloaded):
    pair = Pair("ann", "ann")
    sess = await pair.stopped()
    if reloaded:
        sess = Session.from_json(sess.to_json(), pair.agent)
    first, second = sess.pending
    assert first == second

    sess.approve(first)
    sess.deny(second)
    await sess.resume()

    assert pair.paid == ["ann"]


async def test_calls_with_one_id_can_be_approved_together():
    pair = Pair()
    sess = await pair.stopped()

    assert len(sess.approve_all()) == 2
    await sess.resume()

    assert sorted(pair.paid) == ["ann", "bob"]


async def test_a_store_keeps_which_call_was_decided():
    pair, store = Pair(), memory()
    sess = await pair.stopped(await Session.open(store, "s", pair.agent))
    sess.approve(sess.pending[1])
    await sess.save()

    loaded = await Session.load(store, "s", pair.agent)
    assert [pending.arguments for pending in loaded.pending] == [{"to": "ann"}]
    loaded.deny_all()
    await loaded.resume()

    assert pair.paid == ["bob"]


@pytest.mark.parametrize("wrong", [3, None, {"toolCallId": "call_1_1"}])
async def test_what_is_no_call_is_refused(wrong):
    sess = await Pair().stopped()

    with pytest.raises(TypeError, match="call must be a ToolCall or the id of one, not"):
        sess.approve(wrong)
    with pytest.raises(TypeError, match="call must be a ToolCall or the id of one, not"):
        sess.deny(wrong)

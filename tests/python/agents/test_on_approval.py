"""`on_approval` of agents, sessions and runs: it decides about calls whose approval says "ask"."""

import asyncio

import pytest

from turntree import ApprovalRequired, Session, agent, session
from turntree.store import memory
from turntree.upp import ToolCall, scripted, tool


def call(name, /, **arguments):
    return {"toolName": name, "arguments": arguments}


def once(name, **arguments):
    """A model that calls a tool once, and then says what it returned."""
    return scripted(
        lambda request: (
            str(request.messages[-1].results[0].result)
            if request.messages[-1].type == "tool_result"
            else call(name, **arguments)
        )
    )


def payer(approval="ask", **options):
    """An agent that pays 5 to Ann, and the record of its payments."""
    paid = []

    @tool(approval=approval)
    def pay(to: str, amount: int) -> str:
        paid.append((to, amount))
        return f"paid {to} {amount}"

    return agent(model=once("pay", to="ann", amount=5), tools=[pay], **options), paid


def answering(decision, asked):
    async def on_approval(pending):
        await asyncio.sleep(0)
        asked.append(pending)
        return decision

    return on_approval


@pytest.mark.parametrize(
    ("decision", "paid", "text"),
    [
        (True, [("ann", 5)], "paid ann 5"),
        (False, [], "Tool execution denied by approval handler"),
        ({"to": "bob", "amount": 1}, [("bob", 1)], "paid bob 1"),
    ],
)
@pytest.mark.parametrize("place", ["agent", "session", "run", "run of an agent"])
async def test_on_approval_decides_without_stopping_the_run(decision, paid, text, place):
    asked = []
    on_approval = answering(decision, asked)
    helper, done = payer(on_approval=on_approval if place == "agent" else None)

    if place == "run of an agent":
        turn = await helper.run("Go", on_approval=on_approval)
    elif place == "session":
        turn = await session(helper, on_approval=on_approval).run("Go")
    else:
        turn = await session(helper).run("Go", **({"on_approval": on_approval} if place == "run" else {}))

    assert [type(pending) for pending in asked] == [ToolCall]
    assert (asked[0].tool_name, asked[0].arguments) == ("pay", {"to": "ann", "amount": 5})
    assert done == paid
    assert turn.response.text == text
    assert turn.tool_executions[0].approved is (decision is not False)


@pytest.mark.parametrize("way", ["run_sync", "stream_sync", "stream"])
async def test_on_approval_serves_every_way_to_run(way):
    helper, done = payer()
    sess = session(helper, on_approval=lambda pending: True)

    if way == "stream":
        async for _ in sess.stream("Go"):
            pass
    elif way == "run_sync":
        await asyncio.to_thread(sess.run_sync, "Go")
    else:
        await asyncio.to_thread(lambda: list(sess.stream_sync("Go")))

    assert done == [("ann", 5)]


async def test_ask_leaves_the_decision_to_a_person():
    asked = []
    helper, done = payer()
    sess = session(helper, on_approval=answering("ask", asked))

    with pytest.raises(ApprovalRequired):
        await sess.run("Go")

    assert (len(asked), len(sess.pending), done) == (1, 1, [])
    sess.approve_all()
    await sess.resume()
    assert (len(asked), done) == (1, [("ann", 5)])


async def test_the_run_precedes_the_session_and_the_session_the_agent():
    asked = []

    def by(name, decision):
        return lambda pending: asked.append(name) or decision

    helper, done = payer(on_approval=by("agent", False))
    sess = session(helper, on_approval=by("session", False))

    await sess.run("Go", on_approval=by("run", True))
    await sess.run("Go")
    await helper.run("Go")

    assert asked == ["run", "session", "agent"]
    assert done == [("ann", 5)]


async def test_on_approval_is_asked_only_about_calls_that_ask():
    asked = []
    helper, done = payer(lambda arguments: arguments["amount"] < 10 or "ask", on_approval=answering(False, asked))

    await helper.run("Go")

    assert (asked, done) == ([], [("ann", 5)])


async def test_sub_agents_ask_their_own_function_first_and_then_their_caller():
    asked = []

    def by(name, decision):
        return lambda pending: asked.append((name, pending.tool_name)) or decision

    inner, done = payer(on_approval=by("inner", "ask"))
    middle = agent(model=once("inner", task="pay"), tools=[inner.to_tool("inner")])
    outer = agent(model=once("middle", task="pay"), tools=[middle.to_tool("middle")], on_approval=by("outer", False))

    turn = await session(outer, on_approval=by("session", True)).run("Go")

    assert asked == [("inner", "pay"), ("session", "pay")]
    assert done == [("ann", 5)]
    assert turn.response.text == "paid ann 5"


@pytest.mark.parametrize("answer", [None, "yes", 1, []])
async def test_another_answer_raises_and_nothing_is_executed(answer):
    helper, done = payer(on_approval=lambda pending: answer)

    with pytest.raises(TypeError, match=r'on_approval must return True, False, "ask" or a dict of new arguments'):
        await helper.run("Go")

    assert done == []


async def test_an_exception_ends_the_run():
    raised = PermissionError("nobody is there")

    async def on_approval(pending):
        raise raised

    helper, done = payer(on_approval=on_approval)

    with pytest.raises(PermissionError) as caught:
        await session(helper).run("Go")

    assert caught.value is raised
    assert done == []


def raising(error, answers):
    """Return an `on_approval` that raises, and after that returns the answers."""
    left = iter(answers)

    def on_approval(pending):
        answer = next(left, None)
        if answer is None:
            raise error
        return answer

    return on_approval


def nested(helper, levels):
    """An agent that runs the helper, with so many agents between them."""
    for _ in range(levels + 1):
        helper = agent(model=once("helper", task="pay"), tools=[helper.to_tool("helper")])
    return helper


@pytest.mark.parametrize("place", ["agent", "session", "run", "sub-agent"])
@pytest.mark.parametrize("levels", [0, 1])
@pytest.mark.parametrize("streamed", [False, True])
async def test_an_exception_about_the_call_of_a_sub_agent_ends_the_outermost_run(place, levels, streamed):
    error = PermissionError("the desk is closed")
    on_approval = raising(error, [])
    helper, paid = payer(on_approval=on_approval if place == "sub-agent" else None)
    lead = nested(helper, levels)
    lead = lead.with_(on_approval=on_approval) if place == "agent" else lead
    sess = session(lead, on_approval=on_approval if place == "session" else None)
    options = {"on_approval": on_approval} if place == "run" else {}

    with pytest.raises(PermissionError) as caught:
        await (sess.stream("Go", **options).turn if streamed else sess.run("Go", **options))

    assert caught.value is error
    assert (paid, sess.is_unfinished, sess.tree.history()) == ([], True, [])


@pytest.mark.parametrize("reloaded", [False, True])
async def test_after_the_exception_the_sub_agents_of_a_session_continue_where_they_were(reloaded):
    helper, paid = payer()
    lead = nested(helper, 1)
    sess = session(lead, on_approval=raising(PermissionError("closed"), []))
    with pytest.raises(PermissionError):
        await sess.run("Go")

    if reloaded:
        sess = Session.from_json(sess.to_json(), lead)
    turn = await sess.resume(on_approval=lambda pending: True)

    assert (paid, turn.text) == ([("ann", 5)], "paid ann 5")
    assert [len(one.model.requests) for one in (lead, helper)] == [2, 2], "no model was asked again"


async def test_an_exception_about_the_call_of_a_sub_agent_ends_a_run_without_a_session():
    helper, paid = payer()

    with pytest.raises(PermissionError, match="closed"):
        await nested(helper, 1).run("Go", on_approval=raising(PermissionError("closed"), []))

    assert paid == []


async def test_hooks_of_tools_do_not_see_an_exception_of_on_approval():
    seen = []
    helper, _paid = payer()
    hooks = {"on_error": lambda tool, arguments, error: seen.append(error)}
    lead = nested(helper, 0).with_(tool_strategy=hooks)

    with pytest.raises(PermissionError):
        await session(lead).run("Go", on_approval=raising(PermissionError("closed"), []))

    assert seen == []


async def test_other_calls_of_the_round_end_before_the_exception_does():
    done = []

    @tool
    async def look() -> str:
        await asyncio.sleep(0)
        done.append("looked")
        return "seen"

    helper, _paid = payer()
    model = scripted([[call("helper", task="pay"), call("look")], "Done."])
    lead = agent(model=model, tools=[helper.to_tool("helper"), look])
    sess = session(lead)

    with pytest.raises(PermissionError):
        await sess.run("Go", on_approval=raising(PermissionError("closed"), []))
    assert done == ["looked"]
    await sess.resume(on_approval=lambda pending: False)

    assert done == ["looked"], "its result is not lost"


async def test_new_arguments_are_validated():
    helper, done = payer(on_approval=lambda pending: {"to": "bob", "amount": "much"})

    turn = await session(helper).run("Go")

    assert done == []
    assert turn.tool_executions[0].is_error


async def test_loaded_sessions_have_the_function_that_is_given():
    store = memory()
    helper, done = payer()
    approve = lambda pending: True  # noqa: E731
    opened = await Session.open(store, "s", helper, on_approval=approve)
    await opened.run("Go")
    again = await Session.open(store, "s", helper, on_approval=approve)
    await again.run("Go")
    loaded = await Session.load(store, "s", helper, on_approval=approve)
    await loaded.run("Go")
    read = Session.from_json(loaded.to_json(), helper, on_approval=approve)
    await read.run("Go")

    assert len(done) == 4


async def test_arguments_of_on_approval_are_those_of_a_call_in_doubt():
    saved = []

    @tool(approval="ask")
    async def pay(to: str) -> str:
        saved.append(sess.to_json())  # as a store has it while the tool runs
        return f"paid {to}"

    helper = agent(model=once("pay", to="ann"), tools=[pay])
    sess = session(helper, on_approval=lambda pending: {"to": "bob"}, persistence=memory(), save_interval="tool")
    await sess.run("Go")

    again = Session.from_json(saved[0], helper)
    assert [pending.arguments for pending in again.in_doubt] == [{"to": "bob"}]


@pytest.mark.parametrize("wrong", ["ask", True, 3])
def test_on_approval_must_be_a_function(wrong):
    helper, _ = payer()

    with pytest.raises(TypeError, match="on_approval of agent must be a function"):
        payer(on_approval=wrong)
    with pytest.raises(TypeError, match="on_approval of the session must be a function"):
        session(helper, on_approval=wrong)
    with pytest.raises(TypeError, match=r"on_approval of Agent\.run_sync must be a function"):
        helper.run_sync("Go", on_approval=wrong)


@pytest.mark.parametrize("place", ["agent", "session", "run"])
async def test_runs_inside_tools_inherit_on_approval(place):
    asked = []
    on_approval = answering(True, asked)
    helper, done = payer()

    @tool
    async def delegate() -> str:
        return (await helper.run("Pay Ann.")).text

    boss = agent(model=once("delegate"), tools=[delegate], on_approval=on_approval if place == "agent" else None)
    chat = session(boss, on_approval=on_approval if place == "session" else None)
    turn = await chat.run("Go.", **({"on_approval": on_approval} if place == "run" else {}))

    assert done == [("ann", 5)]
    assert turn.text == "paid ann 5"
    assert [pending.tool_name for pending in asked] == ["pay"]


async def test_the_agent_inside_a_tool_is_asked_before_the_run_around_it():
    order = []

    def asker(name, decision):
        async def on_approval(pending):
            order.append(name)
            return decision

        return on_approval

    helper, done = payer(on_approval=asker("inner", "ask"))

    @tool
    def delegate() -> str:
        return helper.run_sync("Pay Ann.").text

    boss = agent(model=once("delegate"), tools=[delegate], on_approval=asker("outer", False))
    await boss.run("Go.")

    assert order == ["inner", "outer"]
    assert done == []

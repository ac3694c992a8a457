"""Handoffs: another agent takes over the conversation."""

import asyncio
import pickle
import subprocess
import sys
from dataclasses import dataclass

import pytest
from pydantic import BaseModel

from turntree import ApprovalRequired, Limits, Session, agent, handoff, session, tools
from turntree import thread_protocol as tp
from turntree.execution import loop
from turntree.store import memory
from turntree.upp import Reply, ToolCall, UPPError, openai, scripted, tool

TO_BILLING = ToolCall("h1", "transfer_to_billing", {})


def agents(*billing_replies, triage=(TO_BILLING,), **options):
    """Return an agent that hands the conversation to another one, and the other one."""
    model = scripted(list(billing_replies) or ["You get 5 euros back."])
    billing = agent(model=model, name="billing", system="You do refunds.", **options)
    return agent(model=scripted(list(triage)), name="triage", tools=[handoff(billing)]), billing


def agents_of(messages):
    return [(message.metadata or {}).get("turntree", {}).get("agent") for message in messages]


def test_the_other_agent_answers_with_the_whole_conversation_and_its_own_prompt():
    triage, billing = agents()

    turn = triage.run_sync("Refund, please.")

    assert turn.text == "You get 5 euros back."
    assert turn.agent == "billing"
    assert agents_of(turn.messages) == [None, "triage", None, "billing"]
    (request,) = billing.model.requests
    assert request.system == "You do refunds."
    assert [message.type for message in request.messages] == ["user", "assistant", "tool_result"]
    assert turn.cycles == 2
    assert [done.tool_name for done in turn.tool_executions] == ["transfer_to_billing"]


def test_an_agent_without_handoffs_does_not_name_itself():
    turn = agent(model=scripted(["Hi."]), name="plain").run_sync("Hi")

    assert turn.agent is None
    assert "turntree" not in (turn.response.metadata or {})


def test_a_stream_has_the_events_of_both_agents_without_marks():
    triage, _billing = agents()

    stream = triage.stream_sync("Refund, please.")
    events = list(stream)

    assert "".join(event.upp.delta["text"] for event in events if event.upp and event.upp.type == "text_delta") == (
        "You get 5 euros back."
    )
    assert all(event.source != "sub_agent" for event in events)
    assert stream.turn.agent == "billing"


def test_the_next_turn_of_a_session_starts_with_the_agent_that_answered():
    triage, _billing = agents("You get 5 euros back.", "On Monday.")
    chat = session(triage)

    chat.run_sync("Refund, please.")
    second = chat.run_sync("When?")

    assert (second.text, second.agent) == ("On Monday.", "billing")
    assert agents_of(second.messages) == [None, "billing"]


async def test_a_session_from_a_store_goes_on_with_the_agent_that_answered():
    store = memory()
    first, _billing = agents()
    async with store:
        chat = await Session.open(store, "chat", first)
        await chat.run("Refund, please.")

        again, _other = agents("On Monday.", triage=[])
        loaded = await Session.load(store, "chat", again)
        turn = await loaded.run("When?")

    assert (turn.text, turn.agent) == ("On Monday.", "billing")


def test_each_branch_has_the_agent_that_answered_on_it():
    triage, _billing = agents("Refunded.", triage=["Hello.", TO_BILLING, "Still me."])
    chat = session(triage)
    chat.run_sync("Hi")
    start = chat.tree.current.id
    refund, other = chat.fork(start), chat.fork(start)

    chat.tree.checkout(refund)
    assert chat.run_sync("Refund").agent == "billing"
    chat.tree.checkout(other)

    assert chat.run_sync("Nothing").agent == "triage"


async def run_at(chat, how, node, **options):
    """Run at a node in one of the four ways."""
    if how == "run":
        return await chat.run("When?", at=node, **options)
    if how == "run_sync":
        return await asyncio.to_thread(chat.run_sync, "When?", at=node, **options)
    if how == "stream":
        stream = chat.stream("When?", at=node, **options)
        events = [event async for event in stream]
        assert "".join(event.upp.delta["text"] for event in events if event.upp and event.upp.type == "text_delta")
        return await stream.turn
    return await asyncio.to_thread(lambda: chat.stream_sync("When?", at=node, **options).turn)


@pytest.mark.parametrize("how", ["run", "run_sync", "stream", "stream_sync"])
async def test_a_run_at_another_node_starts_with_the_agent_that_answered_there(how):
    triage, billing = agents("Refunded.", "On Monday.", "In May.")
    chat = session(triage)
    chat.run_sync("Refund, please.")
    current = chat.tree.current.id
    branch = chat.fork(current)

    turn = await run_at(chat, how, branch)
    again = await run_at(chat, how, branch)

    assert (turn.text, turn.agent, again.text, again.agent) == ("On Monday.", "billing", "In May.", "billing")
    assert len(triage.model.requests) == 1
    assert [message.text for message in billing.model.requests[-1].messages[-3:]] == ["When?", "On Monday.", "When?"]
    assert [message.text for message in chat.tree.history(branch)[-4:]] == ["When?", "On Monday.", "When?", "In May."]
    assert chat.tree.current.id == current
    assert not chat.is_unfinished


async def test_a_run_at_another_node_says_how_to_approve_a_call_of_the_other_agent():
    @tool(approval="ask")
    def pay(amount: int) -> str:
        return f"paid {amount}"

    billing = agent(
        model=scripted(["Refunded.", *[ToolCall("p1", "pay", {"amount": 5})] * 2, "Paid."]), name="billing", tools=[pay]
    )
    chat = session(agent(model=scripted([TO_BILLING]), name="triage", tools=[handoff(billing)]))
    await chat.run("Refund, please.")
    branch = chat.fork(chat.tree.current.id)

    with pytest.raises(ApprovalRequired, match=r"pay \(p1\); a run with at= cannot be resumed") as caught:
        await chat.run("Pay.", at=branch)
    assert [call.arguments for call in caught.value.calls] == [{"amount": 5}]
    assert chat.pending == []

    turn = await chat.run("Pay.", at=branch, on_approval=lambda call: True)
    assert (turn.text, turn.agent) == ("Paid.", "billing")


def test_a_failed_run_resumes_with_the_agent_that_had_taken_over():
    triage, billing = agents(ConnectionError("down"), "Refunded.")
    chat = session(triage)
    with pytest.raises((ConnectionError, UPPError)):
        chat.run_sync("Refund, please.")

    again = Session.from_json(chat.to_json(), triage)
    turn = again.resume_sync()

    assert (turn.text, turn.agent) == ("Refunded.", "billing")
    assert agents_of(turn.messages) == [None, "triage", None, "billing"]
    assert len(triage.model.requests) == 1
    assert len(billing.model.requests) == 2


def test_agents_hand_the_conversation_to_each_other_at_most_ten_times():
    calls = [0]

    def play(request):
        calls[0] += 1
        if request.messages[-1].type == "tool_result" and request.messages[-1].results[0].is_error:
            return "I answer myself."
        name = "b" if any(offered["name"] == "transfer_to_b" for offered in request.tools) else "a"
        return ToolCall(f"call{calls[0]}", f"transfer_to_{name}", {})

    first = agent(model=scripted(play), name="a", tools=[handoff(lambda: second, name="b")])
    second = agent(model=scripted(play), name="b", tools=[handoff(first)])

    turn = first.run_sync("Hi")

    assert turn.text == "I answer myself."
    assert turn.agent == "a"
    assert calls == [12]
    assert "handed over 10 times" in turn.tool_executions[-1].result


def test_an_endless_circle_of_handoffs_ends_with_an_error_about_handoffs():
    calls = [0]

    def play(request):
        calls[0] += 1
        name = "b" if any(offered["name"] == "transfer_to_b" for offered in request.tools) else "a"
        return ToolCall(f"call{calls[0]}", f"transfer_to_{name}", {})

    first = agent(model=scripted(play), name="a", tools=[handoff(lambda: second, name="b")], execution=loop(3))
    second = agent(model=scripted(play), name="b", tools=[handoff(first)], execution=loop(3))

    with pytest.raises(UPPError) as raised:
        first.run_sync("Hi")

    assert raised.value.message == (
        "Handoffs exceeded their maximum (10 for one input), and the model did not answer: it called 'transfer_to_b' "
        "again and again; say in system= which agent answers what, or give one of the agents fewer handoffs"
    )
    assert calls == [14]


def test_the_conversation_comes_back_by_a_function_that_names_the_agent():
    billing = agent(
        model=scripted(["Refunded.", ToolCall("h2", "transfer_to_triage", {})]),
        name="billing",
        tools=[handoff(lambda: triage, name="triage")],
    )
    triage = agent(model=scripted([TO_BILLING, "Anything else?"]), name="triage", tools=[handoff(billing)])
    chat = session(triage)

    answers = [chat.run_sync(text) for text in ("Refund", "Thanks")]

    assert [(turn.text, turn.agent) for turn in answers] == [("Refunded.", "billing"), ("Anything else?", "triage")]


def test_the_other_calls_of_the_response_run_first_and_a_second_handoff_is_refused():
    asked = []

    @tool
    def look_up(order: int) -> str:
        """Look up an order."""
        asked.append(order)
        return "paid"

    billing = agent(model=scripted(["Refunded."]), name="billing")
    sales = agent(model=scripted([]), name="sales")
    calls = [TO_BILLING, ToolCall("l1", "look_up", {"order": 7}), ToolCall("h2", "transfer_to_sales", {})]
    triage = agent(model=scripted([calls]), name="triage", tools=[handoff(billing), handoff(sales), look_up])

    turn = triage.run_sync("Refund")

    assert turn.agent == "billing"
    assert asked == [7]
    results = {result.tool_call_id: result for result in turn.messages[2].results}
    assert results["h2"].is_error
    assert "'transfer_to_billing' was called first" in results["h2"].result
    assert not results["h1"].is_error


def test_an_approval_of_the_agent_that_has_taken_over_waits_in_the_session():
    @tool(approval="ask")
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    triage, _billing = agents(ToolCall("p1", "pay", {"amount": 5}), "Done.", tools=[pay])
    chat = session(triage)
    with pytest.raises(ApprovalRequired) as waiting:
        chat.run_sync("Refund")

    assert [call.tool_name for call in waiting.value.calls] == ["pay"]
    chat.approve("p1")
    turn = chat.resume_sync()

    assert (turn.text, turn.agent) == ("Done.", "billing")


def test_limits_count_both_agents():
    triage, _billing = agents()

    with pytest.raises(Exception, match="request"):
        triage.run_sync("Refund", limits=Limits(requests=1))


def test_dependencies_reach_the_tools_of_the_other_agent():
    @tool
    def who(context: tools.ToolContext) -> str:
        """Say who asks."""
        return context.deps

    triage, _billing = agents(ToolCall("w1", "who", {}), "Done.", tools=[who])

    turn = triage.run_sync("Refund", deps="Ada")

    assert turn.tool_executions[-1].result == "Ada"


def test_thread_protocol_has_an_agent_for_each_name():
    triage, _billing = agents()
    turn = triage.run_sync("Refund, please.")

    thread = tp.from_upp(turn.messages)

    names = {config.agent_name: config.agent_id for config in thread.agents.values()}
    (answer,) = [action for action in thread.actions if isinstance(action, tp.AssistantMessageAction)]
    assert answer.agent_id == names["billing"]
    assert "triage" in names
    assert thread.to_upp() == list(turn.messages)


@dataclass
class Refund:
    amount: int


class Ticket(BaseModel):
    topic: str


REFUND = '{"amount": 5}'
WAYS = ["run_sync", "stream", "run", "session", "resume", "reloaded", "map"]


async def turn_of(way, triage):
    """Run an agent that hands over, in one of the ways."""
    if way == "run_sync":
        return await asyncio.to_thread(triage.run_sync, "Refund, please.")
    if way == "stream":
        return await triage.stream("Refund, please.").turn
    if way == "run":
        return await triage.run("Refund, please.")
    if way == "map":
        return await anext(aiter(triage.map(["Refund, please."])))
    chat = session(triage)
    if way == "session":
        return await chat.run("Refund, please.")
    with pytest.raises(ApprovalRequired):
        await chat.run("Refund, please.")
    if way == "reloaded":
        chat = Session.from_json(chat.to_json(), triage)
    chat.approve_all()
    return await chat.resume()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("later", [False, True], ids=["agent", "function"])
async def test_the_data_of_a_turn_has_the_type_of_the_agent_that_answered(way, later):
    @tool(approval="ask" if way in ("resume", "reloaded") else None)
    def look_up() -> str:
        return "found"

    billing = agent(
        model=scripted([ToolCall("t", "look_up", {}), REFUND]), name="billing", structure=Refund, tools=[look_up]
    )
    target = handoff(lambda: billing, name="billing") if later else handoff(billing)
    triage = agent(model=scripted([TO_BILLING]), name="triage", structure=Ticket, tools=[target])

    turn = await turn_of(way, triage)

    assert (turn.agent, turn.data) == ("billing", Refund(5))
    assert type(turn.data) is Refund


async def test_each_turn_of_a_session_has_the_type_of_its_agent():
    replies = iter(['{"topic": "refund"}'])
    triage = agent(
        model=scripted(lambda request: next(replies, TO_BILLING)),
        name="triage",
        structure=Ticket,
        tools=[handoff(lambda: billing, name="billing")],
    )
    seen = []
    billing = agent(
        model=scripted([REFUND, ToolCall("h2", "transfer_to_clerk", {})]),
        name="billing",
        structure=Refund,
        tools=[handoff(agent(model=scripted(['{"topic": "thanks"}']), name="clerk", structure=Ticket))],
        hooks={"on_complete": lambda turn: seen.append(turn.data)},
    )
    chat = session(triage)

    data = [(await chat.run(text)).data for text in ("Hello", "Refund, please.", "The clerk, please.")]

    assert data == [Ticket(topic="refund"), Refund(5), Ticket(topic="thanks")]
    assert seen == [Refund(5)]


def test_the_data_of_an_agent_without_a_structure_is_none_after_a_handoff():
    billing = agent(model=scripted(["5 euros"]), name="billing")
    triage = agent(model=scripted([TO_BILLING]), name="triage", structure=Ticket, tools=[handoff(billing)])

    assert triage.run_sync("Refund, please.").data is None


def test_the_turn_has_the_exceptions_of_the_tools_of_each_agent():
    error = LookupError("no such order")

    def look_up() -> str:
        raise error

    billing = agent(model=scripted([ToolCall("t", "look_up", {}), "Sorry."]), name="billing", tools=[look_up])
    triage = agent(model=scripted([TO_BILLING]), name="triage", tools=[handoff(billing)])

    turn = triage.run_sync("Refund, please.")

    assert turn.tool_executions[-1].exception is error


def test_a_thread_protocol_document_has_one_agent_for_each_name():
    def triage_model(request):
        return "Anything else?" if request.messages[-1].type == "tool_result" else TO_BILLING

    triage = agent(model=scripted(triage_model), name="triage", tools=[handoff(lambda: billing, name="billing")])
    billing = agent(model=scripted([ToolCall("h2", "transfer_to_triage", {})]), name="billing", tools=[handoff(triage)])
    chat = session(triage)
    chat.run_sync("Refund, please.")

    for thread in [tp.from_upp(chat), *tp.from_tree(chat)]:
        assert sorted(one.agent_name for one in thread.agents.values()) == ["billing", "triage"]
        of_triage = next(one for one in thread.agents.values() if one.agent_name == "triage")
        assert of_triage.agent_id == triage.id
        names = [thread.agents[action.agent_id].agent_name for action in thread.actions if hasattr(action, "agent_id")]
        assert [name for name in names if name][-1] == "triage"
        assert thread.validate() == []
        assert thread.to_upp() == chat.tree.history()


def test_a_handoff_is_pickled_with_its_agent():
    billing = agent(model=openai("gpt-5", api_key="x"), name="billing")

    copy = pickle.loads(pickle.dumps(handoff(billing, "For refunds.")))

    assert (copy.name, copy.description) == ("transfer_to_billing", "For refunds.")


def test_mistakes_name_the_remedy():
    nameless = agent(model=scripted([]))
    with pytest.raises(ValueError, match=r"agent\(name="):
        handoff(nameless)
    with pytest.raises(ValueError, match="needs the name"):
        handoff(lambda: nameless)
    with pytest.raises(TypeError, match="not int"):
        handoff(3)
    assert tools.handoff is handoff


def without_tools(messages):
    return [message for message in messages if message.type == "user"]


def test_an_input_filter_chooses_what_the_other_agent_reads():
    billing = agent(model=scripted(["Refunded.", "On Monday."]), name="billing")
    triage = agent(model=scripted([TO_BILLING]), name="triage", tools=[handoff(billing, input_filter=without_tools)])
    chat = session(triage)

    turn = chat.run_sync("Refund, please.")
    second = chat.run_sync("When?")

    first, later = (
        [message.text for message in request.messages if message.type != "tool_result"]
        for request in billing.model.requests
    )
    assert first == ["Refund, please."]
    assert later == ["Refund, please.", "Refunded.", "When?"]
    assert [message.type for message in turn.messages] == ["user", "assistant", "tool_result", "assistant"]
    assert (second.text, second.agent) == ("On Monday.", "billing")


def test_an_input_filter_applies_again_when_the_run_is_resumed():
    model = scripted([ConnectionError("down"), "Refunded."])
    billing = agent(model=model, name="billing")
    triage = agent(model=scripted([TO_BILLING]), name="triage", tools=[handoff(billing, input_filter=without_tools)])
    chat = session(triage)
    with pytest.raises((ConnectionError, UPPError)):
        chat.run_sync("Refund, please.")

    Session.from_json(chat.to_json(), triage).resume_sync()

    assert [[message.type for message in request.messages] for request in model.requests] == [["user"]] * 2


@pytest.mark.parametrize(
    ("input_filter", "words"),
    [(lambda messages: None, "must return a list of messages"), (lambda messages: [], "not empty")],
)
def test_a_wrong_input_filter_ends_the_run(input_filter, words):
    billing = agent(model=scripted(["x"]), name="billing")
    triage = agent(model=scripted([TO_BILLING]), name="triage", tools=[handoff(billing, input_filter=input_filter)])

    with pytest.raises(TypeError, match=words):
        triage.run_sync("Refund")
    with pytest.raises(TypeError, match="must be a function, not int"):
        handoff(billing, input_filter=3)


def test_a_handoff_with_an_input_filter_is_pickled():
    billing = agent(model=openai("gpt-5", api_key="x"), name="billing")

    copy = pickle.loads(pickle.dumps(handoff(billing, input_filter=without_tools)))

    assert copy._input_filter is without_tools


async def test_the_timeout_of_a_run_bounds_both_agents():
    # Each agent alone is fast enough, and the first one also on a machine that stalls.
    billing = agent(model=scripted([Reply("Refunded.", delay=4.8)]), name="billing")
    triage = agent(model=scripted([Reply(TO_BILLING, delay=0.5)]), name="triage", tools=[handoff(billing)])

    with pytest.raises(UPPError, match="within 5 s") as failed:
        await triage.run("Refund", timeout=5)

    assert failed.value.code == "TIMEOUT"
    assert [message.type for message in failed.value.partial.messages[:3]] == ["user", "assistant", "tool_result"]


def test_only_the_agent_that_answers_completes_the_turn():
    completed = []

    def on_complete(name):
        return {"on_complete": lambda turn: completed.append((name, turn.text))}

    billing = agent(model=scripted(["Refunded."]), name="billing", hooks=on_complete("billing"))
    triage = agent(model=scripted([TO_BILLING]), name="triage", tools=[handoff(billing)], hooks=on_complete("triage"))

    triage.run_sync("Refund")

    assert completed == [("billing", "Refunded.")]


async def test_a_session_in_sqlite_goes_on_with_the_agent_that_answered(tmp_path):
    url = f"sqlite:///{tmp_path}/chat.db"
    first, _billing = agents()
    chat = await Session.open(url, "chat", first)
    await chat.run("Refund, please.")

    again, _other = agents("On Monday.", triage=[])
    turn = await (await Session.load(url, "chat", again)).run("When?")

    assert (turn.text, turn.agent) == ("On Monday.", "billing")


KILLED = """
import asyncio, os, sys
from turntree import Session, agent, handoff
from turntree.upp import ToolCall, scripted

def die(request):
    os._exit(9)

billing = agent(model=scripted(die), name="billing")
triage = agent(model=scripted([ToolCall("h1", "transfer_to_billing", {})]), name="triage", tools=[handoff(billing)])

async def main():
    chat = await Session.open(sys.argv[1], "chat", triage, save_interval="tool")
    await chat.run("Refund, please.")

asyncio.run(main())
"""


async def test_a_run_of_a_killed_process_resumes_with_the_agent_that_had_taken_over(tmp_path):
    url = f"sqlite:///{tmp_path}/chat.db"
    assert subprocess.run([sys.executable, "-c", KILLED, url], check=False).returncode == 9

    triage, billing = agents("Refunded.", triage=[])
    chat = await Session.load(url, "chat", triage)
    assert chat.is_unfinished
    turn = await chat.resume()

    assert (turn.text, turn.agent) == ("Refunded.", "billing")
    assert agents_of(turn.messages) == [None, "triage", None, "billing"]
    assert len(billing.model.requests) == 1


@pytest.mark.parametrize("argument", ["description", "name", "tool_name"])
def test_a_text_of_a_handoff_is_a_str(argument):
    with pytest.raises(TypeError, match=rf"handoff\(\): {argument} must be a str or None, not int"):
        handoff(agent(model=scripted(["x"]), name="billing"), **{argument: 3})

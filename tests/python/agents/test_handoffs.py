"""Handoffs: another agent takes over the conversation."""

import pickle

import pytest

from turntree import ApprovalRequired, Limits, Session, agent, handoff, session, tools
from turntree import thread_protocol as tp
from turntree.store import memory
from turntree.upp import ToolCall, UPPError, openai, scripted, tool

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

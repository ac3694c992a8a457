"""Limits of a run and of everything that it starts, and the usage of sub-agents."""

import copy
import pickle

import pytest
from agent_support import add, call, calls_for_ever

from turntree import ApprovalRequired, BudgetExceeded, LimitExceeded, Limits, ModelRetry, agent, session
from turntree.upp import TokenUsage, UPPError, llm, scripted, tool


def sub_agent_caller(inner, times=1):
    """An agent that calls another one `times` times, then answers."""

    def reply(request):
        done = sum(message.type == "tool_result" for message in request.messages)
        return call("ask", task="x") if done < times else "outside"

    return agent(model=scripted(reply), tools=[inner.to_tool(name="ask", description="Ask.")], name="outer")


async def test_requests_are_limited():
    helper = agent(model=scripted(calls_for_ever), tools=[add])

    with pytest.raises(LimitExceeded) as error:
        await helper.run("hi", limits=Limits(requests=3))

    assert isinstance(error.value, BudgetExceeded)
    assert (error.value.resource, error.value.limit, error.value.spent) == ("requests", 3, 3)
    assert error.value.partial.cycles == 3
    assert "raise Limits(requests=…)" in str(error.value)


async def test_a_run_may_use_all_of_a_limit():
    helper = agent(model=scripted([call(a=1, b=2), "3"]), tools=[add])

    turn = await helper.run("hi", limits=Limits(requests=2, tool_calls=1))

    assert turn.text == "3"


@pytest.mark.parametrize("resource", ["input_tokens", "output_tokens", "total_tokens"])
async def test_tokens_are_limited_before_the_next_request(resource):
    helper = agent(model=scripted(calls_for_ever), tools=[add])
    spent = getattr((await agent(model=scripted(["x"])).run("hi")).usage, resource)
    assert spent > 0

    with pytest.raises(LimitExceeded) as error:
        await helper.run("hi", limits=Limits(**{resource: 1}))

    assert error.value.resource == resource
    assert error.value.partial.cycles == 1
    assert isinstance(error.value.spent, int)


async def test_a_round_with_more_calls_than_are_left_runs_none_of_them():
    ran = []

    @tool
    def note(n: int) -> int:
        ran.append(n)
        return n

    helper = agent(model=scripted([[call("note", n=n) for n in range(3)], "x"]), tools=[note])

    with pytest.raises(LimitExceeded) as error:
        await helper.run("hi", limits=Limits(tool_calls=2))

    assert ran == []
    assert (error.value.resource, error.value.limit, error.value.spent) == ("tool_calls", 2, 3)
    results = error.value.partial.messages[-1].results
    assert len(results) == 3
    assert all(result.is_error for result in results)


async def test_seconds_are_limited():
    helper = agent(model=scripted(calls_for_ever), tools=[add])

    with pytest.raises(LimitExceeded) as error:
        await helper.run("hi", limits=Limits(seconds=0.0))

    assert error.value.resource == "seconds"
    assert isinstance(error.value.limit, float)


async def test_a_cost_limit_needs_prices():
    helper = agent(model=scripted(calls_for_ever), tools=[add])

    with pytest.raises(UPPError, match=r"turntree\.upp\.prices"):
        await helper.run("hi", limits=Limits(cost=1.0))


async def test_sub_agents_count():
    inner = agent(model=scripted(lambda request: "inside"), name="inner")

    turn = await sub_agent_caller(inner, 2).run("hi", limits=Limits(requests=5))
    assert turn.text == "outside"
    with pytest.raises(LimitExceeded) as error:
        await sub_agent_caller(inner, 2).run("hi", limits=Limits(requests=4))
    assert error.value.partial.cycles == 2


async def test_a_limit_that_a_sub_agent_reaches_ends_the_outer_run():
    inner = agent(model=scripted(calls_for_ever), tools=[add], name="inner")

    with pytest.raises(LimitExceeded) as error:
        await sub_agent_caller(inner).run("hi", limits=Limits(tool_calls=3))

    assert error.value.resource == "tool_calls"
    assert error.value.partial.messages[0].text == "hi"


async def test_runs_and_models_inside_tools_count():
    helper, model = agent(model=scripted(lambda request: "x")), llm(model=scripted(lambda request: "y"))

    @tool
    async def work() -> str:
        return (await helper.run("hi")).text + (await model.generate("hi")).text

    outer = agent(model=scripted([call("work"), "end"]), tools=[work])
    assert (await outer.run("hi", limits=Limits(requests=4))).text == "end"
    outer = agent(model=scripted([call("work"), "end"]), tools=[work])
    with pytest.raises(LimitExceeded):
        await outer.run("hi", limits=Limits(requests=3))


async def test_limits_of_an_inner_run_add_to_those_of_the_outer_one():
    helper = agent(model=scripted(calls_for_ever), tools=[add])
    reached = []

    @tool
    async def work() -> str:
        try:
            await helper.run("hi", limits=Limits(requests=2))
        except LimitExceeded as error:
            reached.append(error.limit)
        return "worked"

    outer = agent(model=scripted([call("work"), "end"]), tools=[work])
    turn = await outer.run("hi", limits=Limits(requests=4))

    assert turn.text == "end"
    assert reached == [2]


async def test_the_runs_of_a_map_share_the_limits():
    helper = agent(model=scripted(lambda request: "x"))
    turns = []

    with pytest.raises(LimitExceeded):
        async for turn in helper.map("abcdef", concurrency=3, limits=Limits(requests=4)):
            turns.append(turn)

    assert len(turns) == 4


async def test_refused_output_and_refused_calls_count():
    def refuse(value):
        raise ModelRetry("no")

    helper = agent(model=scripted(lambda request: "x"), output_validators=[refuse], output_retries=10)

    with pytest.raises(LimitExceeded) as error:
        await helper.run("hi", limits=Limits(requests=3))

    assert [message.text for message in error.value.partial.messages] == ["hi", "x", "no", "x", "no", "x", "no"]


async def test_a_resumed_run_counts_what_it_has_used():
    @tool(approval="ask")
    def write() -> str:
        return "written"

    def waiting():
        model = scripted(lambda request: "end" if request.messages[-1].type == "tool_result" else call("write"))
        return session(agent(model=model, tools=[write]))

    conversation = waiting()
    with pytest.raises(ApprovalRequired):
        await conversation.run("hi")
    conversation.approve(conversation.pending[0])
    with pytest.raises(LimitExceeded) as error:
        await conversation.resume(limits=Limits(requests=1))
    assert (error.value.limit, error.value.spent) == (1, 1)
    turn = await conversation.resume(limits=Limits(requests=2, tool_calls=1))
    assert turn.text == "end"


async def test_the_budget_is_raised_through_a_stream_and_a_session():
    helper = agent(model=scripted(calls_for_ever), tools=[add])

    with pytest.raises(LimitExceeded):
        async for _ in helper.stream("hi", limits=Limits(requests=1)):
            pass
    conversation = session(agent(model=scripted([call(a=1, b=1), "2"]), tools=[add]))
    with pytest.raises(LimitExceeded):
        await conversation.run("hi", limits=Limits(requests=1))
    assert (await conversation.resume()).text == "2"


async def test_usage_tells_the_agent_from_the_agents_that_it_called():
    deep = agent(model=scripted(lambda request: "deep"), name="deep")
    middle = agent(
        model=scripted(lambda request: "m" if request.messages[-1].type == "tool_result" else call("go", task="x")),
        tools=[deep.to_tool(name="go", description="Go.")],
        name="middle",
    )

    turn = await sub_agent_caller(middle, 2).run("hi")

    usage = turn.usage
    assert len(usage.cycles) == turn.cycles == 3
    assert list(usage.by_agent) == ["deep", "middle"]
    assert isinstance(usage.by_agent["deep"], TokenUsage)
    assert len(usage.by_agent["deep"].cycles) == 2
    assert len(usage.by_agent["middle"].cycles) == 4
    assert usage.by_agent["middle"].input_tokens == sum(cycle.input_tokens for cycle in usage.by_agent["middle"].cycles)


async def test_usage_without_other_agents_names_none():
    turn = await agent(model=scripted(["x"])).run("hi")

    assert turn.usage.by_agent == {}
    assert "byAgent" not in turn.to_json()


async def test_the_usage_of_a_failed_sub_agent_is_known():
    inner = agent(model=scripted([call(a=1, b=1), UPPError("down", "PROVIDER_ERROR")]), tools=[add], name="inner")

    turn = await sub_agent_caller(inner).run("hi")

    assert turn.tool_executions[0].is_error
    assert len(turn.usage.by_agent["inner"].cycles) == 1


async def test_the_usage_of_sub_agents_survives_a_restart():
    inner = agent(model=scripted(lambda request: "inside"), name="inner")

    @tool(approval="ask")
    def write() -> str:
        return "written"

    def reply(request):
        done = sum(message.type == "tool_result" for message in request.messages)
        return [call("ask", task="x"), call("write"), "end"][done]

    def outer():
        return agent(model=scripted(reply), tools=[inner.to_tool(name="ask", description="Ask."), write], name="outer")

    conversation = session(outer())
    with pytest.raises(ApprovalRequired):
        await conversation.run("hi")
    again = type(conversation).from_json(conversation.to_json(), outer())
    again.approve(again.pending[0])
    turn = await again.resume()

    assert len(turn.usage.by_agent["inner"].cycles) == 1


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"requests": 1.5}, TypeError, r"Limits\(requests=…\) must be an int, not float"),
        ({"requests": True}, TypeError, "not bool"),
        ({"cost": "1"}, TypeError, r"Limits\(cost=…\) must be a number, not str"),
        ({"tool_calls": -1}, ValueError, r"Limits\(tool_calls=…\) must not be negative"),
        ({"seconds": float("nan")}, ValueError, "must not be negative"),
    ],
)
def test_wrong_limits_are_explained(options, error, text):
    with pytest.raises(error, match=text):
        Limits(**options)


def test_limits_are_plain_data():
    limits = Limits(requests=3, cost=0.5)

    assert limits == copy.deepcopy(limits) == pickle.loads(pickle.dumps(limits))
    assert limits.__replace__(requests=4) == Limits(requests=4, cost=0.5)
    assert limits != Limits(requests=3)
    assert repr(limits) == "Limits(requests=3, cost=0.5)"
    with pytest.raises(AttributeError, match="cannot be changed"):
        limits.requests = 4
    assert hash(limits) == hash(Limits(requests=3, cost=0.5))


async def test_the_error_can_be_pickled():
    with pytest.raises(LimitExceeded) as error:
        await agent(model=scripted(["x"])).run("hi", limits=Limits(requests=0))
    copied = pickle.loads(pickle.dumps(error.value))

    assert (str(copied), copied.resource, copied.limit) == (str(error.value), "requests", 0)

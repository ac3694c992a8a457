"""Validators of the output, and tools that ask the model to call them again."""

import asyncio
import logging
from dataclasses import dataclass

import pytest
from agent_support import call

from turntree import ModelRetry, RunContext, Session, agent, session
from turntree.execution import parallel, plan, react, sequence
from turntree.store import memory
from turntree.upp import ErrorCode, UPPError, llm, scripted, tool


@dataclass
class City:
    """A city."""

    name: str
    country: str


def polite(value):
    """Refuse text without a greeting."""
    if "please" not in value:
        raise ModelRetry("say please")


def marks(turn):
    return [(message.metadata or {}).get("turntree") for message in turn.messages]


def texts(turn):
    return [message.text for message in turn.messages]


# Validators


async def test_refused_text_is_asked_for_again_and_stays_in_the_transcript():
    model = scripted(["no", "yes, please"])

    turn = await agent(model=model, output_validators=[polite]).run("hi")

    assert turn.text == "yes, please"
    assert texts(turn) == ["hi", "no", "say please", "yes, please"]
    assert marks(turn) == [None, {"refused": "say please"}, {"outputRetry": True}, None]
    assert [message.text for message in model.requests[1].messages] == ["hi", "no", "say please"]


async def test_validators_receive_data_of_the_requested_type():
    seen = []

    async def known(context: RunContext, city: City):
        await asyncio.sleep(0)
        seen.append((context.deps, city))
        if city.country != "France":
            raise ModelRetry(f"{city.name} is in France")
        return city

    model = scripted(['{"name": "Paris", "country": "Texas"}', '{"name": "Paris", "country": "France"}'])
    turn = await agent(model=model, structure=City, output_validators=[known]).run("Where?", deps="atlas")

    assert turn.data == City("Paris", "France")
    assert seen == [("atlas", City("Paris", "Texas")), ("atlas", City("Paris", "France"))]
    assert model.requests[1].messages[-1].text == "Paris is in France"


async def test_validators_run_in_order_until_one_refuses():
    ran = []

    def first(value):
        ran.append("first")
        polite(value)

    def second(value):
        ran.append("second")

    await agent(model=scripted(["no", "please"]), output_validators=[first, second]).run("hi")

    assert ran == ["first", "first", "second"]


async def test_the_budget_of_output_ends_the_run_with_its_partial_turn():
    helper = agent(model=scripted(lambda request: "no"), output_validators=[polite], output_retries=2)

    with pytest.raises(UPPError) as error:
        await helper.run("hi")

    assert error.value.code is ErrorCode.INVALID_RESPONSE
    assert "asked again 2 times" in error.value.message
    assert "say please" in error.value.message
    assert error.value.partial.cycles == 3
    with pytest.raises(UPPError, match="asked again once, which is the most: say please"):
        await helper.with_(output_retries=1).run("hi")
    assert texts(error.value.partial) == ["hi", "no", "say please", "no", "say please", "no"]


async def test_without_retries_the_first_refusal_ends_the_run():
    helper = agent(model=scripted(["no"]), output_validators=[polite], output_retries=0)

    with pytest.raises(UPPError, match="say please"):
        await helper.run("hi")


async def test_output_that_does_not_match_the_structure_is_repaired_several_times():
    replies = ['{"name": 1}', '{"name": "Paris"}', '{"name": "Paris", "country": "France"}']
    turn = await agent(model=scripted(replies), structure=City, output_retries=2).run("Where?")
    assert turn.data == City("Paris", "France")
    assert turn.cycles == 3
    assert [mark is not None and "refused" in mark for mark in marks(turn)] == [False, True, False, True, False, False]

    with pytest.raises(UPPError, match="does not fit the structure"):
        await agent(model=scripted(replies), structure=City, output_retries=1).run("Where?")


async def test_mismatches_and_refusals_share_the_budget():
    def never(city):
        raise ModelRetry("another one")

    replies = ["{}", '{"name": "Paris", "country": "France"}']
    helper = agent(model=scripted(replies), structure=City, output_validators=[never], output_retries=1)

    with pytest.raises(UPPError, match="another one"):
        await helper.run("Where?")


@pytest.mark.parametrize("execution", [react(), plan()], ids=["react", "plan"])
async def test_other_strategies_validate_too(execution):
    plans = '{"steps": [{"id": "1", "description": "answer", "dependsOn": []}]}'

    def reply(request):
        if request.structure is not None:
            return plans
        refused = any("say please" in message.text for message in request.messages)
        return "yes, please" if refused else "no"

    turn = await agent(model=scripted(reply), execution=execution, output_validators=[polite]).run("hi")

    assert turn.text == "yes, please"
    assert {"refused": "say please"} in marks(turn)


async def test_validators_cannot_replace_the_output():
    def shout(value):
        return value.upper()

    with pytest.raises(TypeError, match="the output validator shout returned another value"):
        await agent(model=scripted(["hi"]), output_validators=[shout]).run("hi")


async def test_other_exceptions_of_validators_end_the_run():
    def broken(value):
        raise KeyError("x")

    with pytest.raises(KeyError):
        await agent(model=scripted(["hi"]), output_validators=[broken]).run("hi")


async def test_streams_and_sessions_validate():
    helper = agent(model=scripted(lambda request: f"{len(request.messages)} please"[-6:]), output_validators=[polite])
    stream = agent(model=scripted(["no", "please"]), output_validators=[polite]).stream("hi")
    pieces = [piece async for piece in stream.text()]
    assert "".join(pieces) == "noplease"
    assert (await stream).text == "please"
    conversation = session(helper)
    await conversation.run("hi")
    assert conversation.tree.history()[-1].text == "please"


async def test_a_session_can_resume_after_the_budget_is_used_up():
    replies = iter(["no", "no", "please"])
    helper = agent(model=scripted(lambda request: next(replies)), output_validators=[polite])
    store = memory()
    conversation = session(helper, id="s", persistence=store)
    with pytest.raises(UPPError, match="say please"):
        await conversation.run("hi")

    again = await type(conversation).load(store, "s", helper)
    turn = await again.resume()

    assert turn.text == "please"
    assert marks(turn)[1] == {"refused": "say please"}


@pytest.mark.parametrize("interval", ["tool", "step", "turn"])
async def test_stores_keep_what_was_refused(interval, tmp_path):
    @tool
    def take(n: int) -> int:
        if n == 1:
            raise ModelRetry("not 1")
        return n

    model = scripted([call("take", n=1), "no", call("take", n=2), "please"])
    helper = agent(model=model, tools=[take], output_validators=[polite])
    url = f"sqlite:///{tmp_path}/sessions.db"
    conversation = await Session.open(url, "s", helper, save_interval=interval)
    turn = await conversation.run("hi")
    again = await Session.load(url, "s", helper)

    assert again.tree.history() == turn.messages
    assert [mark for mark in marks(turn) if mark][1:] == [{"refused": "say please"}, {"outputRetry": True}]
    states = [checkpoint.state.messages for checkpoint in again.checkpoints]
    assert states == [checkpoint.state.messages for checkpoint in conversation.checkpoints]
    assert states[-1] == turn.messages


async def test_answers_without_output_are_not_validated():
    ran = []
    helper = agent(model=scripted([call("nothing")]), output_validators=[ran.append])

    await helper.run("hi")

    assert ran == []


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"output_validators": polite}, TypeError, "put a single one into brackets"),
        ({"output_validators": [polite], "execution": sequence(agent())}, ValueError, "to the agent that answers"),
        ({"output_validators": [polite], "execution": parallel(agent())}, ValueError, "check their turns in merge="),
        ({"output_validators": [1]}, TypeError, r"output_validators\[0\]: expected a function, got int"),
        ({"output_validators": [lambda: None]}, TypeError, "must take the value"),
        ({"output_validators": [lambda a, b, c: None]}, TypeError, "must take the value"),
        ({"output_retries": "1"}, TypeError, "output_retries must be an int, not str"),
        ({"output_retries": -1}, ValueError, "output_retries must be from 0 to 1000"),
    ],
)
def test_wrong_options_are_explained(options, error, text):
    with pytest.raises(error, match=text):
        agent(model=scripted([]), **options)


# Tools


def picky(reply="done", **options):
    """A tool that takes even numbers only, and the agent that calls it with each number of a list."""

    @tool(**options)
    def take(n: int) -> int:
        """Take an even number."""
        if n % 2:
            raise ModelRetry(f"{n} is odd")
        return n

    def agent_for(*rounds):
        replies = [[call("take", n=n) for n in numbers] for numbers in rounds]
        return agent(model=scripted([*replies, reply]), tools=[take])

    return agent_for


async def test_a_refused_call_is_an_error_for_the_model_and_is_marked():
    turn = await picky()([1, 2], [4]).run("hi")

    results = turn.messages[2]
    assert [result.result for result in results.results] == ["1 is odd", 2]
    assert [result.is_error for result in results.results] == [True, False]
    assert marks(turn)[2] == {"refused": [results.results[0].tool_call_id]}
    assert marks(turn)[4] is None
    refused = next(execution for execution in turn.tool_executions if execution.is_error)
    assert isinstance(refused.exception, ModelRetry)


async def test_a_tool_that_refuses_too_often_ends_the_run():
    with pytest.raises(UPPError) as error:
        await picky()([1], [3]).run("hi")

    assert error.value.code is ErrorCode.INVALID_RESPONSE
    assert "tool 'take' asked the model to call it again 2 times" in error.value.message
    assert "3 is odd" in error.value.message
    assert error.value.partial.cycles == 2
    assert [result.is_error for result in error.value.partial.messages[-1].results] == [True]


async def test_a_tool_has_its_own_budget():
    assert (await picky(retries=3)([1], [3], [5]).run("hi")).text == "done"
    with pytest.raises(UPPError):
        await picky(retries=0)([1]).run("hi")


async def test_refused_calls_of_one_response_count_once():
    assert (await picky()([1, 3, 5], [2]).run("hi")).text == "done"


async def test_a_successful_call_starts_the_count_anew():
    assert (await picky()([1], [2], [3], [4]).run("hi")).text == "done"


async def test_a_refusal_is_not_logged_as_a_failure(caplog):
    with caplog.at_level(logging.WARNING, logger="turntree.tools"):
        await picky()([1], [2]).run("hi")

    assert [record for record in caplog.records if record.name == "turntree.tools"] == []


async def test_the_count_survives_a_restart():
    @tool(approval="ask")
    def take(n: int) -> int:
        raise ModelRetry(f"{n} is odd")

    def helper():
        return agent(model=scripted(lambda request: call("take", n=len(request.messages))), tools=[take])

    conversation = session(helper())
    with pytest.raises(Exception, match="approval"):
        await conversation.run("hi")
    conversation.approve(conversation.pending[0])
    with pytest.raises(Exception, match="approval"):
        await conversation.resume()
    again = type(conversation).from_json(conversation.to_json(), helper())
    again.approve(again.pending[0])

    with pytest.raises(UPPError, match="asked the model to call it again 2 times"):
        await again.resume()


async def test_tools_of_models_can_refuse():
    @tool
    def take(n: int) -> int:
        if n == 1:
            raise ModelRetry("not 1")
        return n

    turn = await llm(model=scripted([call("take", n=1), call("take", n=2), "done"]), tools=[take]).generate("hi")

    assert turn.text == "done"


@pytest.mark.parametrize(("retries", "error"), [("1", TypeError), (True, TypeError), (-1, ValueError)])
def test_wrong_retries_are_explained(retries, error):
    with pytest.raises(error, match="retries must be"):
        tool(retries=retries)(len)


async def test_a_retry_without_a_reason_says_that_the_answer_was_refused():
    refused = []

    def first(output):
        if not refused:
            refused.append(output)
            raise ModelRetry

    model = scripted(["no", "yes"])
    turn = await agent(model=model, output_validators=[first]).run("hi")

    assert turn.text == "yes"
    assert texts(turn)[2] == "It was refused. Try again."

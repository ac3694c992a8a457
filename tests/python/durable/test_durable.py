"""Agents as workflows of DBOS and as tasks of Absurd: results, errors, approvals, cancellation, retries."""

import asyncio
import contextlib
import logging
from dataclasses import dataclass

import pytest
from durable_servers import postgres_database

from turntree import TurntreeError, agent
from turntree.exceptions import ErrorCode, UPPError
from turntree.execution import loop
from turntree.upp import UserMessage, scripted, tool

ENGINES = ["dbos-sqlite", "dbos-postgres", "absurd"]


def call(name, id="call_1", **arguments):
    return {"toolCallId": id, "toolName": name, "arguments": arguments}


class Dbos:
    """DBOS in this process."""

    def __init__(self, url):
        from dbos import DBOS

        self.dbos = DBOS
        config = {"name": "durable-tests", "system_database_url": url, "log_level": "CRITICAL"}
        DBOS(config=config | {"notification_listener_polling_interval_sec": 0.02})

    async def durable(self, model_or_agent, name="assistant", **options):
        from turntree.durable.dbos import DurableAgent

        durable = DurableAgent(model_or_agent, name=name, interval=0.01, **options)
        self.dbos.launch()
        return durable

    async def steps(self, handle):
        return [step["function_name"] for step in await self.dbos.list_workflow_steps_async(handle.id)]

    async def close(self):
        self.dbos.destroy()


class Absurd:
    """Absurd with a worker in this process."""

    def __init__(self, url):
        from absurd_sdk import AsyncAbsurd

        self.url = url
        self.app = AsyncAbsurd(url, default_max_attempts=3)
        self.worker = None

    async def durable(self, model_or_agent, name="assistant", **options):
        from turntree.durable.absurd import DurableAgent

        durable = DurableAgent(model_or_agent, self.app, name=name, heartbeat=0.05, **options)
        # Connects: two tasks that do it at the same time would open two connections.
        await self.app.list_queues()
        self.worker = asyncio.create_task(self.app.start_worker(claim_timeout=30, poll_interval=0.01))
        return durable

    async def steps(self, handle):
        import psycopg

        async with await psycopg.AsyncConnection.connect(self.url) as connection:
            rows = await connection.execute("SELECT checkpoint_name FROM absurd.c_default")
            return [name for (name,) in await rows.fetchall()]

    async def close(self):
        self.app.stop_worker()
        if self.worker is not None:
            await self.worker
        await self.app.close()


@pytest.fixture(params=ENGINES)
async def engine(request, tmp_path):
    """An engine with an empty database. Says what is not tested."""
    package = "absurd_sdk" if request.param == "absurd" else "dbos"
    pytest.importorskip(package, reason=f"NOT TESTED with {request.param}: the package {package} is not installed")
    if request.param == "absurd":
        engine = Absurd(postgres_database("absurd"))
    else:
        engine = Dbos(f"sqlite:///{tmp_path}/dbos.db" if request.param == "dbos-sqlite" else postgres_database())
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(engine.close)
        yield engine


async def pending_of(handle):
    """Wait until calls need a decision."""
    async with asyncio.timeout(20):
        while not (calls := await handle.pending()):
            await asyncio.sleep(0.01)
    return calls


@dataclass
class City:
    name: str


async def test_a_turn_has_the_type_of_the_structure_and_the_history_is_sent(engine):
    model = scripted(['{"name": "Oslo"}'])
    durable = await engine.durable(agent(model=model, structure=City))

    turn = await durable.run("Which city?", history=[UserMessage("I like rain.")])

    assert turn.data == City("Oslo")
    assert [message.text for message in model.requests[0].messages] == ["I like rain.", "Which city?"]


async def test_a_run_with_a_known_id_is_not_started_again(engine):
    model = scripted(["once", "twice"])
    durable = await engine.durable(agent(model=model))

    first = await durable.start("Go.", id="run-1")
    turn = await first.turn()
    second = await durable.start("Go again.", id="run-1")

    assert second.id == first.id
    assert await second.turn() == turn
    assert await (await durable.handle(first.id)).turn() == turn
    assert len(model.requests) == 1


async def test_steps_have_the_names_of_agents_and_tools(engine):
    @tool(idempotent=True)
    def look_up(seat: str) -> str:
        """Look up a seat."""
        return seat

    expert = agent(model=scripted([call("look_up", seat="12A"), "free"]), tools=[look_up])
    main = agent(model=scripted([call("expert", task="12A"), "done"]), tools=[expert.to_tool(name="expert")])
    durable = await engine.durable(main)

    handle = await durable.start("Go.")
    await handle.turn()

    names = [name.rpartition("/")[0] for name in await engine.steps(handle)]
    expected = ["assistant/expert/model"] * 2 + ["assistant/expert/tool/look_up"] + ["assistant/model"] * 2
    assert sorted(names) == expected


async def test_the_model_reads_the_error_of_a_tool(engine):
    @tool(idempotent=True)
    def fail() -> str:
        """Fail."""
        message = "no such seat"
        raise LookupError(message)

    model = scripted([call("fail"), "sorry"])
    durable = await engine.durable(agent(model=model, tools=[fail]))

    turn = await durable.run("Go.")

    assert turn.tool_executions[0].is_error
    assert turn.tool_executions[0].result == "no such seat"
    assert turn.response.text == "sorry"


async def test_a_model_error_that_may_pass_is_tried_again(engine):
    model = scripted([UPPError("busy", ErrorCode.RATE_LIMITED), "done"])
    durable = await engine.durable(agent(model=model))

    turn = await durable.run("Go.")

    assert turn.response.text == "done"
    assert len(model.requests) == 2


@pytest.mark.parametrize(("code", "requests"), [(ErrorCode.INVALID_REQUEST, 1), (ErrorCode.RATE_LIMITED, 3)])
async def test_a_model_error_is_raised_as_without_the_engine(engine, code, requests):
    model = scripted(lambda request: UPPError("the model says no", code, status_code=418))
    durable = await engine.durable(agent(model=model))

    with pytest.raises(UPPError, match="the model says no") as raised:
        await durable.run("Go.")

    assert raised.value.code == code
    assert raised.value.status_code == 418
    assert len(model.requests) == requests


async def test_the_error_of_a_hook_fails_the_run(engine):
    def broken(turn):
        message = "the hook is broken"
        raise ZeroDivisionError(message)

    durable = await engine.durable(agent(model=scripted(lambda _: "done"), hooks={"on_complete": broken}))

    with pytest.raises((ZeroDivisionError, TurntreeError), match="the hook is broken"):
        await durable.run("Go.")


async def test_calls_wait_for_approval_and_the_other_calls_of_the_round_do_not(engine):
    paid, looked = [], []

    @tool(approval="ask")
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    @tool
    def look() -> str:
        """Look."""
        looked.append(True)
        return "seen"

    calls = [call("pay", "call_1", amount=1), call("look", "call_2"), call("pay", "call_3", amount=2)]
    model = scripted([calls, "done"])
    durable = await engine.durable(agent(model=model, tools=[pay, look]))

    handle = await durable.start("Go.")
    first = await pending_of(handle)
    assert [(item.tool_name, item.arguments, item.reason) for item in first] == [
        ("pay", {"amount": 1}, "approval"),
        ("pay", {"amount": 2}, "approval"),
    ]
    assert (paid, looked) == ([], [True])
    await handle.approve(first[0])
    await handle.deny(first[1].key)
    turn = await handle.turn()

    assert (paid, looked) == ([1], [True])
    assert [execution.approved for execution in turn.tool_executions] == [True, None, False]
    assert turn.tool_executions[2].result == "Tool execution denied"
    assert len(model.requests) == 2
    assert await handle.pending() == []


async def test_a_call_of_a_sub_agent_waits_for_approval(engine):
    @tool(approval="ask")
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    expert_model = scripted([call("pay", amount=7), "It is paid."])
    model = scripted([call("expert", task="Pay 7."), "done"])
    expert = agent(model=expert_model, tools=[pay]).to_tool(name="expert")
    durable = await engine.durable(agent(model=model, tools=[expert]))

    handle = await durable.start("Go.")
    calls = await pending_of(handle)
    await handle.approve(calls[0])
    turn = await handle.turn()

    assert turn.tool_executions[0].result == "It is paid."
    assert not turn.tool_executions[0].is_error
    assert (len(model.requests), len(expert_model.requests)) == (2, 2)


async def test_an_approval_function_is_asked_once(engine):
    asked = []

    async def approve(arguments):
        asked.append(arguments)
        return arguments["amount"] < 5

    @tool(approval=approve)
    def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    calls = [call("pay", "call_1", amount=1), call("pay", "call_2", amount=9)]
    durable = await engine.durable(agent(model=scripted([calls, "done"]), tools=[pay]))

    turn = await durable.run("Go.")

    assert [execution.approved for execution in turn.tool_executions] == [True, False]
    # Which approvals are known is looked up for both calls at once, in any order.
    assert sorted(arguments["amount"] for arguments in asked) == [1, 9]


async def test_a_cancelled_run_ends_and_its_tool_is_cancelled(engine):
    started, cancelled = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "never"

    model = scripted([call("wait"), "done"])
    durable = await engine.durable(agent(model=model, tools=[wait]))
    handle = await durable.start("Go.")
    async with asyncio.timeout(20):
        await started.wait()
        await handle.cancel()
        with pytest.raises(Exception, match=r"cancelled"):
            await handle.turn()
        await cancelled.wait()

    assert (await handle.status()).lower() == "cancelled"
    assert len(model.requests) == 1


async def test_limits_of_the_agent_count_recorded_calls(engine):
    @tool
    def again() -> str:
        """Go on."""
        return "again"

    model = scripted(lambda request: call("again", f"call_{len(request.messages)}"))
    durable = await engine.durable(agent(model=model, tools=[again], execution=loop(2)))

    with pytest.raises(UPPError, match="iterations"):
        await durable.run("Go.")

    assert len(model.requests) == 3


async def test_bad_arguments_are_named(engine):
    class Custom:
        name = "custom"

        async def execute(self, context):
            return await context.llm.generate(context.input)

    good = agent(model=scripted(["done"]))
    with pytest.raises(TypeError, match="assistant: a durable run needs loop"):
        await engine.durable(agent(model=scripted([]), execution=Custom()))
    with pytest.raises(ValueError, match=r"assistant: the agent needs a model"):
        await engine.durable(agent())
    with pytest.raises(ValueError, match=r"pass agent\.to_tool\(name=…\)"):
        await engine.durable(agent(model=scripted([]), tools=[good]))
    with pytest.raises(ValueError, match="in_doubt must be"):
        await engine.durable(good, in_doubt="maybe")
    with pytest.raises(TypeError, match="agent must be an Agent"):
        await engine.durable("assistant")
    durable = await engine.durable(good, name="other")
    with pytest.raises(TypeError):
        await durable.start(3)
    handle = await durable.start("Go.")
    await handle.turn()
    with pytest.raises(TypeError, match="exactly one of result, retry=True and error"):
        await handle.resolve("key", result=1, retry=True)


@pytest.fixture(autouse=True)
def quiet():
    """Without the messages of failed tools and retried steps."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


async def test_a_run_inside_a_dbos_workflow_is_a_child_workflow(tmp_path):
    pytest.importorskip("dbos", reason="NOT TESTED: the package dbos is not installed")
    from dbos import DBOS, SetWorkflowID

    from turntree.durable.dbos import DurableAgent

    engine = Dbos(f"sqlite:///{tmp_path}/dbos.db")
    try:
        durable = DurableAgent(agent(model=scripted(lambda request: request.messages[0].text)), name="assistant")

        @DBOS.workflow(name="outer")
        async def outer() -> list[str]:
            first = await durable.run("one")
            handles = [await durable.start("two"), await durable.start("three")]
            turns = [first, *await asyncio.gather(*(handle.turn() for handle in handles))]
            return [turn.response.text for turn in turns]

        DBOS.launch()
        with SetWorkflowID("trip"):
            texts = await outer()

        assert texts == ["one", "two", "three"]
        children = [step["child_workflow_id"] for step in await DBOS.list_workflow_steps_async("trip")]
        assert len({child for child in children if child}) == 3
    finally:
        await engine.close()

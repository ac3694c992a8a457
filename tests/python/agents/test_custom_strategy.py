"""Custom strategies and combinations of strategies."""

import asyncio
import weakref

import pytest
from strategy_support import call, search, texts

from turntree import Session, agent, session
from turntree.execution import CustomStrategy, ExecutionContext, fallback, loop, plan, react, select
from turntree.upp import Turn, UPPError, UserMessage, scripted, tool

# Custom strategies


class Plain:
    """Calls the model once."""

    name = "plain"

    def __init__(self):
        self.contexts = []

    async def execute(self, context):
        self.contexts.append(context)
        return await context.llm.generate(context.history, context.input)


def test_context_has_the_specified_attributes(run):
    own = Plain()
    hooks = {"on_complete": lambda turn: None}
    helper = agent(model=scripted(["hi"]), tools=[search], execution=own, strategy=hooks, system="Be brief.")

    async def main():
        await helper.run([UserMessage("before")], "go")

    run(main())

    (context,) = own.contexts
    assert isinstance(context, ExecutionContext)
    assert isinstance(own, CustomStrategy)
    assert (context.agent, context.tools[0].name) == (helper, "search")
    assert (context.input.text, texts(context.history)) == ("go", ["before"])
    assert context.strategy.on_complete is hooks["on_complete"]
    assert context.signal.aborted
    assert context.state.step == 0
    assert context.llm.system == "Be brief."


def test_all_four_run_methods_run_a_custom_strategy(run):
    def fresh():
        return agent(model=scripted([[call("search", query="x")], "hi"]), tools=[search], execution=Plain())

    async def streamed():
        stream = fresh().stream("go")
        told = [event.upp.type async for event in stream]
        return told, await stream.turn

    told, turn = run(streamed())
    assert told.count("message_stop") == 2
    assert "tool_execution_end" in told
    for other in (run(fresh().run("go")), fresh().run_sync("go"), fresh().stream_sync("go").turn):
        assert texts(other.messages) == texts(turn.messages) == ["go", "", turn.messages[2].text, "hi"]
        assert other.cycles == 2


async def test_custom_strategy_uses_the_structure_of_the_agent():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}

    turn = await agent(model=scripted(['{"n": 1}']), execution=Plain(), structure=schema).run("go")

    assert turn.data == {"n": 1}


@pytest.mark.parametrize("given", [None, "hi", {"messages": []}])
async def test_custom_strategy_must_return_a_turn(given):
    class Wrong:
        name = "wrong"

        async def execute(self, context):
            return given

    with pytest.raises(TypeError, match="execute of strategy 'wrong' must return a Turn"):
        await agent(model=scripted([]), execution=Wrong()).run("go")


async def test_exception_from_a_custom_strategy_is_raised_unchanged():
    error = KeyError("mine")

    class Wrong:
        name = "wrong"

        async def execute(self, context):
            raise error

    with pytest.raises(KeyError) as raised:
        await agent(model=scripted([]), execution=Wrong()).run("go")
    assert raised.value is error


async def test_stream_of_a_custom_strategy_must_end_with_a_turn():
    class Wrong(Plain):
        async def stream(self, context):
            await context.emit("reasoning", {"text": "hm"})
            return
            yield

    stream = agent(model=scripted([]), execution=Wrong()).stream("go")
    told = []
    with pytest.raises(TypeError, match="ended without a turn"):
        async for event in stream:
            told.append(event.uap.data)
    assert told == [{"text": "hm"}]


async def test_stream_of_a_custom_strategy_may_be_an_agent_stream():
    class Delegating(Plain):
        def stream(self, context):
            return agent(model=scripted(["from another"])).stream(context.input)

    stream = agent(model=scripted([]), execution=Delegating()).stream("go")

    types = [event.uap.type if event.uap else event.upp.type async for event in stream]

    assert types[0] == "step_start"
    assert (await stream).response.text == "from another"


async def test_invalid_events_of_a_custom_strategy_are_rejected():
    class Wrong(Plain):
        async def stream(self, context):
            await context.emit("step_end", {"stepNumber": "one"})
            yield await self.execute(context)

    with pytest.raises(ValueError, match="data: "):
        await agent(model=scripted(["hi"]), execution=Wrong()).stream("go").turn


async def test_full_event_queue_waits_for_the_reader():
    class Chatty(Plain):
        async def stream(self, context):
            for number in range(2000):
                await context.emit("reasoning", {"text": str(number)})
            yield await self.execute(context)

    stream = agent(model=scripted(["hi"]), execution=Chatty()).stream("go")

    told = [event.uap.data["text"] async for event in stream if event.uap]

    assert told == [str(number) for number in range(2000)]


async def test_custom_strategy_runs_in_a_session():
    class Thinking(Plain):
        async def execute(self, context):
            context.state.step = 2
            context.state.reasoning = ["one", "two"]
            context.state.metadata["seen"] = True
            return await super().execute(context)

    model = scripted(["hi", "hi again"])
    talk = session(agent(model=model, execution=Thinking()))

    await talk.run("go")
    await talk.run("more")

    assert texts(talk.tree.history()) == ["go", "hi", "more", "hi again"]
    assert texts(model.requests[1].messages) == ["go", "hi", "more"]
    point = talk.checkpoints[0]
    assert (point.step, point.state.reasoning, point.state.metadata) == (2, ["one", "two"], {"seen": True})
    loaded = Session.from_json(talk.to_json(), agent(execution=Thinking()))
    assert loaded.to_json() == talk.to_json()


async def test_failed_custom_strategy_is_resumed_from_its_start():
    model = scripted([UPPError("down", "PROVIDER_ERROR"), "hi"])
    talk = session(agent(model=model, execution=Plain()))
    with pytest.raises(UPPError, match="down"):
        await talk.run("go")
    assert talk.tree.history() == []

    turn = await talk.resume()

    assert texts(turn.messages) == ["go", "hi"]


async def test_input_is_added_to_a_turn_that_lacks_it():
    other = await agent(model=scripted(["hi"])).run("other")

    class Answering:
        name = "answering"

        async def execute(self, context):
            return Turn.model_validate({"messages": [message.model_dump() for message in other.messages[1:]]})

    turn = await agent(model=scripted([]), execution=Answering()).run("go")

    assert texts(turn.messages) == ["go", "hi"]


async def test_cancel_and_abort_stop_a_custom_strategy():
    began, ended = asyncio.Event(), []

    class Waiting:
        name = "waiting"

        async def execute(self, context):
            began.set()
            try:
                await asyncio.sleep(30)
            finally:
                ended.append(True)

    helper = agent(model=scripted([]), execution=Waiting())
    task = asyncio.create_task(helper.run("go"))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    began.clear()
    stream = helper.stream("go")
    turn = asyncio.ensure_future(_turn(stream))
    await began.wait()
    stream.abort()

    assert (await turn).response.metadata["uap"] == {"aborted": True}
    await asyncio.sleep(0)
    assert ended == [True, True]


async def test_abort_closes_the_generator_of_a_stream():
    ended = []

    class Endless(Plain):
        async def stream(self, context):
            try:
                while True:
                    await context.emit("reasoning", {"text": "on and on"})
                    await asyncio.sleep(0)
            finally:
                ended.append(context.signal.aborted)
            yield

    async with agent(model=scripted([]), execution=Endless()).stream("go") as stream:
        async for _ in stream:
            break
    for _ in range(3):
        await asyncio.sleep(0)

    assert ended == [True]


async def _turn(stream):
    return await stream.turn


async def test_context_is_unusable_and_collected_after_its_run(is_collected):
    own = Plain()
    helper = agent(model=scripted(["hi"]), execution=own)
    await helper.run("go")

    with pytest.raises(RuntimeError, match="a context serves one run"):
        await own.contexts[0].run(loop())
    own.contexts.append(helper)
    gone = weakref.ref(own)
    del own, helper
    assert is_collected(gone)


# Nested strategies and combinations


async def test_nested_strategy_calls_step_hooks_and_emits_events():
    class Twice:
        name = "twice"

        async def execute(self, context):
            first = await context.run(react(max_steps=1))
            history = [*context.history, *first.messages]
            return await context.run(loop(), history=history, input="And now?")

    called = []
    hooks = {
        "on_reason": lambda _, text: called.append(text),
        "on_step_end": lambda step, _: called.append(step),
        "on_complete": lambda turn: called.append("complete"),
    }
    model = scripted(["thinking", "first", "second"])
    helper = agent(model=model, execution=Twice(), strategy=hooks)
    stream = helper.stream("go")

    types = [event.uap.type async for event in stream if event.uap]

    assert types == ["step_start", "reasoning", "step_end", "step_start", "step_end"]
    assert called == ["thinking", 1, 1, "complete"]
    assert texts((await stream).messages) == ["And now?", "second"]
    assert texts(model.requests[-1].messages) == ["go", "first", "And now?"]


@pytest.mark.parametrize("streamed", [False, True])
async def test_fallback_starts_the_next_strategy_after_a_failure(streamed):
    model = scripted(["no plan", "still none", "Then so."])
    helper = agent(model=model, execution=fallback(plan(), loop()))

    turn = await helper.stream("go").turn if streamed else await helper.run("go")

    assert texts(turn.messages) == ["go", "Then so."]
    assert texts(model.requests[2].messages) == ["go"]


async def test_fallback_raises_the_last_error_and_does_not_catch_other_errors():
    down = [UPPError("first", "PROVIDER_ERROR"), UPPError("second", "PROVIDER_ERROR")]
    called = []
    helper = agent(
        model=scripted(down), execution=fallback(loop(), react()), strategy={"on_error": lambda e, _: called.append(e)}
    )
    with pytest.raises(UPPError, match="second"):
        await helper.run("go")
    assert len(called) == 1

    class Buggy:
        name = "buggy"

        async def execute(self, context):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await agent(model=scripted(["hi"]), execution=fallback(Buggy(), loop())).run("go")


async def test_select_chooses_a_strategy_for_each_run():
    async def choose(context):
        return react() if "hard" in context.input.text else loop()

    model = scripted(["easy", "hm", "hard"])
    helper = agent(model=model, execution=select(choose))

    turns = [await helper.run("an easy one"), await helper.run("a hard one")]

    assert [(turn.response.text, turn.cycles) for turn in turns] == [("easy", 1), ("hard", 2)]
    with pytest.raises(TypeError, match="execution must be a strategy"):
        await agent(model=model, execution=select(lambda _: 3)).run("go")


async def test_strategy_combinations_can_be_nested():
    class Broken:
        name = "broken"

        async def execute(self, context):
            raise UPPError("down", "PROVIDER_ERROR")

    execution = fallback(Broken(), select(lambda _: fallback(Broken(), react())))

    turn = await agent(model=scripted(["hm", "hi"]), execution=execution).run("go")

    assert turn.response.text == "hi"


# Tools that raise CancelledError


@pytest.mark.parametrize("execution", [loop(), react()], ids=lambda one: one.name)
async def test_a_tool_that_raises_cancelled_error_has_failed(execution):
    @tool
    async def gives_up() -> str:
        """Awaits a task that was cancelled."""
        task = asyncio.ensure_future(asyncio.sleep(30))
        task.cancel()
        await task
        return "never"

    thinking = ["thinking"] if execution == react() else []
    script = [*thinking, [call("gives_up"), call("search", query="x")], *thinking, "so be it"]

    turn = await agent(model=scripted(script), tools=[gives_up, search], execution=execution).run("go")

    first, second = turn.messages[2].results
    assert (first.is_error, first.result, second.result) == (True, "CancelledError", "found x")
    assert turn.response.text == "so be it"


@pytest.mark.parametrize("how", ["run_sync", "thread"])
def test_tool_that_raises_cancelled_error_fails_in_run_sync(how):
    @tool
    def in_a_thread() -> str:
        raise asyncio.CancelledError("enough")

    @tool
    async def on_a_loop() -> str:
        raise asyncio.CancelledError("enough")

    one = in_a_thread if how == "thread" else on_a_loop
    turn = agent(model=scripted([[call(one.name)], "fine"]), tools=[one]).run_sync("go")

    assert turn.messages[2].results[0].result == "enough"
    assert turn.response.text == "fine"


async def test_cancelling_the_caller_cancels_the_run():
    began = asyncio.Event()
    cancelled = []

    @tool
    async def wait() -> str:
        began.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return "never"

    model = scripted([[call("wait")], "never asked"])
    task = asyncio.create_task(agent(model=model, tools=[wait]).run("go"))
    await began.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert cancelled == [True]
    assert len(model.requests) == 1

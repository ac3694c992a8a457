"""Toolsets: tools that change between the steps of a run."""

import asyncio
import contextlib
import threading
import uuid
import weakref

import pytest
from toolset_support import Fixed, Shop, Slow, call, made, named, offered, own, results

from turntree import Toolset, ToolsetContext, agent, session
from turntree.execution import plan, react
from turntree.upp import Tool, UPPError, llm, scripted, tool

# Changes between steps


def test_each_request_has_the_tools_that_the_toolset_returns_then(run):
    shop = Shop()
    model = scripted([[call("enter")], [call("buy")], "Done."])

    turn = run(agent(model=model, tools=[shop, own]).run("Go"))

    assert offered(model) == [["own", "enter"], ["own", "buy"], ["own", "buy"]]
    assert results(turn) == [("enter", "inside", False), ("buy", "bought", False)]


def test_a_tool_that_is_gone_is_reported_to_the_model_as_an_unknown_one(run):
    model = scripted([[call("enter")], [call("enter"), call("buy")], "Done."])

    turn = run(agent(model=model, tools=[Shop()]).run("Go"))

    assert results(turn) == [
        ("enter", "inside", False),
        ("enter", "Tool 'enter' not found", True),
        ("buy", "bought", False),
    ]


def test_calls_of_one_response_use_the_tools_of_their_request(run):
    """The first call changes the stage; the second one was offered before."""
    model = scripted([[call("enter"), call("enter"), call("buy")], "Done."])

    turn = run(agent(model=model, tools=[Shop()]).run("Go"))

    assert sorted(results(turn)) == [
        ("buy", "Tool 'buy' not found", True),
        ("enter", "inside", False),
        ("enter", "inside", False),
    ]
    assert offered(model) == [["enter"], ["buy"]]


def test_context_describes_the_run(run):
    shop = Shop()
    model = scripted([[call("enter")], "Done."])
    shopper = agent(model=model, tools=[shop], name="shopper")
    talk = session(shopper)

    turn = run(talk.run("Go"))

    first, second = shop.contexts
    assert isinstance(first, ToolsetContext)
    assert first.agent_id == second.agent_id == shopper.id
    assert first.agent_name == "shopper"
    assert first.turn_id == second.turn_id
    assert first.session_id == talk.id
    assert (first.parent_agent_id, first.parent_turn_id, first.depth, first.cancelled) == (None, None, 0, False)
    assert (first.step, second.step) == (1, 2)
    assert first.messages == list(turn.messages[:1])
    assert second.messages == list(turn.messages[:3])
    assert repr(first) == f'RunContext(agent_id="{shopper.id}", step=1)'


def test_context_has_the_history_and_the_metadata_of_the_run(run):
    seen = {}

    class Counting:
        def tools(self, context):
            context.metadata["asked"] = context.metadata.get("asked", 0) + 1
            seen["messages"] = [message.text for message in context.messages]
            return [own]

    def finished(state):
        seen["metadata"] = dict(state.metadata)
        return False

    model = scripted(["Hello.", [call("own")], "Done."])
    helper = agent(model=model, tools=[Counting()], hooks={"stop_condition": finished})
    first = run(helper.run("Hi"))

    run(helper.run(list(first.messages), "Go"))

    assert seen["messages"][:3] == ["Hi", "Hello.", "Go"]
    assert seen["metadata"] == {"asked": 2}


@pytest.mark.parametrize("kind", ["sync", "async", "future", "generator"])
def test_tools_is_sync_or_async(run, kind):
    class Kinds:
        def tools(self, context):
            async def later():
                await asyncio.sleep(0)
                return [own]

            return {"sync": lambda: [own], "async": later, "future": later, "generator": lambda: iter([own])}[kind]()

    model = scripted([[call("own")], "Done."])

    turn = run(agent(model=model, tools=[Kinds()]).run("Go"))

    assert results(turn) == [("own", "own", False)]


def test_run_sync_asks_async_toolsets():
    model = scripted([[call("enter")], [call("buy")], "Done."])

    turn = agent(model=model, tools=[Shop()]).run_sync("Go")

    assert [call.result for call in turn.tool_executions] == ["inside", "bought"]


def test_toolsets_are_asked_at_the_same_time(run):
    class Meeting:
        def __init__(self, name, mine, other):
            self.name, self.mine, self.other = name, mine, other

        async def tools(self, context):
            self.mine.set()
            await self.other.wait()
            return [named(self.name)]

    async def main():
        one, two = asyncio.Event(), asyncio.Event()
        model = scripted(["Done."])
        await agent(model=model, tools=[Meeting("a", one, two), Meeting("b", two, one)]).run("Go")
        return offered(model)

    assert run(main()) == [["a", "b"]]


def test_a_toolset_may_return_no_tools(run):
    model = scripted(["Done."])

    run(agent(model=model, tools=[Fixed()]).run("Go"))

    assert offered(model) == [[]]


def test_one_toolset_serves_concurrent_runs(run):
    class Numbered:
        """Offers a tool whose name is in the input of the run."""

        async def tools(self, context):
            await asyncio.sleep(0)
            return [named(context.messages[0].text, context.messages[0].text)]

    async def main():
        def reply(request):
            return "Done." if len(request.messages) > 1 else [call(request.messages[0].text)]

        worker = agent(model=scripted(reply), tools=[Numbered()])
        return await asyncio.gather(*(worker.run(f"tool_{number}") for number in range(20)))

    turns = run(main())

    assert [results(turn) for turn in turns] == [[(f"tool_{number}",) * 2 + (False,)] for number in range(20)]


def test_a_thousand_tools_cost_in_proportion(run):
    import time

    def seconds(count):
        tools = Fixed(*(named(f"tool_{number}") for number in range(count)))
        script = [[call(f"tool_{number}")] for number in range(5)]
        worker = agent(model=scripted([*script, "Done."]), tools=[tools])
        start = time.process_time()
        turn = run(worker.run("Go"))
        assert len(turn.tool_executions) == 5
        return time.process_time() - start

    seconds(100)
    assert min(seconds(1000) for _ in range(3)) < 40 * min(seconds(100) for _ in range(3))


# Strategies


def test_react_asks_before_both_calls_of_a_step(run):
    shop = Shop()
    model = scripted(["I enter.", [call("enter")], "I buy.", [call("buy")], "I am done.", "Done."])

    turn = run(agent(model=model, tools=[shop], execution=react()).run("Go"))

    assert offered(model) == [["enter"]] * 2 + [["buy"]] * 4
    assert [context.step for context in shop.contexts] == [1, 1, 2, 2, 3, 3]
    assert [call.result for call in turn.tool_executions] == ["inside", "bought"]


def test_plan_is_made_from_the_tools_of_the_toolset(run):
    shop = Shop()
    steps = [
        {"id": "1", "description": "Enter", "tool": "enter", "dependsOn": []},
        {"id": "2", "description": "Buy", "tool": None, "dependsOn": ["1"]},
    ]
    model = scripted([made(steps), [call("enter")], "Inside.", [call("buy")], "Done."])

    turn = run(agent(model=model, tools=[shop, own], execution=plan()).run("Go"))

    assert [call.result for call in turn.tool_executions] == ["inside", "bought"]
    assert shop.contexts[0].step == 0
    assert offered(model)[1:] == [["own", "enter"], ["own", "buy"], ["own", "buy"], ["own", "buy"]]
    first = model.requests[0]
    assert "enter" in first.messages[-1].text
    assert "enter" in str(first.structure)


def test_plan_with_a_tool_that_is_not_offered_is_invalid(run):
    steps = [{"id": "1", "description": "Buy", "tool": "buy", "dependsOn": []}]
    model = scripted([made(steps), made(steps)])

    with pytest.raises(UPPError, match="two invalid plans"):
        run(agent(model=model, tools=[Shop()], execution=plan()).run("Go"))


class Custom:
    name = "custom"

    def __init__(self, execute):
        self._execute = execute

    async def execute(self, context):
        return await self._execute(context)


@pytest.mark.parametrize("part", ["llm", "run"])
def test_custom_strategies_use_toolsets(run, part):
    async def execute(context):
        return await (context.llm.generate(context.input) if part == "llm" else context.run(react()))

    script = [[call("enter")], [call("buy")], "Done."]
    if part == "run":
        script = [reply for action in script for reply in ("I think.", action)]
    model = scripted(script)

    turn = run(agent(model=model, tools=[Shop(), own], execution=Custom(execute)).run("Go"))

    assert [call.result for call in turn.tool_executions] == ["inside", "bought"]
    assert offered(model)[0] == ["own", "enter"]
    assert offered(model)[-1] == ["own", "buy"]


def test_a_custom_strategy_may_run_plan_with_toolsets(run):
    async def execute(context):
        return await context.run(plan())

    steps = [{"id": "1", "description": "Enter", "tool": "enter", "dependsOn": []}]
    model = scripted([made(steps), [call("enter")], "Done."])

    turn = run(agent(model=model, tools=[Shop()], execution=Custom(execute)).run("Go"))

    assert results(turn) == [("enter", "inside", False)]


def test_concurrent_parts_of_a_custom_strategy_have_tools_of_their_own(run):
    class Numbered:
        async def tools(self, context):
            await asyncio.sleep(0)
            text = context.messages[0].text
            return [named(text, text)]

    async def execute(context):
        parts = [context.run(react(), input=f"tool_{number}") for number in range(5)]
        turns = await asyncio.gather(*parts)
        seen.extend(call.result for turn in turns for call in turn.tool_executions)
        return turns[0]

    def reply(request):
        asked = sum(message.type == "tool_result" for message in request.messages)
        is_action = len([1 for message in request.messages if message.type == "assistant"]) % 2 == 1
        return [call(request.messages[0].text)] if is_action and not asked else "Done."

    seen = []
    run(agent(model=scripted(reply), tools=[Numbered()], execution=Custom(execute)).run("Go"))

    assert sorted(seen) == [f"tool_{number}" for number in range(5)]


# Streams and cancellation


def test_streams_use_the_changed_tools(run):
    model = scripted([[call("enter")], [call("buy")], "Done."])

    async def main():
        stream = agent(model=model, tools=[Shop()]).stream("Go")
        kinds = [event.upp.type for event in [event async for event in stream] if event.upp is not None]
        return kinds, await stream.turn

    kinds, turn = run(main())

    assert kinds.count("tool_execution_end") == 2
    assert [call.result for call in turn.tool_executions] == ["inside", "bought"]


def test_cancelling_a_run_cancels_its_toolsets(run):
    async def main():
        slow = Slow()
        task = asyncio.ensure_future(agent(model=scripted(["Done."]), tools=[slow]).run("Go"))
        await slow.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return slow

    slow = run(main())

    assert slow.cancelled
    assert slow.context.cancelled


@pytest.mark.parametrize("how", ["abort", "break"])
def test_leaving_a_stream_cancels_its_toolsets(run, how):
    async def main():
        slow = Slow()
        stream = agent(model=scripted(["Done."]), tools=[slow]).stream("Go")
        if how == "abort":
            reading = asyncio.ensure_future(_read(stream))
            await slow.asked.wait()
            stream.abort()
            await reading
            turn = await stream.turn
            assert turn.response.metadata["uap"]["aborted"]
        else:
            reading = asyncio.ensure_future(_read(stream))
            await slow.asked.wait()
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reading
        return slow.cancelled

    async def _read(stream):
        async for _ in stream:
            pass

    assert run(main())


def test_a_failing_toolset_cancels_the_others(run):
    class Failing:
        def __init__(self, slow):
            self.slow = slow

        async def tools(self, context):
            await self.slow.asked.wait()
            raise LookupError("no tools today")

    async def main():
        slow = Slow()
        with pytest.raises(LookupError, match="no tools today"):
            await agent(model=scripted(["Done."]), tools=[slow, Failing(slow)]).run("Go")
        await asyncio.sleep(0)
        return slow.cancelled

    assert run(main())


# Errors


def test_the_exception_of_a_toolset_ends_the_run_and_names_it(run):
    class Broken:
        name = "prices"

        def tools(self, context):
            raise LookupError("the price list is empty")

    model = scripted(["Done."])
    errors = []
    broken = agent(model=model, tools=[Broken()], hooks={"on_error": lambda error, state: errors.append(error)})

    with pytest.raises(LookupError, match="the price list is empty") as caught:
        run(broken.run("Go"))

    assert caught.value.__notes__ == ["raised by `tools` of toolset 'prices'"]
    assert errors == [caught.value]
    assert not model.requests


def test_a_toolset_that_fails_later_ends_the_run(run):
    class Flaky(Shop):
        async def tools(self, context):
            if context.step == 2:
                raise ConnectionError("gone")
            return await super().tools(context)

    model = scripted([[call("enter")], "Done."])

    with pytest.raises(ConnectionError, match="gone"):
        run(agent(model=model, tools=[Flaky()]).run("Go"))

    assert len(model.requests) == 1


def test_plan_does_not_replan_when_a_toolset_fails(run):
    class Flaky(Shop):
        async def tools(self, context):
            if context.step:
                raise ConnectionError("gone")
            return await super().tools(context)

    steps = [{"id": "1", "description": "Enter", "tool": "enter", "dependsOn": []}]
    model = scripted([made(steps), "Done."])

    with pytest.raises(ConnectionError, match="gone"):
        run(agent(model=model, tools=[Flaky()], execution=plan()).run("Go"))

    assert len(model.requests) == 1


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ([Fixed(own), own], "two tools are named 'own': one of the agent's own tools and one of toolset 'Fixed'"),
        ([Shop(), Fixed(named("enter"))], "'enter': one of toolset 'shop' and one of toolset 'Fixed'"),
        ([Fixed(own, own)], "'own': one of toolset 'Fixed' and one of toolset 'Fixed'"),
    ],
)
def test_names_must_differ_among_all_tools(run, tools, message):
    with pytest.raises(UPPError, match=message) as caught:
        run(agent(model=scripted(["Done."]), tools=tools).run("Go"))

    assert caught.value.code == "INVALID_REQUEST"


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "must return a list of tools, not NoneType"),
        ("own", "must return a list of tools, not str"),
        (own, "must return a list of tools, not Tool"),
        ([own, 7], "returned int at index 1"),
        ([Shop()], "returned a toolset at index 0"),
    ],
)
def test_what_is_not_a_list_of_tools_is_an_error(run, returned, message):
    toolset = Fixed()
    toolset.returned = returned

    with pytest.raises(TypeError, match=f"tools of toolset 'Fixed' {message}"):
        run(agent(model=scripted(["Done."]), tools=[toolset]).run("Go"))


def test_keyboard_interrupt_of_a_toolset_ends_the_run_at_once(run):
    class Interrupted:
        def tools(self, context):
            raise KeyboardInterrupt

    errors = []
    stopped = agent(model=scripted([]), tools=[Interrupted()], hooks={"on_error": lambda *args: errors.append(args)})

    with pytest.raises(KeyboardInterrupt):
        run(stopped.run("Go"))

    assert errors == []


def test_a_model_without_tools_rejects_toolsets_before_anything_runs(run):
    from turntree.upp import create_provider

    class Echo:
        async def generate(self, request):
            return "Hello."

    shop = Shop()
    echo = create_provider(f"echo-{uuid.uuid4()}", Echo(), capabilities={"tools": False})

    with pytest.raises(UPPError, match="tool"):
        run(agent(model=echo("m"), tools=[shop]).run("Go"))

    assert shop.contexts == []


def test_a_bare_model_rejects_toolsets():
    with pytest.raises(TypeError, match="toolsets"):
        llm(model=scripted([]), tools=[Shop()])


def test_a_toolset_is_an_object_and_not_a_class():
    with pytest.raises(TypeError, match="not the class Shop; pass an instance"):
        agent(model=scripted([]), tools=[Shop])
    assert isinstance(Shop(), Toolset)


# Agents with toolsets


def test_agent_shows_its_toolsets_and_with_keeps_them(run):
    shop = Shop()
    model = scripted([[call("enter")], "Done."])
    first = agent(tools=[shop, own], name="shopper")

    second = first.with_(model=model)

    assert first.toolsets == second.toolsets == (shop,)
    assert [tool.name for tool in second.tools] == ["own"]
    assert "tools=[own, *shop]" in repr(second)
    run(second.run("Go"))
    assert offered(model) == [["own", "enter"], ["own", "buy"]]
    assert second.with_(tools=[own]).toolsets == ()


def test_the_agent_does_not_enter_its_toolsets(run):
    class Managed(Shop):
        async def __aenter__(self):
            raise AssertionError("the user enters the toolset")

        async def __aexit__(self, *error):
            raise AssertionError("the user leaves the toolset")

    turn = run(agent(model=scripted([[call("enter")], "Done."]), tools=[Managed()]).run("Go"))

    assert results(turn) == [("enter", "inside", False)]


def test_a_sub_agent_may_have_toolsets(run):
    shop = Shop()
    helper = agent(model=scripted([[call("enter")], [call("buy")], "Bought."]), tools=[shop], name="helper")
    outer = agent(model=scripted([[call("helper", task="Buy")], "Done."]), tools=[helper.to_tool("helper")])

    turn = run(outer.run("Go"))

    assert results(turn) == [("helper", "Bought.", False)]
    context = shop.contexts[0]
    assert (context.agent_id, context.parent_agent_id, context.depth) == (helper.id, outer.id, 1)


@pytest.mark.parametrize("in_session", [False, True])
def test_a_toolset_may_return_agents(run, in_session):
    helper = agent(model=scripted([[call("own")], "Helped."]), tools=[own], name="helper")
    asking = scripted([[call("helper", task="Help")], "Done."])
    outer = agent(model=asking, tools=[Fixed(helper.to_tool("helper"))])

    turn = run((session(outer) if in_session else outer).run("Go"))

    assert results(turn) == [("helper", "Helped.", False)]


def test_hooks_and_contexts_of_toolset_tools_are_those_of_any_tool(run):
    from turntree import ToolContext

    seen = []

    def report(context: ToolContext) -> str:
        """Report."""
        seen.append(context.tool_call_id)
        return threading.current_thread().name

    strategy = {"on_tool_call": lambda called, arguments: seen.append((called.name, arguments))}
    model = scripted([[call("report", "call_1")], "Done."])

    turn = run(agent(model=model, tools=[Fixed(report)], tool_strategy=strategy).run("Go"))

    assert seen == [("report", {}), "call_1"]
    assert turn.tool_executions[0].result != threading.current_thread().name


def test_arguments_of_toolset_tools_are_validated(run):
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    get = Tool("get", "Get.", schema, lambda id: id)
    model = scripted([[call("get"), call("get", id=7)], "Done."])

    turn = run(agent(model=model, tools=[Fixed(get)]).run("Go"))

    (_, text, is_error), second = sorted(results(turn), key=lambda result: not result[2])
    assert is_error
    assert "Invalid arguments" in text
    assert second == ("get", 7, False)


def test_agents_with_toolsets_are_collected(run, is_collected):
    class Owner:
        """Refers to its agent, to its contexts and to the contexts of its calls."""

        def __init__(self):
            self.contexts = []
            self.agent = agent(model=scripted([[call("look")], "Done."]), tools=[self])

        def tools(self, context):
            self.contexts.append(context)
            return [tool(name="look")(self.look)]

        def look(self) -> str:
            """Look."""
            return "seen"

    owner = Owner()
    run(owner.agent.run("Go"))
    alive = weakref.ref(owner)

    del owner

    assert is_collected(alive)

"""Errors about arguments name the function that was called, not the one that has checked them."""

import pytest

from turntree import agent, ask, query, session, store
from turntree.notebook import live
from turntree.testing import evaluate, evaluate_sync
from turntree.upp import scripted

helper = agent(model=scripted(lambda request: "x"))


async def continued(**options):
    result = await query(helper, "x")
    await result.continue_(options.pop("input", "x"), **options)


async def at_another_node(run, *arguments, **options):
    talk = session(helper)
    result = getattr(talk, run)(*arguments, at=talk.tree.branch(talk.tree.current.id), **options)
    await result if hasattr(result, "__await__") else None


async def mapped(inputs, **options):
    async for _ in helper.map(inputs, **options):
        pass


WAYS = {
    "Agent.run": lambda given, **options: helper.run(given, **options),
    "Agent.run_sync": lambda given, **options: helper.run_sync(given, **options),
    "Agent.stream": lambda given, **options: helper.stream(given, **options),
    "Agent.stream_sync": lambda given, **options: helper.stream_sync(given, **options),
    "Agent.map": lambda given, **options: mapped([given], **options),
    "Session.run": lambda given, **options: at_another_node("run", given, **options),
    "Session.run_sync": lambda given, **options: at_another_node("run_sync", given, **options),
    "Session.stream": lambda given, **options: at_another_node("stream", given, **options),
    "Session.stream_sync": lambda given, **options: at_another_node("stream_sync", given, **options),
    "ask": lambda given, **options: ask(helper, given, **options),
    "query": lambda given, **options: query(helper, given, **options),
    "QueryResult.continue_": lambda given, **options: continued(input=given, **options),
    "live": lambda given, **options: live(helper, given, **options),
}


async def error_of(call):
    with pytest.raises(TypeError) as caught:
        result = call()
        if hasattr(result, "__await__"):
            await result
    return str(caught.value)


@pytest.mark.parametrize("name", WAYS)
async def test_ways_to_run_are_named(name):
    way = WAYS[name]

    assert (await error_of(lambda: way("x", temprature=1))).startswith(f"{name}() has no argument 'temprature'")
    assert (await error_of(lambda: way([1]))).startswith(f"{name}(): input[0] must be a content block")
    assert f"on_approval of {name} must be a function" in await error_of(lambda: way("x", on_approval=1))


async def test_session_methods_are_named():
    for run in ("run", "run_sync", "stream", "stream_sync"):
        method = getattr(session(helper), run)
        assert (await error_of(lambda: method([1]))).startswith(f"Session.{run}(): input[0] must")  # noqa: B023


@pytest.mark.parametrize("name", ["run", "run_sync", "stream", "stream_sync"])
async def test_the_remedy_has_the_method(name):
    method = getattr(helper, name)

    assert f"expected {name}(input), or {name}(history, input), not 0" in await error_of(method)
    assert f"write {name}(history, input)" in await error_of(lambda: method("x", []))


async def test_other_functions_are_named():
    assert (await error_of(lambda: helper.with_(modle="x"))).startswith("Agent.with_() has no argument 'modle'")
    assert (await error_of(lambda: agent(modle="x"))).startswith("agent() has no argument 'modle'")
    assert (await error_of(lambda: evaluate(helper, [], other=1))).startswith("evaluate() has no argument")
    assert (await error_of(lambda: evaluate_sync(helper, [], other=1))).startswith("evaluate_sync() has no argument")


async def test_a_model_instead_of_an_agent_has_a_remedy_for_the_function():
    model = scripted([])

    assert (await error_of(lambda: session(model))).endswith("write session(agent(model=…))")
    assert (await error_of(lambda: session(helper).load(store.memory(), "x", model))).endswith("; write agent(model=…)")


async def test_errors_of_the_application_keep_their_names():
    class Nested:
        name = "nested"

        async def before(self, context):
            await helper.run([1])

    outer = helper.with_(middleware=[Nested()])

    with pytest.raises(Exception, match=r"Agent\.run\(\): input\[0\]") as caught:
        await ask(outer, "x")
    assert "ask()" not in str(caught.value)

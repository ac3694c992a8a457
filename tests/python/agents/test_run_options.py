"""Options of one run: dependencies, parameters, model, metadata, timeout; system prompts made by a function."""

import asyncio
import contextlib
import weakref

import pytest
from agent_support import call

from turntree import (
    LimitExceeded,
    Limits,
    RunContext,
    Session,
    ToolContext,
    ToolsetContext,
    agent,
    ask,
    query,
    session,
)
from turntree.execution import fallback, loop, parallel, route, select, sequence
from turntree.store import memory
from turntree.upp import ErrorCode, UPPError, scripted, tool


class Database:
    """What an application lends to its tools."""

    def __init__(self, name="main"):
        self.name = name


@tool
def read(context: ToolContext[Database]) -> str:
    """Return the name of the database."""
    return context.deps.name if context.deps is not None else "none"


def reads_once():
    return scripted(lambda request: "done" if request.messages[-1].type == "tool_result" else call("read"))


def results(turn):
    return [execution.result for execution in turn.tool_executions]


def reader(**options):
    return agent(model=reads_once(), tools=[read], **options)


async def run(helper, **options):
    return await helper.run("hi", **options)


async def run_sync(helper, **options):
    return await asyncio.to_thread(helper.run_sync, "hi", **options)


async def stream(helper, **options):
    return await helper.stream("hi", **options)


async def stream_sync(helper, **options):
    def read_all():
        with helper.stream_sync("hi", **options) as events:
            return events.turn

    return await asyncio.to_thread(read_all)


async def mapped(helper, **options):
    async with contextlib.aclosing(helper.map(["hi"], **options)) as turns:
        return await anext(turns)


async def in_session(helper, **options):
    return await session(helper).run("hi", **options)


async def in_session_sync(helper, **options):
    return await asyncio.to_thread(session(helper).run_sync, "hi", **options)


async def session_stream(helper, **options):
    return await session(helper).stream("hi", **options)


async def session_stream_sync(helper, **options):
    def read_all():
        with session(helper).stream_sync("hi", **options) as events:
            return events.turn

    return await asyncio.to_thread(read_all)


async def at_another_node(helper, **options):
    sess = session(helper)
    return await sess.run("hi", at=sess.fork(sess.tree.root.id), **options)


async def asked(helper, **options):
    return await ask(helper, "hi", **options)


async def queried(helper, **options):
    return (await query(helper, "hi", **options)).turn


async def by_a_chosen_strategy(helper, **options):
    return await helper.with_(execution=fallback(select(lambda context: loop()), loop())).run("hi", **options)


AGENT_WAYS = [run, run_sync, stream, stream_sync, mapped, asked, queried, by_a_chosen_strategy]
WAYS = [*AGENT_WAYS, in_session, in_session_sync, session_stream, session_stream_sync, at_another_node]


@pytest.mark.parametrize("way", WAYS)
async def test_every_way_to_run_takes_the_options(way):
    seen = []

    def prompt(context):
        seen.append((context.deps.name, dict(context.metadata)))
        return f"Use {context.deps.name}."

    model = reads_once()
    turn = await way(
        reader(system=prompt, params={"a": 1, "b": 1}),
        deps=Database("replica"),
        params={"b": 2},
        model=model,
        metadata={"user": "ann"},
        timeout=30,
        limits=None,
    )

    assert results(turn) == ["replica"]
    assert [request.system for request in model.requests] == ["Use replica."] * 2
    assert model.requests[0].params == {"a": 1, "b": 2}
    assert seen[0] == ("replica", {"user": "ann"})


@pytest.mark.parametrize("way", WAYS)
async def test_every_way_to_run_takes_settings_limits_and_an_approver(way):
    @tool(approval="ask")
    def pay() -> str:
        return "paid"

    model = scripted(lambda request: "done" if request.messages[-1].type == "tool_result" else call("pay"))
    helper = agent(model=model, tools=[pay])

    turn = await way(helper, settings={"max_tokens": 7}, limits=Limits(requests=2), on_approval=lambda pending: True)

    assert results(turn) == ["paid"]
    assert list(model.requests[0].params.values()) == [7]
    with pytest.raises(LimitExceeded):
        await way(helper, limits=Limits(requests=1), on_approval=lambda pending: True)


@pytest.mark.parametrize("combine", [sequence, parallel, lambda *agents: route(lambda context: agents[0], agents)])
async def test_the_agents_of_a_strategy_share_deps_limits_and_the_approver(combine):
    asked_for = []

    @tool(approval="ask")
    def pay(context: ToolContext) -> str:
        return f"paid from {context.deps.name}"

    def worker():
        model = scripted(lambda request: "done" if request.messages[-1].type == "tool_result" else call("pay"))
        return agent(model=model, tools=[pay])

    desk = agent(execution=combine(worker(), worker()))

    turn = await desk.run("hi", deps=Database(), on_approval=lambda pending: asked_for.append(1) or True)

    assert set(results(turn)) == {"paid from main"}
    assert len(asked_for) == len(results(turn))
    with pytest.raises(LimitExceeded):
        await desk.run("hi", deps=Database(), on_approval=lambda pending: True, limits=Limits(requests=1))


async def test_a_continued_query_takes_options_again():
    first = await query(reader(), "hi", deps=Database("first"))
    second = await first.continue_("more", deps=Database("second"))

    assert results(first.turn) == ["first"]
    assert results(second.turn) == ["second"]


async def test_a_run_without_deps_has_none():
    assert results(await reader().run("hi")) == ["none"]


async def test_sub_agents_have_the_deps_of_the_caller():
    inner = reader(name="inner")
    caller = agent(
        model=scripted(lambda request: "end" if request.messages[-1].type == "tool_result" else call("ask", task="x")),
        tools=[inner.to_tool(name="ask", description="Ask.")],
    )
    told = []

    @tool
    def spy(context: ToolContext) -> str:
        told.append(context.deps)
        return "seen"

    spying = agent(
        model=scripted(lambda request: "end" if request.messages[-1].type == "tool_result" else call("spy")),
        tools=[spy],
    )
    outer = agent(
        model=scripted(lambda request: "end" if request.messages[-1].type == "tool_result" else call("ask", task="x")),
        tools=[spying.to_tool(name="ask", description="Ask.")],
    )

    database = Database()
    await caller.run("hi", deps=database)
    await outer.run("hi", deps=database)

    assert told == [database]


async def test_runs_inside_tools_have_the_deps_of_the_caller_unless_given_their_own():
    helper = reader()

    @tool
    async def both() -> list[str]:
        lent = await helper.run("hi")
        own = await helper.run("hi", deps=Database("own"))
        return results(lent) + results(own)

    outer = agent(model=scripted([call("both"), "end"]), tools=[both])
    turn = await outer.run("hi", deps=Database("lent"))

    assert results(turn) == [["lent", "own"]]


async def test_concurrent_runs_keep_their_deps_apart():
    helper = reader()
    turns = await asyncio.gather(*(helper.run("hi", deps=Database(str(n))) for n in range(20)))

    assert [results(turn) for turn in turns] == [[str(n)] for n in range(20)]


async def test_deps_are_freed_with_the_run(is_collected):
    database = Database()
    freed = weakref.ref(database)
    turn = await reader().run("hi", deps=database)
    del database

    assert turn.text == "done"
    assert is_collected(freed)


async def test_a_resumed_session_takes_deps_again():
    @tool(approval="ask")
    def write(context: ToolContext[Database]) -> str:
        return context.deps.name

    model = scripted(lambda request: "done" if request.messages[-1].type == "tool_result" else call("write"))
    helper = agent(model=model, tools=[write])
    store = memory()
    conversation = session(helper, id="s", persistence=store)
    with contextlib.suppress(Exception):
        await conversation.run("hi", deps=Database("first"))
    again = await Session.load(store, "s", helper)
    assert "first" not in again.to_json()
    again.approve(again.pending[0])

    turn = await again.resume(deps=Database("second"))

    assert results(turn) == ["second"]


async def test_the_model_of_a_run_serves_sub_agents_without_a_model():
    inner = agent(name="inner")
    outer = agent(model=scripted([]), tools=[inner.to_tool(name="ask", description="Ask.")])
    model = scripted([call("ask", task="x"), "inside", "outside"])

    turn = await outer.run("hi", model=model)

    assert turn.text == "outside"
    assert results(turn) == ["inside"]


async def test_a_model_may_be_given_by_name():
    with pytest.raises(ValueError, match="nowhere"):
        await agent(model=scripted([])).run("hi", model="nowhere:x")


async def test_a_timeout_ends_the_run_with_its_partial_turn():
    begun, cancelled = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return "never"

    with pytest.raises(UPPError) as error:
        await agent(model=scripted([call("wait")]), tools=[wait]).run("hi", timeout=3)

    assert error.value.code is ErrorCode.TIMEOUT
    assert "within 3 s" in error.value.message
    assert begun.is_set()
    assert cancelled.is_set()
    assert error.value.partial.messages[0].text == "hi"


class Waiting:
    """A middleware one of whose hooks waits."""

    name = "waiting"

    def __init__(self, hook):
        self.hook, self.ended = hook, []
        setattr(self, hook, self.wait)

    async def wait(self, _context, turn=None):
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append(self.hook)

    async def on_error(self, _context, error):
        self.ended.append(error.code)


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(("hook", "messages"), [("before", None), ("after", ["hi", "done"])])
async def test_a_timeout_ends_a_middleware_that_waits(hook, messages, is_streamed):
    waiting = Waiting(hook)
    helper = agent(model=scripted(["done"]), middleware=[waiting])
    timeout = 3  # the hook has to be reached within it

    with pytest.raises(UPPError) as error:
        if is_streamed:
            async for _ in helper.stream("hi", timeout=timeout):
                pass
        await helper.run("hi", timeout=timeout)

    assert error.value.code is ErrorCode.TIMEOUT
    assert waiting.ended == [hook, ErrorCode.TIMEOUT]
    partial = error.value.partial
    assert (partial and [message.text for message in partial.messages]) == messages


async def test_a_session_resumes_a_run_that_timed_out():
    release = asyncio.Event()
    calls = []

    @tool
    async def wait() -> str:
        calls.append(1)
        await release.wait()
        return "ready"

    conversation = session(agent(model=scripted([call("wait"), "done"]), tools=[wait]))
    with pytest.raises(UPPError, match="TIMEOUT"):
        await conversation.run("hi", timeout=3)
    assert conversation.is_unfinished
    release.set()

    turn = await conversation.resume()

    assert turn.text == "done"
    assert len(calls) == 2


async def test_the_function_of_the_system_prompt_may_be_async_and_is_called_for_each_request():
    steps = []

    async def prompt(context: RunContext) -> str | None:
        steps.append((context.step, context.agent_name, len(context.messages)))
        await asyncio.sleep(0)
        return None if context.step == 1 else [{"type": "text", "text": f"step {context.step}"}]

    model = reads_once()
    await agent(model=model, tools=[read], system=prompt, name="bot").run("hi")

    assert steps == [(1, "bot", 1), (2, "bot", 3)]
    assert [request.system for request in model.requests] == [None, [{"type": "text", "text": "step 2"}]]


async def test_a_function_of_the_system_prompt_that_returns_something_else_is_named():
    with pytest.raises(TypeError, match="the function of system= must return a str, a list of blocks or None, not int"):
        await agent(model=scripted(["x"]), system=lambda context: 3).run("hi")


async def test_an_error_in_the_function_of_the_system_prompt_ends_the_run():
    def prompt(context):
        raise LookupError("no tenant")

    with pytest.raises(LookupError, match="no tenant"):
        await agent(model=scripted(["x"]), system=prompt).run("hi")


async def test_toolsets_receive_deps():
    class Tools:
        def tools(self, context):
            self.deps = context.deps
            return []

    tools = Tools()
    database = Database()
    await agent(model=scripted(["x"]), tools=[tools]).run("hi", deps=database)

    assert tools.deps is database
    assert ToolsetContext is RunContext


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"deps": 1, "dependency": 2}, TypeError, "has no argument 'dependency'"),
        ({"usage_limits": 1}, TypeError, "limits=turntree.Limits"),
        ({"model_settings": {}}, TypeError, "params="),
        ({"params": [1]}, TypeError, "params must be a dict, not list"),
        ({"params": {"x": object()}}, TypeError, "params.x"),
        ({"metadata": 1}, TypeError, "metadata must be a dict, not int"),
        ({"model": 1}, TypeError, "model must come from a provider's factory"),
        ({"timeout": "1"}, TypeError, "timeout must be a number of seconds, not str"),
        ({"timeout": 0}, ValueError, "timeout must be more than 0"),
        ({"limits": 3}, TypeError, "limits must be turntree.Limits, not int"),
    ],
)
@pytest.mark.parametrize("way", [run, in_session])
async def test_wrong_options_are_explained(way, options, error, text):
    with pytest.raises(error, match=text):
        await way(reader(), **options)


def test_classes_take_types_in_brackets():
    from turntree import Agent, QueryResult
    from turntree.upp import LLM, Turn

    for generic in (
        LLM[str],
        Agent[Database, str],
        Session[Database, str],
        Turn[str],
        QueryResult[str],
        ToolContext[Database],
        RunContext[int],
    ):
        assert generic.__args__

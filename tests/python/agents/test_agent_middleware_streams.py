"""Agent middleware with streams, sessions and sub-agents."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref

import pytest
from agent_middleware_support import (
    double,
    hook_object,
    recorder,
    texts,
    turn_of,
)

from turntree import (
    TurntreeError,
    agent,
    ask,
    query,
    session,
)
from turntree.middleware import guardrails, logging, memory
from turntree.upp import (
    Reply,
    ToolCall,
    UPPError,
    scripted,
    tool,
)

# Streams


def test_stream_calls_before_on_first_read_and_after_before_the_turn(run):
    log = []
    helper = agent(model=scripted(["Hi."]), middleware=[recorder(log, "a")])

    async def main():
        stream = helper.stream("Hello")
        await asyncio.sleep(0)
        assert log == []
        async for _event in stream:
            assert log[0] == "a:before"
        assert log == ["a:before", "a:after"]
        return await stream.turn, await stream.turn

    first, second = run(main())
    assert first == second
    assert log == ["a:before", "a:after"]


def test_aborted_stream_passes_its_partial_turn_to_after(run):
    seen = []

    def after(context, turn):
        seen.append(turn.response.metadata["uap"])
        return turn

    helper = agent(model=scripted([Reply("one two three four", pace=0.02)]), middleware=[hook_object(after=after)])

    async def main():
        stream = helper.stream("Hello")
        async for event in stream:
            if event.upp is not None and event.upp.type == "text_delta":
                stream.abort()
        return await stream.turn

    turn = run(main())

    assert turn.response.metadata["uap"] == {"aborted": True}
    assert seen == [{"aborted": True}]


def test_stream_aborted_in_before_sends_nothing(run):
    log, model = [], scripted(["x"])
    helper = None

    async def wait(context):
        log.append("waits")
        await asyncio.sleep(60)

    helper = agent(model=model, middleware=[recorder(log, "a"), hook_object(before=wait), recorder(log, "c")])

    async def main():
        stream = helper.stream("Hello")
        reading = asyncio.ensure_future(anext(aiter(stream), None))
        while "waits" not in log:
            await asyncio.sleep(0)
        stream.abort()
        await reading
        return await stream.turn

    turn = run(main())

    assert turn.response.metadata["uap"] == {"aborted": True}
    assert model.requests == []
    assert log == ["a:before", "waits", "a:after"]


def test_abandoned_stream_calls_on_error(run):
    errors = []
    helper = agent(
        model=scripted([Reply("one two three", pace=0.02)]),
        middleware=[hook_object(on_error=lambda context, error: errors.append(error))],
    )

    async def main():
        async with helper.stream("Hello") as stream:
            async for event in stream:
                if event.upp is not None:
                    break
        while not errors:
            await asyncio.sleep(0)
        await asyncio.sleep(0)

    run(asyncio.wait_for(main(), 10))

    assert [error.code for error in errors] == ["CANCELLED"]


@pytest.mark.parametrize("is_async", [False, True])
def test_cancelled_run_calls_on_error(run, is_async):
    errors, begun = [], []

    async def on_error_async(context, error):
        await asyncio.sleep(0)
        errors.append((error.code, context.metadata))

    def on_error(context, error):
        errors.append((error.code, context.metadata))

    @tool
    async def wait() -> None:
        begun.append(1)
        await asyncio.sleep(60)

    helper = agent(
        model=scripted([[ToolCall("c", "wait", {})]]),
        tools=[wait],
        middleware=[
            hook_object(
                before=lambda context: context.metadata.update(x=1),
                on_error=on_error_async if is_async else on_error,
            )
        ],
    )

    async def main():
        task = asyncio.ensure_future(helper.run("Hello"))
        while not begun:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for _ in range(10):
            await asyncio.sleep(0)

    run(main())

    ((code, metadata),) = errors
    assert code == "CANCELLED"
    assert metadata == {"agentId": helper.id, "turnId": metadata["turnId"], "x": 1}


# Sessions, sub-agents, ask and query


def test_session_stores_the_replaced_input_and_the_full_history(run):
    def shout(context):
        context.input = context.input.text.upper()
        context.history = []

    model = scripted(["1", "2"])
    sess = session(agent(model=model, middleware=[hook_object(before=shout)]))
    run(sess.run("one"))
    run(sess.run("two"))

    assert texts(sess.tree.history()) == ["ONE", "1", "TWO", "2"]
    assert texts(model.requests[1].messages) == ["TWO"]


def test_failed_session_resumes_with_its_middleware(run):
    log, state = [], {"down": True}

    def reply(request):
        if state["down"] and len(request.messages) > 1:
            raise UPPError("down", "PROVIDER_ERROR")
        return [ToolCall("c", "double", {"x": 4})] if len(request.messages) == 1 else "Eight."

    def shout(context):
        log.append(context.input.text)
        context.input = context.input.text + "!"

    sess = session(agent(model=scripted(reply), tools=[double], middleware=[hook_object(before=shout)]))
    with pytest.raises(UPPError):
        run(sess.run("go"))
    state["down"] = False
    turn = run(sess.resume())

    assert log == ["go", "go!"]
    assert texts(turn.messages)[0] == "go!"
    assert texts(sess.tree.history())[0] == "go!"


def test_session_stores_a_recovered_turn(run):
    turn = turn_of("recovered", "hello")
    middleware = [hook_object(on_error=lambda context, error: turn)]
    sess = session(agent(model=scripted([UPPError("down", "PROVIDER_ERROR")]), middleware=middleware))

    assert run(sess.run("hello")) == turn
    assert texts(sess.tree.history()) == ["hello", "recovered"]


def test_hook_that_runs_its_own_session_raises_instead_of_deadlocking(run):
    async def again(context):
        await context.session.run("again")

    sess = session(agent(model=scripted(["x"]), middleware=[hook_object(before=again)]))

    with pytest.raises(TurntreeError, match="from inside its own run"):
        run(asyncio.wait_for(sess.run("hello"), 10))


def test_ask_and_query_use_middleware(run):
    log = []
    helper = agent(model=scripted(["1", "2"]), middleware=[recorder(log, "a")])

    run(ask(helper, "Hello"))
    run(query(helper, "Hello"))

    assert log == ["a:before", "a:after"] * 2


def test_agent_run_by_a_tool_uses_its_own_middleware(run):
    log = []
    inner = agent(model=scripted(["inner"]), middleware=[recorder(log, "inner")])

    @tool
    async def consult() -> str:
        return (await inner.run("question")).response.text

    outer = agent(
        model=scripted([[ToolCall("c", "consult", {})], "done"]), tools=[consult], middleware=[recorder(log, "outer")]
    )
    run(outer.run("Hello"))

    assert log == ["outer:before", "inner:before", "inner:after", "outer:after"]


def test_concurrent_runs_do_not_share_contexts(run):
    async def before(context):
        context.metadata["mine"] = context.input.text
        await asyncio.sleep(0)

    async def after(context, turn):
        await asyncio.sleep(0)
        assert context.metadata["mine"] == context.input.text == turn.messages[0].text
        return turn

    helper = agent(
        model=scripted(lambda request: request.messages[-1].text[::-1]),
        middleware=[hook_object(before=before, after=after), guardrails(output=["never"]), memory(max_turns=1)],
    )

    async def main():
        return await asyncio.gather(*(helper.run(f"run {number}") for number in range(100)))

    turns = run(main())

    assert [turn.response.text for turn in turns] == [f"run {number}"[::-1] for number in range(100)]


def test_runs_in_threads_do_not_share_contexts():
    failures = []
    helper = agent(
        model=scripted(lambda request: request.messages[-1].text),
        middleware=[hook_object(before=lambda context: context.metadata.update(x=context.input.text))],
    )

    def work(number):
        for _ in range(20):
            if helper.run_sync(f"thread {number}").response.text != f"thread {number}":
                failures.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]

    assert failures == []


# Middleware as an option


@pytest.mark.parametrize(
    ("middleware", "words"),
    [
        (3, "middleware must be a list"),
        (logging(), "put a single one into brackets"),
        ([3], r"middleware\[0\] has none of the hooks; int must have one of before, after"),
        ([hook_object(before=3)], r"before of middleware\[0\] must be a function, not int"),
        ([type("Named", (), {"name": 3, "before": print})()], r"middleware\[0\]\.name must be a str, not int"),
    ],
)
def test_invalid_middleware_error_names_the_object(middleware, words):
    with pytest.raises(TypeError, match=words):
        agent(model=scripted([]), middleware=middleware)


def test_agent_options_contain_its_middleware(run):
    log = []
    helper = agent(model=scripted(["1", "2"]), middleware=iter([recorder(log, "a")]))

    assert [one.name for one in helper.middleware] == ["a"]
    run(helper.with_(system="Be brief.").run("x"))
    assert log == ["a:before", "a:after"]
    assert agent(model=scripted([])).middleware == ()


def test_stream_holds_the_agent_that_its_middleware_reads(run):
    ids = []

    async def main():
        helper = agent(
            model=scripted(["Hi."]), middleware=[hook_object(before=lambda context: ids.append(context.agent.id))]
        )
        stream, known = helper.stream("Hello"), helper.id
        del helper
        gc.collect()
        await stream
        return known

    known = run(main())
    assert ids == [known]


def test_an_agent_and_its_middleware_are_collected(run, is_collected):
    class Kept:
        name = "kept"
        agent = None

        def before(self, context):
            self.context = context

    async def main():
        middleware = Kept()
        middleware.agent = agent(model=scripted(["x"]), middleware=[middleware, guardrails(input=[lambda text: True])])
        await middleware.agent.run("hello")
        return weakref.ref(middleware), weakref.ref(middleware.agent)

    gone = run(main())

    assert all(is_collected(ref) for ref in gone)

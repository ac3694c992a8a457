"""Middleware of `llm()`: hooks, their order, errors, and ends of streams. UPP-1.2 §17."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest
from middleware_support import double, slow, with_tool

from turntree.upp import (
    ErrorCode,
    Reply,
    StreamEvent,
    UPPError,
    UserMessage,
    llm,
    scripted,
)

HOOKS = [
    "on_start",
    "on_request",
    "on_response",
    "on_turn",
    "on_end",
    "on_error",
    "on_abort",
    "on_stream_end",
    "on_tool_call",
    "on_tool_result",
]


def recorder(log, name="", *, fails_in=None, error=None, is_async=False):
    """A middleware with all hooks except the one for events that logs its calls."""

    def sync_hook(hook):
        def call(*arguments):
            log.append(f"{name}{hook}")
            if hook == fails_in:
                raise error

        return call

    def async_hook(hook):
        async def call(*arguments):
            await asyncio.sleep(0)
            log.append(f"{name}{hook}")
            if hook == fails_in:
                raise error

        return call

    make = async_hook if is_async else sync_hook
    return type("Recorder", (), {hook: staticmethod(make(hook)) for hook in HOOKS})()


GENERATE = ["on_start", "on_request", "on_response", "on_turn", "on_end"]


@pytest.mark.parametrize("is_async", [False, True])
def test_start_hooks_run_in_order_and_end_hooks_in_reverse(run, is_async):
    log = []
    model = llm(
        model=scripted(["Hi."]),
        middleware=[recorder(log, "a:", is_async=is_async), recorder(log, "b:", is_async=is_async)],
    )

    turn = run(model.generate("Hello"))

    assert turn.response.text == "Hi."
    inwards = [f"{name}:{hook}" for hook in GENERATE[:2] for name in "ab"]
    outwards = [f"{name}:{hook}" for hook in GENERATE[2:] for name in "ba"]
    assert log == inwards + outwards


@pytest.mark.parametrize("is_async", [False, True])
def test_sync_calls_run_hooks_also_inside_a_running_event_loop(run, is_async):
    log = []
    model = llm(model=scripted(["1", "2"]), middleware=[recorder(log, is_async=is_async)])

    async def in_a_cell():
        return model.generate_sync("Hello")

    assert model.generate_sync("Hello").response.text == "1"
    assert run(in_a_cell()).response.text == "2"
    assert log == GENERATE * 2


def test_tools_and_streams_call_their_hooks(run):
    log = []
    model = llm(model=with_tool(), tools=[double], middleware=[recorder(log)])

    async def main():
        stream = model.stream("Double 4")
        events = [event.type async for event in stream]
        return events, await stream.turn, await stream.turn

    events, turn, again = run(main())

    assert log == [
        "on_start",
        "on_request",
        "on_tool_call",
        "on_tool_result",
        "on_stream_end",
        "on_response",
        "on_turn",
        "on_end",
    ]
    assert events.count("tool_execution_end") == 1
    assert turn == again


@pytest.mark.parametrize("hook", GENERATE)
@pytest.mark.parametrize("is_async", [False, True])
def test_exception_from_a_hook_is_raised_as_the_same_object(run, hook, is_async):
    log, error = [], LookupError("mine")
    model = llm(model=scripted(["Hi."]), middleware=[recorder(log, fails_in=hook, error=error, is_async=is_async)])

    with pytest.raises(LookupError) as raised:
        run(model.generate("Hello"))

    assert raised.value is error
    assert log[-1] == "on_error"
    assert log.count("on_error") == 1


@pytest.mark.parametrize("hook", ["on_tool_call", "on_tool_result"])
def test_failed_tool_hook_becomes_an_error_result(run, hook):
    log, script = [], with_tool()
    refusing = recorder(log, fails_in=hook, error=PermissionError("not today"))
    model = llm(model=script, tools=[double], middleware=[refusing])

    turn = run(model.generate("Double 4"))

    assert (turn.tool_executions[0].result, turn.tool_executions[0].is_error) == ("not today", True)
    assert "on_error" not in log


def test_model_error_calls_on_error_and_a_failing_on_error_is_only_logged(run, caplog, wait_for_log):
    told = []

    class Listening:
        def on_error(self, error, context):
            told.append((error.code, context.end_time is not None))
            raise RuntimeError("listener broke")

    failure = UPPError("slow down", ErrorCode.RATE_LIMITED)
    model = llm(model=scripted([failure]), middleware=[Listening()])

    with caplog.at_level("ERROR", "turntree"):
        with pytest.raises(UPPError) as raised:
            run(model.generate("Hello"))
        wait_for_log("on_error of Listening failed")

    assert raised.value is failure
    assert told == [(ErrorCode.RATE_LIMITED, True)]
    assert "listener broke" in caplog.text


def test_request_changes_by_hooks_take_effect(run):
    script = with_tool()

    class Editing:
        def on_request(self, context):
            request = context.request
            request.messages.insert(0, UserMessage("before"))
            request.system = "Be brief."
            request.params["temperature"] = 0
            request.tools = [{**tool, "description": "Twice."} for tool in request.tools]

    model = llm(model=script, tools=[double], params={"seed": 1}, middleware=[Editing()])

    turn = run(model.generate("Double 4"))

    for asked in script.requests:
        assert asked.messages[0].text == "before"
        assert asked.system == "Be brief."
        assert asked.params == {"seed": 1, "temperature": 0}
        assert [tool["description"] for tool in asked.tools] == ["Twice."]
    assert [message.type for message in turn.messages] == ["user", "assistant", "tool_result", "assistant"]


def test_a_tool_that_is_not_offered_is_not_called(run):
    class Hiding:
        def on_request(self, context):
            context.request.tools = []

    turn = run(llm(model=with_tool(), tools=[double], middleware=[Hiding()]).generate("Double 4"))

    assert turn.tool_executions[0].result == "Tool 'double' not found"


def test_hooks_of_a_call_share_one_context_and_its_state(run):
    seen = []

    class First:
        def on_start(self, context):
            context.state["n"] = 1
            context.state["object"] = self

        def on_stream_event(self, event, context):
            context.state["n"] += 1
            return event

    class Second:
        def on_end(self, context):
            seen.append((context.state["n"], context.state["object"], sorted(context.state), context))
            seen.append((context.stop_reason, context.response.message.text, context.response.usage.output_tokens > 0))
            seen.append((context.modality, context.provider, context.model_id, context.streaming))

        def on_turn(self, turn, context):
            self.context = context

    first, second = First(), Second()
    stream = llm(model=scripted(["Hi there."]), middleware=[first, second]).stream_sync("Hello")
    count = len(list(stream))

    (n, kept, names, context), (stop, text, used), called = seen
    assert (n, kept, names) == (count + 1, first, ["n", "object"])
    assert context is second.context
    assert context.end_time >= context.start_time
    assert (stop, text, used) == ("end_turn", "Hi there.", True)
    assert called == ("llm", "scripted", "scripted", True)
    with pytest.raises(KeyError):
        context.state["other"]
    assert context.state.pop("n") == n
    assert context.state.get("n", "gone") == "gone"


def test_hook_can_change_multiply_and_drop_events(run):
    class Shouting:
        def on_stream_event(self, event, context):
            if event.type != "text_delta":
                return None
            loud = StreamEvent("text_delta", 0, {"text": event.delta["text"].upper()})
            return [loud, loud]

    class Counting:
        seen = 0

        def on_stream_event(self, event, context):
            self.seen += 1
            return event

    counting = Counting()
    stream = llm(model=scripted(["hi"]), middleware=[Shouting(), counting]).stream_sync("Hello")

    texts = [event.delta["text"] for event in stream]

    assert texts == ["H", "H", "I", "I"]
    assert counting.seen == 4
    assert stream.turn.response.text == "hi"


@pytest.mark.parametrize("given", [7, "text", [7]])
def test_invalid_events_from_a_hook_are_rejected(given):
    class Wrong:
        def on_stream_event(self, event, context):
            return given

    with pytest.raises((TypeError, ValueError)):
        list(llm(model=scripted(["hi"]), middleware=[Wrong()]).stream_sync("Hello"))


def test_invalid_middleware_is_rejected_at_construction():
    class Empty:
        def onStart(self, context):
            """The camel-case name, which Python does not accept."""

    class AsyncEvents:
        async def on_stream_event(self, event, context):
            return event

    class NotCallable:
        on_start = 3

    model = scripted([])
    for wrong, words in [
        (Empty(), "none of the hooks"),
        (AsyncEvents(), "must not be async"),
        (NotCallable(), "on_start of NotCallable must be a function"),
    ]:
        with pytest.raises(TypeError, match=words):
            llm(model=model, middleware=[wrong])
    with pytest.raises(TypeError, match="must be a list"):
        llm(model=model, middleware=Empty())


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("way", ["break", "abort", "cancel", "aclose"])
def test_abandoned_stream_calls_on_abort_exactly_once(run, way, is_async):
    log = []
    model = llm(model=slow(), middleware=[recorder(log, is_async=is_async), recorder(log, is_async=is_async)])

    async def main():
        stream, begun = model.stream("Hello"), asyncio.Event()

        async def read(stream):
            async for _ in stream:
                begun.set()
                if way == "break":
                    break
                if way == "abort":
                    stream.abort()
                if way == "aclose":
                    await stream.aclose()

        task = asyncio.create_task(read(stream))
        if way == "cancel":
            await begun.wait()
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        del task
        with pytest.raises(UPPError) as raised:
            await stream.turn
        assert raised.value.code is ErrorCode.CANCELLED
        del stream
        gc.collect()
        while log.count("on_abort") < 2:
            await asyncio.sleep(0)
        # Nothing signals a second or wrong call of a hook, so the test waits for one.
        await asyncio.sleep(0.02)

    run(main())

    assert log.count("on_abort") == 2, log
    assert not {"on_error", "on_end", "on_turn", "on_stream_end"} & set(log)


@pytest.mark.parametrize("is_async", [False, True])
def test_collected_stream_calls_on_abort(run, is_async):
    log = []
    model = llm(model=slow(), middleware=[recorder(log, is_async=is_async)])

    async def main():
        async for _ in model.stream("Hello"):
            break
        gc.collect()
        while "on_abort" not in log:
            await asyncio.sleep(0)

    run(asyncio.wait_for(main(), 10))

    assert log == ["on_start", "on_request", "on_abort"]


@pytest.mark.parametrize("is_async", [False, True])
def test_cancelled_generate_calls_on_error(run, is_async):
    log = []
    script = scripted([Reply("late", delay=30)])
    model = llm(model=script, middleware=[recorder(log, is_async=is_async)])

    async def main():
        task = asyncio.ensure_future(model.generate("Hello"))
        while not script.requests:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while "on_error" not in log:
            await asyncio.sleep(0)

    run(asyncio.wait_for(main(), 10))

    assert log == ["on_start", "on_request", "on_error"]


def test_unread_stream_calls_no_hooks(run):
    log = []

    async def main():
        llm(model=slow(), middleware=[recorder(log)]).stream("Hello")
        await asyncio.sleep(0)

    run(main())

    assert log == []


def test_awaiting_only_the_turn_calls_each_hook_once(run):
    log = []

    async def main():
        stream = llm(model=slow(), middleware=[recorder(log)]).stream("Hello")
        return await asyncio.gather(stream.turn, stream.turn)

    first, second = run(main())

    assert first == second
    assert log == ["on_start", "on_request", "on_stream_end", "on_response", "on_turn", "on_end"]


def test_middleware_without_changes_does_not_affect_the_turn(run):
    class Nothing:
        async def on_start(self, context):
            await asyncio.sleep(0)

        def on_request(self, context):
            list(context.request.messages)

        def on_stream_event(self, event, context):
            return event

    def ask(middleware):
        def shape(turn):
            return [(message.type, message.text) for message in turn.messages], turn.cycles, turn.usage

        async def main():
            made = llm(model=with_tool(), tools=[double], middleware=middleware)
            whole = await made.generate("Double 4")
            stream = llm(model=with_tool(), tools=[double], middleware=middleware).stream("Double 4")
            events = [event.type async for event in stream]
            return shape(whole), shape(await stream.turn), events

        return run(main())

    assert ask([Nothing(), Nothing()]) == ask([])


def test_context_stored_in_its_own_state_is_collected(run):
    class Holder:
        pass

    found = []

    class Cyclic:
        def on_start(self, context):
            context.state["self"] = context
            context.state["holder"] = Holder()
            found.append(weakref.ref(context.state["holder"]))

    run(llm(model=scripted(["Hi."]), middleware=[Cyclic()]).generate("Hello"))
    gc.collect()

    assert found[0]() is None

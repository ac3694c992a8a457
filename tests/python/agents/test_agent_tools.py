"""Tools: where they run, what they get, what the model reads when they fail. UPP-1.2 §10.4."""

import asyncio
import contextvars
import json
import threading
import time

import pytest

from turntree import ToolContext, agent
from turntree.upp import ErrorCode, Tool, ToolUseStrategy, UPPError, scripted, tool

USER = contextvars.ContextVar("user", default="nobody")


def call(name, /, **arguments):
    """A tool call as a script writes it."""
    return {"toolName": name, "arguments": arguments}


def asking(*calls, then="Done."):
    """A model that makes these calls and then answers."""
    return scripted([list(calls), then])


def results(turn):
    """Result and error mark of each call, in the order of the calls."""
    return [(result.result, result.is_error) for result in turn.messages[2].results]


# Where tools run


def test_an_async_tool_runs_on_the_callers_loop_in_its_own_task(run):
    seen = {}

    @tool
    async def look() -> str:
        seen.update(
            loop=asyncio.get_running_loop(),
            task=asyncio.current_task(),
            thread=threading.get_ident(),
            user=USER.get(),
        )
        await asyncio.sleep(0)
        return "ok"

    async def main():
        USER.set("ada")
        await agent(model=asking(call("look")), tools=[look]).run("Go")
        return asyncio.get_running_loop(), asyncio.current_task()

    loop, task = run(main())

    assert seen["loop"] is loop
    assert seen["task"] is not task
    assert seen["thread"] == threading.get_ident()
    assert seen["user"] == "ada"


def test_a_sync_tool_runs_in_another_thread_with_the_callers_context(run):
    seen = {}

    @tool
    def look() -> str:
        seen.update(thread=threading.get_ident(), user=USER.get())
        USER.set("changed by the tool")
        return "ok"

    async def main():
        USER.set("ada")
        await agent(model=asking(call("look")), tools=[look]).run("Go")
        return USER.get()

    assert run(main()) == "ada"
    assert seen["user"] == "ada"
    assert seen["thread"] != threading.get_ident()


def test_a_sync_tool_does_not_block_the_loop(run):
    gate = threading.Event()

    @tool
    def wait() -> bool:
        return gate.wait(5)

    async def main():
        asyncio.get_running_loop().call_later(0.05, gate.set)
        return await agent(model=asking(call("wait")), tools=[wait]).run("Go")

    assert results(run(main())) == [(True, False)]


def test_an_inline_tool_runs_on_the_thread_of_the_run(run):
    seen = {}

    @tool(inline=True)
    def look() -> str:
        seen.update(thread=threading.get_ident(), user=USER.get())
        return "ok"

    async def main():
        USER.set("ada")
        await agent(model=asking(call("look")), tools=[look]).run("Go")

    run(main())

    assert seen == {"thread": threading.get_ident(), "user": "ada"}


@pytest.mark.parametrize("inside_a_loop", [False, True])
def test_async_tools_of_run_sync_run_with_the_callers_context(run, inside_a_loop):
    seen = {}

    @tool
    async def look() -> str:
        await asyncio.sleep(0)
        seen.update(thread=threading.get_ident(), user=USER.get())
        return "ok"

    def ask():
        USER.set("ada")
        return agent(model=asking(call("look")), tools=[look]).run_sync("Go")

    async def cell():
        return ask()

    turn = run(cell()) if inside_a_loop else contextvars.copy_context().run(ask)

    assert results(turn) == [("ok", False)]
    assert seen["user"] == "ada"
    assert seen["thread"] != threading.get_ident()


def test_async_tools_run_at_the_same_time(run):
    meeting = []

    async def main():
        both = asyncio.Event()

        @tool
        async def meet(name: str) -> str:
            meeting.append(name)
            if len(meeting) == 2:
                both.set()
            await asyncio.wait_for(both.wait(), 5)
            return name

        model = asking(call("meet", name="a"), call("meet", name="b"))
        return await agent(model=model, tools=[meet]).run("Go")

    assert results(run(main())) == [("a", False), ("b", False)]


def test_sync_tools_run_at_the_same_time(run):
    barrier = threading.Barrier(2, timeout=5)

    @tool
    def meet(name: str) -> str:
        barrier.wait()
        return name

    model = asking(call("meet", name="a"), call("meet", name="b"))

    assert results(run(agent(model=model, tools=[meet]).run("Go"))) == [("a", False), ("b", False)]


def test_a_tool_may_run_another_agent(run):
    inner = agent(model=scripted(["inner answer"]))

    @tool
    def deep(question: str) -> str:
        return inner.run_sync(question).response.text

    turn = run(agent(model=asking(call("deep", question="?")), tools=[deep]).run("Go"))

    assert results(turn) == [("inner answer", False)]


def test_bound_methods_callables_and_lambdas_are_tools(run):
    class Counter:
        def __init__(self):
            self.n = 0

        def count(self, by: int) -> int:
            """Count."""
            self.n += by
            return self.n

    class Doubler:
        """Double."""

        def __call__(self, n: int) -> int:
            return 2 * n

    async def triple(n: int) -> int:
        return 3 * n

    lazy = Tool("lazy", "", {"type": "object", "properties": {"n": {"type": "integer"}}}, lambda n: triple(n))
    counter = Counter()
    model = asking(call("count", by=2), call("double", n=4), call("triple", n=5), call("lazy", n=6))
    tools = [counter.count, tool(name="double")(Doubler()), triple, lazy]

    turn = run(agent(model=model, tools=tools).run("Go"))

    assert results(turn) == [(2, False), (8, False), (15, False), (18, False)]


# What the model reads


def failing(error):
    @tool(name="fail")
    def fail():
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("no such city"), "no such city"),
        (KeyError("Tokyo"), "'Tokyo'"),
        (ZeroDivisionError(), "ZeroDivisionError"),
        (StopIteration("odd"), "odd"),
        (TimeoutError("late"), "late"),
    ],
)
@pytest.mark.parametrize("kind", ["thread", "inline", "async"])
def test_what_a_tool_raises_is_an_error_result(run, kind, error, words):
    if kind == "async":

        async def fail():
            raise error
    else:

        def fail():
            raise error

    wrapped = tool(fail) if kind != "inline" else tool(inline=True)(fail)

    turn = run(agent(model=asking(call("fail")), tools=[wrapped]).run("Go"))

    ((result, is_error),) = results(turn)
    assert is_error
    if not (kind == "async" and isinstance(error, StopIteration)):  # asyncio replaces it (PEP 479)
        assert words in result
    assert turn.tool_executions[0].is_error
    assert turn.response.text == "Done."


def test_an_unknown_tool_is_an_error_result(run):
    heard = []
    strategy = ToolUseStrategy(on_error=lambda *arguments: heard.append(arguments))

    turn = run(agent(model=asking(call("nope")), tools=[failing(None)], tool_strategy=strategy).run("Go"))

    assert results(turn) == [("Tool 'nope' not found", True)]
    assert turn.tool_executions[0].approved is None
    assert heard == []


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "city"),
        ({"city": 5}, "city"),
        ({"city": "Tokyo", "days": "many"}, "days"),
        ({"city": "Tokyo", "planet": "Mars"}, "planet"),
    ],
)
def test_bad_arguments_are_told_to_the_model_and_the_tool_is_not_called(run, arguments, named):
    called = []

    @tool
    def weather(city: str, days: int = 1) -> str:
        called.append(city)
        return "sunny"

    turn = run(agent(model=asking(call("weather", **arguments)), tools=[weather]).run("Go"))

    ((result, is_error),) = results(turn)
    assert is_error
    assert called == []
    assert named in result
    assert "Traceback" not in result
    assert "https://" not in result


@pytest.mark.parametrize("arguments", ["{broken", "[1, 2]", '"text"', "", "null"])
def test_arguments_that_are_no_object_do_not_break_the_run(loopback, run, arguments):
    from turntree.testing import ToolCall
    from turntree.upp import openai

    @tool
    def weather(city: str = "Tokyo") -> str:
        return "sunny"

    server = loopback([ToolCall("weather", arguments), "Done."])
    model = openai("gpt", "completions", base_url=server.base_url, api_key="key")

    turn = run(agent(model=model, tools=[weather]).run("Go"))

    assert turn.response.text == "Done."
    assert isinstance(turn.tool_executions[0].arguments, dict)


@pytest.mark.parametrize(
    "value", [object(), {1, object()}, {"deep": object()}, float("nan"), lambda: 1, "\ud800", b"\xff"]
)
def test_a_result_that_json_cannot_hold_is_an_error_result_or_text(run, value):
    @tool
    def odd():
        return value

    turn = run(agent(model=asking(call("odd")), tools=[odd]).run("Go"))

    ((result, is_error),) = results(turn)
    assert turn.response.text == "Done."
    if is_error:
        assert "result" in result
        assert " at 0x" not in result


def test_a_result_that_holds_itself_is_an_error_result(run):
    @tool
    def odd() -> list:
        ring: list = []
        ring.append(ring)
        return ring

    ((result, is_error),) = results(run(agent(model=asking(call("odd")), tools=[odd]).run("Go")))

    assert is_error
    assert "nested" in result


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -1, 2**70, 1.5, "", "text", [], {}, [1, [2, {"a": None}]], {"ü": "\x00\u2028😀"}],
)
def test_json_values_come_through_unchanged(run, value):
    @tool
    def give():
        return value

    turn = run(agent(model=asking(call("give")), tools=[give]).run("Go"))

    assert results(turn) == [(value, False)]
    assert turn.tool_executions[0].result == value


def test_models_dates_and_dataclasses_are_results(run):
    import dataclasses
    import datetime

    import pydantic

    class Weather(pydantic.BaseModel):
        sky: str
        day: datetime.date

    @dataclasses.dataclass
    class Wind:
        speed: float

    @tool
    def both():
        return {"weather": Weather(sky="clear", day=datetime.date(2026, 1, 2)), "wind": Wind(3.5)}

    turn = run(agent(model=asking(call("both")), tools=[both]).run("Go"))

    assert results(turn) == [({"weather": {"sky": "clear", "day": "2026-01-02"}, "wind": {"speed": 3.5}}, False)]


def test_a_huge_result_comes_through(run):
    text = "x" * 20_000_000

    @tool
    def huge() -> str:
        return text

    turn = run(agent(model=asking(call("huge")), tools=[huge]).run("Go"))

    assert turn.tool_executions[0].result == text


# Context


def test_a_tool_learns_who_calls_it(run):
    seen = []

    @tool
    def look(context: ToolContext, city: str) -> str:
        seen.append((context.agent_id, context.turn_id, context.tool_call_id, context.cancelled))
        assert context.parent_agent_id is None
        assert context.session_id is None
        return city

    helper = agent(model=scripted([[call("look", city="Tokyo")], "Done."]), tools=[look])

    turn = run(helper.run("Go"))

    ((agent_id, turn_id, tool_call_id, cancelled),) = seen
    assert agent_id == helper.id
    assert turn_id
    assert tool_call_id == turn.tool_executions[0].tool_call_id
    assert not cancelled
    assert "context" not in json.dumps(look.parameters)


def test_a_tool_in_a_thread_learns_that_the_run_was_cancelled(run):
    started, noticed = threading.Event(), threading.Event()

    @tool
    def work(context: ToolContext) -> None:
        started.set()
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            if context.cancelled:
                noticed.set()
                return
            time.sleep(0.005)

    async def main():
        task = asyncio.ensure_future(agent(model=asking(call("work")), tools=[work]).run("Go"))
        await asyncio.to_thread(started.wait, 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())

    assert noticed.wait(5)


# Approval


def guarded(approval, called):
    @tool(approval=approval)
    def delete(path: str) -> str:
        called.append(path)
        return "deleted"

    return delete


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("verdict", [True, False])
def test_approval_is_asked_with_the_arguments(run, is_async, verdict):
    called, asked = [], []

    def sync_approval(params):
        asked.append(params)
        return verdict

    async def async_approval(params):
        await asyncio.sleep(0)
        return sync_approval(params)

    delete = guarded(async_approval if is_async else sync_approval, called)

    turn = run(agent(model=asking(call("delete", path="/")), tools=[delete]).run("Go"))

    (done,) = turn.tool_executions
    assert asked == [{"path": "/"}]
    assert done.approved is verdict
    if verdict:
        assert called == ["/"]
        assert results(turn) == [("deleted", False)]
    else:
        assert called == []
        assert done.result == "Tool execution denied"
        assert results(turn) == [("Tool execution denied by approval handler", True)]


def test_a_denial_is_no_error_of_the_tool(run):
    heard = []
    delete = guarded(lambda _: False, [])

    run(
        agent(
            model=asking(call("delete", path="/")),
            tools=[delete],
            tool_strategy={"on_error": lambda *arguments: heard.append(arguments)},
        ).run("Go")
    )

    assert heard == []


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("streamed", [False, True])
def test_what_approval_raises_reaches_the_caller_after_the_other_calls(run, is_async, streamed):
    raised = PermissionError("ask somebody else")
    settled = []

    def sync_approval(_):
        raise raised

    async def async_approval(_):
        raise raised

    @tool
    async def slow() -> str:
        await asyncio.sleep(0.05)
        settled.append("slow")
        return "done"

    delete = guarded(async_approval if is_async else sync_approval, [])
    helper = agent(model=asking(call("delete", path="/"), call("slow")), tools=[delete, slow])

    async def main():
        if streamed:
            async for _ in helper.stream("Go"):
                pass
        else:
            await helper.run("Go")

    with pytest.raises(PermissionError) as caught:
        run(main())

    assert caught.value is raised
    assert settled == ["slow"]


def test_tools_without_approval_have_no_verdict(run):
    @tool
    def plain() -> str:
        return "ok"

    turn = run(agent(model=asking(call("plain")), tools=[plain]).run("Go"))

    assert turn.tool_executions[0].approved is None


# Hooks of tool use


@pytest.mark.parametrize("is_async", [False, True])
def test_hooks_of_tool_use_are_called_in_order(run, is_async):
    heard = []

    def hook(name, answer=None):
        def sync_hook(used, params, *rest):
            heard.append((name, used.name, params, *rest))
            return answer

        async def async_hook(*arguments):
            await asyncio.sleep(0)
            return sync_hook(*arguments)

        return async_hook if is_async else sync_hook

    strategy = ToolUseStrategy(
        on_tool_call=hook("on_tool_call"),
        on_before_call=hook("on_before_call", {"proceed": True, "params": {"n": 20}}),
        on_after_call=hook("on_after_call", {"result": "replaced"}),
    )

    @tool(approval=lambda params: bool(heard.append(("approval", params))) or True)
    def double(n: int) -> int:
        heard.append(("run", n))
        return 2 * n

    turn = run(agent(model=asking(call("double", n=1)), tools=[double], tool_strategy=strategy).run("Go"))

    assert heard == [
        ("on_tool_call", "double", {"n": 1}),
        ("on_before_call", "double", {"n": 1}),
        ("approval", {"n": 20}),
        ("run", 20),
        ("on_after_call", "double", {"n": 20}, 40),
    ]
    assert results(turn) == [("replaced", False)]
    (done,) = turn.tool_executions
    assert (done.arguments, done.result) == ({"n": 20}, "replaced")


@pytest.mark.parametrize("answer", [False, None, 0, {"proceed": False}, {}])
def test_a_falsy_on_before_call_skips(run, answer):
    called = []

    @tool
    def work() -> None:
        called.append(1)

    turn = run(
        agent(
            model=asking(call("work")),
            tools=[work],
            tool_strategy={"on_before_call": lambda *_: answer},
        ).run("Go")
    )

    assert called == []
    assert results(turn) == [("Tool execution skipped", True)]


@pytest.mark.parametrize("answer", [None, "text", {"other": 1}])
def test_on_after_call_without_a_result_changes_nothing(run, answer):
    @tool
    def work() -> str:
        return "kept"

    turn = run(
        agent(
            model=asking(call("work")),
            tools=[work],
            tool_strategy={"onAfterCall": lambda *_: answer},
        ).run("Go")
    )

    assert results(turn) == [("kept", False)]


def test_on_error_hears_the_exception_itself(run):
    heard = []
    error = ValueError("broken")

    turn = run(
        agent(
            model=asking(call("fail")),
            tools=[failing(error)],
            tool_strategy={"on_error": lambda used, params, what: heard.append((used.name, params, what))},
        ).run("Go")
    )

    assert heard == [("fail", {}, error)]
    assert heard[0][2] is error
    assert results(turn) == [("broken", True)]


@pytest.mark.parametrize("name", ["on_tool_call", "on_before_call", "on_after_call"])
def test_what_a_hook_of_tool_use_raises_is_the_tools_failure(run, name):
    heard = []

    def hook(*_):
        raise ValueError("the hook broke")

    @tool
    def work() -> str:
        return "ok"

    turn = run(
        agent(
            model=asking(call("work")),
            tools=[work],
            tool_strategy={name: hook, "on_error": lambda *arguments: heard.append(arguments)},
        ).run("Go")
    )

    assert results(turn) == [("the hook broke", True)]
    assert len(heard) == 1


def test_what_on_error_of_tool_use_raises_reaches_the_caller(run):
    raised = RuntimeError("stop everything")

    def on_error(*_):
        raise raised

    helper = agent(
        model=asking(call("fail")),
        tools=[failing(ValueError())],
        tool_strategy={"on_error": on_error},
    )

    with pytest.raises(RuntimeError) as caught:
        run(helper.run("Go"))

    assert caught.value is raised


# What ends the process


@pytest.mark.parametrize("kind", ["thread", "inline"])
@pytest.mark.parametrize("exception", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_a_tool_ends_the_run(run, kind, exception):
    heard = []

    @tool(inline=kind == "inline")
    def stop() -> None:
        raise exception

    async def main():
        helper = agent(
            model=asking(call("stop")),
            tools=[stop],
            strategy={"on_error": lambda *arguments: heard.append(arguments)},
        )
        try:
            await helper.run("Go")
        except BaseException as error:
            return type(error)

    assert run(main()) is exception
    assert heard == []


@pytest.mark.parametrize("exception", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_an_async_tool_ends_run_sync(exception):
    @tool
    async def stop() -> None:
        raise exception

    with pytest.raises(exception):
        agent(model=asking(call("stop")), tools=[stop]).run_sync("Go")

    @tool
    async def go() -> str:
        return "ok"

    # The loop of ours that serves run_sync has survived.
    assert results(agent(model=asking(call("go")), tools=[go]).run_sync("Go")) == [("ok", False)]


def test_timeouts_inside_a_tool_are_the_tools_own(run):
    @tool
    async def slow() -> None:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(5)

    turn = run(agent(model=asking(call("slow")), tools=[slow]).run("Go"))

    assert results(turn) == [("TimeoutError", True)]


def test_a_model_that_raises_in_its_function_fails_the_run_with_that(run):
    def reply(_request):
        raise UPPError("no", ErrorCode.CONTENT_FILTERED, provider="mine")

    with pytest.raises(UPPError) as caught:
        run(agent(model=scripted(reply)).run("Go"))

    assert caught.value.code == ErrorCode.CONTENT_FILTERED

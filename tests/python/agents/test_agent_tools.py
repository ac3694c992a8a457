"""Tools: the thread or event loop they run on, their arguments, and their error results. UPP-1.2 §10.4."""

import asyncio
import contextvars
import json
import threading
import time

import pytest
from agent_tools_support import asking, call, failing, results

from turntree import ToolContext, agent
from turntree.upp import Tool, ToolUseStrategy, scripted, tool

USER = contextvars.ContextVar("user", default="nobody")


# Where tools run


def test_async_tool_runs_on_the_callers_event_loop_in_its_own_task(run):
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
        return gate.wait(30)

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
            await asyncio.wait_for(both.wait(), 30)
            return name

        model = asking(call("meet", name="a"), call("meet", name="b"))
        return await agent(model=model, tools=[meet]).run("Go")

    assert results(run(main())) == [("a", False), ("b", False)]


def test_sync_tools_run_at_the_same_time(run):
    barrier = threading.Barrier(2, timeout=30)

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
def test_exception_from_a_tool_becomes_an_error_result(run, kind, error, words):
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


def test_call_of_an_unknown_tool_returns_an_error_result(run):
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
def test_invalid_arguments_return_an_error_result_without_calling_the_tool(run, arguments, named):
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
def test_arguments_that_are_not_an_object_do_not_fail_the_run(loopback, run, arguments):
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
def test_result_that_json_cannot_represent_becomes_text_or_an_error(run, value):
    @tool
    def odd():
        return value

    turn = run(agent(model=asking(call("odd")), tools=[odd]).run("Go"))

    ((result, is_error),) = results(turn)
    assert turn.response.text == "Done."
    if is_error:
        assert "result" in result
        assert " at 0x" not in result


def test_self_referencing_result_becomes_an_error_result(run):
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
def test_json_results_are_passed_unchanged(run, value):
    @tool
    def give():
        return value

    turn = run(agent(model=asking(call("give")), tools=[give]).run("Go"))

    assert results(turn) == [(value, False)]
    assert turn.tool_executions[0].result == value


def test_models_dates_and_dataclasses_are_valid_results(run):
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


def test_large_result_is_passed_completely(run):
    text = "x" * 20_000_000

    @tool
    def huge() -> str:
        return text

    turn = run(agent(model=asking(call("huge")), tools=[huge]).run("Go"))

    assert turn.tool_executions[0].result == text


# Context


def test_tool_context_describes_the_caller(run):
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


def test_tool_context_in_a_thread_reports_cancellation(run):
    started, noticed = threading.Event(), threading.Event()

    @tool
    def work(context: ToolContext) -> None:
        started.set()
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if context.cancelled:
                noticed.set()
                return
            time.sleep(0.005)  # the poll interval of the tool

    async def main():
        task = asyncio.ensure_future(agent(model=asking(call("work")), tools=[work]).run("Go"))
        assert await asyncio.to_thread(started.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())

    assert noticed.wait(30)

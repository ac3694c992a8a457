"""Approval of tool calls, the hooks of tool use, and tools that end the process."""

import asyncio
import threading

import pytest
from agent_tools_support import asking, call, failing, results

from turntree import agent
from turntree.upp import ErrorCode, ToolUseStrategy, UPPError, scripted, tool

# Approval


def guarded(approval, called):
    @tool(approval=approval)
    def delete(path: str) -> str:
        called.append(path)
        return "deleted"

    return delete


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("verdict", [True, False])
def test_approval_handler_receives_the_arguments(run, is_async, verdict):
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


def test_denied_call_is_not_reported_as_a_tool_error(run):
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
def test_exception_from_approval_is_raised_after_the_other_calls_end(run, is_async, streamed):
    raised = PermissionError("ask somebody else")
    refused, settled = threading.Event(), []

    def sync_approval(_):
        refused.set()
        raise raised

    async def async_approval(_):
        refused.set()
        raise raised

    @tool
    async def slow() -> str:
        assert await asyncio.to_thread(refused.wait, 10)
        await asyncio.sleep(0.02)  # longer than the approval takes to raise
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


def test_executions_without_approval_have_no_approved_flag(run):
    @tool
    def plain() -> str:
        return "ok"

    turn = run(agent(model=asking(call("plain")), tools=[plain]).run("Go"))

    assert turn.tool_executions[0].approved is None


# Hooks of tool use


@pytest.mark.parametrize("is_async", [False, True])
def test_tool_strategy_hooks_are_called_in_order(run, is_async):
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
def test_falsy_result_of_on_before_call_skips_the_tool(run, answer):
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
def test_on_after_call_that_returns_none_keeps_the_result(run, answer):
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


def test_on_error_receives_the_original_exception(run):
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
def test_exception_from_a_tool_strategy_hook_fails_the_tool_call(run, name):
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


def test_exception_from_on_error_of_the_tool_strategy_is_raised(run):
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


# Interrupts


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

    # The internal event loop of run_sync still works.
    assert results(agent(model=asking(call("go")), tools=[go]).run_sync("Go")) == [("ok", False)]


def test_timeout_inside_a_tool_fails_only_the_tool(run):
    @tool
    async def slow() -> None:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(5)

    turn = run(agent(model=asking(call("slow")), tools=[slow]).run("Go"))

    assert results(turn) == [("TimeoutError", True)]


def test_exception_from_a_scripted_model_function_is_raised(run):
    def reply(_request):
        raise UPPError("no", ErrorCode.CONTENT_FILTERED, provider="mine")

    with pytest.raises(UPPError) as caught:
        run(agent(model=scripted(reply)).run("Go"))

    assert caught.value.code == ErrorCode.CONTENT_FILTERED

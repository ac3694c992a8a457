"""Aborting, leaving and cancelling streams; errors; streams without an event loop."""

import asyncio
import gc
import threading

import pytest
from agent_stream_support import WORDS, add, call, kinds, listen, text_of

from turntree import ToolContext, agent
from turntree.testing import Fault, ToolCall
from turntree.testing import Reply as ServerReply
from turntree.upp import ErrorCode, Reply, StreamEvent, UPPError, openai, scripted, tool

# Half a minute of text from a server: it still sends when the stream is left, however late that is.
LONG = ServerReply(" ".join([WORDS] * 60), gap=0.05)


def at(server, **options):
    """A model at a loopback server."""
    return openai("gpt", "completions", base_url=server.base_url, api_key="key", **options)


# Abort, decisions A56 and A57


def aborted(turn):
    return turn.response.metadata["uap"]["aborted"]


def test_abort_before_the_start_sends_no_request(run):
    model = scripted(["never"])

    async def main():
        stream = agent(model=model).stream("Go")
        stream.abort()
        return await listen(stream), await stream.turn

    events, turn = run(main())

    assert events == []
    assert model.requests == []
    assert [message.type for message in turn.messages] == ["user", "assistant"]
    assert turn.messages[0].text == "Go"
    assert turn.response.text == ""
    assert aborted(turn)


def test_abort_during_text_returns_the_partial_text(run):
    async def main():
        stream = agent(model=scripted([Reply(WORDS, pace=0.02)])).stream("Go")
        heard = ""
        async for event in stream:
            if event.upp and event.upp.type == "text_delta":
                heard += event.upp.delta["text"]
                stream.abort()
        return heard, await stream.turn

    heard, turn = run(main())

    assert heard
    assert turn.response.text.startswith(heard)
    assert len(turn.response.text) < len(WORDS)
    assert aborted(turn)


def test_abort_during_tools_adds_a_result_for_every_call(run):
    cancelled = []

    async def main():
        @tool
        async def wait() -> str:
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                cancelled.append(1)
                raise
            return "late"

        @tool
        async def quick() -> str:
            return "quick"

        model = scripted([[call("quick"), call("wait")], "never"])
        stream = agent(model=model, tools=[quick, wait]).stream("Go")
        async for event in stream:
            if event.upp and event.upp.type == "tool_execution_end":
                stream.abort()
        turn = await stream.turn
        await asyncio.sleep(0)
        return turn, model

    turn, model = run(main())

    assert cancelled == [1]
    assert [message.type for message in turn.messages] == ["user", "assistant", "tool_result", "assistant"]
    assert [result.is_error for result in turn.messages[2].results] == [False, True]
    assert [done.tool_name for done in turn.tool_executions] == ["quick"]
    assert aborted(turn)
    assert len(model.requests) == 1


def test_conversation_continues_after_an_aborted_turn(run, loopback):
    server = loopback([[ToolCall("wait", {})], "Fine."])

    async def main():
        @tool
        async def wait() -> str:
            await asyncio.sleep(30)
            return "late"

        helper = agent(model=at(server), tools=[wait])
        stream = helper.stream("Go")
        async for event in stream:
            if event.upp and event.upp.type == "tool_execution_start":
                stream.abort()
        turn = await stream.turn
        return await helper.run(turn.messages, "And now?")

    # The strict server refuses calls without results.
    assert run(main()).response.text == "Fine."


def test_abort_from_another_task_wakes_the_reader(run):
    async def main():
        model = scripted([Reply("late", delay=30)])
        stream = agent(model=model).stream("Go")

        async def abort():
            while not model.requests:
                await asyncio.sleep(0)
            stream.abort()

        events, _ = await asyncio.gather(listen(stream), abort())
        return events, await stream.turn

    events, turn = run(main())

    assert aborted(turn)
    assert kinds(events) in ([], ["step_start"])


def test_abort_from_another_thread_wakes_the_reader(run):
    async def main():
        requested = threading.Event()

        def reply(_request):
            requested.set()
            return Reply("late", delay=30)

        stream = agent(model=scripted(reply)).stream("Go")

        def abort():
            assert requested.wait(10)
            stream.abort()

        _, turn = await asyncio.gather(asyncio.to_thread(abort), stream.turn)
        return turn

    assert aborted(run(main()))


def test_abort_after_the_end_changes_nothing(run):
    async def main():
        stream = agent(model=scripted(["ok"])).stream("Go")
        turn = await stream.turn
        stream.abort()
        stream.abort()
        return turn, await stream.turn

    before, after = run(main())

    assert before == after
    assert before.response.metadata is None or "uap" not in before.response.metadata


def test_abort_closes_the_http_request(run, loopback):
    server = loopback(LONG)

    async def main():
        stream = agent(model=at(server)).stream("Go")
        async for event in stream:
            if event.upp and event.upp.type == "text_delta":
                stream.abort()
        return await stream.turn

    turn = run(main())

    assert aborted(turn)
    assert turn.response.text.startswith("one")
    assert server.requests[0].wait(30) == "dropped"


# Leaving early


def test_closing_an_unfinished_stream_closes_the_http_request(run, loopback):
    server = loopback(LONG)

    async def main():
        stream = agent(model=at(server)).stream("Go")
        async for event in stream:
            if event.upp and event.upp.type == "text_delta":
                break
        await stream.aclose()
        return await asyncio.to_thread(server.requests[0].wait, 30)

    assert run(main()) == "dropped"


def test_leaving_async_with_stops_the_run(run, loopback):
    server = loopback(LONG)

    async def main():
        async with agent(model=at(server)).stream("Go") as stream:
            async for event in stream:
                if event.upp and event.upp.type == "text_delta":
                    break
        return await asyncio.to_thread(server.requests[0].wait, 30)

    assert run(main()) == "dropped"


def test_async_with_does_not_affect_a_completed_run(run):
    async def main():
        async with agent(model=scripted([WORDS])).stream("Go") as stream:
            events = await listen(stream)
            turn = await stream.turn
        return events, turn, await stream.turn

    events, turn, again = run(main())

    assert text_of(events) == WORDS
    assert turn == again


def test_collected_stream_closes_the_http_request(run, loopback):
    server = loopback(LONG)

    async def main():
        stream = agent(model=at(server)).stream("Go")
        async for event in stream:
            if event.upp and event.upp.type == "text_delta":
                break
        del stream
        gc.collect()
        return await asyncio.to_thread(server.requests[0].wait, 30)

    assert run(main()) == "dropped"


def test_the_turn_of_a_closed_stream_is_cancelled(run):
    async def main():
        stream = agent(model=scripted([Reply(WORDS, pace=0.01)])).stream("Go")
        async for _ in stream:
            break
        await stream.aclose()
        with pytest.raises(UPPError) as caught:
            await stream.turn
        assert await listen(stream) == []
        return caught.value

    error = run(main())

    assert error.code == ErrorCode.CANCELLED
    assert error.message


def test_closing_a_stream_cancels_tools(run):
    cancelled = []

    async def main():
        begun = asyncio.Event()

        @tool
        async def wait(context: ToolContext) -> str:
            begun.set()
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                cancelled.append(context.cancelled)
                raise
            return "late"

        async with agent(model=scripted([[call("wait")], "x"]), tools=[wait]).stream("Go") as stream:
            while True:
                event = await anext(stream)
                if event.upp and event.upp.type == "tool_execution_start":
                    break
            await asyncio.wait_for(begun.wait(), 10)
        await asyncio.sleep(0)

    run(main())

    assert cancelled == [True]


# Errors


@pytest.mark.parametrize("wait_for_turn_first", [False, True])
def test_error_during_a_stream_is_raised_by_the_iteration_and_the_turn(run, wait_for_turn_first):
    error = UPPError("overloaded", ErrorCode.PROVIDER_ERROR, provider="mine", status_code=529)
    reply = [StreamEvent("text_delta", 0, {"text": "half"}), error]

    async def main():
        stream = agent(model=scripted([reply])).stream("Go")
        caught, heard = [], []

        async def iterate():
            try:
                async for event in stream:
                    heard.append(event)
            except UPPError as raised:
                caught.append(raised)

        async def turn():
            try:
                await stream.turn
            except UPPError as raised:
                caught.append(raised)

        for step in (turn, iterate) if wait_for_turn_first else (iterate, turn):
            await step()
        return caught, heard

    caught, heard = run(main())

    assert [raised.code for raised in caught] == [ErrorCode.PROVIDER_ERROR] * 2
    assert text_of(heard) == "half"


def test_error_of_an_unawaited_turn_writes_nothing_to_stderr(run, capfd):
    async def main():
        stream = agent(model=scripted([ValueError("broken")])).stream("Go")
        with pytest.raises(ValueError, match="broken"):
            await listen(stream)
        del stream
        gc.collect()

    run(main())

    assert capfd.readouterr().err == ""


def test_error_event_of_the_vendor_fails_the_stream(run, loopback):
    server = loopback(ServerReply(WORDS, fault=Fault(error_after=4)))

    async def main():
        stream = agent(model=at(server)).stream("Go")
        heard = []
        with pytest.raises(UPPError) as caught:
            async for event in stream:
                heard.append(event)
        with pytest.raises(UPPError):
            await stream.turn
        return heard, caught.value

    heard, error = run(main())

    assert WORDS.startswith(text_of(heard))
    assert error.code in {ErrorCode.PROVIDER_ERROR, ErrorCode.RATE_LIMITED}
    assert "overloaded" in error.message


# Cancelling the task


def test_cancelling_the_reader_loses_no_event(run):
    async def main():
        stream = agent(model=scripted([Reply(WORDS, pace=0.01)])).stream("Go")
        heard = []
        while True:
            try:
                heard.append(await asyncio.wait_for(anext(stream), 0.003))
            except TimeoutError:
                continue
            except StopAsyncIteration:
                return heard, await stream.turn

    heard, turn = run(main())

    assert text_of(heard) == WORDS == turn.response.text


def test_cancelling_one_waiter_of_the_turn_does_not_cancel_the_run(run):
    async def main():
        release = asyncio.Event()

        async def reply(_request):
            await release.wait()
            return "late"

        stream = agent(model=scripted(reply)).stream("Go")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(stream.turn, 0.01)
        release.set()
        return await stream.turn

    assert run(main()).response.text == "late"


# Without an event loop


def test_stream_sync_yields_the_same_events():
    helper = agent(model=scripted([[call("add", a=1, b=2)], WORDS]), tools=[add])

    stream = helper.stream_sync("Go")
    events = list(stream)

    assert text_of(events) == WORDS == stream.turn.response.text
    assert kinds(events)[0] == "step_start"


def test_stream_sync_works_inside_a_running_event_loop(run):
    async def cell():
        return list(agent(model=scripted([WORDS])).stream_sync("Go"))

    assert text_of(run(cell())) == WORDS


def test_stream_sync_can_be_aborted():
    stream = agent(model=scripted([Reply(WORDS, pace=0.01)])).stream_sync("Go")
    for event in stream:
        if event.upp and event.upp.type == "text_delta":
            stream.abort()

    assert aborted(stream.turn)


def test_stream_sync_raises_the_error_of_the_model():
    stream = agent(model=scripted([ValueError("broken")])).stream_sync("Go")

    with pytest.raises(ValueError, match="broken"):
        list(stream)
    with pytest.raises(ValueError, match="broken"):
        _ = stream.turn


def test_leaving_stream_sync_closes_the_http_request(loopback):
    server = loopback(LONG)
    stream = agent(model=at(server)).stream_sync("Go")
    for event in stream:
        if event.upp and event.upp.type == "text_delta":
            break

    del stream, event
    gc.collect()

    assert server.requests[0].wait(30) == "dropped"


def test_stream_sync_is_a_context_manager(loopback):
    server = loopback(LONG)

    with agent(model=at(server)).stream_sync("Go") as stream:
        for event in stream:
            if event.upp and event.upp.type == "text_delta":
                break

    assert server.requests[0].wait(30) == "dropped"


def test_stream_rejects_an_invalid_input(run):
    with pytest.raises((UPPError, TypeError), match="input"):
        agent(model=scripted(["x"])).stream(42)

"""Streams of runs: events, the turn, abort, leaving early, errors. UAP-1.0 §12, UPP-1.2 §11."""

import asyncio
import gc
import time

import pytest

from turntree import AgentStreamEvent, ToolContext, agent
from turntree.testing import Fault, ToolCall
from turntree.testing import Reply as ServerReply
from turntree.upp import ErrorCode, Reply, StreamEvent, UPPError, openai, scripted, tool

WORDS = "one two three four five six seven eight nine ten"


def call(name, /, **arguments):
    """A tool call as a script writes it."""
    return {"toolName": name, "arguments": arguments}


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def listen(stream):
    return [event async for event in stream]


def kinds(events):
    return [event.uap.type if event.uap else event.upp.type for event in events]


def text_of(events):
    return "".join(event.upp.delta["text"] for event in events if event.upp and event.upp.type == "text_delta")


def at(server, **options):
    """A model at a loopback server."""
    return openai("gpt", "completions", base_url=server.base_url, api_key="key", **options)


# Events


def test_events_tell_the_whole_run_in_order(run):
    helper = agent(model=scripted([[call("add", a=1, b=2)], "It is 3."]), tools=[add])

    async def main():
        stream = helper.stream("1 + 2?")
        return await listen(stream), await stream.turn

    events, turn = run(main())

    assert all(isinstance(event, AgentStreamEvent) for event in events)
    names = [name for name in kinds(events) if not name.endswith("_delta")]
    assert names == [
        "step_start",
        "message_start",
        "message_stop",
        "action",
        "tool_execution_start",
        "tool_execution_end",
        "observation",
        "step_end",
        "step_start",
        "message_start",
        "message_stop",
        "step_end",
    ]
    assert {event.source for event in events} == {"uap", "upp"}
    for event in events:
        assert (event.uap is None) == (event.source == "upp")
        assert (event.upp is None) == (event.source == "uap")
    agent_events = [event.uap for event in events if event.uap]
    assert [event.step for event in agent_events] == [1, 1, 1, 1, 2, 2]
    assert {event.agent_id for event in agent_events} == {helper.id}
    assert agent_events[0].data["stepNumber"] == 1
    assert agent_events[1].data["toolCalls"][0]["toolName"] == "add"
    assert agent_events[2].data["results"][0]["result"] == 3
    usages = [event.data["usage"]["totalTokens"] for event in agent_events if event.type == "step_end"]
    assert sum(usages) == turn.usage.total_tokens
    assert text_of(events) == "It is 3." == turn.response.text


def test_events_of_tools_name_the_call(run):
    helper = agent(model=scripted([[call("add", a=1, b=2), call("add", a="x", b=1)], "ok"]), tools=[add])

    async def main():
        stream = helper.stream("Go")
        return await listen(stream), await stream.turn

    events, turn = run(main())

    calls = turn.messages[1].tool_calls
    starts = {e.upp.index: e.upp.delta for e in events if e.upp and e.upp.type == "tool_execution_start"}
    ends = {e.upp.index: e.upp.delta for e in events if e.upp and e.upp.type == "tool_execution_end"}
    assert [starts[i]["toolCallId"] for i in (0, 1)] == [made.tool_call_id for made in calls]
    assert (ends[0]["result"], ends[0]["isError"]) == (3, False)
    assert ends[1]["isError"]
    assert ends[0]["toolName"] == "add"
    assert abs(starts[0]["timestamp"] / 1000 - time.time()) < 60


def test_a_tools_start_is_heard_while_it_runs(run):
    async def main():
        gate = asyncio.Event()
        finished = []

        @tool
        async def wait() -> str:
            await asyncio.wait_for(gate.wait(), 5)
            finished.append(1)
            return "ok"

        async for event in agent(model=scripted([[call("wait")], "ok"]), tools=[wait]).stream("Go"):
            if event.upp and event.upp.type == "tool_execution_start":
                assert not finished
                gate.set()
        return finished

    assert run(main()) == [1]


def test_a_quick_tools_end_is_heard_while_a_slow_one_runs(run):
    async def main():
        gate = asyncio.Event()

        @tool
        async def slow() -> str:
            await asyncio.wait_for(gate.wait(), 5)
            return "slow"

        @tool
        async def quick() -> str:
            return "quick"

        helper = agent(model=scripted([[call("slow"), call("quick")], "ok"]), tools=[slow, quick])
        ends = []
        async for event in helper.stream("Go"):
            if event.upp and event.upp.type == "tool_execution_end":
                ends.append(event.upp.delta["toolName"])
                gate.set()
        return ends

    assert run(main()) == ["quick", "slow"]


def test_structure_streams_object_deltas(run):
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    answer = '{"name": "Tokyo"}'

    async def main():
        stream = agent(model=scripted([answer]), structure=schema).stream("Go")
        return await listen(stream), await stream.turn

    events, turn = run(main())

    pieces = [e.upp.delta["text"] for e in events if e.upp and e.upp.type == "object_delta"]
    assert "".join(pieces) == answer
    assert turn.data == {"name": "Tokyo"}


def test_events_given_by_a_script_arrive_unchanged(run):
    given = [
        StreamEvent("text_delta", 0, {"text": "a"}),
        StreamEvent("reasoning_delta", 0, {"text": "hm"}),
        StreamEvent("text_delta", 0, {"text": "b"}),
    ]

    events = run(listen(agent(model=scripted([given])).stream("Go")))

    assert [event.upp for event in events if event.upp and event.upp.type.endswith("_delta")] == given


def test_every_event_has_a_short_repr(run):
    helper = agent(model=scripted([[call("add", a=1, b=2)], "ok"]), tools=[add])

    for event in run(listen(helper.stream("Go"))):
        assert len(repr(event)) < 120
        assert (event.uap or event.upp).type in repr(event)


# The turn of a stream


def test_the_turn_without_iterating(run):
    helper = agent(model=scripted([[call("add", a=1, b=2)], "3"]), tools=[add])

    async def main():
        stream = helper.stream("Go")
        return await stream.turn

    assert run(main()).response.text == "3"


def test_a_stream_can_be_awaited_itself(run):
    async def main():
        return await agent(model=scripted(["3"])).stream("Go")

    assert run(main()).response.text == "3"


def test_the_turn_twice_and_after_iterating_is_the_same(run):
    async def main():
        stream = agent(model=scripted(["3"])).stream("Go")
        await listen(stream)
        return await stream.turn, await stream.turn, await stream

    first, second, third = run(main())

    assert first == second == third


def test_many_may_wait_for_the_turn(run):
    async def main():
        stream = agent(model=scripted([Reply(WORDS, pace=0.002)])).stream("Go")

        async def turn():
            return await stream.turn

        waiting = [asyncio.ensure_future(turn()) for _ in range(5)]
        events = await listen(stream)
        return events, await asyncio.gather(*waiting)

    events, turns = run(main())

    assert text_of(events) == WORDS
    assert all(turn == turns[0] for turn in turns)


def test_events_are_kept_for_whoever_iterates_after_the_turn(run):
    async def main():
        stream = agent(model=scripted([WORDS])).stream("Go")
        await stream.turn
        return await listen(stream)

    assert text_of(run(main())) == WORDS


def test_nothing_is_sent_before_somebody_asks(run):
    model = scripted(["3"])

    async def main():
        stream = agent(model=model).stream("Go")
        await asyncio.sleep(0.02)
        before = len(model.requests)
        await stream.turn
        return before

    assert run(main()) == 0


def test_a_stream_made_outside_of_the_loop_runs_its_tools_on_the_loop(run):
    seen = []

    @tool
    async def look() -> str:
        seen.append(asyncio.get_running_loop())
        return "ok"

    stream = agent(model=scripted([[call("look")], "ok"]), tools=[look]).stream("Go")

    async def main():
        await listen(stream)
        return asyncio.get_running_loop()

    assert run(main()) is seen[0]


def test_a_second_iteration_goes_on_with_the_first(run):
    async def main():
        stream = agent(model=scripted([WORDS])).stream("Go")
        first = []
        async for event in stream:
            first.append(event)
            if len(first) == 3:
                break
        return first + await listen(stream)

    events = run(main())

    assert text_of(events) == WORDS
    assert kinds(events)[0] == "step_start"
    assert kinds(events)[-1] == "step_end"


def test_an_ended_stream_stays_ended(run):
    async def main():
        stream = agent(model=scripted(["a"])).stream("Go")
        await listen(stream)
        return await listen(stream)

    assert run(main()) == []


def test_batches_hold_all_that_is_ready(run):
    async def main():
        stream = agent(model=scripted([WORDS])).stream("Go")
        batches = [batch async for batch in stream.batches()]
        return batches, await stream.turn

    batches, turn = run(main())

    assert all(batches)
    assert len(batches) < sum(map(len, batches))
    assert text_of([event for batch in batches for event in batch]) == WORDS == turn.response.text


# Abort, decisions A56 and A57


def aborted(turn):
    return turn.response.metadata["uap"]["aborted"]


def test_abort_before_the_start(run):
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


def test_abort_during_text_gives_what_has_arrived(run):
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


def test_abort_during_tools_answers_every_call(run):
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


def test_an_aborted_turn_is_a_history_to_go_on_from(run, loopback):
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


def test_abort_from_another_task_wakes_the_listener(run):
    async def main():
        stream = agent(model=scripted([Reply("late", delay=30)])).stream("Go")
        asyncio.get_running_loop().call_later(0.05, stream.abort)
        events = await listen(stream)
        return events, await stream.turn

    events, turn = run(main())

    assert aborted(turn)
    assert kinds(events) in ([], ["step_start"])


def test_abort_from_another_thread_wakes_the_listener(run):
    async def main():
        stream = agent(model=scripted([Reply("late", delay=30)])).stream("Go")
        waiting = asyncio.to_thread(lambda: (time.sleep(0.05), stream.abort()))
        _, turn = await asyncio.gather(waiting, stream.turn)
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


def test_abort_drops_the_request(run, loopback):
    server = loopback(ServerReply(WORDS, gap=0.05))

    async def main():
        stream = agent(model=at(server)).stream("Go")
        async for event in stream:
            if event.upp and event.upp.type == "text_delta":
                stream.abort()
        return await stream.turn

    turn = run(main())

    assert aborted(turn)
    assert turn.response.text.startswith("one")
    assert server.requests[0].wait() == "dropped"


# Leaving early


def test_leaving_and_closing_drops_the_request(run, loopback):
    server = loopback(ServerReply(WORDS, gap=0.05))

    async def main():
        stream = agent(model=at(server)).stream("Go")
        async for event in stream:
            if event.upp and event.upp.type == "text_delta":
                break
        await stream.aclose()
        return await asyncio.to_thread(server.requests[0].wait)

    assert run(main()) == "dropped"


def test_async_with_stops_the_run(run, loopback):
    server = loopback(ServerReply(WORDS, gap=0.05))

    async def main():
        async with agent(model=at(server)).stream("Go") as stream:
            async for event in stream:
                if event.upp and event.upp.type == "text_delta":
                    break
        return await asyncio.to_thread(server.requests[0].wait)

    assert run(main()) == "dropped"


def test_async_with_around_a_whole_run_changes_nothing(run):
    async def main():
        async with agent(model=scripted([WORDS])).stream("Go") as stream:
            events = await listen(stream)
            turn = await stream.turn
        return events, turn, await stream.turn

    events, turn, again = run(main())

    assert text_of(events) == WORDS
    assert turn == again


def test_a_forgotten_stream_drops_the_request(run, loopback):
    server = loopback(ServerReply(WORDS, gap=0.05))

    async def main():
        stream = agent(model=at(server)).stream("Go")
        async for event in stream:
            if event.upp and event.upp.type == "text_delta":
                break
        del stream
        gc.collect()
        return await asyncio.to_thread(server.requests[0].wait)

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


def test_closing_cancels_tools(run):
    cancelled = []

    async def main():
        @tool
        async def wait(context: ToolContext) -> str:
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                cancelled.append(context.cancelled)
                raise
            return "late"

        async with agent(model=scripted([[call("wait")], "x"]), tools=[wait]).stream("Go") as stream:
            async for event in stream:
                if event.upp and event.upp.type == "tool_execution_start":
                    break
            await asyncio.sleep(0.01)
        await asyncio.sleep(0)

    run(main())

    assert cancelled == [True]


# Errors


@pytest.mark.parametrize("wait_for_turn_first", [False, True])
def test_an_error_in_the_middle_reaches_the_listener_and_the_turn(run, wait_for_turn_first):
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


def test_an_error_nobody_waits_for_makes_no_noise(run, capfd):
    async def main():
        stream = agent(model=scripted([ValueError("broken")])).stream("Go")
        with pytest.raises(ValueError, match="broken"):
            await listen(stream)
        del stream
        gc.collect()

    run(main())

    assert capfd.readouterr().err == ""


def test_an_error_event_of_the_vendor_breaks_the_stream(run, loopback):
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


def test_cancelling_the_listener_loses_no_event(run):
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


def test_cancelling_one_waiter_of_the_turn_leaves_the_run(run):
    async def main():
        stream = agent(model=scripted([Reply("late", delay=0.05)])).stream("Go")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(stream.turn, 0.01)
        return await stream.turn

    assert run(main()).response.text == "late"


# Without an event loop


def test_stream_sync_gives_the_same_events():
    helper = agent(model=scripted([[call("add", a=1, b=2)], WORDS]), tools=[add])

    stream = helper.stream_sync("Go")
    events = list(stream)

    assert text_of(events) == WORDS == stream.turn.response.text
    assert kinds(events)[0] == "step_start"


def test_stream_sync_inside_a_running_loop(run):
    async def cell():
        return list(agent(model=scripted([WORDS])).stream_sync("Go"))

    assert text_of(run(cell())) == WORDS


def test_stream_sync_can_be_aborted():
    stream = agent(model=scripted([Reply(WORDS, pace=0.01)])).stream_sync("Go")
    for event in stream:
        if event.upp and event.upp.type == "text_delta":
            stream.abort()

    assert aborted(stream.turn)


def test_stream_sync_raises_what_the_model_failed_with():
    stream = agent(model=scripted([ValueError("broken")])).stream_sync("Go")

    with pytest.raises(ValueError, match="broken"):
        list(stream)
    with pytest.raises(ValueError, match="broken"):
        _ = stream.turn


def test_leaving_stream_sync_drops_the_request(loopback):
    server = loopback(ServerReply(WORDS, gap=0.05))
    stream = agent(model=at(server)).stream_sync("Go")
    for event in stream:
        if event.upp and event.upp.type == "text_delta":
            break

    del stream, event
    gc.collect()

    assert server.requests[0].wait() == "dropped"


def test_stream_sync_is_a_context_manager(loopback):
    server = loopback(ServerReply(WORDS, gap=0.05))

    with agent(model=at(server)).stream_sync("Go") as stream:
        for event in stream:
            if event.upp and event.upp.type == "text_delta":
                break

    assert server.requests[0].wait() == "dropped"


def test_stream_refuses_what_the_model_cannot_do(run):
    with pytest.raises((UPPError, TypeError), match="input"):
        agent(model=scripted(["x"])).stream(42)

"""Streams of runs: events and the turn. UAP-1.0 §12, UPP-1.2 §11."""

import asyncio
import time

from agent_stream_support import WORDS, add, call, kinds, listen, text_of

from turntree import AgentStreamEvent, agent
from turntree.upp import Reply, StreamEvent, scripted, tool

# Events


def test_stream_events_cover_the_run_in_order(run):
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


def test_tool_events_contain_the_call_id(run):
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


def test_tool_start_event_arrives_while_the_tool_runs(run):
    async def main():
        gate = asyncio.Event()
        finished = []

        @tool
        async def wait() -> str:
            await asyncio.wait_for(gate.wait(), 30)
            finished.append(1)
            return "ok"

        async for event in agent(model=scripted([[call("wait")], "ok"]), tools=[wait]).stream("Go"):
            if event.upp and event.upp.type == "tool_execution_start":
                assert not finished
                gate.set()
        return finished

    assert run(main()) == [1]


def test_end_event_of_a_quick_tool_arrives_while_a_slow_tool_runs(run):
    async def main():
        gate = asyncio.Event()

        @tool
        async def slow() -> str:
            await asyncio.wait_for(gate.wait(), 30)
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


def test_scripted_events_are_passed_unchanged(run):
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


def test_turn_can_be_awaited_without_iterating(run):
    helper = agent(model=scripted([[call("add", a=1, b=2)], "3"]), tools=[add])

    async def main():
        stream = helper.stream("Go")
        return await stream.turn

    assert run(main()).response.text == "3"


def test_stream_itself_can_be_awaited(run):
    async def main():
        return await agent(model=scripted(["3"])).stream("Go")

    assert run(main()).response.text == "3"


def test_stream_turn_is_the_same_on_every_await(run):
    async def main():
        stream = agent(model=scripted(["3"])).stream("Go")
        await listen(stream)
        return await stream.turn, await stream.turn, await stream

    first, second, third = run(main())

    assert first == second == third


def test_several_tasks_can_await_the_turn(run):
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


def test_events_can_be_read_after_the_turn(run):
    async def main():
        stream = agent(model=scripted([WORDS])).stream("Go")
        await stream.turn
        return await listen(stream)

    assert text_of(run(main())) == WORDS


def test_stream_sends_no_request_until_it_is_read(run):
    model = scripted(["3"])

    async def main():
        stream = agent(model=model).stream("Go")
        # The test proves an absence, which has no event: it gives the stream time to send a request.
        await asyncio.sleep(0.02)
        before = len(model.requests)
        await stream.turn
        return before

    assert run(main()) == 0


def test_stream_created_outside_the_event_loop_runs_tools_on_the_loop(run):
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


def test_anext_of_the_stream_reads_events_that_a_loop_continues(run):
    async def main():
        stream = agent(model=scripted([WORDS])).stream("Go")
        first = [await anext(stream) for _ in range(3)]
        return first + await listen(stream)

    events = run(main())

    assert text_of(events) == WORDS
    assert kinds(events)[0] == "step_start"
    assert kinds(events)[-1] == "step_end"


def test_second_loop_after_a_break_yields_nothing(run):
    async def main():
        stream = agent(model=scripted([WORDS])).stream("Go")
        async for _ in stream:
            break
        return await listen(stream)

    assert run(main()) == []


def test_ended_stream_yields_no_more_events(run):
    async def main():
        stream = agent(model=scripted(["a"])).stream("Go")
        await listen(stream)
        return await listen(stream)

    assert run(main()) == []


def test_batches_contain_all_ready_events(run):
    async def main():
        stream = agent(model=scripted([WORDS])).stream("Go")
        batches = [batch async for batch in stream.batches()]
        return batches, await stream.turn

    batches, turn = run(main())

    assert all(batches)
    assert len(batches) < sum(map(len, batches))
    assert text_of([event for batch in batches for event in batch]) == WORDS == turn.response.text

"""A stream forwards events of sub-agents on request, and the progress of tools."""

import asyncio
import threading

import pytest
from support.sub_agent_family import call, calling, kept_places, listened, results

from turntree import SubAgentRun, ToolContext, agent, session
from turntree.upp import Tool, scripted, tool

# Events of sub-agents


def test_sub_agent_events_are_forwarded_only_on_request(run):
    helper = agent(model=scripted(["inner words"]))
    lead = agent(model=calling("helper", task="t"), tools=[helper.to_tool("helper")])

    async def main():
        return [event async for event in lead.stream("go")]

    events = run(main())
    assert all(event.sub_agent is None for event in events)
    assert {event.uap.agent_id for event in events if event.uap} == {lead.id}


def test_sub_agent_events_name_their_agent(run):
    leaf = agent(model=scripted(["leaf words"]))
    middle = agent(model=calling("leaf", task="t"), tools=[leaf.to_tool("leaf")])
    lead = agent(model=calling("middle", task="t"), tools=[middle.to_tool("middle")])

    events, turn = listened(lead, run)

    of = {None: lead.id, "middle": middle.id, "leaf": leaf.id}
    for event in events:
        run_of = event.sub_agent
        if event.uap:
            assert event.uap.agent_id == of[run_of.tool_name if run_of else None]
        if run_of:
            assert isinstance(run_of, SubAgentRun)
            assert run_of.agent_id == of[run_of.tool_name]
            assert run_of.depth == {"middle": 1, "leaf": 2}[run_of.tool_name]
    runs = {event.sub_agent.tool_name: event.sub_agent for event in events if event.sub_agent}
    assert runs["leaf"].parent_turn_id == runs["middle"].turn_id
    assert runs["middle"].parent_agent_id == lead.id
    order = [
        (event.sub_agent.tool_name if event.sub_agent else "lead", event.uap.type)
        for event in events
        if event.uap and event.uap.type in ("step_start", "action", "observation", "step_end")
    ]
    assert order.index(("lead", "action")) < order.index(("middle", "step_start")) < order.index(("leaf", "step_start"))
    assert (
        order.index(("leaf", "step_end"))
        < order.index(("middle", "observation"))
        < order.index(("lead", "observation"))
    )
    words = "".join(
        event.upp.delta["text"]
        for event in events
        if event.sub_agent == runs["leaf"] and event.upp and event.upp.type == "text_delta"
    )
    assert words == "leaf words"
    assert turn.response.text == "leaf words"


def test_sub_agent_events_are_forwarded_in_sessions_and_sync_streams(run):
    helper = agent(model=scripted(["inner"] * 3))
    lead = agent(model=calling("helper", task="t"), tools=[helper.to_tool("helper")])

    events, _ = listened(lead, run, session(lead).stream)
    assert any(event.sub_agent for event in events)
    assert any(event.uap and event.uap.type == "checkpoint" and event.sub_agent for event in events)
    assert any(event.sub_agent for event in lead.stream_sync("go", sub_agent_events=True))
    assert any(event.sub_agent for event in session(lead).stream_sync("go", sub_agent_events=True))
    assert not any(event.sub_agent for event in session(lead.with_(model=calling("none"))).stream_sync("go"))


def test_partial_structured_answer_ignores_sub_agents(run):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    helper = agent(model=scripted(['{"n": 1}']), structure=schema)

    def reply(request):
        return '{"n": 2}' if request.messages[-1].type == "tool_result" else call("helper", task="t")

    lead = agent(model=scripted(reply), structure=schema, tools=[helper.to_tool("helper")])

    async def main():
        stream = lead.stream("go", sub_agent_events=True)
        seen = [stream.partial async for _ in stream]
        return seen, (await stream.turn).data

    seen, data = run(main())
    assert data == {"n": 2}
    assert {"n": 1} not in seen


# Progress


def told(events):
    return [
        event.upp.delta["progress"] for event in events if event.upp and event.upp.type == "tool_execution_progress"
    ]


@pytest.mark.parametrize("kind", ["async", "thread", "inline"])
def test_tool_reports_progress(run, kind):
    def work(context: ToolContext) -> str:
        for done in range(3):
            context.report({"done": done, "of": 3})
        return "done"

    async def async_work(context: ToolContext) -> str:
        return work(context)

    made = Tool("work", "", {"type": "object"}, async_work if kind == "async" else work, inline=kind == "inline")
    lead = agent(model=calling("work"), tools=[made])

    async def main():
        return [event async for event in lead.stream("go")]

    events = run(main())
    assert told(events) == [{"done": done, "of": 3} for done in range(3)]
    kinds = [event.upp.type for event in events if event.upp and event.upp.type.startswith("tool_execution")]
    assert kinds == ["tool_execution_start", *["tool_execution_progress"] * 3, "tool_execution_end"]
    progress = next(event.upp for event in events if event.upp and event.upp.type == "tool_execution_progress")
    assert progress.index == 0
    assert progress.delta["toolName"] == "work"
    assert progress.delta["toolCallId"]
    assert isinstance(progress.delta["timestamp"], int)
    assert told(lead.stream_sync("go")) == told(events)


async def listen_for_progress(stream, waiting, heard):
    """Read a stream; return the results of its tools.

    Sets `waiting` when the reader waits for the event after the start of the tool, and `heard` on progress.
    """
    async for event in stream:
        if event.upp and event.upp.type == "tool_execution_start":
            asyncio.get_running_loop().call_soon(waiting.set)
        if event.upp and event.upp.type == "tool_execution_progress":
            heard.set()
    return [done.result for done in (await stream.turn).tool_executions]


def test_progress_event_arrives_while_the_tool_runs(run):
    """Progress wakes the reader although the run itself has emitted no event."""

    async def main():
        waiting, heard = asyncio.Event(), asyncio.Event()

        @tool
        async def work(context: ToolContext) -> str:
            await waiting.wait()
            context.report("half")
            await asyncio.wait_for(heard.wait(), 10)
            return "done"

        return await listen_for_progress(agent(model=calling("work"), tools=[work]).stream("go"), waiting, heard)

    assert run(main()) == ["done"]


def test_progress_event_from_a_thread_arrives_while_the_tool_runs(run):
    waiting, heard = threading.Event(), threading.Event()

    @tool
    def work(context: ToolContext) -> str:
        assert waiting.wait(10)
        context.report("half")
        assert heard.wait(10)
        return "done"

    async def main():
        return await listen_for_progress(agent(model=calling("work"), tools=[work]).stream("go"), waiting, heard)

    assert run(main()) == ["done"]


def test_progress_is_ignored_without_a_reader_and_after_the_call(run):
    place, places = kept_places()
    lead = agent(model=calling("place"), tools=[place])
    run(lead.run("go"))
    places[0].report("late")

    async def main():
        events = []
        async for event in lead.stream("go"):
            events.append(event)
            if places[1:]:
                places[1].report("late")
        return events

    events = run(main())
    ended = next(n for n, event in enumerate(events) if event.upp and event.upp.type == "tool_execution_end")
    assert told(events[ended:]) == []


def test_progress_that_is_not_json_is_rejected(run):
    @tool
    async def work(context: ToolContext) -> str:
        context.report({"what": object()})
        return "x"

    turn = run(agent(model=calling("work"), tools=[work]).run("go"))
    assert turn.tool_executions[0].is_error
    assert "progress" in results(turn)[0]


def test_excess_progress_reports_are_dropped_except_the_last(run):
    @tool(inline=True)
    def flood(context: ToolContext) -> str:
        for n in range(100_000):
            context.report(n)
        return "done"

    events = list(agent(model=calling("flood"), tools=[flood]).stream_sync("go"))

    assert told(events)[-1] == 99_999
    assert len(events) < 400


def test_sub_agent_progress_is_forwarded_with_its_events(run):
    @tool
    async def work(context: ToolContext) -> str:
        context.report(1)
        return "done"

    helper = agent(model=calling("work"), tools=[work])
    lead = agent(model=calling("helper", task="t"), tools=[helper.to_tool("helper")])

    events, _ = listened(lead, run)
    heard = [event for event in events if event.upp and event.upp.type == "tool_execution_progress"]
    assert [event.sub_agent.tool_name for event in heard] == ["helper"]
    assert told(lead.stream_sync("go")) == []

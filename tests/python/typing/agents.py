"""Static types of agents and streams. Checked, never run."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from typing_extensions import assert_type

from turntree import (
    Agent,
    AgentStrategy,
    AgentStream,
    AgentStreamEvent,
    ExecutionState,
    RunContext,
    SubAgentRun,
    ToolContext,
    UapEvent,
    agent,
)
from turntree.execution import LoopStrategy, loop
from turntree.upp import (
    AnyMessage,
    AssistantMessage,
    Image,
    Message,
    ModelReference,
    StreamEvent,
    Text,
    Thread,
    TokenUsage,
    Tool,
    ToolExecution,
    ToolUseStrategy,
    Turn,
    UserMessage,
    openai,
    scripted,
)


async def runs(helper: Agent, thread: Thread, messages: list[Message], said: list[UserMessage]) -> None:
    assert_type(await helper.run("hi"), Turn)
    assert_type(await helper.run(UserMessage("hi")), Turn)
    assert_type(await helper.run(Image.from_url("https://example.org/a.png")), Turn)
    assert_type(await helper.run(["see", Text("this")]), Turn)
    assert_type(await helper.run(thread, "hi"), Turn)
    assert_type(await helper.run(messages, "hi"), Turn)
    assert_type(await helper.run(said, "hi"), Turn)
    assert_type(helper.run_sync("hi"), Turn)
    assert_type(helper.run_sync(thread, "hi"), Turn)
    await helper.run(3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    await helper.run("hi", thread, 1)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


def turns(turn: Turn) -> None:
    assert_type(turn.response, AssistantMessage)
    assert_type(turn.response.text, str)
    assert_type(turn.messages, list[AnyMessage])
    assert_type(turn.tool_executions, list[ToolExecution])
    assert_type(turn.tool_executions[0].duration, int)
    assert_type(turn.tool_executions[0].approved, bool | None)
    assert_type(turn.usage, TokenUsage)
    assert_type(turn.usage.total_tokens, int)
    assert_type(turn.cycles, int)
    assert_type(turn.data, Any)
    turn.response = turn.response  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


async def streams(helper: Agent) -> None:
    stream = helper.stream("hi")
    assert_type(stream, AgentStream)
    async for event in stream:
        assert_type(event, AgentStreamEvent)
        assert_type(event.source, Literal["uap", "upp"])
        assert_type(event.uap, UapEvent | None)
        assert_type(event.upp, StreamEvent | None)
        if event.upp is not None:
            assert_type(event.upp.type, str)
            assert_type(event.upp.index, int)
            assert_type(event.upp.delta, dict[str, Any])
        if event.uap is not None:
            assert_type(event.uap.step, int)
            assert_type(event.uap.agent_id, str)
            assert_type(event.uap.data, dict[str, Any])
            match event.uap.type:
                case "step_start" | "step_end" | "reasoning" | "action" | "observation" | "checkpoint":
                    pass
    async for batch in stream.batches(64):
        assert_type(batch, list[AgentStreamEvent])
    iterator: AsyncIterator[AgentStreamEvent] = aiter(stream)
    assert_type(await anext(iterator), AgentStreamEvent)
    assert_type(await stream.turn, Turn)
    assert_type(await stream, Turn)
    stream.abort()
    async with helper.stream("hi") as kept:
        assert_type(kept, AgentStream)


def sync_streams(helper: Agent) -> None:
    stream = helper.stream_sync("hi")
    events: Iterator[AgentStreamEvent] = iter(stream)
    assert_type(next(events), AgentStreamEvent)
    for event in stream:
        assert_type(event, AgentStreamEvent)
    assert_type(stream.turn, Turn)


def options(look: Callable[[str], dict[str, float]]) -> None:
    helper = agent(
        model=openai("gpt-5"),
        params={"temperature": 0.2},
        config={"timeout": 3.0},
        execution=loop(max_iterations=3),
        tools=[look, lambda: 1],
        system="Be brief.",
        structure={"type": "object"},
        strategy=AgentStrategy(stop_condition=enough, on_error=lambda error, state: None),
        tool_strategy=ToolUseStrategy(max_iterations=2),
        name="helper",
    )
    assert_type(helper, Agent)
    assert_type(helper.id, str)
    assert_type(helper.name, str | None)
    assert_type(helper.model, ModelReference | None)
    assert_type(helper.tools, tuple[Tool[..., Any], ...])
    assert_type(helper.system, str | Sequence[Mapping[str, Any]] | Callable[[RunContext[Any]], Any] | None)
    assert_type(loop(), LoopStrategy)
    assert_type(helper.with_(system="Be long."), Agent)
    helper.with_(sytem="?")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    agent(model=scripted([]), strategy={"onStepStart": print})
    agent(model="openai:gpt-5")
    agent(model=5)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]


async def enough(state: ExecutionState) -> bool:
    assert_type(state.step, int)
    assert_type(state.messages, Sequence[Message])
    assert_type(state.metadata, dict[str, Any])
    return state.step > 3


def contexts(context: ToolContext) -> None:
    assert_type(context.agent_id, str)
    assert_type(context.parent_agent_id, str | None)
    assert_type(context.session_id, str | None)
    assert_type(context.cancelled, bool)


def sub_agents(helper: Agent, event: AgentStreamEvent, context: ToolContext) -> None:
    assert_type(helper.to_tool(), Tool[..., Any])
    assert_type(helper.to_tool("ask", "Asks.", {"type": "object"}), Tool[..., Any])
    assert_type(agent(tools=[helper, helper.to_tool()], max_sub_agent_depth=3), Agent[None, None])
    assert_type(event.sub_agent, SubAgentRun | None)
    if event.sub_agent is not None:
        assert_type(event.sub_agent.agent_id, str)
        assert_type(event.sub_agent.parent_turn_id, str | None)
        assert_type(event.sub_agent.depth, int)
    assert_type(context.depth, int)
    context.report({"done": 1, "of": [2, 3]})
    context.report(object())  # pyright: ignore[reportArgumentType]
    assert_type(helper.stream("hi", sub_agent_events=True), AgentStream)
    helper.to_tool(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def many(helper: Agent, words: list[str], later: AsyncIterator[UserMessage]) -> None:
    async for turn in helper.map(words, concurrency=3):
        assert_type(turn, Turn)
    async for turn in helper.map(later, return_exceptions=False):
        assert_type(turn, Turn)
    async for either in helper.map(words, return_exceptions=True):
        assert_type(either, Turn | Exception)
    helper.map(3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]

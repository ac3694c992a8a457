"""`llm()`: arguments, capability checks, the tool loop, streams. UPP-1.2 §10 and §11."""

import asyncio
import threading

import pytest

from turntree.testing import Fault, serve
from turntree.testing import Reply as ServerReply
from turntree.upp import (
    LLM,
    AssistantMessage,
    ErrorCode,
    Image,
    Reasoning,
    Reply,
    StreamEvent,
    Text,
    Thread,
    ToolResultMessage,
    ToolUseStrategy,
    UPPError,
    UserMessage,
    llm,
    openai,
    scripted,
    tool,
)

WORDS = "one two three four five six seven eight nine ten"
PNG = b"\x89PNG1234"


def call(name, /, **arguments):
    """A tool call as a script writes it."""
    return {"toolName": name, "arguments": arguments}


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def answering(*replies, **options):
    return llm(model=scripted(list(replies) or ["Hi."]), **options)


def kinds(messages):
    return [message.type for message in messages]


def refused(run, model, *arguments):
    """The message of the INVALID_REQUEST error, which must be the same for all four methods."""
    words = set()
    for start in (model.generate_sync, model.stream, model.stream_sync):
        with pytest.raises(UPPError) as caught:
            start(*arguments)
        assert caught.value.code is ErrorCode.INVALID_REQUEST
        words.add(caught.value.message)
    with pytest.raises(UPPError) as caught:
        run(model.generate(*arguments))
    words.add(caught.value.message)
    assert len(words) == 1
    return words.pop()


# Arguments


def test_llm_properties():
    model = scripted(["Hi."])

    made = llm(model=model, params={"temperature": 0}, system="Be brief.")

    assert isinstance(made, LLM)
    assert (made.model, made.params, made.system) == (model, {"temperature": 0}, "Be brief.")
    assert made.capabilities["tools"] is True
    with pytest.raises(TypeError, match="model must come from"):
        llm(model="gpt")


class Threadlike:
    def __init__(self, messages):
        self.messages = messages


@pytest.mark.parametrize(
    "history",
    [
        lambda messages: Thread(messages),
        lambda messages: Threadlike(list(messages)),
        lambda messages: list(messages),
        lambda messages: [message.model_dump(mode="json") for message in messages],
        lambda messages: [messages[0].model_dump(mode="json"), messages[1]],
    ],
    ids=["thread", "thread-like", "messages", "dicts", "mixed"],
)
def test_first_argument_can_be_a_history_and_is_not_modified(run, history):
    before = (UserMessage("Hello"), AssistantMessage("Hi."))
    given = history(before)
    made = answering("Fine.")

    turn = run(made.generate(given, "How are you?"))

    assert [message.id for message in made.model.requests[0].messages[:2]] == [message.id for message in before]
    assert kinds(turn.messages) == ["user", "assistant"]
    assert len(given.messages if hasattr(given, "messages") else given) == 2


def test_history_can_be_tool_results_without_further_input(run):
    made = answering("Fine.")
    results = ToolResultMessage([{"toolCallId": "1", "result": 3, "isError": False}])

    turn = run(made.generate([results.model_dump(mode="json")]))

    assert kinds(turn.messages) == ["assistant"]


def test_an_empty_list_is_an_empty_history(run):
    assert kinds(run(answering().generate([], "Hello")).messages) == ["user", "assistant"]


def test_adjacent_texts_and_blocks_become_one_message(run):
    own = UserMessage("own")
    image = Image.from_bytes(PNG, "image/png")

    turn = run(answering().generate("Look:", image, own, Text("And"), {"type": "text", "text": "this"}))

    assert kinds(turn.messages) == ["user", "user", "user", "assistant"]
    assert [len(message.content) for message in turn.messages[:3]] == [2, 1, 2]
    assert turn.messages[1].id == own.id


def test_message_dict_is_accepted_as_a_message(run):
    own = UserMessage("own")

    turn = run(answering().generate(own.model_dump(mode="json")))

    assert turn.messages[0].id == own.id


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ([],),
        (42,),
        (None,),
        ("Hello", 42),
        ("Hello", ["a", "b"]),
        ([Text("a"), Text("b")],),
        (["Hello"],),
        ([{"id": "", "type": "user", "timestamp": "2026-01-01T00:00:00Z", "content": []}],),
        ([{"id": "1", "type": "user", "timestamp": "yesterday", "content": []}],),
        ([UserMessage("Hello"), 42],),
        (Reasoning("Hm."),),
        ({"type": "text"},),
        ({"no": "block"},),
    ],
)
def test_invalid_input_is_rejected_before_a_request(run, arguments):
    made = answering()

    words = refused(run, made, *arguments)

    assert "Invalid inference input" in words or "the call has no messages" in words
    assert made.model.requests == []


# Capability checks


def test_unsupported_requests_are_rejected(run, loopback):
    deaf = openai("gpt", "completions", base_url=loopback("Hi.").base_url, api_key="key")
    assert not llm(model=deaf).capabilities["video_input"]
    block = {"type": "video", "mimeType": "video/mp4", "data": "MTIzNA=="}

    now = refused(run, llm(model=deaf), block)
    before = refused(run, llm(model=deaf), [UserMessage([block])], "Hello")

    assert "does not support video input" in now
    assert now == before


def test_duplicate_tool_names_are_rejected_at_construction():
    with pytest.raises(UPPError, match="two tools are named 'add'") as caught:
        answering(tools=[add, add])
    assert caught.value.code is ErrorCode.INVALID_REQUEST


# Tools


def test_tools_run_concurrently_and_results_are_in_call_order(run):
    fast_is_over = asyncio.Event()

    @tool
    async def slow(text: str) -> str:
        """Take time."""
        await asyncio.wait_for(fast_is_over.wait(), 10)
        return text

    @tool
    async def fast(text: str) -> str:
        """Take none."""
        fast_is_over.set()
        return text

    made = answering([call("slow", text="a"), call("fast", text="b"), call("owl")], "Done.", tools=[slow, fast])

    turn = run(made.generate("Go"))

    assert kinds(turn.messages) == ["user", "assistant", "tool_result", "assistant"]
    assert [result.result for result in turn.messages[2].results] == ["a", "b", "Tool 'owl' not found"]
    assert [record.tool_name for record in turn.tool_executions] == ["owl", "fast", "slow"]
    assert all(record.approved is None for record in turn.tool_executions)
    assert turn.cycles == 2


@pytest.mark.parametrize(("limit", "calls", "fails"), [(0, 1, False), (1, 2, True), (2, 3, True), (None, 11, True)])
def test_the_limit_counts_tool_rounds(run, limit, calls, fails):
    told = []
    model = scripted(lambda _request: [call("add", a=1, b=2)])
    strategy = ToolUseStrategy(max_iterations=limit, on_max_iterations=told.append)
    made = llm(model=model, tools=[add], tool_strategy=strategy)

    if not fails:
        turn = run(made.generate("Go"))
        assert turn.response.has_tool_calls
        assert told == []
    else:
        with pytest.raises(UPPError) as caught:
            run(made.generate("Go"))
        limit = 10 if limit is None else limit
        assert caught.value.code is ErrorCode.INVALID_REQUEST
        assert caught.value.message == f"Tool execution exceeded maximum iterations ({limit})"
        assert caught.value.partial.cycles == calls
        assert len(caught.value.partial.tool_executions) == limit
        assert told == [limit]
    assert len(model.requests) == calls


def test_tool_calls_end_the_turn_of_an_llm_without_tools(run):
    assert run(answering([call("add", a=1, b=2)]).generate("Go")).response.has_tool_calls


def test_exception_from_approval_is_raised_after_the_other_calls_end(run):
    refused, finished = threading.Event(), threading.Event()

    def approval(_params):
        refused.set()
        raise RuntimeError("nobody there")

    @tool(approval=approval)
    def guarded() -> str:
        """Never run."""
        return "run"

    @tool
    async def slow() -> str:
        """Take time."""
        assert await asyncio.to_thread(refused.wait, 10)
        await asyncio.sleep(0.02)  # longer than the approval takes to raise
        finished.set()
        return "done"

    with pytest.raises(RuntimeError, match="nobody there"):
        run(answering([call("guarded"), call("slow")], tools=[guarded, slow]).generate("Go"))
    assert finished.is_set()


def test_approval_receives_changed_arguments_and_can_deny(run):
    asked, errors = [], []

    @tool(approval=lambda params: asked.append(params))
    def guarded(a: int) -> int:
        """Never run."""
        return a

    strategy = {
        "on_before_call": lambda _tool, _params: {"proceed": True, "params": {"a": 7}},
        "on_error": lambda *about: errors.append(about),
    }
    turn = run(answering([call("guarded", a=1)], "Well.", tools=[guarded], tool_strategy=strategy).generate("Go"))

    assert asked == [{"a": 7}]
    record = turn.tool_executions[0]
    assert (record.result, record.approved, record.is_error) == ("Tool execution denied", False, True)
    assert record.arguments == {"a": 7}
    assert turn.messages[2].results[0].result == "Tool execution denied by approval handler"
    assert errors == []


@pytest.mark.parametrize("answer", [None, False, {"proceed": False}, {"proceed": False, "params": {}}])
def test_falsy_result_of_on_before_call_skips_the_call(run, answer):
    strategy = {"on_before_call": lambda _tool, _params: answer}

    turn = run(answering([call("add", a=1, b=2)], "Well.", tools=[add], tool_strategy=strategy).generate("Go"))

    record = turn.tool_executions[0]
    assert (record.result, record.is_error, record.approved) == ("Tool execution skipped", True, None)


def test_hooks_receive_the_effective_call_and_can_change_its_result(run):
    log = []

    async def before(tool, params):
        log.append(("before", tool.name, params))
        return {"proceed": True, "params": {"a": 2, "b": 2}}

    strategy = {
        "onToolCall": lambda tool, params: log.append(("call", tool.name, params)),
        "onBeforeCall": before,
        "onAfterCall": lambda tool, params, result: (log.append(("after", params, result)), {"result": None})[1],
    }
    made = answering([call("add", a=1, b=2)], "Done.", tools=[add], tool_strategy=strategy)

    async def main():
        stream = made.stream("Go")
        events = [event async for event in stream]
        return events, await stream.turn

    events, turn = run(main())

    assert log == [
        ("call", "add", {"a": 1, "b": 2}),
        ("before", "add", {"a": 1, "b": 2}),
        ("after", {"a": 2, "b": 2}, 4),
    ]
    record = turn.tool_executions[0]
    assert (record.arguments, record.result, record.is_error) == ({"a": 2, "b": 2}, None, False)
    assert turn.messages[2].results[0].result is None
    ended = next(event for event in events if event.type == "tool_execution_end")
    assert (ended.delta["result"], ended.delta["isError"], ended.index) == (None, False, 0)


@pytest.mark.parametrize("hook", ["on_tool_call", "on_before_call", "on_after_call"])
def test_exception_from_a_hook_fails_the_tool_call(run, hook):
    errors = []

    def broken(*_about):
        raise ValueError("no")

    strategy = {hook: broken, "on_error": lambda _tool, _params, error: errors.append(str(error))}

    turn = run(answering([call("add", a=1, b=2)], "Well.", tools=[add], tool_strategy=strategy).generate("Go"))

    assert (turn.tool_executions[0].result, turn.tool_executions[0].is_error) == ("no", True)
    assert errors == ["no"]


# Streams


def test_stream_yields_events_immediately_and_returns_the_turn(run):
    async def main():
        gate = asyncio.Event()

        @tool
        async def wait() -> str:
            """Wait."""
            await gate.wait()
            return "done"

        stream = answering([call("wait")], WORDS, tools=[wait]).stream("Go")
        events = []
        async for event in stream:
            events.append(event)
            if event.type == "tool_execution_start":
                gate.set()  # would hang if the event were delayed until the tool ends
        turns = [await stream.turn, await stream.turn, await stream]
        assert turns[0] == turns[1] == turns[2]
        assert await anext(stream, None) is None
        return events, turns[0]

    events, turn = run(main())

    assert all(isinstance(event, StreamEvent) for event in events)
    names = [event.type for event in events if not event.type.endswith("_delta")]
    assert names == [
        "message_start",
        "message_stop",
        "tool_execution_start",
        "tool_execution_end",
        "message_start",
        "message_stop",
    ]
    assert "".join(event.delta["text"] for event in events if event.type == "text_delta") == WORDS
    assert turn.response.text == WORDS


def test_stream_starts_when_read_and_its_turn_can_be_awaited_alone(run):
    made = answering(WORDS)

    async def main():
        stream = made.stream("Go")
        await asyncio.sleep(0)
        assert made.model.requests == []
        return await stream.turn

    assert run(main()).response.text == WORDS


def test_batches_are_lists_of_events(run):
    async def main():
        stream = answering(WORDS).stream("Go")
        batches = [batch async for batch in stream.batches(4)]
        return batches, await stream.turn

    batches, turn = run(main())

    assert all(1 <= len(batch) <= 4 for batch in batches)
    assert turn.response.text == WORDS


async def cancelled(stream):
    """The CANCELLED error of an aborted stream's turn, which is awaited twice."""
    for _ in range(2):
        with pytest.raises(UPPError) as caught:
            await asyncio.wait_for(_turn(stream), 20)
        assert caught.value.code is ErrorCode.CANCELLED
    return caught.value


async def _turn(stream):
    return await stream.turn


@pytest.mark.parametrize("pace", [0.0, 0.005])
def test_leaving_a_stream_early_cancels_it(run, pace):
    async def main():
        stream = answering(Reply(WORDS, pace=pace)).stream("Go")
        async for event in stream:
            if event.type == "text_delta":
                break
        return await cancelled(stream)

    error = run(main())

    assert error.partial.messages[0].text == "Go"


def test_leaving_a_stream_early_closes_the_http_request(run, loopback):
    server = loopback([ServerReply(WORDS, gap=30)])
    model = openai("gpt", "completions", base_url=server.base_url, api_key="key")

    async def main():
        stream = llm(model=model).stream("Go")
        async for _event in stream:
            break
        await cancelled(stream)
        return await asyncio.to_thread(server.requests[0].wait, 20)

    assert run(main()) == "dropped"


@pytest.mark.parametrize("pace", [0.0, 0.005])
def test_abort_raises_from_the_next_event_and_the_turn(run, pace):
    async def main():
        stream = answering(Reply(WORDS, pace=pace)).stream("Go")
        await anext(stream)
        await anext(stream)
        stream.abort()
        with pytest.raises(UPPError) as caught:
            await anext(stream)
        assert caught.value.code is ErrorCode.CANCELLED
        assert await anext(stream, None) is None
        await cancelled(stream)

        unsent = answering()
        early = unsent.stream("Go")
        early.abort()
        await cancelled(early)
        assert unsent.model.requests == []

        late = answering().stream("Go")
        turn = await late.turn
        late.abort()
        assert await late.turn == turn

    run(main())


def test_an_abort_in_a_tool_round_cancels_the_tools(run):
    async def main():
        started, log = asyncio.Event(), []

        @tool
        async def never() -> str:
            """Never end."""
            started.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                log.append("cancelled")
                raise
            return ""

        stream = answering([call("never")], "no", tools=[never]).stream("Go")
        waiting = asyncio.ensure_future(_turn(stream))
        await started.wait()
        stream.abort()
        with pytest.raises(UPPError) as caught:
            await asyncio.wait_for(waiting, 20)
        await asyncio.sleep(0)
        assert caught.value.code is ErrorCode.CANCELLED
        assert kinds(caught.value.partial.messages)[:3] == ["user", "assistant", "tool_result"]
        assert log == ["cancelled"]

    run(main())


def test_failure_after_the_first_byte_is_raised_by_iteration_and_turn(run):
    broken = [StreamEvent("text_delta", 0, {"text": "one"}), UPPError("down", "PROVIDER_ERROR")]

    async def main():
        stream = answering(broken).stream("Go")
        seen = []
        with pytest.raises(UPPError, match="down"):
            async for event in stream:
                seen.append(event.type)
        with pytest.raises(UPPError, match="down"):
            await stream.turn
        return seen

    assert run(main()) == ["message_start", "text_delta"]


def test_broken_connection_raises_an_error(run):
    with serve([ServerReply(WORDS, fault=Fault(error_after=3))]) as server:
        model = openai("gpt", "completions", base_url=server.base_url, api_key="key")

        async def main():
            stream = llm(model=model).stream("Go")
            with pytest.raises(UPPError) as caught:
                async for _event in stream:
                    pass
            assert caught.value.code is not ErrorCode.CANCELLED
            with pytest.raises(UPPError) as again:
                await stream.turn
            assert again.value.code is caught.value.code

        run(main())


# Sync methods


def test_generate_sync_and_stream_sync_run_tools_and_can_be_left_early():
    made = answering(
        [call("add", a=1, b=2)], "It is 3.", [call("add", a=1, b=2)], "It is 3.", WORDS, WORDS, tools=[add]
    )

    turn = made.generate_sync("1 + 2?")
    stream = made.stream_sync("1 + 2?")
    events = [event.type for event in stream]

    assert turn.response.text == stream.turn.response.text == "It is 3."
    assert events.count("tool_execution_end") == 1

    left = made.stream_sync("Go")
    for _event in left:
        break
    with made.stream_sync("Go") as closed:
        next(closed)
    for stream in (left, closed):
        with pytest.raises(UPPError) as caught:
            _ = stream.turn
        assert caught.value.code is ErrorCode.CANCELLED


def test_many_concurrent_calls(run):
    made = llm(model=scripted(lambda request: Reply(request.messages[-1].text, delay=0.005)))

    async def main():
        return await asyncio.gather(*(made.generate(f"{number}") for number in range(50)))

    assert [turn.response.text for turn in run(main())] == [f"{number}" for number in range(50)]


def test_a_model_can_be_given_by_its_name(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "key")

    model = llm(model="openai:gpt-5")

    assert (model.model.provider, model.model.model_id) == ("openai", "gpt-5")
    with pytest.raises(ValueError, match="unknown provider 'nobody'"):
        llm(model="nobody:gpt-5")

"""Spans, metrics and records of runs. OpenTelemetry's semantic conventions for generative AI; UAP-1.0 §8.4."""

import asyncio
import json

import pytest
from opentelemetry import trace as otel
from opentelemetry.trace import SpanKind, StatusCode
from tracing_support import Tracing, add, adder, call

from turntree import agent, session, tracing
from turntree.testing import ErrorReply
from turntree.upp import UPPError, embedding, image, llm, openai, scripted, tool

VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


ONE_ROUND = [
    [
        "invoke_agent adder",
        ["step 1", ["chat scripted"], ["execute_tool add"]],
        ["step 2", ["chat scripted"]],
    ]
]


# Nesting


def test_run_creates_a_tree_of_spans(run, traced):
    turn = run(adder().run("1 + 2?"))

    assert turn.response.text == "It is 3."
    assert traced.tree() == ONE_ROUND


def test_stream_creates_the_same_span_tree(run, traced):
    async def main():
        stream = adder().stream("1 + 2?")
        async for _ in stream:
            pass
        return await stream.turn

    run(main())

    assert traced.tree() == ONE_ROUND
    assert traced.spans[2].attributes["gen_ai.response.time_to_first_chunk"] >= 0
    assert traced.spans[2].attributes["gen_ai.request.stream"] is True


@pytest.mark.parametrize("way", ["run_sync", "stream_sync"])
def test_run_sync_creates_the_same_span_tree(traced, way):
    if way == "run_sync":
        adder().run_sync("1 + 2?")
    else:
        assert len(list(adder().stream_sync("1 + 2?"))) > 4

    assert traced.tree() == ONE_ROUND


def test_spans_of_session_runs_contain_the_session_id(run, traced):
    replies = [[call("add", a=1, b=2)], "It is 3."] * 2
    talk = session(agent(model=scripted(replies), tools=[add], name="adder"))

    async def main():
        await talk.run("1 + 2?")
        async for _ in talk.stream("And now?"):
            pass

    run(main())

    assert [span.name for span in traced.spans if span.parent is None] == ["invoke_agent adder"] * 2
    ids = [span.attributes["gen_ai.conversation.id"] for span in traced.spans if "gen_ai.agent.id" in span.attributes]
    assert ids == [talk.id] * 2
    assert {span.attributes.get("gen_ai.conversation.id") for span in traced.spans if "chat" in span.name} == {talk.id}


def test_run_span_is_a_child_of_the_callers_span(run, traced):
    async def main():
        with traced.tracer.start_as_current_span("request"):
            await adder().run("1 + 2?")
            assert otel.get_current_span().name == "request"

    run(main())

    assert traced.tree() == [["request", *ONE_ROUND]]


def test_stream_span_is_a_child_of_the_span_that_created_the_stream(run, traced):
    async def main():
        with traced.tracer.start_as_current_span("request"):
            stream = adder().stream("1 + 2?")
        with traced.tracer.start_as_current_span("reader"):
            async for _ in stream:
                pass

    run(main())

    assert traced.tree() == [["request", *ONE_ROUND], ["reader"]]


@pytest.mark.parametrize("kind", ["async", "thread", "inline", "lambda"])
def test_spans_started_by_a_tool_are_children_of_the_tool_span(run, traced, kind):
    def spans():
        with traced.tracer.start_as_current_span("query"):
            return "rows"

    async def async_spans():
        with traced.tracer.start_as_current_span("query"):
            await asyncio.sleep(0)
            return "rows"

    functions = {"async": async_spans, "thread": spans, "inline": spans, "lambda": lambda: async_spans()}
    function = functions[kind]
    function.__name__ = "look"
    look = tool(name="look", description="Look.", inline=kind == "inline")(function)

    run(agent(model=scripted([[call("look")], "Done."]), tools=[look]).run("Go"))

    assert traced.tree()[0][1] == ["step 1", ["chat scripted"], ["execute_tool look", ["query"]]]


@pytest.mark.parametrize("kind", ["async", "thread"])
def test_agent_run_by_a_tool_is_a_child_of_the_tool_span(run, traced, kind):
    if kind == "async":

        @tool
        async def delegate() -> str:
            """Ask somebody."""
            return (await adder().run("1 + 2?")).response.text
    else:

        @tool
        def delegate() -> str:
            """Ask somebody."""
            return adder().run_sync("1 + 2?").response.text

    boss = agent(model=scripted([[call("delegate")], "Done."]), tools=[delegate], name="boss")
    run(boss.run("Go"))

    assert traced.tree() == [
        [
            "invoke_agent boss",
            ["step 1", ["chat scripted"], ["execute_tool delegate", *ONE_ROUND]],
            ["step 2", ["chat scripted"]],
        ]
    ]


def test_concurrent_runs_have_separate_span_trees(run, traced):
    waiting = asyncio.Event

    async def main():
        ready = waiting()

        @tool
        async def wait(name: str) -> str:
            """Wait."""
            with traced.tracer.start_as_current_span(f"in {name}"):
                if name == "7":
                    ready.set()
                await ready.wait()
            return name

        async def one(number):
            name = str(number)
            model = scripted([[call("wait", name=name), call("wait", name=name)], "Done."])
            with traced.tracer.start_as_current_span(f"request {name}"):
                await agent(model=model, tools=[wait], name=name).run("Go")

        await asyncio.gather(*(one(number) for number in range(8)))

    run(main())

    for tree in traced.tree():
        name = tree[0].removeprefix("request ")
        waits = [["execute_tool wait", [f"in {name}"]]] * 2
        assert tree[1] == [
            f"invoke_agent {name}",
            ["step 1", ["chat scripted"], *waits],
            ["step 2", ["chat scripted"]],
        ]
    assert len(traced.tree()) == 8


def test_spans_started_by_hooks_are_children_of_the_run_span(run, traced):
    def hook(step, state):
        with traced.tracer.start_as_current_span("hook"):
            pass

    run(agent(model=scripted(["Hi."]), name="a", strategy={"on_step_start": hook}).run("Go"))

    assert traced.tree() == [["invoke_agent a", ["step 1", ["chat scripted"]], ["hook"]]]


def test_llm_call_creates_one_span_and_with_tools_a_tree(run, traced):
    run(llm(model=scripted(["Hi."])).generate("Hello"))
    assert traced.tree() == [["chat scripted"]]

    traced.exporter.clear()
    run(llm(model=scripted([[call("add", a=1, b=2)], "3"]), tools=[add]).generate("1 + 2?"))
    assert traced.tree() == [
        ["generate scripted", ["chat scripted"], ["execute_tool add"], ["chat scripted"]],
    ]


def test_embedding_and_image_calls_create_spans(run, traced, loopback):
    server = loopback(["", "", ErrorReply(400)], strict=False)
    to = {"base_url": server.base_url, "api_key": "key"}

    async def main():
        with traced.tracer.start_as_current_span("request"):
            await embedding(model=openai("small", **to)).embed(["one"])
            await image(model=openai("gpt-image-1", **to)).generate("a fox")

    run(main())
    with pytest.raises(UPPError):
        embedding(model=openai("small", **to)).embed_sync(["one"])

    assert traced.tree() == [["request", ["embeddings small"], ["generate_content gpt-image-1"]], ["embeddings small"]]
    first, picture = traced.spans[1], traced.spans[2]
    assert first.kind is SpanKind.CLIENT
    assert first.attributes["gen_ai.operation.name"] == "embeddings"
    assert first.attributes["gen_ai.usage.input_tokens"] > 0
    assert picture.attributes["gen_ai.output.type"] == "image"
    assert traced.spans[3].attributes["error.type"] == "INVALID_REQUEST"


# Attributes


def test_attributes_follow_the_semantic_conventions(run, traced):
    helper = adder(params={"temperature": 0.5, "max_tokens": 100, "stop": ["END"]})
    turn = run(helper.run("1 + 2?"))

    whole, step, chat, execution, _, last = traced.spans
    assert whole.kind is SpanKind.INTERNAL
    assert whole.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert whole.attributes["gen_ai.agent.id"] == helper.id
    assert whole.attributes["gen_ai.agent.name"] == "adder"
    assert whole.attributes["gen_ai.usage.input_tokens"] == turn.usage.input_tokens
    assert whole.attributes["gen_ai.usage.output_tokens"] == turn.usage.output_tokens
    assert step.attributes["turntree.step.number"] == 1
    assert chat.kind is SpanKind.CLIENT
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "scripted",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 100,
        "gen_ai.request.stop_sequences": ("END",),
        "gen_ai.response.finish_reasons": ("tool_call",),
    }
    assert expected.items() <= dict(chat.attributes).items()
    assert chat.attributes["gen_ai.usage.input_tokens"] > 0
    assert last.attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert execution.kind is SpanKind.INTERNAL
    expected = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": "Add two numbers.",
        "gen_ai.tool.call.id": turn.tool_executions[0].tool_call_id,
    }
    assert expected.items() <= dict(execution.attributes).items()
    assert {span.status.status_code for span in traced.spans} == {StatusCode.UNSET}


def test_span_names_the_model_that_answered(run, traced, loopback):
    server = loopback(["Hi."])
    model = openai("gpt-5", "completions", base_url=server.base_url, api_key="key")
    run(agent(model=model).run("Hello"))

    chat = traced.named("chat gpt-5")
    assert chat.attributes["gen_ai.provider.name"] == "openai"
    assert isinstance(chat.attributes["gen_ai.response.model"], str)
    assert chat.attributes["gen_ai.response.id"]


def test_message_content_is_not_recorded_by_default(run, traced):
    @tool
    async def secret(word: str) -> str:
        """Keep a word."""
        return f"kept {word}"

    model = scripted([[call("secret", word="sesame")], "The cave is open."])
    run(agent(model=model, tools=[secret], system="Guard the cave.").run("Open the cave"))

    recorded = json.dumps([dict(span.attributes) for span in traced.spans])
    for said in ("sesame", "cave", "Guard", "Open"):
        assert said not in recorded


@pytest.mark.parametrize("way", ["argument", "variable"])
def test_message_content_is_recorded_on_request(run, way, monkeypatch):
    watched = Tracing()
    if way == "variable":
        monkeypatch.setenv(VARIABLE, "true")
    tracing.instrument(include_content=True if way == "argument" else None, tracer_provider=watched.provider)
    run(adder(system="Add.").run("1 + 2?"))

    whole, _, first, execution, _, last = watched.spans
    question = {"role": "user", "parts": [{"type": "text", "content": "1 + 2?"}]}
    assert json.loads(whole.attributes["gen_ai.input.messages"]) == [question]
    assert json.loads(whole.attributes["gen_ai.output.messages"]) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "It is 3."}], "finish_reason": "stop"}
    ]
    assert json.loads(first.attributes["gen_ai.system_instructions"]) == [{"type": "text", "content": "Add."}]
    assert json.loads(first.attributes["gen_ai.tool.definitions"])[0]["name"] == "add"
    (answer,) = json.loads(first.attributes["gen_ai.output.messages"])
    wish = answer["parts"][0]
    assert answer["finish_reason"] == "tool_call"
    assert (wish["type"], wish["name"], wish["arguments"]) == ("tool_call", "add", {"a": 1, "b": 2})
    sent = json.loads(last.attributes["gen_ai.input.messages"])
    assert [message["role"] for message in sent] == ["user", "assistant", "tool"]
    assert sent[2]["parts"] == [{"type": "tool_call_response", "id": wish["id"], "response": 3}]
    assert json.loads(execution.attributes["gen_ai.tool.call.arguments"]) == {"a": 1, "b": 2}
    assert execution.attributes["gen_ai.tool.call.result"] == "3"


def test_media_is_recorded_by_type_and_size_only(run):
    from turntree.upp import Image, Text

    watched = Tracing()
    tracing.instrument(include_content=True, tracer_provider=watched.provider)
    picture = Image.from_bytes(b"\x89PNG" + bytes(96), "image/png")
    run(agent(model=scripted(["A cat."])).run([Text("What?"), picture]))

    (message,) = json.loads(watched.named("chat scripted").attributes["gen_ai.input.messages"])
    assert message["parts"] == [
        {"type": "text", "content": "What?"},
        {"type": "image", "mime_type": "image/png", "bytes": 100},
    ]


def test_the_span_of_a_request_has_the_system_prompt_that_a_function_returned(run):
    watched = Tracing()
    tracing.instrument(include_content=True, tracer_provider=watched.provider)
    run(adder(system=lambda context: f"Add at step {context.step} for {context.deps}.").run("1 + 2?", deps="Ann"))

    prompts = [span.attributes.get("gen_ai.system_instructions") for span in watched.spans]
    texts = [json.loads(prompt)[0]["content"] for prompt in prompts if prompt]
    assert texts == ["Add at step 1 for Ann.", "Add at step 2 for Ann."]

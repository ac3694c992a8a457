"""Spans, metrics and records of runs. OpenTelemetry's semantic conventions for generative AI; UAP-1.0 §8.4."""

import asyncio
import gc
import json
import logging
import subprocess
import sys
import textwrap

import pytest
from opentelemetry import context as otel_context
from opentelemetry import trace as otel
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from turntree import agent, session, tracing
from turntree.testing import ErrorReply
from turntree.upp import ErrorCode, ExponentialBackoff, UPPError, embedding, image, llm, openai, scripted, tool

VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


def call(name, /, **arguments):
    """A tool call as a script writes it."""
    return {"toolName": name, "arguments": arguments}


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Tracing:
    """A provider of its own, and what it was told."""

    def __init__(self):
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("application")

    @property
    def spans(self):
        """The spans that have ended, in the order of their beginnings."""
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time)

    def named(self, name):
        """The one span of this name."""
        (span,) = [span for span in self.spans if span.name == name]
        return span

    def tree(self):
        """The spans as nested lists of names."""

        def below(parent):
            children = [span for span in self.spans if (span.parent.span_id if span.parent else None) == parent]
            return [[span.name, *below(span.context.span_id)] for span in children]

        return below(None)

    def statuses(self):
        return {span.name: span.status.status_code for span in self.spans}


@pytest.fixture(autouse=True)
def untouched():
    """Every test starts and ends with what an import gives."""
    yield
    tracing.instrument()


@pytest.fixture(autouse=True)
def no_complaints(caplog):
    """OpenTelemetry logs what went wrong with contexts and spans that end twice."""
    yield
    records = [record for record in caplog.records if record.name.startswith("opentelemetry")]
    assert [record.getMessage() for record in records if record.levelno >= logging.WARNING] == []


@pytest.fixture
def traced():
    watched = Tracing()
    tracing.instrument(tracer_provider=watched.provider)
    return watched


ONE_ROUND = [
    [
        "invoke_agent adder",
        ["step 1", ["chat scripted"], ["execute_tool add"]],
        ["step 2", ["chat scripted"]],
    ]
]


def adder(**options):
    return agent(model=scripted([[call("add", a=1, b=2)], "It is 3."]), tools=[add], name="adder", **options)


# Nesting


def test_a_run_is_a_tree_of_spans(run, traced):
    turn = run(adder().run("1 + 2?"))

    assert turn.response.text == "It is 3."
    assert traced.tree() == ONE_ROUND


def test_a_stream_is_the_same_tree(run, traced):
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
def test_without_an_event_loop_it_is_the_same_tree(traced, way):
    if way == "run_sync":
        adder().run_sync("1 + 2?")
    else:
        assert len(list(adder().stream_sync("1 + 2?"))) > 4

    assert traced.tree() == ONE_ROUND


def test_runs_of_a_session_carry_its_id(run, traced):
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


def test_a_run_belongs_to_the_span_of_its_caller(run, traced):
    async def main():
        with traced.tracer.start_as_current_span("request"):
            await adder().run("1 + 2?")
            assert otel.get_current_span().name == "request"

    run(main())

    assert traced.tree() == [["request", *ONE_ROUND]]


def test_a_stream_belongs_to_where_it_was_asked_for(run, traced):
    async def main():
        with traced.tracer.start_as_current_span("request"):
            stream = adder().stream("1 + 2?")
        with traced.tracer.start_as_current_span("reader"):
            async for _ in stream:
                pass

    run(main())

    assert traced.tree() == [["request", *ONE_ROUND], ["reader"]]


@pytest.mark.parametrize("kind", ["async", "thread", "inline", "lambda"])
def test_what_a_tool_starts_belongs_to_its_span(run, traced, kind):
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
def test_an_agent_that_a_tool_runs_belongs_to_the_tool(run, traced, kind):
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


def test_runs_at_the_same_time_keep_apart(run, traced):
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


def test_hooks_belong_to_the_run(run, traced):
    def hook(step, state):
        with traced.tracer.start_as_current_span("hook"):
            pass

    run(agent(model=scripted(["Hi."]), name="a", strategy={"on_step_start": hook}).run("Go"))

    assert traced.tree() == [["invoke_agent a", ["step 1", ["chat scripted"]], ["hook"]]]


def test_a_bare_model_is_one_span_and_with_tools_a_tree(run, traced):
    run(llm(model=scripted(["Hi."])).generate("Hello"))
    assert traced.tree() == [["chat scripted"]]

    traced.exporter.clear()
    run(llm(model=scripted([[call("add", a=1, b=2)], "3"]), tools=[add]).generate("1 + 2?"))
    assert traced.tree() == [
        ["generate scripted", ["chat scripted"], ["execute_tool add"], ["chat scripted"]],
    ]


def test_vectors_and_pictures_are_spans(run, traced, loopback):
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


def test_attributes_keep_to_the_conventions(run, traced):
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


def test_the_model_that_answered_is_named(run, traced, loopback):
    server = loopback(["Hi."])
    model = openai("gpt-5", "completions", base_url=server.base_url, api_key="key")
    run(agent(model=model).run("Hello"))

    chat = traced.named("chat gpt-5")
    assert chat.attributes["gen_ai.provider.name"] == "openai"
    assert isinstance(chat.attributes["gen_ai.response.model"], str)
    assert chat.attributes["gen_ai.response.id"]


def test_nothing_that_is_said_is_recorded_unasked(run, traced):
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
def test_what_is_said_is_recorded_when_asked_for(run, way, monkeypatch):
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


def test_media_are_named_and_not_repeated(run):
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


# Ends


def test_a_failing_tool_fails_its_span_alone(run, traced):
    @tool
    async def broken() -> str:
        """Break."""
        raise LookupError("no such row")

    run(agent(model=scripted([[call("broken")], "Sorry."]), tools=[broken], name="a").run("Go"))

    failed = traced.named("execute_tool broken")
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.attributes["error.type"] == "LookupError"
    assert [event.name for event in failed.events] == ["exception"]
    assert failed.events[0].attributes["exception.message"] == "no such row"
    others = {name: status for name, status in traced.statuses().items() if name != failed.name}
    assert set(others.values()) == {StatusCode.UNSET}


def test_a_tool_that_is_not_there_and_one_that_is_denied_fail_their_spans(run, traced):
    guarded = tool(name="guarded", approval=lambda arguments: False)(lambda: "never")
    model = scripted([[call("guarded"), call("nobody")], "Sorry."])
    run(agent(model=model, tools=[guarded]).run("Go"))

    denied, missing = traced.named("execute_tool guarded"), traced.named("execute_tool nobody")
    assert denied.attributes["error.type"] == "tool_denied"
    assert denied.attributes["turntree.tool.approved"] is False
    assert missing.attributes["error.type"] == "tool_error"
    assert {denied.status.status_code, missing.status.status_code} == {StatusCode.ERROR}


def test_a_failing_model_fails_every_span_around_it(run, traced):
    model = scripted([UPPError("Too fast", code=ErrorCode.RATE_LIMITED, provider="scripted")])
    with pytest.raises(UPPError):
        run(agent(model=model, name="a").run("Go"))

    assert [(span.name, span.attributes["error.type"]) for span in traced.spans] == [
        ("invoke_agent a", "RATE_LIMITED"),
        ("step 1", "RATE_LIMITED"),
        ("chat scripted", "RATE_LIMITED"),
    ]
    assert set(traced.statuses().values()) == {StatusCode.ERROR}


def test_a_failing_hook_fails_the_run_with_its_own_type(run, traced):
    def hook(step, state):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(agent(model=scripted(["Hi."]), name="a", strategy={"on_step_start": hook}).run("Go"))

    assert traced.named("invoke_agent a").attributes["error.type"] == "ZeroDivisionError"
    assert set(traced.statuses().values()) == {StatusCode.ERROR}


def test_a_run_that_recovered_is_no_failure(run, traced):
    saved = run(agent(model=scripted(["Hi."])).run("Go"))
    traced.exporter.clear()
    model = scripted([UPPError("Down", code=ErrorCode.PROVIDER_ERROR, provider="scripted")])
    run(agent(model=model, name="a", strategy={"on_error": lambda error, state: saved}).run("Go"))

    statuses = traced.statuses()
    assert statuses["chat scripted"] is StatusCode.ERROR
    assert statuses["invoke_agent a"] is StatusCode.UNSET


def test_retries_are_within_one_span(run, traced, loopback):
    server = loopback([ErrorReply(500), ErrorReply(500), "Hi."])
    retry = ExponentialBackoff(base_delay=0.001, max_attempts=5)
    model = openai("gpt", "completions", base_url=server.base_url, api_key="key", retry_strategy=retry)
    turn = run(agent(model=model, name="a").run("Go"))

    assert turn.response.text == "Hi."
    assert len(server.requests) == 3
    assert traced.tree() == [["invoke_agent a", ["step 1", ["chat gpt"]]]]
    assert set(traced.statuses().values()) == {StatusCode.UNSET}


def waiting_agent():
    @tool
    async def wait() -> str:
        """Wait."""
        await asyncio.sleep(30)
        return "late"

    return agent(model=scripted([[call("wait")], "Done."]), tools=[wait], name="a")


ALL_OF_IT = ["invoke_agent a", "step 1", "chat scripted", "execute_tool wait"]


def test_a_cancelled_run_ends_all_its_spans(run, traced):
    async def main():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(waiting_agent().run("Go"), 0.02)

    run(main())

    assert [span.name for span in traced.spans] == ALL_OF_IT
    cancelled = [span.attributes.get("error.type") for span in traced.spans]
    assert cancelled == ["CANCELLED", "CANCELLED", None, "CANCELLED"]


def test_an_aborted_stream_ends_all_its_spans_and_nothing_failed(run, traced):
    async def main():
        stream = waiting_agent().stream("Go")
        async for event in stream:
            if event.upp and event.upp.type == "tool_execution_start":
                stream.abort()
        return await stream.turn

    turn = run(main())

    assert turn.response.metadata["uap"]["aborted"] is True
    assert [span.name for span in traced.spans] == ALL_OF_IT
    assert set(traced.statuses().values()) == {StatusCode.UNSET}
    aborted = [span.attributes.get("turntree.aborted") for span in traced.spans]
    assert aborted == [True, True, None, True]


@pytest.mark.parametrize("way", ["aclose", "forget", "context manager"])
def test_a_stream_that_is_left_early_ends_all_its_spans(run, traced, way):
    async def main():
        stream = waiting_agent().stream("Go")

        async def read(stream):
            async for event in stream:
                if event.upp and event.upp.type == "tool_execution_start":
                    return

        if way == "context manager":
            async with stream:
                await read(stream)
        else:
            await read(stream)
        if way == "aclose":
            await stream.aclose()
        del stream
        gc.collect()

    run(main())

    assert sorted(span.name for span in traced.spans) == sorted(ALL_OF_IT)
    assert traced.named("invoke_agent a").attributes["error.type"] == "CANCELLED"


def test_a_broken_exporter_does_not_break_the_run(run, monkeypatch):
    class Broken(TracerProvider):
        def get_tracer(self, *arguments, **options):
            class Tracer:
                def start_span(self, *arguments):
                    raise OSError("the collector is on fire")

            return Tracer()

    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    tracing.instrument(tracer_provider=Broken())

    assert run(adder().run("1 + 2?")).response.text == "It is 3."
    assert told
    assert {str(failure.exc_value) for failure in told} == {"the collector is on fire"}


def test_a_run_that_is_not_sampled_hands_on_its_context(run):
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

    provider = TracerProvider(sampler=ALWAYS_OFF)
    tracing.instrument(tracer_provider=provider)
    seen = []

    @tool
    async def look() -> str:
        """Look."""
        seen.append(otel.get_current_span().get_span_context())
        return "ok"

    run(agent(model=scripted([[call("look")], "Done."]), tools=[look]).run("Go"))

    assert seen[0].is_valid
    assert not seen[0].trace_flags.sampled


# Metrics


def test_tokens_and_durations_are_measured(run):
    reader = InMemoryMetricReader()
    tracing.instrument(meter_provider=MeterProvider([reader]))
    turn = run(adder().run("1 + 2?"))
    with pytest.raises(UPPError):
        run(agent(model=scripted([])).run("Go"))

    (resource,) = reader.get_metrics_data().resource_metrics
    (scope,) = resource.scope_metrics
    metrics = {metric.name: metric for metric in scope.metrics}
    tokens = {
        point.attributes["gen_ai.token.type"]: point for point in metrics["gen_ai.client.token.usage"].data.data_points
    }
    assert (tokens["input"].count, tokens["input"].sum) == (2, turn.usage.input_tokens)
    assert (tokens["output"].count, tokens["output"].sum) == (2, turn.usage.output_tokens)
    assert tokens["input"].explicit_bounds[:3] == (1, 4, 16)
    durations = metrics["gen_ai.client.operation.duration"]
    assert durations.unit == "s"
    counts = {point.attributes.get("error.type"): point.count for point in durations.data.data_points}
    assert counts == {None: 2, "INVALID_REQUEST": 1}
    assert {point.attributes["gen_ai.operation.name"] for point in durations.data.data_points} == {"chat"}


# Records


def test_without_opentelemetry_the_log_has_a_record_a_span(run, caplog):
    caplog.set_level(logging.DEBUG, "turntree.tracing")
    run(adder().run("1 + 2?"))

    records = [record.turntree for record in caplog.records if hasattr(record, "turntree")]
    assert [record["span"] for record in records] == [
        "chat scripted",
        "execute_tool add",
        "step 1",
        "chat scripted",
        "step 2",
        "invoke_agent adder",
    ]
    ids = {record["span"]: record["id"] for record in records}
    parents = [record["parent"] for record in records]
    assert parents[0] == parents[1] == records[2]["id"]
    assert parents[2] == parents[4] == ids["invoke_agent adder"]
    assert parents[5] is None
    assert all(record["seconds"] >= 0 for record in records)
    assert records[0]["attributes"]["gen_ai.usage.input_tokens"] > 0


def test_a_record_tells_of_a_failure(run, caplog):
    caplog.set_level(logging.DEBUG, "turntree.tracing")
    with pytest.raises(UPPError):
        run(agent(model=scripted([]), name="a").run("Go"))

    failed = caplog.records[-1]
    assert failed.turntree["attributes"]["error.type"] == "INVALID_REQUEST"
    assert failed.turntree["error"]
    assert failed.getMessage().startswith("invoke_agent a failed after ")


# Switches


def test_uninstrument_turns_it_off(run, traced, caplog):
    caplog.set_level(logging.DEBUG, "turntree.tracing")
    tracing.uninstrument()
    run(adder().run("1 + 2?"))

    assert traced.spans == []
    assert [record for record in caplog.records if hasattr(record, "turntree")] == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"include_content": "yes"}, "include_content must be a bool or None, not str"),
        ({"tracer_provider": 1}, "tracer_provider must be a provider of OpenTelemetry, with get_tracer, not int"),
        (
            {"meter_provider": object()},
            "meter_provider must be a provider of OpenTelemetry, with get_meter, not object",
        ),
    ],
)
def test_wrong_settings_are_refused_by_name(options, words):
    with pytest.raises(TypeError, match=words):
        tracing.instrument(**options)


def test_no_context_is_left_attached(run, traced):
    before = otel_context.get_current()

    async def main():
        await adder().run("1 + 2?")
        return otel_context.get_current()

    assert run(main()) == before
    assert otel_context.get_current() == before


# Cost, and the global provider: in fresh processes


def fresh(source):
    """Run code in an interpreter of its own and give back what it printed."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(source)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


COUNTING = """
    import sys
    {imports}
    from turntree import agent
    from turntree.upp import scripted, tool

    @tool
    async def noop() -> None:
        "Do nothing."

    def calls(steps):
        rounds = [[{{"toolName": "noop", "arguments": {{}}}}]] * steps
        helper = agent(model=scripted([*rounds, "Done."] * 2), tools=[noop])
        helper.run_sync("Go")
        seen = []
        def profile(frame, event, argument):
            name = frame.f_globals.get("__name__", "")
            if event == "call" and name.startswith(("opentelemetry", "turntree._tracing", "logging")):
                seen.append(name)
        sys.setprofile(profile)
        helper.run_sync("Go")
        sys.setprofile(None)
        return len(seen)

    calls(1)  # what is looked up once a process
    print(calls(1), calls(9), "turntree._tracing" in sys.modules, "opentelemetry" in sys.modules)
"""


def test_without_opentelemetry_nothing_of_it_is_called_or_imported():
    one, nine, ours, theirs = fresh(COUNTING.format(imports=""))

    # Whether the logger wants to hear of it: once a run, however many steps.
    assert one == nine
    assert int(one) <= 1
    assert (ours, theirs) == ("False", "False")


def test_with_the_api_alone_a_run_asks_once():
    one, nine, _, _ = fresh(COUNTING.format(imports="import opentelemetry.trace, opentelemetry.metrics"))

    assert one == nine
    assert int(one) <= 12


def test_the_global_provider_is_found_once_it_is_set():
    printed = fresh("""
        import asyncio
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
        from turntree import agent
        from turntree.upp import scripted

        exporter = InMemorySpanExporter()
        helper = agent(model=scripted(["One.", "Two."]), name="a")
        asyncio.run(helper.run("Go"))
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        trace.set_tracer_provider(provider)
        asyncio.run(helper.run("Go"))
        print(len(exporter.get_finished_spans()))
    """)

    assert printed == ["3"]

"""Tracing of failures, metrics, log records, and switches."""

import asyncio
import gc
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
from opentelemetry.trace import StatusCode
from tracing_support import adder, call

from turntree import agent, tracing
from turntree.testing import ErrorReply
from turntree.upp import ErrorCode, ExponentialBackoff, UPPError, openai, scripted, tool

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


def waiting_agent(begun=None):
    """An agent whose tool does not end; sets `begun` when the tool starts."""

    @tool
    async def wait() -> str:
        """Wait."""
        if begun is not None:
            begun.set()
        await asyncio.sleep(30)
        return "late"

    return agent(model=scripted([[call("wait")], "Done."]), tools=[wait], name="a")


ALL_OF_IT = ["invoke_agent a", "step 1", "chat scripted", "execute_tool wait"]


def test_a_cancelled_run_ends_all_its_spans(run, traced):
    async def main():
        begun = asyncio.Event()
        task = asyncio.ensure_future(waiting_agent(begun).run("Go"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

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

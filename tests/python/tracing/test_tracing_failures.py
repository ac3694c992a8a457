"""Tracing of failures, metrics, log records, and switches."""

import asyncio
import gc
import logging
import re
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

# Failures and ends of spans


def test_failed_tool_fails_only_its_span(run, traced):
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


def test_unknown_and_denied_tools_fail_their_spans(run, traced):
    guarded = tool(name="guarded", approval=lambda arguments: False)(lambda: "never")
    model = scripted([[call("guarded"), call("nobody")], "Sorry."])
    run(agent(model=model, tools=[guarded]).run("Go"))

    denied, missing = traced.named("execute_tool guarded"), traced.named("execute_tool nobody")
    assert denied.attributes["error.type"] == "tool_denied"
    assert denied.attributes["turntree.tool.approved"] is False
    assert missing.attributes["error.type"] == "tool_error"
    assert {denied.status.status_code, missing.status.status_code} == {StatusCode.ERROR}


@pytest.mark.parametrize("is_streamed", [False, True])
def test_spans_of_a_refused_request_do_not_show_configured_headers(run, traced, loopback, is_streamed):
    secret = "several secret words"
    server = loopback(ErrorReply(403, f"not {secret}"), strict=False)
    helper = agent(model=openai("gpt", base_url=server.base_url, api_key="sk-key", headers={"X-Pass": secret}))

    async def main():
        if not is_streamed:
            await helper.run("Hi")
        async for _ in helper.stream("Hi"):
            pass

    with pytest.raises(UPPError):
        run(main())

    shown = [span.to_json() for span in traced.spans]
    assert len(shown) == 3
    assert "***" in "".join(shown)
    assert not [text for text in shown if secret in text]


def test_failed_model_fails_every_enclosing_span(run, traced):
    model = scripted([UPPError("Too fast", code=ErrorCode.RATE_LIMITED, provider="scripted")])
    with pytest.raises(UPPError):
        run(agent(model=model, name="a").run("Go"))

    assert [(span.name, span.attributes["error.type"]) for span in traced.spans] == [
        ("invoke_agent a", "RATE_LIMITED"),
        ("step 1", "RATE_LIMITED"),
        ("chat scripted", "RATE_LIMITED"),
    ]
    assert set(traced.statuses().values()) == {StatusCode.ERROR}


def test_failed_hook_sets_the_error_type_of_the_run_span(run, traced):
    def hook(step, state):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(agent(model=scripted(["Hi."]), name="a", strategy={"on_step_start": hook}).run("Go"))

    assert traced.named("invoke_agent a").attributes["error.type"] == "ZeroDivisionError"
    assert set(traced.statuses().values()) == {StatusCode.ERROR}


def test_recovered_run_has_no_error_status(run, traced):
    saved = run(agent(model=scripted(["Hi."])).run("Go"))
    traced.exporter.clear()
    model = scripted([UPPError("Down", code=ErrorCode.PROVIDER_ERROR, provider="scripted")])
    run(agent(model=model, name="a", strategy={"on_error": lambda error, state: saved}).run("Go"))

    statuses = traced.statuses()
    assert statuses["chat scripted"] is StatusCode.ERROR
    assert statuses["invoke_agent a"] is StatusCode.UNSET


def test_retries_share_one_span(run, traced, loopback):
    server = loopback([ErrorReply(500), ErrorReply(500), "Hi."])
    retry = ExponentialBackoff(base_delay=0.001, max_attempts=5)
    model = openai("gpt", "completions", base_url=server.base_url, api_key="key", retry_strategy=retry)
    turn = run(agent(model=model, name="a").run("Go"))

    assert turn.response.text == "Hi."
    assert len(server.requests) == 3
    assert traced.tree() == [["invoke_agent a", ["step 1", ["chat gpt"]]]]
    assert set(traced.statuses().values()) == {StatusCode.UNSET}


def waiting_agent(begun=None):
    """An agent whose tool never ends; sets `begun` when the tool starts."""

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


def test_aborted_stream_ends_all_its_spans_without_error(run, traced):
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
def test_abandoned_stream_ends_all_its_spans(run, traced, way):
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


def test_failing_exporter_does_not_fail_the_run(run, monkeypatch):
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


def test_unsampled_run_propagates_its_context(run):
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


def test_metrics_record_tokens_and_durations(run):
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


def test_without_opentelemetry_each_span_writes_a_log_record(run, caplog):
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


def test_log_record_contains_the_error(run, caplog):
    caplog.set_level(logging.DEBUG, "turntree.tracing")
    with pytest.raises(UPPError):
        run(agent(model=scripted([]), name="a").run("Go"))

    failed = caplog.records[-1]
    assert failed.turntree["attributes"]["error.type"] == "INVALID_REQUEST"
    assert failed.turntree["error"]
    assert failed.getMessage().startswith("invoke_agent a failed after ")


def test_each_request_writes_one_line(run, caplog):
    caplog.set_level(logging.INFO, "turntree.requests")
    run(adder().run("1 + 2?"))
    with pytest.raises(UPPError):
        run(agent(model=scripted([])).run("Go"))

    lines = [record.getMessage() for record in caplog.records if record.name == "turntree.requests"]
    assert len(lines) == 3
    assert re.fullmatch(r"scripted scripted: \d+ \+ \d+ tokens, \d+ ms, tool_calls?", lines[0])
    assert re.fullmatch(r"scripted scripted: \d+ \+ \d+ tokens, \d+ ms, stop", lines[1])
    assert re.fullmatch(r"scripted scripted: \d+ ms, failed: INVALID_REQUEST", lines[2])
    assert not any("1 + 2" in line for line in lines)


def test_lines_need_no_import_of_tracing_and_no_opentelemetry():
    program = """
    import logging, sys
    logging.basicConfig(format="%(name)s %(levelname)s %(message)s")
    logging.getLogger("turntree.requests").setLevel(logging.INFO)
    from turntree import agent
    from turntree.upp import scripted
    agent(model=scripted(["Hi."])).run_sync("Go")
    logging.getLogger("turntree.requests").setLevel(logging.WARNING)
    agent(model=scripted(["Hi."])).run_sync("Go")
    assert not {"opentelemetry", "turntree.tracing"} & set(sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True)

    (line,) = done.stderr.splitlines()
    assert re.fullmatch(r"turntree\.requests INFO scripted scripted: \d+ \+ \d+ tokens, \d+ ms, stop", line)


@pytest.fixture
def levels(caplog):
    """Return what sets the level of a logger until the end of the test."""
    caplog.set_level(logging.WARNING)
    yield lambda name, level: caplog.set_level(level, name)
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(
    ("steps", "lines"),
    [
        ([], 0),
        ([("turntree", logging.INFO)], 1),
        ([("turntree", logging.INFO), ("turntree.requests", logging.ERROR)], 0),
        ([("turntree", logging.ERROR), ("turntree.requests", logging.INFO)], 1),
        ([(None, logging.INFO)], 1),
        ([("turntree", logging.INFO), "disable"], 0),
        ([("turntree", logging.INFO), "disabled"], 0),
    ],
)
def test_lines_follow_the_level_of_the_logger_or_its_parents(run, caplog, monkeypatch, levels, steps, lines):
    for step in steps:
        if step == "disable":
            logging.disable(logging.INFO)
        elif step == "disabled":
            monkeypatch.setattr(logging.getLogger("turntree.requests"), "disabled", True)
        else:
            levels(*step)
    run(agent(model=scripted(["Hi."])).run("Go"))

    assert len([record for record in caplog.records if record.name == "turntree.requests"]) == lines


def test_a_level_that_changes_between_two_runs_counts(run, caplog, levels):
    helper = agent(model=scripted(lambda _: "Hi."))
    counts = []
    for level in (logging.ERROR, logging.INFO, logging.ERROR, logging.INFO):
        levels("turntree", level)
        run(helper.run("Go"))
        run(helper.run("Go"))
        counts.append(len([record for record in caplog.records if record.name == "turntree.requests"]))

    assert counts == [0, 2, 2, 4]


def test_a_logger_of_the_application_decides_by_itself():
    program = """
    import logging

    class Always(logging.Logger):
        def isEnabledFor(self, level):
            return True

    logging.basicConfig(format="%(name)s")
    logging.setLoggerClass(Always)
    from turntree import agent
    from turntree.upp import scripted
    agent(model=scripted(["Hi."])).run_sync("Go")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True)

    assert "turntree.requests" in done.stderr.splitlines()


def test_spans_do_not_replace_the_lines(run, traced, caplog):
    caplog.set_level(logging.INFO, "turntree.requests")
    run(adder().run("1 + 2?"))

    assert [record.levelname for record in caplog.records if record.name == "turntree.requests"] == ["INFO", "INFO"]
    assert caplog.records[0].turntree["attributes"]["gen_ai.usage.input_tokens"] > 0
    assert len(traced.spans) == 6


# Switches


def test_uninstrument_stops_tracing(run, traced, caplog):
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
def test_invalid_settings_are_rejected_by_name(options, words):
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
    """Run code in a new interpreter and return its output."""
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

    calls(1)  # warm-up: lookups made once in a process
    print(calls(1), calls(9), "turntree._tracing" in sys.modules, "opentelemetry" in sys.modules)
"""


def test_without_opentelemetry_it_is_neither_imported_nor_called():
    one, nine, ours, theirs = fresh(COUNTING.format(imports=""))

    # The only calls ask if the loggers of runs and of requests are enabled: once for each run, whatever its steps.
    assert one == nine
    assert int(one) <= 2
    assert (ours, theirs) == ("False", "False")


def test_with_only_the_api_package_calls_do_not_grow_with_steps():
    one, nine, _, _ = fresh(COUNTING.format(imports="import opentelemetry.trace, opentelemetry.metrics"))

    assert one == nine
    assert int(one) <= 12


def test_global_tracer_provider_is_used_once_set():
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

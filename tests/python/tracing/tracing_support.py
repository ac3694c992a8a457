"""Helpers of the tests of tracing."""

import logging

import pytest
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from turntree import agent, tracing
from turntree.upp import scripted, tool


def call(name, /, **arguments):
    """A tool call as a script writes it."""
    return {"toolName": name, "arguments": arguments}


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Starts(SpanProcessor):
    """The numbers of spans in the order of their start, whatever the clock shows."""

    def __init__(self):
        self.numbers = {}

    def on_start(self, span, parent_context=None):
        self.numbers[span.context.span_id] = len(self.numbers)


class Tracing:
    """A separate tracer provider and the spans it received."""

    def __init__(self):
        self.exporter, self.starts = InMemorySpanExporter(), Starts()
        self.provider = TracerProvider()
        self.provider.add_span_processor(self.starts)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("application")

    @property
    def spans(self):
        """The ended spans in the order of their start."""
        return sorted(self.exporter.get_finished_spans(), key=lambda span: self.starts.numbers[span.context.span_id])

    def named(self, name):
        """The only span with this name."""
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
    """Restore the tracing settings of a fresh import after every test."""
    yield
    tracing.instrument()


@pytest.fixture(autouse=True)
def no_complaints(caplog):
    """Fail on warnings of OpenTelemetry, such as for a span that ends twice."""
    yield
    records = [record for record in caplog.records if record.name.startswith("opentelemetry")]
    assert [record.getMessage() for record in records if record.levelno >= logging.WARNING] == []


@pytest.fixture
def traced():
    watched = Tracing()
    tracing.instrument(tracer_provider=watched.provider)
    return watched


def adder(**options):
    return agent(model=scripted([[call("add", a=1, b=2)], "It is 3."]), tools=[add], name="adder", **options)

"""Helpers of the tests of tracing."""

import logging

import pytest
from opentelemetry.sdk.trace import TracerProvider
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


def adder(**options):
    return agent(model=scripted([[call("add", a=1, b=2)], "It is 3."]), tools=[add], name="adder", **options)

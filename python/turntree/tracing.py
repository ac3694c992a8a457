"""What runs do, for OpenTelemetry: spans and metrics by its conventions for generative AI; or, without it, log records.

Nothing has to be called: where a tracer or meter provider is set, every run of an agent, step, model call and tool call
is a span. `instrument` changes what is recorded and where it goes; `uninstrument` turns it off.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from turntree._tracing import settings as _settings

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

__all__ = ["instrument", "uninstrument"]


def instrument(
    *,
    include_content: bool | None = None,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> None:
    """Say what is recorded of runs, and where it goes. Takes effect with the next run.

    Args:
        include_content: Record what is said: messages, system prompts, tools' arguments and results. Default: what the
            variable ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`` says when a run begins; without it, no.
        tracer_provider: Where spans go. Default: OpenTelemetry's global provider, once one is set.
        meter_provider: Where metrics go. Default: OpenTelemetry's global provider, once one is set.

    Raises:
        TypeError: An argument of the wrong type, named.
        ImportError: A provider is given and OpenTelemetry is not installed; install ``turntree[otel]``.
    """
    if include_content is not None and not isinstance(include_content, bool):
        message = f"include_content must be a bool or None, not {type(include_content).__name__}"
        raise TypeError(message)
    for name, provider, method in (
        ("tracer_provider", tracer_provider, "get_tracer"),
        ("meter_provider", meter_provider, "get_meter"),
    ):
        if provider is not None and not callable(getattr(provider, method, None)):
            message = f"{name} must be a provider of OpenTelemetry, with {method}, not {type(provider).__name__}"
            raise TypeError(message)
    if tracer_provider is not None or meter_provider is not None:
        _require()
    _settings.enabled = True
    _settings.content = include_content
    _settings.tracer_provider = tracer_provider
    _settings.meter_provider = meter_provider


def uninstrument() -> None:
    """Record nothing more, from the next run on: neither spans nor metrics nor log records."""
    _settings.enabled = False


def _require() -> None:
    try:
        for module in ("opentelemetry.metrics", "opentelemetry.trace"):
            _import_module(module)
    except ImportError as error:
        message = "tracing needs the package opentelemetry-api; install turntree[otel]"
        raise ImportError(message) from error

"""Tracing of runs with OpenTelemetry: spans and metrics of its conventions for generative AI. Else, log records.

Tracing is automatic: if a tracer or meter provider is set, each agent run, step, model call and tool call is a span.
`instrument` changes the configuration; `uninstrument` disables tracing.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

from turntree._public_names import set_public_module as _set_public_module
from turntree._tracing import settings as _settings

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider
else:
    MeterProvider = TracerProvider = Any  # OpenTelemetry is optional.

__all__ = ["instrument", "uninstrument"]


def instrument(
    *,
    include_content: bool | None = None,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> None:
    """Configure and enable tracing. Takes effect at the next run.

    Args:
        include_content: Record messages, system prompts, and the arguments and results of tools. Default: the
            environment variable ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`` at the start of a run, else
            False.
        tracer_provider: The provider of spans. Default: the global provider of OpenTelemetry, if one is set.
        meter_provider: The provider of metrics. Default: the global provider of OpenTelemetry, if one is set.

    Raises:
        TypeError: An argument has the wrong type; the message names it.
        ImportError: A provider is given, and OpenTelemetry is not installed; install ``turntree[otel]``.
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
    """Disable tracing: spans, metrics and log records. Takes effect at the next run."""
    _settings.enabled = False


def _require() -> None:
    try:
        for module in ("opentelemetry.metrics", "opentelemetry.trace"):
            _import_module(module)
    except ImportError as error:
        message = "tracing needs the package opentelemetry-api; install turntree[otel]"
        raise ImportError(message) from error


_set_public_module(__name__, globals())

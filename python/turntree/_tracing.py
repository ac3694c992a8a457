"""Records spans, metrics and log records. The native core calls it; `turntree.tracing` configures it."""

from __future__ import annotations

import itertools
import logging
import os
import sys
from time import perf_counter
from typing import Any

from turntree._core import __version__
from turntree.exceptions import UPPError

_SCHEMA = "https://opentelemetry.io/schemas/1.42.0"
_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_TOKEN_BUCKETS = [4.0**power for power in range(14)]
_SECOND_BUCKETS = [0.01 * 2.0**power for power in range(14)]
# Metrics are recorded for the operations of models only, not for agents and tools.
_MEASURED = ("chat", "embeddings", "generate_content")
_DIMENSIONS = (
    "gen_ai.operation.name",
    "gen_ai.provider.name",
    "gen_ai.request.model",
    "gen_ai.response.model",
    "error.type",
)

# A child of the middleware's logger, so that each can be disabled separately.
_logger = logging.getLogger("turntree.tracing")
# One INFO record for each request to a model, with and without OpenTelemetry.
_requests = logging.getLogger("turntree.requests")
_numbers = itertools.count(1)


class Settings:
    """The configuration, and the tracer and instruments of the provider that was used last."""

    __slots__ = ("content", "enabled", "meter_provider", "meters", "tracer", "tracer_provider")

    def __init__(self) -> None:
        self.enabled = True
        self.content: bool | None = None
        self.tracer_provider: Any = None
        self.meter_provider: Any = None
        self.tracer: tuple[Any, Any] = (None, None)
        self.meters: tuple[Any, Meters | None] = (None, None)


settings = Settings()


def recorder() -> Recorder | None:
    """Return the recorder of a new run, or None if recording is off. The native core calls it once per run."""
    if not settings.enabled:
        return None
    tracer, meters = _tracer(), _meters()
    if tracer is None and meters is None:
        # Log records replace spans only if there is no provider.
        is_logged = _logger.isEnabledFor(logging.DEBUG) or _requests.isEnabledFor(logging.INFO)
        return Recorder(None, None, None) if is_logged else None
    from opentelemetry.context import get_current

    return Recorder(tracer, meters, get_current())


def _tracer() -> Any:
    provider = settings.tracer_provider or _configured("opentelemetry.trace", "get_tracer_provider")
    if provider is None:
        return None
    if settings.tracer[0] is not provider:
        settings.tracer = (provider, provider.get_tracer("turntree", __version__, schema_url=_SCHEMA))
    return settings.tracer[1]


def _meters() -> Meters | None:
    provider = settings.meter_provider or _configured("opentelemetry.metrics", "get_meter_provider")
    if provider is None:
        return None
    if settings.meters[0] is not provider:
        settings.meters = (provider, Meters(provider.get_meter("turntree", __version__, schema_url=_SCHEMA)))
    return settings.meters[1]


def _configured(module: str, function: str) -> Any:
    """Return the global provider; None if it is a default of the OpenTelemetry API, which records nothing."""
    api = sys.modules.get(module)
    if api is None:
        return None
    provider = getattr(api, function)()
    return None if type(provider).__module__.startswith(module) else provider


def _includes_content() -> bool:
    if settings.content is not None:
        return settings.content
    return os.environ.get(_CONTENT, "").lower() in ("1", "true", "span_only", "span_and_event")


class Meters:
    """The instruments for metrics of the OpenTelemetry conventions."""

    __slots__ = ("duration", "tokens")

    def __init__(self, meter: Any) -> None:
        self.tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_TOKEN_BUCKETS,
        )
        self.duration = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="GenAI operation duration.",
            explicit_bucket_boundaries_advisory=_SECOND_BUCKETS,
        )

    def record(self, attributes: dict[str, Any], seconds: float, context: Any) -> None:
        dimensions = {name: attributes[name] for name in _DIMENSIONS if name in attributes}
        self.duration.record(seconds, dimensions, context)
        for kind in ("input", "output"):
            tokens = attributes.get(f"gen_ai.usage.{kind}_tokens")
            if tokens is not None:
                self.tokens.record(tokens, {**dimensions, "gen_ai.token.type": kind}, context)


class Recorder:
    """Records one run. Its spans are children of the span that was current at its start."""

    __slots__ = ("content", "context", "meters", "tracer")

    def __init__(self, tracer: Any, meters: Meters | None, context: Any) -> None:
        self.tracer = tracer
        self.meters = meters
        self.context = context
        self.content = _includes_content()

    def begin(self, name: str, is_remote: bool, attributes: dict[str, Any], parent: Span | None) -> Span:  # noqa: FBT001
        return Span(self, name, is_remote, attributes, parent)


class Span:
    """An active operation. It is not the current span of the calling code, so nothing has to be detached."""

    __slots__ = ("attributes", "context", "error_type", "meters", "name", "number", "parent", "span", "started")

    def __init__(
        self,
        recorder: Recorder,
        name: str,
        is_remote: bool,  # noqa: FBT001
        attributes: dict[str, Any],
        parent: Span | None,
    ) -> None:
        self.name = name
        self.attributes = attributes
        self.context: Any = recorder.context if parent is None else parent.context
        self.meters = recorder.meters if attributes.get("gen_ai.operation.name") in _MEASURED else None
        self.error_type: str | None = None
        self.span: Any = None
        self.number = 0
        self.parent = 0 if parent is None else parent.number
        if recorder.tracer is not None:
            from opentelemetry.trace import SpanKind, set_span_in_context

            kind = SpanKind.CLIENT if is_remote else SpanKind.INTERNAL
            self.span = recorder.tracer.start_span(name, self.context, kind, attributes)
            self.context = set_span_in_context(self.span, self.context)
        elif self.meters is None:
            self.number = next(_numbers)
        self.started = perf_counter()

    def attach(self) -> None:
        """Make the span current. The caller runs in a copy of the context variables."""
        if self.span is not None:
            from opentelemetry.context import attach

            attach(self.context)

    def first_chunk(self) -> None:
        """Record the time to the first chunk of the response."""
        self._set({"gen_ai.response.time_to_first_chunk": perf_counter() - self.started})

    def failed(self, kind: str, message: str, exception: BaseException | None) -> None:
        """Record an exception of the application's code."""
        self.error_type = kind
        if self.span is not None and exception is not None:
            self.span.record_exception(exception)
        elif exception is None and message:
            self._set({"turntree.error.message": message})

    def end(
        self,
        attributes: dict[str, Any],
        failure: tuple[str, str] | None,
        exception: BaseException | None,
    ) -> None:
        """End the span, with its last attributes and its failure."""
        seconds = perf_counter() - self.started
        message = None
        if failure is not None:
            kind, message = failure
            # For a UPPError, `kind` is its code.
            if exception is not None and self.error_type is None and not isinstance(exception, UPPError):
                self.failed(type(exception).__qualname__, "", exception)
            attributes["error.type"] = self.error_type or kind
        self._set(attributes)
        if self.meters is not None:
            self.meters.record(self.attributes, seconds, self.context)
        if _requests.isEnabledFor(logging.INFO) and self.attributes.get("gen_ai.operation.name") in _MEASURED:
            self._log_request(seconds)
        if self.span is not None:
            if failure is not None:
                from opentelemetry.trace import Status, StatusCode

                self.span.set_status(Status(StatusCode.ERROR, message or None))
            self.span.end()
        elif self.number:
            self._log(seconds, message)

    def _set(self, attributes: dict[str, Any]) -> None:
        self.attributes.update(attributes)
        if self.span is not None:
            self.span.set_attributes(attributes)

    def _log_request(self, seconds: float) -> None:
        """Write one line about a request: provider, model, tokens, cost, time, and its end."""
        get = self.attributes.get
        tokens = [get(f"gen_ai.usage.{kind}_tokens") for kind in ("input", "output")]
        cost, status = get("turntree.usage.cost"), get("error.type")
        parts = [
            ""
            if tokens == [None, None]
            else " + ".join("?" if count is None else str(count) for count in tokens) + " tokens",
            "" if cost is None else f"${cost:.6f}",
            f"{seconds * 1000:.0f} ms",
            f"failed: {status}" if status else ", ".join(get("gen_ai.response.finish_reasons") or ()),
        ]
        model = f"{get('gen_ai.provider.name')} {get('gen_ai.request.model')}"
        data = {"seconds": seconds, "attributes": self.attributes}
        _requests.info("%s: %s", model, ", ".join(filter(None, parts)), extra={"turntree": data})

    def _log(self, seconds: float, message: str | None) -> None:
        data = {
            "span": self.name,
            "id": self.number,
            "parent": self.parent or None,
            "seconds": seconds,
            "attributes": self.attributes,
        }
        failed = "error.type" in self.attributes
        if failed:
            data["error"] = message or self.attributes["error.type"]
        words = f"{self.name} {'failed after' if failed else 'took'} {seconds * 1000:.1f} ms"
        _logger.debug("%s", words, extra={"turntree": data})

"""Static types of tracing. Checked, never run."""

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider

from turntree import tracing

tracing.instrument()
tracing.instrument(include_content=True)
tracing.instrument(tracer_provider=TracerProvider(), meter_provider=MeterProvider([]))
tracing.instrument(tracer_provider=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
tracing.uninstrument()

//! Spans of the crate `tracing`.

use std::any::Any;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::tracing::field::{Empty, display};
use ::tracing::{Level, Span as TracingSpan, span};

use super::{AttributeValue, Exception, Operation, Outcome, Span, SpanFailure, SpanKind, Tracer};

/// Sends spans to the crate `tracing`, at level INFO with target `turntree`.
///
/// `tracing` needs names at compile time, so every span is called `turntree`. The fields `otel.name`, `otel.kind`,
/// `otel.status_code` and `otel.status_description` are those that `tracing-opentelemetry` maps to OpenTelemetry.
/// `attributes` and `result` hold the attributes of the start and of the end as `name=value` pairs.
///
/// ```
/// use turntree_core::telemetry::{Tracer, TracingTracer};
///
/// let tracer: &dyn Tracer = &TracingTracer::default().with_content(true);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct TracingTracer {
    records_content: bool,
}

impl TracingTracer {
    /// Chooses whether spans contain messages, tool arguments and results. Default: false.
    #[must_use]
    pub const fn with_content(self, records_content: bool) -> Self {
        Self { records_content }
    }
}

impl Tracer for TracingTracer {
    fn start(&self, operation: &dyn Operation, parent: Option<&Arc<dyn Span>>) -> Arc<dyn Span> {
        let kind = match operation.kind() {
            SpanKind::Internal => "internal",
            SpanKind::Client => "client",
        };
        let parent = parent.and_then(|parent| {
            let parent: &dyn Any = &**parent;
            parent.downcast_ref::<OpenSpan>()?.span().id()
        });
        // Without a parent from this tracer, `tracing` uses its current span.
        let parent = parent.or_else(|| TracingSpan::current().id());
        let span = span!(
            target: "turntree",
            parent: parent,
            Level::INFO,
            "turntree",
            otel.name = &*operation.name(),
            otel.kind = kind,
            otel.status_code = Empty,
            otel.status_description = Empty,
            "error.type" = Empty,
            attributes = Empty,
            result = Empty,
        );
        if !span.is_disabled() {
            let mut attributes = operation.attributes();
            if self.records_content {
                attributes.extend(operation.content());
            }
            span.record("attributes", display(pairs(&attributes)));
        }
        Arc::new(OpenSpan { span: Mutex::new(span), records_content: self.records_content })
    }
}

#[derive(Debug)]
struct OpenSpan {
    /// Disabled after the end, which closes the span of `tracing`.
    span: Mutex<TracingSpan>,
    records_content: bool,
}

impl OpenSpan {
    fn span(&self) -> MutexGuard<'_, TracingSpan> {
        self.span.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Span for OpenSpan {
    fn first_chunk(&self) {
        let id = self.span().id();
        ::tracing::event!(target: "turntree", parent: id, Level::INFO, "first chunk");
    }

    fn record_exception(&self, exception: &Exception<'_>) {
        let id = self.span().id();
        ::tracing::event!(
            target: "turntree",
            parent: id,
            Level::ERROR,
            "exception.type" = exception.type_name,
            "exception.message" = exception.message,
            "exception"
        );
    }

    fn end(&self, outcome: &dyn Outcome) {
        let span = std::mem::replace(&mut *self.span(), TracingSpan::none());
        if span.is_disabled() {
            return;
        }
        let mut attributes = outcome.attributes();
        if self.records_content {
            attributes.extend(outcome.content());
        }
        span.record("result", display(pairs(&attributes)));
        match outcome.failure() {
            Some(SpanFailure { kind, message, .. }) => {
                span.record("otel.status_code", "ERROR");
                span.record("otel.status_description", message);
                span.record("error.type", kind);
            }
            None => {
                span.record("otel.status_code", "OK");
            }
        }
    }
}

/// Writes attributes as `name=value` pairs with a space between them.
fn pairs(attributes: &[(&str, AttributeValue<'_>)]) -> String {
    let mut text = String::new();
    for (name, value) in attributes {
        let separator = if text.is_empty() { "" } else { " " };
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{name}=");
        let _ = match value {
            AttributeValue::String(value) => write!(text, "{value}"),
            AttributeValue::Int(value) => write!(text, "{value}"),
            AttributeValue::Float(value) => write!(text, "{value}"),
            AttributeValue::Bool(value) => write!(text, "{value}"),
            AttributeValue::Strings(values) => {
                write!(text, "[{}]", values.iter().map(Cow::as_ref).collect::<Vec<_>>().join(","))
            }
        };
    }
    text
}

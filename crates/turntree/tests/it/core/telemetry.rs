//! Spans as spans of the crate `tracing`.

use std::borrow::Cow;
use std::fmt::{Debug, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes as SpanAttributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use turntree::core::telemetry::{
    Attributes, Completed, Exception, Operation, Outcome, SpanFailure, SpanGuard, SpanKind, Tracer,
    TracingTracer,
};

/// Records each call of `tracing` as one line.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>, Arc<AtomicU64>);

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Log {
    fn write(&self, head: String, record: impl FnOnce(&mut Fields)) {
        let mut fields = Fields(head);
        record(&mut fields);
        self.0.lock().unwrap().push(fields.0);
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "turntree"
    }

    fn new_span(&self, span: &SpanAttributes<'_>) -> Id {
        let id = self.1.fetch_add(1, Ordering::Relaxed) + 1;
        let parent = span.parent().map_or(0, Id::into_u64);
        self.write(format!("open {id} in {parent}:"), |fields| span.record(fields));
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        self.write(format!("set {}:", span.into_u64()), |fields| values.record(fields));
    }

    fn event(&self, event: &Event<'_>) {
        let parent = event.parent().map_or(0, Id::into_u64);
        self.write(format!("event in {parent}:"), |fields| event.record(fields));
    }

    fn try_close(&self, id: Id) -> bool {
        self.write(format!("close {}", id.into_u64()), |_| ());
        true
    }

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}
}

struct Embed;

impl Operation for Embed {
    fn name(&self) -> Cow<'_, str> {
        "embeddings small".into()
    }

    fn kind(&self) -> SpanKind {
        SpanKind::Client
    }

    fn attributes(&self) -> Attributes<'_> {
        vec![("gen_ai.request.model", "small".into()), ("count", 2_u64.into())]
    }

    fn content(&self) -> Attributes<'_> {
        vec![("input", "hello".into())]
    }
}

struct Failed;

impl Outcome for Failed {
    fn failure(&self) -> Option<SpanFailure<'_>> {
        Some(SpanFailure { kind: "RATE_LIMITED", message: "too fast", exception: None })
    }
}

fn lines(run: impl FnOnce()) -> Vec<String> {
    let log = Log::default();
    tracing::subscriber::with_default(log.clone(), run);
    let lines = log.0.lock().unwrap();
    lines.clone()
}

#[test]
fn tracing_spans_have_parent_attributes_and_status() {
    let lines = lines(|| {
        let tracer = TracingTracer::default();
        let outer = tracer.start(&Embed, None);
        let inner = tracer.start(&Embed, Some(&outer));
        inner.record_exception(&Exception { type_name: "ValueError", message: "no", object: None });
        inner.end(&Failed);
        outer.end(&Completed);
    });

    let attributes = "attributes=gen_ai.request.model=small count=2";
    let expected = [
        "open 1 in 0: otel.name=\"embeddings small\" otel.kind=\"client\"".to_owned(),
        format!("set 1: {attributes}"),
        "open 2 in 1: otel.name=\"embeddings small\" otel.kind=\"client\"".to_owned(),
        format!("set 2: {attributes}"),
        "event in 2: message=exception exception.type=\"ValueError\" exception.message=\"no\"".to_owned(),
        "set 2: result=".to_owned(),
        "set 2: otel.status_code=\"ERROR\"".to_owned(),
        "set 2: otel.status_description=\"too fast\"".to_owned(),
        "set 2: error.type=\"RATE_LIMITED\"".to_owned(),
        "close 2".to_owned(),
        "set 1: result=".to_owned(),
        "set 1: otel.status_code=\"OK\"".to_owned(),
        "close 1".to_owned(),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn message_content_is_recorded_only_on_request() {
    let start = |tracer: TracingTracer| lines(|| tracer.start(&Embed, None).end(&Completed)).join("\n");

    assert!(!start(TracingTracer::default()).contains("hello"));
    assert!(start(TracingTracer::default().with_content(true)).contains("input=hello"));
}

#[test]
fn a_dropped_guard_ends_its_span_as_dropped_or_aborted() {
    let end = |aborts: bool| {
        lines(|| {
            let abort = tokio_util::sync::CancellationToken::new();
            let guard = SpanGuard::new(TracingTracer::default().start(&Embed, None), Some(abort.clone()));
            if aborts {
                abort.cancel();
            }
            drop(guard);
        })
        .join("\n")
    };

    assert!(end(false).contains("error.type=\"CANCELLED\""));
    let aborted = end(true);
    assert!(aborted.contains("result=turntree.aborted=true") && aborted.contains("\"OK\""), "{aborted}");
}

//! Ends spans exactly once, also when futures are dropped.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{Aborted, Dropped, Outcome, Span};

/// Owns a span and ends it: with an outcome, or when dropped.
///
/// An empty guard (`SpanGuard::default()`) does nothing; it stands in where no tracer is installed.
#[derive(Debug, Default)]
pub struct SpanGuard {
    span: Option<Arc<dyn Span>>,
    abort: Option<CancellationToken>,
}

impl SpanGuard {
    /// Takes ownership of a span. If `abort` is cancelled when the guard is dropped, the span ends with [`Aborted`]
    /// instead of [`Dropped`].
    pub fn new(span: Arc<dyn Span>, abort: Option<CancellationToken>) -> Self {
        Self { span: Some(span), abort }
    }

    /// The span, to pass as the parent of operations inside it.
    pub const fn span(&self) -> Option<&Arc<dyn Span>> {
        self.span.as_ref()
    }

    /// True if the caller has aborted the operation.
    pub fn is_aborted(&self) -> bool {
        self.abort.as_ref().is_some_and(CancellationToken::is_cancelled)
    }

    /// Records that the first chunk of a streamed response arrived.
    pub fn first_chunk(&self) {
        if let Some(span) = &self.span {
            span.first_chunk();
        }
    }

    /// Ends the span with `outcome`.
    pub fn end(mut self, outcome: &dyn Outcome) {
        if let Some(span) = self.span.take() {
            span.end(outcome);
        }
    }
}

impl Drop for SpanGuard {
    fn drop(&mut self) {
        let Some(span) = self.span.take() else { return };
        let outcome: &dyn Outcome = if self.is_aborted() { &Aborted } else { &Dropped };
        span.end(outcome);
    }
}

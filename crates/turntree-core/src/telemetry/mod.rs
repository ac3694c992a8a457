//! Telemetry port: operations report spans to a [`Tracer`]; the application decides where spans go.
//!
//! Every layer that emits spans describes its operations as [`Operation`] and their results as [`Outcome`]. Attribute
//! names (OpenTelemetry's semantic conventions) belong to the layer that emits them; this module defines only the
//! values. Attributes are computed when the tracer requests them, so an operation without a tracer costs nothing.
//!
//! The parent of a span is an argument, not a thread-local "current span": a future may be polled on any thread and
//! dropped at any point.
//!
//! | item | purpose |
//! |---|---|
//! | [`Tracer`], [`Span`] | implemented by the application, by the Python bindings and by [`TracingTracer`] |
//! | [`Operation`], [`Outcome`] | implemented by the layers that emit spans |
//! | [`SpanGuard`] | ends a span exactly once, also when a future is dropped |
//!
//! Spec: UAP-1.0 §8.4

mod guard;
mod tracing;

use std::any::Any;
use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

pub use self::guard::SpanGuard;
pub use self::tracing::TracingTracer;

/// Creates spans.
///
/// Methods are called on the thread that polls the operation. They must not block and cannot fail: a tracer handles
/// its own errors.
pub trait Tracer: Send + Sync {
    /// Starts a span as a child of `parent`. Without a parent, the tracer chooses one, for example the span that was
    /// current when the tracer was created.
    fn start(&self, operation: &dyn Operation, parent: Option<&Arc<dyn Span>>) -> Arc<dyn Span>;
}

/// An operation in progress.
///
/// `Any` is a supertrait so that a tracer can recognize its own spans when it receives one as a parent.
pub trait Span: Any + Debug + Send + Sync {
    /// Records that the first chunk of a streamed response arrived.
    fn first_chunk(&self) {}

    /// Records an exception that application code raised during the operation. [`Span::end`] follows.
    fn record_exception(&self, _exception: &Exception<'_>) {}

    /// Ends the span. Called exactly once, also when the operation's future is dropped; see [`SpanGuard`].
    fn end(&self, outcome: &dyn Outcome);
}

/// Describes an operation when its span starts.
pub trait Operation {
    /// The name of the span, for example `chat gpt-5`.
    fn name(&self) -> Cow<'_, str>;

    /// The kind of the span. Default: [`SpanKind::Internal`].
    fn kind(&self) -> SpanKind {
        SpanKind::Internal
    }

    /// True if spans that start later without a parent belong inside this one. Default: false.
    fn is_root(&self) -> bool {
        false
    }

    /// Attributes without message content.
    fn attributes(&self) -> Attributes<'_>;

    /// Attributes with message content, for tracers that are configured to record it. Default: none.
    fn content(&self) -> Attributes<'_> {
        Attributes::new()
    }
}

/// Describes the result of an operation when its span ends.
pub trait Outcome {
    /// Attributes without message content. Default: none.
    fn attributes(&self) -> Attributes<'_> {
        Attributes::new()
    }

    /// Attributes with message content, for tracers that are configured to record it. Default: none.
    fn content(&self) -> Attributes<'_> {
        Attributes::new()
    }

    /// The error if the operation failed. An abort by the caller is not an error. Default: none.
    fn failure(&self) -> Option<SpanFailure<'_>> {
        None
    }
}

/// Success without attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completed;

impl Outcome for Completed {}

/// The caller aborted the operation. The attribute `turntree.aborted` is true; the span is not marked as failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aborted;

impl Outcome for Aborted {
    fn attributes(&self) -> Attributes<'_> {
        vec![("turntree.aborted", AttributeValue::Bool(true))]
    }
}

/// The operation's future was dropped before it completed. The span is marked as failed with `CANCELLED`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped;

impl Outcome for Dropped {
    fn failure(&self) -> Option<SpanFailure<'_>> {
        Some(SpanFailure { kind: "CANCELLED", message: "the caller dropped the operation", exception: None })
    }
}

/// OpenTelemetry's span kinds that this package uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum SpanKind {
    /// Work inside this process.
    #[default]
    Internal,
    /// A request to a remote service.
    Client,
}

/// The error status of a span.
#[derive(Debug, Clone, Copy)]
pub struct SpanFailure<'a> {
    /// The value of `error.type`; low cardinality.
    pub kind: &'a str,
    /// The status description.
    pub message: &'a str,
    /// The host language's exception, if the failure is one. The tracer downcasts it.
    pub exception: Option<&'a (dyn Any + Send + Sync)>,
}

/// An exception that application code raised.
#[derive(Debug, Clone, Copy)]
pub struct Exception<'a> {
    /// The type's name, for example `ValueError`.
    pub type_name: &'a str,
    /// The message.
    pub message: &'a str,
    /// The host language's exception object, if there is one. The tracer downcasts it.
    pub object: Option<&'a (dyn Any + Send + Sync)>,
}

/// Attributes of a span: name and value.
pub type Attributes<'a> = Vec<(&'static str, AttributeValue<'a>)>;

/// The value of a span attribute; the types are those of OpenTelemetry.
#[derive(Debug, Clone, PartialEq)]
pub enum AttributeValue<'a> {
    /// A string.
    String(Cow<'a, str>),
    /// A 64-bit integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// A list of strings.
    Strings(Vec<Cow<'a, str>>),
}

impl<'a> From<&'a str> for AttributeValue<'a> {
    fn from(text: &'a str) -> Self {
        Self::String(Cow::Borrowed(text))
    }
}

impl From<String> for AttributeValue<'_> {
    fn from(text: String) -> Self {
        Self::String(Cow::Owned(text))
    }
}

/// Numbers above `i64::MAX` become `i64::MAX`.
impl From<u64> for AttributeValue<'_> {
    fn from(number: u64) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<f64> for AttributeValue<'_> {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl From<bool> for AttributeValue<'_> {
    fn from(flag: bool) -> Self {
        Self::Bool(flag)
    }
}

//! OpenTelemetry spans, created by `turntree._tracing`. That module is imported only if tracing may be enabled.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use crate::prelude::*;
use pyo3::intern;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyInt, PyList};

use crate::bridge::context::CallerContext;
use crate::bridge::gil;
use crate::python_exception::Raised;
use turntree_core::telemetry::{
    AttributeValue, Attributes, Exception, Operation, Outcome, Span, SpanKind, Tracer,
};

/// The loggers whose records replace spans without OpenTelemetry, with their levels: DEBUG for spans, INFO for requests.
const LOGGERS: [(&str, u8); 2] = [("turntree.tracing", 10), ("turntree.requests", 20)];

/// Traces one run through a `turntree._tracing.Recorder`.
pub(crate) struct PyTracer {
    recorder: Py<PyAny>,
    content: bool,
    /// The span of the run, the parent of spans that hooks start.
    run: OnceLock<Arc<dyn Span>>,
}

impl PyTracer {
    /// Returns `caller` with a span as the current span; without one, with the span of the run.
    pub(crate) fn within(
        &self,
        py: Python<'_>,
        span: Option<&Arc<dyn Span>>,
        caller: CallerContext,
    ) -> CallerContext {
        match span.or_else(|| self.run.get()) {
            Some(span) => PySpan::enter(py, span, caller),
            None => caller,
        }
    }

    /// Returns the tracer of a run that was started at `caller`, or of the current context. Costs a few lookups without
    /// OpenTelemetry and with a disabled logger.
    pub(crate) fn of(py: Python<'_>, caller: Option<&CallerContext>) -> Option<Arc<Self>> {
        report_error(py, Self::find(py, caller)).flatten()
    }

    fn find(py: Python<'_>, caller: Option<&CallerContext>) -> PyResult<Option<Arc<Self>>> {
        static RECORDER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        if !may_trace(py)? {
            return Ok(None);
        }
        let start = RECORDER.import(py, "turntree._tracing", "recorder")?;
        // The span that was current at the start of the run becomes the parent.
        let recorder = caller.map_or_else(|| start.call0(), |caller| caller.run(start))?;
        if recorder.is_none() {
            return Ok(None);
        }
        let content = recorder.getattr(intern!(py, "content"))?.extract()?;
        Ok(Some(Arc::new(Self { recorder: recorder.unbind(), content, run: OnceLock::new() })))
    }

    fn start_span(
        &self,
        py: Python<'_>,
        operation: &dyn Operation,
        parent: Option<&Arc<dyn Span>>,
    ) -> PyResult<Py<PyAny>> {
        let attributes = dict(py, operation.attributes())?;
        if self.content {
            fill(&attributes, operation.content())?;
        }
        let parent = parent.and_then(|parent| PySpan::of(parent)).map(|parent| parent.span.bind(py));
        let arguments = (operation.name(), operation.kind() == SpanKind::Client, attributes, parent);
        Ok(self.recorder.bind(py).call_method1(intern!(py, "begin"), arguments)?.unbind())
    }
}

impl Tracer for PyTracer {
    fn start(&self, operation: &dyn Operation, parent: Option<&Arc<dyn Span>>) -> Arc<dyn Span> {
        // Spans without a parent belong to the run.
        let parent = parent.or_else(|| self.run.get());
        let started = gil::if_held(|py| report_error(py, self.start_span(py, operation, parent))).flatten();
        let span: Arc<dyn Span> = match started {
            Some(span) => Arc::new(PySpan { span, content: self.content }),
            None => Arc::new(NoSpan),
        };
        if operation.is_root() {
            // Only the first one is the span of the run.
            let _first = self.run.set(Arc::clone(&span));
        }
        span
    }
}

/// A `turntree._tracing.Span`.
#[derive(Debug)]
pub(crate) struct PySpan {
    span: Py<PyAny>,
    content: bool,
}

impl PySpan {
    fn of(span: &Arc<dyn Span>) -> Option<&Self> {
        let span: &dyn std::any::Any = &**span;
        span.downcast_ref()
    }

    /// Returns `caller` with this span as the current span. The variable is set in a private copy of the context, so it is
    /// never reset.
    fn enter(py: Python<'_>, span: &Arc<dyn Span>, caller: CallerContext) -> CallerContext {
        let Some(span) = Self::of(span) else { return caller };
        let entered = || {
            let inside = caller.forked(py)?;
            inside.run(&span.span.bind(py).getattr(intern!(py, "attach"))?)?;
            Ok(inside)
        };
        report_error(py, entered()).unwrap_or(caller)
    }

    fn finish(&self, py: Python<'_>, outcome: &dyn Outcome) -> PyResult<()> {
        let attributes = dict(py, outcome.attributes())?;
        if self.content {
            fill(&attributes, outcome.content())?;
        }
        let failure = outcome.failure();
        let exception = failure.and_then(|failure| failure.exception?.downcast_ref::<Raised>());
        let failure = failure.map(|failure| (failure.kind, failure.message));
        let exception = exception.map(|raised| raised.value(py));
        self.span.bind(py).call_method1(intern!(py, "end"), (attributes, failure, exception)).map(drop)
    }
}

impl Span for PySpan {
    fn first_chunk(&self) {
        gil::if_held(|py| {
            report_error(py, self.span.bind(py).call_method0(intern!(py, "first_chunk")));
        });
    }

    fn record_exception(&self, exception: &Exception<'_>) {
        let raised = exception.object.and_then(|object| object.downcast_ref::<Raised>());
        gil::if_held(|py| {
            let arguments = (exception.type_name, exception.message, raised.map(|raised| raised.value(py)));
            report_error(py, self.span.bind(py).call_method1(intern!(py, "failed"), arguments));
        });
    }

    fn end(&self, outcome: &dyn Outcome) {
        gil::if_held(|py| report_error(py, self.finish(py, outcome)));
    }
}

/// A span that could not be started.
#[derive(Debug)]
struct NoSpan;

impl Span for NoSpan {
    fn end(&self, _outcome: &dyn Outcome) {}
}

/// Reports errors of tracing on stderr; the run continues.
fn report_error<T>(py: Python<'_>, outcome: PyResult<T>) -> Option<T> {
    outcome.map_err(|error| error.write_unraisable(py, None)).ok()
}

fn may_trace(py: Python<'_>) -> PyResult<bool> {
    static MODULES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    static FOUND: PyOnceLock<Vec<Logger>> = PyOnceLock::new();
    let modules = MODULES.get_or_try_init(py, || {
        Ok::<_, PyErr>(py.import("sys")?.getattr("modules")?.cast_into::<PyDict>()?.unbind())
    })?;
    let modules = modules.bind(py);
    // Modules whose import means that tracing may be enabled.
    let tracing_modules = [
        intern!(py, "opentelemetry.trace"),
        intern!(py, "opentelemetry.metrics"),
        intern!(py, "turntree.tracing"),
    ];
    for module in tracing_modules {
        if modules.contains(module)? {
            return Ok(true);
        }
    }
    if !modules.contains(intern!(py, "logging"))? {
        return Ok(false);
    }
    let loggers = FOUND.get_or_try_init(py, || {
        let get_logger = py.import("logging")?.getattr("getLogger")?;
        let mut loggers = Vec::with_capacity(LOGGERS.len());
        for (name, level) in LOGGERS {
            loggers.push(Logger::new(&get_logger.call1((name,))?, level)?);
        }
        Ok::<_, PyErr>(loggers)
    })?;
    for logger in loggers {
        if logger.is_enabled(py)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A logger, with the level of the records that it gets.
struct Logger {
    object: Py<PyAny>,
    level: Py<PyInt>,
    /// What a logger of the standard library remembers of its answers by level. It empties this dict when a level changes.
    answers: Option<Py<PyDict>>,
}

impl Logger {
    fn new(logger: &Bound<'_, PyAny>, level: u8) -> PyResult<Self> {
        let py = logger.py();
        let is_standard = logger.get_type().is(&py.import("logging")?.getattr("Logger")?);
        let answers = if is_standard { logger.getattr_opt("_cache")? } else { None };
        Ok(Self {
            object: logger.clone().unbind(),
            level: level.into_pyobject(py)?.unbind(),
            answers: answers.and_then(|answers| Some(answers.cast_into_exact::<PyDict>().ok()?.unbind())),
        })
    }

    /// What `logger.isEnabledFor(level)` returns. Runs no Python code for a logger of the standard library that has
    /// answered "no" before, as most have.
    fn is_enabled(&self, py: Python<'_>) -> PyResult<bool> {
        let level = self.level.bind(py);
        if let Some(answers) = &self.answers
            && let Some(answer) = answers.bind(py).get_item(level)?
            && !answer.is_truthy()?
        {
            return Ok(false);
        }
        self.object.bind(py).call_method1(intern!(py, "isEnabledFor"), (level,))?.is_truthy()
    }
}

fn dict<'py>(py: Python<'py>, attributes: Attributes<'_>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    fill(&dict, attributes)?;
    Ok(dict)
}

fn fill(dict: &Bound<'_, PyDict>, attributes: Attributes<'_>) -> PyResult<()> {
    for (name, value) in attributes {
        match value {
            AttributeValue::String(text) => dict.set_item(name, text)?,
            AttributeValue::Int(number) => dict.set_item(name, number)?,
            AttributeValue::Float(number) => dict.set_item(name, number)?,
            AttributeValue::Bool(flag) => dict.set_item(name, flag)?,
            AttributeValue::Strings(texts) => {
                dict.set_item(name, PyList::new(dict.py(), texts.iter().map(Cow::as_ref))?)?;
            }
        }
    }
    Ok(())
}

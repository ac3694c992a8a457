//! The middlewares that come with turntree, as Python objects.

use std::sync::Arc;

use crate::prelude::*;

use super::persistence::PyAdapter;
use super::pubsub::MemoryPubsub;
use crate::bridge::callbacks::{Callbacks, PyCallback};
use crate::bridge::gc::garbage_collected;
use crate::bridge::gil;
use crate::error::{choose, function as function_argument, not_constructible};
use crate::to_python::ToPython;
use turntree_core::json::RawObject;
use turntree_upp::middleware::{
    Level, Logging, Middleware as CoreMiddleware, ParsedObject, Persistence, Pubsub,
};

/// A built-in middleware: the result of `logging`, `parsed_object`, `persistence` or `pubsub`.
#[pyclass(frozen, weakref, module = "turntree.upp.middleware")]
pub(crate) struct Middleware {
    core: Arc<dyn CoreMiddleware>,
    held: Callbacks,
}

impl Middleware {
    pub(super) fn core(&self) -> Arc<dyn CoreMiddleware> {
        Arc::clone(&self.core)
    }
}

not_constructible!(Middleware, "write middleware.logging() or another function of turntree.upp.middleware");

#[pymethods]
impl Middleware {
    /// Log calls with a function of level, message and data.
    #[staticmethod]
    #[pyo3(signature = (*, level, logger, prefix, log_stream_events, log_tool_calls, log_contents))]
    fn logging(
        level: &str,
        logger: &Bound<'_, PyAny>,
        prefix: String,
        log_stream_events: bool,
        log_tool_calls: bool,
        log_contents: bool,
    ) -> PyResult<Self> {
        let function = PyCallback::new(function_argument(logger, "logger")?)?;
        let sink = Arc::clone(&function);
        let write = move |level: Level, message: &str, data: &RawObject| {
            let written = gil::if_held(|py| -> PyResult<()> {
                sink.bound(py)?.call1((level.as_str(), message, data.to_python(py)?))?;
                Ok(())
            });
            if let Some(Err(error)) = written {
                // A failing logger must not end the call.
                gil::if_held(|py| error.write_unraisable(py, None));
            }
        };
        let mut core = Logging::new(Arc::new(write));
        core.level = choose("level", level, &Level::ALL, Level::as_str)?;
        core.prefix = prefix;
        core.stream_events = log_stream_events;
        core.tool_calls = log_tool_calls;
        core.contents = log_contents;
        Ok(Self {
            core: Arc::new(core),
            held: Callbacks { functions: vec![function], ..Callbacks::default() },
        })
    }

    /// Parse the partial JSON of a stream and add it to the events.
    #[staticmethod]
    #[pyo3(signature = (*, parse_objects, parse_tool_calls))]
    fn parsed_object(parse_objects: bool, parse_tool_calls: bool) -> Self {
        let core = ParsedObject { objects: parse_objects, tool_calls: parse_tool_calls };
        Self { core: Arc::new(core), held: Callbacks::default() }
    }

    /// Save a conversation in a store.
    #[staticmethod]
    fn persistence(adapter: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut held = Callbacks::default();
        let adapter = PyAdapter::new(adapter, &mut held)?;
        Ok(Self { core: Arc::new(Persistence::new(Arc::new(adapter))), held })
    }

    /// Publish the events of streams to subscribers.
    #[staticmethod]
    #[pyo3(signature = (adapter, stream_id))]
    fn pubsub(adapter: &Bound<'_, MemoryPubsub>, stream_id: Option<String>) -> Self {
        let core = Pubsub::new(adapter.get().core().clone(), stream_id.map(Into::into));
        Self { core: Arc::new(core), held: Callbacks::default() }
    }

    fn __repr__(&self) -> String {
        format!("Middleware({:?})", self.core)
    }
}

garbage_collected!(Middleware: held);

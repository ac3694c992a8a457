//! A Python object as a middleware: calls its functions by name.

use std::fmt;
use std::sync::{Arc, Mutex};

use crate::prelude::*;
use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::intern;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::context::CallContext;
use crate::bridge::callbacks::{Callbacks, PyCallback};
use crate::bridge::gc::GcRoots;
use crate::bridge::gil::{self, lock};
use crate::data::extract;
use crate::python_exception::Raised;
use crate::records::wrap_turn;
use crate::stream_events::StreamEvent;
use crate::to_python::ToPython;
use turntree_core::json::RawJson;
use turntree_core::message::{StreamEvent as CoreEvent, ToolDefinition, Turn};
use turntree_upp::middleware::hooks::HookFuture;
use turntree_upp::middleware::{CallContext as CoreContext, Emitted, Hooks, Middleware};
use turntree_upp::{ErrorCode, UppError};

/// The hooks by name.
pub(super) const HOOKS: [(&str, Hooks); 11] = [
    ("on_start", Hooks::START),
    ("on_request", Hooks::REQUEST),
    ("on_response", Hooks::RESPONSE),
    ("on_turn", Hooks::TURN),
    ("on_end", Hooks::END),
    ("on_error", Hooks::ERROR),
    ("on_abort", Hooks::ABORT),
    ("on_stream_event", Hooks::STREAM_EVENT),
    ("on_stream_end", Hooks::STREAM_END),
    ("on_tool_call", Hooks::TOOL_CALL),
    ("on_tool_result", Hooks::TOOL_RESULT),
];

/// The functions of one object.
pub(super) struct Functions {
    by_name: Vec<(&'static str, Arc<PyCallback>)>,
    hooks: Hooks,
    /// The object's type, for messages.
    of: String,
}

impl Functions {
    /// The hooks of an object. Adds them to `held`, for the garbage collector.
    ///
    /// # Errors
    /// `TypeError` for a hook that is not a function, and for an async `on_stream_event`.
    pub(super) fn of(object: &Bound<'_, PyAny>, held: &mut Callbacks) -> PyResult<Self> {
        let of = object.get_type().name()?.to_string();
        let mut functions = Self { by_name: Vec::new(), hooks: Hooks::empty(), of };
        for (name, flag) in HOOKS {
            let Some(hook) = object.getattr_opt(name)?.filter(|hook| !hook.is_none()) else { continue };
            if !hook.is_callable() {
                let found = hook.get_type().name()?;
                let words = format!("{name} of {} must be a function, not {found}", functions.of);
                return Err(PyTypeError::new_err(words));
            }
            let function = PyCallback::new(&hook)?;
            if flag == Hooks::STREAM_EVENT && function.is_async() {
                let words =
                    format!("{name} of {} must not be async: it is called for every event", functions.of);
                return Err(PyTypeError::new_err(words));
            }
            held.functions.push(Arc::clone(&function));
            functions.by_name.push((name, function));
            functions.hooks |= flag;
        }
        Ok(functions)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    fn get(&self, name: &str) -> Option<&Arc<PyCallback>> {
        self.by_name.iter().find(|(known, _)| *known == name).map(|(_, function)| function)
    }
}

/// Index of the context's Python object among the roots of the call. The first hook creates it.
pub(super) type Handle = Arc<Mutex<Option<usize>>>;

/// One Python middleware in one call.
pub(super) struct PyMiddleware {
    pub(super) functions: Arc<Functions>,
    pub(super) kept: GcRoots,
    pub(super) handle: Handle,
}

impl fmt::Debug for PyMiddleware {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.functions.of)
    }
}

impl PyMiddleware {
    /// The Python object of the context, the same for all hooks of the call.
    fn context<'py>(&self, py: Python<'py>, context: &Arc<CoreContext>) -> PyResult<Bound<'py, CallContext>> {
        let index = *lock(&self.handle);
        if let Some(index) = index
            && let Ok(handle) = self.kept.get(py, index)
        {
            return Ok(handle.cast_into::<CallContext>()?);
        }
        let handle = Bound::new(py, CallContext::new(Arc::clone(context)))?;
        let index = self.kept.add(handle.clone().into_any().unbind());
        *lock(&self.handle) = Some(index);
        Ok(handle)
    }

    /// Calls a hook. Its changes to the request take effect when it has ended.
    fn hook<'a>(
        &'a self,
        name: &'static str,
        context: &'a Arc<CoreContext>,
        arguments: impl FnOnce(Python<'_>) -> PyResult<Vec<Py<PyAny>>>,
    ) -> HookFuture<'a> {
        let started = gil::require_held(|py| {
            let Some(function) = self.functions.get(name) else { return Ok(None) };
            let mut positional = arguments(py)?;
            positional.push(self.context(py, context)?.into_any().unbind());
            function.call(py, PyTuple::new(py, positional)?.unbind()).map(Some)
        });
        Box::pin(async move {
            let outcome = match started {
                Ok(Some(call)) => call.await.map(drop),
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            let settled = gil::require_held(|py| {
                let settled = outcome.and_then(|()| self.context(py, context)?.get().settle(py));
                Ok(settled.map_err(|error| hook_error(py, name, error, context)))
            });
            settled.unwrap_or_else(|error| Err(away_from_python(&error, context)))
        })
    }

    /// As [`Self::hook`], for hooks whose errors are only logged.
    fn last_hook<'a>(
        &'a self,
        name: &'static str,
        error: &'a UppError,
        context: &'a Arc<CoreContext>,
    ) -> HookFuture<'a> {
        let hook = self.hook(name, context, |py| {
            Ok(vec![crate::upp::error::to_exception(py, error).into_value(py).into_any()])
        });
        Box::pin(async move {
            if let Err(failure) = hook.await {
                let logged = gil::require_held(|py| log_failure(py, &self.functions.of, name, &failure));
                drop(logged);
            }
            Ok(())
        })
    }

    fn event(&self, event: CoreEvent, context: &Arc<CoreContext>) -> Result<Emitted, UppError> {
        const NAME: &str = "on_stream_event";
        let Some(function) = self.functions.get(NAME) else { return Ok(Emitted::One(event)) };
        let passed = gil::require_held(|py| {
            let passed = self
                .context(py, context)
                .and_then(|handle| function.bound(py)?.call1((event.to_python(py)?, handle)))
                .and_then(|given| emitted(&given));
            Ok(passed.map_err(|error| hook_error(py, NAME, error, context)))
        });
        passed.unwrap_or_else(|error| Err(away_from_python(&error, context)))
    }
}

/// Reads an event, a list of events, or None.
fn emitted(given: &Bound<'_, PyAny>) -> PyResult<Emitted> {
    if given.is_none() {
        return Ok(Emitted::Nothing);
    }
    let read = |event: &Bound<'_, PyAny>| -> PyResult<CoreEvent> {
        Ok(Arc::unwrap_or_clone(extract::<StreamEvent>(event, "the event of on_stream_event")?))
    };
    if given.is_instance_of::<PyList>() || given.is_instance_of::<PyTuple>() {
        let events = given.try_iter()?.map(|event| read(&event?));
        return events.collect::<PyResult<Vec<_>>>().map(Emitted::Many);
    }
    if given.is_instance_of::<StreamEvent>() || given.is_instance_of::<PyDict>() {
        return read(given).map(Emitted::One);
    }
    let found = given.get_type().name()?;
    let words = format!("on_stream_event must return a StreamEvent, a list of them, or None, not {found}");
    Err(PyTypeError::new_err(words))
}

/// The exception of a hook as the error of the call, which raises the same object. An exception that is not an
/// `Exception` (such as `KeyboardInterrupt`) cancels the call.
fn hook_error(py: Python<'_>, hook: &str, raised: PyErr, context: &CoreContext) -> UppError {
    let value = raised.value(py);
    if crate::upp::error::is_upp_error(py, &raised) {
        let error = crate::upp::error::from_exception(py, raised);
        return UppError { modality: context.modality, ..error };
    }
    let is_exception = value.is_instance_of::<PyException>();
    let code = if is_exception { ErrorCode::InvalidRequest } else { ErrorCode::Cancelled };
    let name = value.get_type().name().map_or_else(|_| "Exception".to_owned(), |name| name.to_string());
    let words = value.str().map(|words| words.to_string()).unwrap_or_default();
    // The error message of a tool hook goes to the model, so it contains only the text.
    let message = match (hook, words.is_empty()) {
        ("on_tool_call" | "on_tool_result", false) => words,
        ("on_tool_call" | "on_tool_result", true) => name,
        _ => format!("{hook} of a middleware raised {name}: {words}"),
    };
    let error = UppError::new(code, &*context.provider, message);
    UppError { modality: context.modality, host: Some(Arc::new(Raised::new(py, raised))), ..error }
}

fn away_from_python(error: &PyErr, context: &CoreContext) -> UppError {
    UppError::invalid_request(&*context.provider, error.to_string())
}

/// Logs the error of a final hook to Python's logger `turntree`.
fn log_failure(py: Python<'_>, of: &str, hook: &str, failure: &UppError) -> PyResult<()> {
    let logger = py.import("logging")?.call_method1("getLogger", ("turntree",))?;
    let exception = crate::upp::error::to_exception(py, failure).into_value(py);
    let options = PyDict::new(py);
    options.set_item("exc_info", exception)?;
    logger.call_method(intern!(py, "error"), ("%s of %s failed", hook, of), Some(&options))?;
    Ok(())
}

/// The definition of a tool as plain data.
fn tool_of(py: Python<'_>, tool: &ToolDefinition) -> PyResult<Py<PyAny>> {
    let raw = RawJson::from_value(tool).map_err(|error| crate::convert::error::serialization(py, &error))?;
    Ok(raw.to_python(py)?.unbind())
}

impl Middleware for PyMiddleware {
    fn hooks(&self) -> Hooks {
        self.functions.hooks
    }

    fn on_start<'a>(&'a self, context: &'a Arc<CoreContext>) -> HookFuture<'a> {
        self.hook("on_start", context, |_| Ok(Vec::new()))
    }

    fn on_request<'a>(&'a self, context: &'a Arc<CoreContext>) -> HookFuture<'a> {
        self.hook("on_request", context, |_| Ok(Vec::new()))
    }

    fn on_response<'a>(&'a self, context: &'a Arc<CoreContext>) -> HookFuture<'a> {
        self.hook("on_response", context, |_| Ok(Vec::new()))
    }

    fn on_turn<'a>(&'a self, turn: &'a Arc<Turn>, context: &'a Arc<CoreContext>) -> HookFuture<'a> {
        self.hook("on_turn", context, |py| Ok(vec![wrap_turn(py, Arc::clone(turn))?]))
    }

    fn on_end<'a>(&'a self, context: &'a Arc<CoreContext>) -> HookFuture<'a> {
        self.hook("on_end", context, |_| Ok(Vec::new()))
    }

    fn on_error<'a>(&'a self, error: &'a UppError, context: &'a Arc<CoreContext>) -> HookFuture<'a> {
        self.last_hook("on_error", error, context)
    }

    fn on_abort<'a>(&'a self, error: &'a UppError, context: &'a Arc<CoreContext>) -> HookFuture<'a> {
        self.last_hook("on_abort", error, context)
    }

    fn on_stream_event(&self, event: CoreEvent, context: &Arc<CoreContext>) -> Result<Emitted, UppError> {
        self.event(event, context)
    }

    fn on_stream_end<'a>(&'a self, context: &'a Arc<CoreContext>) -> HookFuture<'a> {
        self.hook("on_stream_end", context, |_| Ok(Vec::new()))
    }

    fn on_tool_call<'a>(
        &'a self,
        tool: &'a ToolDefinition,
        params: &'a RawJson,
        context: &'a Arc<CoreContext>,
    ) -> HookFuture<'a> {
        self.hook("on_tool_call", context, |py| Ok(vec![tool_of(py, tool)?, params.to_python(py)?.unbind()]))
    }

    fn on_tool_result<'a>(
        &'a self,
        tool: &'a ToolDefinition,
        result: &'a RawJson,
        context: &'a Arc<CoreContext>,
    ) -> HookFuture<'a> {
        self.hook("on_tool_result", context, |py| {
            Ok(vec![tool_of(py, tool)?, result.to_python(py)?.unbind()])
        })
    }
}

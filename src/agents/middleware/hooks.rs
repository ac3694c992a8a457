//! Python objects as middleware of agents.

use std::fmt;
use std::sync::Arc;

use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use super::builtin::AgentMiddleware;
use super::context::MiddlewareContext;
use crate::agents::host::PyHost;
use crate::agents::host_conversions::host_error;
use crate::agents::stream::AgentStreamEvent;
use crate::bridge::call::Call;
use crate::bridge::callbacks::{Callbacks, PyCallback};
use crate::bridge::gil;
use crate::data::extract;
use crate::python_exception::Raised;
use crate::records::Turn as PyTurn;
use crate::thread::history_from;
use crate::upp::middleware::cleanup::PyCleanupExecutor;
use crate::upp::request::ModelRequest as PyModelRequest;
use turntree_agents::middleware::{
    AgentMiddlewareStack, HookFuture, Hooks, Middleware, MiddlewareContext as CoreContext,
};
use turntree_agents::types::AgentStreamEvent as CoreEvent;
use turntree_core::message::Turn;
use turntree_core::message::message::History;
use turntree_upp::{ErrorCode, ModelRequest, UppError};

/// The hooks by name.
const HOOKS: [(&str, Hooks); 5] = [
    ("before", Hooks::BEFORE),
    ("after", Hooks::AFTER),
    ("on_error", Hooks::ERROR),
    ("on_event", Hooks::EVENT),
    ("on_model_request", Hooks::MODEL_REQUEST),
];

/// The middlewares of an agent, in order. `held` shows their functions to the garbage collector.
///
/// # Errors
/// `TypeError` if the value is not a list, an object has no hook, or a hook is not a function.
pub(crate) fn middleware_from(
    middleware: &Bound<'_, PyAny>,
    held: &mut Callbacks,
) -> PyResult<AgentMiddlewareStack> {
    let items = middleware.try_iter().map_err(|_| {
        PyTypeError::new_err("middleware must be a list of middlewares; put a single one into brackets")
    })?;
    let mut list: Vec<Arc<dyn Middleware>> = Vec::new();
    for (place, item) in items.enumerate() {
        let item = item?;
        if let Ok(ours) = item.cast::<AgentMiddleware>() {
            held.objects.push(item.clone().unbind());
            list.push(ours.get().core());
        } else {
            list.push(Arc::new(PyMiddleware::of(&item, place, held)?));
        }
    }
    Ok(list.into_iter().collect::<AgentMiddlewareStack>().with_cleanup(Arc::new(PyCleanupExecutor)))
}

/// The functions of one object.
struct PyMiddleware {
    name: String,
    by_name: Vec<(&'static str, Arc<PyCallback>)>,
    hooks: Hooks,
}

impl fmt::Debug for PyMiddleware {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)
    }
}

impl PyMiddleware {
    fn of(object: &Bound<'_, PyAny>, place: usize, held: &mut Callbacks) -> PyResult<Self> {
        let type_name = object.get_type().name()?.to_string();
        let name = match object.getattr_opt("name")? {
            Some(name) if name.is_instance_of::<PyString>() => name.extract()?,
            Some(name) if !name.is_none() => {
                let found = name.get_type().name()?;
                let words = format!("middleware[{place}].name must be a str, not {found}");
                return Err(PyTypeError::new_err(words));
            }
            _ => type_name.clone(),
        };
        let mut middleware = Self { name, by_name: Vec::new(), hooks: Hooks::empty() };
        for (hook, flag) in HOOKS {
            let Some(function) = object.getattr_opt(hook)?.filter(|hook| !hook.is_none()) else { continue };
            if !function.is_callable() {
                let found = function.get_type().name()?;
                let words = format!("{hook} of middleware[{place}] must be a function, not {found}");
                return Err(PyTypeError::new_err(words));
            }
            let function = PyCallback::new(&function)?;
            held.functions.push(Arc::clone(&function));
            middleware.by_name.push((hook, function));
            middleware.hooks |= flag;
        }
        if middleware.by_name.is_empty() {
            let words = format!(
                "middleware[{place}] has none of the hooks; {type_name} must have one of {}",
                HOOKS.map(|(name, _)| name).join(", ")
            );
            return Err(PyTypeError::new_err(words));
        }
        Ok(middleware)
    }

    /// Starts a hook: its arguments are the context, and what `argument` makes.
    fn start(
        &self,
        name: &'static str,
        context: &Arc<CoreContext>,
        argument: impl FnOnce(Python<'_>, &PyHost) -> PyResult<Option<Py<PyAny>>>,
    ) -> PyResult<Call> {
        let lost = || PyTypeError::new_err("the run of this middleware is over");
        let host = context.host().ok_or_else(lost)?;
        let host = host.as_any().and_then(|host| host.downcast_ref::<PyHost>()).ok_or_else(lost)?;
        let function = self.by_name.iter().find(|(known, _)| *known == name).map(|(_, function)| function);
        let function = function.ok_or_else(lost)?;
        gil::require_held(|py| {
            let mut arguments = vec![python_context(py, host, context)?.unbind()];
            arguments.extend(argument(py, host)?);
            let arguments = PyTuple::new(py, arguments)?.unbind();
            function.call_from(py, arguments, &host.call_site().caller(py)?)
        })
    }

    /// Awaits a hook and converts its result while the GIL is held.
    async fn hook_result<T>(
        &self,
        name: &'static str,
        context: &Arc<CoreContext>,
        started: PyResult<Call>,
        read: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T> + Send,
    ) -> Result<T, UppError> {
        let value = match started {
            Ok(call) => call.await,
            Err(error) => Err(error),
        };
        let held = gil::require_held(|py| {
            let read = value.and_then(|value| read(value.bind(py)));
            let place = format!("{name} of middleware '{}'", self.name);
            Ok(read.map_err(|error| failed(py, &place, &context.provider, error)))
        });
        held.unwrap_or_else(|error| Err(UppError::invalid_request(&*context.provider, error.to_string())))
    }
}

/// Returns the context that the middleware of a run receives.
fn python_context<'py>(
    py: Python<'py>,
    host: &PyHost,
    context: &Arc<CoreContext>,
) -> PyResult<Bound<'py, PyAny>> {
    host.middleware_context(py, || MiddlewareContext::of(py, host, context))
}

/// Converts an exception of the application's function to an error of the run, which is later raised as the same object. An
/// exception that is not an `Exception`, such as `KeyboardInterrupt`, ends the run immediately.
pub(super) fn failed(py: Python<'_>, place: &str, provider: &str, raised: PyErr) -> UppError {
    if crate::upp::error::is_upp_error(py, &raised) {
        return crate::upp::error::from_exception(py, raised);
    }
    let is_exception = raised.value(py).is_instance_of::<PyException>();
    let error = host_error(py, raised).into_error(place, provider);
    let code = if is_exception { error.code } else { ErrorCode::Cancelled };
    UppError { code, ..error }
}

/// Returns true if an exception such as `KeyboardInterrupt` ended the run. Hooks are not called then.
fn ends_the_process(error: &UppError) -> bool {
    let Some(raised) = error.host.as_deref().and_then(|host| host.downcast_ref::<Raised>()) else {
        return false;
    };
    gil::require_held(|py| Ok(!raised.value(py).is_instance_of::<PyException>())).unwrap_or_default()
}

/// Converts the turn that a hook returns.
fn turn_from(value: &Bound<'_, PyAny>, hook: &str, or_none: &str) -> PyResult<Arc<Turn>> {
    if !value.is_instance_of::<PyTurn>() && !value.is_instance_of::<PyDict>() {
        let found = value.get_type().name()?;
        return Err(PyTypeError::new_err(format!("{hook} must return a Turn{or_none}, not {found}")));
    }
    extract::<PyTurn>(value, &format!("the turn of {hook}"))
}

/// Converts the result of `before`: None, or the context to continue with.
fn context_from(value: &Bound<'_, PyAny>, core: &Arc<CoreContext>) -> PyResult<()> {
    let py = value.py();
    let lost = || PyTypeError::new_err("the run of this middleware is over");
    let host = core.host().ok_or_else(lost)?;
    let host = host.as_any().and_then(|host| host.downcast_ref::<PyHost>()).ok_or_else(lost)?;
    let now = python_context(py, host, core)?;
    if value.is_none() || value.is(&now) {
        return now.cast_into::<MiddlewareContext>()?.get().apply(py);
    }
    let Ok(other) = value.cast::<MiddlewareContext>() else {
        let found = value.get_type().name()?;
        let words = format!(
            "before must return a MiddlewareContext or None, not {found}; make one with context.replace"
        );
        return Err(PyTypeError::new_err(words));
    };
    if let Ok(now) = now.cast::<MiddlewareContext>() {
        now.get().forget();
    }
    other.get().apply(py)?;
    host.set_middleware_context(value.clone().unbind());
    Ok(())
}

/// Converts the result of `on_model_request`: None, or other messages.
fn messages_from(value: &Bound<'_, PyAny>) -> PyResult<Option<History>> {
    if value.is_none() {
        return Ok(None);
    }
    history_from(value, "the messages of on_model_request").map(Some)
}

impl Middleware for PyMiddleware {
    fn name(&self) -> &str {
        &self.name
    }

    fn hooks(&self) -> Hooks {
        self.hooks
    }

    fn before<'a>(&'a self, context: &'a Arc<CoreContext>) -> HookFuture<'a, ()> {
        let started = self.start("before", context, |_, _| Ok(None));
        Box::pin(self.hook_result("before", context, started, |value| context_from(value, context)))
    }

    fn after<'a>(&'a self, context: &'a Arc<CoreContext>, turn: Arc<Turn>) -> HookFuture<'a, Arc<Turn>> {
        let started = self.start("after", context, |py, host| host.turn_to_python(py, turn).map(Some));
        Box::pin(
            self.hook_result("after", context, started, |value| {
                turn_from(value, "after", "; add `return turn`")
            }),
        )
    }

    fn on_error<'a>(
        &'a self,
        context: &'a Arc<CoreContext>,
        error: &'a UppError,
    ) -> HookFuture<'a, Option<Arc<Turn>>> {
        if ends_the_process(error) {
            return Box::pin(std::future::ready(Ok(None)));
        }
        let started = self.start("on_error", context, |py, _| {
            Ok(Some(crate::upp::error::to_exception(py, error).into_value(py).into_any()))
        });
        Box::pin(self.hook_result("on_error", context, started, |value| {
            if value.is_none() { Ok(None) } else { turn_from(value, "on_error", " or None").map(Some) }
        }))
    }

    fn on_event<'a>(&'a self, context: &'a Arc<CoreContext>, event: &'a CoreEvent) -> HookFuture<'a, ()> {
        let started = self.start("on_event", context, |py, _| {
            Ok(Some(Py::new(py, AgentStreamEvent::new(event.clone()))?.into_any()))
        });
        Box::pin(self.hook_result("on_event", context, started, |_| Ok(())))
    }

    fn on_model_request<'a>(
        &'a self,
        context: &'a Arc<CoreContext>,
        request: ModelRequest,
    ) -> HookFuture<'a, ModelRequest> {
        let shown = request.clone();
        let started = self.start("on_model_request", context, |py, _| {
            Ok(Some(Py::new(py, PyModelRequest(shown))?.into_any()))
        });
        let given = self.hook_result("on_model_request", context, started, messages_from);
        Box::pin(async move {
            Ok(match given.await? {
                Some(messages) => ModelRequest { messages, ..request },
                None => request,
            })
        })
    }
}

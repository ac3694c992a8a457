//! Python objects as middleware of agents.

use std::fmt;
use std::sync::Arc;

use crate::prelude::*;
use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::types::{PyString, PyTuple};

use super::builtin::AgentMiddleware;
use super::context::MiddlewareContext;
use crate::agents::events::AgentStreamEvent;
use crate::agents::host::PyHost;
use crate::agents::host_conversions::{host_error, optional_turn_from, turn_from, wrong_result};
use crate::bridge::call::Call;
use crate::bridge::callbacks::{Callbacks, PyCallback};
use crate::bridge::gil;
use crate::convert::text::text_of;
use crate::data::DataClass as _;
use crate::error::{ToException as _, wrong_type};
use crate::python_exception::Raised;
use crate::thread::history_from;
use crate::upp::error::{from_exception, is_upp_error};
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

/// The middlewares of an agent, in order. `callbacks` shows their functions to the garbage collector.
///
/// # Errors
/// `TypeError` if the value is not a list, an object has no hook, or a hook is not a function.
pub(crate) fn middleware_from(
    middleware: &Bound<'_, PyAny>,
    callbacks: &mut Callbacks,
) -> PyResult<AgentMiddlewareStack> {
    let items = middleware.try_iter().map_err(|_| {
        PyTypeError::new_err("middleware must be a list of middlewares; put a single one into brackets")
    })?;
    let mut list: Vec<Arc<dyn Middleware>> = Vec::new();
    for (place, item) in items.enumerate() {
        let item = item?;
        if let Ok(ours) = item.cast::<AgentMiddleware>() {
            callbacks.objects.push(item.clone().unbind());
            list.push(ours.get().core());
        } else {
            list.push(Arc::new(PyMiddleware::of(&item, place, callbacks)?));
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
    fn of(object: &Bound<'_, PyAny>, place: usize, callbacks: &mut Callbacks) -> PyResult<Self> {
        let type_name = object.get_type().name()?.to_string();
        let name = match object.getattr_opt("name")? {
            Some(name) if name.is_instance_of::<PyString>() => {
                text_of(&name, &format!("middleware[{place}].name"))?
            }
            Some(name) if !name.is_none() => {
                return Err(wrong_type(&name, &format!("middleware[{place}].name"), "a str"));
            }
            _ => type_name.clone(),
        };
        let mut middleware = Self { name, by_name: Vec::new(), hooks: Hooks::empty() };
        for (hook, flag) in HOOKS {
            let Some(function) = object.getattr_opt(hook)?.filter(|hook| !hook.is_none()) else { continue };
            if !function.is_callable() {
                let what = format!("{hook} of middleware[{place}]");
                return Err(wrong_type(&function, &what, "a function"));
            }
            let function = PyCallback::new(&function)?;
            callbacks.functions.push(Arc::clone(&function));
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

    /// Calls a hook with the context and an argument, and converts its result.
    fn call<'a, T: Send + 'a>(
        &'a self,
        name: &'static str,
        context: &'a Arc<CoreContext>,
        argument: impl FnOnce(Python<'_>, &PyHost) -> PyResult<Option<Py<PyAny>>>,
        read: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T> + Send + 'a,
    ) -> HookFuture<'a, T> {
        let started = with_host(context, |py, host| {
            let function =
                self.by_name.iter().find(|(known, _)| *known == name).map(|(_, function)| function);
            let function = function.ok_or_else(run_is_over)?;
            let mut arguments = vec![python_context(py, host, context)?.unbind()];
            arguments.extend(argument(py, host)?);
            function.call_from(py, PyTuple::new(py, arguments)?.unbind(), &host.call_site().caller(py)?)
        });
        let place = format!("{name} of middleware '{}'", self.name);
        Box::pin(async move { result_of(started, read, &place, &context.provider).await })
    }
}

fn run_is_over() -> PyErr {
    PyTypeError::new_err("the run of this middleware is over")
}

/// Runs code with the GIL held and the host of the run.
fn with_host<T>(context: &CoreContext, work: impl FnOnce(Python<'_>, &PyHost) -> PyResult<T>) -> PyResult<T> {
    let host = context.host().ok_or_else(run_is_over)?;
    let host = host.as_any().and_then(|host| host.downcast_ref::<PyHost>()).ok_or_else(run_is_over)?;
    gil::require_held(|py| work(py, host))
}

/// Awaits a call and converts its result. `place` names the function in errors.
pub(super) async fn result_of<T>(
    started: PyResult<Call>,
    read: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T> + Send,
    place: &str,
    provider: &str,
) -> Result<T, UppError> {
    let value = async { started?.await }.await;
    with_python(place, provider, |py| read(value?.bind(py)))
}

/// Runs code that needs the GIL and converts its exception with [`failed`].
pub(super) fn with_python<T>(
    place: &str,
    provider: &str,
    work: impl FnOnce(Python<'_>) -> PyResult<T>,
) -> Result<T, UppError> {
    let result = gil::require_held(|py| Ok(work(py).map_err(|error| failed(py, place, provider, error))));
    result.unwrap_or_else(|error| Err(UppError::invalid_request(provider, error.to_string())))
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
fn failed(py: Python<'_>, place: &str, provider: &str, raised: PyErr) -> UppError {
    if is_upp_error(py, &raised) {
        return from_exception(py, raised);
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

/// Converts the result of `before`: None, or the context to continue with.
fn context_from(value: &Bound<'_, PyAny>, core: &Arc<CoreContext>) -> PyResult<()> {
    let py = value.py();
    with_host(core, |_, host| {
        let current = python_context(py, host, core)?.cast_into::<MiddlewareContext>()?;
        if value.is_none() || value.is(&current) {
            return current.get().apply(py);
        }
        let Ok(other) = value.cast::<MiddlewareContext>() else {
            let error = wrong_result(value, "before", "a MiddlewareContext or None");
            let words = format!("{}; make one with context.replace", error.value(py));
            return Err(PyTypeError::new_err(words));
        };
        current.get().forget();
        other.get().apply(py)?;
        host.set_middleware_context(value.clone().unbind());
        Ok(())
    })
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
        self.call("before", context, |_, _| Ok(None), |value| context_from(value, context))
    }

    fn after<'a>(&'a self, context: &'a Arc<CoreContext>, turn: Arc<Turn>) -> HookFuture<'a, Arc<Turn>> {
        let argument = |py: Python<'_>, host: &PyHost| host.turn_to_python(py, turn).map(Some);
        self.call("after", context, argument, |value| turn_from(value, "after", "a Turn; add `return turn`"))
    }

    fn on_error<'a>(
        &'a self,
        context: &'a Arc<CoreContext>,
        error: &'a UppError,
    ) -> HookFuture<'a, Option<Arc<Turn>>> {
        if ends_the_process(error) {
            return Box::pin(std::future::ready(Ok(None)));
        }
        let argument =
            |py: Python<'_>, _: &PyHost| Ok(Some(error.to_exception(py).into_value(py).into_any()));
        self.call("on_error", context, argument, optional_turn_from)
    }

    fn on_event<'a>(&'a self, context: &'a Arc<CoreContext>, event: &'a CoreEvent) -> HookFuture<'a, ()> {
        let argument =
            |py: Python<'_>, _: &PyHost| AgentStreamEvent::wrap(py, Arc::new(event.clone())).map(Some);
        self.call("on_event", context, argument, |_| Ok(()))
    }

    fn on_model_request<'a>(
        &'a self,
        context: &'a Arc<CoreContext>,
        request: ModelRequest,
    ) -> HookFuture<'a, ModelRequest> {
        let copy = request.clone();
        let argument = |py: Python<'_>, _: &PyHost| Ok(Some(Py::new(py, PyModelRequest(copy))?.into_any()));
        let messages = self.call("on_model_request", context, argument, messages_from);
        Box::pin(async move {
            Ok(match messages.await? {
                Some(messages) => ModelRequest { messages, ..request },
                None => request,
            })
        })
    }
}

//! Workflows as servers: `turntree.uaip.serve`, `asgi_app`, `openapi`, and in process.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::prelude::*;
use pyo3::exceptions::PyValueError;
use pyo3::types::PyList;

use super::runner::PyTaskRunner;
use super::workflow::{Functions, WorkflowCore};
use crate::bridge::callbacks::Callbacks;
use crate::convert::json::json_to_python;
use crate::error::value_error;
use crate::server::ApplicationFactory;
use crate::server::asgi::AsgiCore;
use crate::server::event_loop::ServerLoop;
use crate::server::native::{ServeOptions, ServerCore};
use crate::store::store::StoreCore;
use turntree_core::ids::RandomIds;
use turntree_core::time::SystemClock;
use turntree_store::Engine;
use turntree_uaip::{Profile, ServiceOptions, SessionStore, Workflow, WorkflowService};

/// The workflows of a service, and its settings.
#[derive(Clone)]
pub(super) struct Served {
    workflows: Vec<Arc<Workflow>>,
    functions: HashMap<String, Functions>,
    engine: Arc<dyn Engine>,
    options: ServiceOptions,
}

/// The settings that Python passes: the profile, and times in seconds.
#[derive(FromPyObject)]
pub(crate) struct Settings {
    #[pyo3(item)]
    profile: String,
    #[pyo3(item)]
    idle_ttl: f64,
    #[pyo3(item)]
    absolute_ttl: f64,
    #[pyo3(item)]
    queue_depth: usize,
    #[pyo3(item)]
    task_timeout: f64,
}

impl Settings {
    fn options(self) -> PyResult<ServiceOptions> {
        let profile = match self.profile.as_str() {
            "strict" => Profile::Strict,
            "reference" => Profile::Reference,
            other => {
                let message = format!("profile must be \"strict\" or \"reference\", not \"{other}\"");
                return Err(PyValueError::new_err(message));
            }
        };
        Ok(ServiceOptions {
            profile,
            idle_ttl: seconds("idle_ttl", self.idle_ttl)?,
            absolute_ttl: seconds("absolute_ttl", self.absolute_ttl)?,
            queue_depth: self.queue_depth,
            task_timeout: seconds("task_timeout", self.task_timeout)?,
            ..ServiceOptions::default()
        })
    }
}

fn seconds(name: &str, value: f64) -> PyResult<Duration> {
    let duration = Duration::try_from_secs_f64(value).ok().filter(|duration| !duration.is_zero());
    duration.ok_or_else(|| {
        PyValueError::new_err(format!("{name} must be a number of seconds greater than 0, not {value}"))
    })
}

impl Served {
    pub(super) fn new(
        workflows: &[Bound<'_, WorkflowCore>],
        store: &StoreCore,
        settings: Settings,
    ) -> PyResult<Self> {
        for core in workflows {
            core.get().attach(store.engine());
        }
        Ok(Self {
            functions: workflows.iter().map(|core| core.get().named_functions()).collect(),
            workflows: workflows.iter().map(|core| core.get().workflow()).collect(),
            engine: Arc::clone(store.engine()),
            options: settings.options()?,
        })
    }

    /// Makes the service whose functions are called on a loop.
    pub(super) fn service(&self, server_loop: &ServerLoop) -> PyResult<WorkflowService> {
        // An engine without records is the only error.
        let store = SessionStore::new(Arc::clone(&self.engine)).map_err(value_error)?;
        let runner = Arc::new(PyTaskRunner::new(self.functions.clone(), server_loop.clone()));
        let (clock, ids) = (Arc::new(SystemClock), Arc::new(RandomIds));
        WorkflowService::new(self.workflows.clone(), runner, store, self.options, clock, ids)
            .map_err(value_error)
    }

    fn factory(self) -> ApplicationFactory {
        Box::new(move |server_loop| Ok(Arc::new(self.service(server_loop)?)))
    }
}

/// Reads a list of workflows.
pub(super) fn workflow_list<'py>(list: &Bound<'py, PyList>) -> PyResult<Vec<Bound<'py, WorkflowCore>>> {
    list.iter().map(|core| Ok(core.cast_into::<WorkflowCore>()?)).collect()
}

/// What the garbage collector sees of the workflows.
pub(super) fn callbacks(workflows: &[Bound<'_, WorkflowCore>]) -> Callbacks {
    let objects = workflows.iter().map(|core| core.clone().into_any().unbind());
    Callbacks { objects: objects.collect(), ..Callbacks::default() }
}

/// A native server of workflows.
#[pyfunction]
pub(crate) fn uaip_server(
    workflows: &Bound<'_, PyList>,
    store: &StoreCore,
    settings: Settings,
    host: String,
    port: u16,
    auth: Option<&Bound<'_, PyAny>>,
    drain: Option<f64>,
) -> PyResult<ServerCore> {
    let workflows = workflow_list(workflows)?;
    let served = Served::new(&workflows, store, settings)?;
    // The errors of the settings are raised here, not when the server starts.
    served.service(&ServerLoop::Running)?;
    let options = ServeOptions::new(host, port, auth, None, drain)?;
    Ok(ServerCore::new(served.factory(), options, callbacks(&workflows)))
}

/// An ASGI application of workflows.
#[pyfunction]
pub(crate) fn uaip_asgi(
    workflows: &Bound<'_, PyList>,
    store: &StoreCore,
    settings: Settings,
    auth: Option<&Bound<'_, PyAny>>,
) -> PyResult<AsgiCore> {
    let workflows = workflow_list(workflows)?;
    let served = Served::new(&workflows, store, settings)?;
    let options = ServeOptions::new(String::new(), 0, auth, None, None)?;
    AsgiCore::new(&served.factory(), options, callbacks(&workflows))
}

/// The OpenAPI document of a server of workflows.
#[pyfunction]
pub(crate) fn uaip_openapi(py: Python<'_>, workflows: &Bound<'_, PyList>) -> PyResult<Py<PyAny>> {
    let workflows: Vec<_> = workflow_list(workflows)?.iter().map(|core| core.get().workflow()).collect();
    json_to_python(py, &turntree_uaip::openapi(&workflows).to_string())
}

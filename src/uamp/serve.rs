//! Agents as servers: `turntree.uamp.serve` and `asgi_app`.

use std::sync::Arc;
use std::time::Duration;

use crate::prelude::*;
use pyo3::exceptions::PyValueError;
use pyo3::types::PyList;

use super::host::PyAgentHost;
use super::payments::{GateMethods, PyPaymentGate};
use super::store::ServedStore;
use crate::agents::agent_core::AgentCore;
use crate::bridge::callbacks::Callbacks;
use crate::bridge::gc::GcRoots;
use crate::error::value_error;
use crate::server::ApplicationFactory;
use crate::server::asgi::AsgiCore;
use crate::server::authenticator::Auth;
use crate::server::event_loop::ServerLoop;
use crate::server::native::{ServeOptions, ServerCore};
use turntree_agents::Agent;
use turntree_core::ids::RandomIds;
use turntree_core::time::SystemClock;
use turntree_uamp::agent::{AgentRegistry, Conversations, RegistryError, ServedAgent};
use turntree_uamp::payments::PaymentGate;
use turntree_uamp::service::{AgentService, ServiceOptions, Site};
use turntree_uamp::signature::SigningKey;
use turntree_uamp::wires;

/// The settings that Python passes; the time is in seconds.
#[derive(FromPyObject)]
pub(crate) struct Settings {
    #[pyo3(item)]
    public_url: Option<String>,
    #[pyo3(item)]
    resume_window: f64,
    #[pyo3(item)]
    strict_openai: bool,
    #[pyo3(item)]
    signing_key: Option<String>,
    #[pyo3(item)]
    payment_gate: Option<Py<PyAny>>,
}

impl Settings {
    fn key(&self) -> PyResult<Option<Arc<SigningKey>>> {
        let key = self.signing_key.as_deref().map(SigningKey::parse).transpose();
        let key = key.map_err(|error| PyValueError::new_err(format!("signing_key: {error}")))?;
        Ok(key.map(Arc::new))
    }

    /// The name by which clients know the server.
    fn public_host(&self) -> Option<String> {
        let url: http::Uri = self.public_url.as_deref()?.parse().ok()?;
        url.host().map(|host| host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase())
    }

    fn options(self) -> PyResult<ServiceOptions> {
        let window = self.resume_window;
        let resume_window = Duration::try_from_secs_f64(window).map_err(|_| {
            PyValueError::new_err(format!(
                "resume_window must be a number of seconds, 0 or more, not {window}"
            ))
        })?;
        let public_url = self.public_url.map(|url| url.trim_end_matches('/').into());
        Ok(ServiceOptions { public_url, resume_window, strict_openai: self.strict_openai })
    }
}

/// The agents of a service, its store and its settings.
pub(super) struct Served {
    agents: Vec<Agent>,
    /// The native halves of the agents, in their order, and the store if it is written in Python.
    roots: GcRoots,
    store: ServedStore,
    options: ServiceOptions,
    /// That of the server's options, for tokens in the protocol.
    auth: Option<Auth>,
    key: Option<Arc<SigningKey>>,
    gate: Option<GateMethods>,
}

impl Served {
    /// Reads the arguments. `auth` is that of the server's options.
    ///
    /// # Errors
    /// `TypeError` and `ValueError` for wrong arguments.
    pub(super) fn new(
        agents: &Bound<'_, PyList>,
        store: &Bound<'_, PyAny>,
        settings: Settings,
        auth: Option<Auth>,
    ) -> PyResult<Self> {
        let py = agents.py();
        let cores: Vec<Bound<'_, AgentCore>> =
            agents.iter().map(|core| Ok(core.cast_into::<AgentCore>()?)).collect::<PyResult<_>>()?;
        let agents = cores.iter().map(|core| core.get().agent().clone()).collect();
        let roots = GcRoots::new(cores.into_iter().map(|core| core.into_any().unbind()));
        let store = ServedStore::new(store, &roots)?;
        let gate = settings.payment_gate.as_ref().map(|gate| GateMethods::new(gate.bind(py)));
        let (key, gate) = (settings.key()?, gate.transpose()?);
        Ok(Self { agents, roots, store, options: settings.options()?, auth, key, gate })
    }

    /// The agents, which run on a loop.
    ///
    /// # Errors
    /// Two have one name, or a name cannot be a path.
    pub(super) fn registry(&self, server_loop: &ServerLoop) -> Result<AgentRegistry, RegistryError> {
        AgentRegistry::new(self.agents.iter().enumerate().map(|(index, agent)| {
            let host = PyAgentHost::new(self.roots.clone(), index, server_loop.clone());
            ServedAgent::new(agent.clone(), Arc::new(host))
        }))
    }

    /// The native halves of the agents.
    pub(super) const fn roots(&self) -> &GcRoots {
        &self.roots
    }

    /// Makes the site whose agents run on a loop.
    ///
    /// # Errors
    /// As [`Self::registry`].
    pub(super) fn site(&self, server_loop: &ServerLoop) -> PyResult<Site> {
        let (ids, clock) = (Arc::new(RandomIds), Arc::new(SystemClock));
        let mut conversations = Conversations::new(self.store.on_loop(server_loop), ids, clock);
        if let Some(engine) = self.store.engine() {
            conversations = conversations.with_engine(Arc::clone(engine));
        }
        let mut site = Site::new(self.registry(server_loop).map_err(value_error)?, conversations);
        site.options = self.options.clone();
        site.signing_key.clone_from(&self.key);
        site.authenticator = self.auth.as_ref().map(|auth| auth.authenticator(server_loop));
        site.payment_gate = self
            .gate
            .clone()
            .map(|gate| Arc::new(PyPaymentGate::new(gate, server_loop.clone())) as Arc<dyn PaymentGate>);
        Ok(site)
    }

    /// What the garbage collector sees.
    pub(super) fn callbacks(&self) -> Callbacks {
        let functions = self.gate.iter().flat_map(GateMethods::callbacks).collect();
        Callbacks { functions, roots: self.roots.clone(), ..Callbacks::default() }
    }

    fn factory(self) -> ApplicationFactory {
        Box::new(move |server_loop| Ok(Arc::new(AgentService::new(self.site(server_loop)?, wires::all()))))
    }
}

/// A native server of agents.
#[pyfunction]
pub(crate) fn uamp_server(
    agents: &Bound<'_, PyList>,
    store: &Bound<'_, PyAny>,
    settings: Settings,
    host: String,
    port: u16,
    auth: Option<&Bound<'_, PyAny>>,
    drain: Option<f64>,
) -> PyResult<ServerCore> {
    let mut options = ServeOptions::new(host, port, auth, None, drain)?;
    options.config.public_host = settings.public_host();
    let served = Served::new(agents, store, settings, options.auth.clone())?;
    // The errors of names are raised here, not when the server starts.
    served.registry(&ServerLoop::Running).map_err(value_error)?;
    let callbacks = served.callbacks();
    Ok(ServerCore::new(served.factory(), options, callbacks))
}

/// An ASGI application of agents.
#[pyfunction]
pub(crate) fn uamp_asgi(
    agents: &Bound<'_, PyList>,
    store: &Bound<'_, PyAny>,
    settings: Settings,
    auth: Option<&Bound<'_, PyAny>>,
) -> PyResult<AsgiCore> {
    let options = ServeOptions::new(String::new(), 0, auth, None, None)?;
    let served = Served::new(agents, store, settings, options.auth.clone())?;
    let callbacks = served.callbacks();
    AsgiCore::outliving(&served.factory(), options, callbacks)
}

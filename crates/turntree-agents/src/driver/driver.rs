//! The inputs of the code that drives a run: collaborators, configuration and optional ports.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::driver::agent_layer::AgentMiddlewareLayer;
use crate::driver::model_layer::ModelMiddlewareLayer;
use crate::driver::tools_in_force::Toolsets;
use crate::host::event_queue::EventQueue;
use crate::host::hook_set::HookSet;
use crate::host::host::Host;
use crate::host::recorder::RunRecorder;
use crate::host::strategy::CustomHandle;
use crate::host::tool::Tool;
use crate::machine::machine::Machine;
use crate::machine::state::RunState;
use crate::types::identity::RunIdentity;
use crate::types::limits::UsageMeter;
use crate::types::parent_run::{DEFAULT_DEPTH, InheritedModel, ParentRun};
use crate::types::structure::Structure;
use crate::types::usage_by_agent::UsageByAgent;
use turntree_core::message::Turn;
use turntree_core::time::Timestamp;
use turntree_upp::{ErrorCode, Model, UppError};

/// The specification that a run follows where the specifications of agents (UAP) and of bare models (UPP) differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// Streams contain events of steps. An aborted run returns its partial turn.
    ///
    /// Spec: UAP-1.0 §12
    #[default]
    Uap,
    /// Streams contain only events of models and tools. An aborted run fails.
    ///
    /// Spec: UPP-1.2 §11
    Upp,
}

/// The inner part of a run, which a middleware layer calls.
pub(super) trait Next {
    /// Runs the machine inside the layer.
    fn run(
        self,
        machine: &mut Machine,
        driver: &Driver,
    ) -> impl Future<Output = Result<Arc<Turn>, UppError>> + Send;
}

/// The agents that an agent can hand the conversation to.
pub(crate) trait Handoffs: Send + Sync {
    /// Creates the machine and the driver with which the agent `name` continues the run of `machine`.
    ///
    /// # Errors
    /// There is no such agent, or it cannot run.
    fn take_over(
        &self,
        name: &str,
        machine: &Machine,
        driver: &Driver,
    ) -> Result<(Machine, Driver), UppError>;
}

/// Drives runs: calls the model, the tools and the hooks of the host, as the machine requests.
#[derive(Clone)]
pub struct Driver {
    /// The model.
    pub model: Arc<dyn Model>,
    /// The application.
    pub host: Arc<dyn Host>,
    /// The agent's tools at the start, in the order of their definitions. Toolsets can add others at each step.
    pub tools: Arc<[Tool]>,
    /// The agent and the run.
    pub identity: Arc<RunIdentity>,
    /// The structure of the output. Without one, the output is not validated.
    pub structure: Option<Arc<Structure>>,
    /// Aborts the run when it is cancelled.
    pub cancellation: Option<CancellationToken>,
    pub(crate) config: DriverConfig,
    pub(crate) ports: DriverPorts,
}

/// The modes of a driver.
#[derive(Debug, Clone)]
pub(crate) struct DriverConfig {
    /// The specification that the run follows.
    pub(crate) protocol: Protocol,
    /// The agent's name, for telemetry.
    pub(crate) agent_name: Option<Arc<str>>,
    /// True if the stream contains the events of sub-agents.
    pub(crate) sub_agent_events: bool,
    /// The depth of the deepest run that is allowed inside this one.
    pub(crate) max_depth: u32,
    /// Hooks of the host that are not called, because the enclosing run calls them.
    pub(crate) suppressed_hooks: HookSet,
    /// True if a custom strategy drives this machine as a part of its run. Middleware and spans of the agent enclose the
    /// whole run, so they are not applied again.
    pub(crate) is_nested: bool,
    /// True if the tools include those of the toolsets, which were asked just now.
    pub(crate) has_current_tools: bool,
    /// The maximum duration of the run.
    pub(crate) timeout: Option<Duration>,
    /// The rest of `timeout` for the agent that has taken over.
    pub(crate) time_left: Option<Duration>,
}

/// The optional collaborators of a driver.
#[derive(Clone, Default)]
pub(crate) struct DriverPorts {
    /// The middleware of the model (UPP-1.2 §17).
    pub(crate) model_middleware: Option<ModelMiddlewareLayer>,
    /// The middleware of the agent (UAP-1.0 §10).
    pub(crate) agent_middleware: Option<Arc<AgentMiddlewareLayer>>,
    /// Receives events. Without it, no event is built and the model is not streamed.
    pub(crate) events: Option<Arc<EventQueue>>,
    /// Stores the state of the run: the session.
    pub(crate) recorder: Option<Arc<dyn RunRecorder>>,
    /// The run of an agent that contains this call of a bare model. Tools of the call see it as their parent.
    pub(crate) parent: Option<Arc<ParentRun>>,
    /// The strategy of the application, if the agent has one.
    pub(crate) custom_strategy: Option<CustomHandle>,
    /// The toolsets of the agent, if it has some.
    pub(crate) toolsets: Option<Arc<Toolsets>>,
    /// Counts the usage of the run, if it has limits.
    pub(crate) meter: Option<Arc<UsageMeter>>,
    /// The agents that can take over, if the agent has handoffs.
    pub(crate) handoffs: Option<Arc<dyn Handoffs>>,
    /// Receives the usage of the run: it belongs to the run that contains this one.
    pub(crate) usage: Option<Arc<UsageByAgent>>,
}

impl fmt::Debug for Driver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Driver").field("model", &self.model).finish_non_exhaustive()
    }
}

impl Driver {
    /// The time at which a run with a maximum duration begins: now.
    pub(crate) fn beginning(&self) -> Option<Timestamp> {
        self.config.timeout.map(|_| self.host.clock().now())
    }

    /// What is left of the maximum duration of the run, or of the part of it that an agent has taken over.
    pub(crate) fn time_left(&self, began: Option<Timestamp>) -> Option<Duration> {
        let limit = self.config.time_left.or(self.config.timeout);
        limit.zip(began).map(|(limit, began)| {
            let elapsed = self.host.clock().now().milliseconds().saturating_sub(began.milliseconds());
            limit.saturating_sub(Duration::from_millis(u64::try_from(elapsed).unwrap_or_default()))
        })
    }

    /// The error of a run that took too long.
    pub(crate) fn timeout_error(&self) -> UppError {
        let seconds = self.config.timeout.unwrap_or_default().as_secs_f64();
        let message =
            format!("the run has not ended within {seconds} s; raise timeout, or resume its session");
        UppError::new(ErrorCode::Timeout, self.model.provider(), message)
    }

    /// A driver without middleware, events and storage.
    pub fn new(
        model: Arc<dyn Model>,
        host: Arc<dyn Host>,
        tools: Arc<[Tool]>,
        identity: Arc<RunIdentity>,
    ) -> Self {
        let config = DriverConfig {
            protocol: Protocol::Uap,
            agent_name: None,
            sub_agent_events: false,
            max_depth: DEFAULT_DEPTH,
            suppressed_hooks: HookSet::empty(),
            is_nested: false,
            has_current_tools: false,
            timeout: None,
            time_left: None,
        };
        let (structure, cancellation) = (None, None);
        Self { model, host, tools, identity, structure, cancellation, config, ports: DriverPorts::default() }
    }

    /// Counts what a run has used before it was resumed.
    pub(super) fn restore_usage(&self, state: &RunState) {
        if let Some(meter) = &self.ports.meter {
            let collected = &state.collected;
            meter.restore(collected.usage.iter().map(AsRef::as_ref), collected.executions.len());
        }
    }

    /// True if the run has tools or toolsets.
    pub(super) fn has_tools(&self) -> bool {
        !self.tools.is_empty() || self.ports.toolsets.is_some()
    }

    /// True if the tool at this index is one of the agent's own, and not one of a toolset.
    pub(super) fn is_own_tool(&self, index: usize) -> bool {
        self.ports.toolsets.as_ref().is_none_or(|toolsets| index < toolsets.own_count())
    }

    /// Describes this run to the runs that its tools, or its strategy, start. A call of a bare model is not a run of an
    /// agent: its tools see the run that contains the call.
    pub(super) fn as_parent(
        &self,
        inherited_model: &InheritedModel,
        cancellation: &CancellationToken,
    ) -> Option<Arc<ParentRun>> {
        let starts_runs = self.has_tools() || self.ports.custom_strategy.is_some();
        if self.config.protocol == Protocol::Upp || !starts_runs {
            return self.ports.parent.clone();
        }
        Some(Arc::new(ParentRun {
            identity: Arc::clone(&self.identity),
            inherited_model: inherited_model.clone(),
            cancellation: cancellation.clone(),
            max_depth: self.config.max_depth,
            meter: self.ports.meter.clone(),
            usage: Arc::default(),
        }))
    }
}

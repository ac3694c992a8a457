//! The agent: runs its definition, or streams it.
//!
//! Spec: UAP-1.0 §4

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::driver::agent_layer::AgentMiddlewareLayer;
use crate::driver::driver::{Driver, DriverConfig, DriverPorts};
use crate::driver::stream::AgentStream;
use crate::driver::tools_in_force::Toolsets;
use crate::handoff::{AgentHandoffs, filtered_input, has_handoffs};
use crate::host::run_context::RunContext;
use crate::host::strategy::Strategy;
use crate::host::tool::{Tool, names_of};
use crate::machine::machine::Machine;
use crate::machine::state::{RunState, StateError};
use crate::options::AgentOptions;
use crate::spec::AgentSpec;
use crate::types::identity::RunIdentity;
use crate::types::parent_run::{GREATEST_DEPTH, InheritedModel};
use crate::types::structure::Structure;
use turntree_core::ids::IdSource;
use turntree_core::message::Turn;
use turntree_core::message::message::History;
use turntree_upp::UppError;
use turntree_upp::llm::{Input, capability_check, into_messages};

/// A model with tools and a strategy.
///
/// Immutable; clones share everything. One agent serves any number of concurrent runs.
#[derive(Debug, Clone)]
pub struct Agent {
    spec: Arc<AgentSpec>,
}

impl From<AgentSpec> for Agent {
    fn from(spec: AgentSpec) -> Self {
        Self { spec: Arc::new(spec) }
    }
}

impl Agent {
    /// Creates an agent. Options that do not fit together are reported when it runs.
    pub fn new(options: AgentOptions, ids: &dyn IdSource) -> Self {
        AgentSpec::new(options, ids).into()
    }

    /// The definition.
    pub const fn spec(&self) -> &Arc<AgentSpec> {
        &self.spec
    }

    /// The agent's id.
    pub fn id(&self) -> &Arc<str> {
        self.spec.id()
    }

    /// The options that the agent was created with.
    pub fn options(&self) -> &AgentOptions {
        self.spec.options()
    }

    /// The agent's own tools, in the order of their definitions, without those of its toolsets.
    pub fn tools(&self) -> &Arc<[Tool]> {
        self.spec.tools()
    }

    /// The structure of the output.
    pub(crate) fn structure(&self) -> Option<&Structure> {
        self.spec.structure().map(AsRef::as_ref)
    }

    /// Returns a copy with some options changed. The copy has its own id (decision A2).
    #[must_use]
    pub fn with(&self, ids: &dyn IdSource, change: impl FnOnce(&mut AgentOptions)) -> Self {
        let mut options = AgentOptions { id: None, ..self.options().clone() };
        change(&mut options);
        Self::new(options, ids)
    }

    /// Runs the agent without a history.
    ///
    /// # Errors
    /// As [`Self::run_with_history`].
    ///
    /// # Cancel safety
    /// As [`Self::run_with_history`].
    pub async fn run(
        &self,
        input: impl Into<Input> + Send,
        context: RunContext,
    ) -> Result<Arc<Turn>, UppError> {
        self.run_with_history(History::new(), input, context).await
    }

    /// Runs the agent after a history. The history is not changed.
    ///
    /// # Errors
    /// [`turntree_upp::ErrorCode::InvalidRequest`] before anything is sent: no model, two tools with one name, a structure
    /// that is not a valid JSON Schema, or a feature that the model does not support. Then those of [`Driver::run`].
    ///
    /// # Cancel safety
    /// Dropping the future stops the run: the model call and the tools are dropped.
    pub async fn run_with_history(
        &self,
        history: History,
        input: impl Into<Input> + Send,
        context: RunContext,
    ) -> Result<Arc<Turn>, UppError> {
        self.prepared_run(history, input.into(), context)?.await
    }

    /// Prepares a run. The future is boxed: machine and driver are large, and a run of a sub-agent is polled on the stack of
    /// its caller.
    fn prepared_run(
        &self,
        history: History,
        input: Input,
        context: RunContext,
    ) -> Result<BoxFuture<'static, Result<Arc<Turn>, UppError>>, UppError> {
        let (machine, driver) = self.prepare(history, input, context)?;
        Ok(Box::pin(driver.complete(machine)))
    }

    /// Streams a run without a history. Nothing is sent before the stream is polled.
    ///
    /// # Errors
    /// As [`Self::stream_with_history`].
    pub fn stream(&self, input: impl Into<Input>, context: RunContext) -> Result<AgentStream, UppError> {
        self.stream_with_history(History::new(), input, context)
    }

    /// Streams a run after a history.
    ///
    /// # Errors
    /// [`turntree_upp::ErrorCode::InvalidRequest`] as [`Self::run_with_history`], and for a model that cannot stream.
    pub fn stream_with_history(
        &self,
        history: History,
        input: impl Into<Input>,
        context: RunContext,
    ) -> Result<AgentStream, UppError> {
        let (machine, driver) = self.prepare(history, input.into(), context)?;
        capability_check::check_streaming(&*driver.model)?;
        Ok(AgentStream::new(machine, driver))
    }

    /// Creates the machine and the driver of one run.
    ///
    /// # Errors
    /// As [`Self::run_with_history`], before anything is sent.
    pub fn prepare(
        &self,
        history: History,
        input: Input,
        context: RunContext,
    ) -> Result<(Machine, Driver), UppError> {
        self.prepare_all(history, [input], context)
    }

    /// As [`Self::prepare`], with any number of inputs. Without inputs, the model continues from the history.
    ///
    /// # Errors
    /// As [`Self::prepare`].
    pub fn prepare_all(
        &self,
        history: History,
        inputs: impl IntoIterator<Item = Input>,
        context: RunContext,
    ) -> Result<(Machine, Driver), UppError> {
        let model =
            self.spec.resolve_model(context.inherited_model.as_ref(), context.overrides.as_deref())?;
        let (ids, clock) = (context.host.ids(), context.host.clock());
        let inputs = into_messages(inputs, model.model.provider(), ids, clock)?;
        let state = RunState::of_messages(self.spec.strategy(), inputs, Arc::clone(&context.metadata));
        self.assemble(model, history, state, context)
    }

    /// Creates the machine and the driver that resume a saved state. `history` is the history that the run started with.
    ///
    /// # Errors
    /// As [`Self::prepare`]; [`turntree_upp::ErrorCode::InvalidRequest`] caused by a [`StateError`] for a state that
    /// cannot be resumed.
    pub fn resume(
        &self,
        history: History,
        mut state: RunState,
        context: RunContext,
    ) -> Result<(Machine, Driver), UppError> {
        let model =
            self.spec.resolve_model(context.inherited_model.as_ref(), context.overrides.as_deref())?;
        if let Some(meter) = &context.meter {
            let collected = &state.collected;
            meter.restore(collected.usage.iter().map(AsRef::as_ref), collected.executions.len());
        }
        self.spec.strategy().set_limits(&mut state);
        let (mut machine, driver) = self.assemble(model, history, state, context)?;
        machine.retry_limit();
        Ok((machine, driver))
    }

    fn assemble(
        &self,
        model: InheritedModel,
        history: History,
        state: RunState,
        context: RunContext,
    ) -> Result<(Machine, Driver), UppError> {
        let (spec, options) = (&self.spec, self.options());
        self.check_depth(&context)?;
        spec.check_tool_names(model.model.provider())?;
        capability_check::check_features(&*model.model, options.structure.is_some(), spec.has_tools())?;
        let makes_plans = state.makes_plans();
        let filtered = filtered_input(context.handed_by.as_ref(), spec.label(), &history, state.messages())?;
        let mut setup = spec.setup(&model, history, makes_plans)?;
        setup.agent = (context.names_agent || has_handoffs(self)).then(|| spec.label().into());
        // Middleware may still change the messages; then its layer checks the media.
        if context.middleware.is_empty() && options.middleware.is_empty() {
            let messages = setup.history.iter().chain(state.messages());
            capability_check::check_media(&*model.model, messages.map(AsRef::as_ref))?;
        }
        let provider = Arc::clone(&setup.provider);
        let mut machine = Machine::new(setup, state).map_err(|error: StateError| {
            UppError::invalid_request(&*provider, error.to_string()).with_cause(error)
        })?;
        if let Some((count, messages)) = filtered {
            machine.replace_first(count, messages);
        }
        Ok((machine, self.driver(model, context, makes_plans)))
    }

    /// Creates the machine and the driver with which this agent continues the run of another one, after a handoff.
    pub(crate) fn take_over(
        &self,
        earlier: &Machine,
        context: RunContext,
    ) -> Result<(Machine, Driver), UppError> {
        let model =
            self.spec.resolve_model(context.inherited_model.as_ref(), context.overrides.as_deref())?;
        let state = RunState::of_messages(self.spec.strategy(), [], Arc::clone(&context.metadata));
        let mut state = state.after_handoff(earlier.state(), self.spec.label());
        state.idempotent_tools = names_of(self.tools(), |tool| tool.idempotent);
        state.guarded_tools = names_of(self.tools(), |tool| tool.requires_approval);
        self.assemble(model, earlier.setup().history.clone(), state, context)
    }

    fn driver(&self, model: InheritedModel, context: RunContext, makes_plans: bool) -> Driver {
        let (spec, options) = (&self.spec, self.options());
        let handoffs = AgentHandoffs::of(self, &context);
        let identity = RunIdentity {
            agent_id: Arc::clone(spec.id()),
            turn_id: context.turn_id.clone().unwrap_or_else(|| context.host.ids().string().into()),
            depth: context.depth(),
            parent: context.parent.clone(),
            session_id: context.session_id.clone(),
            principal: context.principal.clone(),
        };
        let own_depth = options.max_sub_agent_depth.map(|depth| depth.min(GREATEST_DEPTH));
        let max_depth = context.max_depth(own_depth);
        let tools = Arc::clone(spec.tools());
        let driver = Driver::new(model.model, context.host, tools, Arc::new(identity));
        let agent_middleware = (!options.middleware.is_empty()).then(|| {
            let (info, stack) = (Arc::clone(spec.info()), options.middleware.clone());
            Arc::new(AgentMiddlewareLayer::new(info, stack, &driver, context.middleware_state))
        });
        let custom_strategy = match spec.strategy() {
            Strategy::Custom(custom) => Some(custom.clone()),
            _ => None,
        };
        let config = DriverConfig {
            agent_name: options.name.clone(),
            sub_agent_events: context.sub_agent_events,
            max_depth,
            timeout: context.overrides.and_then(|overrides| overrides.timeout),
            ..driver.config
        };
        let toolsets = Toolsets::new(&driver.tools, spec.toolsets(), &spec.strategy_of_run(makes_plans));
        let (events, meter) = (context.events, context.meter);
        let usage = context.parent_run.map(|parent| Arc::clone(&parent.usage));
        let ports = DriverPorts {
            agent_middleware,
            events,
            custom_strategy,
            toolsets,
            meter,
            handoffs,
            usage,
            ..driver.ports
        };
        let structure = spec.structure().cloned();
        Driver { structure, cancellation: context.cancellation, config, ports, ..driver }
    }

    /// Rejects a run that exceeds the depth limit of the runs that contain it (decision A94).
    ///
    /// Spec: UAP-1.0 §16.1
    pub(crate) fn check_depth(&self, context: &RunContext) -> Result<(), UppError> {
        let (depth, max_depth) = (context.depth(), context.parent_run.as_ref().map(|run| run.max_depth));
        match max_depth {
            Some(max_depth) if depth > max_depth => {
                let message = format!(
                    "agent '{}' is not run: it would be {depth} agents deep, and {max_depth} is the most; look for \
                     agents that call each other in a circle, or raise max_sub_agent_depth of the outermost one",
                    self.spec.label()
                );
                Err(UppError::invalid_request("", message))
            }
            _ => Ok(()),
        }
    }
}

//! The agent. UAP-1.0 §4.

use std::collections::HashSet;
use std::sync::Arc;

use crate::driver::agent_layer::AgentMiddlewareLayer;
use crate::driver::run_loop::{Driver, drive};
use crate::driver::stream::AgentStream;
use crate::host::run_context::{GREATEST_DEPTH, InheritedModel, RunContext, RunIdentity};
use crate::host::tool::Tool;
use crate::machine::machine::Machine;
use crate::machine::state::{RunState, Setup, StateError};
use crate::machine::strategies::Strategy;
use crate::machine::strategies::plan::{PlanOptions, Schemas};
use crate::options::AgentOptions;
use crate::types::structure::Structure;
use turntree_core::ids::IdSource;
use turntree_core::message::message::History;
use turntree_core::message::{ToolDefinition, Turn};
use turntree_upp::UppError;
use turntree_upp::llm::{Input, capability_check, into_messages};

/// A model, tools, and a strategy that says how to use them.
///
/// Immutable; cloning shares everything. One agent serves any number of runs at once.
#[derive(Debug, Clone)]
pub struct Agent {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    id: Arc<str>,
    options: AgentOptions,
    tools: Arc<[Tool]>,
    definitions: Arc<[ToolDefinition]>,
    strategy: Strategy,
    schemas: Schemas,
    structure: Option<Arc<Structure>>,
}

impl Agent {
    /// An agent of these options. Whether they fit together is checked when it runs.
    pub fn new(options: AgentOptions, ids: &dyn IdSource) -> Self {
        let id = options.id.clone().unwrap_or_else(|| ids.string().into());
        let tools: Arc<[Tool]> = options.tools.as_slice().into();
        let definitions: Arc<[ToolDefinition]> = tools.iter().map(|tool| tool.definition.clone()).collect();
        let strategy = options.effective_strategy();
        let schemas = strategy.schemas(&definitions);
        let structure = options.structure.as_ref().map(|schema| Arc::new(Structure::new(schema)));
        Self { inner: Arc::new(Inner { id, options, tools, definitions, strategy, schemas, structure }) }
    }

    /// Its id.
    pub fn id(&self) -> &Arc<str> {
        &self.inner.id
    }

    /// What it was made of.
    pub fn options(&self) -> &AgentOptions {
        &self.inner.options
    }

    /// Its tools, in the order of their definitions.
    pub fn tools(&self) -> &Arc<[Tool]> {
        &self.inner.tools
    }

    /// What its structured answer must look like.
    pub(crate) fn structure(&self) -> Option<&Structure> {
        self.inner.structure.as_deref()
    }

    /// Another agent with some options changed, and an id of its own (decision A2).
    #[must_use]
    pub fn with(&self, ids: &dyn IdSource, change: impl FnOnce(&mut AgentOptions)) -> Self {
        let mut options = AgentOptions { id: None, ..self.inner.options.clone() };
        change(&mut options);
        Self::new(options, ids)
    }

    /// Runs, with nothing said before.
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

    /// Runs after what was said before. The history is not changed.
    ///
    /// # Errors
    /// [`turntree_upp::ErrorCode::InvalidRequest`], before anything is sent: no model, two tools of one name, a structure
    /// that is no JSON Schema, or something that the model cannot do. Then those of [`drive()`].
    ///
    /// # Cancel safety
    /// Dropping the future stops the run: model call and tools are dropped.
    pub async fn run_with_history(
        &self,
        history: History,
        input: impl Into<Input> + Send,
        context: RunContext,
    ) -> Result<Arc<Turn>, UppError> {
        let (mut machine, driver) = self.prepare(history, input.into(), context)?;
        drive(&mut machine, &driver).await
    }

    /// Runs with somebody listening, with nothing said before. Nothing is sent before the stream is polled.
    ///
    /// # Errors
    /// As [`Self::stream_with_history`].
    pub fn stream(&self, input: impl Into<Input>, context: RunContext) -> Result<AgentStream, UppError> {
        self.stream_with_history(History::new(), input, context)
    }

    /// Runs with somebody listening, after what was said before.
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

    /// A machine and a driver for one run; what [`Self::run`] and [`Self::stream`] start from.
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

    /// As [`Self::prepare`], with any number of inputs; without one the model goes on from the history.
    ///
    /// # Errors
    /// As [`Self::prepare`].
    pub fn prepare_all(
        &self,
        history: History,
        inputs: impl IntoIterator<Item = Input>,
        context: RunContext,
    ) -> Result<(Machine, Driver), UppError> {
        let InheritedModel { model, params } = self.model(&context)?;
        let inputs = into_messages(inputs, model.provider(), context.host.ids(), context.host.clock())?;
        let state = RunState::of_messages(&self.inner.strategy, inputs, Arc::clone(&context.metadata));
        self.assemble(InheritedModel { model, params }, history, state, context)
    }

    /// A machine and a driver that go on from a saved state. `history` is what the run was started with.
    ///
    /// # Errors
    /// As [`Self::prepare`]; [`turntree_upp::ErrorCode::InvalidRequest`] caused by a [`StateError`] for a state that
    /// cannot be taken up.
    pub fn resume(
        &self,
        history: History,
        state: RunState,
        context: RunContext,
    ) -> Result<(Machine, Driver), UppError> {
        let model = self.model(&context)?;
        self.assemble(model, history, state, context)
    }

    fn assemble(
        &self,
        InheritedModel { model, params }: InheritedModel,
        history: History,
        state: RunState,
        context: RunContext,
    ) -> Result<(Machine, Driver), UppError> {
        let options = &self.inner.options;
        self.check_depth(&context)?;
        self.check_tool_names(model.provider())?;
        capability_check::check_features(&*model, options.structure.is_some(), !self.inner.tools.is_empty())?;
        let structure = &self.inner.structure;
        if let Some(structure) = structure {
            structure.check_schema(model.provider())?;
        }
        // A run that makes plans goes on making them, whatever the agent that takes it up does otherwise.
        let schemas = match &self.inner.schemas {
            Schemas { sent: None, .. } if state.makes_plans() => {
                Strategy::Plan(PlanOptions::default()).schemas(&self.inner.definitions)
            }
            own => own.clone(),
        };
        schemas.check(&*model)?;
        // Middleware may still change what is said; then it is checked when that is done.
        let is_last_word = context.middleware.is_empty() && options.middleware.is_empty();
        if is_last_word {
            let said = history.iter().chain(state.messages());
            capability_check::check_media(&*model, said.map(AsRef::as_ref))?;
        }
        let setup = Setup {
            history,
            system: options.system.clone(),
            params,
            tools: Arc::clone(&self.inner.definitions),
            structure: structure.as_ref().map(|structure| Arc::clone(structure.schema())),
            plan_schema: schemas.sent,
            plan_rules: schemas.rules,
            is_wrapped: structure.as_ref().is_some_and(|structure| structure.is_wrapped()),
            structure_repair: options.structure_repair,
            provider: Arc::from(model.provider()),
        };
        let machine = Machine::new(setup, state).map_err(|error: StateError| {
            UppError::invalid_request(model.provider(), error.to_string()).with_cause(error)
        })?;
        let identity = RunIdentity {
            agent_id: Arc::clone(&self.inner.id),
            turn_id: context.turn_id.clone().unwrap_or_else(|| context.host.ids().string().into()),
            depth: context.depth(),
            parent: context.parent.clone(),
            session_id: context.session_id.clone(),
        };
        let deepest = context.deepest(options.max_sub_agent_depth.map(|depth| depth.min(GREATEST_DEPTH)));
        let tools = Arc::clone(&self.inner.tools);
        let driver = Driver::new(model, context.host, tools, Arc::new(identity));
        let around = (!options.middleware.is_empty())
            .then(|| Arc::new(AgentMiddlewareLayer::new(self, &driver, context.middleware_state)));
        let (structure, cancellation) = (structure.clone(), context.cancellation);
        let (events, sub_agent_events) = (context.events, context.sub_agent_events);
        let agent_name = options.name.clone();
        let own = match &self.inner.strategy {
            Strategy::Custom(own) => Some(own.clone()),
            _ => None,
        };
        let driver = Driver { structure, cancellation, agent_name, around, own, ..driver };
        Ok((machine, Driver { events, sub_agent_events, deepest, ..driver }))
    }

    /// Its name, or its id where it has none.
    pub(crate) fn label(&self) -> &str {
        self.inner.options.name.as_deref().unwrap_or(&self.inner.id)
    }

    /// Refuses a run that would be too deep inside of others (UAP-1.0 §16.1, decision A94).
    pub(crate) fn check_depth(&self, context: &RunContext) -> Result<(), UppError> {
        let (depth, deepest) =
            (context.depth(), context.enclosing.as_ref().map(|enclosing| enclosing.deepest));
        match deepest {
            Some(deepest) if depth > deepest => {
                let words = format!(
                    "agent '{}' is not run: it would be {depth} agents deep, and {deepest} is the most; look for \
                     agents that call each other in a circle, or raise max_sub_agent_depth of the outermost one",
                    self.label()
                );
                Err(UppError::invalid_request("", words))
            }
            _ => Ok(()),
        }
    }

    /// The agent's own model, or the one that is lent to it; its own parameters, or those that come with a lent model.
    fn model(&self, context: &RunContext) -> Result<InheritedModel, UppError> {
        let options = &self.inner.options;
        if let Some(model) = &options.model {
            return Ok(InheritedModel { model: Arc::clone(model), params: Arc::clone(&options.params) });
        }
        let Some(lent) = &context.inheritance else {
            let words = format!(
                "agent '{}' has no model; give it one, or run it as a tool of an agent that has one",
                self.label()
            );
            return Err(UppError::invalid_request("", words));
        };
        let params = if options.params.is_empty() { &lent.params } else { &options.params };
        Ok(InheritedModel { model: Arc::clone(&lent.model), params: Arc::clone(params) })
    }

    pub(super) fn check_tool_names(&self, provider: &str) -> Result<(), UppError> {
        let mut names = HashSet::with_capacity(self.inner.tools.len());
        for tool in self.inner.tools.iter() {
            let name = tool.definition.name.as_str();
            if !names.insert(name) {
                let words = format!("two tools are named '{name}'; names of tools must differ");
                return Err(UppError::invalid_request(provider, words));
            }
        }
        Ok(())
    }
}

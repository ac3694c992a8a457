//! The definition of an agent, without anything that runs it.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt as _, ready};
use futures_util::stream::{StreamExt as _, once};

use crate::host::run_context::RunOverrides;
use crate::host::strategy::Strategy;
use crate::host::tool::Tool;
use crate::host::toolset::Toolset;
use crate::machine::setup::Setup;
use crate::machine::strategies::plan::{PlanOptions, PlanSchemas};
use crate::options::AgentOptions;
use crate::types::identity::AgentInfo;
use crate::types::parent_run::InheritedModel;
use crate::types::structure::Structure;
use turntree_core::ids::IdSource;
use turntree_core::json::RawObject;
use turntree_core::message::ToolDefinition;
use turntree_core::message::message::History;
use turntree_upp::{Capabilities, Model, ModelRequest, ModelResponse, ModelStream, UppError};

/// The definition of an agent: its options with everything that follows from them.
///
/// An [`Agent`](crate::Agent) runs it; a server can describe it without running it.
#[derive(Debug)]
pub struct AgentSpec {
    info: Arc<AgentInfo>,
    options: AgentOptions,
    tools: Arc<[Tool]>,
    toolsets: Arc<[Arc<dyn Toolset>]>,
    definitions: Arc<[ToolDefinition]>,
    strategy: Strategy,
    schemas: PlanSchemas,
    structure: Option<Arc<Structure>>,
}

impl AgentSpec {
    /// Defines an agent. Options that do not fit together are reported when the agent runs.
    pub fn new(options: AgentOptions, ids: &dyn IdSource) -> Self {
        let id = options.id.clone().unwrap_or_else(|| ids.string().into());
        let tools: Arc<[Tool]> = options.tools.as_slice().into();
        let toolsets: Arc<[Arc<dyn Toolset>]> = options.toolsets.as_slice().into();
        let definitions: Arc<[ToolDefinition]> = tools.iter().map(|tool| tool.definition.clone()).collect();
        let strategy = options.effective_strategy();
        let schemas = strategy.schemas(&definitions);
        let structure = options.structure.as_ref().map(|schema| Arc::new(Structure::new(schema)));
        let wraps_output = structure.as_ref().is_some_and(|structure| structure.is_wrapped());
        let info = Arc::new(AgentInfo { id, name: options.name.clone(), wraps_output });
        Self { info, options, tools, toolsets, definitions, strategy, schemas, structure }
    }

    /// The agent's id.
    pub fn id(&self) -> &Arc<str> {
        &self.info.id
    }

    /// Id and name.
    pub const fn info(&self) -> &Arc<AgentInfo> {
        &self.info
    }

    /// The name, or the id of an agent without a name.
    pub fn label(&self) -> &str {
        self.info.name.as_deref().unwrap_or(&self.info.id)
    }

    /// The options.
    pub const fn options(&self) -> &AgentOptions {
        &self.options
    }

    /// The agent's own tools, in the order of their definitions, without those of its toolsets.
    pub const fn tools(&self) -> &Arc<[Tool]> {
        &self.tools
    }

    /// The toolsets: tools that can change between the steps of a run.
    pub const fn toolsets(&self) -> &Arc<[Arc<dyn Toolset>]> {
        &self.toolsets
    }

    /// True if the agent has tools or toolsets.
    pub fn has_tools(&self) -> bool {
        !self.tools.is_empty() || !self.toolsets.is_empty()
    }

    /// The definitions of the tools.
    pub const fn definitions(&self) -> &Arc<[ToolDefinition]> {
        &self.definitions
    }

    /// The strategy.
    pub const fn strategy(&self) -> &Strategy {
        &self.strategy
    }

    /// The strategy of a run. A resumed run with a plan (`makes_plans`) continues with `plan`, even if the agent has
    /// another strategy.
    pub(crate) fn strategy_of_run(&self, makes_plans: bool) -> Cow<'_, Strategy> {
        match &self.strategy {
            Strategy::Loop(_) | Strategy::React(_) | Strategy::Custom(_) if makes_plans => {
                Cow::Owned(Strategy::Plan(PlanOptions::default()))
            }
            strategy => Cow::Borrowed(strategy),
        }
    }

    /// The structure of the output.
    pub const fn structure(&self) -> Option<&Arc<Structure>> {
        self.structure.as_ref()
    }

    /// The model and the parameters of a run: those of the run, else the agent's own, else those of the caller. Parameters of
    /// the run are added to the others.
    pub(crate) fn resolve_model(
        &self,
        inherited: Option<&InheritedModel>,
        of_run: Option<&RunOverrides>,
    ) -> Result<InheritedModel, UppError> {
        let Some(of_run) = of_run else { return self.model_without_run(inherited) };
        let resolved = match &of_run.model {
            Some(model) => {
                InheritedModel { model: Arc::clone(model), params: Arc::clone(&self.options.params) }
            }
            None => self.model_without_run(inherited)?,
        };
        let Some(params) = &of_run.params else { return Ok(resolved) };
        let mut merged = RawObject::clone(&resolved.params);
        for (name, value) in params.iter() {
            merged.insert(name, value.clone());
        }
        Ok(InheritedModel { params: Arc::new(merged), ..resolved })
    }

    fn model_without_run(&self, inherited: Option<&InheritedModel>) -> Result<InheritedModel, UppError> {
        let options = &self.options;
        if let Some(model) = &options.model {
            return Ok(InheritedModel { model: Arc::clone(model), params: Arc::clone(&options.params) });
        }
        let Some(inherited) = inherited else {
            // A strategy of the application may run other agents only.
            if matches!(options.strategy, Some(Strategy::Custom(_))) {
                let model = Arc::new(MissingModel::of(self.label()));
                return Ok(InheritedModel { model, params: Arc::clone(&options.params) });
            }
            return Err(MissingModel::error(self.label()));
        };
        let params = if options.params.is_empty() { &inherited.params } else { &options.params };
        Ok(InheritedModel { model: Arc::clone(&inherited.model), params: Arc::clone(params) })
    }

    /// Rejects two tools with one name.
    pub(crate) fn check_tool_names(&self, provider: &str) -> Result<(), UppError> {
        let mut names = HashSet::with_capacity(self.tools.len());
        for tool in self.tools.iter() {
            let name = tool.definition.name.as_str();
            if !names.insert(name) {
                let message = format!("two tools are named '{name}'; names of tools must differ");
                return Err(UppError::invalid_request(provider, message));
            }
        }
        Ok(())
    }

    /// The inputs of a run that do not change. `makes_plans`: the state that the run resumes belongs to `plan`.
    ///
    /// # Errors
    /// [`turntree_upp::ErrorCode::InvalidRequest`] for a structure or a plan schema that is not valid.
    pub(crate) fn setup(
        &self,
        model: &InheritedModel,
        history: History,
        makes_plans: bool,
    ) -> Result<Setup, UppError> {
        let provider = model.model.provider();
        if let Some(structure) = &self.structure {
            structure.check_schema(provider)?;
        }
        let schemas = match &self.schemas {
            PlanSchemas { sent: None, .. } if makes_plans => {
                self.strategy_of_run(makes_plans).schemas(&self.definitions)
            }
            schemas => schemas.clone(),
        };
        schemas.check(&*model.model)?;
        Ok(Setup {
            history,
            system: self.options.system.clone(),
            params: Arc::clone(&model.params),
            tools: Arc::clone(&self.definitions),
            structure: self.structure.as_ref().map(|structure| Arc::clone(structure.schema())),
            plan_schema: schemas.sent,
            plan_rules: schemas.rules,
            is_wrapped: self.info.wraps_output,
            structure_repair: self.options.structure_repair,
            output_retries: self.options.output_retries,
            validates_output: self.options.validates_output,
            agent: None,
            provider: Arc::from(provider),
        })
    }
}

/// The model of an agent that has none, because its strategy runs other agents: it refuses every call.
#[derive(Debug)]
struct MissingModel {
    agent: Arc<str>,
}

impl MissingModel {
    fn of(agent: &str) -> Self {
        Self { agent: agent.into() }
    }

    fn error(agent: &str) -> UppError {
        let message = format!(
            "agent '{agent}' has no model; give it one, or run it as a tool of an agent that has one"
        );
        UppError::invalid_request("", message)
    }
}

impl Model for MissingModel {
    fn model_id(&self) -> &'static str {
        ""
    }

    fn provider(&self) -> &'static str {
        ""
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    fn complete(&self, _request: ModelRequest) -> BoxFuture<'static, Result<ModelResponse, UppError>> {
        ready(Err(Self::error(&self.agent))).boxed()
    }

    fn stream(&self, _request: ModelRequest) -> ModelStream {
        once(ready(Err(Self::error(&self.agent)))).boxed()
    }
}

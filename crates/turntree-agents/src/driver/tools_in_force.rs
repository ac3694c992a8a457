//! The tools that a run has at a step: the agent's own, and those of its toolsets.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::try_join_all;
use tokio_util::sync::CancellationToken;

use crate::driver::driver::Driver;
use crate::host::error::{HostError, HostErrorKind};
use crate::host::strategy::Strategy;
use crate::host::tool::{Tool, names_of};
use crate::host::toolset::{Toolset, ToolsetContext};
use crate::machine::machine::{Machine, ToolUse};
use crate::machine::strategies::plan::PlanOptions;
use crate::types::run_view::RunView;
use turntree_core::message::ToolDefinition;
use turntree_upp::UppError;

/// The toolsets of an agent.
#[derive(Debug, Clone)]
pub(crate) struct Toolsets {
    /// The agent's own tools. They come first in every request.
    own: Arc<[Tool]>,
    sources: Arc<[Arc<dyn Toolset>]>,
    /// The options of the strategy `plan`, if its schema is made from the tools.
    plan: Option<PlanOptions>,
}

impl Toolsets {
    /// The toolsets of an agent with this strategy; `None` for an agent without toolsets.
    pub(crate) fn new(
        own: &Arc<[Tool]>,
        toolsets: &Arc<[Arc<dyn Toolset>]>,
        strategy: &Strategy,
    ) -> Option<Arc<Self>> {
        if toolsets.is_empty() {
            return None;
        }
        let (own, sources) = (Arc::clone(own), Arc::clone(toolsets));
        Some(Arc::new(Self { own, sources, plan: plan_made_from_tools(strategy) }))
    }

    /// The number of the agent's own tools, which come first.
    pub(super) fn own_count(&self) -> usize {
        self.own.len()
    }

    /// The same toolsets for a part of the run that another strategy executes.
    pub(super) fn with_strategy(&self, strategy: &Strategy) -> Arc<Self> {
        Arc::new(Self { plan: plan_made_from_tools(strategy), ..self.clone() })
    }

    /// Asks all toolsets at the same time.
    async fn ask(&self, context: &Arc<ToolsetContext>) -> Result<Vec<Vec<Tool>>, (Arc<str>, HostError)> {
        let asked = self.sources.iter().map(|toolset| async move {
            toolset.tools(context).await.map_err(|error| (Arc::from(toolset.name()), error))
        });
        try_join_all(asked).await
    }

    /// Joins the agent's own tools and those of the toolsets.
    fn join(&self, asked: Vec<Vec<Tool>>, provider: &str) -> Result<Arc<[Tool]>, UppError> {
        let count = self.own.len() + asked.iter().map(Vec::len).sum::<usize>();
        let mut names: HashMap<&str, Option<&str>> = HashMap::with_capacity(count);
        names.extend(self.own.iter().map(|tool| (tool.definition.name.as_str(), None)));
        for (toolset, tools) in self.sources.iter().zip(&asked) {
            for tool in tools {
                let name = tool.definition.name.as_str();
                if let Some(other) = names.insert(name, Some(toolset.name())) {
                    let other = other.map_or_else(
                        || "the agent's own tools".to_owned(),
                        |other| format!("toolset '{other}'"),
                    );
                    let message = format!(
                        "two tools are named '{name}': one of {other} and one of toolset '{}'; names of tools must \
                         differ, rename one of them",
                        toolset.name()
                    );
                    return Err(UppError::invalid_request(provider, message));
                }
            }
        }
        Ok(self.own.iter().cloned().chain(asked.into_iter().flatten()).collect())
    }
}

/// The options of `plan`, if its schema is made from the tools.
fn plan_made_from_tools(strategy: &Strategy) -> Option<PlanOptions> {
    match strategy {
        Strategy::Plan(options) if options.plan_schema.is_none() => Some(options.clone()),
        _ => None,
    }
}

/// Why a run has no tools.
pub(crate) enum ToolsError {
    /// The run fails with this error.
    Failed(UppError),
    /// The process stops: the run ends at once and no hook is called.
    Fatal(UppError),
}

impl From<ToolsError> for UppError {
    fn from(error: ToolsError) -> Self {
        match error {
            ToolsError::Failed(error) | ToolsError::Fatal(error) => error,
        }
    }
}

/// The tools that a run has now. Without toolsets they never change.
pub(super) struct ToolsInForce {
    pub(super) tools: Arc<[Tool]>,
    /// True if they were asked for since the last model call.
    is_current: bool,
    /// True if they were asked for in this execution of the run.
    is_known: bool,
}

impl ToolsInForce {
    pub(super) fn new(driver: &Driver) -> Self {
        let is_known = driver.config.has_current_tools;
        Self { tools: Arc::clone(&driver.tools), is_current: false, is_known }
    }

    /// True if the toolsets must be asked before the next action of the machine.
    pub(super) fn is_due(&self, driver: &Driver, machine: &Machine) -> bool {
        driver.ports.toolsets.is_some()
            && match machine.tool_use() {
                Some(ToolUse::Request) => !self.is_current,
                Some(ToolUse::Calls) => !self.is_known,
                None => false,
            }
    }

    /// Asks the toolsets.
    pub(super) async fn update(
        &mut self,
        driver: &Driver,
        machine: &mut Machine,
        cancellation: &CancellationToken,
    ) -> Result<(), ToolsError> {
        self.tools = driver.ask_toolsets(machine, cancellation).await?;
        (self.is_current, self.is_known) = (true, true);
        Ok(())
    }

    /// The model has responded: the tools may have changed before the next call.
    pub(super) const fn expire(&mut self) {
        self.is_current = false;
    }
}

impl Driver {
    /// Describes the run to functions of the application.
    pub(super) fn describe(&self, machine: &Machine, cancellation: &CancellationToken) -> RunView {
        RunView {
            identity: Arc::clone(&self.identity),
            agent_name: self.config.agent_name.clone(),
            step: machine.state().step(),
            messages: machine.transcript().clone(),
            cancellation: cancellation.clone(),
        }
    }

    /// Asks the toolsets of the agent, and gives the machine all tools that the run has now. Returns them.
    ///
    /// # Cancel safety
    /// Dropping the future drops the futures of the toolsets. The machine does not change then.
    pub(crate) async fn ask_toolsets(
        &self,
        machine: &mut Machine,
        cancellation: &CancellationToken,
    ) -> Result<Arc<[Tool]>, ToolsError> {
        let Some(toolsets) = &self.ports.toolsets else { return Ok(Arc::clone(&self.tools)) };
        let run = self.describe(machine, cancellation);
        let context = Arc::new(ToolsetContext { host: Arc::clone(&self.host), run });
        let provider = self.model.provider();
        let asked = toolsets.ask(&context).await.map_err(|(name, error)| {
            let is_fatal = error.kind == HostErrorKind::Fatal;
            let error = error.into_error(&format!("toolset '{name}'"), provider);
            if is_fatal { ToolsError::Fatal(error) } else { ToolsError::Failed(error) }
        })?;
        let tools = toolsets.join(asked, provider).map_err(ToolsError::Failed)?;
        let definitions: Arc<[ToolDefinition]> = tools.iter().map(|tool| tool.definition.clone()).collect();
        let plan = toolsets.plan.clone().map(Strategy::Plan);
        let plan_schema = plan.and_then(|plan| plan.schemas(&definitions).sent);
        let idempotent = names_of(&tools, |tool| tool.idempotent);
        let guarded = names_of(&tools, |tool| tool.requires_approval);
        machine.set_tools(definitions, plan_schema, idempotent, guarded);
        Ok(tools)
    }
}

//! The strategy `plan`: makes a plan, executes its steps, and replans when a step fails.
//!
//! The plan is structured output that is not added to the conversation. Each plan step is a step of the run, in the order of
//! the dependencies. In each, the model receives the description of the step and can call tools repeatedly.
//!
//! Spec: UAP-1.0 §5.4; decisions A26–A39

pub(crate) mod draft;
mod prompts;

use std::collections::HashSet;
use std::sync::Arc;

use imbl::Vector;
use serde::{Deserialize, Serialize};

use crate::machine::json::list;
use crate::machine::strategies::policy::{Purpose, StrategyPolicy, StrategyView, Transition};
use crate::types::plan_step::{PlanStatus, PlanStep};
use crate::types::structure::{Structure, Violation};
use turntree_core::json::RawJson;
use turntree_core::message::{ToolDefinition, ToolExecution};
use turntree_upp::llm::capability_check;
use turntree_upp::{Model, UppError};

/// Options of the strategy `plan`.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanOptions {
    /// Maximum number of steps of a plan, including steps completed before replanning.
    pub max_plan_steps: u32,
    /// True if the model makes a new plan when a step fails.
    pub allow_replan: bool,
    /// JSON Schema of a plan: an object with `steps`, each with `id`, `description`, `tool` and `dependsOn`. Further members
    /// go to [`PlanStep::extra`]. Default: a schema made from the tools.
    pub plan_schema: Option<Arc<RawJson>>,
    /// Maximum number of new plans after the first.
    pub max_replans: u32,
    /// Maximum number of tool rounds in one step; at least 1. If it is exceeded, the run fails, as in `loop`.
    pub max_iterations: u32,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self { max_plan_steps: 10, allow_replan: true, plan_schema: None, max_replans: 3, max_iterations: 10 }
    }
}

impl PlanOptions {
    /// The number of new plans that a run may make.
    const fn replans(&self) -> u32 {
        if self.allow_replan { self.max_replans } else { 0 }
    }
}

/// The schemas of a plan. Both are `None` for other strategies.
#[derive(Debug, Clone, Default)]
pub(crate) struct PlanSchemas {
    /// Sent to the model.
    pub(crate) sent: Option<Arc<RawJson>>,
    /// The application's schema, checked in addition to the rules for all plans. `None` for the default schema.
    pub(crate) rules: Option<Arc<Structure>>,
}

impl PlanSchemas {
    /// Creates the schemas for an agent with these tools.
    pub(crate) fn new(options: &PlanOptions, tools: &[ToolDefinition]) -> Self {
        match &options.plan_schema {
            None => {
                let schema = draft::default_schema(tools, options.max_plan_steps);
                Self { sent: Some(Arc::new(schema)), rules: None }
            }
            Some(schema) => {
                let rules = Structure::new(schema);
                Self { sent: Some(Arc::clone(rules.schema())), rules: Some(Arc::new(rules)) }
            }
        }
    }

    /// Checks that a model supports the schemas.
    ///
    /// # Errors
    /// [`turntree_upp::ErrorCode::InvalidRequest`] if the model does not support structured output, or if the schema is not a
    /// valid JSON Schema of an object.
    pub(crate) fn check(&self, model: &dyn Model) -> Result<(), UppError> {
        if self.sent.is_none() {
            return Ok(());
        }
        capability_check::check_features(model, true, false)?;
        let Some(rules) = &self.rules else { return Ok(()) };
        if rules.is_wrapped() || !rules.schema().is_object() {
            let message = "plan_schema: expected the JSON Schema of an object with the member \"steps\"";
            return Err(UppError::invalid_request(model.provider(), message));
        }
        rules.check_schema(model.provider())
    }
}

/// The current stage of the strategy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Stage {
    /// The model makes a plan: the first one, or a new one after a step failed with `failure`.
    Plan { failure: Option<String> },
    /// The model corrects a plan with these violations.
    Correct(Vec<Violation>),
    /// The model executes a step. If `last` is true, no step follows, and its response is the answer.
    Work { step: usize, last: bool, failure: Option<String> },
    /// The model answers: no step is left.
    Answer,
}

/// State of the strategy `plan` in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlanState {
    max_plan_steps: u32,
    replans_left: u32,
    /// The number of new plans that were allowed when `replans_left` was set. `None` in states of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_replans: Option<u32>,
    max_iterations: u32,
    stage: Stage,
    /// True if there is a plan.
    planned: bool,
    /// The steps in the order of their execution. Finished steps of earlier plans come first.
    #[serde(with = "list")]
    steps: Vector<PlanStep>,
    /// Number of tool rounds in the current step.
    rounds: u32,
}

impl PlanState {
    pub(crate) fn new(options: &PlanOptions) -> Self {
        let replans = options.replans();
        Self {
            max_plan_steps: options.max_plan_steps,
            replans_left: replans,
            max_replans: Some(replans),
            max_iterations: options.max_iterations.max(1),
            stage: Stage::Plan { failure: None },
            planned: false,
            steps: Vector::new(),
            rounds: 0,
        }
    }

    /// Sets the limits of a run that is resumed. New plans that the run has made count.
    pub(crate) fn set_limits(&mut self, options: &PlanOptions) {
        self.max_plan_steps = options.max_plan_steps;
        self.max_iterations = options.max_iterations.max(1);
        if let Some(allowed) = self.max_replans.replace(options.replans()) {
            let made = allowed.saturating_sub(self.replans_left);
            self.replans_left = options.replans().saturating_sub(made);
        }
    }

    /// The pending steps that do not depend on a failed step.
    fn open(&self) -> impl Iterator<Item = usize> {
        // Steps come after their dependencies, so one pass finds all steps that depend on a failed one.
        let mut blocked = HashSet::new();
        self.steps.iter().enumerate().filter_map(move |(place, step)| match step.status {
            PlanStatus::Failed => {
                blocked.insert(step.id.as_str());
                None
            }
            PlanStatus::Pending if step.depends_on.iter().any(|id| blocked.contains(id.as_str())) => {
                blocked.insert(step.id.as_str());
                None
            }
            PlanStatus::Pending => Some(place),
            _ => None,
        })
    }

    fn set(&mut self, step: usize, status: PlanStatus) {
        if let Some(step) = self.steps.get_mut(step) {
            step.status = status;
        }
    }

    /// The number of steps that can still be planned. Failed steps do not count.
    fn room(&self) -> usize {
        let done = self.steps.iter().filter(|step| step.status == PlanStatus::Completed).count();
        (self.max_plan_steps as usize).saturating_sub(done)
    }

    fn over(&self) -> Vec<&PlanStep> {
        let is_over = |step: &&PlanStep| matches!(step.status, PlanStatus::Completed | PlanStatus::Failed);
        self.steps.iter().filter(is_over).collect()
    }

    /// Ends the current step. It has failed if the last call of its tool failed (decision A30).
    fn settle(&mut self, view: &StrategyView<'_>) {
        let Stage::Work { step, failure, .. } = &mut self.stage else { return };
        let Some(done) = self.steps.get_mut(*step) else { return };
        let of_tool = |record: &&ToolExecution| Some(&record.tool_name) == done.tool.as_ref();
        let last = view.executions().filter(of_tool).last().filter(|record| record.is_error);
        done.status = if last.is_some() { PlanStatus::Failed } else { PlanStatus::Completed };
        *failure = last.map(|record| {
            let message = record.result.as_string();
            message.unwrap_or_else(|| record.result.get().to_owned())
        });
    }
}

impl StrategyPolicy for PlanState {
    fn purpose(&self) -> Purpose {
        match self.stage {
            Stage::Plan { .. } | Stage::Correct(_) => Purpose::Plan,
            Stage::Work { last: false, .. } => Purpose::Work,
            Stage::Work { last: true, .. } | Stage::Answer => Purpose::Answer,
        }
    }

    fn prompt(&self, view: &StrategyView<'_>) -> String {
        match &self.stage {
            Stage::Plan { failure: None } => prompts::plan(self.room(), &view.setup.tools),
            Stage::Plan { failure: Some(failure) } => prompts::replan(&self.steps, failure, self.room()),
            Stage::Correct(violations) => prompts::correct(violations),
            Stage::Work { step, last, .. } => {
                self.steps.get(*step).map_or_else(prompts::answer, |step| prompts::work(step, *last))
            }
            Stage::Answer => prompts::answer(),
        }
    }

    fn planned(&mut self, view: &StrategyView<'_>, data: Option<&RawJson>) -> Transition {
        let rules = draft::PlanRules {
            schema: view.setup.plan_rules.as_deref(),
            tools: &view.setup.tools,
            over: &self.over(),
            room: self.room(),
        };
        match draft::read(data, &rules) {
            Ok(steps) => {
                self.steps = rules.over.iter().copied().cloned().chain(steps).collect();
                self.planned = true;
                Transition::Planned
            }
            Err(violations) if matches!(self.stage, Stage::Correct(_)) => {
                let found = Violation::list(&violations, "; ");
                Transition::Invalid(format!(
                    "the model returned two invalid plans in succession; the last one: {found}"
                ))
            }
            Err(violations) => {
                self.stage = Stage::Correct(violations);
                Transition::Ask
            }
        }
    }

    fn entered(&mut self) {
        self.rounds = 0;
        let mut open = self.open();
        let (next, last) = (open.next(), open.next().is_none());
        drop(open);
        self.stage = match next {
            Some(step) => Stage::Work { step, last, failure: None },
            None => Stage::Answer,
        };
        if let Some(step) = next {
            self.set(step, PlanStatus::InProgress);
        }
    }

    fn begun(&mut self, _: &StrategyView<'_>) -> Transition {
        Transition::Ask
    }

    fn answered(&mut self, view: &StrategyView<'_>) -> Transition {
        if !view.wants_tools() {
            self.settle(view);
            return Transition::EndStep;
        }
        if self.rounds >= self.max_iterations {
            return Transition::Exceeded(self.max_iterations);
        }
        self.rounds += 1;
        Transition::RunTools
    }

    fn observed(&mut self, _: &StrategyView<'_>) -> Transition {
        Transition::CallModel
    }

    fn failed(&mut self, error: &UppError) -> Option<Transition> {
        let Stage::Work { step, failure, .. } = &mut self.stage else { return None };
        let step = *step;
        *failure = Some(error.message.clone());
        self.set(step, PlanStatus::Failed);
        (self.replans_left > 0).then_some(Transition::EndStep)
    }

    fn stepped(&mut self, view: &StrategyView<'_>) -> Transition {
        if let Stage::Work { failure: Some(failure), .. } = &mut self.stage
            && self.replans_left > 0
        {
            let failure = std::mem::take(failure);
            self.replans_left -= 1;
            self.stage = Stage::Plan { failure: Some(failure) };
            return Transition::Ask;
        }
        let is_answered = self.purpose() == Purpose::Answer || view.setup.structure.is_none();
        let has_next = self.open().next().is_some();
        if has_next || !is_answered { Transition::NextStep } else { Transition::Finish }
    }

    fn plan(&self) -> Option<&Vector<PlanStep>> {
        self.planned.then_some(&self.steps)
    }

    fn plan_step(&self) -> Option<&str> {
        let Stage::Work { step, .. } = &self.stage else { return None };
        self.steps.get(*step).map(|step| step.id.as_str())
    }
}

//! The interface between the machine and a strategy: the machine reports what happened, the strategy returns the next
//! transition.

use imbl::Vector;

use crate::machine::run_totals::{Mark, RunTotals};
use crate::machine::setup::Setup;
use crate::types::plan_step::PlanStep;
use turntree_core::json::RawJson;
use turntree_core::message::ToolExecution;
use turntree_upp::UppError;

/// The purpose of a model call. Determines the content of the request and where the response is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Final response: the request has tools and the structure. The response is added to the conversation.
    Answer,
    /// Intermediate response: as [`Self::Answer`], without the structure.
    Work,
    /// Reasoning: the request declares tools, but tool calls are dropped. The response is an ephemeral message.
    Reason,
    /// Planning: the request has the schema of a plan. The response is an ephemeral message.
    Plan,
}

impl Purpose {
    /// True if the response is an ephemeral message.
    pub(crate) const fn is_ephemeral(self) -> bool {
        matches!(self, Self::Reason | Self::Plan)
    }
}

/// The transition that a strategy chooses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Transition {
    /// Call the model with the current messages.
    CallModel,
    /// Add an ephemeral message ([`StrategyPolicy::prompt`]) and call the model.
    Ask,
    /// Run the tool calls of the last response.
    RunTools,
    /// Save the plan, then begin a step.
    Planned,
    /// End the step.
    EndStep,
    /// Begin another step.
    NextStep,
    /// End the run. The last response is the result.
    Finish,
    /// Fail the run: another tool round would exceed the limit. Contains the limit.
    Exceeded(u32),
    /// Fail the run: the strategy cannot use the response. Contains the reason.
    Invalid(String),
}

/// The data of a run that a strategy can read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StrategyView<'a> {
    /// The setup of the run.
    pub(crate) setup: &'a Setup,
    /// The data that the run has collected.
    pub(crate) collected: &'a RunTotals,
    /// The number of the current step, from 1.
    pub(crate) step: u32,
    /// The lengths of the collected lists when the current step began.
    pub(crate) mark: Mark,
}

impl<'a> StrategyView<'a> {
    /// True if the last response contains tool calls that can run. Without tools, calls are left to the caller.
    pub(crate) fn wants_tools(&self) -> bool {
        !self.setup.tools.is_empty()
            && self.collected.last().is_some_and(|response| response.has_tool_calls())
    }

    /// Records of the tools that ran in this step, in the order they finished.
    pub(crate) fn executions(&self) -> impl Iterator<Item = &'a ToolExecution> {
        self.collected.executions_since(self.mark)
    }
}

/// Chooses the next transition after each event of a run. The default methods are for events that cannot happen in a
/// strategy.
pub(crate) trait StrategyPolicy {
    /// The purpose of the current or the last model call.
    fn purpose(&self) -> Purpose {
        Purpose::Answer
    }

    /// Returns the text of the ephemeral message. Called after [`Transition::Ask`].
    fn prompt(&self, _view: &StrategyView<'_>) -> String {
        String::new()
    }

    /// A step is about to begin; its hooks have not been called.
    fn entered(&mut self) {}

    /// A step has begun.
    fn begun(&mut self, view: &StrategyView<'_>) -> Transition;

    /// The model has reasoned; the text is an ephemeral message.
    fn reasoned(&mut self, _view: &StrategyView<'_>) -> Transition {
        Transition::EndStep
    }

    /// The model has planned; the text is an ephemeral message, `data` the structured output.
    fn planned(&mut self, _view: &StrategyView<'_>, _data: Option<&RawJson>) -> Transition {
        Transition::EndStep
    }

    /// The model has responded; its message is the last one.
    fn answered(&mut self, view: &StrategyView<'_>) -> Transition;

    /// All tools of a round have finished; their results are the last message.
    fn observed(&mut self, view: &StrategyView<'_>) -> Transition;

    /// A model call has failed. `None` if the error ends the run.
    fn failed(&mut self, _error: &UppError) -> Option<Transition> {
        None
    }

    /// A step has ended and the stop condition did not stop the run.
    fn stepped(&mut self, view: &StrategyView<'_>) -> Transition;

    /// True if the strategy has reasoning and action phases, whose hooks `on_reason`, `on_act` and `on_observe` are
    /// called.
    ///
    /// Spec: UAP-1.0 §11.2
    fn calls_phase_hooks(&self) -> bool {
        false
    }

    /// The plan, if there is one.
    fn plan(&self) -> Option<&Vector<PlanStep>> {
        None
    }

    /// The id of the plan step that is being executed.
    fn plan_step(&self) -> Option<&str> {
        None
    }
}

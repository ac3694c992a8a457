//! The interface between the machine and a strategy: the machine reports what happened, the strategy returns the next
//! transition.

use imbl::Vector;

use crate::machine::run_totals::{Mark, RunTotals};
use crate::machine::setup::Setup;
use crate::types::plan_step::PlanStep;
use turntree_core::json::RawJson;
use turntree_core::message::ToolExecution;
use turntree_upp::UppError;

/// The purpose of a model call: what it is sent with, and where its response goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To answer: with tools, and the structure. The answer joins the conversation.
    Answer,
    /// To work on: as [`Self::Answer`], but the structure comes with a later call.
    Work,
    /// To think: tools are declared, and calls of them dropped. The answer stays aside.
    Reason,
    /// To plan: with the structure of a plan. The answer stays aside.
    Plan,
}

impl Purpose {
    /// Whether the answer stays aside.
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
    /// Run the tools that the last answer calls.
    RunTools,
    /// There is a plan: save it, and begin a step.
    Planned,
    /// The step is over.
    EndStep,
    /// Begin another step.
    NextStep,
    /// The run is over; the last answer is the response.
    Finish,
    /// One more tool round would be more than the limit.
    Exceeded(u32),
    /// The response is not usable for the strategy; the reason.
    Invalid(String),
}

/// What a strategy decides on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StrategyView<'a> {
    /// The setup of the run.
    pub(crate) setup: &'a Setup,
    /// What the run has collected.
    pub(crate) collected: &'a RunTotals,
    /// The step that runs, from 1.
    pub(crate) step: u32,
    /// Where it began.
    pub(crate) mark: Mark,
}

impl<'a> StrategyView<'a> {
    /// True if the last response contains tool calls that can run. Without tools, calls are left to the caller.
    pub(crate) fn wants_tools(&self) -> bool {
        !self.setup.tools.is_empty() && self.collected.last().is_some_and(|answer| answer.has_tool_calls())
    }

    /// Records of the tools that ran in this step, in the order they finished.
    pub(crate) fn executions(&self) -> impl Iterator<Item = &'a ToolExecution> {
        self.collected.executions_since(self.mark)
    }
}

/// The places of a run where a strategy decides. Defaults serve strategies that never come there.
pub(crate) trait StrategyPolicy {
    /// The purpose of the current or the last model call.
    fn purpose(&self) -> Purpose {
        Purpose::Answer
    }

    /// The text of the ephemeral message, after [`Transition::Ask`].
    fn prompt(&self, _decision: &StrategyView<'_>) -> String {
        String::new()
    }

    /// A step is about to begin; its hooks have not been called.
    fn entered(&mut self) {}

    /// A step has begun.
    fn begun(&mut self, decision: &StrategyView<'_>) -> Transition;

    /// The model has reasoned; the text is an ephemeral message.
    fn reasoned(&mut self, _decision: &StrategyView<'_>) -> Transition {
        Transition::EndStep
    }

    /// The model has planned; the text is an ephemeral message, `data` the structured output.
    fn planned(&mut self, _decision: &StrategyView<'_>, _data: Option<&RawJson>) -> Transition {
        Transition::EndStep
    }

    /// The model has answered; its message is the last one.
    fn answered(&mut self, decision: &StrategyView<'_>) -> Transition;

    /// All tools of a round have answered; their results are the last message.
    fn observed(&mut self, decision: &StrategyView<'_>) -> Transition;

    /// A call of the model has failed. `None` where that ends the run.
    fn failed(&mut self, _error: &UppError) -> Option<Transition> {
        None
    }

    /// A step has ended and the stop condition did not stop the run.
    fn stepped(&mut self, decision: &StrategyView<'_>) -> Transition;

    /// Whether the model thinks aloud, and the hooks of its phases (`on_reason`, `on_act`, `on_observe`) are called
    /// (UAP-1.0 §11.2).
    fn calls_phase_hooks(&self) -> bool {
        false
    }

    /// The plan, where there is one.
    fn plan(&self) -> Option<&Vector<PlanStep>> {
        None
    }

    /// The id of the step of the plan that is carried out.
    fn plan_step(&self) -> Option<&str> {
        None
    }
}

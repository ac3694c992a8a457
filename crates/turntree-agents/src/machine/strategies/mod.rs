//! Strategies: what a run does next. UAP-1.0 §5.
//!
//! A strategy is asked at the places of a run (see `StrategyPolicy`) and answers with a `Transition`. It sees what the run has
//! collected, keeps its own small state, and does nothing itself: no call, no clock, no hook. What a call of the model is
//! for is its [`Purpose`]; what the model is told beside the conversation are *ephemeral*, which are sent and not kept in
//! turns and threads (decision A11).
//!
//! An [`CustomStrategy`] is the application's: it does everything itself, and the run takes the turn that it gives.

pub(crate) mod custom;
pub(crate) mod loop_;
pub(crate) mod observation;
pub(crate) mod plan;
pub(crate) mod react;

use std::sync::Arc;

use imbl::Vector;
use serde::{Deserialize, Serialize};

pub(crate) use custom::{CustomHandle, CustomState};
pub use custom::{CustomStrategy, OwnContext, StrategyEvents, StrategyOutcome};
pub use loop_::LoopOptions;
pub(crate) use loop_::LoopState;
pub use observation::ObservationFormat;
pub use plan::PlanOptions;
pub(crate) use plan::{PlanState, Schemas};
pub(crate) use react::ReactState;
pub use react::{ACTION_PROMPT, REASONING_PROMPT, ReactOptions};

use crate::machine::state::{Collected, Mark, Setup};
use crate::types::plan_step::PlanStep;
use turntree_core::json::RawJson;
use turntree_core::message::{ToolDefinition, ToolExecution};
use turntree_upp::UppError;

/// How an agent runs: the options of its strategy.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Strategy {
    /// Call the model, run the tools it wants, again until it wants none. UAP-1.0 §5.2.
    Loop(LoopOptions),
    /// Have the model think before each call. UAP-1.0 §5.3.
    React(ReactOptions),
    /// Have the model plan first. UAP-1.0 §5.4.
    Plan(PlanOptions),
    /// As the application says. UAP-1.0 §5.5.
    Custom(CustomHandle),
}

impl Strategy {
    /// `loop` with the given limit of tool rounds.
    pub const fn loop_(max_iterations: u32) -> Self {
        Self::Loop(LoopOptions { max_iterations })
    }

    /// A strategy of the application.
    pub fn custom(strategy: Arc<dyn CustomStrategy>) -> Self {
        Self::Custom(CustomHandle(strategy))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Loop(_) => "loop",
            Self::React(_) => "react",
            Self::Plan(_) => "plan",
            Self::Custom(own) => own.0.name(),
        }
    }

    /// The schemas of the plan that it makes.
    pub(crate) fn schemas(&self, tools: &[ToolDefinition]) -> Schemas {
        match self {
            Self::Plan(options) => Schemas::new(options, tools),
            _ => Schemas::default(),
        }
    }

    pub(crate) fn start(&self) -> StrategyState {
        match self {
            Self::Loop(options) => StrategyState::Loop(LoopState::new(*options)),
            Self::React(options) => StrategyState::React(ReactState::new(options)),
            Self::Plan(options) => StrategyState::Plan(Box::new(PlanState::new(options))),
            Self::Custom(_) => StrategyState::Custom(CustomState::default()),
        }
    }
}

impl Default for Strategy {
    fn default() -> Self {
        Self::Loop(LoopOptions::default())
    }
}

/// What a call of the model is for: what it is sent with, and where its answer goes.
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

/// What a run does next, as a strategy decides it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Transition {
    /// Call the model with what it was told so far.
    CallModel,
    /// Tell the model something aside ([`StrategyPolicy::prompt`]), and call it.
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
    /// The model did not give what the strategy needs: what is wrong.
    Invalid(String),
}

/// What a strategy decides on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StrategyView<'a> {
    /// What the run was set up with.
    pub(crate) setup: &'a Setup,
    /// What it has brought.
    pub(crate) collected: &'a Collected,
    /// The step that runs, from 1.
    pub(crate) step: u32,
    /// Where it began.
    pub(crate) mark: Mark,
}

impl<'a> StrategyView<'a> {
    /// Whether the last answer wants tools that can be run. Without tools its calls are left to the caller.
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
    /// What the call of the model is for that is under way, or was the last.
    fn purpose(&self) -> Purpose {
        Purpose::Answer
    }

    /// What the model is told aside, after [`Transition::Ask`].
    fn prompt(&self, _decision: &StrategyView<'_>) -> String {
        String::new()
    }

    /// A step is about to begin; its hooks have not been called.
    fn entered(&mut self) {}

    /// A step has begun.
    fn begun(&mut self, decision: &StrategyView<'_>) -> Transition;

    /// The model has thought, and its text stands aside.
    fn reasoned(&mut self, _decision: &StrategyView<'_>) -> Transition {
        Transition::EndStep
    }

    /// The model has planned, and its text stands aside; `data` is the structured answer.
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

/// A strategy at work: its options and how far it is. Part of a run's serialized state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum StrategyState {
    /// See [`Strategy::Loop`].
    Loop(LoopState),
    /// See [`Strategy::React`].
    React(ReactState),
    /// See [`Strategy::Plan`].
    Plan(Box<PlanState>),
    /// See [`Strategy::Custom`].
    #[serde(rename = "own")]
    Custom(CustomState),
}

impl StrategyState {
    pub(crate) fn moves(&self) -> &dyn StrategyPolicy {
        match self {
            Self::Loop(state) => state,
            Self::React(state) => state,
            Self::Plan(state) => &**state,
            Self::Custom(state) => state,
        }
    }

    pub(crate) fn moves_mut(&mut self) -> &mut dyn StrategyPolicy {
        match self {
            Self::Loop(state) => state,
            Self::React(state) => state,
            Self::Plan(state) => &mut **state,
            Self::Custom(state) => state,
        }
    }
}

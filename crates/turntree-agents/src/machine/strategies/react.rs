//! The strategy `react`: reason, act and observe, repeated until the model answers.
//!
//! A step makes two model calls. The first one reasons: its text is not added to the conversation, and its tool calls are
//! dropped. The second one acts: its tool calls run once, and the step ends. The reasoning prompt of the next step begins
//! with the tool results.
//!
//! Spec: UAP-1.0 §5.3; decisions A17–A25

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::machine::strategies::observation::ObservationFormat;
use crate::machine::strategies::policy::{Purpose, StrategyPolicy, StrategyView, Transition};

/// The default reasoning prompt.
pub const REASONING_PROMPT: &str = "Think step by step about what to do next: what is known, what is missing, and which of \
                                    the tools, if any, would help. Only write down your reasoning; do not call tools and \
                                    do not answer yet.";

/// The prompt of the acting call.
pub const ACTION_PROMPT: &str = "Now act on your reasoning: call the tools you need, or give the final answer if nothing \
                                 more is needed.";

/// Options of the strategy `react`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReactOptions {
    /// Maximum number of steps. After it the run ends without an error, even if the last response has tool calls (decision
    /// A23).
    pub max_steps: u32,
    /// The reasoning prompt, sent at the end of the request; [`REASONING_PROMPT`] by default.
    pub reasoning_prompt: Option<Arc<str>>,
    /// Format of the tool results in the next prompt.
    pub observation_format: ObservationFormat,
}

impl Default for ReactOptions {
    fn default() -> Self {
        Self { max_steps: 10, reasoning_prompt: None, observation_format: ObservationFormat::default() }
    }
}

/// The stage of the current step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Stage {
    Reason,
    Act,
}

/// State of the strategy `react` in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReactState {
    max_steps: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reasoning_prompt: Option<Arc<str>>,
    observation_format: ObservationFormat,
    stage: Stage,
    /// True if the current step called tools, so that another step follows.
    #[serde(rename = "goesOn")]
    continues: bool,
}

impl ReactState {
    pub(crate) fn new(options: &ReactOptions) -> Self {
        Self {
            max_steps: options.max_steps,
            reasoning_prompt: options.reasoning_prompt.clone(),
            observation_format: options.observation_format,
            stage: Stage::Reason,
            continues: false,
        }
    }

    pub(crate) const fn set_limits(&mut self, options: &ReactOptions) {
        self.max_steps = options.max_steps;
    }
}

impl StrategyPolicy for ReactState {
    fn purpose(&self) -> Purpose {
        match self.stage {
            Stage::Reason => Purpose::Reason,
            Stage::Act => Purpose::Answer,
        }
    }

    fn prompt(&self, view: &StrategyView<'_>) -> String {
        match self.stage {
            Stage::Act => ACTION_PROMPT.to_owned(),
            Stage::Reason => {
                let prompt = self.reasoning_prompt.as_deref().unwrap_or(REASONING_PROMPT);
                match self.observation_format.render(&view.collected.messages) {
                    Some(observations) => format!("{observations}\n\n{prompt}"),
                    None => prompt.to_owned(),
                }
            }
        }
    }

    fn begun(&mut self, _: &StrategyView<'_>) -> Transition {
        (self.stage, self.continues) = (Stage::Reason, false);
        Transition::Ask
    }

    fn reasoned(&mut self, _: &StrategyView<'_>) -> Transition {
        self.stage = Stage::Act;
        Transition::Ask
    }

    fn answered(&mut self, view: &StrategyView<'_>) -> Transition {
        self.continues = view.wants_tools();
        if self.continues { Transition::RunTools } else { Transition::EndStep }
    }

    fn observed(&mut self, _: &StrategyView<'_>) -> Transition {
        Transition::EndStep
    }

    fn stepped(&mut self, view: &StrategyView<'_>) -> Transition {
        if self.continues && view.step < self.max_steps { Transition::NextStep } else { Transition::Finish }
    }

    fn calls_phase_hooks(&self) -> bool {
        true
    }
}

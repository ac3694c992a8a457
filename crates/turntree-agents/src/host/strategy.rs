//! How an agent runs: the built-in strategies and the port for strategies of the application.
//!
//! Spec: UAP-1.0 §5

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::mpsc;

use crate::host::error::HostError;
use crate::machine::setup::Setup;
use crate::machine::state::{Phase, RunState};
use crate::machine::strategies::custom::CustomState;
use crate::machine::strategies::loop_::{LoopOptions, LoopState};
use crate::machine::strategies::plan::{PlanOptions, PlanSchemas, PlanState};
use crate::machine::strategies::react::{ReactOptions, ReactState};
use crate::machine::strategies::state::StrategyState;
use crate::types::event::AgentStreamEvent;
use crate::types::execution_state::ExecutionState;
use crate::types::identity::RunIdentity;
use crate::types::limits::UsageMeter;
use crate::types::parent_run::ParentRun;
use crate::types::strategy_outcome::StrategyOutcome;
use turntree_core::json::RawObject;
use turntree_core::message::message::History;
use turntree_core::message::{Message, ToolDefinition, Turn};
use turntree_upp::{Model, UppError};

/// How an agent runs: a strategy with its options.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Strategy {
    /// Calls the model and runs the tools that it calls, until it calls none.
    ///
    /// Spec: UAP-1.0 §5.2
    Loop(LoopOptions),
    /// Lets the model reason before it acts, in every step.
    ///
    /// Spec: UAP-1.0 §5.3
    React(ReactOptions),
    /// Lets the model make a plan and then execute its steps.
    ///
    /// Spec: UAP-1.0 §5.4
    Plan(PlanOptions),
    /// A strategy of the application.
    ///
    /// Spec: UAP-1.0 §5.5
    Custom(CustomHandle),
}

impl Strategy {
    /// `loop` with at most `max_iterations` tool rounds.
    pub const fn loop_(max_iterations: u32) -> Self {
        Self::Loop(LoopOptions { max_iterations })
    }

    /// A strategy of the application.
    pub fn custom(strategy: Arc<dyn CustomStrategy>) -> Self {
        Self::Custom(CustomHandle(strategy))
    }

    /// The name of the strategy.
    pub fn name(&self) -> &str {
        match self {
            Self::Loop(_) => "loop",
            Self::React(_) => "react",
            Self::Plan(_) => "plan",
            Self::Custom(custom) => custom.0.name(),
        }
    }

    /// The schemas of the plan; empty for strategies without a plan.
    pub(crate) fn schemas(&self, tools: &[ToolDefinition]) -> PlanSchemas {
        match self {
            Self::Plan(options) => PlanSchemas::new(options, tools),
            _ => PlanSchemas::default(),
        }
    }

    /// Sets the limits of a run that is resumed. The progress of the run counts against them. A run of another strategy
    /// keeps its limits.
    ///
    /// Spec: decision A109
    pub(crate) fn set_limits(&self, run: &mut RunState) {
        match (self, &mut run.strategy) {
            (Self::Loop(options), StrategyState::Loop(state)) => state.set_limits(*options),
            (Self::React(options), StrategyState::React(state)) => state.set_limits(options),
            (Self::Plan(options), StrategyState::Plan(state)) => state.set_limits(options),
            _ => {}
        }
    }

    fn initial_state(&self) -> StrategyState {
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

impl RunState {
    /// The state of a run that has not begun, with one input message.
    pub fn new(strategy: &Strategy, input: Arc<Message>, metadata: Arc<RawObject>) -> Self {
        Self::of_messages(strategy, [input], metadata)
    }

    /// The state of a run that has not begun. Without inputs, the model continues from the history.
    pub fn of_messages(
        strategy: &Strategy,
        inputs: impl IntoIterator<Item = Arc<Message>>,
        metadata: Arc<RawObject>,
    ) -> Self {
        let phase = match strategy {
            // The plan comes before the first step.
            Strategy::Plan(_) => Phase::Prompt,
            Strategy::Custom(_) => Phase::Execute,
            Strategy::Loop(_) | Strategy::React(_) => Phase::StepId,
        };
        Self::start(strategy.initial_state(), phase, inputs, metadata)
    }
}

/// A strategy of the application.
///
/// The strategy executes the whole run and returns its turn. The driver then validates and saves that turn and calls
/// `on_complete`; if the strategy fails, it calls `on_error`. The strategy calls the hooks of steps itself.
pub trait CustomStrategy: Send + Sync + fmt::Debug {
    /// The strategy's name.
    fn name(&self) -> &str;

    /// Executes the run.
    ///
    /// # Errors
    /// The error that the run fails with; the driver passes it to `on_error`.
    ///
    /// # Cancel safety
    /// The future is dropped when the run is dropped or aborted. Everything it started must stop.
    fn execute(
        &self,
        scope: Arc<dyn StrategyScope>,
    ) -> BoxFuture<'static, Result<StrategyOutcome, HostError>>;
}

/// A [`CustomStrategy`] as an option of an agent. Two handles are equal if they share one strategy.
#[derive(Debug, Clone)]
pub struct CustomHandle(pub(crate) Arc<dyn CustomStrategy>);

impl PartialEq for CustomHandle {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The environment of a [`CustomStrategy`]: the inputs of the run, its model, and a method that runs other strategies as
/// parts of the run.
pub trait StrategyScope: fmt::Debug + Send + Sync {
    /// History, system prompt, tools and structure of the run.
    fn setup(&self) -> &Arc<Setup>;

    /// The state at the start; its messages are the input.
    fn state(&self) -> &ExecutionState;

    /// The model of the run.
    fn model(&self) -> &Arc<dyn Model>;

    /// The agent and the run.
    fn identity(&self) -> &Arc<RunIdentity>;

    /// Counts the usage of the run, if it has limits.
    fn meter(&self) -> Option<&Arc<UsageMeter>> {
        None
    }

    /// Describes the run to the runs of agents that the strategy starts.
    fn parent_run(&self) -> Option<&Arc<ParentRun>> {
        None
    }

    /// The runs of agents that the strategy starts, if the run belongs to a session.
    fn strategy_runs(&self) -> Option<&StrategyRunsHandle> {
        None
    }

    /// Sends events to the consumer of the stream; `None` if the run is not streamed.
    fn events(&self) -> Option<&StrategyEvents>;

    /// Runs a strategy on `input` after `history` as a part of this run: with its tools, its events and its hooks of
    /// steps.
    ///
    /// # Errors
    /// As [`Driver::run`](crate::driver::Driver::run).
    ///
    /// # Cancel safety
    /// Dropping the future drops the model call and all running tools.
    fn run<'a>(
        &'a self,
        strategy: &'a Strategy,
        history: History,
        input: History,
    ) -> BoxFuture<'a, Result<Arc<Turn>, UppError>>;
}

/// The runs of agents that a strategy starts in a session, for the contexts of these runs. Clones share them.
#[derive(Clone)]
pub struct StrategyRunsHandle(pub(crate) Arc<dyn Any + Send + Sync>);

impl fmt::Debug for StrategyRunsHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("StrategyRunsHandle")
    }
}

/// Sends events of a custom strategy to the consumer of the stream. Clones share one channel.
#[derive(Debug, Clone)]
pub struct StrategyEvents(mpsc::Sender<AgentStreamEvent>);

/// Capacity of the channel, in events.
const CAPACITY: usize = 64;

impl StrategyEvents {
    pub(crate) fn new() -> (Self, mpsc::Receiver<AgentStreamEvent>) {
        let (sender, receiver) = mpsc::channel(CAPACITY);
        (Self(sender), receiver)
    }

    /// Sends an event. Waits while the channel is full. Drops the event if the stream has ended.
    ///
    /// # Cancel safety
    /// A dropped future has sent the event or not.
    pub async fn push(&self, event: AgentStreamEvent) {
        // The receiver is gone when the stream has ended.
        let _sent = self.0.send(event).await;
    }
}

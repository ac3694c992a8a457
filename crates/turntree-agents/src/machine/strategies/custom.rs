//! Strategies of the application. UAP-1.0 §5.5.

use std::fmt;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use imbl::Vector;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::driver::run_loop::{Driver, drive};
use crate::driver::stream::AgentStream;
use crate::host::host::{HookSet, HostError};
use crate::machine::machine::Machine;
use crate::machine::state::{RunState, Setup};
use crate::machine::strategies::StrategyView;
use crate::machine::strategies::{Strategy, StrategyPolicy, Transition};
use crate::types::event::AgentStreamEvent;
use crate::types::execution_state::ExecutionState;
use crate::types::plan_step::PlanStep;
use turntree_core::message::Turn;
use turntree_core::message::message::History;
use turntree_upp::UppError;

/// A strategy of the application.
///
/// It does everything itself and gives the turn; the run around it checks that turn, saves it, tells `on_complete`, and
/// asks `on_error` where it fails. Hooks of steps are its own to call.
pub trait CustomStrategy: Send + Sync + fmt::Debug {
    /// Its name.
    fn name(&self) -> &str;

    /// Runs to the end.
    ///
    /// # Errors
    /// Whatever the application fails with; `on_error` is asked.
    ///
    /// # Cancel safety
    /// The future is dropped when the run is dropped or aborted; what it started must stop.
    fn execute(&self, context: OwnContext) -> BoxFuture<'static, Result<StrategyOutcome, HostError>>;
}

/// What a strategy of the application works with.
#[derive(Debug, Clone)]
pub struct OwnContext {
    /// History, system prompt, tools and structure.
    pub setup: Arc<Setup>,
    /// The model, the application, the tools, who runs.
    pub drive: Driver,
    /// The run as it stands: its messages are the input.
    pub state: ExecutionState,
    /// Who listens; nobody where the run is not streamed.
    pub events: Option<StrategyEvents>,
}

impl OwnContext {
    /// The context for a run that is driven so.
    pub(crate) fn new(
        setup: &Arc<Setup>,
        state: &RunState,
        drive: &Driver,
        events: Option<StrategyEvents>,
    ) -> Self {
        // What the run around it does for all of it, is not done again for a part.
        let around = HookSet::COMPLETE | HookSet::ERROR | HookSet::METADATA;
        let silent = around | HookSet::CHECKPOINT_STEPS | HookSet::CHECKPOINT_WITHIN_STEPS;
        let drive = Driver { events: None, keeper: None, own: None, silent, is_part: true, ..drive.clone() };
        Self { setup: Arc::clone(setup), drive, state: state.execution_state(), events }
    }

    /// Runs a strategy on some messages after the history, as a part of this run: with its hooks of steps, its events and
    /// its tools.
    ///
    /// # Errors
    /// As [`drive()`].
    ///
    /// # Cancel safety
    /// Dropped, it drops the model call and all tools that run.
    pub async fn run(
        &self,
        strategy: &Strategy,
        history: History,
        input: History,
    ) -> Result<Arc<Turn>, UppError> {
        let metadata = Arc::clone(&self.state.metadata);
        let state = RunState::of_messages(strategy, input, metadata);
        if let Strategy::Custom(own) = strategy {
            let part =
                Self { setup: Arc::new(Setup { history, ..Setup::clone(&self.setup) }), ..self.clone() };
            let part = Self { state: state.execution_state(), ..part };
            let performed = own.0.execute(part).await;
            return match performed {
                Ok(performed) => Ok(performed.turn),
                Err(error) => Err(error.into_error(own.0.name(), self.drive.model.provider())),
            };
        }
        let schemas = strategy.schemas(&self.setup.tools);
        schemas.check(&*self.drive.model)?;
        let setup = Setup {
            history,
            plan_schema: schemas.sent,
            plan_rules: schemas.rules,
            ..Setup::clone(&self.setup)
        };
        let provider = self.drive.model.provider();
        let machine = Machine::new(setup, state);
        let mut machine = machine
            .map_err(|error| UppError::invalid_request(provider, error.to_string()).with_cause(error))?;
        let Some(events) = &self.events else {
            return drive(&mut machine, &self.drive).await;
        };
        let mut stream = AgentStream::new(machine, self.drive.clone());
        while let Some(event) = stream.next().await {
            events.push(event?).await;
        }
        stream.turn().await
    }
}

/// The way to whoever listens to a run. Cloning it gives another end of the same way.
#[derive(Debug, Clone)]
pub struct StrategyEvents(mpsc::Sender<AgentStreamEvent>);

/// Events that may wait on the way.
const CAPACITY: usize = 64;

impl StrategyEvents {
    pub(crate) fn new() -> (Self, mpsc::Receiver<AgentStreamEvent>) {
        let (sender, receiver) = mpsc::channel(CAPACITY);
        (Self(sender), receiver)
    }

    /// Tells an event; waits while too many wait. An event that nobody hears any more is dropped.
    ///
    /// # Cancel safety
    /// Dropped, it has told the event or not.
    pub async fn push(&self, event: AgentStreamEvent) {
        let _heard = self.0.send(event).await;
    }
}

/// What a strategy of the application gives.
#[derive(Debug, Clone)]
pub struct StrategyOutcome {
    /// The turn. Where it does not begin with a user's message, the input is put before it (decision A10).
    pub turn: Arc<Turn>,
    /// The last step; 1 where it counted none.
    pub step: u32,
    /// What the model thought, where the strategy has it think.
    pub reasoning: Option<Vec<String>>,
    /// The plan, where it makes one.
    pub plan: Option<Vec<PlanStep>>,
}

impl From<Arc<Turn>> for StrategyOutcome {
    fn from(turn: Arc<Turn>) -> Self {
        Self { turn, step: 1, reasoning: None, plan: None }
    }
}

/// A strategy of the application, as an option of an agent: equal to itself alone.
#[derive(Debug, Clone)]
pub struct CustomHandle(pub(crate) Arc<dyn CustomStrategy>);

impl PartialEq for CustomHandle {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// What a run knows of such a strategy: what it said at its end.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CustomState {
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) reasons: bool,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "plan")]
    pub(crate) plan: Option<Vector<PlanStep>>,
}

/// A plan, where there is one, as a list.
mod plan {
    use imbl::Vector;
    use serde::{Deserialize as _, Deserializer, Serializer};

    use crate::types::plan_step::PlanStep;

    #[expect(clippy::ref_option, reason = "the signature that serde wants")]
    pub(super) fn serialize<S: Serializer>(
        plan: &Option<Vector<PlanStep>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(plan.iter().flatten())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Vector<PlanStep>>, D::Error> {
        Vec::<PlanStep>::deserialize(deserializer).map(|steps| Some(steps.into()))
    }
}

/// The run asks nothing of it: it performs all at once.
impl StrategyPolicy for CustomState {
    fn begun(&mut self, _: &StrategyView<'_>) -> Transition {
        Transition::Finish
    }

    fn answered(&mut self, _: &StrategyView<'_>) -> Transition {
        Transition::Finish
    }

    fn observed(&mut self, _: &StrategyView<'_>) -> Transition {
        Transition::Finish
    }

    fn stepped(&mut self, _: &StrategyView<'_>) -> Transition {
        Transition::Finish
    }

    fn calls_phase_hooks(&self) -> bool {
        self.reasons
    }

    fn plan(&self) -> Option<&Vector<PlanStep>> {
        self.plan.as_ref()
    }
}

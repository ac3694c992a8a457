//! Runs strategies of the application.
//!
//! Spec: UAP-1.0 §5.5

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use futures_util::future::{BoxFuture, poll_fn};
use futures_util::{FutureExt as _, StreamExt as _};

use crate::driver::driver::{Driver, DriverConfig, DriverPorts};
use crate::driver::part_recorder::PartRecorder;
use crate::driver::run_loop::RunLoop;
use crate::driver::strategy_runs::StrategyRuns;
use crate::driver::stream::AgentStream;
use crate::host::hook_set::HookSet;
use crate::host::recorder::RunRecorder;
use crate::host::strategy::{CustomHandle, Strategy, StrategyEvents, StrategyRunsHandle, StrategyScope};
use crate::machine::machine::Machine;
use crate::machine::setup::Setup;
use crate::machine::state::RunState;
use crate::types::action::ActionResult;
use crate::types::execution_state::ExecutionState;
use crate::types::identity::RunIdentity;
use crate::types::limits::UsageMeter;
use crate::types::parent_run::ParentRun;
use crate::types::strategy_outcome::StrategyOutcome;
use turntree_core::message::Turn;
use turntree_core::message::message::History;
use turntree_upp::{Model, UppError};

/// The scope of one run.
#[derive(Debug, Clone)]
struct CustomScope {
    setup: Arc<Setup>,
    driver: Driver,
    state: ExecutionState,
    events: Option<StrategyEvents>,
    parent_run: Option<Arc<ParentRun>>,
    runs: Option<StrategyRunsHandle>,
    parts: Arc<Mutex<Parts>>,
}

/// The parts of a run that its strategy has started, in order. A strategy that is resumed starts them again: parts that have
/// ended return their outcome, and the others continue.
#[derive(Debug, Default)]
struct Parts {
    states: Vec<RunState>,
    started: usize,
}

impl Parts {
    /// Begins the next part. Returns its index, and its state if it was started before.
    fn begin(&mut self, new: &RunState) -> (usize, Option<RunState>) {
        let index = self.started;
        self.started = index.saturating_add(1);
        let earlier = self.states.get(index).cloned();
        if earlier.is_none() {
            self.states.push(new.clone());
        }
        (index, earlier)
    }

    fn store(&mut self, index: usize, state: &RunState) {
        if let Some(slot) = self.states.get_mut(index) {
            *slot = state.clone();
        }
    }
}

impl CustomScope {
    fn new(
        run: &RunLoop<'_>,
        machine: &Machine,
        events: Option<StrategyEvents>,
        runs: Option<StrategyRunsHandle>,
        parts: Arc<Mutex<Parts>>,
    ) -> Self {
        let driver = run.driver;
        // The run calls these hooks once for all of its parts.
        let suppressed_hooks = HookSet::COMPLETE
            | HookSet::ERROR
            | HookSet::METADATA
            | HookSet::CHECKPOINT_STEPS
            | HookSet::CHECKPOINT_WITHIN_STEPS;
        let config =
            DriverConfig { suppressed_hooks, is_nested: true, timeout: None, ..driver.config.clone() };
        let recorder = driver.ports.recorder.clone();
        let recorder = recorder.map(|recorder| -> Arc<dyn RunRecorder> { Arc::new(PartRecorder(recorder)) });
        let ports = DriverPorts { events: None, recorder, custom_strategy: None, ..driver.ports.clone() };
        let driver = Driver { config, ports, ..driver.clone() };
        let (setup, state) = (Arc::clone(machine.setup()), machine.state().execution_state());
        Self { setup, driver, state, events, parent_run: run.parent_run.clone(), runs, parts }
    }

    async fn run_custom(
        &self,
        CustomHandle(strategy): &CustomHandle,
        history: History,
        state: &RunState,
    ) -> Result<Arc<Turn>, UppError> {
        let setup = Arc::new(Setup { history, ..Setup::clone(&self.setup) });
        let scope = Self { setup, state: state.execution_state(), ..self.clone() };
        match strategy.execute(Arc::new(scope)).await {
            Ok(outcome) => Ok(outcome.turn),
            Err(error) => Err(error.into_error(strategy.name(), self.driver.model.provider())),
        }
    }

    async fn run_built_in(
        &self,
        strategy: &Strategy,
        history: History,
        state: RunState,
    ) -> Result<Arc<Turn>, UppError> {
        let schemas = strategy.schemas(&self.setup.tools);
        schemas.check(&*self.driver.model)?;
        let (plan_schema, plan_rules) = (schemas.sent, schemas.rules);
        let setup = Setup { history, plan_schema, plan_rules, ..Setup::clone(&self.setup) };
        let provider = self.driver.model.provider();
        let (index, earlier) = lock(&self.parts).begin(&state);
        let state = match earlier {
            Some(earlier) => {
                self.driver.restore_usage(&earlier);
                earlier
            }
            None => state,
        };
        let mut machine = Machine::new(setup, state)
            .map_err(|error| UppError::invalid_request(provider, error.to_string()).with_cause(error))?;
        let parts = Arc::clone(&self.parts);
        let toolsets = self.driver.ports.toolsets.as_ref().map(|toolsets| toolsets.with_strategy(strategy));
        let driver =
            Driver { ports: DriverPorts { toolsets, ..self.driver.ports.clone() }, ..self.driver.clone() };
        let Some(events) = &self.events else {
            let outcome = driver.run(&mut machine).await;
            lock(&parts).store(index, machine.state());
            return outcome;
        };
        let (outer, structure) = (driver.cancellation.clone(), driver.structure.clone());
        let mut stream = AgentStream::of(outer.as_ref(), structure.as_deref(), move |listener| {
            let driver = listener.attach(driver);
            Box::pin(async move {
                let outcome = driver.run(&mut machine).await;
                lock(&parts).store(index, machine.state());
                outcome
            })
        });
        while let Some(event) = stream.next().await {
            events.push(event?).await;
        }
        stream.turn().await
    }
}

fn lock(parts: &Mutex<Parts>) -> MutexGuard<'_, Parts> {
    parts.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StrategyScope for CustomScope {
    fn setup(&self) -> &Arc<Setup> {
        &self.setup
    }

    fn state(&self) -> &ExecutionState {
        &self.state
    }

    fn model(&self) -> &Arc<dyn Model> {
        &self.driver.model
    }

    fn meter(&self) -> Option<&Arc<UsageMeter>> {
        self.driver.ports.meter.as_ref()
    }

    fn identity(&self) -> &Arc<RunIdentity> {
        &self.driver.identity
    }

    fn parent_run(&self) -> Option<&Arc<ParentRun>> {
        self.parent_run.as_ref()
    }

    fn strategy_runs(&self) -> Option<&StrategyRunsHandle> {
        self.runs.as_ref()
    }

    fn events(&self) -> Option<&StrategyEvents> {
        self.events.as_ref()
    }

    fn run<'a>(
        &'a self,
        strategy: &'a Strategy,
        history: History,
        input: History,
    ) -> BoxFuture<'a, Result<Arc<Turn>, UppError>> {
        let state = RunState::of_messages(strategy, input, Arc::clone(&self.state.metadata));
        match strategy {
            Strategy::Custom(custom) => {
                Box::pin(async move { self.run_custom(custom, history, &state).await })
            }
            _ => Box::pin(self.run_built_in(strategy, history, state)),
        }
    }
}

/// Ends the runs of a strategy when it is dropped: when the strategy has ended or was cancelled.
struct EndGuard(Arc<StrategyRuns>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl RunLoop<'_> {
    /// Lets the strategy of the application execute the run, and forwards the events that it sends.
    pub(super) async fn execute(&self, machine: &mut Machine) -> Result<ActionResult, UppError> {
        let Some(CustomHandle(strategy)) = &self.driver.ports.custom_strategy else {
            let message =
                "the run was started with a custom strategy; give the agent that strategy to resume the run";
            return Ok(ActionResult::Failed(UppError::invalid_request(self.provider(), message)));
        };
        let streamed = self.driver.ports.events.as_ref().map(|events| (events, StrategyEvents::new()));
        let (events, mut forwarded) = match streamed {
            Some((events, (sender, receiver))) => (Some(sender), Some((events, receiver))),
            None => (None, None),
        };
        let runs = self.driver.ports.recorder.as_ref().zip(self.parent_run.as_ref());
        let runs = runs.and_then(|(recorder, parent)| {
            StrategyRuns::new(recorder, parent, strategy.name(), machine.state(), events.clone())
        });
        let ending = runs.clone().map(EndGuard);
        let runs = runs.map(|runs| StrategyRunsHandle(runs as _));
        let states = machine.take_parts();
        let parts = Arc::new(Mutex::new(Parts { states, started: 0 }));
        let scope = CustomScope::new(self, machine, events, runs, Arc::clone(&parts));
        let mut execution = self.driver.host.execute(&**strategy, Arc::new(scope));
        let outcome = poll_fn(|context| {
            let polled = execution.poll_unpin(context);
            if let Some((events, receiver)) = &mut forwarded {
                // While the strategy runs, forward only as many events as the queue has capacity for.
                while polled.is_ready() || events.has_capacity() {
                    let Poll::Ready(Some(event)) = receiver.poll_recv(context) else { break };
                    events.push(event);
                }
            }
            polled
        });
        let outcome = outcome.await.map(|outcome| self.with_usage_by_agent(outcome));
        let waits_for = ending.and_then(|ending| ending.0.end());
        if outcome.is_err() {
            let states = std::mem::take(&mut lock(&parts).states);
            let of_parts = states.iter().flat_map(RunState::awaited_approvals);
            let of_runs = waits_for.iter().flat_map(|required| required.calls.iter().cloned());
            let calls: Vec<_> = of_parts.chain(of_runs).collect();
            if !calls.is_empty() {
                machine.wait_in_strategy(states);
                let is_in_doubt = waits_for.is_some_and(|required| required.is_in_doubt);
                return Err(self.approval_required(machine, calls, is_in_doubt));
            }
        }
        self.result(strategy.name(), outcome, |outcome| ActionResult::Executed(Box::new(outcome)))
    }

    /// Adds the usage of the runs that the strategy has started.
    fn with_usage_by_agent(&self, outcome: StrategyOutcome) -> StrategyOutcome {
        let Some(parent_run) = &self.parent_run else { return outcome };
        StrategyOutcome { turn: parent_run.usage.move_to_turn(outcome.turn), ..outcome }
    }
}

//! Runs strategies of the application.
//!
//! Spec: UAP-1.0 §5.5

use std::sync::Arc;
use std::task::Poll;

use futures_util::future::{BoxFuture, poll_fn};
use futures_util::{FutureExt as _, StreamExt as _};

use crate::driver::driver::{Driver, DriverConfig, DriverPorts};
use crate::driver::run_loop::RunLoop;
use crate::driver::stream::AgentStream;
use crate::host::hook_set::HookSet;
use crate::host::strategy::{CustomHandle, Strategy, StrategyEvents, StrategyScope};
use crate::machine::machine::Machine;
use crate::machine::setup::Setup;
use crate::machine::state::RunState;
use crate::types::action::ActionResult;
use crate::types::execution_state::ExecutionState;
use crate::types::identity::RunIdentity;
use crate::types::limits::UsageMeter;
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
}

impl CustomScope {
    fn new(setup: &Arc<Setup>, state: &RunState, driver: &Driver, events: Option<StrategyEvents>) -> Self {
        // The run calls these hooks once for all of its parts.
        let suppressed_hooks = HookSet::COMPLETE
            | HookSet::ERROR
            | HookSet::METADATA
            | HookSet::CHECKPOINT_STEPS
            | HookSet::CHECKPOINT_WITHIN_STEPS;
        let config =
            DriverConfig { suppressed_hooks, is_nested: true, timeout: None, ..driver.config.clone() };
        let ports =
            DriverPorts { events: None, recorder: None, custom_strategy: None, ..driver.ports.clone() };
        let driver = Driver { config, ports, ..driver.clone() };
        Self { setup: Arc::clone(setup), driver, state: state.execution_state(), events }
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
        let mut machine = Machine::new(setup, state)
            .map_err(|error| UppError::invalid_request(provider, error.to_string()).with_cause(error))?;
        let toolsets = self.driver.ports.toolsets.as_ref().map(|toolsets| toolsets.with_strategy(strategy));
        let driver =
            Driver { ports: DriverPorts { toolsets, ..self.driver.ports.clone() }, ..self.driver.clone() };
        let Some(events) = &self.events else {
            return driver.run(&mut machine).await;
        };
        let mut stream = AgentStream::new(machine, driver);
        while let Some(event) = stream.next().await {
            events.push(event?).await;
        }
        stream.turn().await
    }
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

impl RunLoop<'_> {
    /// Lets the strategy of the application execute the run, and forwards the events that it sends.
    pub(super) async fn execute(&self, machine: &Machine) -> Result<ActionResult, UppError> {
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
        let scope = CustomScope::new(machine.setup(), machine.state(), self.driver, events);
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
        self.result(strategy.name(), outcome.await, |outcome| ActionResult::Executed(Box::new(outcome)))
    }
}

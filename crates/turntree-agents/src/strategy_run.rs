//! Runs of agents inside a strategy of the application, in a session.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::agent::Agent;
use crate::driver::strategy_runs::{StrategyRun, StrategyRuns};
use crate::driver::stream::AgentStream;
use crate::host::recorder::ChildTask;
use crate::host::run_context::RunContext;
use turntree_core::message::Turn;
use turntree_core::message::message::History;
use turntree_upp::UppError;
use turntree_upp::llm::Input;

impl Agent {
    /// Runs the agent after a history, as a part of the strategy that starts the run.
    ///
    /// # Errors
    /// As [`Self::run_with_history`].
    ///
    /// # Cancel safety
    /// Dropping the future stops the run; the session of the strategy can resume it.
    pub fn run_in_strategy(
        &self,
        history: History,
        input: Input,
        mut context: RunContext,
    ) -> BoxFuture<'static, Result<Arc<Turn>, UppError>> {
        match self.open_in_strategy(&mut context) {
            Ok(Some(run)) => Box::pin(run.run(ChildTask { history, input, context })),
            Ok(None) => match self.prepare(history, input, context) {
                Ok((machine, driver)) => Box::pin(driver.complete(machine)),
                Err(error) => Box::pin(std::future::ready(Err(error))),
            },
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    /// As [`Self::run_in_strategy`], and streams the events. The stream of a run that has ended before has none.
    pub fn stream_in_strategy(&self, history: History, input: Input, context: RunContext) -> AgentStream {
        let (agent, outer) = (self.clone(), context.cancellation.clone());
        AgentStream::of(outer.as_ref(), self.structure(), |listener| {
            let (events, cancellation) = (Some(listener.events), Some(listener.cancellation));
            agent.run_in_strategy(history, input, RunContext { cancellation, events, ..context })
        })
    }

    /// Opens the session of the run. `None` if the strategy has ended.
    fn open_in_strategy(&self, context: &mut RunContext) -> Result<Option<StrategyRun>, UppError> {
        let runs = context.strategy_runs.take().and_then(|runs| runs.0.downcast::<StrategyRuns>().ok());
        let Some(runs) = runs else { return Ok(None) };
        self.check_depth(context)?;
        let turn_id = context.turn_id.clone().unwrap_or_else(|| context.host.ids().string().into());
        context.turn_id = Some(Arc::clone(&turn_id));
        Ok(runs.open(&*self.as_agent_tool(), self.id(), self.options().name.as_ref(), turn_id))
    }
}

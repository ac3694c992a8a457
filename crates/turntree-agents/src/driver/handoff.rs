//! Handoffs in a run: accepts the call of a handoff, and continues the run with the agent that takes over.

use std::future::ready;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::driver::driver::Driver;
use crate::driver::run_loop::RunLoop;
use crate::host::error::HostError;
use crate::host::tool_invocation::ToolInvocation;
use crate::machine::handoff::{MAX_HANDOFFS, too_often};
use crate::machine::machine::Machine;
use turntree_core::json::RawJson;
use turntree_core::message::Turn;
use turntree_core::time::Timestamp;
use turntree_upp::UppError;

impl Driver {
    /// Continues a run that its agent has handed to another one: `machine` becomes that of the other agent. `None` if the
    /// run has ended. The time since `began` counts for the limit of the run.
    ///
    /// The future is boxed: a run that is handed over several times is polled inside its earlier parts, and the runs of
    /// sub-agents nest.
    pub(super) fn continue_with_successor<'a>(
        &self,
        machine: &'a mut Machine,
        began: Option<Timestamp>,
    ) -> Option<BoxFuture<'a, Result<Arc<Turn>, UppError>>> {
        let name = machine.handed_to()?;
        let handoffs = self.ports.handoffs.as_ref()?;
        match handoffs.take_over(&name, machine, self) {
            Ok((next, mut driver)) => {
                *machine = next;
                driver.config.time_left = self.time_left(began);
                Some(Box::pin(async move { driver.run(machine).await }))
            }
            Err(error) => {
                let error = machine.with_turn_so_far(error);
                Some(Box::pin(ready(Err(error))))
            }
        }
    }
}

impl RunLoop<'_> {
    /// Accepts the call of a handoff and returns its result. The run ends with the round.
    pub(super) fn accept_handoff(
        &self,
        agent: &str,
        invocation: &ToolInvocation,
    ) -> Result<RawJson, HostError> {
        let refused = |message: String| HostError::raised("HandoffRefused", message);
        let driver = self.driver;
        if driver.ports.handoffs.is_none() || !driver.is_own_tool(invocation.tool) {
            return Err(refused(
                "only the tools of an agent itself can hand the conversation over".to_owned(),
            ));
        }
        let is_handoff = |name: &str| {
            driver.tools.iter().any(|tool| tool.handoff.is_some() && tool.definition.name == name)
        };
        let earlier = invocation.message.tool_calls().iter().take(invocation.position);
        if let Some(first) = earlier.into_iter().find(|call| is_handoff(&call.tool_name)) {
            let message = format!(
                "the conversation can go to one agent only, and '{}' was called first",
                first.tool_name
            );
            return Err(refused(message));
        }
        if self.handoffs >= MAX_HANDOFFS {
            return Err(refused(too_often()));
        }
        Ok(RawJson::from_str_value(&format!("The conversation is handed over to {agent}.")))
    }
}

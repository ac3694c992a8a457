//! A run that a server starts: no Python code calls it, and it belongs to no other run.

use std::sync::{Arc, Mutex};

use crate::prelude::*;

use super::agent_core::AgentCore;
use super::call_site::CallSite;
use super::run::PreparedRun;
use crate::bridge::context::CallerContext;
use crate::bridge::gil::{self, lock};
use turntree_agents::Agent as CoreAgent;
use turntree_agents::host::RunContext;
use turntree_core::json::RawObject;

/// Performs `work` with the context of a run, then waits for the calls that it has cancelled. Poll it on the event loop of
/// `caller`.
///
/// `served` has the functions; `agent` is the agent of this run, made from it. The run has a copy of the context variables
/// of `caller`, but no enclosing run: these variables can be those of a tool that started the server.
///
/// # Errors
/// Only if Python fails, for example out of memory.
///
/// # Cancel safety
/// Dropping it drops `work`.
pub(crate) async fn perform<F: Future<Output = ()> + Send>(
    served: Py<AgentCore>,
    agent: CoreAgent,
    caller: CallerContext,
    metadata: Arc<RawObject>,
    work: impl FnOnce(RunContext) -> F + Send,
) -> PyResult<()> {
    let (cleanup, context) = gil::require_held(|py| {
        let core = served.get();
        // The type of the agent's answer does not fit an answer with the schema of the request.
        let has_own_schema = match (&agent.options().structure, &core.agent().options().structure) {
            (Some(own), Some(of_agent)) => !Arc::ptr_eq(own, of_agent),
            (own, of_agent) => own.is_some() || of_agent.is_some(),
        };
        let functions = if has_own_schema {
            let copy = lock(core.functions()).without_answer(py);
            Arc::new(Mutex::new(copy))
        } else {
            Arc::clone(core.functions())
        };
        let run = PreparedRun::new([served.clone_ref(py).into_any()], &functions);
        let site = CallSite::on_loop(caller.forked(py)?);
        let context = run.detached_context(py, &site, metadata)?;
        Ok((run.cleanup, context))
    })?;
    cleanup.run(work(context)).await;
    Ok(())
}

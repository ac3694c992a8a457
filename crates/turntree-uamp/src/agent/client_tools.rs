//! Tools that the client runs: a call waits until the client has sent its result.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, ready};
use tokio::sync::{mpsc, oneshot};
use turntree_agents::host::{HostError, ToolInvocation, ToolsetContext};
use turntree_agents::{Tool, Toolset};
use turntree_core::json::RawJson;
use turntree_core::message::ToolDefinition;

use crate::session::{AgentOutput, ToolOutcome};
use crate::types::ToolCall;

/// The tools of a client, and its calls that wait for results. Cloning shares them.
#[derive(Clone)]
pub struct ClientTools {
    shared: Arc<Shared>,
}

struct Shared {
    tools: Vec<ToolDefinition>,
    /// Weak: the output ends with the run, not with the last handle.
    outputs: mpsc::WeakSender<AgentOutput>,
    waiting: Mutex<HashMap<String, oneshot::Sender<ToolOutcome>>>,
}

impl Shared {
    /// Locks the calls for one operation.
    fn waiting(&self) -> MutexGuard<'_, HashMap<String, oneshot::Sender<ToolOutcome>>> {
        // Each operation leaves the map consistent.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientTools {
    /// The tools of a client. Calls are sent to `outputs`.
    pub(super) fn new(tools: Vec<ToolDefinition>, outputs: &mpsc::Sender<AgentOutput>) -> Self {
        let outputs = outputs.downgrade();
        Self { shared: Arc::new(Shared { tools, outputs, waiting: Mutex::default() }) }
    }

    /// True if the client has no tools.
    pub(super) fn is_empty(&self) -> bool {
        self.shared.tools.is_empty()
    }

    /// True if the client has a tool with this name.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.shared.tools.iter().any(|tool| tool.name == name)
    }

    /// Gives a call its result. Returns false if no call with this id waits.
    pub fn resolve(&self, outcome: ToolOutcome) -> bool {
        let sender = self.shared.waiting().remove(&outcome.call_id);
        sender.is_some_and(|sender| sender.send(outcome).is_ok())
    }

    /// Sends a call to the client, and waits for its result.
    async fn call(self, invocation: Arc<ToolInvocation>) -> Result<RawJson, HostError> {
        let call = &invocation.call;
        let (sender, receiver) = oneshot::channel();
        let all_called = {
            let mut waiting = self.shared.waiting();
            waiting.insert(call.tool_call_id.clone(), sender);
            let calls = invocation.message.tool_calls().iter();
            let mut of_client = calls.filter(|call| self.contains(&call.tool_name));
            of_client.all(|call| waiting.contains_key(&call.tool_call_id))
        };
        let waiting = WaitingCall { tools: &self, call_id: &call.tool_call_id };
        let gone = || HostError::raised("ClientGone", "the client has ended before it sent the result");
        let tool_call = ToolCall {
            id: call.tool_call_id.clone(),
            name: call.tool_name.clone(),
            arguments: call.arguments.get().to_owned(),
            ..ToolCall::default()
        };
        let outputs = self.shared.outputs.upgrade().ok_or_else(gone)?;
        outputs.send(AgentOutput::ClientToolCall(tool_call)).await.map_err(|_| gone())?;
        if all_called {
            outputs.send(AgentOutput::AwaitingClient).await.map_err(|_| gone())?;
        }
        drop(outputs);
        let outcome = receiver.await.map_err(|_| gone())?;
        drop(waiting);
        if outcome.is_error {
            let text = RawJson::from_text(outcome.result.clone()).ok().and_then(|value| value.as_string());
            return Err(HostError::raised("ClientToolError", text.unwrap_or(outcome.result)));
        }
        // Clients that do not send JSON mean the text.
        Ok(RawJson::from_text(outcome.result.clone())
            .unwrap_or_else(|_| RawJson::from_str_value(&outcome.result)))
    }
}

impl fmt::Debug for ClientTools {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.shared.tools.iter().map(|tool| &tool.name);
        formatter.debug_list().entries(names).finish()
    }
}

/// Removes a call that no longer waits.
struct WaitingCall<'a> {
    tools: &'a ClientTools,
    call_id: &'a str,
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        self.tools.shared.waiting().remove(self.call_id);
    }
}

impl Toolset for ClientTools {
    fn name(&self) -> &'static str {
        "client"
    }

    fn tools<'a>(&'a self, _context: &'a Arc<ToolsetContext>) -> BoxFuture<'a, Result<Vec<Tool>, HostError>> {
        let tools = self.shared.tools.iter().map(|definition| {
            let client = self.clone();
            Tool::new(definition.clone()).with_function(move |invocation| client.clone().call(invocation))
        });
        ready(Ok(tools.collect())).boxed()
    }
}

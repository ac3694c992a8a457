//! Handoffs: a tool that gives the conversation to another agent, and which agent has the conversation now.
//!
//! ```text
//!   call of a handoff ──> its round ends, and with it the part of this agent
//!                         the other agent continues the same run: the same history and messages,
//!                         its own system prompt, tools, model, strategy and structure
//!   next run of the session ──> the agent that answered last
//! ```

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::agent::Agent;
use crate::driver::driver::{Driver, Handoffs};
use crate::host::error::HostError;
use crate::host::host::Host;
use crate::host::run_context::RunContext;
use crate::host::strategy::Strategy;
use crate::host::tool::Tool;
use crate::machine::handoff::{agent_of, handoff_of};
use crate::machine::machine::Machine;
use crate::sub_agent::SubAgent;
use crate::types::parent_run::InheritedModel;
use turntree_core::json::{Extra, RawJson};
use turntree_core::message::message::History;
use turntree_core::message::{Message, ToolDefinition};
use turntree_upp::UppError;

/// How many agents are looked at to find the one that has the conversation.
const MAX_AGENTS: usize = 1000;

/// Options of a handoff.
#[derive(Debug, Clone, Default)]
pub struct HandoffOptions {
    /// The name of the agent, for [`Tool::handoff`].
    pub agent_name: Option<String>,
    /// The name of the tool. Default: `transfer_to_` and the name of the agent, in which characters other than letters,
    /// digits, `_` and `-` are `_`.
    pub tool_name: Option<String>,
    /// When to hand over, for the model. Default: a sentence with the name of the agent.
    pub description: Option<String>,
}

impl Agent {
    /// Returns a tool that gives the conversation to this agent. A call ends the part of the calling agent; this agent
    /// continues the run with all messages, and its response is that of the run. The next run of a session starts with
    /// the agent that answered.
    ///
    /// Agents are told apart by their names. A run is handed over at most ten times; further calls get an error result.
    /// If a response calls several handoffs, the first one counts. The other calls of the response are executed first.
    pub fn to_handoff(&self, options: HandoffOptions) -> Tool {
        let agent_name = Some(self.spec().label().to_owned());
        Tool::handoff(HandoffOptions { agent_name, ..options }).with_agent(self.clone())
    }
}

impl Tool {
    /// A handoff to an agent that the host finds: see [`Host::handoff_agent`](crate::host::Host::handoff_agent). So two
    /// agents can hand the conversation to each other.
    pub fn handoff(options: HandoffOptions) -> Self {
        let HandoffOptions { agent_name, tool_name, description } = options;
        let agent = agent_name.unwrap_or_default();
        let definition = ToolDefinition {
            name: tool_name.unwrap_or_else(|| format!("transfer_to_{}", identifier(&agent))),
            description: description.unwrap_or_else(|| {
                format!("Hand the conversation over to the agent {agent}, which then answers the user.")
            }),
            parameters: RawJson::from_text(r#"{"type":"object","properties":{}}"#.to_owned())
                .unwrap_or_default(),
            metadata: None,
            extra: Extra::new(),
        };
        // A repeated call changes nothing: the handoff happens after the calls.
        Self { handoff: Some(agent.into()), ..Self::new(definition).with_idempotence() }
    }
}

fn identifier(name: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    name.chars().map(|c| if allowed(c) { c } else { '_' }).collect()
}

/// The handoffs of one run.
pub(crate) struct AgentHandoffs {
    agent: Agent,
    context: RunContext,
}

impl AgentHandoffs {
    /// The handoffs of an agent; `None` if it has none.
    pub(crate) fn of(agent: &Agent, context: &RunContext) -> Option<Arc<dyn Handoffs>> {
        has_handoffs(agent)
            .then(|| Arc::new(Self { agent: agent.clone(), context: context.clone() }) as Arc<dyn Handoffs>)
    }
}

impl Handoffs for AgentHandoffs {
    fn take_over(
        &self,
        name: &str,
        machine: &Machine,
        driver: &Driver,
    ) -> Result<(Machine, Driver), UppError> {
        let provider = driver.model.provider();
        let tools = self.agent.tools().iter();
        let index = tools.into_iter().position(|tool| tool.handoff.as_deref() == Some(name));
        let Some(index) = index else {
            let message = format!(
                "agent '{}' has no handoff to '{name}'; add handoff({name}) to its tools",
                self.agent.spec().label()
            );
            return Err(UppError::invalid_request(provider, message));
        };
        let inherited =
            InheritedModel { model: Arc::clone(&driver.model), params: Arc::clone(&machine.setup().params) };
        let context = RunContext {
            host: Arc::clone(&driver.host),
            inherited_model: Some(inherited),
            cancellation: driver.cancellation.clone(),
            metadata: Arc::clone(&machine.state().metadata),
            events: driver.ports.events.clone(),
            turn_id: Some(Arc::clone(&driver.identity.turn_id)),
            ..self.context.clone()
        };
        let (agent, context) = follow(&self.agent, index, context, provider)?;
        let (next, mut successor) = agent.take_over(machine, context)?;
        successor.ports.recorder.clone_from(&driver.ports.recorder);
        Ok((next, successor))
    }
}

/// True if the agent can hand the conversation over.
pub(crate) fn has_handoffs(agent: &Agent) -> bool {
    agent.tools().iter().any(|tool| tool.handoff.is_some())
}

/// Returns the agent that has the conversation, and the context of its run: the agent that the last marked message names, if
/// `agent` can reach it by handoffs, else `agent`.
///
/// # Errors
/// The application cannot name an agent.
pub(crate) fn active_agent(
    agent: &Agent,
    name: Option<String>,
    context: RunContext,
) -> Result<(Agent, RunContext), UppError> {
    let Some(name) = name.filter(|name| *name != agent.spec().label() && has_handoffs(agent)) else {
        return Ok((agent.clone(), context));
    };
    let mut seen = vec![agent.spec().label().to_owned()];
    let mut queue = VecDeque::from([(agent.clone(), context.clone())]);
    while let Some((from, of_from)) = queue.pop_front() {
        for (index, tool) in from.tools().iter().enumerate() {
            let Some(target) = tool.handoff.as_deref() else { continue };
            if seen.len() > MAX_AGENTS || seen.iter().any(|seen| seen == target) {
                continue;
            }
            seen.push(target.to_owned());
            let (next, of_next) = follow(&from, index, of_from.clone(), "")?;
            if target == name {
                return Ok((next, of_next));
            }
            queue.push_back((next, of_next));
        }
    }
    Ok((agent.clone(), context))
}

/// The agent that has the conversation after these messages, if `agent` has handoffs and one is named.
pub(crate) fn last_agent(agent: &Agent, history: &History) -> Option<String> {
    // Without handoffs no message names an agent, and the search would read all of them.
    if !has_handoffs(agent) {
        return None;
    }
    history.iter().rev().find_map(|message| agent_of(message))
}

/// The name of the agent that gave a response, if the conversation can change between agents.
pub fn agent_of_response(message: &Message) -> Option<String> {
    agent_of(message)
}

/// Returns the agent of the handoff at `index`, and the context of its run.
fn follow(
    agent: &Agent,
    index: usize,
    context: RunContext,
    provider: &str,
) -> Result<(Agent, RunContext), UppError> {
    let failed = |error: HostError| error.into_error("the handoff", provider);
    let tool = agent.tools().get(index);
    let target = match tool.and_then(|tool| tool.agent.as_ref()) {
        Some(target) => Arc::clone(target),
        None => context.host.handoff_agent(index).map_err(failed)?,
    };
    let name = tool.and_then(|tool| tool.handoff.as_deref()).unwrap_or_default();
    let target: &dyn Any = &*target;
    let found = target.downcast_ref::<SubAgent>().map(SubAgent::agent);
    let Some(next) = found.filter(|agent| agent.spec().label() == name) else {
        let message =
            format!("the handoff to '{name}' leads to an agent with another name; use the agent's name");
        return Err(UppError::invalid_request(provider, message));
    };
    if matches!(next.spec().strategy(), Strategy::Custom(_)) {
        let message = format!(
            "agent '{name}' cannot take over a conversation, because it has a strategy of the application; \
             use it as a tool instead"
        );
        return Err(UppError::invalid_request(provider, message));
    }
    let host = context.host.handoff_host(next.tools(), index, &context.metadata).map_err(failed)?;
    let handed_by = Some((Arc::clone(&context.host), index));
    Ok((next.clone(), RunContext { host, handed_by, names_agent: true, ..context }))
}

/// The messages that the model receives instead of the history and the run up to the handoff to `agent`, and how many
/// messages they replace. `None` if it receives all messages.
///
/// # Errors
/// The filter of the handoff failed.
pub(crate) fn filtered_input(
    handed_by: Option<&(Arc<dyn Host>, usize)>,
    agent: &str,
    history: &History,
    run: &History,
) -> Result<Option<(usize, History)>, UppError> {
    let Some((host, tool)) = handed_by else { return Ok(None) };
    let messages: Vec<_> = history.iter().chain(run).cloned().collect();
    let is_handoff = |message: &Arc<Message>| handoff_of(message).is_some_and(|name| name == agent);
    let Some(last) = messages.iter().rposition(is_handoff) else { return Ok(None) };
    let count = last.saturating_add(1);
    let before = messages.get(..count).unwrap_or_default();
    let filtered = host.handoff_input(*tool, before);
    let filtered = filtered.map_err(|error| error.into_error("input_filter of the handoff", ""))?;
    Ok(filtered.map(|filtered| (count, filtered.into_iter().collect())))
}

//! Agents as tools of other agents.
//!
//! ```text
//!   tool call ──> task ──> run of the agent, inside the future of the calling run
//!                          model, params: its own, or those of the calling run
//!                          depth, parent: counted from the calling run
//!                          session:       a child of the calling run's session, if there is one
//!   tool result <── text, structured output, or error message
//! ```
//!
//! Spec: UAP-1.0 §8; decisions A4–A6, A88–A95

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::agent::Agent;
use crate::host::agent_tool::{AgentTool, CallerRun};
use crate::host::error::HostError;
use crate::host::host::Host;
use crate::host::run_context::RunContext;
use crate::host::tool::Tool;
use crate::host::tool_invocation::ToolInvocation;
use crate::types::approval::is_of_approver;
use crate::types::event::SubAgentRun;
use crate::types::structure::{Structure, Violation, unwrapped};
use turntree_core::json::{Extra, RawJson, RawObject};
use turntree_core::message::{ToolDefinition, Turn};
use turntree_upp::System;

/// Maximum length of a description made from a system prompt, in characters.
const MAX_DESCRIPTION_LENGTH: usize = 200;

/// The argument with the task. The application's own schema can have another one.
const TASK: &str = "task";

/// Options for an agent that serves as a tool.
///
/// Spec: UAP-1.0 §8.2
#[derive(Debug, Clone, Default)]
pub struct ToToolOptions {
    /// The tool's name. Default: `agent_` and the agent's id (decision A4).
    pub name: Option<String>,
    /// The description. Default: the first sentence of the system prompt (decision A5).
    pub description: Option<String>,
    /// JSON Schema of the arguments. Default: one string, `task`.
    pub parameter_schema: Option<RawJson>,
}

/// An agent that is a tool of another one.
pub struct SubAgent {
    agent: Agent,
    arguments: Structure,
}

impl fmt::Debug for SubAgent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SubAgent").field("agent", &self.agent.spec().label()).finish_non_exhaustive()
    }
}

impl Agent {
    /// Returns the agent as a tool. A call runs the agent with the task in the arguments. The result is the structured
    /// output if the agent has a structure, else the text of the response.
    ///
    /// The task is the string `task`. If it is missing, the task is the only argument if that is a string, else all
    /// arguments as JSON (decision A6).
    ///
    /// Spec: UAP-1.0 §8.2
    pub fn to_tool(&self, options: ToToolOptions) -> Tool {
        let parameters = options.parameter_schema.unwrap_or_else(task_schema);
        let definition = ToolDefinition {
            name: options.name.unwrap_or_else(|| format!("agent_{}", self.id())),
            description: options.description.unwrap_or_else(|| description(self)),
            parameters,
            metadata: None,
            extra: Extra::new(),
        };
        Tool::new(definition).with_agent(self.clone())
    }
}

/// Converts an agent in the tool list of another agent to a tool.
///
/// Spec: UAP-1.0 §8.1
impl From<&Agent> for Tool {
    fn from(agent: &Agent) -> Self {
        agent.to_tool(ToToolOptions::default())
    }
}

impl Tool {
    /// Sets the agent that executes the calls.
    #[must_use]
    pub fn with_agent(self, agent: Agent) -> Self {
        let arguments = Structure::new(&Arc::new(self.definition.parameters.clone()));
        Self { agent: Some(Arc::new(SubAgent { agent, arguments })), ..self }
    }
}

impl Agent {
    /// The agent as the port that executes calls: the target of a handoff.
    pub fn as_agent_tool(&self) -> Arc<dyn AgentTool> {
        let arguments = Structure::new(&Arc::new(task_schema()));
        Arc::new(SubAgent { agent: self.clone(), arguments })
    }
}

impl SubAgent {
    /// The agent.
    pub const fn agent(&self) -> &Agent {
        &self.agent
    }

    /// The context of the run. It has the host of the calling run until `sub_host` creates another one.
    fn context(caller: CallerRun<'_>, invocation: &ToolInvocation) -> RunContext {
        let host: Arc<dyn Host> = Arc::clone(caller.host);
        let context = match &invocation.parent_run {
            Some(parent_run) => RunContext::inside(host, parent_run),
            None => {
                RunContext { cancellation: Some(invocation.cancellation.clone()), ..RunContext::new(host) }
            }
        };
        RunContext { sub_agent_events: caller.sub_agent_events, ..context }
    }

    fn describe_run(
        &self,
        caller: CallerRun<'_>,
        invocation: &ToolInvocation,
        context: &RunContext,
    ) -> SubAgentRun {
        let parent = context.parent.as_ref();
        SubAgentRun {
            agent_id: Arc::clone(self.agent.id()),
            turn_id: caller.host.sub_run_id(invocation).into(),
            parent_agent_id: parent.map(|parent| Arc::clone(&parent.agent_id)),
            parent_turn_id: parent.map(|parent| Arc::clone(&parent.turn_id)),
            tool_name: invocation.call.tool_name.as_str().into(),
            tool_call_id: invocation.call.tool_call_id.as_str().into(),
            depth: context.depth(),
            extra: Extra::new(),
        }
    }

    /// Validates the arguments and returns the task.
    fn task(&self, arguments: &RawJson) -> Result<String, HostError> {
        let violations =
            if self.arguments.is_wrapped() { Vec::new() } else { self.arguments.violations(arguments) };
        if violations.is_empty() {
            return Ok(task_of(arguments));
        }
        let message = Violation::list(&violations, "; ").replace("the answer: ", "");
        Err(HostError::invalid_arguments(message))
    }
}

impl AgentTool for SubAgent {
    fn call<'a>(
        &'a self,
        caller: CallerRun<'a>,
        invocation: &'a ToolInvocation,
    ) -> BoxFuture<'a, Result<RawJson, HostError>> {
        Box::pin(async move {
            let task = self.task(&invocation.call.arguments)?;
            let mut context = Self::context(caller, invocation);
            let failure = |error| caller.host.sub_agent_failure(error);
            self.agent.check_depth(&context).map_err(failure)?;
            let run = Arc::new(self.describe_run(caller, invocation, &context));
            context.turn_id = Some(Arc::clone(&run.turn_id));
            let session =
                caller.recorder.and_then(|recorder| recorder.open_child(self, &run, &invocation.message));
            if let Some(session) = &session {
                context.metadata = session.run_metadata();
            }
            context.host = caller.host.sub_host(self.agent.tools(), invocation, &context.metadata)?;
            context.events = caller.events.map(|events| Arc::new(events.of_sub_agent(run)));
            let Some(session) = session else {
                let outcome = self.agent.run(task, context).await.map(|turn| result_of(&turn));
                return outcome.map_err(|error| {
                    if is_of_approver(&error) { HostError::end_of_runs(error) } else { failure(error) }
                });
            };
            session.run(task, context).await.map_err(|failed| {
                if !failed.waits_for.is_empty() {
                    HostError::waiting(failed.waits_for)
                } else if failed.ends_caller {
                    HostError::end_of_runs(failed.error)
                } else {
                    failure(failed.error)
                }
            })
        })
    }
}

/// The task in the arguments of a call (decision A6).
pub fn task_of(arguments: &RawJson) -> String {
    let members = RawObject::from_raw(arguments).unwrap_or_default();
    let text = |value: &RawJson| value.as_string();
    if let Some(task) = members.get(TASK).and_then(text) {
        return task;
    }
    let mut values = members.iter().map(|(_, value)| value);
    match (values.next().and_then(text), values.next()) {
        (Some(task), None) => task,
        _ => arguments.get().to_owned(),
    }
}

/// The tool result for a turn of the agent: the structured output, or the text of the response.
pub fn result_of(turn: &Turn) -> RawJson {
    turn.data.clone().unwrap_or_else(|| RawJson::from_str_value(&turn.response().text()))
}

/// The value of [`result_of`] for a turn, computed from the text of its response.
pub(crate) fn result_of_text(agent: &Agent, text: &str) -> Option<RawJson> {
    let Some(structure) = agent.structure() else { return Some(RawJson::from_str_value(text)) };
    let data = RawJson::from_embedded(text)?;
    if structure.is_wrapped() { unwrapped(&data) } else { Some(data) }
}

fn task_schema() -> RawJson {
    let schema = r#"{"type":"object","properties":{"task":{"type":"string","description":"The task for the sub-agent to perform"}},"required":["task"]}"#;
    RawJson::from_text(schema.to_owned()).unwrap_or_default()
}

/// The first sentence of the system prompt. Not the whole prompt, because it can contain instructions that the calling
/// model must not see.
fn description(agent: &Agent) -> String {
    let prompt = agent.options().system.as_deref().map(system_text).unwrap_or_default();
    let sentence = first_sentence(prompt.trim());
    match (sentence.is_empty(), &agent.options().name) {
        (false, _) => sentence,
        (true, Some(name)) => format!("Hands a task to the agent '{name}' and gives its answer."),
        (true, None) => "Hands a task to another agent and gives its answer.".to_owned(),
    }
}

fn system_text(system: &System) -> String {
    match system {
        System::Text(text) => text.clone(),
        System::Blocks(blocks) => {
            let blocks: Vec<RawJson> = blocks.to().unwrap_or_default();
            let texts =
                blocks.iter().filter_map(|block| RawObject::from_raw(block)?.get("text")?.as_string());
            texts.collect::<Vec<_>>().join("\n")
        }
    }
}

/// The first sentence of a text, or its first line if that is shorter. Shortened to [`MAX_DESCRIPTION_LENGTH`].
fn first_sentence(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default().trim_end();
    let mut ends = line.match_indices(['.', '!', '?']).map(|(place, mark)| place + mark.len());
    let end = ends
        .find(|end| line.get(*end..).is_some_and(|rest| rest.starts_with(char::is_whitespace)))
        .unwrap_or(line.len());
    let sentence = line.get(..end).unwrap_or(line);
    if sentence.chars().count() <= MAX_DESCRIPTION_LENGTH {
        return sentence.to_owned();
    }
    let cut: String = sentence.chars().take(MAX_DESCRIPTION_LENGTH - 1).collect();
    format!("{}…", cut.trim_end())
}
